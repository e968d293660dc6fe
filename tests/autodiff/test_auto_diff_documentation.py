"""The programs of PaDiff's users in docs/prove.md print what stands there."""

import linecache
import re
from pathlib import Path

import pytest
import torch

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "prove.md").read_text(encoding="utf-8")
TEXT = PAGE[PAGE.index("## Calls of PaDiff") :]


@pytest.mark.compat
def test_what_the_program_prints(tmp_path, monkeypatch, capsys):
    torch.manual_seed(0)
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
    head, program = (text for language, text in blocks if language == "python")
    outputs = [text for language, text in blocks if not language]
    file = tmp_path / "example.py"
    program = program.partition("\n")[2]  # without the file's name
    file.write_text(program, encoding="utf-8")
    linecache.checkcache(str(file))
    names = {}
    exec(head, names)
    exec(compile(program, str(file), "exec"), names)
    printed = capsys.readouterr().out.replace(f"{tmp_path}/", "")
    assert names["same"] is False
    assert len(outputs) == 2
    for part in outputs:
        assert part in printed
