"""What to write in the port so that bits are the original's: candidates from the formulations, tried on the operands."""

from __future__ import annotations

import inspect
import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import paddle

from ...catalogue.registry import formulations
from ...frameworks.weight_copies import same_tensor_bits
from ...table.formulation import LAYOUT, TRAINING, Formulation, Spelling
from ...text import tr
from ..expressions import Rewrite, both
from .calls import CallRecorder, OpCall, ValueId
from .following import CallPlace, Followed, Swap, as_side
from .patterns import Candidate, match
from .source import patch
from .spelling import listed, replay

MOST = 24  # changes that are tried for one origin


@dataclass(frozen=True)
class AnyChange:
    """What mends an origin in a run of the port.

    Attributes:
        formulation: what it is; its last spelling is what to write.
        ahead, tables: see :class:`~.following.Followed`.
    """

    formulation: Formulation
    ahead: Mapping[int, tuple[int, tuple[str, ...]]] = field(default_factory=dict, kw_only=True)
    tables: Mapping[int, Any] = field(default_factory=dict, kw_only=True)

    @property
    def spelling(self) -> str:
        """What to write."""
        return self.formulation.spellings[-1].paddle

    @property
    def calls(self) -> set[int]:
        """The numbers of all calls whose values change."""
        return set(self.ahead)

    def swaps(self, calls: Sequence[OpCall]) -> Sequence[Swap]:
        """The exchanges of calls in a run of the port."""
        return []

    def patch(
        self, calls: Sequence[OpCall], places: Sequence[CallPlace], *, again: bool = False, taken: set[str] | None = None
    ) -> Rewrite | None:
        """The lines to write; None where no single line of the port says it.

        ``again``: operands may be computed once more. ``taken``: see :func:`~.source.patch`.
        """
        return None


@dataclass(frozen=True)
class Change(AnyChange):
    """Another spelling for some calls of the port, the same in every layer that makes them.

    Attributes:
        now, then: the places of both spellings in the formulation: the port's, and the original's.
        candidates: the calls, for each time they are made.
    """

    now: int
    then: int
    candidates: tuple[Candidate, ...]

    @property
    def spelling(self) -> str:
        """The original's, in Paddle's words."""
        return self.formulation.spellings[self.then].paddle

    @property
    def calls(self) -> set[int]:
        """The numbers of all calls that it takes the place of."""
        return {call for candidate in self.candidates for call in candidate.calls}

    def written_at(self, calls: Sequence[OpCall]) -> list[int]:
        """The numbers of the calls in whose place its results are written, the first time; of those that take a value apart by
        whole numbers: that of the value's own, whose place a list takes."""
        makers = makers_of(calls)
        numbers = [makers[value.number] for value in self.candidates[0].results]
        whole = _taken_by_number(calls, numbers)
        return numbers if whole is None else [makers[whole.number]]

    def patch(
        self, calls: Sequence[OpCall], places: Sequence[CallPlace], *, again: bool = False, taken: set[str] | None = None
    ) -> Rewrite | None:
        """None also where each of several calls makes several results."""
        candidate, numbers, taken = self.candidates[0], self.written_at(calls), set() if taken is None else taken
        spans = [(place.span, call.outputs) for call, place in zip(calls, places) if place.span is not None]
        first, *others = sorted(set(numbers))
        span, text = places[first].span, self.spelling
        every = calls[first].outputs
        result = every.index(candidate.results[0]) if len(numbers) < len(every) else None
        others = [number for number in others if places[number].extent != places[first].extent]
        if span is None or (others and len(numbers) != 1 + len(others)):
            return None
        used = {*taken, *span.names, *span.code.co_names, *span.code.co_varnames, *span.code.co_freevars, *span.code.co_cellvars}
        free = (name for name in (f"part{number}" for number in itertools.count(1)) if name not in used)
        names = dict(zip(numbers, free))
        if others:  # the first call's statement makes the results of all
            text = f"{', '.join(names.values())} = {text}\n{names[first]}"
        rewrite = patch(span, text, candidate.operands, spans, again=again, taken=taken, result=result)
        for number in others:
            other = places[number].span
            rewrite = both(rewrite, None if other is None else patch(other, names[number], {}, spans))
        return rewrite

    def swaps(self, calls: Sequence[OpCall]) -> Sequence[Swap]:
        """Those of each time."""
        return [_swap(candidate, self.spelling, calls) for candidate in self.candidates]


