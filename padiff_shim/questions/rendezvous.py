"""Ranks of one program that wait for each other in a folder: where one fails, all end with its error."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ..errors import PadiffShimError
from ..files import replace
from ..text import SENTENCE, shown, tr

_PAUSE = 0.02  # seconds between two looks


class Rendezvous:
    """Marks of all ranks in a folder that each of them sees.

    A rank waits for marks, not in a collective: a peer that has failed, or whose process is gone, leaves nobody waiting.

    Args:
        folder: the folder, of this call alone.
        rank, count: this rank, and how many there are.
        timeout: seconds to wait for a mark.
    """

    def __init__(self, folder: Path, rank: int, count: int, timeout: float) -> None:
        self._folder, self.rank, self.count, self._timeout = folder, rank, count, timeout
        self.mark("begun", {"host": socket.gethostname(), "process": os.getpid()})

    def mark(self, stage: str, what: Any = None) -> None:
        """This rank is through with a stage."""
        replace(self._path(stage, self.rank), json.dumps(what))

    def wait(self, stage: str, ranks: Iterable[int] | None = None) -> dict[int, Any]:
        """Wait until ranks are through with a stage; what they say.

        Raises:
            PadiffShimError: a rank has failed or ended, or the time is over.
        """
        waiting, until = list(range(self.count) if ranks is None else ranks), time.monotonic() + self._timeout
        answers: dict[int, Any] = {}
        while True:
            answers |= {rank: self._read(stage, rank) for rank in waiting if self._path(stage, rank).exists()}
            waiting = [rank for rank in waiting if rank not in answers]
            if not waiting:
                return answers
            if (failure := self.failure()) and not all(self._path(stage, rank).exists() for rank in waiting):
                raise PadiffShimError(failure)
            if time.monotonic() > until:
                raise PadiffShimError(
                    "rank {rank} has waited {seconds:g} s for ranks {ranks}: all ranks call this and see {folder}, "
                    "or need more time (timeout=)",
                    rank=self.rank,
                    seconds=self._timeout,
                    ranks=", ".join(map(str, waiting)),
                    folder=self._folder,
                )
            time.sleep(_PAUSE)

    def failure(self) -> str:
        """What the first other rank that has failed says, or which has ended; "" where none has."""
        failures = []
        for rank in range(self.count):
            with contextlib.suppress(OSError):
                failures.append((self._path("failed", rank).stat().st_mtime_ns, rank))
        for _, rank in sorted(failures):
            if rank != self.rank:
                return tr("rank {rank} failed: {error}", rank=rank, error=shown(self._read("failed", rank), SENTENCE))
        gone = [0] if not self._folder.is_dir() else [rank for rank in range(self.count) if self._is_gone(rank)]
        return tr("the process of rank {rank} has ended", rank=gone[0]) if gone else ""

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Within it an error of this rank ends the others, too, and this rank's error names that of the rank that failed first.

        Raises:
            PadiffShimError: another rank had failed before.
        """
        try:
            yield
        except BaseException as error:
            first = self.failure()
            with contextlib.suppress(Exception):
                self.mark("failed", f"{type(error).__name__}: {error}")
            if first and isinstance(error, Exception) and not isinstance(error, PadiffShimError):
                raise PadiffShimError(first) from error
            raise

    def _path(self, stage: str, rank: int) -> Path:
        return self._folder / f"{stage}-rank{rank}.json"

    def _read(self, stage: str, rank: int) -> Any:
        return json.loads(self._path(stage, rank).read_text(encoding="utf-8"))

    def _is_gone(self, rank: int) -> bool:
        """Whether the process of a rank of this machine has ended."""
        with contextlib.suppress(OSError, ValueError):
            begun = self._read("begun", rank)
            if begun["host"] == socket.gethostname():
                return not _lives(begun["process"])
        return False


def _lives(process: int) -> bool:
    """Whether a process of this machine runs; one that has ended may still wait for its parent to ask."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    return True
