"""What a run counts, in bounded memory: time, kernels, coverage, rounding, and verdicts by op and layer."""

from __future__ import annotations

import heapq
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple, Protocol

from ..text import logged
from ..verdicts import APART, NO_KERNEL, SCREENED, Verdict, apart
from .encoding import Plain, excess_of

# ---- Time

REFERENCE, NATIVE, MOVES, OPTIMIZER, BACKWARD = "reference", "native", "moves", "optimizer", "backward"
PARTS = (REFERENCE, NATIVE, MOVES, OPTIMIZER, BACKWARD)
_MANY = 20_000  # places told apart; those beyond are counted by op alone


class ClockPlace(NamedTuple):
    """What is measured: a part of the work, and the op, layer and line of the program that it is for.

    ``site``: a line (its ``str`` is ``"train.py:12 in forward"``), or "" where none is known.
    """

    part: str
    op: str
    layer: str
    site: Any


ENGINES = ClockPlace(BACKWARD, "", "", "")  # of a backward what is of no op: the engines, sums of gradients, leaves, reducers


class Clock:
    """The stopwatch of one thread, which is always on exactly one place: ``calls`` and ``seconds`` by :class:`ClockPlace`.

    A place that begins takes over from the one that it begins in, so that the times of all places add up to the time that passed.
    The program's own time is not measured.
    """

    __slots__ = ("_mark", "_open", "_thread", "calls", "seconds")

    def __init__(self) -> None:
        self.calls: Counter[ClockPlace] = Counter()
        self.seconds: Counter[ClockPlace] = Counter()
        self._open: list[ClockPlace] = []
        self._mark = 0.0
        self._thread = threading.get_ident()

    def begin(self, place: ClockPlace) -> None:
        """Time goes to ``place`` from here."""
        now = time.perf_counter()
        if self._open:
            self.seconds[self._open[-1]] += now - self._mark  # type: ignore[assignment]
        if place not in self.calls and len(self.calls) >= _MANY:
            place = ClockPlace(place.part, place.op, "", "")
        self._open.append(place)
        self._mark = now

    def end(self, *, counts: bool = True) -> None:
        """Time goes to the place around it again. ``counts``: it was a call."""
        if not self._open:  # a Ctrl-C fell between an end and the next beginning in a backward
            return
        now = time.perf_counter()
        place = self._open.pop()
        self.seconds[place] += now - self._mark  # type: ignore[assignment]
        if counts:
            self.calls[place] += 1
        self._mark = now

    def settle(self) -> None:
        """Torch's engine has returned: time in a backward goes to no call."""
        if self._open and self._open[-1].part == BACKWARD and self._open[-1] is not ENGINES:
            self.end()
            self.begin(ENGINES)

    def here(self) -> ClockPlace:
        """The place that time goes to."""
        return self._open[-1] if self._open else ENGINES

    def passing(self, op: str) -> Callable[[Any], None]:
        """For the node of a call in the graph of gradients: a function after which the time of a backward goes to this call.

        It goes there until the node of another call takes over. The function does nothing in other threads than the clock's, such
        as the engine thread of a device.
        """
        known = self.here()
        place = ClockPlace(BACKWARD, op, known.layer, known.site)

        def passed(_: Any) -> None:
            if self._open and self._open[-1].part == BACKWARD and threading.get_ident() == self._thread:
                self.end(counts=self._open[-1] is not ENGINES)
                self.begin(place)

        return passed


# ---- Coverage

_REASONS = 1000  # reasons for not checking
OTHERS = logged("other reasons")
NO_VERDICT = logged("compared, but no verdict could be given (UNVERIFIED)")
SECOND_UNCHECKED, THIRD_UNCHECKED = logged("not checked: second derivative"), logged("not checked: third derivative")
UPDATE_UNCHECKED = logged("optimizer update, runs on Paddle's kernel")
WRITE_UNCHECKED = logged("not checked: gradient of what is written into a tensor")
OTHER_STEP = logged("not compared: outside steps=")
THINNED = logged("not compared: every=")
RESERVOIR = logged("not compared: beyond first=, not drawn for the reservoir")
OVER_BUDGET = logged("not compared: budget= is used up")
LEFT_OUT = (OTHER_STEP, THINNED, RESERVOIR, OVER_BUDGET)  # by what the caller asked for
RECOMPUTED = logged("recompute(use_reentrant=False): a block runs twice, as natively, but what it keeps stays in memory")
REDRAWN = logged("recompute(preserve_rng_state=False) drew other numbers: gradients differ from native ones.")
OTHER_NAMES = "(others)"
_IF_ANY = ("screened", "exact_calls", "updates", "idle", "stretches")
_ALWAYS = ("float_calls", "checked_calls", "float_elements", "checked_elements")


