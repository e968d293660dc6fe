"""The search for origins: runs of both programs, origins by line, and the changes that mend them, tried in memory."""

from __future__ import annotations

import contextlib
import functools
import linecache
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from ...frameworks.weight_copies import same_tensor_bits
from ...measure.bits import same_bits
from ...proof import agreement
from ...text import many, tr
from ...weights.mapping import Mapping as Weights
from ..agreement import Array
from ..expressions import Rewrite
from ..fixes import in_place
from ..locate import traced_in_wider, weight_names
from ..programs import PaddleSide, RunOutcome, TorchSide, tensors_of
from ..trace import Forced, Key
from .accumulation import cast_change, narrower_change, order_change, rows_change
from .calls import OpCall, ValueId
from .changes import MOVES, AnyChange, Candidate, Change, changes, layout_candidates, probed
from .followed_runs import CallPlace, Followed, LinkedCapture, NumberedCapture, call_number, layer_of
from .formulation import Formulation
from .fused_weights import fused_products, joined_products
from .origins import OriginGroup, Partners, Result
from .source import OF_A_NUMBER, Span, in_layer
from .tables import table_change
from .translation import Translator


@dataclass(eq=False)
class Origin:
    """One place of the port's source where bits part, in every layer that runs it.

    Attributes:
        groups: the results that differ, with the calls behind each.
        times: the numbers of the Paddle calls of each time it is made.
        change: what mends it; None if nothing does that was tried.
        laid: the change gives an operand another layout; its calls stand elsewhere.
        ends: the gradients that differ by it, where no value of the port shows that.
        reason: why no change is known, of one without.
    """

    groups: list[OriginGroup] = field(default_factory=list)
    times: list[set[int]] = field(default_factory=list)
    change: AnyChange | None = None
    laid: bool = False
    ends: set[str] = field(default_factory=set)
    reason: str = ""
    formulation: Formulation | None = None  # what is known of its calls, where no other spelling mends it

    def at(self, numbers: set[int]) -> list[OriginGroup]:
        """The groups of one time, those of the forward first."""
        return sorted((group for group in self.groups if group.calls <= numbers), key=lambda group: group.backward)

    @property
    def results(self) -> set[Result]:
        """What differs."""
        return {group.result for group in self.groups}


@dataclass
class ForcedRun:
    """A run in which values are the original's.

    Attributes:
        capture: its calls, and what they gave differently by themselves.
        ends: the outputs and gradients that are not the original's.
    """

    capture: NumberedCapture
    ends: set[str]


