"""The order in which gradients are added up: those of a value's readers, and those of rows that are taken one by one.

Torch's engine adds the gradients of a value's readers from the last reader to the first. A copy of the value gathers those of its
own readers before they reach the value: so copies of copies make any order. A weight's gradient is summed over rows in the order in
which they are taken, which that of a mask's axes decides.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ...text import tr
from ..expressions import Rewrite, both
from ..trace import TraceCall, Value
from .calls import OpCall
from .changes import MOVES, AnyChange, Candidate, Change, call_text, makers_of
from .followed_runs import CallPlace, Swap, call_number
from .formulation import Formulation
from .origins import OriginGroup, Partners, cause_of
from .source import fresh_name, reading_others, text_of, uncast
from .words import DTYPES

Tree = Value | tuple["Tree", "Tree"]  # of the port's gradients: how the original adds them up


@dataclass(frozen=True)
class ReadingChange(AnyChange):
    """Something made of a value that some calls read in its place.

    Attributes:
        value: its number. ``lines``: what makes what is read; ``names``: by the number of a call what it reads.
    """

    value: int
    lines: Sequence[str]
    names: Mapping[int, str]

    def patch(
        self, calls: Sequence[OpCall], places: Sequence[CallPlace], *, again: bool = False, taken: set[str] | None = None
    ) -> Rewrite | None:
        """None also where a call does not name the value."""
        readers = [(span, name) for number, name in self.names.items() if (span := places[number].span) is not None]
        return reading_others(self.value, readers, self.lines) if len(readers) == len(self.names) else None


def order_change(
    times: Sequence[Sequence[OriginGroup]], partners: Partners, calls: Sequence[OpCall], places: Sequence[CallPlace]
) -> AnyChange | None:
    """Copies that make the sums of an origin the original's, for each time; None where its calls are no such sums."""
    copies = [_copies(group, partners, calls) for groups in times for group in groups]
    steps = {
        number: (value, tuple(f"x.clone()  # {side}" for side in path))
        for value, paths in filter(None, copies)
        for number, path in paths.items()
    }
    return _reading_change(times[0][0], steps, places) if steps and None not in copies else None


def cast_change(times: Sequence[Sequence[OriginGroup]], calls: Sequence[OpCall], places: Sequence[CallPlace]) -> AnyChange | None:
    """One cast of a value for several readers, where each has its own: their gradients are added up before they are rounded."""
    steps = dict[int, tuple[int, tuple[str, ...]]]()
    for group in (group for groups in times for group in groups):
        casts = [call for call in group.port if call.name == "_to_copy"]
        numbers = {number for number in map(call_number, casts) if number is not None}
        shared = [{value.number for _, value in calls[number].inputs} for number in numbers]
        values = set[int].intersection(*shared) if len(shared) > 1 else set[int]()
        if {call.name for call in (*group.port, *group.original)} != {"add", "_to_copy"} or len(values) != 1:
            return None
        step = f'x.astype("{DTYPES[casts[0].operands[0].tensor.dtype]}")'
        steps |= dict.fromkeys(numbers, (values.pop(), (step,)))
    return _reading_change(times[0][0], steps, places) if steps else None


@dataclass(frozen=True)
class NarrowerChange(AnyChange):
    """Calls in a narrower dtype, without the casts before them.

    Attributes:
        casts: the numbers of these. ``narrower``: the calls, whose results are cast behind them: a value's cast to its own dtype
            would be no call of the run.
    """

    casts: Sequence[int]
    narrower: Sequence[Swap]

    @property
    def calls(self) -> set[int]:
        """Those in the narrower dtype."""
        return {number for swap in self.narrower for number in swap.results}

    def swaps(self, calls: Sequence[OpCall]) -> Sequence[Swap]:
        """Those of each time."""
        return self.narrower

    def patch(
        self, calls: Sequence[OpCall], places: Sequence[CallPlace], *, again: bool = False, taken: set[str] | None = None
    ) -> Rewrite | None:
        """None also where a cast is no expression of its own."""
        casts = {places[number].extent: places[number].span for number in self.casts}
        return functools.reduce(both, [None if span is None else uncast(span) for span in casts.values()])