def _taken_by_number(calls: Sequence[OpCall], numbers: Sequence[int]) -> ValueId | None:
    """The value whose first axis some calls take apart, in order, by whole numbers; None of others."""
    keys = [calls[number].attributes.get("1") for number in numbers if calls[number].op == "getitem"]
    values = {calls[number].inputs[0][1] for number in numbers if keys == [(place,) for place in range(len(numbers))]}
    return values.pop() if len(values) == 1 < len(numbers) else None


def _swap(candidate: Candidate, spelling: str, calls: Sequence[OpCall]) -> Swap:
    made = {number: calls[number].outputs for number in candidate.calls if set(calls[number].outputs) & set(candidate.results)}
    whole = _taken_by_number(calls, sorted(made))  # made where the list will stand
    made |= {number: calls[number].outputs for number in candidate.calls if whole in calls[number].outputs}
    places = {value: place for place, value in enumerate(candidate.results)}
    results = {number: [places.get(value) for value in values] for number, values in made.items()}
    return Swap(spelling, candidate.operands, results, {number for number in results if calls[number].listed})


def candidates_at(calls: Sequence[OpCall], places: Iterable[set[int]], *, updates: bool) -> list[list[Candidate]]:
    """For each set of calls the spellings of formulations that some of them are, those that hold most of them first.

    ``updates``: the calls are an optimizer's.
    """
    among = [each for each in formulations().values() if updates or each.cause != TRAINING]
    makers = makers_of(calls)
    matched = match(calls, among)
    known = {(candidate.formulation.name, candidate.spelling, candidate.results) for candidate in matched}
    again = (
        candidate
        for candidate in match(_as_if_made_once(calls), among)
        if (candidate.formulation.name, candidate.spelling, candidate.results) not in known
    )
    candidates = [
        replace(candidate, operands={name: _plain_number(value) for name, value in candidate.operands.items()})
        for candidate in (*matched, *again)
        if not candidate.missing and _can_be_swapped(candidate, makers)
    ]
    chosen = []
    for numbers in places:
        touching = [candidate for candidate in candidates if numbers.intersection(candidate.calls)]
        chosen.append(sorted(touching, key=lambda candidate: _unlike(candidate, numbers)))
    return chosen


def layout_candidates(
    calls: Sequence[OpCall], recorder: CallRecorder, places: Sequence[tuple[set[int], set[int], set[int]]]
) -> list[list[Candidate]]:
    """Other layouts of operands: spellings of the calls that make them, and copies of what they make, or what moves it.

    Args:
        calls: the port's, ``recorder``: of their run.
        places: the numbers of some calls, those of the calls that make their operands, and those that read what these are made of.
    """
    spelled = candidates_at(calls, [makers for _, makers, _ in places], updates=False)
    chosen = []
    for (numbers, makers, readers), candidates in zip(places, spelled):
        laid = [candidate for candidate in candidates if candidate.formulation.cause == LAYOUT]
        ops = ", ".join(calls[number].op for number in sorted(numbers))
        for number in _moving(calls, makers, numbers | readers):
            call, written = calls[number], call_text(calls[number])
            operands: Mapping[str, ValueId | float]
            if call.op == "contiguous" and len(call.inputs) == 1:
                text, operands = "x", {"x": call.inputs[0][1]}
            elif written is not None and (number in makers or not as_side(recorder.memory(call.outputs[0])).is_contiguous()):
                # Of what a call makes of strided operands Paddle's memory may be dense, and Torch's not.
                text, operands = f"{written[0]}.contiguous()", written[1]
            else:
                continue
            name = str(tr("operands of {op}", op=ops))
            why = str(tr("the kernel sums in another order for each layout of its operands"))
            moved = Formulation(name, LAYOUT, " ".join(operands), (Spelling("", ""), Spelling(text, "")), (), why)
            laid.append(Candidate(moved, 0, (number,), operands, (), call.outputs))
        chosen.append(laid)
    return chosen