class OriginSearch:
    """Runs of a port and its original in the models' own dtype.

    Args:
        original, port: both programs, with equal weights.
        mapping: which weights belong together.
        steps: the programs are so many steps of an optimizer; what differs in the last of them is looked into.
    """

    def __init__(self, original: TorchSide, port: PaddleSide, mapping: Weights, *, steps: int = 0) -> None:
        self._sides, self._port, self._mapping, self.steps = (original, port), port, mapping, steps
        self._units: list[float] | None = None
        self._unlike: set[str] = set()
        self.origins: list[Origin] = []
        self.base_ends: set[str] = set()
        self.notes: list[str] = []  # what could not be followed
        self._settled: list[AnyChange] = []  # changes behind which others are tried
        linecache.checkcache()  # the source may have been changed, and imported again
        self.original = original.run(LinkedCapture)
        port.order = list(self.original.outputs)
        self._run(Followed())  # what is made once is made
        self.followed = Followed()
        self.natural = self._run(self.followed)
        self.calls: Sequence[OpCall] = self.followed.recorder.calls
        self.places: Sequence[CallPlace] = self.followed.places

    def find_origins(self) -> None:
        """Find every origin.

        Raises:
            NotWider: one of the programs does not run in a wider dtype.
        """
        assert isinstance(self.original.capture, LinkedCapture)
        assert isinstance(self.natural.capture, NumberedCapture)
        wide = traced_in_wider(*self._sides, self._mapping)
        weights = [weight_names(side, self._mapping) for side in self._sides]
        held = [set() if self.steps else tensors_of(side.model).keys() - names for side, names in zip(self._sides, weights)]
        self.partners = Partners(self.original.capture.trace, self.natural.capture, wide, held)
        self._forced = self.partners.forced()
        outcome = self._run(Followed(), self._forced)
        assert isinstance(outcome.capture, NumberedCapture)
        self._base = ForcedRun(outcome.capture, self.ends(outcome))
        self.base_ends = self._base.ends
        # Layers of one name that return something else: other bits of equal values are no rounding.
        self._unlike = {layer for layer, pairs in self.layers(outcome) if not all(_equal(*pair) for pair in pairs)}
        self.origins = [*([] if self.steps else self._fused()), *self._origins()]

    def _fused(self) -> list[Origin]:
        """Products with several weights in one, which no single value shows; those with a change are settled."""
        origins = []
        parameters = self._port.parameters()
        for product in fused_products(
            self._mapping, parameters, self.followed.recorder, self.places, (self.original, self.natural)
        ):
            known = next((change.formulation for change in product.changes), None)
            origin = Origin(product.groups, product.times, ends=product.weights, formulation=known)
            origin.change = next((change for change in product.changes if self._mends(change, origin)), None)
            if isinstance(origin.change, Change):
                origin.times = [set(candidate.calls) for candidate in origin.change.candidates]
                self._settled.append(origin.change)
                self._base = self._with(self._settled) or self._base
            origins.append(origin)
        return origins

    def _run(self, followed: Followed, forced: Forced | None = None) -> RunOutcome:
        held, self._port.planned = self._port.planned, followed.plan
        for parameter in self._port.parameters().values() if not self.steps else ():  # a change may read it before its own call
            followed.recorder.value(parameter)
        try:
            return self._port.run(functools.partial(followed.capture, forced=forced))
        finally:
            self._port.planned = held

    def forced_run(self, followed: Followed, free: Iterable[int] = ()) -> ForcedRun:
        """A run in which values are the original's, but for those that the Paddle calls ``free`` make."""
        outcome = self._run(followed, self._but(set(free)))
        assert isinstance(outcome.capture, NumberedCapture)
        return ForcedRun(outcome.capture, self.ends(outcome))

    def _but(self, free: set[int]) -> Forced:
        """What is forced, without some calls and the sums of their gradients."""
        if not free:
            return self._forced
        loose: set[Key] = set()
        for node in self.partners.trace.nodes:
            number = call_number(node)
            sums = number is None and any(
                operand.value.node is not None and operand.value.node.key in loose for operand in node.operands
            )
            if number in free or sums:
                loose.add(node.key)
        return {key: wanted for key, wanted in self._forced.items() if key not in loose}

    def ends(self, outcome: RunOutcome) -> set[str]:
        """The outputs and gradients of a run whose bits are not the original's."""
        rows = [*agreement.outputs(self.original, outcome), *agreement.gradients(self._mapping, self.original, outcome)]
        return {name for name, expected, actual in rows if expected is not None and not _equal(expected, actual)}

    def _differing(self) -> Iterable[tuple[Result, Any]]:
        """The results that differ; of an optimizer's steps those of the last step that has any: an average that begins with zeros
        differs in fewer places than all later ones."""
        differing = self._base.capture.differing.items()
        if not self.steps:
            return differing
        last = max((layer_of(key) for (key, _), _ in differing), key=_number, default="")
        return [pair for pair in differing if layer_of(pair[0][0]) == last]

    def _origins(self) -> list[Origin]:
        """The groups that share calls are one; those of one line in several layers are one origin."""
        parts: list[tuple[set[int], list[OriginGroup]]] = []
        for result, made in self._differing():
            group = self.partners.group(result, made)
            numbers, groups = set(group.calls), [group]
            for part in [part for part in parts if part[0] & numbers]:
                parts.remove(part)
                numbers |= part[0]
                groups = [*part[1], *groups]
            parts.append((numbers, groups))
        origins: dict[object, Origin] = {}
        for numbers, groups in sorted(parts, key=lambda part: min(part[0], default=len(self.calls))):
            origin = origins.setdefault(
                frozenset((self.calls[number].op, self.places[number].site) for number in numbers) or groups[0].port[-1].site,
                Origin(),
            )
            origin.groups += groups
            origin.times.append(numbers)
        return list(origins.values())

    def _again(self, numbers: Sequence[int]) -> Iterator[tuple[int, ...]]:
        """Some calls each time that their lines run: the numbers of all."""
        order = [(call.op, place.site) for call, place in zip(self.calls, self.places)]
        for shift in range(-min(numbers), len(order) - max(numbers)):
            if all(order[number] == order[number + shift] for number in numbers):
                yield tuple(number + shift for number in numbers)

    def leave_out(self, shares: Sequence[float | None]) -> list[float | None]:
        """Leave the origins out that move signs of zeros alone, and by them no bit of a result; the shares of the others."""
        rest: list[tuple[Origin, float | None]] = []
        for origin, share in zip(list(self.origins), shares):
            others = {result for other in self.origins if other is not origin for result in other.results}
            forced: dict[Key, list[Any]] = {
                key: [tensor if (key, place) in others else None for place, tensor in enumerate(wanted)]
                for key, wanted in self._forced.items()
            }
            signs = all(torch.equal(group.made, group.wanted) for group in origin.groups)
            alone = self.identical(self._run(Followed(), forced)) if signs and not self.steps else ()
            if not alone or any(same < whole for same, whole in alone):
                rest.append((origin, share))
        self.origins = [origin for origin, _ in rest]
        return [share for _, share in rest]

    def with_sources(self, sources: Mapping[str, str]) -> tuple[tuple[int, int], tuple[int, int]] | None:
        """What of the port is identical if its files hold these texts; None if it does not run then."""
        try:
            with in_place(sources):
                return self.identical(self._run(Followed()))
        except Exception:  # of the port's own code
            return None

    def _said(self, origin: Origin, make: Callable[..., Any], *arguments: Any) -> Any:
        """What can be made of an origin's calls; None where they cannot be followed, which is said."""
        try:
            return make(*arguments)
        except Exception as error:  # of the port's own code, too, where its calls are made again
            site = origin.groups[0].port[-1].site
            self.notes.append(unfollowed(f"{site.file}:{site.line}", error))
            return None

    def find_changes(self) -> None:
        """Try for each origin other layouts, and then the original's own calls."""
        self._try_layouts()
        self._try_all()
        if self._settle():
            changed = [origin for origin in self.origins if origin.change is not None]
            for place, origin in enumerate(changed, 1):
                self._gather(origin, [each.change for each in changed[:place] if each.change is not None])
            self._try_all()

    def _gather(self, origin: Origin, known: Sequence[AnyChange]) -> None:
        """Origins without a change that another's mends behind those before it, as one that lays out what they read does, are a
        part of that one."""
        left = [other for other in self.origins if other.change is None]
        ran = self._with(known) if left else None
        for other in left:
            if ran is None:
                return
            if other.results <= ran.capture.seen and not other.results & ran.capture.differing.keys() and not other.ends & ran.ends:
                origin.groups, origin.times = [*origin.groups, *other.groups], [*origin.times, *other.times]
                self.origins.remove(other)

    def _try_all(self) -> None:
        """Try for the origins that have no change: other tables, the original's own calls, and other orders."""
        left = [origin for origin in self.origins if origin.change is None]
        for origin in left if not self.steps else ():
            origin.change = self._said(origin, self._of_tables, origin)
        left = [origin for origin in left if origin.change is None]
        translated: dict[int, list[list[Candidate]]] = {}
        for origin in left:
            made = [(numbers, self._translated(origin, numbers)) for numbers in origin.times]
            kinds = {each.formulation.spellings: each for _, each in made if each is not None}
            alike = len(kinds) < 2 and all(each is not None for _, each in made)
            each_way = [] if alike else kinds.values()  # one time may be written as another is
            others = [other for each in each_way for other in self._everywhere(Change(each.formulation, (each,))).candidates[1:]]
            translated[id(origin)] = [
                [
                    *(each for each in (own, *others) if each is not None and numbers.intersection(each.calls)),
                    *joined_products(self.calls, numbers),
                ]
                for numbers, own in made
            ]
        if left:
            self._try(left, translated)
        for origin in left if not self.steps else ():
            if origin.change is None:
                origin.change = self._said(origin, self._ordered, origin)

    def _translated(self, origin: Origin, numbers: set[int]) -> Candidate | None:
        """The original's own calls at one time of an origin; None where they make what another time does, as of a recomputation."""
        groups = origin.at(numbers)
        candidate = self._said(origin, self._translator.candidate, groups, numbers) if groups else None
        others = set[int]().union(*origin.times) - numbers
        return None if candidate is None or others.intersection(candidate.calls) else candidate

    def _settle(self) -> bool:
        """Have all changes in the runs to come, wherever their lines run, if there are origins that may be mended behind them."""
        before = [origin.change for origin in self.origins]
        if self.steps or not any(before) or all(before):
            return False
        for origin in self.origins:
            if isinstance(origin.change, Change):
                origin.change = self._everywhere(origin.change)
        self._settled = [origin.change for origin in self.origins if origin.change is not None]
        ran = self._with(self._settled)
        if ran is None or not ran.ends <= self.base_ends or not ran.capture.differing.keys() <= self._base.capture.differing.keys():
            self._settled = []
            for origin, known in zip(self.origins, before):
                origin.change = known
            return False
        self._base = ran
        return True

    @functools.cached_property
    def _translator(self) -> Translator:
        assert isinstance(self.original.capture, LinkedCapture)
        return Translator(self.original.capture, self.partners, self.followed.recorder, self._port.parameters())

    def _of_tables(self, origin: Origin) -> AnyChange | None:
        """Other tables that mend an origin."""
        table = table_change(origin.groups, self.followed.recorder, self.places, self._port.tables, self._translator.constant)
        return table if table is not None and self._mends(table, origin) else None

    def _ordered(self, origin: Origin) -> AnyChange | None:
        """Another order of the sums of gradients that mends an origin."""
        times = [origin.at(numbers) for numbers in origin.times]
        orders = (
            order_change(times, self.partners, self.calls, self.places),
            rows_change(times, self.calls, self.places),
            cast_change(times, self.calls, self.places),
            narrower_change(times, self.calls),
        )
        return next((order for order in orders if order is not None and self._mends(order, origin)), None)

    @functools.cached_property
    def _in_layers(self) -> list[Span | None]:
        """For each of the port's calls the expression in a library's layer that the port calls."""
        followed = Followed(within=[])
        self._run(followed)
        return followed.within or []

    def lines(self, change: AnyChange, taken: set[str]) -> Rewrite | None:
        """The lines to write for a change, where its calls stand, or before the call of a library's layer that makes others."""
        number = min(change.calls, default=None)
        rewrite = None
        if number is None or self.steps or not self._is_beside_others(number):
            rewrite = change.patch(self.calls, self.places, again=bool(self.steps), taken=taken)
        if rewrite is not None or number is None or self.steps:
            return rewrite
        places = [replace(place, span=within) for place, within in zip(self.places, self._in_layers)]
        within, span, rewrite = places[number].span, self.places[number].span, change.patch(self.calls, places, taken=taken)
        return None if within is None or span is None or rewrite is None else in_layer(rewrite, within, span)

    def _is_beside_others(self, number: int) -> bool:
        """Whether the port calls several layers of a library's as one, of which one makes a call."""
        own = self.places[number]
        layers = {place.layer for place in self.places if place.extent and place.extent == own.extent} - {own.layer}
        parent = own.layer.rpartition(".")[0]
        return parent in {layer.rpartition(".")[0] for layer in layers} and self._in_layers[number] is not None

    def _try_layouts(self) -> None:
        """Where operands lie otherwise in memory: try the lines that lay them out, those that only move elements first.

        Many lines may read what one lays out: it is the origin of all that no longer differs then.
        """
        laid = [] if self.steps else [each for each in self.origins if all(map(_may_lie_otherwise, map(each.at, each.times)))]
        times = [(origin, numbers, *_laid_by(origin.at(numbers))) for origin in laid for numbers in origin.times]
        chosen = layout_candidates(self.calls, self.followed.recorder, [time[1:] for time in times])
        lines: dict[Any, list[tuple[Candidate, Origin]]] = defaultdict(list)
        for (origin, _, makers, _), spelled in zip(times, chosen):
            for candidate in (*spelled, *joined_products(self.calls, makers)):
                number = candidate.calls[0]
                lines[self.calls[number].op not in MOVES, self.places[number].site].append((candidate, origin))
        viable = self._viable(candidate for same in lines.values() for candidate, _ in same)
        first = {line: min(candidate.calls for candidate, _ in same) for line, same in lines.items()}
        for line in sorted(lines, key=lambda line: (line[0], first[line])):
            for change in changes([[candidate for candidate, _ in lines[line]]], viable, 1):
                if any(origin in self.origins for _, origin in lines[line]):
                    self._take(change)

    def _take(self, change: Change) -> None:
        """Have a change in the runs to come, and make one origin of all that it mends, if nothing else differs by it."""
        ran = self._with([*self._settled, change])
        rest, before = {} if ran is None else ran.capture.differing, self._base.capture.differing
        if ran is None or not ran.ends <= self.base_ends or not rest.keys() <= before.keys():
            return
        open_ones = [origin for origin in self.origins if origin.change is None]
        gone = {group for origin in open_ones for group in origin.groups if group.result in before.keys() - rest.keys()}
        times = [set(origin.at(numbers)) for origin in open_ones for numbers in origin.times]
        if not any(groups & gone and all(group.backward for group in groups - gone) for groups in times):
            return
        mended = Origin(change=change, laid=True)
        for origin in [origin for origin in open_ones if gone.intersection(origin.groups)]:
            if not mended.groups:
                self.origins.insert(self.origins.index(origin), mended)
            mended.groups += [group for group in origin.groups if group in gone]
            mended.times += [numbers for numbers in origin.times if gone.intersection(origin.at(numbers))]
            origin.groups = [group for group in origin.groups if group not in gone]
            left = [origin.at(numbers) for numbers in origin.times]
            origin.times = [set[int]().union(*(group.calls for group in groups)) for groups in left if groups]
            if not origin.groups:
                self.origins.remove(origin)
        self._settled.append(change)
        self._base = ran

    def _viable(self, candidates: Iterable[Candidate]) -> Callable[[Candidate], Sequence[str]]:
        """Which spellings of a candidate give the original's bits of the original's operands."""
        followed = _following(self._settled, self.calls)
        viable = probed(followed, candidates, self.calls)
        self.forced_run(followed, free=_calls_of(self._settled))
        return lambda candidate: viable[id(candidate)]

    def _try(self, origins: Sequence[Origin], groups: Mapping[int, list[list[Candidate]]]) -> None:
        """Find the change of each origin among candidates, by its identity, for each time."""
        viable = self._viable(candidate for each in groups.values() for times in each for candidate in times)
        for origin in origins:
            for change in changes(groups[id(origin)], viable, len(origin.times)):
                if self._mends(change, origin):
                    origin.change = change
                    break
            candidates = [candidate for candidates in groups[id(origin)] for candidate in candidates]
            origin.reason = self._why_none(candidates, {text for each in candidates for text in viable(each)})

    def _why_none(self, candidates: Sequence[Candidate], giving: Set[str]) -> str:
        """Why none of some candidates is the change of an origin; ``giving``: those that give the bits of its results."""
        if giving:
            return tr("{these} give the bits of its results, but change others", these=many(len(giving), "spelling"))
        if candidates:
            tried = {text for candidate in candidates for text in candidate.formulation.spellings}
            return tr("of {these} of the original's calls none gives its bits", these=many(len(tried), "spelling"))
        if self._translator.untold:
            return tr("the original calls {call}, for which no words of Paddle's are known here", call=self._translator.untold)
        return tr("nothing that the original's calls there make is a value of the port's")

    def _mends(self, change: AnyChange, origin: Origin) -> bool:
        """Whether an origin's results are the original's with a change, and all others what they were."""
        ran = self._with([*self._settled, change])
        if ran is None or not ran.ends <= self.base_ends - origin.ends:
            return False
        before = {result: made for result, made in self._base.capture.differing.items() if result not in origin.results}
        left = ran.capture.differing
        return left.keys() <= before.keys() and all(same_tensor_bits(made, before[result]) for result, made in left.items())

    def _with(self, changes: Sequence[AnyChange]) -> ForcedRun | None:
        """A run with changes in which all other values are the original's; None if they cannot be made."""
        followed = _following(changes, self.calls)
        try:
            ran = self.forced_run(followed, free=_calls_of(changes))
        except Exception:  # of the port's own code, with other values or shapes
            return None
        return None if followed.failures else ran

    def changed(self) -> RunOutcome:
        """The port with all changes, and nothing of the original's."""
        every = [origin.change for origin in self.origins if origin.change is not None]
        if self.steps:
            every = [self._everywhere(change) if isinstance(change, Change) else change for change in every]
        return self._run(_following(every, self.calls))

    def _everywhere(self, change: Change) -> Change:
        """A change with the other layers, weights and steps for which its line runs."""
        first, taken = change.candidates[0], {candidate.calls for candidate in change.candidates}
        order, others = [(call.op, place.site) for call, place in zip(self.calls, self.places)], list[Candidate]()
        for calls in self._again(first.calls):
            if calls in taken:
                continue
            values: dict[ValueId, ValueId] = {}
            for number in range(len(self.calls)):  # what a text reads may be made by others than those whose place it takes
                other = number + calls[0] - first.calls[0]
                if 0 <= other < len(order) and order[number] == order[other]:
                    own, its = self.calls[number], self.calls[other]
                    values.update(zip(own.outputs, its.outputs))
                    values.update(zip((held for _, held in own.inputs), (held for _, held in its.inputs)))
            operands = {
                name: values.get(held, held) if isinstance(held, ValueId) else self._number_at(held, first.calls, calls)
                for name, held in first.operands.items()
            }
            results = tuple(values.get(held, held) for held in first.results)
            others.append(replace(first, calls=calls, operands=operands, results=results))
        return replace(change, candidates=(*change.candidates, *others))

    def _number_at(self, value: float, calls: Sequence[int], others: Sequence[int]) -> float:
        """What a number is where its line runs for other calls."""
        for number, other in zip(calls, others):
            span, its = self.places[number].span, self.places[other].span
            if span is None or its is None:
                continue
            for text, held in span.numbers.items():
                made = next((made for _, made in OF_A_NUMBER if held > 0 and math.isclose(made(held), value, rel_tol=1e-14)), None)
                if made is not None and text in its.numbers:
                    return made(its.numbers[text])
        return value

    def layers(self, outcome: RunOutcome | None = None) -> Iterator[tuple[str, list[tuple[Array, Array]]]]:
        """The port's layers, and what each call of them gave in a run, beside the original's; in the order in which they end.

        ``outcome``: of the port; that of the port as it is, if None.
        """
        outcome = outcome or self.natural
        order = {name: place for place, name in enumerate(self.original.layers)}
        for name, partner in sorted(self._mapping.layers.items(), key=lambda pair: order.get(pair[0], len(order))):
            pairs = list(zip(self.original.layers.get(name, ()), outcome.layers.get(partner, ())))
            if (
                partner not in self._unlike
                and pairs
                and all(expected.shape == actual.shape and expected.dtype.kind == "f" for expected, actual in pairs)
            ):
                yield partner, pairs

    def identical(self, outcome: RunOutcome) -> tuple[tuple[int, int], tuple[int, int]]:
        """Of the results of layers and outputs, and of gradients: how many are the original's, and how many there are."""
        results = [pair for _, pairs in self.layers(outcome) for pair in pairs]
        results += [(expected, actual) for _, expected, actual in agreement.outputs(self.original, outcome)]
        rows = agreement.gradients(self._mapping, self.original, outcome)
        gradients = [(expected, actual) for _, expected, actual in rows if expected is not None]
        counts = [(sum(_equal(*pair) for pair in pairs), len(pairs)) for pairs in (results, gradients)]
        return counts[0], counts[1]

    def outputs(self) -> list[tuple[Array, Array, str]]:
        """The outputs of both as they are, with the port's dtype."""
        dtype = self._port.dtype()
        return [(expected, actual, dtype) for _, expected, actual in agreement.outputs(self.original, self.natural)]

    def contributions(self) -> list[float | None] | None:
        """For each origin the share of the final difference that goes when its values are the original's; None if none differs.

        That of an origin is None, if outputs differ and it makes other gradients alone.

        The origins are mended one after the other, in the order of the program. A share is the part of the difference's length that
        goes with it, along the difference of the port as it is: so they add up to what all together explain.
        """
        forward = any(not same_bits(expected, actual) for _, expected, actual in agreement.outputs(self.original, self.natural))
        times = [
            (
                min(numbers, default=len(self.calls)),
                place,
                [each for each in origin.at(numbers) if each.backward is not forward and each.result[0] in self._forced],
            )
            for place, origin in enumerate(self.origins)
            for numbers in origin.times
        ]
        times.sort(key=lambda time: time[0] if forward else -time[0])
        shares: list[float | None] = [None] * len(self.origins)
        forced = self._forced_before()
        natural = self._run(Followed(), forced) if forced else self.natural
        before = whole = self._apart(natural, forward=forward)
        length = sum(float(np.vdot(part, part)) for part in whole)
        if not length:
            return None
        for _, place, groups in times:
            for key, at in (group.result for group in groups):
                wanted = forced.setdefault(key, [None] * len(self._forced[key]))
                wanted[at] = self._forced[key][at]
            if not groups:
                continue
            with self._port.forward_alone() if forward else contextlib.nullcontext():
                behind = self._apart(self._run(Followed(), forced), forward=forward)
            gone = sum(float(np.vdot(last - rest, part)) for last, rest, part in zip(before, behind, whole)) / length
            shares[place] = (shares[place] or 0.0) + gone
            before = behind
        return shares

    def _forced_before(self) -> dict[Key, list[Any]]:
        """Of an optimizer's steps: what is the original's in the steps before that of the origins."""
        if not self.steps or not self.origins:
            return {}
        step = layer_of(self.origins[0].groups[0].result[0])
        return {key: list(wanted) for key, wanted in self._forced.items() if _number(layer_of(key)) < _number(step)}

    def _apart(self, outcome: RunOutcome, *, forward: bool) -> list[Array]:
        """How far outputs, or gradients, of a run are from the original's, each in units of its own difference."""
        rows = agreement.outputs(self.original, outcome) if forward else agreement.gradients(self._mapping, self.original, outcome)
        pairs = [(expected, actual) for _, expected, actual in rows if expected is not None and actual is not None]
        apart = [actual.astype(np.float64) - expected.astype(np.float64) for expected, actual in pairs]
        if self._units is None:
            self._units = [float(np.linalg.norm(part)) or 1.0 for part in apart]
        return [np.nan_to_num(part) / unit for part, unit in zip(apart, self._units)]


