"""The files of a recording: records as JSON Lines, and beside them all values, one array in NumPy's format after the other.

docs/record.md is the schema. Values are written before the record that names them, each with one ``write`` to the operating system,
so that what a record says is there, however the process ends.
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
from ..records.log import LogWriter, tell_of_forks

SCHEMA = 1
RECORDS = re.compile(r"records-rank(\d{1,9})-pid(\d{1,12})(?:-(\d{1,9}))?\.jsonl")
VALUES = re.compile(r"values-rank(\d{1,9})-pid(\d{1,12})(?:-(\d{1,9}))?\.npy")
Array = np.ndarray[Any, Any]


def present(folder: Path, rank: int | None = None) -> list[Path]:
    """The files of recordings in a folder, of one rank or of all; none where there is no folder.

    Raises:
        FileError: the folder cannot be read.
    """
    try:
        names = sorted(os.listdir(folder)) if folder.exists() else []
    except OSError as error:
        raise FileError(f"the folder {folder} cannot be read: {error.strerror or error}") from None
    found = [(RECORDS.fullmatch(name) or VALUES.fullmatch(name), name) for name in names]
    return [folder / name for match, name in found if match and rank in (None, int(match[1]))]


class ValueFile:
    """Arrays, appended to a file of this process."""

    def __init__(self, folder: Path, rank: int) -> None:
        self._folder, self._rank = folder, rank
        self._file: io.RawIOBase | None = None
        self._name = ""
        self._size = 0
        self._known: dict[tuple[str, str, tuple[int, ...]], tuple[str, int]] = {}
        tell_of_forks(self)

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

    def forked(self) -> None:
        """The child of a fork begins a file of its own; it may refer to what the parent wrote."""
        self.close()


class RecordFile:
    """Writes records and values; safe for threads and forks.

    Args:
        folder: made if it does not exist.
        header: what the first line says beside schema, time and process.
        budget: bytes of values that are written; what is beyond is left out, and its record says so.

    Raises:
        FileError: the folder or the file cannot be made.
    """

    def __init__(self, folder: Path, header: Mapping[str, Any], budget: int) -> None:
        rank = int(header.get("rank", 0))
        first = {"type": "recording", "schema": SCHEMA, **header}
        self._log = LogWriter(folder, first, on_error="warn", tell=self._tell, stem="records")
        if self._log.failed:
            raise FileError(self._log.failed)
        self._values = ValueFile(folder, rank)
        self._left = budget
        self._lost = ""  # why no more values are written
        self.lock = threading.RLock()
        self.records = 0
        tell_of_forks(self)

    def _tell(self, message: str) -> None:
        if getattr(self, "_log", None) is not None:  # else the constructor raises it
            warnings.warn(message.replace("; verdicts are still counted, but", ":"), RuntimeWarning, stacklevel=2)

    def tensor(self, record: dict[str, Any], array: Array | None = None, sample: Callable[[], list[Any]] = list) -> None:
        """Write a record, with its values before it: ``None`` for what is left out. Without them a record has a sample."""
        with self.lock:
            kept = {} if array is None else self._kept(array, record["digest"])
            more = {} if "at" in kept else {"sample": sample()}
            self._log.write({"type": "tensor", "index": self.records, **record, **kept, **more})
            self.records += 1

    def _kept(self, array: Array, digest: str) -> dict[str, Any]:
        """Where the values lie now, or why they are left out."""
        if self._lost or array.nbytes > self._left:
            return {"left_out": self._lost or "beyond budget="}
        try:
            place, written = self._values.add(array, digest)
        except OSError as error:
            self._lost = f"the values cannot be written: {error.strerror or error}"
            warnings.warn(f"{self._lost}; the recording goes on without them", RuntimeWarning, stacklevel=2)
            return {"left_out": self._lost}
        self._left -= written
        return {"at": list(place)}

    def event(self, kind: str, text: str) -> None:
        """Something that happened between two records."""
        with self.lock:
            self._log.write({"type": "event", "kind": kind, "text": text})

    def close(self, how: str, seconds: float) -> None:
        """The last line; ``how`` the recording ended."""
        with self.lock:
            self._log.write({"type": "end", "how": how, "records": self.records, "seconds": round(seconds, 3)})
            self._log.close()
            self._values.close()

    def forked(self) -> None:
        """In the child of a fork nobody will release a lock that another thread held."""
        self.lock = threading.RLock()
        self.records = 0
