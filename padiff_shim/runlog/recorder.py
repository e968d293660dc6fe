"""The writing half of a compare run: what was judged is counted in memory and written to a log."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..text import tr
from . import inputs
from .counts import Counts, Coverage, Tallies
from .encoding import Plain, WrittenFields
from .reader import LINE
from .writer import LogWriter, call_after_fork, now

INPUTS = "inputs"  # folder beside the log in which operands of serious calls lie
_EVERY = 1024  # records after which a running log says how much was not compared


class Recorder:
    """Counts and writes what a compare mode judges.

    Args:
        folder: where the log goes; it is made when the log begins.
        header: the log's first event as far as it is known (docs/log.md).
        tallies: the counters of calls that the mode's filters kept away from comparing.
        on_error: ``"warn"`` or ``"raise"`` (:class:`LogError`) when the log cannot be written.
    """

    def __init__(self, folder: Path, header: Mapping[str, Any], tallies: Tallies, *, on_error: str = "warn") -> None:
        self.folder, self.header = folder, dict(header)
        self.counts, self.warnings = Counts(), list[str]()
        self.log: LogWriter | None = None  # None: not begun
        self.watcher: Any = None  # shows how far the run is: ``show(counts, record)``, and at the end ``stop()``
        self._tallies, self._on_error = tallies, on_error
        self._began = time.perf_counter()

    def begin(self, environment: Mapping[str, Any], flags: Mapping[str, Any], concerns: Sequence[str] = ()) -> None:
        """Write the header: versions, flags, and what to look at before a kernel is blamed. Later calls change nothing.

        Raises:
            LogError: with ``on_error="raise"``, if there can be no log.
        """
        if self.log is not None:
            return
        self.warnings.extend(concern for concern in concerns if concern not in self.warnings)
        self.header.update(environment=dict(environment), flags=dict(flags), warnings=list(self.warnings))
        self._began = time.perf_counter()
        self.log = LogWriter(self.folder, self.header, on_error=self._on_error, warn=self._lost)
        call_after_fork(self)

    def _writer(self) -> LogWriter:
        if self.log is None:
            self.begin({}, {})
        assert self.log is not None
        return self.log

    def _lost(self, message: str) -> None:
        if message not in self.warnings:
            self.warnings.append(message)
        warnings.warn(message, RuntimeWarning, stacklevel=2)

    def add(self, record: dict[str, Any], written: WrittenFields | None = None) -> None:
        """Count and write one judged tensor, and set its ``index``. Safe from several threads.

        ``written``: those of its fields whose JSON is known.

        Raises:
            LogError: with ``on_error="raise"``, if it cannot be written; it is counted all the same.
        """
        writer, counts = self._writer(), self.counts
        with writer.lock:
            record["index"] = index = counts.records
            try:
                writer.write({"type": "call", "index": index, **record}, written)
            finally:
                counts.add(record, writer.name)
            self._added(index)
        if self.watcher is not None:
            self.watcher.show(counts, record)

    def add_plain(self, record: Plain) -> None:
        """:meth:`add` of a plain record.

        Raises:
            LogError: as there.
        """
        writer, counts = self.log or self._writer(), self.counts
        with writer.lock:
            record.index = index = counts.records
            try:
                line = record.line()
                if line is None or len(line) > LINE:
                    writer.write({"type": "call", **record}, record.written)
                else:
                    writer.append(line)
            finally:
                counts.add_plain(record, writer.name)
            self._added(index)
        if self.watcher is not None:
            self.watcher.show(counts, record)

    def _added(self, index: int) -> None:
        if index % _EVERY == _EVERY - 1:
            self.add_event("coverage", "so far", coverage=self.coverage().to_dict())

    def add_native(self, op: str, reason: str, elements: int | None) -> None:
        """Count a call of ``op`` that was not compared, with so many floats in its results; None: it has no float result."""
        with self._writer().lock:
            if elements is None:
                self.counts.coverage.exact_calls += 1
            else:
                self.counts.coverage.native(op, reason, 1, elements)

    def skip(self, op: str, reason: str) -> None:
        """Count what was not checked of a call that was compared."""
        with self._writer().lock:
            self.counts.coverage.skip(op, reason, 1)

    def add_event(self, kind: str, text: str, **more: Any) -> None:
        """Write something that happened between two records."""
        writer = self._writer()
        with writer.lock:
            writer.write({"type": "event", "kind": kind, "text": text, "created": now(), **more})

    def warn(self, message: str) -> None:
        """Keep a remark that the user should see once; it goes into the log as well."""
        if message not in self.warnings:
            self.warnings.append(message)
            if self.log is not None:
                self.add_event("warning", message)

    def coverage(self) -> Coverage:
        """How much was compared, with what ``ops=`` and ``layers=`` kept away."""
        total = Coverage()
        total.merge(self.counts.coverage.to_dict())
        for (op, reason), calls in self._tallies.total("native").items():
            total.native(op, reason, calls, 0)
        return total

    def save_inputs(self, record: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        """Write the operands of a call for a script; if the disk has no room, the run gets a warning and goes on.

        ``arrays``: see :func:`padiff_shim.runlog.inputs.save_inputs`.
        """
        writer = self._writer()
        if writer.gone:
            return  # the warning was given
        try:
            inputs.save_inputs(self.folder / INPUTS, record, arrays, writer.name)
        except OSError as error:
            self.warn(tr("operands of call {index} could not be saved: {error}", index=record.get("index"), error=error))

    def drop_inputs(self, record: Mapping[str, Any]) -> None:
        """Remove the operands that :meth:`save_inputs` wrote for a record."""
        inputs.drop_inputs(self.folder / INPUTS, record, self._writer().name)

    def close(self) -> None:
        """Write the log's last event. Gradients that flow later are appended, and another last event at the next close."""
        if self.watcher is not None:
            self.watcher.stop()
        if self.log is not None:
            with self.log.lock:
                self.conclude()
                self.log.close()

    def conclude(self) -> None:
        """Write the counts so far as the last event; the log stays open."""
        if self.log is None:
            return
        with self.log.lock:
            self.log.write(
                {
                    "type": "end",
                    "calls": self.counts.calls,
                    "records": self.counts.records,
                    "coverage": self.coverage().to_dict(),
                    "seconds": round(time.perf_counter() - self._began, 3),
                    **({"how": self.counts.ended_by} if self.counts.ended_by else {}),
                }
            )

    def after_fork(self) -> None:
        """A forked child counts for itself, into a file of its own."""
        self.counts, self.watcher = Counts(), None
        self._tallies.clear()
