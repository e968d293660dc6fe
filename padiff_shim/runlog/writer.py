"""Writing the files of logs and recordings: one event a line, so that a killed process loses at most the event in flight.

Each line is one ``write`` to the operating system, unbuffered on our side: what was written survives the end of the process however
it ends (not a power failure: nothing is synced to the disk).
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import io
import os
import threading
import uuid
import warnings
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..text import joined, tr
from .encoding import WrittenFields, encode
from .events import SCHEMA
from .reader import LINE, LogError

_SESSION = uuid.uuid4().hex  # of this program and its forked children: files of other programs are not of its run
_ROOM = 200  # bytes of a header in which it can say why the file ends
_FULL = (errno.ENOSPC, errno.EDQUOT)


def now() -> str:
    """The time as ISO 8601, UTC, in milliseconds."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")


def session() -> str:
    """What all files of this program and its forked children say in their headers, and no others."""
    return _SESSION


def _create(path: Path) -> io.RawIOBase:
    """A new file, unbuffered; FileExistsError if there is one."""
    return open(path, "xb", buffering=0)


def _identity(path: Path, *, resting: bool = False) -> tuple[int, ...]:
    """Which file a path leads to now. ``resting``: of a file that nobody holds open, whose number another file could get."""
    status = os.stat(path)
    return (status.st_dev, status.st_ino, *((status.st_size, status.st_mtime_ns) if resting else ()))


class _GoneError(OSError):
    """The file is no longer where it was made: what is written goes nowhere that anybody looks."""


