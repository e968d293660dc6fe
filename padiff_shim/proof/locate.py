"""Where a port parts from its original: mistake after mistake, each mended with the original's values before the next search."""

from __future__ import annotations

import ast
import contextlib
import functools
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from ..dispatch.call_site import at_line
from ..errors import TransferError
from ..frameworks.memory import HALVES, TORCH_DTYPES, dtype_of
from ..interrupts import let_pass
from ..measure.bits import largest
from ..present.annotations import Patch
from ..recording.tensors import digest
from ..text import joined, many, tr
from ..weights.mapping import Mapping
from ..weights.transfer import carry
from ..weights.tree import OTHER, Weight, grouped
from . import agreement as agreement_module
from .agreement import (
    FLOOR,
    OF_GRADIENT,
    Agreement,
    Array,
    Noise,
    RoundingBound,
    RunOutcome,
    Tolerances,
    add_noise,
    floor_of,
    rounding_noise,
)
from .causes import (
    BACKWARD,
    FORWARD,
    STATISTICS,
    CallDifference,
    calls_alike,
    explain,
    explain_order,
    explain_result,
    explain_shape,
    unlike_attributes,
)
from .expressions import attribute_text, statements_of
from .findings import Cause, Mistake, Stage
from .fixes import Remade, functions_of, remade, rewritten
from .match import Matching, laid_as, wrong_calls
from .precision import is_whole
from .programs import ModelSide, NotWider, PaddleSide, in_wider
from .rewrites import MENDS, UNTRIED
from .rules import Evidence, diagnosed
from .trace import (
    FUSED_ATTENTION,
    Arranged,
    Called,
    Capture,
    Key,
    Tables,
    Trace,
    TraceCall,
    Value,
    WithTables,
    held_at_steps,
    numbers,
    sources,
)

ArrayPairs = list[tuple[Array, Array]]
NamedTables = Sequence[tuple[torch.Tensor, str]]
PLAIN = 0.5  # of a dtype's digits: rounding errors travel less far, as do tables that were born in float32
MOST = 64  # mistakes that are mended in one search


@dataclass
class Located:
    """What the search found in a wider dtype.

    Attributes:
        differences: in the order of the port's calls, before any rule of diagnosis.
        over: they explain all that is wrong.
        apart: how far outputs and gradients were apart before any mending, with equal tables.
        unexplained: what differs though no call does.
        tables: the original's that both programs got, in place of the port's; notes: in words.
        unsettled: the first output or gradient that is far apart, and that single rounding errors move as far.
        rounded: the tables that are held in 16 bits, and differ by that from the other program's: the original's, and the port's.
        original, port: the calls of both runs, without numbers.
    """

    differences: list[CallDifference]
    over: bool
    apart: float
    unexplained: str = ""
    tables: Tables = ()
    notes: tuple[str, ...] = ()
    unsettled: str = ""
    rounded: tuple[NamedTables, NamedTables] = ((), ())
    original: Trace = field(default_factory=Trace)
    port: Trace = field(default_factory=Trace)

    @property
    def parts(self) -> set[str]:
        """The parts of a run in which the differences show."""
        return {difference.part for difference in self.differences}


def locate(
    original: ModelSide, port: ModelSide, mapping: Mapping, differing: Differing, runs: tuple[RunOutcome, RunOutcome], *, far: bool
) -> Located:
    """Run both in a wider dtype, and find what the port does differently.

    Gradients of the weights in ``mapping`` count only where the outputs agree: behind a wrong forward all of them are wrong. Where
    outputs are equal at the models' dtype, gradients alone decide: float64 keeps of a masked score what float32 does not.

    Args:
        original, port: both programs.
        mapping: how their weights belong together.
        differing: what differs in ``runs``, those at the models' dtype. ``far``: by half of its digits.

    Raises:
        NotWider: one of them does not run in a wider dtype.
    """
    outputs_equal = differing.gradients > 0 and not (differing.forward or differing.loss or differing.shapes)
    if not (differing.first or differing.missing):
        return Located([], True, 0.0)
    located = in_wider(original, port, lambda: _located(original, port, mapping, outputs_equal))
    if (far or agreement_module.whole_outputs_differ(*runs)) and located.over and not located.differences:
        return _located_at_steps(original, port, mapping) or located
    if outputs_equal:
        located.differences = [
            replace(other, part=BACKWARD if other.part == FORWARD else other.part) for other in located.differences
        ]
    return located


def _located(original: ModelSide, port: ModelSide, mapping: Mapping, outputs_equal: bool) -> Located:
    if outputs_equal and (right := _agreed(original, port, mapping, outputs_equal=True)) is not None:
        return right
    tied = bool(tied_differently(mapping))  # one tensor cannot hold the distinct values of several
    if not tied and (mistakes := _at_once(original, port, mapping)) is not None:
        return mistakes
    if (right := _agreed(original, port, mapping)) is not None:
        return right
    search: _MistakeSearch | None = _MistakeSearch(original, port, mapping)
    assert search is not None
    if search.agree():
        return search.located()
    if tied:
        return search.to_its_end()
    shown, far = search.part, search.apart
    again = None
    with equal_weights_perturbed(original, port, mapping) as perturbed:
        if perturbed:
            search.forget()
            search = None
            again = _MistakeSearch(original, port, mapping).to_its_end()
    if again is None or not again.differences or not again.over:
        whole = (search or _MistakeSearch(original, port, mapping)).to_its_end()
        if again is None or not again.differences or whole.over:
            return whole
    # With equal weights a mistake in the forward may show elsewhere alone: where norms are taken for one another, the gradients are
    # exchanged, which no call computes differently.
    differences = [replace(other, part=shown) if other.part == FORWARD else other for other in again.differences]
    return replace(again, apart=far, differences=differences)


def _agreed(original: ModelSide, port: ModelSide, mapping: Mapping, *, outputs_equal: bool = False) -> Located | None:
    """No difference, where both give the same, tables and all; None where they do not. Its runs write no call down."""
    expected, actual = original.run_wide(), port.run_wide()
    if outputs_equal:
        pairs = agreement_module.output_pairs(expected, actual)
        actual.outputs.update({partner: expected.outputs[path] for path, partner in pairs})
    if agreement_module.shapes_differ(expected, actual) or _gradients_alone(mapping, original.trained_names(), expected, actual):
        return None
    apart, far = agreement_module.how_far(mapping, expected, actual, floor_of(original.wider))
    exact = agreement_module.whole_outputs_differ(expected, actual)
    if not exact and not far:  # however far rounding travels
        return Located([], True, apart)
    agreement = Agreement(mapping, expected, original.run_wide(lambda *_: Noise(original.wider, first=True)), original.wider)
    if agreement.breach(actual):
        return None
    return Located([], True, apart, unsettled=agreement.unsettled(actual))


