"""docs/models.md in both languages: each family's program prints what the page says, as it is and with each of its mistakes."""

import importlib
import re
import sys

import numpy as np
import paddle
import pytest
import torch
from helpers import ROOT, says, thinned

PAGES = {
    language: (ROOT / "docs" / folder / "models.md").read_text(encoding="utf-8") for language, folder in (("en", ""), ("zh", "zh"))
}
BLOCK = re.compile(r"^```(python)?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
CHANGE = re.compile(r"# change the Paddle half of zoo/(\w+)\.py\n(.*) -> (.*)\n")
ROW = re.compile(r"^\| \[(.+?)\]\(#.+?\) \| \[(\w+)\]\(\S+\) \| .+ \| `(.+)` \|$", re.MULTILINE)
SECTIONS = {
    (language, section.partition("\n")[0]): section
    for language, page in PAGES.items()
    for section in re.split(r"^## ", page, flags=re.MULTILINE)[1:]
}

pytestmark = pytest.mark.usefixtures("undone")


@pytest.fixture(autouse=True)
def beside_the_examples(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "examples"))


def blocks(section):
    return [(bool(kind), text) for kind, text in BLOCK.findall(SECTIONS[section])]


def label(section):
    """The language and the pair of a section."""
    return "-".join((section[0], *re.findall(r"from zoo\.(\w+)", SECTIONS[section])))


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
    monkeypatch.setitem(sys.modules, f"zoo.{name}", importlib.import_module(f"zoo.{name}"))  # to have it back
    module_of(f"zoo.{name}", path)


@pytest.mark.bitexact
@pytest.mark.parametrize(
    "section",
    thinned(SECTIONS, ("zh", "Swin")),
    ids=label,
)
def test_a_family_is_proven_and_its_mistakes_are_named(section, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PADIFF_SHIM_LANG", section[0])
    (first, program), (_, output), *rest = blocks(section)
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


@pytest.mark.parametrize("language", PAGES)
def test_every_family_has_its_row_with_what_its_section_shows(language):
    rows = ROW.findall(PAGES[language])
    sections = [section for section in SECTIONS if section[0] == language]
    assert [(language, family) for family, _, _ in rows] == sections
    for section, (_, pair, claim) in zip(sections, rows):
        shown = blocks(section)
        assert f"from zoo.{pair} import" in shown[0][1]
        assert claim in shown[3][1]


def test_both_languages_have_the_same_changes():
    english, chinese = ([CHANGE.findall(SECTIONS[section]) for section in SECTIONS if section[0] == language] for language in PAGES)
    assert english == chinese
