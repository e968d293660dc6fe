"""Which calls of a program are a spelling of a known formulation.

A pattern is no description by hand: a spelling is run on its samples, in float32 and in bfloat16, and what all these runs have in
common is the pattern: the ops, the values that flow between them, and those attributes that do not change with shapes and numbers.
An attribute that is a number operand, or a simple function of one, binds that operand; one that changes otherwise may be anything.
So a match is a candidate: its spellings are replayed on the operands, and their bits compared.
"""

from __future__ import annotations

import functools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ...modes.reference import reference
from ...table.formulation import Formulation
from .calls import OpCall, ValueId, recording
from .spelling import drawn, listed, paddle_operands, replay

RECORDED = ("float32", "bfloat16")  # dtypes of the operands of the runs that patterns come from
COMMUTATIVE = frozenset({"add", "multiply", "maximum", "minimum"})

# What a spelling may make of a number before a call gets it -> the number from what the call got.
_INVERSES: tuple[tuple[Callable[[float], float], Callable[[float], float]], ...] = (
    (lambda number: number, lambda value: value),
    (lambda number: -number, lambda value: -value),
    (lambda number: 1 / number, lambda value: 1 / value),
    (lambda number: 1 - number, lambda value: 1 - value),
    (lambda number: math.sqrt(number), lambda value: value * value),
)


class FromOperand(NamedTuple):
    """An input that is an operand of the formulation."""

    name: str


class FromCall(NamedTuple):
    """An input that an earlier call of the pattern makes."""

    call: int
    output: int


Source = FromOperand | FromCall | None  # None: no call has made it that was seen: a constant, or a tensor without its graph


class Fixed(NamedTuple):
    """An attribute or a dtype that has to be this one."""

    value: Any


class OperandDtype(NamedTuple):
    """One that has to be the dtype of the operands."""


class BoundNumber(NamedTuple):
    """An attribute that is a number operand, or made of one; ``inverse`` gives the operand."""

    name: str
    inverse: Callable[[float], float]


Template = Fixed | OperandDtype | BoundNumber | None  # None: an attribute that may be anything


@dataclass(frozen=True)
class PatternCall:
    """One call of a pattern."""

    op: str
    attributes: Mapping[str, Template]
    inputs: tuple[tuple[str, Source], ...]
    outputs: tuple[Template, ...]  # their dtypes


@dataclass(frozen=True)
class Pattern:
    """The calls of one spelling, in the order in which it makes them.

    Attributes:
        formulation, spelling: its formulation, and the place of the spelling in it.
        calls: what has to be there. ``results``: which of their outputs, or which operands, are the spelling's results.
    """

    formulation: Formulation
    spelling: int
    calls: tuple[PatternCall, ...]
    results: tuple[Source, ...]


@dataclass(frozen=True)
class Candidate:
    """Calls of a program that look like a spelling.

    Attributes:
        formulation, spelling: which formulation, and the place of the spelling in it.
        calls: the places of the calls in the program, in the order of the pattern's.
        operands: the value of each tensor operand, and the number of each number operand that the calls tell.
        missing: names of number operands that no call tells.
        results: the values that stand for the spelling's results.
    """

    formulation: Formulation
    spelling: int
    calls: tuple[int, ...]
    operands: Mapping[str, ValueId | float]
    missing: tuple[str, ...]
    results: tuple[ValueId, ...]

    @property
    def others(self) -> tuple[int, ...]:
        """The places of the formulation's other spellings: what may be written instead."""
        return tuple(place for place in range(len(self.formulation.spellings)) if place != self.spelling)


# --- patterns, from runs


class _Ran(NamedTuple):
    """One run of a spelling: the dtype and the numbers of its operands, its calls, and where their inputs come from."""

    dtype: str
    numbers: Mapping[str, float]
    calls: Sequence[OpCall]
    sources: Sequence[tuple[tuple[str, Source], ...]]
    results: tuple[Source, ...]

    @property
    def structure(self) -> Any:
        """What runs have to have in common to be of one pattern."""
        return [
            (call.op, sorted(call.attributes), sources, len(call.outputs)) for call, sources in zip(self.calls, self.sources)
        ], self.results


@functools.cache
def patterns_of(formulation: Formulation) -> tuple[Pattern, ...]:
    """The patterns of all spellings; several of a spelling whose calls depend on the operands' shape or dtype.

    A spelling has none if a value in it comes of no call that was seen: a constant, or a backward that it calls itself.
    """
    patterns: list[Pattern] = []
    for spelling in range(len(formulation.spellings)):
        groups: list[list[_Ran]] = []
        for place in range(len(formulation.samples)):
            for dtype in RECORDED:
                ran = _ran(formulation, spelling, place, dtype)
                group = next((group for group in groups if group[0].structure == ran.structure), None)
                groups.append([ran]) if group is None else group.append(ran)
        patterns += [_pattern(formulation, spelling, group) for group in groups if _is_whole(group[0])]
    return tuple(patterns)