def _at_once(original: ModelSide, port: ModelSide, mapping: Mapping) -> Located | None:
    """All differences, found with perturbed weights where outputs are too far apart for rounding; None if these are not all.

    It saves the runs that measure rounding with the weights as they are, and all backwards: behind a wrong forward gradients say
    nothing.
    """
    with original.forward_alone(), port.forward_alone():
        expected, actual = original.run_wide(), port.run_wide(Called)
        before = _called(actual)
        digits = torch.finfo(TORCH_DTYPES[original.wider]).eps ** PLAIN
        if not agreement_module.far_apart(agreement_module.outputs(expected, actual), digits):
            return None
        with equal_weights_perturbed(original, port, mapping) as perturbed:
            located = _MistakeSearch(original, port, mapping, before=before).to_its_end() if perturbed else None
        if located is None:  # no weights are equal, or they cannot be exchanged
            located = _MistakeSearch(original, port, mapping, before=before).to_its_end()
    if not located.differences or not located.over:
        return None
    return replace(located, apart=agreement_module.worst(mapping, expected, actual))


def _located_at_steps(original: ModelSide, port: ModelSide, mapping: Mapping) -> Located | None:
    """What differs where comparisons and roundings read in the wider dtype what both read at their own, bit for bit; None: nothing.

    0.7 * 10 is 7 in float32 and less in float64, where ``<=`` then gives what ``<`` gives.
    """
    digits = torch.finfo(TORCH_DTYPES[original.dtype()]).eps ** PLAIN

    def search() -> Located:
        steps = _MistakeSearch(original, port, mapping)
        runs = steps._original, steps._port
        far = agreement_module.far_apart(agreement_module.outputs(*runs), digits) or agreement_module.whole_outputs_differ(*runs)
        return steps.to_its_end() if far else steps.located()  # what other calls computed of these results may round

    with original.forward_alone(), port.forward_alone():
        original.held, port.held = held_at_steps(*(side.run(Capture).trace for side in (original, port)))
        try:
            located = in_wider(original, port, search) if original.held else None
        finally:
            original.held, port.held = {}, {}
    return located if located and (located.differences or located.unexplained) else None


def traced_in_wider(original: ModelSide, port: ModelSide, mapping: Mapping) -> tuple[Trace, Trace, Matching]:
    """What both compute in a wider dtype, with equal tables, and which of their values are the same.

    Raises:
        NotWider: one of them does not run in a wider dtype.
    """

    def traced() -> tuple[Trace, Trace, Matching]:
        search = _MistakeSearch(original, port, mapping)
        search.agree()
        return search.traces()

    return in_wider(original, port, traced)