def _moving(calls: Sequence[OpCall], makers: set[int], readers: set[int]) -> list[int]:
    """The calls that make values, and those that move them until others read them."""
    makes, known = makers_of(calls), set[int]()
    waiting = sorted(readers)
    while waiting:
        for _, value in calls[waiting.pop()].inputs:
            number = makes.get(value.number)
            if number is not None and number not in known and (number in makers or calls[number].op in MOVES):
                known.add(number)
                waiting += [number] if number not in makers else []
    return sorted(known)


def call_text(call: OpCall) -> tuple[str, dict[str, ValueId | float]] | None:
    """A call as source in Paddle's words, with the values that its names stand for; None if it has several results or no words."""
    module = next((name for name, held in _MODULES.items() if inspect.isfunction(getattr(held, call.op, None))), None)
    if module is None or len(call.outputs) != 1:
        return None
    parameters = inspect.signature(getattr(_MODULES[module], call.op)).parameters
    names = list(parameters)
    values = dict.fromkeys(value for _, value in call.inputs)
    texts = {value: f"x{place}" for place, value in enumerate(values)}
    operands: dict[str, ValueId | float] = {text: value for value, text in texts.items()}
    words: dict[str, str] = {}
    for name, value in call.inputs:
        whole, _, place = name.partition("[")
        before = words[whole][:-1] + ", " if whole in words else "["
        words[whole] = f"{before}{texts[value]}]" if place else texts[value]
    for name, value in call.attributes.items():
        if name in words:  # a sequence of tensors
            continue
        if name in parameters and (parameters[name].default == value or name in _UNSET):
            continue
        words[name] = repr(list(value) if isinstance(value, tuple) else value)
    words = {names[int(name)] if name.isdigit() and int(name) < len(names) else name: word for name, word in words.items()}
    if not words.keys() <= parameters.keys():
        return None
    text = [words[name] if place < 2 else f"{name}={words[name]}" for place, name in enumerate(names) if name in words]
    return f"{module}.{call.op}({', '.join(text)})", operands


_MODULES: Mapping[str, Any] = {"F": paddle.nn.functional, "paddle": paddle}
_UNSET = frozenset({"output_size"})  # what Paddle fills in where a program says nothing


def _plain_number(value: ValueId | float) -> ValueId | float:
    """A number that a call tells by its inverse, without that rounding: a whole one, or the root of one."""
    if isinstance(value, ValueId) or not math.isfinite(value):
        return value
    for number in (float(round(value)), math.copysign(math.sqrt(round(value * value)), value)):
        if number and math.isclose(value, number, rel_tol=1e-14):
            return number
    return value


def _as_if_made_once(calls: Sequence[OpCall]) -> list[OpCall]:
    """The calls with one number for what is computed twice of the same: ``self.gate(y) * sigmoid(self.gate(y))``."""
    numbers: dict[int, int] = {}
    made: dict[Any, OpCall] = {}
    unified = []
    for call in calls:
        inputs = tuple((name, value._replace(number=numbers.get(value.number, value.number))) for name, value in call.inputs)
        held = replace(call, inputs=inputs)
        key = call.op, tuple(sorted((name, repr(value)) for name, value in call.attributes.items())), inputs
        first = made.setdefault(key, held) if inputs and not call.op.endswith("_") and call.op not in _DRAWING else held
        if len(first.outputs) == len(call.outputs):
            numbers.update((value.number, other.number) for value, other in zip(call.outputs, first.outputs))
        unified.append(held)
    return unified


