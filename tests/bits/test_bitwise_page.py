"""docs/bitwise.md is what the declarations say."""

import importlib.util
import re

import pytest
from helpers import ROOT

import padiff_shim
from padiff_shim.bits import document
from padiff_shim.catalogue.formulations import formulations


@pytest.fixture(scope="module")
def page():
    return document.PAGE.read_text(encoding="utf-8")


def test_the_page_is_up_to_date():
    assert document.PAGE == ROOT / "docs" / "bitwise.md"
    assert document.main(["--check"]) == 0


def test_the_page_shows_every_spelling(page):
    for formulation in formulations().values():
        assert f"| **{formulation.name}** |" in page
        for spelling in formulation.spellings:
            assert document._code(spelling.paddle) in page


def test_figures_stand_where_bits_differ(page):
    cells = [line.split(" | ") for line in page.splitlines() if line.startswith("| **") and line.count(" | ") == 6]
    shown = {row[0].strip("| *"): row[3:5] for row in cells}
    assert shown["order of a sum over ranks"][0].startswith("forward 1 ulp")
    for name, figures in shown.items():
        differing = {**formulations()[name].differs, **formulations()[name].may_differ}
        for dtype, figure in zip(document.DTYPES, figures):
            assert figure == "=" or dtype in differing
            assert figure == "=" or re.search(r"(forward|gradient) (zeros|[\d.e-]+ ulp), [\d.]+ %", figure)
            assert ("*here*" in figure) <= (dtype in formulations()[name].may_differ)


def test_the_program_of_the_page_runs(page, capsys):
    """It shows what the other ways to scale attention give; they differ by rounding alone."""
    (program,) = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    exec(program, {})
    lines = capsys.readouterr().out.splitlines()
    assert {line.rpartition(" ")[0] for line in lines} >= {
        spelling.paddle for spelling in formulations()["scale of attention"].spellings[1:]
    }
    assert all(float(line.rpartition(" ")[2]) < 1e-5 for line in lines)


def test_only_figures_may_be_others(page, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(document, "PAGE", tmp_path / "bitwise.md")
    for changed, status in (
        (page, 0),
        (re.sub(r"[\d.]+ ulp", "7 ulp", page), 0),
        (re.sub("one thread, on .*", "one thread, on another machine.", page), 0),
        (page.replace("order of a sum over ranks", "order of ranks"), 1),
        (page.replace("`x * (1 / c)`", "`x * 1 / c`"), 1),
    ):
        document.PAGE.write_text(changed, encoding="utf-8")
        assert document.main(["--check"]) == status
    assert "make docs" in capsys.readouterr().err


def test_writing_it(tmp_path, monkeypatch, capsys):
    few = {name: formulations()[name] for name in ("division by a number", "square")}
    monkeypatch.setattr(document, "formulations", lambda: few)
    monkeypatch.setattr(document, "PAGE", tmp_path / "bitwise.md")
    assert document.main(["--check"]) == 1
    assert document.main([]) == 0
    assert document.main(["--check"]) == 0
    assert "1 computations in 2 spellings" in document.PAGE.read_text(encoding="utf-8")
    monkeypatch.setattr(document, "PAGE", tmp_path / "nowhere" / "bitwise.md")
    assert document.main([]) == 1
    assert "checkout" in capsys.readouterr().err


def test_the_example_says_what_the_page_shows(page, monkeypatch):
    """But for figures, which depend on the machine's kernels."""
    monkeypatch.chdir(ROOT)
    spec = importlib.util.spec_from_file_location("bitwise_port", ROOT / "examples" / "bitwise_port.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    answer = padiff_shim.bitwise(example.Port(), example.Original(), example.batch(), weights="random")
    shown = page.partition("--weights random\n")[2].partition("[exit status")[0]
    assert _without_figures(answer.text(110)) == _without_figures(shown)


def _without_figures(text):
    lines = [re.sub(r"\d+(\.\d+)?( ulp|%)", "", line).rstrip() for line in text.splitlines() if not line.startswith(("│", "┃"))]
    return [re.sub("[━─┏┳┓┡╇┩└┴┘]+", "", line) for line in lines if line]
