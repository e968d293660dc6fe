"""What a compare run counts, in bounded memory: verdicts per op and layer, the worst calls, what was not checked."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..verdicts import APART, NO_KERNEL, SCREENED, Verdict, apart
from .coverage import OTHER_NAMES, Coverage, is_float
from .innocent import Innocent
from .plain import Plain

KEPT = 100  # worst records held
_FINDINGS = 2000  # kinds of findings held; those beyond are counted as one
ALIKE = ("verdict", "side", "hypothesis", "op", "tensor", "site")  # records that are alike in these make one finding
TIES = 1000  # tensors of lines with ties that are told apart; those beyond are not kept
LAYERS = 100  # layers of one finding that are named
NAMES = 5000  # ops, layers and known differences told apart; those beyond are counted as one

_SEVERITY = {verdict.value: verdict.severity for verdict in Verdict}
_HARMLESS = Verdict.UNVERIFIED.severity


def excess_of(stats: Mapping[str, Any]) -> float:
    """The larger of both sides' error as a multiple of the probabilistic bound; infinite for NaN, 0 where there is none."""
    found = 0.0
    if "paddle" not in stats and "torch" not in stats:
        return found
    for side in ("paddle", "torch"):
        value = (stats.get(side) or {}).get("prob")
        if value is not None:
            number = float(value)
            found = max(found, math.inf if math.isnan(number) else number)
    return found


@dataclass
class Group:
    """The records of one op or layer.

    ``worst``, ``sides`` and ``prob`` leave out what is set apart (:func:`padiff_shim.verdicts.apart`); ``verdicts`` counts it under
    "known", "negligible" and "muted".
    """

    name: str
    records: int = 0
    muted: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    sides: Counter[str] = field(default_factory=Counter)
    worst: Verdict = Verdict.EQUAL
    prob: float = 0.0

    def add(self, verdict: str, side: str, why: str, records: int) -> None:
        """So many records of one kind; ``why``: it is set apart."""
        self.records += records
        self.verdicts[why or verdict] += records
        self.muted += records if why == "muted" else 0
        if why:
            return
        if _SEVERITY[verdict] > _HARMLESS:
            self.sides[side] += records
        if _SEVERITY[verdict] > self.worst.severity:
            self.worst = Verdict(verdict)

    def as_dict(self) -> dict[str, Any]:
        """JSON-ready."""
        return {
            "records": self.records,
            "muted": self.muted,
            "verdicts": dict(self.verdicts),
            "sides": dict(self.sides),
            "worst": self.worst.value,
            "prob": self.prob,
        }


@dataclass
class Finding:
    """Records that say the same of the same line: one row of a table, on the terminal, in Markdown and on the page.

    ``worst`` is the record furthest outside its bound; ``first`` and ``place`` say where the first one and the worst one stand in
    the run. ``layers``: those that it was found in, as far as a hundred.
    """

    first: int
    worst: Mapping[str, Any]
    log: str
    place: int
    records: int = 0
    excess: float = -1.0
    layers: set[str] = field(default_factory=set)

    @property
    def order(self) -> tuple[Any, ...]:
        """Sorts the most serious first."""
        return (bool(self.apart), -_SEVERITY[self.worst["verdict"]], -self.excess, self.first)

    @property
    def apart(self) -> str:
        """Why it comes after all others, see :func:`padiff_shim.verdicts.apart`; "" for most."""
        return apart(self.worst)


@dataclass
class Tie:
    """Records of one op, tensor and line whose elements differ at ties: the first of them, how many, and how many elements."""

    first: Mapping[str, Any]
    log: str
    records: int = 0
    elements: int = 0


class _Cells(dict[Any, list[int]]):
    """Numbers by keys, each in a list of its own: who counts often keeps that."""

    def __missing__(self, key: Any) -> list[int]:
        self[key] = found = [0]
        return found


class _Kind:
    """Plain records of one tensor of a place, of one verdict: where they are counted, and by whom."""

    __slots__ = ("first", "forward", "names", "of_layer", "of_op", "owner", "rank", "rounds", "tensor")

    def __init__(self, counts: Counts, fields: Mapping[str, Any], verdict: str) -> None:
        self.owner, severity = counts.own, _SEVERITY[verdict]
        self.names = op, layer = counts.names(fields["op"], fields["layer"] or "")
        self.of_op, self.of_layer = counts.by_op[op, verdict, "none", ""], counts.by_layer[layer, verdict, "none", ""]
        self.tensor, self.forward = (fields["op"], fields["tensor"], fields["site"]), fields["phase"] == "forward"
        self.rounds = is_float(fields.get("dtype"))
        self.rank, self.first = (0, severity, 0.0), (False, severity)


