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
from .origins import OriginGroup, arranged
from .words import Untranslatable, literal

_TAKING = MOVES | {"embedding", "gather", "index_select", "index_sample", "take_along_axis", "cast", "astype"}
_NEAR = 1e-4  # of the largest number: so near is what the original makes in its own dtype to what it makes in float64


def table_change(
    groups: Sequence[OriginGroup], recorder: CallRecorder, places: Sequence[CallPlace], tables: Tables
) -> AnyChange | None:
    """The original's numbers for the tables that an origin's calls read, as they are or moved; None if they read none.

    Args:
        groups: what differs.
        recorder: of the port's calls. ``places``: of all of them.
        tables: the port's in float64, and the original's in their place.
    """
    makers = {value.number: number for number, call in enumerate(recorder.calls) for value in call.outputs}
    waiting, lines, seen, exchanged = (
        sorted(set[int]().union(*(group.calls for group in groups))),
        [""],
        set[int](),
        dict[int, Any](),
    )
    made = [call.result.tensor for group in groups for call in group.tables[1] if call.results]  # by the original's own calls
    while waiting:
        reader = waiting.pop(0)
        for value in dict.fromkeys(held for _, held in recorder.calls[reader].inputs if held.number not in seen):
            seen.add(value.number)
            maker, wanted = makers.get(value.number), _wanted(recorder.memory(value), tables, made)
            if wanted is not None:
                exchanged[value.number] = paddle.to_tensor(wanted.float().numpy()).astype(value.dtype)
                lines += [line for line in [_line(value, wanted, places[reader])] if line not in lines]
            elif maker is not None and recorder.calls[maker].op in _TAKING:
                waiting.append(maker)
    if not exchanged:
        return None
    why = tr("numbers that depend on no input are made in other steps, in another dtype, or by other means")
    spellings = Spelling("", ""), Spelling("\n".join(lines[1:]), "")
    return AnyChange(Formulation(str(tr("table that was there before")), NUMBERS, "", spellings, (), str(why)), tables=exchanged)


def _wanted(tensor: Any, tables: Tables, made: Sequence[torch.Tensor]) -> torch.Tensor | None:
    """The original's table in the place of one of the port's, in its dtype; None of any other tensor."""
    alike = [(own, wanted) for own, wanted in tables if list(own.shape) == tensor.shape and tensor.is_floating_point()]
    side = as_side(tensor) if alike else torch.empty(0)
    wide = next((wanted for own, wanted in alike if torch.equal(own, side.to(own.dtype))), None)
    if wide is None:
        return None
    laid = (arranged(each, each.double(), wide, side, _NEAR) for each in reversed(made) if each.numel() == wide.numel())
    return next((each for each in laid if each is not None), wide.to(side.dtype))


def _line(value: ValueId, wanted: torch.Tensor, place: CallPlace) -> str:
    """What to write for a table where it is read."""
    names: Mapping[str, ValueId] = place.span.variables if place.span is not None else {}
    name = next((text for text, held in names.items() if held == value), "table")
    try:
        return f"{name} = {literal(wanted)}"
    except Untranslatable:
        return f"{name} = ...  # {tr('the numbers of the original, which makes its table otherwise')}"
