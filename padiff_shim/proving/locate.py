"""Where a port parts from its original: each mistake is mended by the original's values before the next one is sought."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from ..weights.mapping import Mapping
from . import outcomes
from .agreement import OF_GRADIENT, Agreement
from .arrays import Array, largest
from .attributes import calls_alike, unlike_attributes
from .capture import Called, Capture
from .cause import WRITTEN_OTHERWISE
from .causes import Cause, Difference, explain
from .distinct import told_apart
from .masks import turned_mask
from .matching import Matching, guilty
from .nudging import Nudged
from .outcome import Outcome
from .runs import told_once
from .sides import NotWider, Side
from .smoothing import smoothed_otherwise
from .tables import Exchange, exchange, rounded_in_single, tables_of
from .ties import tied_otherwise
from .tolerances import RoundingBound, Tolerances, floor_of, rounded
from .trace import Key, Trace, Value, numbers
from .widening import in_wider

FORWARD, BACKWARD, STATISTICS = "forward", "backward", "statistics"  # parts of a run
Pairs = list[tuple[Array, Array]]
PLAIN = 0.5  # of a dtype's digits: so far no rounding travels, nor in tables that were born in float32
MOST = 64  # mistakes that are mended one by one


@dataclass
class Located:
    """What was found in a wider dtype: the differences in the order of the port's calls.

    ``over``: they explain all that is wrong. ``apart``: how far outputs and gradients were apart before any mending,
    with equal tables. ``unexplained``: what differs though no call does. ``parts``: where each of the differences was seen: in the
    forward, the backward, or in the running statistics alone. ``moved``: several calls stand in another place together, and what
    differs within them cannot be told. ``notes``: which tables both were given.
    ``unsettled``: the first that is far apart, as single rounding errors make it, too.
    """

    differences: list[Difference]
    over: bool
    apart: float
    unexplained: str = ""
    parts: tuple[str, ...] = ()
    moved: bool = False
    notes: tuple[str, ...] = ()
    unsettled: str = ""


def locate(theirs: Side, ours: Side, mapping: Mapping) -> Located:
    """Run both in a wider dtype and find what the port does otherwise. See the module's docstring.

    Gradients (of the weights in ``mapping``) are looked at only if the outputs agree: behind a wrong forward all of them are wrong.

    Raises:
        NotWider: one of them does not run in a wider dtype.
    """
    return in_wider(theirs, ours, lambda: _located(theirs, ours, mapping))


def _located(theirs: Side, ours: Side, mapping: Mapping) -> Located:
    tied = bool(tied_otherwise(mapping))  # no distinct values can be given to what is one tensor in one of both
    if not tied and (mistakes := _at_once(theirs, ours, mapping)) is not None:
        return mistakes
    if (right := _agreed(theirs, ours, mapping)) is not None:
        return right
    search: _Search | None = _Search(theirs, ours, mapping)
    assert search is not None
    if search.agree():
        return search.ended()
    if tied:
        return search.to_its_end()
    shown, far = search.part, search.apart
    again = None
    with told_apart(theirs, ours, mapping) as apart:
        if apart:
            search.forget()
            search = None
            again = _Search(theirs, ours, mapping).to_its_end()
    if again is None or not again.differences or not again.over:
        whole = (search or _Search(theirs, ours, mapping)).to_its_end()
        if again is None or not again.differences or whole.over:
            return whole
    # What it does otherwise in the forward shows elsewhere alone, as long as some weights hold equal values: norms that are taken
    # for one another, in gradients that are exchanged, which no call computes otherwise.
    return replace(again, apart=far, parts=tuple(shown if part == FORWARD else part for part in again.parts))


def _agreed(original: Side, port: Side, mapping: Mapping) -> Located | None:
    """Nothing is found where both give the same, tables and all, which runs tell of which nothing is written down; else None."""
    expected, actual = original.run_wide(), port.run_wide()
    if outcomes.shapes_differ(expected, actual):
        return None
    distances = outcomes.Distances(mapping, expected, actual)
    if not distances.beyond(floor_of(original.wider)):  # how far rounding travels need not be asked
        return Located([], True, distances.worst)
    agreement = Agreement(mapping, expected, original.run_wide(Nudged), original.wider)
    if agreement.breach(actual):
        return None
    return Located([], True, distances.worst, unsettled=agreement.unsettled(actual))


def _at_once(theirs: Side, ours: Side, mapping: Mapping) -> Located | None:
    """What is found with distinct weights, where outputs are so far apart that this cannot be rounding; None if that is not all.

    It saves the runs that ask how far rounding travels with the weights as they are, and all backwards: behind a wrong forward
    gradients say nothing.
    """
    with theirs.forward_alone(), ours.forward_alone():
        expected, actual = theirs.run_wide(), ours.run_wide(Called)
        before = _called(actual)
        if not outcomes.far_apart(outcomes.outputs(expected, actual), torch.finfo(getattr(torch, theirs.wider)).eps ** PLAIN):
            return None
        with told_apart(theirs, ours, mapping) as apart:
            located = _Search(theirs, ours, mapping, before=before).to_its_end() if apart else None
        if located is None:  # none are equal, or they cannot be exchanged
            located = _Search(theirs, ours, mapping, before=before).to_its_end()
    if not located.differences or not located.over:
        return None
    return replace(located, apart=outcomes.worst(mapping, expected, actual))


class _Search:
    """Both models in a wider dtype, from one difference to the next; ``before``: what an earlier run of the port called."""

    def __init__(self, original: Side, port: Side, mapping: Mapping, before: Sequence[str] | None = None) -> None:
        self._sides, self._mapping = (original, port), mapping
        self._original = original.run_wide(Capture)
        nudge = rounded(torch.Generator().manual_seed(0))
        touched = original.run_wide(functools.partial(Capture, touch=lambda _, tensor: nudge(tensor)))
        self._tolerance = Tolerances(trace_of(self._original), trace_of(touched))
        trace_of(touched).forget()
        self._agreement = Agreement(mapping, self._original, touched, original.wider)
        self._port = _settled(port, before)
        self.apart = outcomes.worst(mapping, self._original, self._port)
        self._forced: dict[Key, Sequence[torch.Tensor | None]] = {}
        self._attributes: dict[Key, dict[str, Any]] = {}
        self._exchanged: list[Key] = []  # of them the last
        self._found: list[tuple[str, Difference]] = []
        self._tables: Exchange | None = None  # None: not asked yet
        self._ended = False
        self._rest: str | None = None

    @property
    def part(self) -> str:
        """In which part of the run it shows that both do not agree."""
        if self._agreement.breach(self._port, forward=True, statistics=False):
            return FORWARD
        return BACKWARD if self._rest and self._rest.startswith(OF_GRADIENT) else STATISTICS if self._rest else FORWARD

    def agree(self, *, forward: bool = False) -> bool:
        """Whether both give the same, with equal tables; whatever calls the programs are made of."""
        self._rest = self._agreement.breach(self._port, forward=forward)
        if self._tables is None and not self._ended_alike():
            self._tables = self._exchange()
            if self._tables:
                self._mend()
                self.apart = outcomes.worst(self._mapping, self._original, self._port)
                self._rest = self._agreement.breach(self._port, forward=forward)
        return self._ended_alike()

    def _ended_alike(self) -> bool:
        return not self._rest and not outcomes.shapes_differ(self._original, self._port)

    def to_its_end(self) -> Located:
        """All that is found, until both agree or a difference cannot be mended."""
        self._go_on()
        return self.ended()

    def ended(self) -> Located:
        """What was found; no numbers are held any longer."""
        located = self.located()
        self.forget()
        return located

    def _go_on(self) -> None:
        settled = 0  # as many of those that are found
        for _ in range(MOST):
            if self._ended:
                return
            forward = any(part == FORWARD for part, _ in self._found)
            if self._forced or self._attributes:
                before = self._port
                if not self._mended_runs():
                    return
                if self._agreement.alike(before, self._port, forward=forward):
                    del self._found[settled:]  # mended without effect: it is no mistake
                self._note_effect(settled, before)
                settled = len(self._found)
            if self.agree(forward=forward):
                return
            matching = Matching(trace_of(self._original), trace_of(self._port), self._tolerance)
            seen = _next(matching, self._mapping, self._original, self._port, forward=forward)
            if seen is not None and seen[1].cause in WRITTEN_OTHERWISE:
                turned = turned_mask(matching, trace_of(self._original), trace_of(self._port))
                if turned is not None and turned.mend is not None and turned.mend[0].key not in self._forced:
                    seen = FORWARD, turned
            if seen is not None:
                smoothed = smoothed_otherwise(seen[1], trace_of(self._original), trace_of(self._port))
                seen = (seen[0], smoothed) if smoothed else seen
            if seen is None:
                self._ended = True
            else:
                self._found.append(seen)
                self._exchanged = []
                self._ended = not (self._exchange_attributes(*seen) or self._mended(seen[1]))
                if self._ended:
                    self._note_effect(settled, self._original)

    def _note_effect(self, since: int, other: Outcome) -> None:
        """How far outputs of another run are from the port's: of one before mending what was found last, from so many on."""
        last = self._found[since:]
        rows: list[outcomes.Row] = list(outcomes.outputs(other, self._port))
        if not any(part == FORWARD for part, _ in self._found):
            rows += (
                outcomes.gradients(self._mapping, other, self._port)
                if other is self._original
                else [(name, gradient, self._port.gradients.get(name)) for name, gradient in other.gradients.items()]
            )
        effect = outcomes.widest(rows) / max(len(last), 1)
        self._found[since:] = [(part, replace(difference, effect=effect)) for part, difference in last]

    def _mended_runs(self) -> bool:
        """Run the port as it is mended; if it does not run with the original's attributes, without the last of them, to the end."""
        try:
            self._mend()
        except NotWider:
            if not self._exchanged:
                raise
            for key in self._exchanged:
                del self._attributes[key]
            self._mend()
            self._ended = True
            self._rest = self._agreement.breach(self._port, forward=True)
        return not self._ended

    def _mend(self) -> None:
        """Run the port with the original's values where it was mended, and its tables."""
        tables = self._tables or Exchange()
        trace_of(self._port).forget()
        forced = {**tables.calls, **self._forced}
        capturing = functools.partial(Capture, forced=forced, constants=tables.constants, attributes=self._attributes)
        self._port = self._sides[1].run_wide(capturing)

    def _exchange(self) -> Exchange:
        """The tables of the original that the port is to be given, see :mod:`.tables`."""
        # What has a partner holds equal values, running statistics among them; what is neither trained nor paired is a table.
        weights = [side.trained() | {pair.name(side.framework) for pair in self._mapping} for side in self._sides]
        mine, yours = (tables_of(trace_of(run), names.__contains__) for run, names in zip((self._original, self._port), weights))

        def moved() -> list[Value]:
            touch = rounded_in_single(torch.Generator().manual_seed(0), weights[0].__contains__)
            return tables_of(trace_of(self._sides[0].run_wide(functools.partial(Capture, touch=touch))), weights[0].__contains__)

        return exchange(mine, yours, trace_of(self._port).constants, moved)

    def _exchange_attributes(self, part: str, difference: Difference) -> bool:
        """Whether the port can go on with the original's attributes in all calls that differ in the same: a setting of a model."""
        if difference.cause is not Cause.ATTRIBUTE or not difference.theirs or not difference.ours:
            return False
        if difference.theirs.name != difference.ours.name:
            return False
        calls = (trace_of(run).nodes for run in (self._original, self._port))
        pairs = calls_alike(difference.theirs, difference.ours, *calls)
        if not pairs or any(port.key in self._attributes for _, port in pairs):
            return False
        self._exchanged = [port.key for _, port in pairs]
        self._attributes.update({port.key: unlike_attributes(original, port) for original, port in pairs})
        setting = difference.ours.key
        self._found[-1:] = [(part, replace(difference, theirs=call, ours=port, setting=setting)) for call, port in pairs]
        return True

    def _mended(self, difference: Difference) -> bool:
        """Whether the port can go on with the original's values."""
        if difference.mend is None:
            return False
        node, wanted = difference.mend
        held = [None if tensor is None else tensor.detach().clone() for tensor in wanted]
        before = self._forced.get(node.key)
        if before is not None and (node.result.readers or _alike(before, held)):
            return False  # it was mended, and did not help
        self._forced[node.key] = held
        return True

    def forget(self) -> None:
        """Hold no numbers any longer; nodes and values hold each other, and would wait for a collection."""
        read = {value for _, difference in self._found for value in difference.taken or ()}
        for run in (self._original, self._port):
            trace_of(run).forget(read)

    def located(self) -> Located:
        """What was found so far."""
        found, moved = told_once(self._found, trace_of(self._original), trace_of(self._port))
        parts, differences = tuple(part for part, _ in found), [one for _, one in found]
        notes = tuple(dict.fromkeys(self._tables.notes)) if self._tables else ()
        unsettled = "" if differences else self._agreement.unsettled(self._port)
        return Located(differences, self._rest == "", self.apart, self._rest or "", parts, moved, notes, unsettled)


