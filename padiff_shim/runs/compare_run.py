"""The run of a compare mode, while it goes on and when it is read from a log."""

from __future__ import annotations

import heapq
import json
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..arguments import one_of, whole
from ..errors import OPS_LISTED, ArgumentError, MismatchError, PadiffShimError, UnknownNameError, ended_with, unknown
from ..files import Scratch
from ..present.annotations import Finding
from ..present.document import Document, version_words
from ..progress import Waiting
from ..report import compare, compare_page
from ..runlog import compare_logs, inputs, reference_log
from ..runlog.calls import Call, Calls
from ..runlog.compare_logs import Reading
from ..runlog.counts import KEPT, Counts, GroupCounts, LineFinding, listed
from ..runlog.encoding import encode
from ..runlog.events import SCHEMA, JsonTable
from ..runlog.reader import LogError
from ..runlog.recorder import INPUTS, Recorder
from ..runlog.replicas import Replicas, replicas
from ..text import SENTENCE, shown, tr
from ..verdicts import Verdict
from .run import Run, command, grouped

_ENDS = (StopIteration, StopAsyncIteration, GeneratorExit, MismatchError)  # of a program that did not fail
_IN_NOTEBOOK = 2000  # records of a page that a notebook stores


class CompareRun(Run):
    """The result of a compare mode. ``print(run)`` is the summary.

    Records come from the log, which is read when they are needed; counters are in memory. The run goes on counting while gradients
    flow through its calls, also after the mode was closed.

    Attributes:
        recorder: the writing half.
        warnings: remarks that the user should see.
        replicas: of a loaded run of several ranks, where they part; else None.
        stepper: begins a new step; the mode sets it.

    Args:
        backend, linear_layout: as of :class:`Run`.
        folder: where the log goes; default a temporary folder that goes with this object (:meth:`save` copies it).
        on_log_error: ``"warn"`` or ``"raise"`` (:class:`~padiff_shim.runlog.reader.LogError`) when the log cannot be written.
        rank, ranks, carry, options: go into the header; ``ranks`` is the number of processes.
        progress: show a line on a terminal while the run goes on.

    >>> import paddle, padiff_shim
    >>> with padiff_shim.compare("torch") as run:
    ...     _ = paddle.exp(paddle.zeros([2]))
    >>> run.verdicts, len(run.calls), run.worst(1)[0].op
    ({'EQUAL': 1}, 1, 'exp')
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
        self._keeper = keeper = Scratch() if folder is None else None
        # An absolute path: the program may change its working directory before the log is begun, or read.
        place = compare_logs.absolute(keeper.path if keeper is not None else folder or "")
        header = {"rank": rank, "backend": backend, "carry": carry, "command": command(), "options": dict(options or {})}
        if ranks > 1:
            header["ranks"] = ranks
        self.recorder = Recorder(place, header, self._tallies, on_error=on_log_error)
        self.warnings = self.recorder.warnings
        self._reading: Reading | None = None  # of a loaded run
        self.replicas: Replicas | None = None
        self._progress = progress
        self.stepper: Callable[[], None] | None = None

    @property
    def missing(self) -> list[str]:
        """Why records of this run are lost: a log that was not closed, could not be written or cannot be read."""
        how = self.counts.ended_by
        ended = [tr("the program ended with {error}: what it would have called after that is missing", error=how)] if how else []
        if self._reading is not None:
            return [*ended, *self._reading.unfinished, *self._reading.lost]
        return [*ended, *([self.recorder.log.failed] if self.recorder.log is not None and self.recorder.log.failed else [])]

    def ended_by(self, error: BaseException) -> None:
        """The program ended with ``error``, or left the mode with it: what is said of the run is said of a part.

        Ends that are none (of iterators, ``sys.exit(0)``) and the mode's own verdicts do not count.
        """
        if not isinstance(error, _ENDS) and (text := ended_with(error)):
            self.counts.ended_by = text

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
        """Add a remark that the user should see once; it goes into the log as well."""
        self.recorder.warn(message)

    def next_step(self) -> None:
        """Begin a new step of the program here (an optimizer's update begins one by itself).

        Raises:
            PadiffShimError: the run is not that of a mode.
        """
        if self.stepper is None:
            raise PadiffShimError("next_step() belongs to the run of an open compare mode")
        self.stepper()

    def copy_log(self, folder: str | os.PathLike[str]) -> Path:
        """Copy the log and the saved operands into ``folder``, from where :func:`load` reads them; returns the folder.

        Raises:
            PadiffShimError: the folder holds the log of another run, or this run has no log.
        """
        self.recorder.conclude()
        writer = self.recorder.log
        if writer is not None and writer.gone:
            raise LogError(writer.failed)
        read = self._reading.paths if self._reading is not None else []
        paths = read if writer is None else [writer.path]
        return compare_logs.save(
            [path for path in paths if path.is_file()], self.recorder.folder / INPUTS, compare_logs.absolute(folder)
        )

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        return bool(self.counts.records) and not self.missing and not self.findings

    def __eq__(self, other: object) -> bool:
        return self is other

    @property
    def counts(self) -> Counts:
        """The counters."""
        return self.recorder.counts

    @property
    def header(self) -> dict[str, Any]:
        """The log's first record (of a loaded run with several files: the first one's)."""
        if self.recorder.log is not None:
            return dict(self.recorder.log.header)
        return {"type": "run", "schema": SCHEMA, "environment": {}, "flags": {}, "warnings": [], **self.recorder.header}

    @property
    def calls(self) -> Calls:
        """All records in order (of several files: by rank and process), lazy over the log."""
        writer = self.recorder.log
        if writer is None:
            read = self._reading
            return Calls(read.paths, offsets=read.offsets, refusal=_no_records) if read is not None else Calls(refusal=_no_records)
        lost = writer.gone or (writer.failed and not writer.path.is_file())
        return Calls([] if lost or not writer.path.name else [writer.path], keeper=self._keeper, refusal=_no_records)

    @property
    def verdicts(self) -> dict[str, int]:
        """Class -> number of records, the most serious class first."""
        return self.counts.verdicts()

    @property
    def without_kernel(self) -> dict[str, dict[str, int]]:
        """Op name -> {dtype: compared calls without a kernel of this Paddle}; its kernel in float32 was compared in its place."""
        return grouped(self.counts.lacking)

    @property
    def answer(self) -> str:
        """The answer in a sentence: whose kernel is wrong, where and by how much; or that there is only rounding."""
        return compare.headline(self.counts, self.coverage())

    def _shorter(self) -> Iterator[str]:
        return compare.brief(self.counts, self.coverage())

    def worst(self, n: int = 10) -> list[Call]:
        """The ``n`` most serious records: by class, then by the multiple of the probabilistic bound. Muted ones are left out.

        Known and negligible differences come after all others (docs/compare.md). More than 100 need a pass over the log.

        Raises:
            ArgumentError: ``n`` is not a whole number.
        """
        counts, n = self.counts, whole("n", n)
        if n <= KEPT or counts.records <= KEPT:
            return [_logged(*entry) for entry in counts.worst()[:n]]
        more = Counts(most=n)
        for call in self.calls:
            more.add(call.to_dict(), call.log)
        return [Call(*entry) for entry in more.worst()]

    def first_divergence(self, at_least: str | Verdict = Verdict.LOW_ACCURACY) -> Call | None:
        """The earliest record of this class or a more serious one that is not muted; None if there is none.

        A known or negligible difference counts only if there is no other.

        Raises:
            UnknownNameError: ``at_least`` is not a class.
        """
        entry = self.counts.first(Verdict(one_of("at_least", at_least, Verdict)).severity)
        return _logged(*entry) if entry is not None else None

    def amplifications(self, n: int = 10) -> list[Call]:
        """The ``n`` calls that amplified an incoming difference most (a shadow stream is needed); one pass over the log."""

        def size(call: Call) -> float:
            return float(call.stats.get("amplification") or 0.0)

        return heapq.nlargest(
            whole("n", n), (call for call in self.calls if getattr(call, "phase", "") == "forward" and size(call) > 0), key=size
        )

    def rounding(self, n: int = 10) -> list[Call]:
        """What differs and is only rounding, the largest differences first: one record for each op, tensor and line.

        ``call.stats["allowed"]`` is the smallest safe ``atol`` there: how far two right kernels may lie apart, in units of the
        tensor. It is known where the oracle was computed; ``compare(audit=1)`` computes it for every call, equal ones included.

        Raises:
            ArgumentError: ``n`` is not a whole number.
        """
        return [_logged(*entry) for entry in self.counts.innocent.largest()[: whole("n", n)]]

    def by_op(self) -> dict[str, GroupCounts]:
        """Op -> its counts, the most serious first."""
        return self.counts.groups("op")

    def by_layer(self) -> dict[str, GroupCounts]:
        """Dotted layer path ("" outside of any layer) -> its counts, the most serious first."""
        return self.counts.groups("layer")

    def by_line(self) -> list[LineFinding]:
        """Records above UNVERIFIED that are not muted, grouped by line and verdict, the most serious first.

        Those whose ``apart`` is not empty come last: known differences and negligible ones.
        """
        return self.counts.sorted_findings()

    @property
    def findings(self) -> list[Finding]:
        """The findings, each at its line."""
        return [compare.annotated(finding) for finding in self.by_line() if not finding.apart]

    def coverage(self) -> dict[str, Any]:
        """How many float calls and output elements were checked, and why others were not; docs/log.md has the fields."""
        return self.recorder.coverage().to_dict()

    @property
    def native(self) -> dict[str, dict[str, int]]:
        """Op name -> {reason: number of calls without a verdict}."""
        return dict(self.coverage()["unchecked_ops"])

    def to_dict(self) -> dict[str, Any]:
        """All counts, as JSON-ready data: header, warnings, verdicts, ops, layers, known differences, coverage."""
        return {
            "header": self.header,
            "warnings": list(self.warnings),
            "records": self.counts.records,
            "verdicts": self.verdicts,
            "muted": self.counts.muted(),
            "apart": self.counts.apart(),
            "ops": listed(self.by_op().values()),
            "layers": listed(self.by_layer().values()),
            "known_differences": [{"name": n, "muted": m, "records": c} for (n, m), c in self.counts.quirks.most_common()],
            "coverage": self.coverage(),
        }

    def _versions(self) -> str:
        versions = version_words(self.environment)
        return tr("Paddle's kernels compared with {backend}'s, call by call ({versions})", backend=self.backend, versions=versions)

    def content(self) -> Document:
        """The answer, versions, counts, the worst calls, verdicts per op and layer, and what was not checked."""
        return compare.document(self)

    def _page(self, target: Path | None) -> str:
        with Waiting(tr("writing {target}", target=target or tr("the page "))):
            return compare_page.text(self)

    def notebook_page(self) -> str:
        """The page with a sample of the records."""
        return compare_page.text(self, limit=_IN_NOTEBOOK)

    def repro(self, call: Call | int, path: str | os.PathLike[str]) -> Path:
        """Write a script that shows a call's difference with paddle, torch and numpy alone, and its operands beside it (``.npz``).

        Args:
            call: a record of this run whose operands were saved (``compare(keep_inputs=...)``), or its place in :attr:`calls`.
            path: of the script.

        Raises:
            PadiffShimError: the operands were not saved; the message names the nearest call of which they were.
            ArgumentError: ``call`` or ``path`` is of another kind.
            FileError: the operands cannot be read, or the script cannot be written.
        """
        from ..repro import script

        script.place(path)
        if not isinstance(call, Call):
            size, place = len(self.calls), whole("call", call)
            if place >= size:
                raise ArgumentError(
                    "call= is a record of this run or its place in run.calls (of {size}), got {place}", size=size, place=place
                )
            call = self.calls[place]
        chosen = call
        if chosen.log and chosen.to_dict().get("index") not in inputs.kept(self.recorder.folder / INPUTS, chosen.log):
            raise PadiffShimError(self._not_saved(chosen))
        record, arrays = inputs.load_inputs(self.recorder.folder / INPUTS, chosen.to_dict(), chosen.log)
        return script.write(record, arrays, path, environment=self.header.get("environment"))

    def kept(self) -> Calls:
        """The records whose operands were saved (``compare(keep_inputs=...)``), in order: :meth:`repro` takes each of them."""
        saved_ones: dict[str, set[int]] = {}

        def has_inputs(call: Call) -> bool:
            if call.log not in saved_ones:
                saved_ones[call.log] = set(inputs.kept(self.recorder.folder / INPUTS, call.log))
            return call.to_dict().get("index") in saved_ones[call.log]

        return self.calls.filter(where=has_inputs)

    def _not_saved(self, wanted: Call) -> str:
        """The error for a call without saved operands, with what to do."""
        options = f"keep_inputs=N, ops={shown(wanted.op)!r}, mismatch_from={str(wanted.verdict)!r}"
        again = tr("compare({options}) saves those of the first N calls of such ops and verdicts", options=options)
        saved = self.kept()
        if not saved:
            return tr("the operands of {call} were not saved, nor those of any call of this run; {again}", call=wanted, again=again)
        alike = ("op", "tensor", "site", "layer", "verdict", "side")

        def likeness(placed: tuple[int, Call]) -> tuple[int, int]:
            candidate, target = placed[1].to_dict(), wanted.to_dict()
            far = abs(int(candidate.get("index") or 0) - int(target.get("index") or 0))
            return sum(candidate.get(name) == target.get(name) for name in alike), -far

        place, nearest = max(zip(saved.places, saved), key=likeness)
        return tr(
            "the operands of {call} were not saved. Nearest of those that were (run.kept()): run.repro({place}, ...), {nearest}. "
            "Or run again: {again}",
            call=wanted,
            place=place,
            nearest=nearest,
            again=again,
        )


def _logged(record: Mapping[str, Any], name: str) -> Call:
    """A record of the counters as it stands in the log."""
    return Call(json.loads(encode({"type": "call", **record})), name)


def _no_records(name: str, logged: Iterable[str]) -> Exception | None:
    """The error for an op without records in a log; None for an op of the table, which did not run."""
    try:
        from ..catalogue.registry import ops, stays_native

        declared, why = set(ops()), stays_native(name)
    except ImportError:  # logs can be read without torch
        declared, why = set(), ""
    if why:
        return UnknownNameError("op {name} has no records: {why}", name=repr(name), why=why)
    return None if name in declared else unknown(tr("op"), name, map(shown, declared.union(logged)), OPS_LISTED)


def load(folder: str | os.PathLike[str]) -> Run:
    """The run whose log lies in ``folder``, as far as it is written now; several processes of it are read as one.

    Every line is checked. Lines that are no record and files without a header are passed over; a warning says how many lines were
    lost and which, and stays in ``run.warnings``. If the folder holds several runs, one after the other, the last is read, and a
    warning names the others.

    Returns:
        A :class:`CompareRun`, or the :class:`Run` of a reference mode.

    Raises:
        LogError: the folder does not exist, has no log, or none that can be read; or it has logs of both modes.

    >>> import paddle, padiff_shim, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with padiff_shim.compare("torch", log=folder):
    ...     _ = paddle.exp(paddle.zeros([2]))
    >>> padiff_shim.load(folder).verdicts
    {'EQUAL': 1}
    """
    place = compare_logs.absolute(folder)
    references = reference_log.files(place) if place.is_dir() else []
    if references and compare_logs.files(place):
        raise LogError(
            "{folder} holds logs of comparisons and of reference runs: put them into folders of their own",
            folder=os.fspath(folder),
        )
    return _reference(place, references) if references else loaded(folder)


def _reference(place: Path, paths: Sequence[Path]) -> Run:
    """The reference run of these logs of a folder."""
    logs: dict[Path, JsonTable] = {}
    refusals: list[LogError] = []
    for path in paths:
        try:
            logs[path] = reference_log.read(path)
        except LogError as error:
            refusals.append(error)
    if not logs:
        raise refusals[0]
    last, earlier = reference_log.last_of(place, logs)
    first = logs[last[0]]
    run = Run(first.get("backend") or "torch", first.get("linear_layout") or "contiguous")
    for path in last:
        run.add(logs[path])
        if remark := reference_log.unfinished(path, logs[path]):
            run.warn(remark)
    for complaint in filter(None, [earlier, *(f"left out: {error}" for error in refusals)]):
        run.warn(complaint)
        warnings.warn(shown(complaint, SENTENCE), RuntimeWarning, stacklevel=3)
    return run


def loaded(folder: str | os.PathLike[str], each: Callable[[Mapping[str, Any]], None] | None = None) -> CompareRun:
    """As :func:`load`; ``each`` is called with each record of a call while the log is read, and must not change it.

    Raises:
        LogError: as there.
    """
    place = compare_logs.absolute(folder)
    with Waiting(tr("reading {place}", place=place)):
        paths, earlier = compare_logs.last_of(place, compare_logs.find(place))
        return together(place, paths, earlier, each)


def together(
    place: Path, paths: Sequence[Path], remark: str = "", each: Callable[[Mapping[str, Any]], None] | None = None
) -> CompareRun:
    """As :func:`loaded`, of these logs of a folder; ``remark``: a warning about others.

    Raises:
        LogError: none of them can be read.
    """
    reading = compare_logs.read(paths, each)
    first = reading.headers[0]
    run = CompareRun(first.get("backend", "torch"), folder=place)
    run._reading, run.recorder.header, run.recorder.counts = reading, first, reading.counts
    run.environment.update({key: str(value) for key, value in first.get("environment", {}).items()})
    run.warnings.extend(filter(None, [remark, *reading.warnings]))
    run.replicas = replicas(reading.paths, reading.headers, reading.replicas)
    if run.replicas is not None and run.replicas.parting is not None:
        run.warnings.insert(0, str(run.replicas))
    for warning in filter(None, [remark, *reading.lost]):
        warnings.warn(shown(warning, SENTENCE), RuntimeWarning, stacklevel=2)
    return run