class _MistakeSearch:
    """Both models in a wider dtype, from one difference to the next; ``before``: the calls of an earlier run of the port."""

    def __init__(self, original: ModelSide, port: ModelSide, mapping: Mapping, before: Sequence[str] | None = None) -> None:
        self._sides, self._mapping = (original, port), mapping
        self._port = _repeatable(port, before)
        parts = not any(FUSED_ATTENTION in name for name in _called(self._port))
        self._original = original.run_wide(functools.partial(Capture, parts=parts))
        nudge = rounding_noise(torch.Generator().manual_seed(0))
        touched = original.run_wide(functools.partial(Capture, touch=lambda _, tensor: nudge(tensor), parts=parts))
        self._tolerance = Tolerances(self._original.trace, touched.trace)
        touched.trace.forget()
        self._agreement = Agreement(mapping, self._original, touched, original.wider)
        self.apart = agreement_module.worst(mapping, self._original, self._port)
        self._forced: dict[Key, Sequence[torch.Tensor | None]] = {}
        self._idle = set[Key]()  # mended without effect: a change of the port's lines may give it one
        # Changes that did not help, or did not mend all where this was asked: they are not tried again.
        self._refused: dict[bool, set[Patch | Remade]] = {False: set(), True: set()}
        self._functions = functools.cache(lambda file: functions_of([file]))
        self._attributes: dict[Key, dict[str, Any]] = {}
        self._exchanged: list[Key] = []  # the last of them
        self._differences: list[CallDifference] = []
        self._tables: Exchange | None = None  # None: not looked for yet
        self._moved: list[list[RunOutcome]] | None = None  # runs of both with other roundings of the tables that one of them has
        self._alone = ""  # a note on those tables
        self._ended = False
        self._rest: str | None = None

    @property
    def part(self) -> str:
        """The part of the run in which it shows that both do not agree."""
        if self._agreement.breach(self._port, forward=True, statistics=False):
            return FORWARD
        return BACKWARD if self._rest and self._rest.startswith(OF_GRADIENT) else STATISTICS if self._rest else FORWARD

    def traces(self) -> tuple[Trace, Trace, Matching]:
        """Those of the last runs, and which of their values are the same."""
        traces = self._original.trace, self._port.trace
        return (*traces, Matching(*traces, self._tolerance))

    def agree(self, *, forward: bool = False) -> bool:
        """Whether both give the same with equal tables, whatever calls the programs are made of."""
        self._rest = self._agreement.breach(self._port, forward=forward)
        if self._tables is None and not self._end_alike():
            self._tables = self._exchange()
            if self._tables:
                self._mend()
                self.apart = agreement_module.worst(self._mapping, self._original, self._port)
                self._rest = self._agreement.breach(self._port, forward=forward)
        if self._rest and self._rounded_tables_explain(forward=forward):
            self._rest = ""
        return self._end_alike()

    def _end_alike(self) -> bool:
        if self._rest or agreement_module.shapes_differ(self._original, self._port):
            return False
        return not _gradients_alone(self._mapping, self._sides[0].trained_names(), self._original, self._port)

    def to_its_end(self) -> Located:
        """All differences, until both agree or one cannot be mended."""
        self._search()
        self._measure_alone()
        apis = [difference.port.api if difference.port is not None else None for difference in self._differences]
        # A setting of several calls was seen in one of them.
        seen = [(api and api.place, {_key(each.seen or each), _key(each)}) for api, each in zip(apis, self._differences)]
        for at, difference in enumerate(self._differences if not self._alone else ()):
            elsewhere = [key for place, keys in seen if place is None or place != seen[at][0] for key in keys]  # no turn of a loop
            if difference.behind not in (None, *elsewhere, "" if self._rest else None):
                self._differences[at] = difference.unadvised()
        return self.located()

    def located(self) -> Located:
        """What was found so far; the search holds no numbers any longer."""
        tables = self._tables or Exchange()
        unsettled = "" if self._differences else self._agreement.unsettled(self._port)
        over, traces = self._rest == "", (self._original.trace, self._port.trace)
        self.forget()
        notes = tuple(dict.fromkeys([*tables.notes, *filter(None, [self._alone])]))
        exchanged = [*tables.constants, *tables.made]
        return Located(self._differences, over, self.apart, self._rest or "", exchanged, notes, unsettled, tables.rounded, *traces)

    def forget(self) -> None:
        """Hold no numbers any longer; calls and values hold each other, and would wait for a collection."""
        read = {value for difference in self._differences for value in difference.taken or ()}
        for run in (self._original, self._port):
            run.trace.forget(read)

    def _search(self) -> None:
        confirmed, forced = 0, set[Key]()  # differences whose mending had an effect; what was mended before the last
        for _ in range(MOST):
            if self._ended:
                return
            forward = any(difference.part == FORWARD for difference in self._differences)
            if self._forced or self._attributes:
                before = self._port
                if not self._mended_runs():
                    return
                if self._agreement.alike(before, self._port, forward=forward):
                    del self._differences[confirmed:]  # mended without effect: it is no mistake
                    self._idle |= self._forced.keys() - forced
                self._note_effect(confirmed, before)
                confirmed = len(self._differences)
            if self.agree(forward=forward):
                return
            difference = self._next(forward=forward)
            if difference is None:
                self._ended = True
                return
            first = next((other for other in self._differences if other.alone), None)
            if first is not None and difference.change() != first.change():
                self._ended, self._rest = True, ""
                return
            self._differences.append(difference)
            self._exchanged, forced = [], {*self._forced}
            if difference.alone and difference.settles:
                self._ended, self._rest = True, ""
            else:
                self._ended = not (self._exchange_attributes(difference) or self._force(difference))
            if self._ended:
                self._note_effect(confirmed, self._original)

    def _next(self, *, forward: bool) -> CallDifference | None:
        """The first difference that remains, after the rules; ``forward``: one was mended there."""
        matching = Matching(self._original.trace, self._port.trace, self._tolerance)
        difference = _first_remaining(matching, self._mapping, self._original, self._port, forward=forward)
        if difference is None:
            difference = self._first_gradient_alone(matching)
        if difference is None:
            return None
        answering = self._sides[1].answering if isinstance(self._sides[1], PaddleSide) else None
        written = [change for other in self._differences if isinstance(change := other.change(), Patch)]
        of_port = self._sides[1].model.training, weight_names(self._sides[1], self._mapping)
        agreed, whole = _agreeing(matching, self._original, self._port), forward or difference.part == FORWARD
        behind: dict[Patch | Remade | None, Behind] = {}
        helps = functools.cache(functools.partial(self._helps, agreed, behind, forward=whole))
        evidence = Evidence(
            *(self._original.trace, self._port.trace, matching, self._forced.keys(), written, *of_port),
            layers=(self._sides[0].layers, self._sides[1].layers),
            answering=answering,
            helps=helps,
        )
        diagnosis = replace(diagnosed([difference], evidence)[0], seen=difference)
        change = diagnosis.change()
        if change is not None and not helps(change):
            return diagnosis.unadvised()
        alone = change is not None and helps(change) == MENDS and not (self._forced.keys() - self._idle or self._attributes)
        return replace(diagnosis, behind=behind.get(change), alone=alone)

    def _measure_alone(self) -> None:
        """Keep one difference alone, if all agrees with its change: the others follow from it. Else note what each change moves.

        The outputs that a change alone moves tell its effect, for the search measured behind the mending of all before. What no
        change was tried of is not known then, and cannot be held against these.
        """
        self._forced, self._attributes = {}, {}
        lines = {difference.port and difference.port.site for difference in self._differences}
        changes = [difference.change() for difference in self._differences]
        runs = dict[Patch | Remade, RunOutcome]()
        for change in dict.fromkeys(changes if len({*lines, *changes}) > 1 < len(changes) else ()):
            with contextlib.suppress(NotWider):
                outcome = None if change is None else self._run_with(change, {})
                if change is None or outcome is None:
                    continue
                runs[change] = outcome
                outcome.trace.forget()
                if not self._differ(outcome, forward=False):
                    same = [difference for difference, own in zip(self._differences, changes) if own == change]
                    self._differences = [replace(difference, behind=None) for difference in same]
                    self._rest = ""
                    return
        before = self._run_mended({}) if runs and len({*changes}) > 1 else None
        for at, (difference, own) in enumerate(zip(self._differences, changes)):
            if difference.part == FORWARD and before is not None:
                rows = agreement_module.outputs(before, runs[own]) if own in runs else ()
                effect = agreement_module.largest_of_rows(rows) / changes.count(own) if rows else None
                self._differences[at] = replace(difference, effect=effect)

    def _helps(
        self,
        agreed: int,
        behind: dict[Patch | Remade | None, Behind],
        change: Patch | Remade | None,
        whole: bool = False,
        *,
        forward: bool,
    ) -> int:
        """Whether both agree in more with other lines or another layer, or in all; :data:`.rewrites.UNTRIED` if that is not known.

        ``whole``: nothing less is asked for than that both agree. Into ``behind`` goes what differs then.
        """
        refused = self._refused[whole]
        if change is None or change in refused:
            return 0
        try:
            outcome = self._run_with(change, {key: values for key, values in self._forced.items() if key not in self._idle})
        except Exception as error:  # whatever the changed line raises
            let_pass(error)
            refused.add(change)
            return 0
        if outcome is None:
            return 0 if isinstance(change, Patch) and _same_program(change) else UNTRIED
        matching = Matching(self._original.trace, outcome.trace, self._tolerance)
        after = _agreeing(matching, self._original, outcome)
        rest = self._differ(outcome, forward=forward)
        helps = after > agreed or not rest  # a call that no trace shows may mend all
        if helps and rest:
            left = _first_remaining(matching, self._mapping, self._original, outcome, forward=forward)
            behind[change] = _key(left) if left is not None else ""
        outcome.trace.forget()
        if not helps or (whole and rest):
            refused.add(change)
        return 0 if not helps else 1 if rest else MENDS

    def _differ(self, outcome: RunOutcome, *, forward: bool) -> str:
        """What differs in a run of the port; "" where nothing does."""
        return self._agreement.breach(outcome, forward=forward) or agreement_module.shapes_differ(self._original, outcome) or ""

    def _run_with(self, change: Patch | Remade, values: dict[Key, Sequence[torch.Tensor | None]]) -> RunOutcome | None:
        """A run of the port with other lines or another layer.

        None where they cannot be exchanged: several functions of a name cannot be told apart, nor arguments that a layer keeps.
        """
        if sys.version_info < (3, 11):
            return None
        model = self._sides[1].wide_model()
        other = rewritten(model, change, self._functions(change.file)) if isinstance(change, Patch) else remade(model, change)
        with other as changed:
            return self._run_mended(values) if changed else None

    def _first_gradient_alone(self, matching: Matching) -> CallDifference | None:
        """Where the port's gradient goes back, and the original's graph ends."""
        for gradient in _gradients_alone(self._mapping, self._sides[0].trained_names(), self._original, self._port):
            end = _end(self._port.trace, gradient)
            calls = [] if end is None else wrong_calls([end], matching.is_matched)
            if calls and not any(difference.part == BACKWARD for difference in self._differences):
                difference = explain(matching, [], calls, (None, end))
                return difference and replace(difference, part=BACKWARD)
        return None

    def _note_effect(self, since: int, other: RunOutcome) -> None:
        """Note how far the port's outputs are from another run's, one before the differences ``since`` a place were mended."""
        last = self._differences[since:]
        rows: list[agreement_module.Row] = list(agreement_module.outputs(other, self._port))
        if not any(difference.part == FORWARD for difference in self._differences):
            rows += (
                agreement_module.gradients(self._mapping, other, self._port)
                if other is self._original
                else [(name, gradient, self._port.gradients.get(name)) for name, gradient in other.gradients.items()]
            )
        effect = agreement_module.largest_of_rows(rows) / max(len(last), 1)
        self._differences[since:] = [replace(difference, effect=effect) for difference in last]

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
        """Run the port with the original's values where it was mended, and with its tables."""
        self._port.trace.forget()
        self._port = self._run_mended(self._forced)

    def _run_mended(self, values: dict[Key, Sequence[torch.Tensor | None]]) -> RunOutcome:
        tables = self._tables or Exchange()
        forced = {**tables.calls, **values}
        capturing = functools.partial(Capture, forced=forced, tables=tables.constants, attributes=self._attributes)
        return self._sides[1].run_wide(capturing)

    def _rounded_tables_explain(self, *, forward: bool) -> bool:
        """Whether both are no further apart than other roundings in float32 move them, of the tables that one of them alone has.

        One side divides by a tensor that was made in float32, and the other multiplies by the number itself.
        """
        apart = self._agreement.travelled(self._port, self._with_roundings, _MOST_TRAVELLED, forward=forward)
        if not math.isfinite(apart):
            return False
        self._alone = tr(
            "in float64 both are {apart:.2g} apart, no more than other roundings explain of the tables that one of them alone "
            "makes in float32",
            apart=apart,
        )
        return True

    def _with_roundings(self) -> list[list[RunOutcome]]:
        """Runs of the original and of the port, each with other roundings of the tables that it alone has; none without such."""
        if self._moved is None:
            of_numbers = [_OfNumbers(weight_names(side, self._mapping).__contains__) for side in self._sides]
            traces = self._original.trace, self._port.trace
            every = [[value for value in trace.values() if value in known] for trace, known in zip(traces, of_numbers)]
            alone = [
                [
                    value.tensor
                    for value in own
                    if value.node is None
                    and _is_born_in(torch.float32, value)
                    and not any(_equal_numbers(table, value) for table in other)
                ]
                for own, other in zip(every, reversed(every))
            ]
            self._moved = [
                [run_with_roundings(side, tables, seed) for seed in range(_ROUNDINGS if tables else 0)]
                for side, tables in zip(self._sides, alone)
            ]
        return self._moved

    def _exchange(self) -> Exchange:
        """The original's tables that the port gets, see :func:`exchange`."""
        weights = [weight_names(side, self._mapping) for side in self._sides]
        runs = self._original, self._port
        both = [tables_of(run.trace, names.__contains__) for run, names in zip(runs, weights)]
        half = TORCH_DTYPES[self._sides[0].dtype()]

        def moved(at: int, share: float) -> dict[Value, Value]:
            touch = rounded_in_single(torch.Generator().manual_seed(0), weights[at].__contains__)
            coarse = [value.tensor for value in both[at] if share and value.node is None and _is_born_in(half, value)]
            pairs = [(tensor, tensor + share * tensor.sign() * tensor.abs().clamp_min(torch.finfo(half).tiny)) for tensor in coarse]
            trace = self._sides[at].run_wide(functools.partial(Capture, touch=touch, tables=pairs)).trace
            return dict(zip(both[at], tables_of(trace, weights[at].__contains__)))

        return exchange(both[0], both[1], moved, half if half in HALVES else None)

    def _exchange_attributes(self, difference: CallDifference) -> bool:
        """Whether the port can go on with the original's attributes in all calls that differ in the same: a setting of a model."""
        if difference.cause is not Cause.ATTRIBUTE or not difference.original or not difference.port:
            return False
        if difference.original.name != difference.port.name or difference.whole:
            return False
        pairs = calls_alike(difference.original, difference.port, self._original.trace.nodes, self._port.trace.nodes)
        if not pairs or any(port.key in self._attributes for _, port in pairs):
            return False
        self._exchanged = [port.key for _, port in pairs]
        self._attributes.update({port.key: unlike_attributes(original, port) for original, port in pairs})
        setting = difference.port.key
        self._differences[-1:] = [replace(difference, original=call, port=port, setting=setting) for call, port in pairs]
        return True

    def _force(self, difference: CallDifference) -> bool:
        """Whether the port can go on with the original's values."""
        if difference.mend is None:
            return False
        node, wanted = difference.mend
        values = [None if tensor is None else tensor.detach().clone() for tensor in wanted]
        before = self._forced.get(node.key)
        if before is not None and (node.result.readers or _alike(before, values)):
            return False  # it was mended, and did not help
        self._forced[node.key] = values
        return True


