"""Writing the files of a recording: events as JSON Lines, and beside them all values, one array in NumPy's format after the other.

Values are written before the record that names them, each with one ``write`` to the operating system, so that what a record says
is there, however the process ends.
"""

from __future__ import annotations

import io
import os
import re
import threading
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import FileError
from ..runlog.events import RECORDING_SCHEMA, VALUES, JsonTable
from ..runlog.writer import LogWriter, call_after_fork
from ..text import from_log, logged, tr
from .tensors import Array

RECORDS = re.compile(r"records-rank(\d{1,9})-pid(\d{1,12})(?:-(\d{1,9}))?\.jsonl")


def present(folder: Path, rank: int | None = None) -> list[Path]:
    """The files of recordings in a folder, of one rank or of all; none where there is no folder.

    Raises:
        FileError: the folder cannot be read.
    """
    try:
        names = sorted(os.listdir(folder)) if folder.exists() else []
    except OSError as error:
        raise FileError("the folder {folder} cannot be read: {strerror}", folder=folder, strerror=error.strerror or error) from None
    matches = [(RECORDS.fullmatch(name) or VALUES.fullmatch(name), name) for name in names]
    return [folder / name for match, name in matches if match and rank in (None, int(match[1]))]


class ValueFile:
    """Arrays, appended to a file of this process."""

    def __init__(self, folder: Path, rank: int) -> None:
        self._folder, self._rank = folder, rank
        self._file: io.RawIOBase | None = None
        self._name = ""
        self._size = 0
        self._known: dict[tuple[str, str, tuple[int, ...]], tuple[str, int]] = {}
        call_after_fork(self)

    def add(self, array: Array, digest: str) -> tuple[tuple[str, int], int]:
        """Where an array lies, and how many bytes were written for it: none for one that is there already.

        Raises:
            OSError: it cannot be written.
        """
        key = digest, array.dtype.str, array.shape
        known = self._known.get(key)
        if known is not None:
            return known, 0
        if self._file is None:
            self._begin()
        assert self._file is not None
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, np.ascontiguousarray(array).reshape(array.shape), allow_pickle=False)
        rest = buffer.getbuffer()
        place, length = (self._name, self._size), len(rest)
        while len(rest):
            written = self._file.write(rest) or 0
            self._size += written
            rest = rest[written:]
        self._known[key] = place
        return place, length

    def _begin(self) -> None:
        number = 1
        while self._file is None:
            name = f"values-rank{self._rank}-pid{os.getpid()}" + (f"-{number}" if number > 1 else "") + ".npy"
            number += 1
            try:
                self._file = open(self._folder / name, "xb", buffering=0)  # noqa: SIM115 (it stays open)
                self._name, self._size = name, 0
            except FileExistsError:
                continue

    def close(self) -> None:
        """Close the file."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def after_fork(self) -> None:
        """The child of a fork begins a file of its own; its records may name the parent's."""
        self.close()


class RecordFile:
    """Writes the events and values of a recording; safe for threads and forks.

    Args:
        folder: made if it does not exist.
        header: the first event, without schema, time and process.
        budget: bytes of values that may be written; the record of a tensor that does not fit says so.

    Raises:
        FileError: the folder or the file cannot be made.
    """

    def __init__(self, folder: Path, header: Mapping[str, Any], budget: int) -> None:
        rank = int(header.get("rank", 0))
        first = {"type": "recording", "schema": RECORDING_SCHEMA, **header}
        self._started = False
        self._log = LogWriter(folder, first, warn=self._warn, stem="records", consequence="no further records are written")
        if self._log.failed:
            raise FileError(self._log.failed)
        self._started = True
        self._values = ValueFile(folder, rank)
        self._left = budget
        self._lost = ""  # why no more values are written
        self.lock = threading.RLock()
        self.records = 0
        call_after_fork(self)

    def _warn(self, message: str) -> None:
        if self._started:  # else the constructor raises it
            warnings.warn(message, RuntimeWarning, stacklevel=2)

    def tensor(self, record: JsonTable, array: Array | None = None, sample: Callable[[], list[Any]] = list) -> None:
        """Write a record, with its values before it: ``None`` for values that are left out. Without them a record has a sample."""
        with self.lock:
            place = {} if array is None else self._written(array, record["digest"])
            more = {} if "at" in place else {"sample": sample()}
            self._log.write({"type": "tensor", "index": self.records, **record, **place, **more})
            self.records += 1

    def _written(self, array: Array, digest: str) -> JsonTable:
        """Where the values lie now, or why they are left out."""
        if self._lost or array.nbytes > self._left:
            return {"left_out": self._lost or logged("beyond budget=")}
        try:
            place, written = self._values.add(array, digest)
        except OSError as error:
            self._lost = logged("the values cannot be written: {error}", error=error.strerror or error)
            warnings.warn(tr("{lost}; the recording goes on without them", lost=from_log(self._lost)), RuntimeWarning, stacklevel=2)
            return {"left_out": self._lost}
        self._left -= written
        return {"at": list(place)}

    @property
    def lost(self) -> str:
        """Why records, or values alone, are lost; ""."""
        return self._log.failed or from_log(self._lost)

    def lines(self, lines: bytes, records: int) -> None:
        """Write lines that are encoded already, with this many records in them."""
        with self.lock:
            self._log.append(lines)
            self.records += records

    def event(self, kind: str, text: str) -> None:
        """Something that happened between two records."""
        with self.lock:
            self._log.write({"type": "event", "kind": kind, "text": text})

    def close(self, how: str, seconds: float, **more: Any) -> None:
        """The last line; ``how`` the recording ended."""
        with self.lock:
            self._log.write({"type": "end", "how": how, "records": self.records, "seconds": round(seconds, 3), **more})
            self._log.close()
            self._values.close()

    def discard(self) -> None:
        """Remove the file of records, which was closed."""
        self._log.path.unlink(missing_ok=True)

    def after_fork(self) -> None:
        """In the child of a fork nobody will release a lock that another thread held."""
        self.lock = threading.RLock()
        self.records = 0