def is_float(dtype: str | None) -> bool:
    """Whether results of this dtype are rounded; an unknown dtype (None, "") counts as one."""
    return not dtype or dtype.startswith(("float", "bfloat", "complex"))


@dataclass
class Coverage:
    """How many float calls (forward) and output elements got a verdict, and why others did not: {(op, reason): calls}."""

    float_calls: int = 0
    checked_calls: int = 0
    float_elements: int = 0
    checked_elements: int = 0
    screened: int = 0  # verdicts that stand on earlier ones of their place
    idle: int = 0  # stretches of the program in which the hooks stood idle, for a budget
    stretches: int = 0  # all of them, where some were idle
    exact_calls: int = 0  # of integers, or of no elements: they round nothing, and are no float calls
    updates: int = 0  # of the checked calls those of optimizers
    unchecked: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, record: Mapping[str, Any]) -> None:
        """A record of a forward call; gradients and further results belong to the call that they are of."""
        call = not record.get("result")
        if not is_float(record.get("dtype")):
            self.exact_calls += call
            return
        count = (record.get("stats") or {}).get("count")
        elements = math.prod(record.get("shape") or ()) if count is None else int(count)
        if record["verdict"] == Verdict.UNVERIFIED.value:
            self.float_calls += call
            self.float_elements += elements
            self.skip(record["op"], NO_VERDICT, 1)
        else:
            self.checked(call, elements)

    def checked(self, call: bool, elements: int) -> None:
        """A result that got a verdict; ``call``: the first one of its call."""
        self.float_calls += call
        self.float_elements += elements
        self.checked_calls += call
        self.checked_elements += elements

    def native(self, op: str, reason: str, calls: int, elements: int) -> None:
        """Calls that were not compared."""
        self.float_calls += calls
        self.float_elements += elements
        self.skip(op, reason, calls)

    def skip(self, op: str, reason: str, calls: int) -> None:
        """Count a reason; beyond a thousand all count as one reason, and beyond two thousand as one op, too."""
        key = (op, reason)
        if key not in self.unchecked and len(self.unchecked) >= _REASONS:
            key = (op, OTHERS)
            if key not in self.unchecked and len(self.unchecked) >= 2 * _REASONS:
                key = (OTHER_NAMES, OTHERS)
        self.unchecked[key] += calls

    def merge(self, other: Mapping[str, Any]) -> None:
        """Add the :meth:`to_dict` of another coverage."""
        for name in (*_ALWAYS, *_IF_ANY):
            setattr(self, name, getattr(self, name) + int(other.get(name) or 0))
        for op, reasons in (other.get("unchecked_ops") or {}).items():
            for reason, calls in reasons.items():
                self.skip(op, reason, int(calls))

    @property
    def estimated_calls(self) -> int:
        """Float calls of the whole program; where the hooks stood idle at times, as many a stretch as where they did not."""
        seen = self.stretches - self.idle
        return round(self.float_calls * self.stretches / seen) if self.idle and seen > 0 else self.float_calls

    def to_dict(self) -> dict[str, Any]:
        """As in the log's ``"end"`` record, the commonest reasons first."""
        by_reason: Counter[str] = Counter()
        by_op: dict[str, dict[str, int]] = {}
        for (op, reason), calls in self.unchecked.most_common():
            by_reason[reason] += calls
            by_op.setdefault(op, {})[reason] = calls
        return {
            **{name: getattr(self, name) for name in _ALWAYS},
            "unchecked": dict(by_reason.most_common()),
            "unchecked_ops": by_op,
            **{name: getattr(self, name) for name in _IF_ANY if getattr(self, name)},
            **({"estimated_calls": self.estimated_calls} if self.idle else {}),
        }


# ---- Differences that are only rounding

PLACES = 1000  # tensors of lines that are held; those beyond are dropped
_INNOCENT = frozenset((Verdict.EQUAL.value, Verdict.ROUNDING.value))


