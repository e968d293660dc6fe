"""docs/prove.md shows what the example of bits prints."""

import importlib.util
import re

from helpers import ROOT

import padiff_shim


def test_the_example_says_what_the_page_shows(monkeypatch):
    """But for figures, which depend on the machine's kernels."""
    monkeypatch.chdir(ROOT)
    spec = importlib.util.spec_from_file_location("bitwise_port", ROOT / "examples" / "bitwise_port.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    answer = padiff_shim.prove(example.Port(), example.Original(), example.batch(), weights="random").bits()
    page = (ROOT / "docs" / "prove.md").read_text(encoding="utf-8")
    shown = page.partition("--weights random --bits\n")[2].partition("[exit status")[0]
    assert _without_figures(answer.text(110)) == _without_figures(shown)


def _without_figures(text):
    lines = [re.sub(r"\d+(\.\d+)?( ulp|%)", "", line).rstrip() for line in text.splitlines() if not line.startswith(("│", "┃"))]
    return [re.sub("[━─┏┳┓┡╇┩└┴┘]+", "", line) for line in lines if line]
