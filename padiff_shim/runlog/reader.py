"""Reading the files of logs and recordings: lines of JSON, each checked against :mod:`.events` before anybody relies on it."""

from __future__ import annotations

import bisect
import os
import re
import stat
import threading
from array import array
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from ..errors import FileError
from ..text import tr
from . import events
from .events import JsonTable

LINE = 4 * 2**20  # bytes of the longest line that is read
_BUFFER = 2**16  # bytes that are read at once
_SHOWN = 8  # numbers of lost lines, or of lost ranks, that a remark names


class LogError(FileError):
    """The log of a run cannot be written (``on_log_error="raise"``) or read.

    >>> import padiff_shim
    >>> padiff_shim.load("no such folder")
    Traceback (most recent call last):
    padiff_shim.runlog.compare_logs.MissingLogError: the folder ...no such folder does not exist
    """


def open_log(path: Path) -> BinaryIO:
    """A regular file, for reading; a pipe or a device in its place would be waited for without end.

    Raises:
        LogError: it is none, or it cannot be read.
    """
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise LogError("{path} is not a regular file", path=path)
        return open(path, "rb", buffering=_BUFFER)
    except LogError:
        raise
    except OSError as error:
        raise LogError("the log {path} cannot be read: {strerror}", path=path, strerror=error.strerror or error) from None


def size(path: Path) -> int:
    """Bytes of a log file.

    Raises:
        LogError: it is not there.
    """
    try:
        return os.stat(path).st_size
    except OSError as error:
        raise LogError("the log {path} cannot be read: {strerror}", path=path, strerror=error.strerror or error) from None


def lines(path: Path, start: int = 0) -> Iterator[tuple[int, bytes]]:
    """(offset, line) of every complete line from byte ``start`` on; a torn last line is left out.

    A line that is longer than any event comes cut, without its newline.

    Raises:
        LogError: the file cannot be read.
    """
    with open_log(path) as file:
        file.seek(start)
        while line := file.readline(LINE):
            end, length = line, len(line)
            while len(end) == LINE and not end.endswith(b"\n"):
                end = file.readline(LINE)
                length += len(end)
            if not end.endswith(b"\n"):
                return
            yield start, line
            start += length


def parse(line: bytes, path: Path, place: str) -> JsonTable:
    """One event, checked against its schema. ``place``: the line's, for the error (``"line 7"``, ``"byte 1024"``).

    Raises:
        LogError: the line is no event; the message names file, place and field.
    """
    event: JsonTable = {}
    try:
        event, wrong = events.decoded(line), ""
    except (ValueError, RecursionError) as error:
        wrong = str(error)
    if not line.endswith(b"\n"):
        wrong = tr("it is longer than {most} bytes", most=LINE)
    if wrong:
        raise LogError("{path}: no event at {place}: {line} ({wrong})", path=path, place=place, line=repr(line[:80]), wrong=wrong)
    return event


@dataclass
class Damage:
    """Lines of a file that are no events: how many, the numbers of the first, and what is wrong with the first of all."""

    path: Path
    count: int = 0
    numbers: list[int] = field(default_factory=list)
    complaint: str = ""

    def add(self, number: int, complaint: str) -> None:
        """One more line, by its number from 1 on."""
        self.count += 1
        self.complaint = self.complaint or complaint
        if len(self.numbers) < _SHOWN:
            self.numbers.append(number)

    def __bool__(self) -> bool:
        return self.count > 0

    def __str__(self) -> str:
        numbers = ", ".join(map(str, self.numbers)) + (", ..." if self.count > len(self.numbers) else "")
        many = (
            tr("{count:,} lines of {name} are no records", count=self.count, name=self.path.name)
            if self.count > 1
            else tr("1 line of {name} is no record", name=self.path.name)
        )
        return str(tr("{what} and left out (line {numbers}). {complaint}", what=many, numbers=numbers, complaint=self.complaint))


class EventFile:
    """A log or a recording, read from its first line to its last. ``header`` is the first event.

    Args:
        path: the file.
        kind: the type of its first event.
        schema: the number of such files' form that is read here.

    Raises:
        LogError: it has no header (the process ended while it began), or that of another version.
    """

    def __init__(self, path: Path, kind: str = "run", schema: int = events.SCHEMA) -> None:
        self.path, self.damage = path, Damage(path)
        first = next(lines(path), None)
        header = parse(first[1], path, "line 1") if first is not None else {"type": ""}
        if header["type"] != kind:
            raise LogError("{path} does not begin with the header of a {kind}", path=path, kind=kind)
        if header.get("schema") != schema:
            raise LogError(
                "{path}: schema {schema} is not read here, {known} is; another version wrote it",
                path=path,
                schema=repr(header.get("schema")),
                known=schema,
            )
        self.header: JsonTable = {name: value for name, value in header.items() if value is not None}

    def __iter__(self) -> Iterator[tuple[int, Mapping[str, Any]]]:
        """(offset, event) of all events behind the header; lines that are none go into :attr:`damage`."""
        self.damage = Damage(self.path)
        for number, (offset, line) in enumerate(lines(self.path), 1):
            if number == 1:
                continue
            try:
                event = parse(line, self.path, f"line {number}")
            except LogError as error:
                self.damage.add(number, str(error))
            else:
                yield offset, event