def _alike(one: Sequence[torch.Tensor | None], other: Sequence[torch.Tensor | None]) -> bool:
    pairs = list(zip(one, other))
    return all(
        mine is yours is None or (mine is not None and yours is not None and torch.equal(mine, yours)) for mine, yours in pairs
    )


def _next(
    matching: Matching, mapping: Mapping, original: Outcome, port: Outcome, *, forward: bool
) -> tuple[str, Difference] | None:
    """The first difference that is left, and in which part of the run it shows; ``forward``: one was mended there."""
    ends = {FORWARD: _outputs(original, port)}
    if not forward:
        ends[BACKWARD] = _gradients(mapping, original, port)
    ends[STATISTICS] = _statistics(mapping, original, port)
    for part, arrays in ends.items():
        difference = _first_difference(matching, original, port, arrays)
        if difference is not None:
            return BACKWARD if part == FORWARD and difference.backward else part, difference
    return None


def trace_of(outcome: Outcome) -> Trace:
    """What a run with a capture wrote down."""
    assert isinstance(outcome.capture, Capture)
    return outcome.capture.trace


def _settled(side: Side, before: Sequence[str] | None) -> Outcome:
    """A run that makes the same calls as the one before: what is made once (copies of weights, what a backward reads) is made."""
    outcome = side.run_wide(Capture)
    for _ in range(3):
        if before == _called(outcome):
            break
        trace_of(outcome).forget()
        before, outcome = _called(outcome), side.run_wide(Capture)
    return outcome


