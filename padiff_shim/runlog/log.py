"""The log of a compare run: JSON Lines, one file a process; and where in its files each record begins."""

from __future__ import annotations

import bisect
import contextlib
import datetime
import io
import json
import os
import re
import stat
import threading
import uuid
import warnings
import weakref
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import FileError
from . import encoding
from .encoding import WrittenFields, encode

# ---- The log of a compare run: JSON Lines, one file a process, written so that a killed process loses at most the call in flight.
#
# docs/log.md is the schema. Each record is one line; those of a call are one ``write`` to the operating system, unbuffered on our
# side: what was written survives the end of the process however it ends (not a power failure: nothing is synced to the disk).

SCHEMA = 1
_NAME = re.compile(r"calls-rank(\d+)-pid(\d+)(?:-(\d+))?\.jsonl")


class LogError(FileError):
    """The log cannot be written (``on_log_error="raise"``) or read."""


def now() -> str:
    """The time as ISO 8601, UTC, in seconds."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def _create(path: Path) -> io.RawIOBase:
    """A new file, unbuffered; FileExistsError if there is one."""
    return open(path, "xb", buffering=0)


def _identity(path: Path, *, resting: bool = False) -> tuple[int, ...]:
    """Which file a path leads to now. ``resting``: one that nobody holds open, whose number another file could be given."""
    status = os.stat(path)
    return (status.st_dev, status.st_ino, *((status.st_size, status.st_mtime_ns) if resting else ()))


class _GoneError(OSError):
    """The file that is written to is no longer where it was made: what is written goes nowhere that anybody looks."""


class LogWriter:
    """Writes records to a file of its own in ``folder``, which is created.

    Safe for threads: :attr:`lock` is held while a line is written, and may be held longer by who counts along. Safe for ``fork``:
    a child begins a file of its own, with the header's ``pid`` and ``parent``, when it first writes. Records that come after
    :meth:`close` are appended.

    Args:
        folder: where the file goes, ``<stem>-rank<rank>-pid<pid>.jsonl``; a number is added where that name is taken.
        header: the first record, without ``type``, ``schema``, ``id``, ``created``, ``pid``, which are filled in.
        on_error: ``"warn"`` once and write nothing any more, or ``"raise"`` :class:`LogError`, at the start and later.
        tell: how a warning is given; default :func:`warnings.warn`.
        stem: what the file's name begins with.

    Raises:
        LogError: with ``on_error="raise"``, if the folder or the file cannot be made.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        header: Mapping[str, Any],
        *,
        on_error: str = "warn",
        tell: Callable[[str], None] | None = None,
        stem: str = "calls",
    ) -> None:
        self._stem = stem
        self.folder, self.path, self.name = Path(folder), Path(), ""  # ``name``: the file's, without its ending
        self.failed = ""  # non-empty: why nothing is written any more
        self._where = ""  # the path, as a text
        self.gone = False  # the file was removed, moved or replaced by somebody
        self._made: tuple[int, ...] | None = None  # the file's identity
        self.lock = threading.RLock()
        self.header = dict(header)
        self._raises, self._tell = on_error == "raise", tell or _warn
        self._file: io.RawIOBase | None = None
        tell_of_forks(self)
        try:
            self._begin()
        except OSError as error:
            self._end("started", error)

    def _begin(self) -> None:
        """A new file with the header in it."""
        pid = os.getpid()
        first = {"type": "run", "schema": SCHEMA, "id": uuid.uuid4().hex, "created": now(), "rank": 0}
        self.header = {**first, **self.header, "pid": pid}
        self.folder.mkdir(parents=True, exist_ok=True)
        stem, number = f"{self._stem}-rank{self.header['rank']}-pid{pid}", 1
        while self._file is None:
            self.path = self.folder / (f"{stem}.jsonl" if number == 1 else f"{stem}-{number}.jsonl")
            number += 1
            with contextlib.suppress(FileExistsError):
                self._file = _create(self.path)
        self.name, self._where, self._made = self.path.stem, str(self.path), _identity(self.path)
        self._put(encode(self.header))

    def write(self, record: Mapping[str, Any], written: WrittenFields | None = None) -> bool:
        """Append one record; returns whether it is in the file. ``written``: those of its fields whose JSON is known.

        Raises:
            LogError: with ``on_error="raise"``, if it cannot be written.
        """
        with self.lock:
            if self.failed:
                return False
            line = encode(record, written)
            if len(line) > encoding.LINE:  # longer than what readers take
                line = encode({**record, "attributes": {"left out": f"the record had {len(line):,} bytes"}})
            return self.append(line)

    def append(self, line: bytes) -> bool:
        """:meth:`write` of a line that is known; for who holds the :attr:`lock`."""
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
            raise _GoneError("it was removed, moved or replaced while the run went on, and what it held with it")

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
        """An error of the operating system ends the log, and is told once or raised."""
        place = self.path if self.path.name else self.folder
        counts = "" if self._raises else "; verdicts are still counted, but no further records are kept"
        self.failed = f"the log cannot be {doing}: {error.strerror or error} ({place}){counts}"
        self.close()
        if self._raises:
            raise LogError(self.failed) from error
        self._tell(self.failed)

    def close(self) -> None:
        """Close the file; a later :meth:`write` opens it again."""
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):
                file.close()
            with contextlib.suppress(OSError):
                if _identity(self.path) == self._made:  # otherwise the next write says so
                    self._made = _identity(self.path, resting=True)

    def forked(self) -> None:
        """In the child of a fork: let go of the parent's file, and of a lock that nobody here will ever release."""
        self.lock = threading.RLock()
        self.close()
        self.header["parent"] = self.header.get("pid")
        self.header.update(created=now(), id=uuid.uuid4().hex)
        self.path, self.name, self._made = Path(), "", None