_CALL = b'{"type":"call"'


class CallIndex:
    """Where each call record of some files begins: one unsigned 64-bit number a record, whatever its length.

    ``keeper``: an object that keeps the files from being removed. ``offsets``: of files that were read already; without them a file
    may grow while it is looked at.
    """

    def __init__(self, paths: Sequence[Path], keeper: object = None, offsets: Sequence[array[int]] | None = None) -> None:
        self.paths = list(paths)
        self._keeper = keeper
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
                    for offset, line in lines(path, self._read):
                        if line.startswith(_CALL):
                            self._offsets.append(offset)
                        self._read = offset + len(line)
                if len(self._firsts) == len(self.paths):
                    break
                self._firsts.append(len(self._offsets))
                self._read = 0
            return len(self._offsets)

    def records(self, places: Iterable[int]) -> Iterator[tuple[int, Path, Mapping[str, Any]]]:
        """(place, file, record) of the records at ``places``, in that order.

        Raises:
            LogError: a file or a record cannot be read.
        """
        opened, file = -1, None
        try:
            for place in places:
                number = bisect.bisect_right(self._firsts, place) - 1
                if file is None or number != opened:
                    if file is not None:
                        file.close()
                    file, opened = open_log(self.paths[number]), number
                offset = self._offsets[place]
                if file.tell() != offset:
                    file.seek(offset)
                path = self.paths[number]
                yield place, path, parse(file.readline(LINE), path, f"byte {offset}")
        finally:
            if file is not None:
                file.close()


def event_at(path: Path, offset: int) -> JsonTable:
    """The event that begins at a byte of a file.

    Raises:
        LogError: there is none.
    """
    with open_log(path) as file:
        file.seek(offset)
        return parse(file.readline(LINE), path, f"byte {offset}")


def logs_in(folder: Path, name: re.Pattern[str]) -> list[Path]:
    """The files of a folder whose names match ``name`` fully, by the numbers in it (rank, then process).

    Raises:
        LogError: the folder cannot be read.
    """
    try:
        paths = list(folder.iterdir())
    except OSError as error:
        raise LogError("the folder {folder} cannot be read: {strerror}", folder=folder, strerror=error.strerror or error) from None
    matches = ((name.fullmatch(path.name), path) for path in paths)
    return [
        path for _, path in sorted((tuple(int(digits or 0) for digits in match.groups()), path) for match, path in matches if match)
    ]


# ---- Which files of a folder are of one run


@dataclass(frozen=True)
class WrittenLog:
    """A log file as part of a run: ``begun`` and ``ended`` are seconds since 1970, ``session`` tells programs apart."""

    path: Path
    rank: int
    session: str
    begun: float
    ended: float
    command: str


def earlier_than_last(logs: Sequence[WrittenLog]) -> list[WrittenLog]:
    """The files among ``logs`` that are of runs before the last one.

    Of each rank the programs that were begun one after the other, each when the one before had ended, are runs of their own; a
    process, its forked children and programs that ran at the same time are one run.
    """
    earlier: list[WrittenLog] = []
    for rank in sorted({log.rank for log in logs}):
        programs: dict[str, list[WrittenLog]] = {}
        for log in logs:
            if log.rank == rank:
                programs.setdefault(log.session, []).append(log)
        reach: float | None = None  # since when the last run has been going on
        for program in sorted(programs.values(), key=lambda logs: min(log.begun for log in logs), reverse=True):
            if reach is None or max(log.ended for log in program) >= reach:
                reach = min(log.begun for log in program)
            else:
                earlier += program
    return earlier


_RANKS = 4096  # that are looked for


def lost_ranks(world: int, ranks: Container[int]) -> list[str]:
    """What is said of the ranks that left no file, of the ``world`` that the launcher started; nothing where all did."""
    missing = [str(rank) for rank in range(min(world, _RANKS)) if rank not in ranks]
    if not missing:
        return []
    return [tr("of the {world:,} ranks of this run, {missing} left no log", world=world, missing=", ".join(missing[:_SHOWN]))]


def text_of(table: Mapping[str, object], name: str) -> str:
    """A field that is a text; ``""`` where there is none."""
    value = table.get(name)
    return value if isinstance(value, str) else ""
