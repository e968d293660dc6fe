"""Each defect's program shows it on the versions that it is claimed for; what ends a process runs in one of its own."""

import json
import re
import subprocess
import sys
import textwrap

import paddle
import pytest
import torch
from helpers import PATIENCE

import padiff_shim
from padiff_shim.catalogue import known_differences
from padiff_shim.catalogue.defects import SHOWN, defects, groups, reproducer
from padiff_shim.tested import PADDLES

pytestmark = pytest.mark.compat

INSTALLED = {"paddle": paddle.__version__, "torch": torch.__version__.partition("+")[0]}
CASES = [pytest.param(one, program, id=title) for one in defects().values() for title, program in one.programs()]
QUIET = [case for case in CASES if not case.values[0].ends_process]
FATAL = [case for case in CASES if case.values[0].ends_process]
SECONDS = 5  # of a program that may hang

# Imports both frameworks once and forks for each program, so that a crash costs nothing. A hang is ended by the alarm; the other
# programs run beside it, one after the other. What they print themselves goes elsewhere than what is said of them.
SERVER = """
import json, os, signal, sys, warnings
import numpy, paddle, torch
warnings.simplefilter("ignore")
programs, children = json.load(sys.stdin), {}
answers = os.dup(1)
os.dup2(2, 1)
for title, (program, seconds) in sorted(programs.items(), key=lambda item: item[1][1]):
    child = os.fork()
    if not child:
        signal.alarm(seconds)
        status = 0
        try:
            exec(compile(program, title, "exec"), {"__name__": "__main__"})
        except BaseException as error:
            os.write(answers, f"{title}\\t{type(error).__name__}\\n".encode())
            status = 1
        os._exit(status)
    children[title] = child
    if seconds == max(limit for _, limit in programs.values()):
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
statuses = {title: os.waitpid(child, 0)[1] for title, child in children.items()}
ended = {title: signal.Signals(os.WTERMSIG(status)).name for title, status in statuses.items() if os.WIFSIGNALED(status)}
os.write(answers, json.dumps(dict.fromkeys(programs, "") | ended).encode())
"""


def claimed(one):
    """Whether it was seen on the versions that are installed."""
    return INSTALLED["paddle"] in one.paddle or INSTALLED["torch"] in one.torch


@pytest.fixture(scope="module")
def ended():
    """Title -> how the program ended: the name of a signal or of an error's type, "" without either."""
    programs = {
        title: (program, SECONDS if "hangs" in one.shows else PATIENCE)
        for one in defects().values()
        if claimed(one) and one.ends_process
        for title, program in one.programs()
    }
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SERVER)],
        input=json.dumps(programs), capture_output=True, text=True, timeout=PATIENCE, check=True,
    )  # fmt: skip
    *errors, last = run.stdout.splitlines()
    return {**json.loads(last), **dict(line.split("\t") for line in errors if line.count("\t") == 1)}


@pytest.mark.parametrize(("one", "program"), QUIET)
def test_it_shows(one, program):
    try:
        exec(compile(program, one.name, "exec"), {"__name__": "__main__"})
        shown = False
    except AssertionError:
        shown = True
    except (AttributeError, RuntimeError, TypeError, ValueError) as error:  # another version's functions, and what 2.6 refuses
        assert not claimed(one)
        pytest.skip(f"not in {INSTALLED}: {error}")
    if claimed(one) and one.by_processor and not shown:
        pytest.skip("this processor's kernels have it not")
    assert shown == claimed(one)


@pytest.mark.parametrize(("one", "program"), FATAL)
def test_it_ends_so(one, program, ended, request):
    if not claimed(one):
        pytest.skip(f"not seen on {INSTALLED}")
    how = ended[request.node.callspec.id]
    if one.by_processor and not how:
        pytest.skip("this processor's kernels have it not")
    accepted = {
        "hangs": how == "SIGALRM",
        "killed or hangs": how.startswith("SIG"),
        "anything but a TypeError": how != "TypeError",
    }
    assert accepted.get(one.shows, how == one.shows), how


@pytest.mark.parametrize(("one", "program"), CASES)
def test_a_program_can_be_sent_as_it_is(one, program):
    assert "padiff" not in program
    assert len(program.splitlines()) <= 15
    assert set(re.findall(r"^import (.*)$", program, re.M)) <= {
        "paddle", "torch", "numpy as np, paddle", "numpy as np, torch", "paddle, torch", "sys, paddle",
        "signal, paddle",
        "numpy as np, paddle, torch", "paddle.nn.functional as F",
    }  # fmt: skip


def test_entries():
    names = {quirk.name for quirk in known_differences.shipped()}
    assert {one.known for one in defects().values()} - {""} <= names
    for one in defects().values():
        assert one.paddle or one.torch
        ways = (SHOWN, "SIGSEGV", "SIGFPE", "SIGILL", "SIGABRT", "RuntimeError", "SystemError", "ValueError", "hangs")
        assert one.shows in ways or " " in one.shows
        assert all(text.strip() == text for text in (one.name, one.op, one.what, one.size, one.shim))


def test_what_the_newest_paddle_has_not_stands_apart():
    assert PADDLES[-1] == "3.3.1"
    mended = {one.name for one in groups()["Mended in Paddle 3.3.1"]}
    assert mended == {one.name for one in defects().values() if one.paddle and PADDLES[-1] not in one.paddle}


def test_every_known_difference_has_a_program():
    shown = {one.known for one in defects().values()}
    shown |= {"epsilon in float32"}  # among the numbers held in float32
    shown |= {"norms bounded together", "range left on the way"}  # no defects: test_defects_named.py has calls of theirs
    assert shown >= {quirk.name for quirk in known_differences.shipped()}


def test_the_text_of_a_program():
    assert padiff_shim.testing.reproducer("frozen layer norm") == defects()["frozen layer norm"].program
    assert "F.celu" in reproducer("numbers held in float32: celu")
    with pytest.raises(padiff_shim.UnknownNameError, match="'frozen layer norm'"):
        reproducer("frozen layernorm")
