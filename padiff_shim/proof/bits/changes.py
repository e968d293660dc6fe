"""What to write in the port so that bits are the original's: other spellings and layouts, tried on the operands."""

from __future__ import annotations

import inspect
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import paddle

from ...frameworks.weight_copies import same_tensor_bits
from ...text import tr
from ..expressions import Rewrite, both
from .calls import CallRecorder, OpCall, ValueId
from .followed_runs import CallPlace, Followed, Swap, as_side
from .formulation import LAYOUT, Formulation, listed, replay
from .source import patch

MOST = 24  # changes that are tried for one origin


@dataclass(frozen=True)
class Candidate:
    """Calls of a program, and what may be written instead.

    Attributes:
        formulation: what may be written instead.
        calls: the places of the calls in the program.
        operands: the value of each tensor operand, and each number.
        results: the values that stand for a spelling's results.
    """

    formulation: Formulation
    calls: tuple[int, ...]
    operands: Mapping[str, ValueId | float]
    results: tuple[ValueId, ...]


@dataclass(frozen=True)
class AnyChange:
    """What mends an origin in a run of the port.

    Attributes:
        formulation: what it is; its last spelling is what to write.
        ahead, tables: see :class:`~.followed_runs.Followed`.
    """

    formulation: Formulation
    ahead: Mapping[int, tuple[int, tuple[str, ...]]] = field(default_factory=dict, kw_only=True)
    tables: Mapping[int, Any] = field(default_factory=dict, kw_only=True)

    @property
    def spelling(self) -> str:
        """What to write."""
        return self.formulation.spellings[-1]

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
        candidates: the calls, for each time they are made.
    """

    candidates: tuple[Candidate, ...]

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


def layout_candidates(
    calls: Sequence[OpCall], recorder: CallRecorder, places: Sequence[tuple[set[int], set[int], set[int]]]
) -> list[list[Candidate]]:
    """Other layouts of operands: copies of what the calls that make them give, or of what moves it.

    Args:
        calls: the port's, ``recorder``: of their run.
        places: the numbers of some calls, those of the calls that make their operands, and those that read what these are made of.
    """
    chosen = []
    for numbers, makers, readers in places:
        laid = list[Candidate]()
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
            laid.append(Candidate(Formulation(LAYOUT, name, why, (text,)), (number,), operands, call.outputs))
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


MOVES = frozenset({
    "reshape", "transpose", "getitem", "slice", "flatten", "squeeze", "unsqueeze", "contiguous", "expand", "split", "chunk",
    "unbind", "split_with_num", "clone", "view_shape",
})  # fmt: skip


def makers_of(calls: Sequence[OpCall]) -> dict[int, int]:
    """Value -> the number of the call that makes it."""
    return {value.number: number for number, call in enumerate(calls) for value in call.outputs}


def probed(followed: Followed, candidates: Iterable[Candidate], calls: Sequence[OpCall]) -> Mapping[int, Sequence[str]]:
    """By a candidate's identity the spellings that give the bits of a run to come, in which every value is the original's.

    ``followed``: of that run, beside which the candidates are replayed. ``calls``: the port's, of an earlier run.
    """
    viable: dict[int, list[str]] = defaultdict(list)
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
            for spelling in candidate.formulation.spellings:
                with followed.unseen():
                    if _gives(spelling, operands, wanted):
                        viable[id(candidate)].append(spelling)

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


def changes(groups: Sequence[Sequence[Candidate]], viable: Callable[[Candidate], Sequence[str]], often: int) -> list[Change]:
    """The changes to try for an origin that is there so many times.

    Args:
        groups: for each time, the candidates, in one order.
        viable: the spellings that give the original's results.
        often: how many times it has to be found.
    """
    by_spelling: dict[str, list[Candidate]] = defaultdict(list)
    for candidate in itertools.chain.from_iterable(groups):
        for spelling in viable(candidate):
            if not any(set(candidate.results) & set(other.results) for other in by_spelling[spelling]):
                by_spelling[spelling].append(candidate)
    complete = [(spelling, alike) for spelling, alike in by_spelling.items() if len(alike) >= often]
    return [Change(replace(alike[0].formulation, spellings=(spelling,)), tuple(alike)) for spelling, alike in complete][:MOST]
