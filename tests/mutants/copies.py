"""Copies of a tree, in which tests run."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
OUTSIDE = ("tests/mutants/", "tests/project/test_mutants.py")  # they say that the product's text is as it is
LEFT_OUT = ("PYTHONHOME", "PYTEST_ADDOPTS", "PYTHONDONTWRITEBYTECODE")  # a copy's processes import the same modules
_running: set[subprocess.Popen[bytes]] = set()
_ending = threading.Event()


class Ended(NamedTuple):
    """How a pytest ended: ``status`` None says that its time was up; ``outcomes``: what the plugin wrote."""

    status: int | None
    outcomes: list[dict[str, Any]]
    seconds: float
    text: str

    def failures(self) -> list[str]:
        """The tests that failed, each once, in their order; also the files that could not be collected."""
        return list(dict.fromkeys(outcome["test"] for outcome in self.outcomes if outcome["failed"]))

    def last(self) -> str:
        """The test that ran when it ended; "" if none had begun."""
        return next((outcome["test"] for outcome in reversed(self.outcomes)), "")


class Copy:
    """The tracked files of a tree in a folder of their own."""

    def __init__(self, tree: Path, folder: Path) -> None:
        self.root, self._beside = folder / "tree", folder / "beside"
        for name in tracked(tree):
            target = self.root / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(tree / name, target, follow_symlinks=False)
        self._beside.mkdir()
        shutil.copy(HERE / "outcomes.py", self._beside / "mutants_outcomes.py")

    def test(self, words: Sequence[str], limit: float) -> Ended:
        """Run pytest with these words in the copy; the processes that it leaves are ended."""
        notes, output = self._beside / "outcomes", self._beside / "output"
        notes.unlink(missing_ok=True)
        environment = {name: value for name, value in os.environ.items() if name not in LEFT_OUT}
        environment.update(PYTHONPATH=str(self._beside), MUTANTS_OUTCOMES=str(notes))
        environment.setdefault("OMP_NUM_THREADS", "1")
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "mutants_outcomes", "-n", "0", *words]
        start = time.monotonic()
        with output.open("wb") as file:
            process = subprocess.Popen(
                command, cwd=self.root, env=environment, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
            )
        _running.add(process)
        try:
            if _ending.is_set():  # it began when the others were ended
                end(process)
            process.wait(limit)
        except subprocess.TimeoutExpired:
            status = None
        else:
            status = process.returncode
        finally:
            end(process)
            _running.discard(process)
        if _ending.is_set():
            raise KeyboardInterrupt
        return Ended(status, _read(notes), time.monotonic() - start, output.read_text(errors="replace"))


@contextlib.contextmanager
def copied(tree: Path) -> Iterator[Copy]:
    """A copy that is removed afterwards."""
    with TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as folder:
        yield Copy(tree, Path(folder))


def tracked(tree: Path) -> list[str]:
    """The files of a checkout, without the faults and the test that looks at them."""
    names = _git(tree, "ls-files", "-z").split("\0")
    return [name for name in names if name and not name.startswith(OUTSIDE) and (tree / name).is_file()]


def commit_of(tree: Path) -> str:
    """Its commit, and whether something was changed since."""
    return _git(tree, "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*").strip()


def end(process: subprocess.Popen[bytes]) -> None:
    """A process and its children."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextlib.contextmanager
def workers(count: int) -> Iterator[ThreadPoolExecutor]:
    """Threads that run tests; when something ends the block early, a Ctrl-C say, the tests end at once."""
    with ThreadPoolExecutor(count) as pool:
        try:
            yield pool
        except BaseException:
            _ending.set()
            pool.shutdown(wait=False, cancel_futures=True)
            for process in list(_running):
                end(process)
            raise


def _git(tree: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(tree), *words], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{tree} is no checkout: {done.stderr.strip()}")
    return done.stdout


def _read(path: Path) -> list[dict[str, Any]]:
    outcomes = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        with contextlib.suppress(ValueError):  # half written by a process that was ended
            outcomes.append(json.loads(line))
    return outcomes