Behind = tuple[Cause, Key | None] | str  # what tells the next difference from others; "": one that no call shows


def _key(difference: CallDifference) -> Behind:
    call = difference.original or difference.port
    return difference.cause, None if call is None else call.key


def _agreeing(matching: Matching, original: RunOutcome, port: RunOutcome) -> int:
    """How many values and results of the original's the port computes, too, less those values that the port alone computes."""
    alone = (value for node in port.trace.nodes for value in node.values if not matching.is_matched(value))
    results = 0
    for expected, actual in _outputs(original, port):
        ends = _end(original.trace, expected), _end(port.trace, actual)
        results += expected.shape == actual.shape and _same(matching, *ends, expected, actual)
    return sum(value.node is not None for value in matching.of_first) + results - sum(1 for _ in alone)


def _alike(before: Sequence[torch.Tensor | None], other: Sequence[torch.Tensor | None]) -> bool:
    pairs = list(zip(before, other))
    return all(
        tensor is partner is None or (tensor is not None and partner is not None and torch.equal(tensor, partner))
        for tensor, partner in pairs
    )


def _first_remaining(
    matching: Matching, mapping: Mapping, original: RunOutcome, port: RunOutcome, *, forward: bool
) -> CallDifference | None:
    """The first difference that remains; ``forward``: one was mended there, and gradients say nothing."""
    ends = {FORWARD: _outputs(original, port)}
    if not forward:
        ends[BACKWARD] = _wholes(mapping, original.gradients, port.gradients)
    ends[STATISTICS] = _wholes(mapping, original.statistics, port.statistics)
    for part, arrays in ends.items():
        difference = _first_difference(matching, original, port, arrays, of_gradients=part == BACKWARD)
        if difference is not None:
            return replace(difference, part=BACKWARD if part == FORWARD and difference.backward else part)
    return None


