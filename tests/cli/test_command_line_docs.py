"""Every command of docs/command-line.md and docs/pytest.md, run in order in one folder, ends and speaks as the page says."""

import os
import re
import subprocess
import sys

import pytest
from helpers import ROOT

PAGES = ("command-line.md", "pytest.md")
WORDS = {"padiff-shim": ["-m", "padiff_shim"], "python": [], "pytest": ["-m", "pytest", "-p", "padiff_shim.pytest_plugin"]}


def blocks(page, language):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [block for its, block in fenced if its == language]


def sessions(page):
    """(command, its output's lines, exit status) of each line with a dollar sign."""
    for block in blocks(page, ""):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *said = part.rstrip().splitlines()
            status = re.fullmatch(r"\[exit status (\d)\]", said[-1]) if said else None
            yield command, said[:-1] if status else said, int(status[1]) if status else 0


def plain(text):
    """Words alone: figures, rules and line breaks depend on the machine, its versions and its terminal."""
    return re.sub(r"\W+", " ", re.sub(r"[\d.]*\d(e[+-]\d+)?(\+cpu)?", "0", text))


def same_beginning(said, out):
    """The documented lines up to the first that was left out, as far as they hold no verdicts, which depend on the machine."""
    kept = []
    for line in said:
        if line == "..." or "rounding" in line.lower():
            break
        kept.append(line.partition(" | ...")[0])
    return plain("\n".join(kept)).strip() in plain(out)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_the_page(page, tmp_path):
    for block in blocks(page, "python"):
        name, _, program = block.partition("\n")
        if name.startswith("# "):
            (tmp_path / name[2:]).write_text(program)
    variables = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "COLUMNS": "100", "PYTHONWARNINGS": "ignore"}
    shown = list(sessions(page))
    assert shown
    for command, said, status in shown:
        program, *arguments = command.split()
        done = subprocess.run(
            [sys.executable, *WORDS[program], *arguments], cwd=tmp_path, env={**os.environ, **variables}, timeout=240,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8",
        )  # fmt: skip
        assert done.returncode == status, f"{command}\n{done.stdout}"
        out = done.stdout.replace(f"{tmp_path}{os.sep}", "")
        assert same_beginning(said, out), f"{command}\n{out}\n--- said:\n" + "\n".join(said)


def test_every_command_has_a_section():
    from padiff_shim.cli.app import COMMANDS

    text = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    assert [name for name in COMMANDS if f"\n## padiff-shim {name}" not in text] == []
