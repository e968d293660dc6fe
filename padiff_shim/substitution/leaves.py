"""The torch side of a Linear weight whose gradient is wanted."""

from __future__ import annotations

from typing import Any

import torch

from ..dispatch.frames import Frame
from ..dispatch.operands import spares
from ..frameworks import weights
from ..frameworks.memory import as_it_lies
from ..gradients.leaves import begin_as_it_lies, leaf, lies_in_graph, weight_leaf
from ..gradients.twins import twin
from ..table import reasons
from ..table.reasons import StayNative


def weight_with_gradient(frame: Frame, value: Any, x: Any, bias: Any) -> torch.Tensor:
    """A Linear weight as [out, in], by which ``x``, on Torch's side, is multiplied, to add ``bias``, on Paddle's."""
    if not torch.is_grad_enabled():  # within a backward: a replay asks for gradients of its own
        with torch.enable_grad():
            return weight_with_gradient(frame, value, x, bias)
    cost = frame.run.layout_cost
    if value.ndim != 2:
        raise StayNative(reasons.NOT_A_MATRIX)
    if frame.linear_layout == "view":
        cost.views += 1
        return twin(value).t()
    if value.is_leaf:
        return _of_leaf(frame, value, x, bias)
    return _computed(frame, twin(value))  # a computed weight: its copy is computed, too


def _of_leaf(frame: Frame, value: Any, x: Any, bias: Any) -> torch.Tensor:
    """The weight as it lies, where that leaves Torch's bits, else a copy."""
    cost = frame.run.layout_cost
    if lies_in_graph(value):
        side = leaf(value)
        if not spares(frame, x, side, bias):
            return _computed(frame, side)
        cost.spared += 1
        return side.t()
    source = as_it_lies(value)
    if spares(frame, x, source, bias) and begin_as_it_lies(value):
        weights.forget(value)
        cost.spared += 1
        return leaf(value).t()
    return weight_leaf(value, weights.transposed_copy(value, source, cost))


def _computed(frame: Frame, side: torch.Tensor) -> torch.Tensor:
    """A copy that is a step of torch's graph."""
    # Not contiguous(), which leaves an axis of size 1 the stride that it has: BLAS may be asked with it.
    turned = side.t().clone(memory_format=torch.contiguous_format)
    frame.run.layout_cost.copies += 1
    frame.run.layout_cost.bytes += turned.numel() * turned.element_size()
    return turned
