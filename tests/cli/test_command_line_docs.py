"""Every command on the pages of the command line, run in order in one folder a page, ends and speaks as the page says."""

import os
import re
import shlex

import forked
import pytest
from helpers import ROOT

from padiff_shim.cli import app, run

INDEX = "command-line.md"
# Where each command has its page: the rows of the index.
OF = dict(re.findall(r"^\| \[`(\w+)`\]\(([\w-]+\.md)", (ROOT / "docs" / INDEX).read_text(encoding="utf-8"), re.MULTILINE))
CHINESE = ("zh/README.md", "zh/prove.md", "zh/run.md")
PAGES = tuple(dict.fromkeys((INDEX, *OF.values(), *CHINESE)))
WORDS = {
    "padiff-shim": ["-m", "padiff_shim"],
    "python": [],
    "pytest": ["-m", "pytest", "-p", "no:randomly", "-p", "padiff_shim.pytest_plugin"],
}
# From here on a line, and the lines up to the next omission, say what depends on the processor: whose sums are rounded how.
DEPENDS = re.compile(
    r"No wrong kernel found|未发现出错的内核|(?<=CODE_CORRECT: )(bit for bit on Torch's kernels|在 Torch 的内核上)|rounding|舍入"
    r"|\b(ROUNDING|EQUAL)\b"
)
MEASURED = re.compile(r"units|entry points|threads")  # whole numbers of such lines are no part of what is promised
NUMBER = r"(?<!\w)\d+(?:[.,]\d+)*(?:e[+-]?\d+)?(?!\w)"


def text_of(page):
    return (ROOT / "docs" / page).read_text(encoding="utf-8")


def blocks(page, language):
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", text_of(page), re.MULTILINE | re.DOTALL)
    return [block for its, block in fenced if its == language]


def sessions(page):
    """(command, its output's lines, exit status) of each line with a dollar sign."""
    for block in blocks(page, ""):
        for part in re.split(r"^\$ ", block.replace("\\\n", " "), flags=re.MULTILINE)[1:]:
            command, *expected = part.rstrip().splitlines()
            status = re.fullmatch(r"\[exit status (\d)\]", expected[-1]) if expected else None
            yield command, expected[:-1] if status else expected, int(status[1]) if status else 0


def passages(lines):
    """What the page shows without a gap: as patterns that find it, however its lines are broken. Words and whole numbers must be
    there; other numbers are measured, or are versions."""
    parts, depends = [[]], False
    for line in lines:
        if line == "...":
            parts.append([])
            depends = False
            continue
        match = DEPENDS.search(line)
        if not depends:
            shown = line[: match.start()] if match else line
            for word in re.findall(rf"{NUMBER}|\w+", re.sub(r"\W+\.\.\.$", "", shown)):
                measured = re.fullmatch(NUMBER, word) and (not word.isdigit() or MEASURED.search(line))
                parts[-1].append(NUMBER if measured else rf"\b{re.escape(word)}\b")
            depends = match is not None
    return [r"\W*".join(words) for words in parts if words]


def check(expected, out):
    """Each passage is in the output, behind the one before."""
    place = 0
    for pattern in passages(expected):
        match = re.compile(pattern).search(out, place)
        assert match, f"{pattern}\n--- not in:\n{out[place:]}\n--- said:\n" + "\n".join(expected)
        place = match.end()


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_the_page(page, tmp_path):
    files = ("prove.md", page) if page == "ci.md" else (page,)  # the page shows the findings of that port
    for block in (block for source in (INDEX, *files) for block in blocks(source, "python")):
        name, _, program = block.partition("\n")
        if re.fullmatch(r"# \w+\.py", name):
            (tmp_path / name[2:]).write_text(program)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    shown = list(sessions(page))
    assert shown
    for command, expected, status in shown:
        program, *arguments = shlex.split(command)
        done = forked.run([*WORDS[program], *arguments], cwd=tmp_path, together=True, COLUMNS="100")
        assert done.returncode == status, f"{command}\n{done.stdout}"
        out = done.stdout.replace(f"{tmp_path}{os.sep}", "").replace("python -m padiff_shim ", "padiff-shim ")
        check(expected, out)


def test_a_page_that_says_something_else_is_found():
    check(["1 of 2 calls | x", "...", "done in 0.31 s: rounding of a", "c"], "here 1 of 2\ncalls | x\nmore\ndone in 7.5 s, EQUAL")
    for expected in (["1 of 3 calls"], ["calls", "1 of 2"], ["2 call"]):
        with pytest.raises(AssertionError):
            check(expected, "1 of 2 calls")


def test_every_command_has_a_page():
    assert list(OF) == list(app.COMMANDS)
    for name, page in OF.items():
        assert f"\n$ padiff-shim {name}" in text_of(page)


@pytest.mark.parametrize("name", app.COMMANDS)
def test_every_option_of_a_command_is_on_its_page(name):
    """Options of a mode are on that mode's page; the index has those that many commands share."""
    text = text_of(OF[name]) + text_of(INDEX)
    options = [parameter for parameter in app.app.get_command(None, name).params if parameter.param_type_name == "option"]
    own = [option for option in options if not isinstance(option, run.Option)]
    spellings = [next(word for word in (*option.secondary_opts, *option.opts) if word.startswith("-")) for option in own]
    assert [word for word in spellings if f"`{word}" not in text and f" {word} " not in text] == []