MOVES = frozenset({
    "reshape", "transpose", "getitem", "slice", "flatten", "squeeze", "unsqueeze", "contiguous", "expand", "split", "chunk",
    "unbind", "split_with_num", "clone", "view_shape",
})  # fmt: skip
_DRAWING = frozenset({"dropout", "alpha_dropout", "bernoulli", "multinomial", "rrelu", "gumbel_softmax"})


def _unlike(candidate: Candidate, numbers: set[int]) -> tuple[int, int]:
    """How many calls of an origin a candidate does not hold, and how many others it does."""
    return len(numbers.difference(candidate.calls)), len(set(candidate.calls) - numbers)


def makers_of(calls: Sequence[OpCall]) -> dict[int, int]:
    """Value -> the number of the call that makes it."""
    return {value.number: number for number, call in enumerate(calls) for value in call.outputs}


def _can_be_swapped(candidate: Candidate, makers: Mapping[int, int]) -> bool:
    """Whether all operands are there when the first of the results is made."""
    first = min((makers.get(value.number, -1) for value in candidate.results), default=-1)
    operands = [value.number for value in candidate.operands.values() if isinstance(value, ValueId)]
    return first >= 0 and all(makers.get(number, -1) < first for number in operands)


def probed(followed: Followed, candidates: Iterable[Candidate], calls: Sequence[OpCall]) -> Mapping[int, Sequence[int]]:
    """By a candidate's identity the spellings that give the bits of a run to come, in which every value is the original's.

    ``followed``: of that run, beside which the candidates are replayed. ``calls``: the port's, of an earlier run.
    """
    viable: dict[int, list[int]] = defaultdict(list)
    swaps: dict[int, list[tuple[Candidate, Swap]]] = defaultdict(list)
    for candidate in {id(candidate): candidate for candidate in candidates}.values():
        swap = _swap(candidate, "", calls)
        swaps[max(swap.results)].append((candidate, swap))

    def probe(number: int, result: Any) -> None:
        recorder, outputs = followed.recorder, [item for item in listed(result) if isinstance(item, paddle.Tensor)]
        for candidate, swap in swaps.get(number, ()):
            values = {call: calls[call].outputs for call in swap.results}
            wanted = [
                outputs[values[number].index(value)] if value in values[number] else recorder.tensor(value)
                for value in candidate.results
            ]
            try:
                operands = recorder.operands(candidate.operands)
            except LookupError:
                continue
            for place in candidate.others:
                with followed.unseen():
                    if _gives(candidate.formulation.spellings[place].paddle, operands, wanted):
                        viable[id(candidate)].append(place)

    followed.probe = probe
    return viable


def _gives(spelling: str, operands: dict[str, Any], wanted: Sequence[Any]) -> bool:
    """Whether a spelling gives these bits."""
    try:
        results = listed(replay(spelling, operands))
    except Exception:  # any answer of Paddle's to a call that nobody has written
        return False
    return len(results) == len(wanted) and all(
        isinstance(result, paddle.Tensor) and same_tensor_bits(as_side(result), as_side(tensor))
        for result, tensor in zip(results, wanted)
    )


def changes(groups: Sequence[Sequence[Candidate]], viable: Callable[[Candidate], Sequence[int]], often: int) -> list[Change]:
    """The changes to try for an origin that is there so many times.

    Args:
        groups: for each time, the candidates, in one order.
        viable: the spellings that give the original's results.
        often: how many times it has to be found.
    """
    by_kind: dict[tuple[int, int, str], list[Candidate]] = defaultdict(list)
    for candidates in groups:
        for candidate in candidates:
            for then in viable(candidate):
                written = candidate.formulation.spellings[then].paddle
                key = candidate.spelling, then, written
                if not any(set(candidate.results) & set(other.results) for other in by_kind[key]):
                    by_kind[key].append(candidate)
    complete = [(key, held) for key, held in by_kind.items() if len(held) >= often]
    return [Change(held[0].formulation, key[0], key[1], tuple(held)) for key, held in complete][:MOST]
