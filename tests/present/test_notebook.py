"""Notebooks: results are text where text is asked for, small tables where they are shown, and cells have their names."""

import html
import re
from pathlib import Path

import nbformat
import pytest
from helpers import PATIENCE
from nbclient import NotebookClient

from padiff_shim import notebook
from padiff_shim.present import document
from padiff_shim.present.result import LARGEST, ROWS, excerpt

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "notebook.ipynb"
FURTHER = """
from padiff_shim.progress import Bar, Waiting
text = str(proof)
print(len(text), len(f"{run}"), len(proof.text()), len(proof.markdown()))
assert text.startswith("CODE_CORRECT") and max(map(len, text.splitlines())) <= 100
assert "Command" not in str(run), "of the kernel of the notebook"
"""
SLOW = """
import time
from padiff_shim.report.live import LiveInNotebook
with Waiting("thinking", patience=0.0):
    time.sleep(0.7)
with Bar("auditing", 2) as bar:
    bar.advance()
live = LiveInNotebook(iter([0, 0, 9, 9, 9]).__next__)
live.show(run.counts, {"op": "exp"})
live.show(run.counts, {"op": "exp"})
live.stop()
"""


class Watched(NotebookClient):
    """Notes what the last cell shows on the way; the others show a line if the machine is slow."""

    def process_message(self, message, cell, cell_index):
        if cell.source == SLOW and message["msg_type"] in ("display_data", "update_display_data"):
            self.shown.append((message["msg_type"], message["content"]["data"].get("text/plain")))
        return super().process_message(message, cell, cell_index)


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """The example and two cells more, executed once: (cells of code, what was shown on the way)."""
    made = nbformat.read(EXAMPLE, as_version=4)
    made.cells += [nbformat.v4.new_code_cell(source) for source in (FURTHER, SLOW)]
    with pytest.MonkeyPatch.context() as patch:
        for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
            patch.setenv(name, str(tmp_path_factory.mktemp("jupyter")))
        patch.setenv("PYTHONPATH", str(ROOT))
        client = Watched(made, timeout=PATIENCE, kernel_name="python3")
        client.shown = []
        client.execute()
    return [cell for cell in made.cells if cell.cell_type == "code"], client.shown


def result(ran, source):
    """The outputs of the only cell that holds ``source``."""
    (cell,) = (cell for cell in ran[0] if source in cell.source)
    return cell.outputs


def printed(outputs):
    return "".join(output.text for output in outputs if output.output_type == "stream" and output.name == "stdout")


@pytest.mark.slow
def test_results_are_shown_as_small_tables_with_their_page(ran):
    shown = [output.data for cell in ran[0] for output in cell.outputs if output.output_type == "execute_result"]
    assert len(shown) == 10  # two proofs, mapping, run, comparison, drift, bits, report, gate, difference
    for data in shown:
        page = data["text/html"].partition("<iframe")
        assert page[1]
        assert "&lt;!doctype html&gt;" in page[2]
        assert len(page[0]) < 8000
        assert data["text/plain"].splitlines()[0].partition(":")[0][:9] in html.unescape(re.sub("<[^>]*>", "", page[0]))
    assert sum("<table>" in data["text/html"] for data in shown) == 8  # identical bits and a gate that passes need none


@pytest.mark.slow
def test_nothing_is_shown_that_nobody_wants(ran):
    quiet = [cell for cell in ran[0] if cell.source != SLOW]
    left = [output.data["text/plain"] for cell in quiet for output in cell.outputs if output.output_type == "display_data"]
    assert not any(left), "what a line of progress leaves is empty"
    sizes = list(map(int, printed(result(ran, "len(text)")).split()))
    assert len(sizes) == 4
    assert min(sizes) > 300


@pytest.mark.slow
def test_lines_are_named_by_their_cell(ran):
    outputs = result(ran, "padiff_shim.prove(Port(), original")
    (wrong,) = [output for output in outputs if output.output_type == "execute_result"]
    assert "at Cell In[3], line 22" in " ".join(wrong.data["text/plain"].split())
    assert "write epsilon=1e-05" in wrong.data["text/html"]
    everything = nbformat.writes(nbformat.v4.new_notebook(cells=ran[0]))
    assert not re.search(r"ipykernel_\d|<ipython-input", everything)


@pytest.mark.slow
def test_carriers_are_printed_as_a_table(ran):
    text = printed(result(ran, "print(proof.carriers())"))
    assert re.match(r"[\d.]+%", text)
    assert re.search(r"│ [\w.]+ +│ \w+ +│ +\d+ │", text)  # which carries most depends on the processor


@pytest.mark.slow
def test_progress_is_written_anew_in_place(ran):
    """Each line is shown once, updated, and empty in the end."""
    kinds = [kind for kind, _ in ran[1]]
    assert kinds.count("display_data") == 3
    assert [text for kind, text in ran[1] if kind == "display_data"] != [""] * 3
    assert any("thinking" in text for _, text in ran[1])
    assert any("1/2" in text or "0/2" in text for _, text in ran[1])
    assert any("records" in text for _, text in ran[1])
    assert [output.data["text/plain"] for output in result(ran, "LiveInNotebook")] == [""] * 3


def test_files_are_no_cells():
    assert notebook.cell("model.py") == ""
    assert notebook.cell("<ipython-input-12-0f3a>") == "Cell In[12]"
    assert not notebook.running()


def test_an_excerpt_is_no_markup_and_leaves_out_a_page_that_is_too_large():
    evil = "<script>alert(1)</script>"
    table = document.Table([document.Column(evil)], [(evil,)] * 9, tones=["bad"] * 9)
    made = document.Document(f"BAD: {evil}", [document.Section(evil, [table])], "bad")
    written = excerpt(made, f"<p>{evil}</p>" * 9)
    assert "<script" not in written
    assert written.count("<tr>") == 1 + ROWS
    assert "and 3 more" in written
    assert "<iframe" not in excerpt(made, "x" * (LARGEST + 1))