def _repeatable(side: ModelSide, before: Sequence[str] | None) -> RunOutcome:
    """A run that makes the same calls as the run before it, with all that is made once: copies of weights, reads of a backward."""
    outcome = side.run_wide(Capture)
    for _ in range(3):
        if before == _called(outcome):
            break
        outcome.trace.forget()
        before, outcome = _called(outcome), side.run_wide(Capture)
    return outcome


def _called(outcome: RunOutcome) -> list[str]:
    assert isinstance(outcome.capture, (Called, Capture))
    return outcome.capture.called


def _first_difference(
    matching: Matching, original: RunOutcome, port: RunOutcome, arrays: ArrayPairs, *, of_gradients: bool = False
) -> CallDifference | None:
    """The first difference of the calls that lead to unequal arrays.

    ``of_gradients``: it is looked for in the backward first: behind outputs that agree the forward may be written otherwise.
    """
    wrong: list[tuple[Value | None, Value | None]] = []
    results: list[Arranged | None] = []  # those that are wrong
    shapes: list[Arranged] = []
    partners: dict[Value | None, set[Value | None]] = defaultdict(set)  # of a result of the port, which may be several
    for expected, actual in arrays:
        original_end, port_end = _end(original.trace, expected), _end(port.trace, actual)
        partners[port_end].add(original_end)
        if not _same(matching, original_end, port_end, expected, actual):
            wrong.append((original_end, port_end))
            results.append(_as_results(original_end, port_end, expected, actual))
        elif expected.shape != actual.shape and (of_shapes := _as_results(original_end, port_end, expected, actual)):
            shapes.append(of_shapes)
    if not wrong:
        return explain_shape(matching, shapes)
    if (laid_otherwise := explain_order(matching, wrong, results)) is not None:
        return laid_otherwise
    # Values that agree, though not in their places.
    turned = {
        value
        for original_end, port_end in wrong
        if original_end and port_end and matching.same(original_end, port_end)
        for value in (original_end, port_end)
    }

    def calls(ends: Iterable[Value | None], is_matched: Callable[[Value], bool], *, backward: bool) -> list[TraceCall]:
        return wrong_calls(
            filter(None, ends),
            lambda value: (
                (is_matched(value) and value not in turned) or (backward and value.node is not None and not value.node.backward)
            ),
        )

    original_ends, port_ends = zip(*wrong)
    for backward in (True, False) if of_gradients else (False,):
        original_calls = calls(original_ends, matching.of_first.__contains__, backward=backward)
        port_calls = calls(port_ends, matching.is_matched, backward=backward)
        if (difference := explain(matching, original_calls, port_calls, wrong[0])) is not None:
            mended = zip(difference.mend[0].values, difference.mend[1]) if difference.mend is not None else ()
            torn = any(tensor is not None and len(partners[value]) > 1 for value, tensor in mended)
            return replace(difference, mend=None) if torn else difference  # no one value is several results
    return explain_result(matching, wrong)


def _as_results(original_end: Value | None, port_end: Value | None, expected: Array, actual: Array) -> Arranged | None:
    """Two results of the models with the steps that lay their values out so."""
    if original_end is None or port_end is None:
        return None
    expected, actual = np.ascontiguousarray(expected), np.ascontiguousarray(actual)
    return laid_as(original_end, torch.from_numpy(expected)), laid_as(port_end, torch.from_numpy(actual))


def _gradients_alone(mapping: Mapping, trained: Collection[str], original: RunOutcome, port: RunOutcome) -> list[Array]:
    """The gradients that the port alone has, of weights that the original trains, too."""
    alone = [pair for pair in mapping if pair.torch in trained and pair.torch not in original.gradients]
    rows = agreement_module.gradients(replace(mapping, pairs=alone), original, port) if alone else []
    return [actual for _, _, actual in rows if actual is not None]


def _outputs(original: RunOutcome, port: RunOutcome) -> ArrayPairs:
    outputs = [(expected, other) for _, expected, other in agreement_module.outputs(original, port)]
    return [pair for pair in outputs if np.issubdtype(pair[0].dtype, np.inexact)] or outputs


def _wholes(mapping: Mapping, original: dict[str, Array], port: dict[str, Array]) -> ArrayPairs:
    """Of weights that are one whole on both sides, in one layout: a part of a gradient is no call's result."""
    pairs = zip(mapping, agreement_module.laid("torch", mapping, original), agreement_module.laid("paddle", mapping, port))
    return [(expected, actual) for pair, expected, actual in pairs if pair.is_exact and expected is not None and actual is not None]


def _end(trace: Trace, array: Array) -> Value | None:
    """The last value of a trace that holds an output's numbers."""
    wanted = Value(torch.from_numpy(np.ascontiguousarray(array)))
    for node in (*reversed(trace.nodes), *reversed(trace.repeats)):
        for value in (*node.updated, *node.results):
            if value.count != wanted.count:
                continue
            if _equal(numbers(value.tensor), numbers(wanted.tensor)):
                return value
            if RoundingBound(0.0).end_alike(wanted, value) and _equal(value.sorted, wanted.sorted):
                return value
    return None


def _equal(numbers_: torch.Tensor, other: torch.Tensor) -> bool:
    return bool(((numbers_ == other) | (numbers_.isnan() & other.isnan())).all())


def _same(matching: Matching, original_end: Value | None, port_end: Value | None, expected: Array, actual: Array) -> bool:
    """Whether two arrays agree, by their values in the traces; an array that no call of Torch made is compared itself."""
    if original_end is not None and port_end is not None:
        return matching.same(original_end, port_end) and (
            expected.shape != actual.shape
            or matching.in_order(original_end, torch.from_numpy(expected.copy()), torch.from_numpy(actual.copy()))
        )
    if expected.shape != actual.shape:
        return False
    if original_end is not None:
        return matching.in_order(original_end, torch.from_numpy(expected), torch.from_numpy(actual))
    return largest(expected, actual) <= floor_of(expected.dtype) * float(
        np.nan_to_num(np.abs(expected), posinf=0.0).max(initial=0.0)
    )


# ---- The stages in which people align a port: forward, loss, backward, running statistics.

IDENTICAL = tr("identical bit for bit")
ROUNDED = tr("equal up to rounding")
LOSS = "loss"  # the path of the loss among the outputs


def identical(values: str) -> str:
    """That all of several values are identical, as a stage says it."""
    return tr("{values} identical bit for bit", values=values)