class Innocent:
    """The record with the largest difference among those that are EQUAL or ROUNDING, for each line's op and tensor."""

    def __init__(self) -> None:
        self._largest: dict[tuple[Any, ...], tuple[tuple[bool, float, float], Mapping[str, Any], str]] = {}

    def add(self, record: Mapping[str, Any], log: str) -> None:
        """Look at one record. Equal ones without a bound are passed over."""
        stats = record.get("stats") or {}
        if record["verdict"] not in _INNOCENT or not (stats.get("different") or stats.get("allowed")):
            return
        key = (record.get("op"), record.get("tensor"), record.get("site"))
        self.note(key, stats.get("max_abs"), stats.get("allowed"), record, log)

    def note(self, key: tuple[Any, ...], max_abs: Any, allowed: Any, record: Mapping[str, Any], log: str) -> None:
        """As :meth:`add`, of a record that differs or has a bound."""
        known = self._largest.get(key)
        if allowed is None and known is not None and known[0][0]:  # that one has a bound
            return
        size = (allowed is not None, _number(max_abs), _number(allowed))
        if known is None and len(self._largest) >= PLACES:
            return
        if known is None or size > known[0]:
            self._largest[key] = (size, record, log)

    def largest(self) -> list[tuple[Mapping[str, Any], str]]:
        """Records and their logs, the largest difference first; among equal ones what may differ most."""
        ordered = sorted(self._largest.values(), key=lambda entry: entry[0][1:], reverse=True)
        return [(record, log) for _, record, log in ordered]


def _number(value: Any) -> float:
    number = float(value or 0.0)  # a log's "inf" too
    return math.inf if math.isnan(number) else number


# ---- Calls by kernel

_ROUNDS_NOTHING = ("exact in both", "nothing is rounded")  # what the reasons of such calls say


def rounds(reason: str) -> bool:
    """Whether a call that stayed native for this reason is a float call. Calls of integers or without elements round nothing."""
    return not any(words in reason for words in _ROUNDS_NOTHING)


class Tally:
    """The counters of one run in one thread, so that threads lose no increments to each other."""

    __slots__ = ("backward", "clock", "definitions", "integers", "lacking", "lines", "native", "substituted")

    def __init__(self) -> None:
        self.substituted: Counter[str] = Counter()
        self.integers: Counter[str] = Counter()  # substituted calls whose result is no float
        self.lacking: Counter[tuple[str, str]] = Counter()  # calls that Paddle has no kernel for: (op, dtype)
        self.backward: Counter[str] = Counter()
        self.native: Counter[tuple[str, str]] = Counter()
        self.definitions: Counter[tuple[str, str]] = Counter()  # of updates and clippings: (name, whose formula)
        self.lines: Counter[tuple[str, str, str, Any]] = Counter()  # of calls that stayed native: (op, reason, layer, line)
        self.clock: Clock | None = None  # where a run notes its time


class Tallies:
    """The counters of one run, a :class:`Tally` a thread."""

    def __init__(self) -> None:
        self._of: dict[int, Tally] = {}

    def here(self) -> Tally:
        """This thread's counters."""
        return self._of.setdefault(threading.get_ident(), Tally())

    def keep(self, tally: Tally) -> None:
        """Add the counters of another process."""
        self._of[-1 - len(self._of)] = tally

    def total(self, kind: str) -> Counter[Any]:
        """One counter of :class:`Tally`, by its name, over all threads."""
        total: Counter[Any] = Counter()
        for tally in list(self._of.values()):
            total.update(dict(getattr(tally, kind)))  # a copy: its thread counts on
        return total

    def clocks(self) -> list[Clock]:
        """Those of all threads."""
        return [tally.clock for tally in list(self._of.values()) if tally.clock is not None]

    def clear(self) -> None:
        """Begin anew, in the child of a fork."""
        self._of.clear()


@dataclass
class LayoutCost:
    """What the contiguous [out, in] copies of Linear weights cost in a run."""

    copies: int = 0
    bytes: int = 0
    seconds: float = 0.0
    reused: int = 0
    views: int = 0
    spared: int = 0  # products that need no copy for the same bits

    def add(self, other: Mapping[str, Any]) -> None:
        """Add the costs of another process, by the same names."""
        for name in COUNTED:
            setattr(self, name, getattr(self, name) + int(other.get(name) or 0))
        self.seconds += spent(other)


COUNTED = tuple(cost.name for cost in fields(LayoutCost) if cost.name != "seconds")


def spent(table: Mapping[str, Any]) -> float:
    """The seconds of a table; 0 for what is no time."""
    seconds = float(table.get("seconds") or 0.0)
    return seconds if 0 <= seconds < math.inf else 0.0


class CallCounter(Protocol):
    """What an open mode needs of its run."""

    @property
    def layout_cost(self) -> LayoutCost:
        """What copies of weights cost."""

    def tally(self) -> Tally:
        """This thread's counters."""

    def warn(self, message: str) -> None:
        """Add a remark that the user should see once."""

    def on_the_way(self, *, backward: bool = False) -> None:
        """A good moment to write the counts so far; ``backward``: the end of one."""