def unfollowed(place: str, error: Exception) -> str:
    """That calls could not be followed, and why."""
    why = f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
    return tr("{place} could not be followed: {error}", place=place, error=why)


def _calls_of(changes: Iterable[AnyChange]) -> set[int]:
    """The numbers of all calls that changes take the place of."""
    return set[int]().union(*(change.calls for change in changes))


def _following(changes: Sequence[AnyChange], calls: Sequence[OpCall]) -> Followed:
    """What follows a run with changes."""
    ahead = {number: read for change in changes for number, read in change.ahead.items()}
    tables = {value: table for change in changes for value, table in change.tables.items()}
    swaps = tuple(swap for change in changes for swap in change.swaps(calls))
    return Followed(swaps, ahead=ahead, tables=tables)


def _laid_by(groups: Sequence[OriginGroup]) -> tuple[set[int], set[int]]:
    """The Paddle calls that lay out operands differently, and those that read them."""
    makers = {number for group in groups for call in group.laid[0] if (number := call_number(call)) is not None}
    return makers, set[int]().union(*(group.readers for group in groups))


def _may_lie_otherwise(groups: Sequence[OriginGroup]) -> bool:
    """Whether the layout of an operand may be all that differs: it does, or there is one call of Paddle's."""
    return any(_laid_by(groups)) or (bool(groups) and len({number for group in groups for number in group.calls}) == 1)


def _number(layer: str) -> int:
    """The number at the end of what stands for a layer in an optimizer's steps."""
    return int(layer.rpartition(" ")[2] or 0)


def _equal(expected: Array | None, actual: Array | None) -> bool:
    return expected is not None and actual is not None and same_bits(np.asarray(expected), np.asarray(actual))
