"""The run of a compare mode while it goes on: records go to disk, counters stay in memory."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import PadiffShimError
from ..records import files, log
from ..records.counts import Counts
from ..text import SENTENCE, shown
from .results import INPUTS, Results

_EVERY = 1024  # records after which a running log says how much was not compared


class _Folder:
    """A temporary folder, removed when nobody holds this object any more; never by a forked child."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="padiff_shim-"))
        weakref.finalize(self, _remove, self.path, os.getpid())


def _remove(path: Path, pid: int) -> None:
    if os.getpid() == pid:
        shutil.rmtree(path, ignore_errors=True)


class CompareRun(Results):
    """What a compare run found.

    ``print(run)`` is the summary. Records are read from the log when they are asked for; the counters need no log. The run goes on
    counting while gradients of its calls flow, also after the mode was closed.

    Args:
        backend, linear_layout: as of :class:`Run`.
        folder: where the log goes; default a temporary folder that is removed with this object (:meth:`save` copies it).
        on_log_error: ``"warn"`` or ``"raise"`` (:class:`~padiff_shim.records.log.LogError`) when the log cannot be written.
        rank, carry, options: go into the header.
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
        carry: str = "native",
        options: Mapping[str, Any] | None = None,
        progress: bool = False,
    ) -> None:
        super().__init__(backend, linear_layout)
        self._keeper = _Folder() if folder is None else None
        # Where it is now: the program may change its working directory before the log is begun, or read.
        self._folder = self._keeper.path if self._keeper is not None else files.absolute(folder)
        self._header: dict[str, Any] = {"rank": rank, "backend": backend, "carry": carry, "options": dict(options or {})}
        self._on_error, self._progress = on_log_error, progress
        self._counts = Counts()
        self._began = time.perf_counter()
        self._log: log.LogWriter | None = None
        self._reading: files.Reading | None = None  # of a loaded run
        self._live: Any = None
        self.stepper: Callable[[], None] | None = None  # set by the mode: what begins a new step

    def begin(self, environment: Mapping[str, Any], flags: Mapping[str, Any], concerns: Sequence[str] = ()) -> None:
        """Write the header: versions, flags, and what to look at before a kernel is blamed. Later calls change nothing.

        Raises:
            LogError: with ``on_log_error="raise"``, if there can be no log.
        """
        if self._log is not None or self._reading is not None:
            return
        self.environment.update({key: str(value) for key, value in environment.items()})
        self.warnings.extend(concern for concern in concerns if concern not in self.warnings)
        self._header.update(environment=dict(environment), flags=dict(flags), warnings=list(self.warnings))
        self._began = time.perf_counter()
        self._log = log.LogWriter(self._folder, self._header, on_error=self._on_error, tell=self._lost)
        log.tell_of_forks(self)
        if self._progress and not self._header["rank"]:
            from ..report.live import Live

            self._live = Live.on_terminal()

    def _writer(self) -> log.LogWriter:
        if self._log is None:
            self.begin({}, {})
        assert self._log is not None
        return self._log

    def _lost(self, message: str) -> None:
        if message not in self.warnings:
            self.warnings.append(message)
        warnings.warn(message, RuntimeWarning, stacklevel=2)

    def add(self, record: dict[str, Any]) -> None:
        """Count and write one judged tensor; gives the record its ``index``. Safe from several threads.

        Raises:
            LogError: with ``on_log_error="raise"``, if it cannot be written; it is counted all the same.
        """
        writer, counts = self._writer(), self.counts
        with writer.lock:
            index = counts.records
            record["index"] = index
            try:
                writer.write({"type": "call", "index": index, **record})
            finally:
                counts.add(record, writer.name)
            if index % _EVERY == _EVERY - 1:
                self.add_event("coverage", "so far", coverage=self.coverage())
        if self._live is not None:
            self._live.show(self, record)

    def add_native(self, op: str, reason: str, elements: int) -> None:
        """Count a float call of ``op`` that was not compared, with so many output elements."""
        with self._writer().lock:
            self.counts.coverage.native(op, reason, 1, elements)

    def add_event(self, kind: str, text: str, **more: Any) -> None:
        """Write something that happened between two records."""
        self._writer().write({"type": "event", "kind": kind, "text": text, "created": log.now(), **more})

    def warn(self, message: str) -> None:
        """Keep a remark that the user should see once; it goes into the log as well."""
        if message not in self.warnings:
            self.warnings.append(message)
            if self._log is not None:
                self.add_event("warning", message)

    def next_step(self) -> None:
        """A new step of the program begins here (an optimizer's update begins one by itself).

        Raises:
            PadiffShimError: the run is not that of a mode.
        """
        if self.stepper is None:
            raise PadiffShimError("next_step() belongs to the run of an open compare mode")
        self.stepper()

    def save_inputs(self, record: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        """Keep the operands of a call for :meth:`repro`; without room on the disk the run says so and goes on.

        ``arrays``: see :func:`padiff_shim.repro.data.save_inputs`.
        """
        from ..repro import data

        writer = self._writer()
        if writer.gone:
            return  # that was said
        try:
            data.save_inputs(self._folder / INPUTS, record, arrays, writer.name)
        except OSError as error:
            self.warn(f"operands of call {record.get('index')} could not be saved: {error}")

    def drop_inputs(self, record: Mapping[str, Any]) -> None:
        """Operands that :meth:`save_inputs` kept of a record give way to those of another."""
        from ..repro import data

        data.drop_inputs(self._folder / INPUTS, record, self._writer().name)

    def close(self) -> None:
        """Write the log's last record. Gradients that flow later are appended, and another last record at the next close."""
        if self._live is not None:
            self._live.stop()
        if self._log is not None:
            with self._log.lock:
                self._log.write(self._end())
                self._log.close()

    def _end(self) -> dict[str, Any]:
        return {
            "type": "end",
            "calls": self.counts.calls,
            "records": self.counts.records,
            "coverage": self.coverage(),
            "seconds": round(time.perf_counter() - self._began, 3),
        }

    def forked(self) -> None:
        """A forked child counts for itself, into a file of its own."""
        self._counts, self._live = Counts(), None
        self._tallies.clear()

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Copy the log and the saved operands into ``folder``, from where :func:`load` reads them; returns the folder.

        Raises:
            PadiffShimError: the folder holds the log of another run, or this run has no log.
        """
        if self._log is not None:
            with self._log.lock:
                self._log.write(self._end())
        if self._log is not None and self._log.gone:
            raise log.LogError(self._log.failed)
        read = self._reading.paths if self._reading is not None else []
        paths = read if self._log is None else [self._log.path]
        return files.save([path for path in paths if path.is_file()], self._folder / INPUTS, files.absolute(folder))


def load(folder: str | os.PathLike[str]) -> CompareRun:
    """The run or runs whose log lies in ``folder`` (several processes are read as one), as it stands now.

    Every line is checked. What is no record is passed over, and so is a file that has no header; a warning says how many lines
    were lost and which, and stays in ``run.warnings``.

    Raises:
        LogError: the folder does not exist, has no log, or none that can be read.
    """
    place = files.absolute(folder)
    reading = files.read(files.find(place))
    first = reading.headers[0]
    run = CompareRun(first.get("backend", "torch"), folder=place)
    run._header, run._reading, run._counts = first, reading, reading.counts
    run.environment.update({key: str(value) for key, value in first.get("environment", {}).items()})
    run.warnings.extend(reading.warnings)
    for lost in reading.lost:
        warnings.warn(shown(lost, SENTENCE), RuntimeWarning, stacklevel=2)
    return run
