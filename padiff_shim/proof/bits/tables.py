"""Tables that a port holds before it runs: made by Paddle's kernels, or otherwise, they may have other bits than the original's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import paddle
import torch

from ...table.formulation import NUMBERS, Formulation, Spelling
from ...text import tr
from ..trace import Tables
from .calls import CallRecorder, ValueId
from .changes import MOVES, AnyChange
from .following import CallPlace, as_side
from .words import Untranslatable, literal

_TAKING = MOVES | {"embedding", "gather", "index_select", "index_sample", "take_along_axis", "cast", "astype"}


def table_change(numbers: set[int], recorder: CallRecorder, places: Sequence[CallPlace], tables: Tables) -> AnyChange | None:
    """The original's numbers for the tables that calls read, as they are or moved; None if they read none.

    Args:
        numbers: of the port's calls.
        recorder: of their run. ``places``: of all calls.
        tables: the port's in float64, and the original's in their place.
    """
    makers = {value.number: number for number, call in enumerate(recorder.calls) for value in call.outputs}
    waiting, lines, seen, exchanged = sorted(numbers), dict[str, None](), set[int](), dict[int, Any]()
    while waiting:
        reader = waiting.pop(0)
        for value in dict.fromkeys(held for _, held in recorder.calls[reader].inputs if held.number not in seen):
            seen.add(value.number)
            maker, wanted = makers.get(value.number), _wanted(recorder.memory(value), tables)
            if wanted is not None:
                exchanged[value.number] = paddle.to_tensor(wanted.float().numpy()).astype(value.dtype)
                lines[_line(value, wanted, places[reader])] = None
            elif maker is not None and recorder.calls[maker].op in _TAKING:
                waiting.append(maker)
    if not exchanged:
        return None
    why = tr("numbers that depend on no input are made in other steps, in another dtype, or by other means")
    spellings = Spelling("", ""), Spelling("\n".join(lines), "")
    return AnyChange(Formulation(str(tr("table that was there before")), NUMBERS, "", spellings, (), str(why)), tables=exchanged)


def _wanted(tensor: Any, tables: Tables) -> torch.Tensor | None:
    """The original's table in the place of one of the port's, in its dtype; None of any other tensor."""
    alike = [(own, wanted) for own, wanted in tables if list(own.shape) == tensor.shape and tensor.is_floating_point()]
    side = as_side(tensor) if alike else torch.empty(0)
    return next((wanted.to(side.dtype) for own, wanted in alike if torch.equal(own, side.to(own.dtype))), None)


def _line(value: ValueId, wanted: torch.Tensor, place: CallPlace) -> str:
    """What to write for a table where it is read."""
    names: Mapping[str, ValueId] = place.span.variables if place.span is not None else {}
    name = next((text for text, held in names.items() if held == value), "table")
    try:
        return f"{name} = {literal(wanted)}"
    except Untranslatable:
        return f"{name} = ...  # {tr('the numbers of the original, which makes its table otherwise')}"
