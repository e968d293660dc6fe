"""Temporary folders: removed with what holds them, at the latest when the process ends, or else by the next one that needs some.

All of a process lie in one folder, in which it holds a file locked while it lives. A process that is killed, or leaves by
``os._exit``, removes nothing; but its lock goes with it, whatever has its number now.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import threading
import weakref
from pathlib import Path
from typing import Any

_PREFIX = "padiff_shim-"  # of folders that are locked, or left behind
_LOCK = "lock"


class Scratch:
    """A temporary folder, removed when nobody holds this object any more, or by :meth:`close`; never by a forked child."""

    def __init__(self) -> None:
        self._home = _home()  # which stays as long
        self.path = Path(tempfile.mkdtemp(dir=self._home.path))
        self.close = weakref.finalize(self, _remove, self.path, os.getpid())

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.close()


def _remove(path: Path, process: int) -> None:
    if os.getpid() == process:
        shutil.rmtree(path, ignore_errors=True)


class _Home:
    """The folder of this process, for as long as it has temporary folders."""

    def __init__(self, parent: Path) -> None:
        self.parent, self.process = parent, os.getpid()
        self.path, lock = _locked(parent)
        weakref.finalize(self, _leave, self.path, lock, self.process)


def _locked(parent: Path) -> tuple[Path, int | None]:
    """A new folder, and the open file that is locked in it; None where the file system has no locks."""
    fresh = Path(tempfile.mkdtemp(prefix="." + _PREFIX, dir=parent))  # nobody looks at it before it is locked
    lock = os.open(fresh / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        (fresh / _LOCK).unlink()
        return fresh, None
    return fresh.rename(parent / fresh.name[1:]), lock


def _leave(path: Path, lock: int | None, process: int) -> None:
    if os.getpid() == process:
        shutil.rmtree(path, ignore_errors=True)
        if lock is not None:
            os.close(lock)


_making = threading.Lock()
_present: Any = lambda: None  # a weak reference to the home  # noqa: E731
_swept: set[Path] = set()


def _home() -> _Home:
    global _present
    parent = Path(tempfile.gettempdir())
    with _making:
        home: _Home | None = _present()
        if home is None or home.process != os.getpid() or home.parent != parent or not home.path.is_dir():
            if parent not in _swept:
                _swept.add(parent)
                _sweep(parent)
            home = _Home(parent)
            _present = weakref.ref(home)
        return home


def _sweep(parent: Path) -> None:
    """Remove what processes that have ended left there; of this user, and with a lock that nobody holds."""
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if entry.name.startswith(_PREFIX):
                with contextlib.suppress(OSError):  # somebody else's, of another kind, held, or gone meanwhile
                    _take_away(entry)


def _take_away(entry: os.DirEntry[str]) -> None:
    if not entry.is_dir(follow_symlinks=False) or entry.stat(follow_symlinks=False).st_uid != os.getuid():
        return
    lock = os.open(os.path.join(entry.path, _LOCK), os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(entry.path, ignore_errors=True)
    finally:
        os.close(lock)