class LogWriter:
    """Writes events to a file of its own in ``folder``, which is created.

    Safe for threads: :attr:`lock` is held while a line is written, and a caller may hold it longer. Safe for ``fork``: a child
    begins a file of its own, with the header's ``pid`` and ``parent``, when it first writes. Events that come after :meth:`close`
    are appended.

    Args:
        folder: where the file goes, ``<stem>-rank<rank>-pid<pid>.jsonl``; a number is added where that name is taken.
        header: the first event; ``type``, ``schema``, ``id``, ``session``, ``created`` and ``pid`` are filled in where it has none.
        on_error: ``"warn"`` once and write nothing any more, or ``"raise"`` :class:`LogError`, at the start and later.
        warn: what gives a warning; default :func:`warnings.warn`.
        stem: what the file's name begins with.
        consequence: what a warning says of the time after the error.

    Raises:
        LogError: with ``on_error="raise"``, if the folder or the file cannot be made.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        header: Mapping[str, Any],
        *,
        on_error: str = "warn",
        warn: Callable[[str], None] | None = None,
        stem: str = "calls",
        consequence: str = tr("verdicts are still counted, but no further records are kept"),
    ) -> None:
        self._stem, self._consequence = stem, consequence
        self.folder, self.path, self.name = Path(folder), Path(), ""  # ``name``: the file's, without its ending
        self.failed = ""  # non-empty: why nothing is written any more
        self._where = ""  # the path, as a text
        self.gone = False  # the file was removed, moved or replaced by somebody
        self._made: tuple[int, ...] | None = None  # the file's identity
        self._room = 0  # where in the file the header's text ends
        self.lock = threading.RLock()
        self.header = dict(header)
        self._raises, self._warn = on_error == "raise", warn or _warn
        self._file: io.RawIOBase | None = None
        call_after_fork(self)
        try:
            self._begin()
        except OSError as error:
            self._end("started", error)

    def _begin(self) -> None:
        """A new file with the header in it, and blanks behind it: room for a word where the disk has none."""
        pid = os.getpid()
        first = {"type": "run", "schema": SCHEMA, "id": uuid.uuid4().hex, "session": _SESSION, "created": now(), "rank": 0}
        self.header = {**first, **self.header, "pid": pid}
        self.folder.mkdir(parents=True, exist_ok=True)
        stem, number = f"{self._stem}-rank{self.header['rank']}-pid{pid}", 1
        while self._file is None:
            self.path = self.folder / (f"{stem}.jsonl" if number == 1 else f"{stem}-{number}.jsonl")
            number += 1
            with contextlib.suppress(FileExistsError):
                self._file = _create(self.path)
        self.name, self._where, self._made = self.path.stem, str(self.path), _identity(self.path)
        line = encode(self.header)
        self._room = len(line) - len(b"}\n")
        self._put(line[:-1] + b" " * _ROOM + b"\n")

    def write(self, event: Mapping[str, Any], written: WrittenFields | None = None) -> bool:
        """Append one event; returns whether it is in the file. ``written``: those of its fields whose JSON is known.

        Raises:
            LogError: with ``on_error="raise"``, if it cannot be written.
        """
        with self.lock:
            if self.failed:
                return False
            line = encode(event, written)
            if len(line) > LINE:  # longer than what readers take
                line = encode({**event, "attributes": {"left out": f"the record had {len(line):,} bytes"}})
            return self.append(line)

    def append(self, line: bytes) -> bool:
        """:meth:`write` of lines that are encoded already; for a caller that holds the :attr:`lock`."""
        if self.failed:
            return False
        try:
            self._look()
            if self._file is None:
                self._reopen()
            self._put(line)
        except OSError as error:
            self._end("written", error)
        return not self.failed

    def _look(self) -> None:
        """See that the file is still there: writing to a removed one succeeds (one ``stat``, beside the ``write``)."""
        if not self.name:
            return
        try:
            if self._file is not None:
                status = os.stat(self._where)
                same = (status.st_dev, status.st_ino) == self._made
            else:
                same = _identity(self.path, resting=True) == self._made
        except (FileNotFoundError, NotADirectoryError):
            same = False
        except OSError:  # the folder may not be looked into; the file itself can still be written
            return
        if not same:
            self.gone = True
            raise _GoneError(tr("it was removed, moved or replaced while the run went on, and what it held with it"))

    def _reopen(self) -> None:
        if self.path.name:
            self._file = os.fdopen(os.open(self.path, os.O_WRONLY | os.O_APPEND | getattr(os, "O_BINARY", 0)), "ab", buffering=0)
            self._made = _identity(self.path)
        else:
            self._begin()

    def _put(self, line: bytes) -> None:
        assert self._file is not None
        written = self._file.write(line)
        while written is not None and written < len(line):  # nearly full: the next attempt says why
            line = line[written:]
            written = self._file.write(line)

    def _end(self, doing: str, error: OSError) -> None:
        """An error of the operating system ends the log, and is reported once or raised."""
        place = self.path if self.path.name else self.folder
        reason = error.strerror or str(error)
        if error.errno in _FULL:
            reason = tr("the disk is full ({reason})", reason=reason)
        if not self.gone:  # what stands in its place is somebody else's
            self._mark(f"its disk was full at {now()}" if error.errno in _FULL else f"it could not be written at {now()}")
        self.failed = joined(
            "; ",
            filter(
                None,
                (
                    tr("the log cannot be {doing}: {reason} ({place})", doing=doing, reason=reason, place=place),
                    not self._raises and self._consequence,
                ),
            ),
        )
        self.close()
        if self._raises:
            raise LogError(self.failed) from error
        self._warn(self.failed)

    def _mark(self, why: str) -> None:
        """Say in the header why the file ends: its bytes are there, so that a full disk can take them."""
        text = encode({"stopped": why})[1:-2]
        if not self._room or len(text) >= _ROOM:
            return
        with contextlib.suppress(OSError):
            file = os.open(self.path, os.O_WRONLY | getattr(os, "O_BINARY", 0))
            try:
                os.pwrite(file, b"," + text + b"}", self._room)
            finally:
                os.close(file)

    def close(self) -> None:
        """Close the file; a later :meth:`write` opens it again."""
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):
                file.close()
            with contextlib.suppress(OSError):
                if _identity(self.path) == self._made:  # otherwise the next write says so
                    self._made = _identity(self.path, resting=True)

    def after_fork(self) -> None:
        """In the child of a fork: let go of the parent's file, and of a lock that nobody here will ever release."""
        self.lock = threading.RLock()
        self.close()
        self.header["parent"] = self.header.get("pid")
        self.header.update(created=now(), id=uuid.uuid4().hex)
        self.path, self.name, self._made = Path(), "", None


def _warn(message: str) -> None:
    warnings.warn(message, RuntimeWarning, stacklevel=2)


_forked: weakref.WeakSet[Any] = weakref.WeakSet()


def call_after_fork(holder: Any) -> None:
    """Have ``holder.after_fork()`` called in every forked child while ``holder`` lives."""
    _forked.add(holder)


def _after_fork() -> None:
    for holder in list(_forked):
        holder.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
