"""Calls that stand before others in a port and behind them in the original: equal values, and gradients that are summed elsewhere.

A repetition before a rotation has its gradient summed behind the rotation's backward, and the other way round. Past which
calls one is moved is tried.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ...table.formulation import BACKWARD, Formulation, Spelling
from ...text import tr
from ..expressions import Rewrite, both
from .calls import OpCall, ValueId
from .changes import MOVES, AnyChange, call_text
from .following import CallPlace, Swap, call_number
from .origins import OriginGroup
from .source import Span, assigned_before, part_replaced, patch, text_of

_REPEATS = frozenset({"repeat_interleave", "tile", "expand_as", "broadcast_to", "index_select", "gather"})
_AS_IT_IS = "x.transpose(list(range(x.ndim)))"
_NAME, _AGAIN = "moved", "repeated"
_FARTHEST = 6  # ends of calls that are tried


class Move(NamedTuple):
    """Calls of the port, and others that they are moved past.

    Attributes:
        calls: the numbers of those that are moved, each the reader of the one before.
        operand, result: what the first reads, and what the last makes.
        past: the numbers of the others: all that read ``result``, or what is made of it; or all that lead from ``start`` to
            ``operand``.
        start: what these read, if the calls are moved before them.
    """

    calls: tuple[int, ...]
    operand: ValueId
    result: ValueId
    past: tuple[int, ...]
    start: ValueId | None = None


@dataclass(frozen=True)
class MoveChange(AnyChange):
    """Calls that are made behind those that read them, or before those that they read.

    Attributes:
        moves: for each time.
        text: the moved calls as source, of ``x``.
        stacks: of each call of the port the expressions that it stands in, the innermost first.
    """

    moves: tuple[Move, ...]
    text: str
    stacks: Sequence[Sequence[Span]] = ()

    @property
    def calls(self) -> set[int]:
        """The numbers of all calls whose values change."""
        return {number for move in self.moves for number in (*move.calls, *move.past)}

    def swaps(self, calls: Sequence[OpCall]) -> list[Swap]:
        """The moved calls give back their operand."""
        return [Swap(_AS_IT_IS, {"x": move.operand}, {move.calls[-1]: [0]}) for move in self.moves]

    def patch(
        self, calls: Sequence[OpCall], places: Sequence[CallPlace], *, again: bool = False, taken: set[str] | None = None
    ) -> Rewrite | None:
        """None where no expression of the source stands for these calls alone."""
        move = self.moves[0]
        others = self._own(move.past[-1], [move.past[-1] for move in self.moves])
        moved = self._own(move.calls[-1], [move.calls[-1] for move in self.moves])
        if others is None:
            return None
        spans = [(place.span, call.outputs) for call, place in zip(calls, places) if place.span is not None]
        for number, span in sorted([(move.past[-1], others), *([(move.calls[-1], moved)] if moved else [])], reverse=True):
            spans.insert(sum(place.span is not None for place in places[: number + 1]), (span, ()))
        if move.start is not None:
            return self._before(move, move.start, others, moved, spans, calls)
        if all(any(_lies_in(span, others) for span in self.stacks[number]) for number in move.past):
            text = self._part(others, move.result, move.calls[-1])
            if text is not None:
                return patch(others, _of(self.text, text), {_NAME: move.operand}, spans)
        if moved is None or moved.file != others.file:
            return None
        unmoved = patch(moved, _NAME, {_NAME: move.operand}, spans)
        return both(unmoved, patch(others, _of(self.text, text_of(others)), {}, spans))

    def _before(
        self,
        move: Move,
        start: ValueId,
        others: Span,
        moved: Span | None,
        spans: Sequence[tuple[Span, Sequence[ValueId]]],
        calls: Sequence[OpCall],
    ) -> Rewrite | None:
        """The lines for calls that are moved before others."""
        if moved is None or moved.file != others.file:
            return None
        whole = all(any(_lies_in(span, others) for span in self.stacks[number]) for number in move.past)
        unmoved = patch(moved, _NAME, {_NAME: move.operand}, spans)
        if not whole:
            readers = _readers(start, calls)
            first = self._own(readers[0], [_readers(each.start, calls)[0] for each in self.moves if each.start is not None])
            alone = first is not None and first.file == moved.file and set(readers) <= set(move.past)
            return both(assigned_before(first, start, self.text), unmoved) if alone and first is not None else None
        text = self._part(others, start, next((number for number, call in enumerate(calls) if start in call.outputs), None))
        if text is None:
            return None
        once = f"{_AGAIN} = {_of(self.text, _NAME)}\n{text.replace(_NAME, _AGAIN)}"
        if _lies_in(others, moved):
            return patch(moved, once, {_NAME: start}, spans)
        return both(patch(others, once, {_NAME: start}, spans), unmoved)

    def _part(self, whole: Span, value: ValueId, maker: int | None) -> str | None:
        """An expression with a name in place of a value that it reads."""
        inside = [span for span in self.stacks[maker] if _lies_in(span, whole)] if maker is not None else []
        return part_replaced(whole, value, inside[-1:], _NAME)

    def _own(self, number: int, times: Sequence[int]) -> Span | None:
        """The innermost expression that makes a call's value each time, and no other."""
        innermost = self.stacks[number][0] if self.stacks[number] else None
        for span in self.stacks[number]:
            same = [
                place
                for place, stack in enumerate(self.stacks)
                if stack and _same(stack[0], innermost) and any(_same(each, span) for each in stack)
            ]
            if same == sorted(times):
                return span
        return None


def _same(span: Span, other: Span | None) -> bool:
    return other is not None and span[:5] == other[:5]


