"""docs/ops.md is what the declarations say."""

import subprocess
import sys

import pytest
from padiff_shim.patches import _unsubstituted

from padiff_shim.catalogue import document
from padiff_shim.catalogue.registry import families, ops

pytestmark = pytest.mark.compat


@pytest.fixture(scope="module")
def rows():
    """{op: cells of its row}"""
    lines = [line for line in document.text().splitlines() if line.startswith("| `")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return {row[0].strip("`"): dict(zip(document._COLUMNS, row, strict=True)) for row in cells}


def test_the_page_is_up_to_date_and_needs_no_paddle():
    root = document.PAGE.parents[1]
    program = "import sys; from padiff_shim.catalogue.document import main; print(main(['--check']), 'paddle' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True)
    assert run.stdout.split() == ["0", "False"], run.stderr


def test_every_op_has_a_row_with_all_its_doors(rows):
    assert set(rows) == set(ops())
    for name, row in rows.items():
        shown = (row["spellings"] + "," + row["in place"]).replace("`", "").replace("legacy ", "_legacy_C_ops.")
        last = {spelling.rpartition(".")[2] for spelling in shown.split(",") if spelling.strip()}
        assert last == {entry.target.rpartition(".")[2] for entry in ops()[name].entries}


def test_what_a_row_says(rows):
    assert rows["softmax"]["judge"] == "`Softmax`"
    assert '"softmax clipped at -64"' in rows["softmax"]["known differences"]
    assert rows["softmax"]["in place"] == "`_C_ops.softmax_`, `legacy softmax_`"
    assert "float64: Paddle rounds epsilon to float32" in rows["layer_norm"]["known differences"].replace("float64, gradient ", "")
    assert rows["sin"]["judge"] == "generic"
    assert rows["abs"]["judge"] == "exact, ties"
    assert rows["concat"]["judge"] == "exact"
    assert rows["relu6"]["judge"] == "generic, ties"
    assert rows["uniform"]["judge"] == "not judged"
    assert rows["conv2d"]["level"] == "function, C op"
    assert rows["sum"]["gradient"] == "floats"
    assert all(row["level"] for row in rows.values())


def test_families_and_native_ops_are_all_there():
    text = document.text()
    assert all(f"\n## {family}\n" in text for family in families())
    native = text[text.index("## What stays native") :].replace("\n", " ")
    for name in (*_unsubstituted.EXACT, *_unsubstituted.NATIVE, *_unsubstituted.LEGACY):
        assert f"`{name}`" in native
    assert all(f"`{prefix}*`" in native for prefix in _unsubstituted.PREFIXES)


def test_writing_and_checking(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(document, "PAGE", tmp_path / "ops.md")
    assert document.main(["--check"]) == 1
    assert "make docs" in capsys.readouterr().err
    assert document.main([]) == 0
    assert document.main(["--check"]) == 0
    (tmp_path / "ops.md").write_text("old", encoding="utf-8")
    assert document.main(["--check"]) == 1
    monkeypatch.setattr(document, "PAGE", tmp_path / "nowhere" / "ops.md")
    assert document.main([]) == 1
    assert "checkout" in capsys.readouterr().err