# ---- Verdicts

KEPT = 100  # worst records held
_FINDINGS = 2000  # kinds of findings held; those beyond are counted as one
ALIKE = ("verdict", "side", "hypothesis", "op", "tensor", "site")  # records that agree in these make one finding
TIES = 1000  # tensors of lines with ties that are held; those beyond are dropped
LAYERS = 100  # layers of one finding that are named
NAMES = 5000  # ops, layers and known differences that are counted by name; those beyond count as one

_SEVERITY = {verdict.value: verdict.severity for verdict in Verdict}
_HARMLESS = Verdict.UNVERIFIED.severity


@dataclass
class GroupCounts:
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
        """Add a number of records of one kind; ``why`` they are set apart, or ""."""
        self.records += records
        self.verdicts[why or verdict] += records
        self.muted += records if why == "muted" else 0
        if why:
            return
        if _SEVERITY[verdict] > _HARMLESS:
            self.sides[side] += records
        if _SEVERITY[verdict] > self.worst.severity:
            self.worst = Verdict(verdict)

    def to_dict(self) -> dict[str, Any]:
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
class LineFinding:
    """Records with one verdict on one line: one row of a table, on the terminal, in Markdown and on the page.

    Attributes:
        first, place: where in the run the first record and the worst one stand.
        worst: the record furthest outside its bound; ``log``: the name of its log.
        records: how many there are.
        excess: the worst error, as a multiple of the probabilistic bound.
        layers: up to a hundred layers with such records.
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
        """Why it comes after all others, see :func:`padiff_shim.verdicts.apart`; mostly ""."""
        return apart(self.worst)


@dataclass
class Tie:
    """Records of one op, tensor and line whose elements differ at ties: the first of them, how many, and how many elements."""

    first: Mapping[str, Any]
    log: str
    records: int = 0
    elements: int = 0


class _Cells(dict[Any, list[int]]):
    """Counts by keys, each in a list of one number, which a caller may hold and increase."""

    def __missing__(self, key: Any) -> list[int]:
        self[key] = cell = [0]
        return cell


class _PlainKind:
    """Where plain records of one tensor, line and verdict are counted."""

    __slots__ = ("excess", "first", "forward", "names", "of_layer", "of_op", "owner", "rounds", "severity", "tensor")

    def __init__(self, counts: Counts, fields: Mapping[str, Any], verdict: str) -> None:
        self.owner, self.severity, self.excess = counts.own, _SEVERITY[verdict], 0.0
        self.names = op, layer = counts.names(fields["op"], fields["layer"] or "")
        self.of_op, self.of_layer = counts.by_op[op, verdict, "none", ""], counts.by_layer[layer, verdict, "none", ""]
        self.tensor, self.forward = (fields["op"], fields["tensor"], fields["site"]), fields["phase"] == "forward"
        self.rounds = is_float(fields.get("dtype"))
        self.first = (False, self.severity)


class Counts:
    """The counters of a compare run. :meth:`add` is called for each judged tensor and costs a few microseconds."""

    def __init__(self, most: int = KEPT) -> None:
        self.most = most
        self.own = object()  # identity of these counters, for objects that must not hold them
        self.records = self.calls = 0
        self.by_op = _Cells()  # op, verdict, side, why it is set apart
        self.by_layer = _Cells()  # layer, verdict, side, why it is set apart
        self.quirks: Counter[tuple[str, bool]] = Counter()
        self.lacking: Counter[tuple[str, str]] = Counter()  # op, dtype -> calls that Paddle has no kernel for
        self.coverage = Coverage()
        self.findings: dict[tuple[Any, ...], LineFinding] = {}
        self.further = 0  # findings beyond the table
        self.ended_by = ""  # the error with which the program ended
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
        """:meth:`add` of a plain record."""
        order, self.records = self.records, self.records + 1
        figures, verdict = record.figures, record.verdict
        kind = record.written.counted.get(verdict)
        if kind is None or kind.owner is not self.own:
            kind = record.written.counted[verdict] = _PlainKind(self, record.written.fields, verdict)
        kind.of_op[0] += 1
        kind.of_layer[0] += 1
        if kind.forward:
            first = not record.counted.get("result")
            self.calls += first
            if kind.rounds:
                self.coverage.checked(first, figures.elements)
            else:
                self.coverage.exact_calls += first
        if record.modifiers:
            self.coverage.screened += SCREENED in record.modifiers
        elif figures.different or figures.allowed is not None:
            self.innocent.note(kind.tensor, figures.max_abs, figures.allowed, record, log)
        excess, worst = figures.excess, self._worst
        if excess > kind.excess or len(worst) < self.most or worst[0][:3] < (0, kind.severity, excess):
            kind.excess = max(kind.excess, excess)
            self._rank(record, verdict, excess, log, order, kind.names, "")
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
        """Where the first NaN and the first infinity begin, in the order of the run: see :attr:`births`."""
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
        """Hold the record if it is among the worst or the first ones; records that are set apart come after all others."""
        severity = _SEVERITY[verdict]
        if far and not why:
            for key in zip(("op", "layer"), names):
                if far > self._probs.get(key, 0.0):
                    self._probs[key] = far
        rank = 0 if severity <= _HARMLESS else 1 if why else 2
        entry = (rank, severity, far, -order, record, log)
        if len(self._worst) < self.most:
            heapq.heappush(self._worst, entry)
        elif entry[:4] > self._worst[0][:4]:
            heapq.heapreplace(self._worst, entry)
        if (kind := (bool(why), severity)) not in self._first:
            self._first[kind] = (order, record, log)
        if severity > _HARMLESS:
            self._find(record, log, order, far)

    def _named(self, kind: str, name: str) -> str:
        """``name``, or the common name of those beyond :data:`NAMES`: a log cannot make the counters grow without bound."""
        known = self._names[kind]
        if name in known:
            return name
        if len(known) >= NAMES:
            return OTHER_NAMES
        known.add(name)
        return name

    def _find(self, record: Mapping[str, Any], log: str, order: int, far: float) -> None:
        key = (apart(record), *(record.get(name) for name in ALIKE))
        finding = self.findings.get(key)
        if finding is None:
            if len(self.findings) >= (_FINDINGS // 2 if key[0] else _FINDINGS):  # leaves room for findings that are not set apart
                self.further += 1
                return
            finding = self.findings[key] = LineFinding(order, record, log, order)
        finding.records += 1
        if len(finding.layers) < LAYERS:
            finding.layers.add(record.get("layer") or "")
        far = math.inf if record["verdict"] == Verdict.NONFINITE.value else far
        if far > finding.excess:
            finding.excess, finding.worst, finding.log, finding.place = far, record, log, order

    def worst(self) -> list[tuple[Mapping[str, Any], str]]:
        """The most serious records and their logs, by class, then by the multiple of the probabilistic bound."""
        return [(record, log) for *_, record, log in sorted(self._worst, key=lambda entry: entry[:4], reverse=True)]

    def first(self, severity: int) -> tuple[Mapping[str, Any], str] | None:
        """The earliest record of this severity or more that is not set apart, and its log; if all are, the earliest one.

        Muted ones do not count.
        """
        firsts = [(why, *entry) for (why, known), entry in list(self._first.items()) if known >= severity]
        return min(firsts, key=lambda entry: entry[:2])[2:] if firsts else None

    def groups(self, kind: str) -> dict[str, GroupCounts]:
        """By ``"op"`` or ``"layer"``, the most serious first."""
        groups: dict[str, GroupCounts] = {}
        for (name, verdict, side, why), (records,) in list((self.by_op if kind == "op" else self.by_layer).items()):
            groups.setdefault(name, GroupCounts(name, prob=self._probs.get((kind, name), 0.0))).add(verdict, side, why, records)
        return dict(sorted(groups.items(), key=lambda item: (-item[1].worst.severity, -item[1].prob, item[0])))

    def verdicts(self, *, everything: bool = True) -> dict[str, int]:
        """Class -> records, the most serious class first; ``everything=False`` leaves out records that are set apart."""
        total: Counter[str] = Counter()
        for (_, verdict, _, why), records in self.kinds.items():
            if everything or not why:
                total[verdict] += records
        return dict(sorted(total.items(), key=lambda item: -_SEVERITY[item[0]]))

    def apart(self) -> dict[str, int]:
        """Records set apart, "known", "negligible" or "muted": how many, where there are any."""
        total: Counter[str] = Counter()
        for (*_, why), records in self.kinds.items():
            total[why] += records
        return {why: total[why] for why in APART if total[why]}

    def muted(self) -> int:
        """Records of muted known differences."""
        return self.apart().get("muted", 0)

    def sorted_findings(self) -> list[LineFinding]:
        """The findings, the most serious first."""
        return sorted(self.findings.values(), key=lambda finding: finding.order)


def listed(groups: Iterable[GroupCounts]) -> dict[str, Any]:
    """Groups as JSON-ready data."""
    return {group.name: group.to_dict() for group in groups}
