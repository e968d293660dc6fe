"""The run of a compare mode, while it goes on and when it is read from a log."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import PadiffShimError
from ..records import files, log
from ..records.recorder import INPUTS, Recorder
from ..records.replicas import Replicas, replicas
from ..scratch import Scratch
from ..text import SENTENCE, shown
from ..waiting import Waiting
from .command import command
from .results import Results


class CompareRun(Results):
    """What a compare run found.

    ``print(run)`` is the summary. Records are read from the log when they are asked for; the counters need no log. The run goes on
    counting while gradients of its calls flow, also after the mode was closed: :attr:`recorder` writes, this object reads.

    Args:
        backend, linear_layout: as of :class:`Run`.
        folder: where the log goes; default a temporary folder that is removed with this object (:meth:`save` copies it).
        on_log_error: ``"warn"`` or ``"raise"`` (:class:`~padiff_shim.records.log.LogError`) when the log cannot be written.
        rank, ranks, carry, options: go into the header; ``ranks`` is the number of processes.
        progress: show a line on a terminal while the run goes on.
    """

    def __init__(
        self,
        backend: str = "torch",
        linear_layout: str = "contiguous",
        *,
        folder: str | os.PathLike[str] | None = None,
        on_log_error: str = "warn",
        rank: int = 0,
        ranks: int = 1,
        carry: str = "native",
        options: Mapping[str, Any] | None = None,
        progress: bool = False,
    ) -> None:
        super().__init__(backend, linear_layout)
        self._keeper = Scratch() if folder is None else None
        # Where it is now: the program may change its working directory before the log is begun, or read.
        place = self._keeper.path if self._keeper is not None else files.absolute(folder)
        header = {"rank": rank, "backend": backend, "carry": carry, "command": command(), "options": dict(options or {})}
        if ranks > 1:
            header["ranks"] = ranks
        self.recorder = Recorder(place, header, self._tallies, on_error=on_log_error)
        self.warnings = self.recorder.warnings
        self._reading: files.Reading | None = None  # of a loaded run
        self.replicas: Replicas | None = None  # of a loaded run of several ranks: where they part
        self._progress = progress
        self.stepper: Callable[[], None] | None = None  # set by the mode: what begins a new step

    @property
    def missing(self) -> list[str]:
        """Why records of this run are not there: a log that was not closed, could not be written or cannot be read."""
        if self._reading is not None:
            return [*self._reading.unfinished, *self._reading.lost]
        return [self.recorder.log.failed] if self.recorder.log is not None and self.recorder.log.failed else []

    def begin(self, environment: Mapping[str, Any], flags: Mapping[str, Any], concerns: Sequence[str] = ()) -> None:
        """The mode opens: see :meth:`Recorder.begin`. A run that was loaded begins nothing.

        Raises:
            LogError: with ``on_log_error="raise"``, if there can be no log.
        """
        if self.recorder.log is not None or self._reading is not None:
            return
        self.environment.update({key: str(value) for key, value in environment.items()})
        self.recorder.begin(environment, flags, concerns)
        if self._progress and not self.header["rank"]:
            from ..report.live import Live

            self.recorder.watcher = Live.on_terminal()

    def warn(self, message: str) -> None:
        """Keep a remark that the user should see once; it goes into the log as well."""
        self.recorder.warn(message)

    def next_step(self) -> None:
        """A new step of the program begins here (an optimizer's update begins one by itself).

        Raises:
            PadiffShimError: the run is not that of a mode.
        """
        if self.stepper is None:
            raise PadiffShimError("next_step() belongs to the run of an open compare mode")
        self.stepper()

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Copy the log and the saved operands into ``folder``, from where :func:`load` reads them; returns the folder.

        Raises:
            PadiffShimError: the folder holds the log of another run, or this run has no log.
        """
        self.recorder.conclude()
        writer = self.recorder.log
        if writer is not None and writer.gone:
            raise log.LogError(writer.failed)
        read = self._reading.paths if self._reading is not None else []
        paths = read if writer is None else [writer.path]
        return files.save([path for path in paths if path.is_file()], self.recorder.folder / INPUTS, files.absolute(folder))


def load(folder: str | os.PathLike[str]) -> CompareRun:
    """The run or runs whose log lies in ``folder`` (several processes are read as one), as it stands now.

    Every line is checked. What is no record is passed over, and so is a file that has no header; a warning says how many lines
    were lost and which, and stays in ``run.warnings``.

    Raises:
        LogError: the folder does not exist, has no log, or none that can be read.
    """
    place = files.absolute(folder)
    with Waiting(f"reading {place}"):
        return together(place, files.find(place))


def together(place: Path, paths: Sequence[Path]) -> CompareRun:
    """As :func:`load`, of some of a folder's logs.

    Raises:
        LogError: none of them can be read.
    """
    reading = files.read(paths)
    first = reading.headers[0]
    run = CompareRun(first.get("backend", "torch"), folder=place)
    run._reading, run.recorder.header, run.recorder.counts = reading, first, reading.counts
    run.environment.update({key: str(value) for key, value in first.get("environment", {}).items()})
    run.warnings.extend(reading.warnings)
    run.replicas = replicas(reading.paths, reading.headers, reading.replicas)
    if run.replicas is not None and run.replicas.parting is not None:
        run.warnings.insert(0, str(run.replicas))
    for lost in reading.lost:
        warnings.warn(shown(lost, SENTENCE), RuntimeWarning, stacklevel=2)
    return run
