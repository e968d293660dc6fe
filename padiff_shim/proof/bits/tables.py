"""Tables that a port holds before it runs: made by Paddle's kernels, or otherwise, they may have other bits than the original's."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import paddle
import torch

from ...text import tr
from ..expressions import Rewrite, both
from ..trace import Tables, TraceCall
from .calls import CallRecorder, OpCall, ValueId
from .changes import MOVES, AnyChange
from .followed_runs import CallPlace, as_side
from .formulation import NUMBERS, Formulation
from .origins import OriginGroup, arranged
from .source import Span, patch, reading
from .words import CallWords, Untranslatable, literal

_TAKING = MOVES | {"embedding", "gather", "index_select", "index_sample", "take_along_axis", "cast", "astype"}
_NEAR = 1e-4  # of the largest number: so near is what the original makes in its own dtype to what it makes in float64


@dataclass(frozen=True)
class TableChange(AnyChange):
    """Other numbers of tables.

    Attributes:
        expressions: by the number of a call of the port, and by what it reads where that was there before: what to write in its
            place; "" where nothing is known that makes the numbers.
    """

    expressions: Mapping[tuple[int, ValueId | None], str] = field(default_factory=dict)

    def patch(
        self, calls: Sequence[OpCall], places: Sequence[CallPlace], *, again: bool = False, taken: set[str] | None = None
    ) -> Rewrite | None:
        """None where a table has no words."""
        spans = [(place.span, call.outputs) for call, place in zip(calls, places) if place.span is not None]
        edits = list[Rewrite | None]()
        for (number, read), text in self.expressions.items():
            span = places[number].span
            parts = [] if span is None or not text else [span] if read is None else reading(span, read)
            edits += [patch(part, _with_lengths(text, part), {}, spans, taken=taken) for part in parts] or [None]
        return functools.reduce(lambda first, other: first if first == other else both(first, other), edits)


def table_change(
    groups: Sequence[OriginGroup],
    recorder: CallRecorder,
    places: Sequence[CallPlace],
    tables: Tables,
    written: Callable[[TraceCall], str],
) -> TableChange | None:
    """The original's numbers for the tables that an origin's calls read, as they are or moved; None if they read none.

    Args:
        groups: what differs.
        recorder: of the port's calls. ``places``: of all of them.
        tables: the port's in float64, and the original's in their place.
        written: says a call of the original's that reads nothing of the port's in Paddle's words.
    """
    makers = {value.number: number for number, call in enumerate(recorder.calls) for value in call.outputs}
    waiting, lines = sorted(set[int]().union(*(group.calls for group in groups))), list[str]()
    seen, exchanged, expressions = set[int](), dict[int, Any](), dict[tuple[int, ValueId | None], str]()
    made = [call for group in groups for call in group.tables[1] if call.results]  # by the original's own calls
    while waiting:
        reader = waiting.pop(0)
        for value in dict.fromkeys(held for _, held in recorder.calls[reader].inputs if held.number not in seen):
            seen.add(value.number)
            maker, (wanted, call) = makers.get(value.number), _wanted(recorder.memory(value), tables, made)
            if wanted is not None:
                exchanged[value.number] = paddle.to_tensor(wanted.float().numpy()).astype(value.dtype)
                text = _text(wanted, call, written)
                shown = text or f"...  # {tr('the numbers of the original, which makes its table otherwise')}"
                span = places[reader].span
                known = span.variables.items() if span is not None else ()
                line = f"{next((text for text, held in known if held == value), 'table')} = {shown}"
                lines += [line] if line not in lines else []
                expressions[(reader, value) if maker is None else (maker, None)] = text
            elif maker is not None and recorder.calls[maker].op in _TAKING:
                waiting.append(maker)
    if not exchanged:
        return None
    why = tr("numbers that depend on no input are made in other steps, in another dtype, or by other means")
    formulation = Formulation(NUMBERS, str(tr("table that was there before")), str(why), ("\n".join(lines),))
    return TableChange(formulation, expressions, tables=exchanged)


def _wanted(tensor: Any, tables: Tables, made: Sequence[TraceCall]) -> tuple[torch.Tensor | None, TraceCall | None]:
    """The original's table in the place of one of the port's, in its dtype, and the call that makes it; None of another tensor."""
    alike = [(own, wanted) for own, wanted in tables if list(own.shape) == tensor.shape and tensor.is_floating_point()]
    side = as_side(tensor) if alike else torch.empty(0)
    wide = next((wanted for own, wanted in alike if torch.equal(own, side.to(own.dtype))), None)
    for call in reversed(made) if wide is not None else ():
        held = call.result.tensor
        if held.numel() == side.numel() and (laid := arranged(held, held.double(), wide, side, _NEAR)) is not None:
            return laid, call
    return (None if wide is None else wide.to(side.dtype)), None


def _text(wanted: torch.Tensor, call: TraceCall | None, written: Callable[[TraceCall], str]) -> str:
    """An expression of a table: of the original's calls, or of its numbers; "" where both are too long, or unknown."""
    if call is not None and (text := written(call)):
        return CallWords.shaped(text, call.result.tensor, wanted)
    with contextlib.suppress(Untranslatable):
        return literal(wanted)
    return ""


def _with_lengths(text: str, span: Span) -> str:
    """An expression with the port's own name for the number up to which it counts, if its statement has one."""
    for number in dict.fromkeys(re.findall(r"arange\((\d+)\)", text)):
        name = next((name for name, held in span.numbers.items() if name.isidentifier() and held == int(number)), number)
        text = re.sub(rf"\b{number}\b", name, text)
    return text
