"""Torch's results as what Paddle's function returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..frameworks.memory import hand_over, own, to_torch
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
