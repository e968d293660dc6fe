"""The programs of docs/transfer-weights.md print what stands there."""

import contextlib
import io
import re
from pathlib import Path

import pytest
import torch

TEXT = Path(__file__).resolve().parents[2] / "docs" / "transfer-weights.md"
BLOCKS = re.compile(r"```python\n(.*?)```\n(?:\n```\n(.*?)```)?", re.DOTALL)


def printed():
    """(what each program prints, what the text says that it prints)."""
    names = {}
    torch.manual_seed(0)
    for program, expected in BLOCKS.findall(TEXT.read_text()):
        with contextlib.redirect_stdout(io.StringIO()) as output:
            exec(program, names)
        yield output.getvalue(), expected


def lines(text):
    """But for the versions."""
    return [line.rstrip() for line in text.strip().splitlines() if not line.startswith("paddle ")]


@pytest.mark.compat
def test_what_the_programs_print(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    programs = list(printed())
    assert len(programs) == 5
    for program, expected in programs:
        assert lines(program) == lines(expected)
