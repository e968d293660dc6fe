"""The files of a log, and where in them each record begins."""

from __future__ import annotations

import bisect
import threading
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from . import log, schema

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
        for found in offsets or ():
            self._firsts.append(len(self._offsets))
            self._offsets.extend(found)

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
                if log.size(path) > self._read:
                    for offset, line in log.lines(path, self._read):
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
                    file, opened = log.opened(self.paths[number]), number
                offset = self._offsets[place]
                file.seek(offset)
                yield place, self.paths[number], offset, file.readline(schema.LINE)
        finally:
            if file is not None:
                file.close()
