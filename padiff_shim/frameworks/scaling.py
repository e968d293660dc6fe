"""Gradients in 16 bits taken back from their scale: Paddle has no such kernel for the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ..torch_versions import unscale_with
from .memory import to_torch


def unscale_(gradients: Sequence[Any], scale: Any, has_infinity: Any) -> None:
    """Divide Paddle gradients by the scale, in place, as Torch's GradScaler does.

    Args:
        gradients: tensors of float16 or bfloat16 on the CPU.
        scale: the scale, a tensor of one float32.
        has_infinity: a tensor of one bool, which becomes whether a gradient has an infinity or NaN.
    """
    flag = torch.zeros(1)
    inverse = to_torch(scale).double().reciprocal().float()  # as torch.amp.GradScaler.unscale_
    for dtype in (torch.float16, torch.bfloat16):
        sides = [side for side in map(to_torch, gradients) if side.dtype is dtype]
        if sides:
            unscale_with(sides, flag, inverse)
    has_infinity.set_value(np.array([bool(flag.item())]))
