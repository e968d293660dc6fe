"""Temporary folders: gone with what holds them, with the process, or, where that was killed, with the next one."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import forked
import pytest
from helpers import PATIENCE, thinned

ROOT = Path(__file__).resolve().parents[2]

HELD = "from padiff_shim.files import Scratch\nheld = [Scratch(), Scratch()]\n(held[0].path / 'log').write_text('calls')\n"
WAITS = HELD + "print('ready', flush=True)\ninput()\n"
RUN = """
import paddle, padiff_shim
with padiff_shim.compare("torch", progress=False) as run:
    paddle.exp(paddle.ones([3]))
assert run.recorder.folder.is_dir()
"""

ENDINGS = ("", "raise ValueError", "import sys; sys.exit(3)", "def f(): f.run = run\nf(); del run")


@pytest.fixture
def started(tmp_path):
    """Start a program whose temporary folders lie in ``tmp_path``, with its standard streams open."""
    running = []

    def start(program):
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path)}
        streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        running.append(subprocess.Popen([sys.executable, "-c", program], env=environment, **streams))
        return running[-1]

    yield start
    for process in running:
        process.kill()
        process.communicate()


def _left(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.compat
@pytest.mark.parametrize("ending", thinned(ENDINGS, "raise ValueError"))
def test_a_run_leaves_nothing(tmp_path, ending):
    done = forked.run(["-c", RUN + ending], warm=True, TMPDIR=str(tmp_path))
    assert done.returncode == {"raise ValueError": 1, "import sys; sys.exit(3)": 3}.get(ending, 0), done.stderr
    assert not _left(tmp_path)


def test_nothing_stays_when_nobody_holds_it(started, tmp_path):
    child = started(
        HELD + "held.pop()\nassert len(list(held[0].path.parent.iterdir())) == 2, 'a folder and the lock'\n"
        "del held\nimport os\nassert not os.listdir(os.environ['TMPDIR'])\n"
        "with Scratch() as folder: assert folder.is_dir()\nassert not os.listdir(os.environ['TMPDIR'])"
    )
    _, output = child.communicate(timeout=PATIENCE)
    assert child.returncode == 0, output


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM], ids=lambda ending: ending.name)
def test_the_next_process_removes_what_a_killed_one_left_and_nothing_else(started, tmp_path, ending):
    killed, lives = started(WAITS), started(WAITS)
    assert killed.stdout.readline() == lives.stdout.readline() == "ready\n"
    (tmp_path / "padiff_shim-of_no_lock").mkdir()
    (tmp_path / "padiff_shim-file").write_text("")
    (tmp_path / "padiff_shim-link").symlink_to(tmp_path / "padiff_shim-of_no_lock")
    killed.send_signal(ending)
    killed.wait(PATIENCE)
    assert len(_left(tmp_path)) == 5
    following = started(HELD)
    _, output = following.communicate(timeout=PATIENCE)
    assert following.returncode == 0, output
    assert len(_left(tmp_path)) == 4
    lives.communicate("\n", timeout=PATIENCE)
    assert _left(tmp_path) == ["padiff_shim-file", "padiff_shim-link", "padiff_shim-of_no_lock"]


def test_a_forked_child_removes_nothing_of_its_parents_and_all_of_its_own(started, tmp_path):
    child = started(
        HELD + "import os, sys\nif os.fork() == 0:\n    own = Scratch()\n    assert own.path.parent != held[0].path.parent\n"
        "    del held, own\n    sys.exit(0)\nassert os.wait()[1] == 0\n"
        "assert held[0].path.is_dir()\nassert len(os.listdir(os.environ['TMPDIR'])) == 1\n"
    )
    _, output = child.communicate(timeout=PATIENCE)
    assert child.returncode == 0, output
    assert not _left(tmp_path)