def _warn(message: str) -> None:
    warnings.warn(message, RuntimeWarning, stacklevel=2)


_told: weakref.WeakSet[Any] = weakref.WeakSet()


def tell_of_forks(holder: Any) -> None:
    """Have ``one.forked()`` called in every forked child while ``one`` lives."""
    _told.add(holder)


def _forked() -> None:
    for holder in list(_told):
        holder.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def files(folder: str | os.PathLike[str]) -> list[Path]:
    """The log files of a folder, by rank, then pid.

    Raises:
        LogError: the folder cannot be read.
    """
    try:
        paths = list(Path(folder).iterdir())
    except OSError as error:
        raise LogError(f"the folder {folder} cannot be read: {error.strerror or error}") from None
    matches = ((_NAME.fullmatch(path.name), path) for path in paths)
    return [path for _, path in sorted((tuple(int(n or 0) for n in match.groups()), path) for match, path in matches if match)]


def open_log(path: Path) -> io.BufferedReader:
    """A regular file, for reading; a pipe or a device in its place would be waited for without end.

    Raises:
        LogError: it is none, or it cannot be read.
    """
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise LogError(f"{path} is not a regular file")
        return open(path, "rb")
    except LogError:
        raise
    except OSError as error:
        raise LogError(f"the log {path} cannot be read: {error.strerror or error}") from None


def size(path: Path) -> int:
    """Bytes of a log file.

    Raises:
        LogError: it is not there.
    """
    try:
        return os.stat(path).st_size
    except OSError as error:
        raise LogError(f"the log {path} cannot be read: {error.strerror or error}") from None


def log_lines(path: Path, start: int = 0) -> Iterator[tuple[int, bytes]]:
    """(offset, line) of every complete line from ``start`` on; a torn last line is left out.

    Of a line that is longer than any record its beginning is given, without a newline.

    Raises:
        LogError: the file cannot be read.
    """
    with open_log(path) as file:
        file.seek(start)
        while line := file.readline(encoding.LINE):
            end = line
            while len(end) == encoding.LINE and not end.endswith(b"\n"):
                end = file.readline(encoding.LINE)
            if not end.endswith(b"\n"):
                return
            yield start, line
            start = file.tell()


def parse(line: bytes, path: Path, offset: int) -> dict[str, Any]:
    """One record, with fields of the types that docs/log.md gives them.

    Raises:
        LogError: the line is not a record; the message names the place.
    """
    try:
        record = json.loads(line)
        wrong = encoding.complaint(record)
    except (ValueError, RecursionError) as error:
        wrong = str(error)
    if not line.endswith(b"\n"):
        wrong = f"it is longer than {encoding.LINE} bytes"
    if wrong:
        raise LogError(f"{path}: no record at byte {offset}: {line[:80]!r} ({wrong})")
    return dict(record)


# ---- The files of a log, and where in them each record begins.

_CALL = b'{"type":"call"'


class Book:
    """Where each call record begins: one unsigned 64-bit number for each, whatever the record's length."""

    def __init__(self, paths: Sequence[Path], keeper: object = None, offsets: Sequence[array[int]] | None = None) -> None:
        self.paths = list(paths)
        self._keeper = keeper  # what keeps the files from being removed
        self._offsets = array("Q")
        self._firsts: list[int] = []  # place of the first record of each file begun
        self._read = 0  # bytes read of the last file begun
        self._lock = threading.Lock()
        self._complete = offsets is not None
        for starts in offsets or ():
            self._firsts.append(len(self._offsets))
            self._offsets.extend(starts)

    def count(self) -> int:
        """How many records there are now; only the last file is looked at again, for it may have grown.

        Raises:
            LogError: a file cannot be read.
        """
        if self._complete:
            return len(self._offsets)
        with self._lock:
            if not self._firsts and self.paths:
                self._firsts.append(0)
            while self._firsts:
                path = self.paths[len(self._firsts) - 1]
                if size(path) > self._read:
                    for offset, line in log_lines(path, self._read):
                        if line.startswith(_CALL):
                            self._offsets.append(offset)
                        self._read = offset + len(line)
                if len(self._firsts) == len(self.paths):
                    break
                self._firsts.append(len(self._offsets))
                self._read = 0
            return len(self._offsets)

    def lines(self, places: Iterable[int]) -> Iterator[tuple[int, Path, int, bytes]]:
        """(place, file, offset, line) of the records at ``places``, in that order."""
        opened, file = -1, None
        try:
            for place in places:
                number = bisect.bisect_right(self._firsts, place) - 1
                if file is None or number != opened:
                    if file is not None:
                        file.close()
                    file, opened = open_log(self.paths[number]), number
                offset = self._offsets[place]
                file.seek(offset)
                yield place, self.paths[number], offset, file.readline(encoding.LINE)
        finally:
            if file is not None:
                file.close()
