"""What is asked of a compare run: the worst calls, tables per op and layer, coverage, and its reports."""

from __future__ import annotations

import heapq
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..arguments import one_of, whole
from ..errors import OPS_LISTED, ArgumentError, PadiffShimError, UnknownNameError, optional, unknown
from ..records import files, inputs, log
from ..records.calls import Call, Calls
from ..records.counts import KEPT, Counts, Finding, Group, listed
from ..records.encoding import encode, numeric
from ..records.recorder import INPUTS, Recorder
from ..records.replicas import Replicas
from ..text import shown
from ..verdicts import Verdict
from .run import Run


class Results(Run):
    """The reading side of :class:`~padiff_shim.runs.compare_run.CompareRun`. Records come from the log, counts from memory."""

    recorder: Recorder
    _reading: files.Reading | None
    _keeper: object
    replicas: Replicas | None

    __hash__ = object.__hash__

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
        return {"type": "run", "schema": log.SCHEMA, "environment": {}, "flags": {}, "warnings": [], **self.recorder.header}

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
        """Class -> records, the most serious class first."""
        return self.counts.verdicts()

    @property
    def without_kernel(self) -> dict[str, dict[str, int]]:
        """Op name -> {dtype: compared calls that this Paddle has no kernel for}: its kernel in float32 stands there."""
        grouped: dict[str, dict[str, int]] = {}
        for (op, dtype), calls in self.counts.lacking.items():
            grouped.setdefault(op, {})[dtype] = calls
        return grouped

    @property
    def headline(self) -> str:
        """The answer in a sentence: whose kernel is wrong, where and by how much; or that there is only rounding."""
        from ..report.headline import headline

        return headline(self.counts, self.coverage())

    def worst(self, n: int = 10) -> list[Call]:
        """The ``n`` most serious records: by class, then by the multiple of the probabilistic bound. Muted ones are left out.

        Known and negligible differences come after every other one (docs/compare.md).

        Up to 100 come from memory, more need a pass over the log.

        Raises:
            ArgumentError: ``n`` is not a whole number.
        """
        counts, n = self.counts, whole("n", n)
        if n <= KEPT or counts.records <= KEPT:
            return [_logged(*entry) for entry in counts.worst()[:n]]
        found = Counts(kept=n)
        for call in self.calls:
            found.add(call.as_dict(), call.log)
        return [Call(*entry) for entry in found.worst()]

    def first_divergence(self, at_least: str | Verdict = Verdict.LOW_ACCURACY) -> Call | None:
        """The earliest record of this class or a more serious one that is not muted; None if there is none.

        A known or negligible difference is given only if there is no other.

        Raises:
            UnknownNameError: ``at_least`` is not a class.
        """
        found = self.counts.first(Verdict(one_of("at_least", at_least, Verdict)).severity)
        return _logged(*found) if found is not None else None

    def amplifications(self, n: int = 10) -> list[Call]:
        """The ``n`` calls that amplified an incoming difference most (a shadow stream is needed); one pass over the log."""

        def size(call: Call) -> float:
            return float(call.stats.get("amplification") or 0.0)

        return heapq.nlargest(whole("n", n), (call for call in self.calls if call.phase == "forward" and size(call) > 0), key=size)

    def rounding(self, n: int = 10) -> list[Call]:
        """What differs and is only rounding, the largest differences first: one record for each op, tensor and line.

        ``call.stats["allowed"]`` is how far two right kernels may lie apart there: the ``atol`` that fails none of them. It is
        known where the oracle was asked; ``compare(audit=1)`` asks it for every call, equal ones included.

        Raises:
            ArgumentError: ``n`` is not a whole number.
        """
        return [_logged(*entry) for entry in self.counts.innocent.largest()[: whole("n", n)]]

    def by_op(self) -> dict[str, Group]:
        """Op -> its counts, the most serious first."""
        return self.counts.groups("op")

    def by_layer(self) -> dict[str, Group]:
        """Dotted layer path ("" outside of any layer) -> its counts, the most serious first."""
        return self.counts.groups("layer")

    def findings(self) -> list[Finding]:
        """Records above UNVERIFIED that are not muted, those that say the same of the same line taken together.

        Those whose ``apart`` is not empty come last: known differences and negligible ones.
        """
        return self.counts.sorted_findings()

    def coverage(self) -> dict[str, Any]:
        """How many float calls and output elements were checked, and why others were not; docs/log.md has the fields."""
        return self.recorder.coverage().as_dict()

    @property
    def native(self) -> dict[str, dict[str, int]]:
        """Op name -> {reason: calls that got no verdict}."""
        return dict(self.coverage()["unchecked_ops"])

    def as_dict(self) -> dict[str, Any]:
        """Everything counted, as JSON-ready data: header, warnings, verdicts, ops, layers, known differences, coverage."""
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

    def to_pandas(self) -> Any:
        """One row a record, nested fields as ``stats.paddle.rho_max``.

        Raises:
            MissingFrameworkError: pandas is not installed.
        """
        pandas = optional("pandas", "pip install pandas")
        return pandas.DataFrame([_flat(call.as_dict()) for call in self.calls])

    def to_markdown(self) -> str:
        """The findings as a short text for a pull request: versions, counts, a table of the worst, coverage."""
        from ..report.markdown import markdown

        return markdown(self)

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write one self-contained page, in a folder that is made if need be; returns its path.

        Raises:
            FileError: it cannot be written.
        """
        from ..report import html

        return html.write(self, path)

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
                raise ArgumentError(f"call= is a record of this run or its place in run.calls (of {size}), got {place}")
            call = self.calls[place]
        chosen = call
        if chosen.log and chosen.as_dict().get("index") not in inputs.kept(self.recorder.folder / INPUTS, chosen.log):
            raise PadiffShimError(self._not_saved(chosen))
        record, arrays = inputs.load_inputs(self.recorder.folder / INPUTS, chosen.as_dict(), chosen.log)
        return script.write(record, arrays, path, environment=self.header.get("environment"))

    def kept(self) -> Calls:
        """The records whose operands were saved (``compare(keep_inputs=...)``), in order: :meth:`repro` takes each of them."""
        saved_ones: dict[str, set[int]] = {}

        def has_inputs(call: Call) -> bool:
            if call.log not in saved_ones:
                saved_ones[call.log] = set(inputs.kept(self.recorder.folder / INPUTS, call.log))
            return call.as_dict().get("index") in saved_ones[call.log]

        return self.calls.filter(where=has_inputs)

    def _not_saved(self, wanted: Call) -> str:
        """What can be done about a call whose operands are not there."""
        options = f"keep_inputs=N, ops={shown(wanted.op)!r}, mismatch_from={str(wanted.verdict)!r}"
        again = f"compare({options}) saves those of the first N calls of such ops and verdicts"
        said, kept = f"the operands of {wanted} were not saved", self.kept()
        if not kept:
            return f"{said}, nor those of any call of this run; {again}"
        alike = ("op", "tensor", "site", "layer", "verdict", "side")

        def likeness(item: tuple[int, Call]) -> tuple[int, int]:
            theirs, ours = item[1].as_dict(), wanted.as_dict()
            far = abs(int(theirs.get("index") or 0) - int(ours.get("index") or 0))
            return sum(theirs.get(name) == ours.get(name) for name in alike), -far

        place, nearest = max(zip(kept.places, kept), key=likeness)
        return f"{said}. Nearest of those that were (run.kept()): run.repro({place}, ...), {nearest}. Or run again: {again}"

    def __str__(self) -> str:
        from ..report.summary import summary

        return summary(self)

    def __repr__(self) -> str:
        counts = ", ".join(f"{name} {number}" for name, number in self.verdicts.items()) or "no records"
        return f"<padiff_shim.CompareRun backend={self.backend!r} {counts}>"


def _logged(record: Mapping[str, Any], name: str) -> Call:
    """A record in memory as it stands in the log."""
    return Call(json.loads(encode({"type": "call", **record})), name)


def _no_records(name: str, logged: Iterable[str]) -> Exception | None:
    """The error for an op of which a log has no records; None for one of the table, which did not run."""
    try:
        from ..catalogue.registry import ops, stays_native

        declared, why = set(ops()), stays_native(name)
    except ImportError:  # a log can be read where there is no torch
        declared, why = set(), ""
    if why:
        return UnknownNameError(f"op {name!r} has no records: {why}")
    return None if name in declared else unknown("op", name, map(shown, declared.union(logged)), OPS_LISTED)


def _flat(record: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one, with dotted names; the strings that stand for NaN and Inf as floats."""
    found: dict[str, Any] = {}
    for name, value in record.items():
        if isinstance(value, dict) and name != "attributes":
            found.update(_flat(value, f"{prefix}{name}."))
        else:
            found[prefix + name] = numeric(value) if prefix else value
    return found
