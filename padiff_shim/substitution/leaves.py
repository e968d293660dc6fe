"""The torch side of an operand whose gradient is wanted."""

from __future__ import annotations

from typing import Any

import torch

from ..dispatch.frames import Frame
from ..frameworks import weights
from ..gradients.leaves import weight_leaf
from ..gradients.twins import twin
from ..table import reasons
from ..table.reasons import StayNative


def with_gradient(frame: Frame, value: Any, *, transposed: bool) -> torch.Tensor:
    """The torch side of an operand whose gradient is wanted: its twin; ``transposed``: of a Linear weight, as [out, in]."""
    if not transposed:
        return twin(value)
    if value.ndim != 2:
        raise StayNative(reasons.NOT_A_MATRIX)
    if frame.linear_layout == "view":
        frame.run.layout_cost.views += 1
        return twin(value).t()
    if value.is_leaf:
        return weight_leaf(value, lambda: weights.transposed_copy(value, frame.run.layout_cost))
    side = twin(value).t().contiguous()  # a computed weight: its copy is computed, too
    frame.run.layout_cost.copies += 1
    frame.run.layout_cost.bytes += side.numel() * side.element_size()
    return side