def _is_whole(ran: _Ran) -> bool:
    """Whether each result comes of calls and operands alone: a constant that no call has made could be any value."""
    inputs = [source for sources in ran.sources for _, source in sources]
    return all(isinstance(source, FromCall) for source in ran.results) and None not in inputs


def _ran(formulation: Formulation, spelling: int, place: int, dtype: str) -> _Ran:
    """Run a spelling and see what it calls."""
    arrays = drawn(formulation, place)
    operands = paddle_operands(arrays, dtype)
    numbers = {name: value for name, value in arrays.items() if not isinstance(value, np.ndarray)}
    with recording() as recorder:
        sources: dict[int, Source] = {
            recorder.value(value).number: FromOperand(name) for name, value in operands.items() if name not in numbers
        }
        ends = [recorder.value(result).number for result in listed(replay(formulation.spellings[spelling].paddle, operands))]
    calls = _leading_to(ends, recorder.calls)
    inputs: list[tuple[tuple[str, Source], ...]] = []
    for at, call in enumerate(calls):
        inputs.append(tuple((name, sources.get(value.number)) for name, value in call.inputs))
        sources.update((value.number, FromCall(at, output)) for output, value in enumerate(call.outputs))
    return _Ran(dtype, numbers, calls, inputs, tuple(sources.get(end) for end in ends))


def _leading_to(ends: Iterable[int], calls: Sequence[OpCall]) -> list[OpCall]:
    """The calls on which values depend: not those that only check an argument."""
    needed, leading = set(ends), list[OpCall]()
    for call in reversed(calls):
        if needed.intersection(value.number for value in call.outputs):
            needed.update(value.number for _, value in call.inputs)
            leading.append(call)
    return leading[::-1]


def _pattern(formulation: Formulation, spelling: int, group: Sequence[_Ran]) -> Pattern:
    """What the runs of a group have in common."""
    calls: list[PatternCall] = []
    dtypes = [ran.dtype for ran in group]
    for at, call in enumerate(group[0].calls):
        attributes = {
            name: _template([ran.calls[at].attributes[name] for ran in group], dtypes, [ran.numbers for ran in group])
            for name in call.attributes
        }
        outputs = tuple(
            _template([ran.calls[at].outputs[output].dtype for ran in group], dtypes, []) for output in range(len(call.outputs))
        )
        calls.append(PatternCall(call.op, attributes, group[0].sources[at], outputs))
    return Pattern(formulation, spelling, tuple(calls), group[0].results)


def _template(values: Sequence[Any], dtypes: Sequence[str], numbers: Sequence[Mapping[str, float]]) -> Template:
    """What an attribute has in common in several runs."""
    if list(values) == list(dtypes) and set(dtypes) != {"float32"}:  # which a spelling may name itself
        return OperandDtype()
    if all(isinstance(value, float) or type(value) is int for value in values):
        for name in numbers[0] if numbers else ():
            for made, inverse in _INVERSES:
                if all(made(held[name]) == value for held, value in zip(numbers, values)):
                    return BoundNumber(name, inverse)
    return Fixed(values[0]) if all(_same(value, values[0]) for value in values) else None


def _same(value: Any, other: Any) -> bool:
    return value == other and isinstance(value, bool) == isinstance(other, bool)


# --- matching


class _Index:
    """Calls of a program, by what they are and by what they read and make."""

    def __init__(self, calls: Sequence[OpCall]) -> None:
        self.calls = calls
        self.by_op: dict[str, list[int]] = defaultdict(list)
        self.readers: dict[int, list[int]] = defaultdict(list)
        self.makers: dict[int, int] = {}
        for at, call in enumerate(calls):
            self.by_op[call.op].append(at)
            for number in dict.fromkeys(value.number for _, value in call.inputs):
                self.readers[number].append(at)
            self.makers.update((value.number, at) for value in call.outputs)


@dataclass(frozen=True)
class _Partial:
    """A match in the making."""

    calls: Mapping[int, int] = field(default_factory=dict)  # of the pattern -> of the program
    values: Mapping[Source, ValueId] = field(default_factory=dict)
    numbers: Mapping[str, float] = field(default_factory=dict)


def match(calls: Sequence[OpCall], among: Iterable[Formulation], *, reach: int = 200) -> list[Candidate]:
    """The groups of calls that look like a spelling of a formulation, by the place of their last call.

    Args:
        calls: a program's calls, in order: see :func:`~.calls.recording`, or any others of this form.
        among: the formulations to look for.
        reach: the calls of a group lie within so many calls of each other.

    Returns:
        Candidates. A group may match several spellings, and not every match is one.
    """
    index = _Index(calls)
    matched: dict[Any, Candidate] = {}
    with reference("torch"):  # one mode that is open keeps the interception in place between the runs of spellings
        patterns = [pattern for formulation in among for pattern in patterns_of(formulation)]
    for pattern in patterns:
        if not all(call.op in index.by_op for call in pattern.calls):
            continue
        for partial in _matches(pattern, index, _Partial(), reach):
            key = pattern.formulation.name, pattern.spelling, frozenset(partial.calls.values())
            if key not in matched and _dtypes_fit(pattern, calls, partial):
                matched[key] = _candidate(pattern, partial)
    return sorted(matched.values(), key=lambda candidate: max(candidate.calls))