def narrower_change(times: Sequence[Sequence[OriginGroup]], calls: Sequence[OpCall]) -> AnyChange | None:
    """The calls of an origin in the original's dtype, which the port makes in a wider one; None where they are others."""
    makers, casts, narrower = makers_of(calls), set[int](), list[Swap]()
    for group in (group for groups in times for group in groups if not group.backward):
        dtype = DTYPES.get(group.wanted.dtype)
        for number in sorted(number for number in group.calls if calls[number].op != "cast"):
            written = call_text(calls[number])
            if written is None or not group.is_of_equal_calls:
                return None
            made = (calls[makers[value.number]] for _, value in calls[number].inputs if value.number in makers)
            casts |= {makers[call.outputs[0].number] for call in made if call.op == "cast" and call.inputs[0][1].dtype == dtype}
            text = re.sub(r"\bx\d+\b", rf'\g<0>.astype("{dtype}")', written[0])
            narrower.append(Swap(f'{text}.astype("{calls[number].outputs[0].dtype}")', written[1], {number: [0]}))
    if not casts:
        return None
    text = f"# {tr('without casts to {dtype}', dtype=calls[min(casts)].outputs[0].dtype)}"
    return NarrowerChange(Formulation(*cause_of(times[0][0]), (text,)), sorted(casts), narrower)


def _reading_change(
    group: OriginGroup, steps: Mapping[int, tuple[int, tuple[str, ...]]], places: Sequence[CallPlace]
) -> ReadingChange:
    """What calls read instead, step by step (see :attr:`AnyChange.ahead`), as lines of the first time."""
    value = steps[min(steps)][0]
    readers = {number: made for number, (read, made) in sorted(steps.items()) if read == value}
    spans = {number: span for number in readers if (span := places[number].span) is not None}
    text = next((text for span in spans.values() for text, held in span.variables.items() if held.number == value), "x")
    used = {name for span in spans.values() for name in (*span.code.co_varnames, *span.names)}
    names, lines = dict[tuple[str, ...], str]({(): text}), list[str]()
    for made in sorted({held[:end] for held in readers.values() for end in range(1, len(held) + 1)}, key=len):
        names[made] = fresh_name(f"{text.rpartition('.')[2]}_{len(names)}", used)
        lines.append(f"{names[made]} = {made[-1].partition('  #')[0].replace('x', names[made[:-1]], 1)}")
    shown = [*lines]
    for number, made in readers.items():
        call = text_of(spans[number]) if number in spans else ""
        place = tr("in place of {name} in line {line}: {call}", name=text, line=places[number].site.line, call=call)
        shown.append(f"# {names[made]} {place}")
    formulation = Formulation(*cause_of(group), ("\n".join(shown),))
    return ReadingChange(formulation, value, lines, {number: names[made] for number, made in readers.items()}, ahead=steps)


def rows_change(times: Sequence[Sequence[OriginGroup]], calls: Sequence[OpCall], places: Sequence[CallPlace]) -> AnyChange | None:
    """Rows that a mask of two axes chooses, counted along its other axis first; None where an origin sums over no such rows."""
    summing = [group for groups in times for group in groups if group.sums_other_rows]
    counting = {call_number(call) for group in summing for call in group.moved[0] if call.name == "nonzero"}
    candidates = [
        _turned(number, calls, places, cause_of(summing[0]))
        for number in counting
        if number is not None and calls[number].op == "nonzero"
    ]
    return Change(candidates[0].formulation, tuple(candidates)) if candidates else None