def _lies_in(span: Span, whole: Span) -> bool:
    return (
        span.code is whole.code
        and (whole.line, whole.column) <= (span.line, span.column)
        and (span.end_line, span.end_column) <= (whole.end_line, whole.end_column)
    )


def _of(text: str, operand: str) -> str:
    """The moved calls of an expression."""
    return re.sub(r"\bx\b", lambda _: operand, text, count=1)


def move_changes(
    times: Sequence[Sequence[OriginGroup]], calls: Sequence[OpCall], places: Sequence[CallPlace]
) -> Iterator[MoveChange]:
    """Changes to try for an origin whose backward makes equal calls in another order."""
    each = [list(_moves(groups, calls)) for groups in times]
    if not each or len({len(moves) for moves in each}) > 1:
        return
    for moves in zip(*each):
        texts = {_text([calls[number] for number in move.calls]) for move in moves}
        if len(texts) > 1 or None in texts:
            continue
        text = next(iter(texts)) or ""
        first = moves[0]
        start, end = places[first.calls[-1]].site.line, places[first.past[-1]].site.line
        words = {"start": start, "end": end}
        if first.start is None:
            place = tr("behind line {end}, not in line {start}", **words)
        else:
            place = tr("before line {end}, not in line {start}", **words)
        spelling = f"{text}  # {place}"
        name = str(tr("place of {ops}", ops=", ".join(dict.fromkeys(calls[number].op for number in first.calls))))
        why = str(tr("gradients are added up before the backward of other calls, or behind it"))
        formulation = Formulation(name, BACKWARD, "x", (Spelling("", ""), Spelling(spelling, "")), (), why)
        behind = {move.past[-1]: text for move in moves if move.start is None}
        ahead = {number: (move.start.number, (text,)) for move in moves if move.start is not None for number in move.past}
        yield MoveChange(formulation, moves, text, behind=behind, ahead=ahead)


def _moves(groups: Sequence[OriginGroup], calls: Sequence[OpCall]) -> Iterator[Move]:
    """What may be moved of one time, and past what."""
    moved = [number for group in groups for call in group.port if call.backward and (number := call_number(call)) is not None]
    makers = {value.number: number for number, call in enumerate(calls) for value in call.outputs}
    for number in dict.fromkeys(moved):
        if not _is_movable(calls[number]):
            continue
        earlier, later = [number], [number]
        while (maker := makers.get(calls[earlier[0]].inputs[0][1].number)) is not None and _is_movable(calls[maker]):
            earlier.insert(0, maker)
        while len(readers := _readers(calls[later[-1]].outputs[0], calls)) == 1 and _is_movable(calls[readers[0]]):
            later.append(readers[0])
        parts = [(*earlier[begin:], *later[1:end]) for begin in range(len(earlier)) for end in range(1, len(later) + 1)]
        for part in sorted(parts, key=len):
            operand, result = calls[part[0]].inputs[0][1], calls[part[-1]].outputs[0]
            for past in _ends(result, calls):
                yield Move(part, operand, result, past)
            for start, past in _starts(operand, calls):
                yield Move(part, operand, result, past, start)


def _is_movable(call: OpCall) -> bool:
    """Whether a call repeats or moves the elements of one tensor."""
    return len({value for _, value in call.inputs}) == 1 == len(call.outputs) and (
        call.op in MOVES or call.op in _REPEATS or (call.op in ("concat", "stack") and len(call.inputs) > 1)
    )


def _readers(value: ValueId, calls: Sequence[OpCall]) -> list[int]:
    return [number for number, call in enumerate(calls) if any(read.number == value.number for _, read in call.inputs)]


def _ends(value: ValueId, calls: Sequence[OpCall]) -> Iterator[tuple[int, ...]]:
    """The calls that read a value, or what is made of it, up to each that makes the only value of all that is read behind it."""
    inside, past, count = {value.number}, list[int](), 0
    for number in range(min(_readers(value, calls), default=len(calls)), len(calls)):
        call = calls[number]
        if not any(read.number in inside for _, read in call.inputs):
            continue
        past.append(number)
        made = {output.number for output in call.outputs}
        still = [each for each in inside if any(reader > number for reader in _readers(ValueId(each, ""), calls))]
        inside |= made
        if not still and len(call.outputs) == 1:
            yield tuple(past)
            count += 1
        if count == _FARTHEST:
            return


def _starts(value: ValueId, calls: Sequence[OpCall]) -> Iterator[tuple[ValueId, tuple[int, ...]]]:
    """The values that a value is made of, the nearest first, and the calls in between, if nothing else reads what they make."""
    makers = {output.number: number for number, call in enumerate(calls) for output in call.outputs}
    before, waiting = set[int](), [value.number]
    while waiting:
        maker = makers.get(waiting.pop())
        if maker is not None and maker not in before:
            before.add(maker)
            waiting += [read.number for _, read in calls[maker].inputs]
    read = dict.fromkeys(each for number in sorted(before, reverse=True) for _, each in calls[number].inputs)
    count = 0
    for start in sorted(read, key=lambda each: -makers.get(each.number, -1)):
        inside, past = {start.number}, list[int]()
        for number in sorted(before):
            if inside.intersection(each.number for _, each in calls[number].inputs):
                past.append(number)
                inside.update(output.number for output in calls[number].outputs)
        inner = [output for number in past for output in calls[number].outputs if output.number != value.number]
        if value.number in inside and all(reader in past for output in inner for reader in _readers(output, calls)):
            yield start, tuple(past)
            count += 1
        if count == _FARTHEST:
            return


def _text(calls: Sequence[OpCall]) -> str | None:
    """Calls of which each reads the one before as an expression of ``x``."""
    text = "x"
    for call in calls:
        written = call_text(call)
        if written is None or len(written[1]) != 1:
            return None
        text = written[0].replace("x0", text)
    return text