def _called(outcome: Outcome) -> list[str]:
    assert isinstance(outcome.capture, (Called, Capture))
    return outcome.capture.called


def _first_difference(matching: Matching, original: Outcome, port: Outcome, arrays: Pairs) -> Difference | None:
    """The first difference of the calls that lead to unequal arrays."""
    wrong: list[tuple[Value | None, Value | None]] = []
    for theirs_, ours_ in arrays:
        mine, yours = _end(trace_of(original), theirs_), _end(trace_of(port), ours_)
        if not _same(matching, mine, yours, theirs_, ours_):
            wrong.append((mine, yours))
    if not wrong:
        return None
    # What agrees, though not in its places as it should.
    turned = {value for mine, yours in wrong if mine and yours and matching.same(mine, yours) for value in (mine, yours)}
    theirs = guilty([mine for mine, _ in wrong if mine], lambda value: value in matching.of_first and value not in turned)
    ours = guilty([yours for _, yours in wrong if yours], lambda value: matching.good(value) and value not in turned)
    return explain(matching, theirs, ours, wrong[0])


def _outputs(original: Outcome, port: Outcome) -> Pairs:
    return [(one, other) for _, one, other in outcomes.outputs(original, port) if np.issubdtype(one.dtype, np.inexact)]


def _gradients(mapping: Mapping, original: Outcome, port: Outcome) -> Pairs:
    return _wholes(mapping, original.gradients, port.gradients)