def _turned(number: int, calls: Sequence[OpCall], places: Sequence[CallPlace], cause: tuple[str, str, str]) -> Candidate:
    """The elements of a mask counted along its other axis first, with the numbers of the axes as they were."""
    (_, mask), *_ = calls[number].inputs
    (counted,) = calls[number].outputs
    readers = [place for place, call in enumerate(calls) if any(value == counted for _, value in call.inputs)]
    parts = [place for place in readers if places[place].extent == places[number].extent]
    text = "paddle.nonzero(x.t(), as_tuple=True)[::-1]" if parts else "paddle.nonzero(x.t()).flip([1])"
    results = tuple(value for place in parts or [number] for value in calls[place].outputs)
    return Candidate(Formulation(*cause, (text,)), tuple(parts or [number]), {"x": mask}, results)


def _copies(group: OriginGroup, partners: Partners, calls: Sequence[OpCall]) -> tuple[int, dict[int, str]] | None:
    """The number of a value, and by the number of a call which copy it reads: "0" is a copy of the value, "01" one of that copy."""
    if {call.name for call in (*group.port, *group.original)} != {"add"}:
        return None
    tree = _of_port(_tree(group.original[-1].result, set(group.original)), partners)
    if tree is None or not isinstance(tree, tuple):
        return None
    leaves = list(_leaves(tree))
    readers = [None if leaf.node is None else call_number(leaf.node) for leaf in leaves]
    paths = dict(_paths(tree))
    read = [set(_readers_of(number, calls)) for number in readers if number is not None]
    for value in sorted(set[int].intersection(*read) if read else (), reverse=True):  # that all of them read
        direct = [None if number is None else _readers_of(number, calls).get(value) for number in readers]
        every = [number for number, call in enumerate(calls) if any(held.number == value for _, held in call.inputs)]
        direct = [number if number in every else None for number in direct]
        left = [number for number in every if number not in direct]
        if len(every) != len(leaves) or len(left) != direct.count(None) or len(left) > 1 or len(set(direct)) != len(direct):
            continue
        numbers = [left[0] if number is None else number for number in direct]
        return value, {number: paths[leaf] for number, leaf in zip(numbers, leaves) if paths[leaf]}
    return None


def _tree(value: Value, inside: set[TraceCall]) -> Tree:
    """How the original adds values up."""
    if value.node is None or value.node not in inside or len(value.node.operands) != 2:
        return value
    first, second = (_tree(operand.value, inside) for operand in value.node.operands)
    return first, second


def _of_port(tree: Tree, partners: Partners) -> Tree | None:
    """The same of the port's gradients; what is a sum of readers itself is taken apart."""
    if isinstance(tree, tuple):
        first, second = (_of_port(side, partners) for side in tree)
        return None if first is None or second is None else (first, second)
    partner = partners.of_original.get(tree)
    return None if partner is None else _apart(partner)


def _apart(value: Value) -> Tree:
    node = value.node
    if node is None or node.name != "add" or call_number(node) is not None or len(node.operands) != 2:
        return value
    first, second = (_apart(operand.value) for operand in node.operands)
    return first, second


def _leaves(tree: Tree) -> Iterator[Value]:
    if isinstance(tree, tuple):
        yield from _leaves(tree[0])
        yield from _leaves(tree[1])
    else:
        yield tree


def _paths(tree: Tree, path: str = "") -> Iterator[tuple[Value, str]]:
    """For each gradient the copy that its reader reads: "" is the value itself, "0" a copy of it, "01" a copy of that."""
    assert isinstance(tree, tuple)
    for place, side in enumerate(tree):
        if isinstance(side, tuple):
            yield from _paths(side, path + str(place))
        else:
            yield side, path


def _readers_of(number: int, calls: Sequence[OpCall]) -> Mapping[int, int]:
    """Value -> the call that reads it, of all that a call reads, as it is or moved."""
    makers, readers = makers_of(calls), dict[int, int]()
    waiting = [number]
    while waiting:
        place = waiting.pop()
        for _, value in calls[place].inputs:
            if value.number not in readers:
                readers[value.number] = place
                maker = makers.get(value.number)
                if maker is not None and calls[maker].op in MOVES:
                    waiting.append(maker)
    return readers
