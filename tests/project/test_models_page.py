"""docs/models.md: each family's program prints what the page says, for the right pair and with each of the page's mistakes."""

import importlib
import re
import sys

import numpy as np
import paddle
import pytest
import torch
from helpers import ROOT, says, thinned

PAGE = (ROOT / "docs" / "models.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(python)?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
CHANGE = re.compile(r"# change the Paddle half of zoo/(\w+)\.py\n(.*) -> (.*)\n")
ROW = re.compile(r"^\| \[(.+?)\]\(#.+?\) \| \[(\w+)\]\(\S+\) \| .+ \| `(.+)` \|$", re.MULTILINE)
SECTIONS = {section.partition("\n")[0]: section for section in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]}

pytestmark = pytest.mark.usefixtures("undone")


@pytest.fixture(autouse=True)
def beside_the_examples(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "examples"))


def blocks(family):
    return [(bool(kind), text) for kind, text in BLOCK.findall(SECTIONS[family])]


def printed(program, capsys):
    torch.manual_seed(0)
    paddle.seed(0)
    np.random.seed(0)
    exec(compile(program, "program.py", "exec"), {})
    return capsys.readouterr().out


def changed(change, folder, monkeypatch):
    """From now on the pair is imported with the page's mistake in its Paddle half."""
    from zoo.pairs import module_of

    name, right, wrong = CHANGE.fullmatch(change).groups()
    port, original, rest = (ROOT / "examples" / "zoo" / f"{name}.py").read_text(encoding="utf-8").partition("class Torch")
    assert right in port
    path = folder / f"{name}.py"
    path.write_text(port.replace(right, wrong) + original + rest, encoding="utf-8")
    importlib.import_module(f"zoo.{name}")
    monkeypatch.setitem(sys.modules, f"zoo.{name}", module_of(f"zoo.{name}", path))


@pytest.mark.bitexact
@pytest.mark.parametrize("family", thinned(SECTIONS, "Swin", "Recognisers of text (CRNN)"))
def test_a_family_is_proven_and_its_mistakes_are_named(family, tmp_path, monkeypatch, capsys):
    (first, program), (_, output), *rest = blocks(family)
    assert first
    assert len([line for line in program.splitlines() if line.strip()]) <= 10
    says(printed(program, capsys), output)
    assert len(rest) >= 2
    for place in range(0, len(rest), 2):
        (_, change), (_, answer) = rest[place : place + 2]
        folder = tmp_path / str(place)  # a file of its own: Python keeps the lines of one that it has read
        folder.mkdir()
        with monkeypatch.context() as patched:
            changed(change, folder, patched)
            says(printed(program, capsys), answer)


def test_every_family_has_its_row_with_what_its_section_shows():
    rows = ROW.findall(PAGE)
    assert [family for family, _, _ in rows] == list(SECTIONS)
    for family, pair, claim in rows:
        shown = blocks(family)
        assert f"from zoo.{pair} import" in shown[0][1]
        assert claim in shown[3][1]
    chinese = (ROOT / "docs" / "zh" / "models.md").read_text(encoding="utf-8")
    assert [row[1:] for row in ROW.findall(chinese)] == [row[1:] for row in rows]