@dataclass(frozen=True)
class Differing:
    """What differs between the bits of two runs, in words; "" where nothing does.

    Attributes:
        forward, loss, backward, statistics: the first difference of each part.
        missing: gradients of one side alone.
        shapes: outputs whose number, shapes or dtypes differ.
        gradients: how many the original has.
        dtypes: output tensors of different dtypes, which may hold the same numbers.
    """

    forward: str
    loss: str
    backward: str
    statistics: str
    missing: str
    shapes: str
    gradients: int
    dtypes: str = ""

    @classmethod
    def between(cls, mapping: Mapping, original: RunOutcome, port: RunOutcome) -> Differing:
        """Compare everything."""
        gradients = agreement_module.gradients(mapping, original, port)
        return cls(
            forward=agreement_module.outputs_differ(original, port, lambda path: path != LOSS),
            loss=agreement_module.outputs_differ(original, port, lambda path: path == LOSS),
            backward=agreement_module.first_difference(gradients, of_gradients=True),
            statistics=agreement_module.first_difference(agreement_module.statistics(mapping, original, port)),
            missing=agreement_module.without_gradient(gradients),
            shapes=agreement_module.shapes_differ(original, port),
            gradients=len(original.gradients),
            dtypes=agreement_module.dtypes_differ(original, port),
        )

    def __bool__(self) -> bool:
        return bool(self.first or self.missing or self.shapes or self.dtypes)

    @property
    def first(self) -> str:
        """The first bits that differ, in the order of a program."""
        return self.forward or self.loss or self.backward or self.statistics


def stages_of(
    differing: Differing, original: RunOutcome, port: RunOutcome, parts: Collection[str] = (), plain: str = ""
) -> list[Stage]:
    """A stage for each part that was compared.

    Args:
        differing: what differs in bits.
        original, port: the runs.
        parts: of a run, in which mistakes show.
        plain: what is wrong though no call differs.
    """
    forward = (FORWARD in parts and bool(differing.forward)) or bool(plain and differing.forward)
    stages = [_stage("forward", forward, differing.forward)]
    broken = "forward" if forward else ""
    if LOSS in original.outputs:
        wrong = not broken and bool(differing.loss) and (FORWARD in parts or bool(plain))
        stages.append(_stage(LOSS, wrong, differing.loss, behind=broken))
        broken = broken or (LOSS if wrong else "")
    if differing.gradients or differing.missing:
        wrong = not broken and (BACKWARD in parts or bool(differing.missing) or bool(plain and differing.backward))
        same = identical(many(differing.gradients, "gradient"))
        text = differing.missing or (plain if wrong and plain else differing.backward)
        stages.append(_stage("backward", wrong, text, behind=broken, same=same))
    if original.statistics and port.unlike:
        stages.append(
            Stage("statistics", None, tr("not compared: the batch norm ran on Paddle's kernel, which defines them otherwise"))
        )
    elif original.statistics and port.statistics:
        wrong = STATISTICS in parts or (bool(plain and differing.first == differing.statistics != ""))
        same = identical(many(len(port.statistics), "running statistic"))
        stages.append(_stage("statistics", wrong, differing.statistics, behind="" if wrong else broken, same=same))
    return stages


def _stage(name: str, wrong: bool, text: str, *, behind: str = "", same: str = IDENTICAL) -> Stage:
    if behind:
        return Stage(name, None, tr("not checked, the {behind} already differs", behind=tr(behind)))
    return Stage(name, not wrong, text if wrong else ROUNDED if text else same)


# ---- Tables that programs make of numbers alone: positions, frequencies, cosines, masks.
#
# A table that a model makes when it is built has the rounding errors of float32, also in the model's copy in float64; a table that
# the forward makes has none there. Both are right. So where rounding in float32 explains how far two tables are apart, both
# programs get the original's. A table that a model of 16 bits holds has the rounding errors of these.

UNIT = float(torch.finfo(torch.float32).eps)
_SLACK = 8.0  # times the effect of one rounding error of float32 at each call that a table is made of
_ENTRY = 4.0  # unit roundoffs of an entry, and of the position whose sine it is
_HELD = 1.02  # times the effect of the largest rounding error of 16 bits
_WAVE = 2.0  # no sine or cosine is larger, scaled ones included


def _same_program(patch: Patch) -> bool:
    """Whether other lines are the same program, as with brackets more."""
    before, after = (list(map(ast.dump, statements)) for statements in statements_of(patch))
    return before == after


@dataclass
class Exchange:
    """The tables that a run of the port gets: in place of its own that were there before, or by the call that makes them."""

    constants: list[tuple[torch.Tensor, torch.Tensor]] = field(default_factory=list)
    calls: dict[Key, list[torch.Tensor | None]] = field(default_factory=dict)
    made: list[tuple[torch.Tensor, torch.Tensor]] = field(default_factory=list)  # by those calls, with what takes its place
    notes: list[str] = field(default_factory=list)
    rounded: tuple[NamedTables, NamedTables] = ((), ())  # see :class:`Located`

    def __bool__(self) -> bool:
        return bool(self.constants or self.calls)


MovedTables = Callable[[int, float], dict[Value, Value]]


def exchange(original: list[Value], port: list[Value], moved: MovedTables, half: torch.dtype | None) -> Exchange:
    """The tables with which the port has the original's, where rounding explains how far they are apart.

    Args:
        original, port: the tables of both.
        moved: makes the tables of the original (0) or the port (1) again, in a run with rounding errors of float32, and with a
            share more of each number that is held in 16 bits.
        half: the dtype of 16 bits in which the models hold tables; None: they are of another one.
    """
    # Zeros do not round.
    others = [value for value in port if any(value.ends[:2]) and not any(_equal_numbers(table, value) for table in original)]
    if not others or not original:
        return Exchange()
    swings = {torch.float32: _swings_of_singles(original, moved)}
    swings |= {} if half is None else {half: _swings_of_halves((original, port), moved, half)}
    born = {dtype: {value for value in (*original, *port) if _is_born_in(dtype, value)} for dtype in swings}
    exchanged, noted, coarse = Exchange(), set[Value](), list[tuple[Value, Value]]()
    for value in others:
        fitting = (
            (table, laid, dtype)
            for dtype, of_tables in swings.items()
            for table in original
            if not born[dtype].isdisjoint((table, value)) and (laid := _as_in(table, value, of_tables)) is not None
        )
        table, wanted, dtype = next(fitting, (None, None, torch.float32))
        if table is None or wanted is None:
            continue
        coarse += [(table, value)] if dtype is half else []
        if value.node is None:
            exchanged.constants.append((value.tensor, wanted))
        else:
            exchanged.calls[value.node.key] = [wanted if result is value else None for result in value.node.values]
            exchanged.made.append((value.tensor, wanted))
        taken_from = value.node.operands if value.node is not None and value.node.moves else ()
        if not any(operand.value in noted for operand in taken_from):
            exchanged.notes.append(_note(value, wanted, dtype))
        noted.add(value)
    if half is not None:
        exchanged.rounded = _held_otherwise(coarse, half)
    return exchanged


Swings = dict[Value, torch.Tensor]  # of tables: how far their entries may move


def _swings_of_singles(tables: list[Value], moved: MovedTables) -> Swings:
    """Of the original's, where each call that makes them rounds in float32 once more."""
    pairs = ((table, _moved_by(table, twin)) for table, twin in moved(0, 0.0).items())
    return {table: torch.full_like(apart, _SLACK * float(apart.max())) for table, apart in pairs}


