"""Files that a user names, written as a whole; and temporary folders, removed with their holders."""

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

from .errors import FileError
from .language import marked, tr

WORDS = marked("the page "), marked("the log "), marked("the recording "), marked("the baseline ")  # what files are, in errors


def write(path: str | os.PathLike[str], text: str, what: str = "") -> Path:
    """Write ``text`` as UTF-8 into a file, in a folder that is made if need be; returns its path.

    The file keeps its inode, for programs that have it open. If the disk is full or writing is interrupted, the old content is put
    back, and a new file is removed. Halves of surrogate pairs (bytes of a path that are no UTF-8) are written as escapes.

    Raises:
        FileError: it cannot be written; the message begins with ``what`` it is (``"the page "``).
    """
    target = Path(path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        is_new, before = not os.path.lexists(target), target.read_bytes() if target.is_file() else None
        try:
            target.write_text(text, encoding="utf-8", errors="backslashreplace")
        except BaseException:
            with contextlib.suppress(OSError):
                if is_new:
                    target.unlink()
                elif before is not None and target.read_bytes() != before:
                    target.write_bytes(before)
            raise
    except OSError as error:
        raise _refused(target, error, what) from error
    return target


def replace(path: str | os.PathLike[str], text: str, what: str = "") -> Path:
    """As :func:`write`, in one step: a reader sees the old content or all of the new one, after a crash, too.

    Raises:
        FileError: it cannot be written; nothing is left beside the file.
    """
    target = Path(path)
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        beside.write_text(text, encoding="utf-8", errors="backslashreplace")
        os.replace(beside, target)
    except OSError as error:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        raise _refused(target, error, what) from error
    return target


def try_file(path: str | os.PathLike[str], what: str = "") -> None:
    """See that a file can be written, before the hours that lead to its content; nothing is changed.

    Raises:
        FileError: it cannot.
    """
    target = Path(path)
    try:
        if not target.exists():
            _try_folder(target.parent)
        elif target.is_file():
            target.open("ab").close()
        elif target.is_dir():
            raise IsADirectoryError(0, tr("it is a folder"))
        elif not os.access(target, os.W_OK):  # opening a pipe would wait for who reads it
            raise PermissionError(0, tr("it is not writable"))
    except OSError as error:
        raise _refused(path, error, what) from None


def try_folder(path: str | os.PathLike[str], what: str = "") -> None:
    """As :func:`try_file`, of a folder that will be made, and files in it.

    Raises:
        FileError: it cannot be made, or not written into.
    """
    try:
        _try_folder(Path(path))
    except OSError as error:
        raise _refused(path, error, what) from None


def _try_folder(path: Path) -> None:
    """Make a file without a name there, or in the folder where it would be made."""
    place = next(folder for folder in (path.absolute(), *path.absolute().parents) if os.path.lexists(folder))
    if not place.is_dir():
        raise NotADirectoryError(0, tr("{place} is no folder", place=place))
    try:
        tempfile.TemporaryFile(dir=place).close()
    except OSError as error:
        raise OSError(error.errno, tr("{place} is not writable ({error})", place=place, error=error.strerror or error)) from None


def _refused(path: str | os.PathLike[str], error: OSError, what: str) -> FileError:
    return FileError("{what}{path} cannot be written: {error}", what=tr(what), path=os.fspath(path), error=error.strerror or error)


# ---- Temporary folders
#
# Those of a process lie in one folder, in which it holds a file locked while it lives. A process that is killed, or leaves by
# ``os._exit``, removes nothing; but its lock goes with it, and the next process that needs a temporary folder cleans up.

_PREFIX = "padiff_shim-"  # of folders that are locked, or left behind
_LOCK = "lock"


class Scratch:
    """A temporary folder, removed with this object or by :meth:`close`; never by a forked child."""

    def __init__(self) -> None:
        self._home = _home()  # held, so that it stays as long
        self.path = Path(tempfile.mkdtemp(dir=self._home.path))
        self.close = weakref.finalize(self, _leave, self.path, None, os.getpid())

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.close()


class _Home:
    """The folder of this process while it has temporary folders."""

    def __init__(self, parent: Path) -> None:
        self.parent, self.process = parent, os.getpid()
        self.path, lock = _locked(parent)
        weakref.finalize(self, _leave, self.path, lock, self.process)


def _locked(parent: Path) -> tuple[Path, int | None]:
    """A new folder, and the open file that is locked in it; None where the file system has no locks."""
    fresh = Path(tempfile.mkdtemp(prefix="." + _PREFIX, dir=parent))  # with another name until it is locked
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
                # Remove the folders of processes that have ended: of this user, with a lock that nobody holds
                with contextlib.suppress(OSError), os.scandir(parent) as entries:
                    for entry in entries:
                        if entry.name.startswith(_PREFIX):
                            with contextlib.suppress(OSError):  # another user's, something else, in use, or gone meanwhile
                                _take_away(entry)
            home = _Home(parent)
            _present = weakref.ref(home)
        return home


def _take_away(entry: os.DirEntry[str]) -> None:
    if not entry.is_dir(follow_symlinks=False) or entry.stat(follow_symlinks=False).st_uid != os.getuid():
        return
    lock = os.open(os.path.join(entry.path, _LOCK), os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(entry.path, ignore_errors=True)
    finally:
        os.close(lock)
