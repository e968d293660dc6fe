"""docs/port-a-model.md takes a newcomer from a port to its proof: its programs run, and print what it says."""

import os
import re
from pathlib import Path

import forked
import pytest
from helpers import says

ROOT = Path(__file__).resolve().parents[2]
BLOCKS = re.compile(r"^```(python)?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PAGES = {"en": ROOT / "docs" / "port-a-model.md", "zh": ROOT / "docs" / "zh" / "port-a-model.md"}
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language="en"):
    """(whether it is a program, its text) in order."""
    return [(bool(kind), text) for kind, text in BLOCKS.findall(PAGES[language].read_text(encoding="utf-8"))]


def program(folder, name, language):
    """What a program prints, run in a process of its own as a newcomer would."""
    path = os.pathsep.join([str(ROOT), str(folder)])
    done = forked.run([name], cwd=folder, PYTHONPATH=path, COLUMNS="200", PADIFF_SHIM_LANG=language)
    assert done.returncode == 0, done.stderr
    return done.stdout


def mended(text, changes):
    for line in changes.strip().splitlines()[1:]:
        wrong, right = line.split(" -> ")
        assert wrong in text
        text = text.replace(wrong, right)
    return text


@pytest.mark.bitexact
@pytest.mark.slow
@pytest.mark.parametrize("language", PAGES)
def test_the_way_from_a_port_to_its_proof(language, tmp_path):
    last, count, shown = "", 0, ""
    for is_program, text in blocks(language):
        title = text.splitlines()[0].removeprefix("# ")
        if is_program:
            (tmp_path / title).write_text(text, encoding="utf-8")
            if title not in ("original.py", "port.py"):
                last, shown, count = program(tmp_path, title, language), title, count + 1
        elif title == "mend port.py":
            port = tmp_path / "port.py"
            port.write_text(mended(port.read_text(encoding="utf-8"), text), encoding="utf-8")
            last = program(tmp_path, shown, language)
        else:
            says(last, text)
    assert count == 4
    assert (tmp_path / "proof.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert (tmp_path / "classifier.pdparams").stat().st_size > 0


def test_the_proof_takes_ten_lines_and_stands_in_the_readme():
    (lines,) = (text for is_program, text in blocks() if text.startswith("# prove.py"))
    code = [line for line in lines.splitlines() if line.strip() and not line.startswith("#")]
    assert len(code) <= 10
    readme = README[: README.index("make demo-models")]
    assert all(line in readme for line in code if "import" not in line)
    assert readme.index("make demo ") < readme.index("make test") < readme.index("padiff_shim.prove(")
    assert "docs/port-a-model.md" in readme