def _swings_of_halves(both: Sequence[list[Value]], moved: MovedTables, half: torch.dtype) -> Swings:
    """Of those that are made of numbers held in 16 bits, where each of these moves by one rounding."""
    swings: Swings = {}
    for at, tables in enumerate(both):
        coarse = [value for value in tables if _is_born_in(half, value)]
        for sign in (-1.0, 1.0) if coarse else ():
            twins = moved(at, sign * torch.finfo(half).eps / 2)
            for value in coarse:
                apart = _HELD * _moved_by(value, twins.get(value, value))
                swings[value] = torch.maximum(swings.get(value, apart), apart)
    return swings


def _moved_by(table: Value, twin: Value) -> torch.Tensor:
    """How far entries are from those of another run; nothing where a decision changed."""
    expected = numbers(table.tensor)
    actual = numbers(twin.tensor) if twin.tensor.shape == table.tensor.shape else expected
    return (actual - expected).abs().nan_to_num(0.0, 0.0, 0.0)


def _held_otherwise(pairs: list[tuple[Value, Value]], half: torch.dtype) -> tuple[NamedTables, NamedTables]:
    """The sources of both tables that are held in 16 bits in the original alone, and in the port alone, with names."""
    every = [{source for pair in pairs for source in sources(pair[at]) if _is_born_in(half, source)} for at in (0, 1)]
    both = [sorted(held, key=lambda source: not source.label) for held in every]  # a name says more than a shape
    original, port = (
        [
            (value.tensor, value.label or _a_table(value))
            for value in own
            if not any(_equal_numbers(other, value) for other in others)
        ]
        for own, others in (both, both[::-1])
    )
    return original, port


def weight_names(side: ModelSide, mapping: Mapping) -> set[str]:
    """What is no table: what is trained, or has a partner and so holds equal values, running statistics among them."""
    return side.trained_names() | {pair.name(side.framework) for pair in mapping}


class _OfNumbers:
    """The values in which no input and no weight has a part. ``is_weight``: of a constant's label."""

    def __init__(self, is_weight: Callable[[str], bool]) -> None:
        self._is_weight = is_weight
        self._known: dict[TraceCall, bool] = {}

    def __contains__(self, value: Value) -> bool:
        if value.node is None:
            return not value.label.startswith("input ") and not self._is_weight(value.label)
        return self.makes(value.node)

    def makes(self, node: TraceCall) -> bool:
        """Whether a call reads nothing else; calls must come in their order."""
        if node not in self._known:
            self._known[node] = not node.backward and all(operand.value in self for operand in node.operands)
        return self._known[node]


def tables_of(trace: Trace, is_weight: Callable[[str], bool]) -> list[Value]:
    """All values of floats that are made of numbers alone."""
    of_numbers = _OfNumbers(is_weight)
    tables = [value for value in trace.values() if value in of_numbers]
    return [value for value in tables if value.tensor.is_floating_point() and value.tensor.numel() > 1]


def rounded_in_single(generator: torch.Generator, is_weight: Callable[[str], bool]) -> Callable[[TraceCall, torch.Tensor], None]:
    """Moves results that are made of numbers alone by up to one unit roundoff of float32."""
    of_numbers = _OfNumbers(is_weight)

    def touch(node: TraceCall, tensor: torch.Tensor) -> None:
        if of_numbers.makes(node):
            add_noise(tensor, UNIT, generator)

    return touch


_ROUNDINGS = 3  # other ones of each table
_MOST_TRAVELLED = 256 * UNIT  # of the largest element: what moves it further stands at a tie or a step


def run_with_roundings(side: ModelSide, tables: Iterable[torch.Tensor], seed: int) -> RunOutcome:
    """A run with tables whose numbers are moved by up to one unit roundoff of float32."""
    generator = torch.Generator().manual_seed(seed)
    pairs = [(table.clone(), table.clone()) for table in tables]  # the first may be memory that the run writes
    for _, moved in pairs:
        add_noise(moved, UNIT, generator)
    return side.run_wide(lambda *_: WithTables(pairs))


def _equal_numbers(table: Value, value: Value) -> bool:
    """Whether two tables hold the same numbers in float64, in whatever order."""
    largest = max(map(abs, table.ends[:2]))
    if table.count != value.count or not RoundingBound(FLOOR * largest).end_alike(table, value):
        return False
    expected, actual = numbers(table.tensor), numbers(value.tensor)
    if _within(expected, actual, FLOOR * expected.abs()):
        return True
    return _within(table.sorted, value.sorted, FLOOR * table.sorted.abs())


_DIGITS = {torch.float32: (24, 8), torch.float16: (11, 4), torch.bfloat16: (8, 4)}  # of a dtype; and how few could be any dtype's


def _is_born_in(dtype: torch.dtype, value: Value) -> bool:
    """Whether a table is made of numbers that were born in a dtype: it holds them, and fewer digits do not.

    Whole numbers that 16 bits hold are not rounded there.
    """
    most, few = _DIGITS[dtype]
    every = (source.sorted for source in sources(value))
    born = (values for values in every if _have(most, values) and not _have(few, values))
    return any(dtype not in HALVES or not is_whole(values, 2.0**most) for values in born)


def _have(digits: int, values: torch.Tensor) -> bool:
    """Whether all numbers have no more binary digits."""
    mantissas = torch.frexp(values).mantissa * 2.0**digits
    return bool((mantissas == mantissas.round()).all())


def _as_in(table: Value, value: Value, swings: Swings) -> torch.Tensor | None:
    """The original's table in the places of the port's; None if they are further apart than rounding explains."""
    if table.tensor.numel() != value.tensor.numel():
        return None
    expected, actual = numbers(table.tensor), numbers(value.tensor)
    still = torch.zeros_like(expected)
    own, other = _of_entries(table.tensor, UNIT) + swings.get(table, still), swings.get(value, still)
    if _within(expected, actual, own + other):
        return expected.reshape(value.tensor.shape)
    ranks, places = expected.sort(), actual.argsort()
    if not _within(ranks.values, actual[places], own[ranks.indices] + other[places]):
        return None
    wanted = torch.empty_like(expected)
    wanted[places] = ranks.values
    return wanted.reshape(value.tensor.shape)


def with_rounding_of(expected: torch.Tensor, actual: torch.Tensor, unit: float) -> torch.Tensor:
    """The second table, with the first's entries in all places in which rounding explains how far both are apart.

    ``unit``: the unit roundoff of the coarser one; 0 of whole numbers.
    """
    first, second = (torch.view_as_real(table) if table.is_complex() else table for table in (expected, actual))
    if not first.numel():
        return actual
    near = _near(numbers(first), numbers(second), _SLACK * _of_entries(first, unit)).reshape(first.shape)
    return torch.where(near.all(-1) if expected.is_complex() else near, expected.to(actual.dtype), actual)


