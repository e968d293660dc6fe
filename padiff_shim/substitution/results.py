"""Torch's results as what Paddle's function returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..frameworks.memory import hand_over, own, shares_memory, to_torch
from ..gradients.calls import Call
from ..gradients.twins import WithoutGradient, ZerosBehind, born, seated
from ..table import reasons
from ..table.reasons import StayNative
from ..table.signature import REFUSALS, refused


def fits(out: torch.Tensor, target: torch.Tensor) -> None:
    """StayNative where an in-place op's result does not fit into the operand."""
    if out.shape != target.shape or out.dtype != target.dtype:
        raise StayNative(reasons.OTHER_RESULT)


def overwritten(tensor: Any, values: torch.Tensor) -> Any:
    """The Paddle tensor, with new values in its own memory."""
    try:
        to_torch(tensor).copy_(values.detach())  # not into the operand's side: that may be a copy with a Torch program's strides
    except REFUSALS as error:  # elements that overlap
        raise refused(error) from None
    return tensor


def handed(out: torch.Tensor, operands: Sequence[Any], position: int = 0) -> Any:
    """A result without gradients as a new Paddle tensor, never over the memory of an operand."""
    out = out.detach() if out.requires_grad else out
    pointer = out.data_ptr()
    for side in operands:
        if type(side) is torch.Tensor and side.data_ptr() == pointer:
            out = own(out, operands)
    return hand_over(out)


def beside(wanting: torch.Tensor, out: torch.Tensor, operands: Sequence[Any]) -> Any:
    """A result without a gradient of its own (indices, a mask) beside ``wanting``, which has one: in Paddle both have one node."""
    if out.is_floating_point():
        return born(ZerosBehind.apply(own(out.detach(), operands), wanting))
    return gradientless(handed(out, operands), wanting)


def gradientless(result: Any, wanting: torch.Tensor) -> Any:
    """A result that no gradient comes from, with the node that ``wanting`` has in Paddle."""
    return seated(result, wanting, WithoutGradient(wanting).arrive)


def kept(side: torch.Tensor, operands: Sequence[Any]) -> torch.Tensor:
    """What an op moved, in memory that it may share with an operand only if Paddle will get a copy: with Torch's strides."""
    return side.clone() if side.is_contiguous() and shares_memory(side, operands) else side


def on_tape(call: Call, out: torch.Tensor, operands: Sequence[Any]) -> Any:
    """A result of an op that moves values. Torch may make a view where Paddle copies; its strides are kept."""
    if any(out is operand for operand in operands):  # a cast to the dtype that it has: no step of torch's graph
        out = out.view_as(out)
    call.behind(out)
    return born(kept(out, operands))


def moved(out: torch.Tensor, operands: Sequence[Any], position: int = 0) -> Any:
    """A result without gradients of an op that moves values."""
    return hand_over(kept(out.detach() if out.requires_grad else out, operands))