class Counts:
    """The counters of a compare run. :meth:`add` is called for each judged tensor and costs a few microseconds."""

    def __init__(self, kept: int = KEPT) -> None:
        self.kept = kept
        self.own = object()  # stands for these counters where they must not be held
        self.records = self.calls = 0
        self.by_op = _Cells()  # op, verdict, side, why it is set apart
        self.by_layer = _Cells()  # layer, verdict, side, why it is set apart
        self.quirks: Counter[tuple[str, bool]] = Counter()
        self.lacking: Counter[tuple[str, str]] = Counter()  # op, dtype -> calls that Paddle has no kernel for
        self.coverage = Coverage()
        self.findings: dict[tuple[Any, ...], Finding] = {}
        self.further = 0  # findings beyond the table
        self.innocent = Innocent()
        self.ties: dict[tuple[Any, ...], Tie] = {}  # by op, tensor and line
        # "NaN", "infinity" -> the place in the run of the record in which the first one begins, the record, its log
        self.births: dict[str, tuple[int, Mapping[str, Any], str]] = {}
        self._probs: dict[tuple[str, str], float] = {}
        self._names: dict[str, set[str]] = {"op": set(), "layer": set(), "quirk": set()}
        self._worst: list[tuple[int, int, float, int, Mapping[str, Any], str]] = []
        self._first: dict[tuple[bool, int], tuple[int, Mapping[str, Any], str]] = {}  # apart, severity -> place, record, log

    @property
    def kinds(self) -> dict[tuple[str, str, str, str], int]:
        """(op, verdict, side, why it is set apart) -> records."""
        return {key: number for key, (number,) in list(self.by_op.items())}

    def add_plain(self, record: Plain, log: str = "") -> None:
        """:meth:`add` of a record of which there is little to say."""
        order, self.records = self.records, self.records + 1
        stats, verdict = record.stats, record.verdict
        kind = record.written.counted.get(verdict)
        if kind is None or kind.owner is not self.own:
            kind = record.written.counted[verdict] = _Kind(self, record.written.fields, verdict)
        kind.of_op[0] += 1
        kind.of_layer[0] += 1
        if kind.forward:
            first = not record.counted.get("result")
            self.calls += first
            if kind.rounds:
                self.coverage.checked(first, stats["count"])
            else:
                self.coverage.exact_calls += first
        if record.modifiers:
            self.coverage.screened += SCREENED in record.modifiers
        elif stats["different"] or "allowed" in stats:
            self.innocent.note(kind.tensor, stats, record, log)
        if "paddle" in stats or "torch" in stats:
            self._rank(record, verdict, excess_of(stats), log, order, kind.names, "")
        elif len(self._worst) < self.kept or self._worst[0][:3] < kind.rank:
            self._rank(record, verdict, 0.0, log, order, kind.names, "")
        elif kind.first not in self._first:
            self._first[kind.first] = (order, record, log)

    def names(self, op: str, layer: str) -> tuple[str, str]:
        """The names under which an op and a layer are counted."""
        if op in self._names["op"] and layer in self._names["layer"]:
            return op, layer
        return self._named("op", op), self._named("layer", layer)

    def add(self, record: Mapping[str, Any], log: str = "") -> None:
        """Count one record of the log file ``log``."""
        order, self.records = self.records, self.records + 1
        op, layer = self.names(record["op"], record.get("layer") or "")
        verdict, why = record["verdict"], apart(record)
        side = record.get("side") or "none"
        self.by_op[op, verdict, side, why][0] += 1
        self.by_layer[layer, verdict, side, why][0] += 1
        if record.get("phase") == "forward":
            self.calls += not record.get("result")
            self.coverage.add(record)
        if SCREENED in (record.get("modifiers") or ()):
            self.coverage.screened += 1
        if record.get("quirk"):
            self.quirks[self._named("quirk", record["quirk"]), why == "muted"] += 1
        if NO_KERNEL in (record.get("modifiers") or ()) and record.get("phase") == "forward" and not record.get("result"):
            self.lacking[op, str(record.get("dtype"))] += 1
        self.innocent.add(record, log)
        if verdict == Verdict.TIE.value:
            self._tied(record, log)
        if record.get("born") and why != "muted":
            self.births.setdefault(str(record["born"].get("what")), (order, record, log))
        if why != "muted":
            self._rank(record, verdict, excess_of(record.get("stats") or {}), log, order, (op, layer), why)

    def first_births(self) -> list[tuple[int, Mapping[str, Any], str]]:
        """Where the first NaN and the first infinity begin, as they come: see :attr:`births`."""
        return sorted(self.births.values(), key=lambda birth: birth[0])

    def _tied(self, record: Mapping[str, Any], log: str) -> None:
        """Count a record whose elements differ at a tie."""
        key = (record.get("op"), record.get("tensor"), record.get("site"))
        tie = self.ties.get(key)
        if tie is None:
            if len(self.ties) >= TIES:
                return
            tie = self.ties[key] = Tie(record, log)
        tie.records += 1
        tie.elements += int((record.get("stats") or {}).get("tied") or 0)

    def _rank(
        self, record: Mapping[str, Any], verdict: str, far: float, log: str, order: int, names: tuple[str, str], why: str
    ) -> None:
        """Keep the record if it is among the worst or the first ones: what is set apart comes after every other finding."""
        severity = _SEVERITY[verdict]
        if far and not why:
            for key in zip(("op", "layer"), names):
                if far > self._probs.get(key, 0.0):
                    self._probs[key] = far
        rank = 0 if severity <= _HARMLESS else 1 if why else 2
        entry = (rank, severity, far, -order, record, log)
        if len(self._worst) < self.kept:
            heapq.heappush(self._worst, entry)
        elif entry[:4] > self._worst[0][:4]:
            heapq.heapreplace(self._worst, entry)
        if (kind := (bool(why), severity)) not in self._first:
            self._first[kind] = (order, record, log)
        if severity > _HARMLESS:
            self._find(record, log, order, far)

    def _named(self, kind: str, name: str) -> str:
        """``name``, or the common name of those beyond :data:`NAMES`: what is counted stays bounded, whatever a log holds."""
        known = self._names[kind]
        if name in known:
            return name
        if len(known) >= NAMES:
            return OTHER_NAMES
        known.add(name)
        return name

    def _find(self, record: Mapping[str, Any], log: str, order: int, far: float) -> None:
        key = (apart(record), *(record.get(name) for name in ALIKE))
        found = self.findings.get(key)
        if found is None:
            if len(self.findings) >= (_FINDINGS // 2 if key[0] else _FINDINGS):  # room for what is not set apart
                self.further += 1
                return
            found = self.findings[key] = Finding(order, record, log, order)
        found.records += 1
        if len(found.layers) < LAYERS:
            found.layers.add(record.get("layer") or "")
        far = math.inf if record["verdict"] == Verdict.NONFINITE.value else far
        if far > found.excess:
            found.excess, found.worst, found.log, found.place = far, record, log, order

    def worst(self) -> list[tuple[Mapping[str, Any], str]]:
        """The most serious records held and their log, by class, then by the multiple of the probabilistic bound."""
        return [(record, log) for *_, record, log in sorted(self._worst, key=lambda entry: entry[:4], reverse=True)]

    def first(self, severity: int) -> tuple[Mapping[str, Any], str] | None:
        """The earliest record of this severity or more that is not set apart, and its log; if all are, the earliest one.

        Muted ones do not count.
        """
        found = [(why, *entry) for (why, known), entry in list(self._first.items()) if known >= severity]
        return min(found, key=lambda entry: entry[:2])[2:] if found else None

    def groups(self, kind: str) -> dict[str, Group]:
        """By ``"op"`` or ``"layer"``, the most serious first."""
        found: dict[str, Group] = {}
        for (name, verdict, side, why), (records,) in list((self.by_op if kind == "op" else self.by_layer).items()):
            found.setdefault(name, Group(name, prob=self._probs.get((kind, name), 0.0))).add(verdict, side, why, records)
        return dict(sorted(found.items(), key=lambda item: (-item[1].worst.severity, -item[1].prob, item[0])))

    def verdicts(self, *, everything: bool = True) -> dict[str, int]:
        """Class -> records, the most serious class first; with what is set apart, or (``everything=False``) without."""
        total: Counter[str] = Counter()
        for (_, verdict, _, why), records in self.kinds.items():
            if everything or not why:
                total[verdict] += records
        return dict(sorted(total.items(), key=lambda item: -_SEVERITY[item[0]]))

    def apart(self) -> dict[str, int]:
        """Records set apart: "known" differences, "negligible" ones, "muted" ones; without those that there are none of."""
        total: Counter[str] = Counter()
        for (*_, why), records in self.kinds.items():
            total[why] += records
        return {why: total[why] for why in APART if total[why]}

    def muted(self) -> int:
        """Records of muted known differences."""
        return self.apart().get("muted", 0)

    def sorted_findings(self) -> list[Finding]:
        """The findings, the most serious first."""
        return sorted(self.findings.values(), key=lambda finding: finding.order)


def listed(groups: Iterable[Group]) -> dict[str, Any]:
    """Groups as JSON-ready data."""
    return {group.name: group.as_dict() for group in groups}