def _of_entries(table: torch.Tensor, unit: float) -> torch.Tensor:
    """How far the entries of a table may be apart: by rounding of each, and of the angle whose sine it is."""
    sizes = numbers(table).abs().nan_to_num(0.0, 0.0, 0.0)
    allowed = _ENTRY * unit * sizes
    if not unit or float(sizes.max()) > _WAVE:
        return allowed
    positions = np.indices(table.shape).max(0).reshape(-1) + 1.0  # along any axis: no angle of a wave is larger
    return allowed + _ENTRY * unit * torch.from_numpy(positions)


def _within(expected: torch.Tensor, actual: torch.Tensor, allowed: torch.Tensor) -> bool:
    return bool(_near(expected, actual, allowed).all())


def _near(expected: torch.Tensor, actual: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
    return (expected == actual) | (expected.isnan() & actual.isnan()) | ((expected - actual).abs() <= allowed)


def _a_table(value: Value) -> str:
    return tr("a table of {shape}", shape=list(value.tensor.shape))


def _note(value: Value, wanted: torch.Tensor, dtype: torch.dtype) -> str:
    """A note on a table that the port got; ``dtype``: whose rounding explains it."""
    reader = value.node or next(iter(value.readers), None)
    where = tr(" at {line}", line=at_line(reader.site.file, reader.site.line)) if reader else ""
    return tr(
        "{name}{where} is up to {apart:.2g} from the original's, no more than rounding in {dtype} explains: "
        "in float64 both run with the original's",
        name=tr("the table {name}", name=value.label) if value.label else _a_table(value),
        where=where,
        apart=largest(numbers(wanted).numpy(), numbers(value.tensor).numpy()),
        dtype=dtype_of(dtype),
    )


# ---- Equal weights, as models are made with all ones or zeros: taken for one another they change gradients alone.

_SPREAD = 0.1
_FIRST = 16  # elements that tell most weights apart


@contextlib.contextmanager
def equal_weights_perturbed(original: ModelSide, port: ModelSide, mapping: Mapping) -> Iterator[bool]:
    """Within it plain and equal weights hold distinct values in the float64 models of both; False if there are none."""
    original_model, port_model = original.wide_model(), port.wide_model()
    names = {pair.torch for pair in mapping if pair.torch and pair.paddle}
    named = {name: weight for name, weight in original_model.named_parameters() if name in names and weight.is_floating_point()}
    groups = [
        group
        for alike in grouped(named.values(), lambda weight: (*weight.shape, *weight.detach().flatten()[:_FIRST].tolist())).values()
        for group in (grouped(alike, lambda weight: digest(weight.detach().cpu().numpy())).values() if len(alike) > 1 else [alike])
    ]
    equal = [weight for group in groups if len(group) > 1 or _is_plain(group[0]) for weight in group]
    if not equal:
        yield False
        return
    changed = {name for name, weight in named.items() if any(weight is other for other in equal)}
    generator, before = torch.Generator().manual_seed(0), [weight.detach().clone() for weight in equal]
    try:
        with torch.no_grad():
            for weight in equal:
                noise = torch.randn(weight.shape, dtype=torch.float64, generator=generator) * _SPREAD
                weight.add_(noise.to(weight.device, weight.dtype))
        try:
            carry(replace(mapping, pairs=[pair for pair in mapping if pair.torch in changed]), original_model, port_model)
            before.clear()
        except TransferError:  # a rule of the other direction alone
            with torch.no_grad():  # earlier runs read these
                for weight, value in zip(equal, before):
                    weight.copy_(value)
            equal = []
        yield bool(equal)
    finally:
        original.forget_wide()
        port.forget_wide()


def _is_plain(weight: torch.Tensor) -> bool:
    """Whether all elements are one number."""
    values = weight.detach().flatten()
    return len(values) > 0 and all(bool((part == values[0]).all()) for part in (values[:_FIRST], values))


# ---- Weights that are one tensor in one program and several in the other: equal at first, they part in a training.


def tied_differently(mapping: Mapping) -> list[Mistake]:
    """A mistake for each group of parameters that are tied in one program alone, or layer of such, with what to write."""
    mistakes = []
    for framework in OTHER:
        groups = defaultdict[tuple[str, ...], list[list[Weight]]](list)  # by the layers that hold these weights
        for pairs in mapping.tied_apart(framework):
            entire = [pair for pair in pairs if pair.torch_slot.whole and pair.paddle_slot.whole]
            weights = [pair.paddle_slot.weight for pair in entire if pair.torch_slot.weight and not pair.torch_slot.weight.buffer]
            tied = [weight for weight in weights if weight and not weight.buffer]
            if len(tied) > 1:
                groups[tuple(weight.name.rpartition(".")[0] for weight in tied)].append(tied)
        for layers, group in groups.items():
            whole = len(group) > 1 and len(group) == sum(
                pair.paddle.rpartition(".")[0] == layers[-1] != "" for pair in mapping.pairs
            )
            all_words = [_words_of_layers(framework, layers)] if whole else [_words_of_tied(framework, tied) for tied in group]
            mistakes += [Mistake(Cause.TIED, text, None, None, (), write=write) for text, write in all_words]
    return mistakes


def _words_of_layers(framework: str, layers: Sequence[str]) -> tuple[str, str]:
    """What is so, of all weights of layers."""
    words = {"layers": joined(" and ", (", ".join(layers[:-1]), layers[-1])), "target": attribute_text(layers[-1])}
    if framework == "paddle":
        return tr("{layers} are one layer in the port, and several in the original: give {target} weights of its own", **words), ""
    other = attribute_text(layers[0])
    text = tr("{layers} are one layer in the original, and several in the port: write {target} = {other}", **words, other=other)
    return text, ""


def _words_of_tied(framework: str, tied: list[Weight]) -> tuple[str, str]:
    """What is so, and what to write where the text does not end with it."""
    names = [weight.name for weight in tied]
    path, _, own = names[-1].rpartition(".")
    words = {"listed": joined(" and ", (", ".join(names[:-1]), names[-1])), "target": attribute_text(path)}
    if framework == "paddle":
        return tr(
            "{listed} are one weight in the port, and several in the original: give {target} a weight of its own", **words
        ), ""
    words["names"] = names[0]
    if tied[-1].shape == tied[0].shape:
        text = tr(
            "{listed} are one weight in the original, and several in the port: write {target}.{own} = self.{names}",
            **words,
            own=own,
        )
        return text, ""
    text = tr(  # a Linear's weight lies [in, out] in Paddle
        "{listed} are one weight in the original, and several in the port, whose shapes differ: "
        "instead of {target}(x) write paddle.matmul(x, self.{names}, transpose_y=True)",
        **words,
    )
    return text, f"paddle.matmul(x, self.{names[0]}, transpose_y=True)"