def _candidate(pattern: Pattern, partial: _Partial) -> Candidate:
    operands: dict[str, ValueId | float] = {
        name: partial.values[FromOperand(name)] for name in pattern.formulation.names if FromOperand(name) in partial.values
    }
    operands.update(partial.numbers)
    return Candidate(
        pattern.formulation,
        pattern.spelling,
        tuple(partial.calls[at] for at in range(len(pattern.calls))),
        operands,
        tuple(name for name in pattern.formulation.names if name not in operands),
        tuple(partial.values[result] for result in pattern.results),
    )


def _matches(pattern: Pattern, index: _Index, partial: _Partial, reach: int) -> Iterator[_Partial]:
    """All ways to complete a match."""
    rest = [at for at in range(len(pattern.calls)) if at not in partial.calls]
    if not rest:
        yield partial
        return
    at, places = min(((at, _places(pattern.calls[at], at, index, partial)) for at in rest), key=lambda pair: len(pair[1]))
    taken = partial.calls.values()
    for place in places:
        if place not in taken and all(abs(place - other) <= reach for other in taken):
            for longer in _bound(pattern.calls[at], at, index.calls[place], place, partial):
                yield from _matches(pattern, index, longer, reach)


def _places(wanted: PatternCall, at: int, index: _Index, partial: _Partial) -> Sequence[int]:
    """The calls of the program that may be one of the pattern."""
    for output in range(len(wanted.outputs)):
        value = partial.values.get(FromCall(at, output))
        if value is not None:
            return [index.makers[value.number]] if value.number in index.makers else []
    read = [partial.values[source] for _, source in wanted.inputs if source in partial.values]
    if read:
        return min((index.readers[value.number] for value in read), key=len)
    return index.by_op[wanted.op]


def _bound(wanted: PatternCall, at: int, call: OpCall, place: int, partial: _Partial) -> Iterator[_Partial]:
    """The match with one call more, in each way in which that call fits."""
    if call.op != wanted.op or len(call.inputs) != len(wanted.inputs) or len(call.outputs) != len(wanted.outputs):
        return
    numbers = _numbers(wanted, call, partial)
    if numbers is None:
        return
    orders = [call.inputs]
    if wanted.op in COMMUTATIVE and len(call.inputs) == 2 and call.inputs[0][1] != call.inputs[1][1]:
        (first, value), (second, other) = call.inputs
        orders.append(((first, other), (second, value)))
    for inputs in orders:
        values = _values(wanted, at, call, inputs, partial)
        if values is not None:
            yield _Partial({**partial.calls, at: place}, values, numbers)


def _numbers(wanted: PatternCall, call: OpCall, partial: _Partial) -> Mapping[str, float] | None:
    """The numbers that a call tells; None if an attribute is another one."""
    if call.attributes.keys() != wanted.attributes.keys():
        return None
    numbers = dict(partial.numbers)
    for name, template in wanted.attributes.items():
        value = call.attributes[name]
        if isinstance(template, Fixed) and not _same(value, template.value):
            return None
        if isinstance(template, BoundNumber):
            if not isinstance(value, (int, float)) or (value == 0 and template.inverse(2.0) == 0.5):
                return None
            number = template.inverse(value)
            if not math.isclose(numbers.setdefault(template.name, number), number, rel_tol=1e-6):
                return None
    return numbers


def _values(
    wanted: PatternCall, at: int, call: OpCall, inputs: Sequence[tuple[str, ValueId]], partial: _Partial
) -> Mapping[Source, ValueId] | None:
    """The values of a match with one call more; None if they contradict what is bound."""
    values = dict(partial.values)
    pairs: list[tuple[Source, ValueId]] = []
    for (name, source), (given_name, value) in zip(wanted.inputs, inputs):
        if name != given_name:
            return None
        pairs.append((source, value))
    pairs += [(FromCall(at, output), value) for output, value in enumerate(call.outputs)]
    for source, value in pairs:
        if values.setdefault(source, value) != value:
            return None
    return values


def _dtypes_fit(pattern: Pattern, calls: Sequence[OpCall], partial: _Partial) -> bool:
    """Whether the float operands of a match have one dtype, and its calls those dtypes that the pattern asks for beside it."""
    operands = {value.dtype for source, value in partial.values.items() if isinstance(source, FromOperand)} & _FLOATS
    if len(operands) != 1:
        return False
    for at, wanted in enumerate(pattern.calls):
        call = calls[partial.calls[at]]
        pairs = [(wanted.attributes[name], call.attributes[name]) for name in wanted.attributes]
        pairs += [(template, value.dtype) for template, value in zip(wanted.outputs, call.outputs)]
        for template, dtype in pairs:
            if isinstance(template, OperandDtype) and dtype not in operands:
                return False
            if isinstance(template, Fixed) and dtype != template.value:
                return False
    return True


_FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})
