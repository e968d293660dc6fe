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
    for program, said in BLOCKS.findall(TEXT.read_text()):
        with contextlib.redirect_stdout(io.StringIO()) as found:
            exec(program, names)
        yield found.getvalue(), said


def lines(text):
    return [line.rstrip() for line in text.strip().splitlines()]


@pytest.mark.compat
def test_what_the_programs_print(monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    found = list(printed())
    assert len(found) == 4
    for program, said in found:
        assert lines(program) == lines(said)