def _statistics(mapping: Mapping, original: Outcome, port: Outcome) -> Pairs:
    return _wholes(mapping, original.statistics, port.statistics)


def _wholes(mapping: Mapping, mine: dict[str, Array], yours: dict[str, Array]) -> Pairs:
    """Of weights that are one whole on both sides, in one layout: a part of a gradient is no call's result."""
    pairs = zip(mapping, outcomes.own(mapping, mine), outcomes.ported(mapping, yours))
    return [(one, other) for pair, one, other in pairs if pair.is_exact and one is not None and other is not None]


def _end(trace: Trace, array: Array) -> Value | None:
    """The last value of a trace that holds an output's numbers."""
    wanted = Value(torch.from_numpy(np.ascontiguousarray(array)))
    for node in reversed(trace.nodes):
        for value in (*node.updated, *node.results):
            if value.count != wanted.count:
                continue
            if _equal(numbers(value.tensor), numbers(wanted.tensor)):
                return value
            if RoundingBound(0.0).range_alike(wanted, value) and _equal(value.sorted, wanted.sorted):
                return value
    return None


def _equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    return bool(((one == other) | (one.isnan() & other.isnan())).all())


def _same(matching: Matching, mine: Value | None, yours: Value | None, theirs: Array, ours: Array) -> bool:
    """Whether two arrays agree, by the values that they are; one that no call of Torch's made is compared as it is."""
    if mine is not None and yours is not None:
        placed = theirs.shape != ours.shape or not matching.may_lie_turned(mine, yours)
        return matching.same(mine, yours) and (
            placed or matching.in_order(mine, torch.from_numpy(theirs.copy()), torch.from_numpy(ours.copy()))
        )
    if theirs.shape != ours.shape:
        return False
    if mine is not None:
        return matching.in_order(mine, torch.from_numpy(theirs), torch.from_numpy(ours))
    return largest(theirs, ours) <= floor_of(theirs.dtype) * float(np.nan_to_num(np.abs(theirs), posinf=0.0).max(initial=0.0))
