"""Masks of truth values that mean the opposite: True keeps in Paddle's attention, and drops in Torch's."""

from __future__ import annotations

import torch

from .cause import Cause
from .causes import Difference
from .matching import Matching
from .trace import Node, Trace, Value


def turned_mask(matching: Matching, original: Trace, port: Trace) -> Difference | None:
    """The first softmax of the port that keeps exactly what a mask of both programs holds, where the original drops that."""
    for original_node, port_node in zip(_softmaxes(original), _softmaxes(port)):
        expected, actual = original_node.result, port_node.result
        if matching.same(expected, actual) or expected.tensor.numel() != actual.tensor.numel():
            continue
        wanted = expected.tensor.reshape(actual.tensor.shape)
        mask = next(
            (value for trace in (port, original) for value in _masks(trace) if _says(value, wanted == 0, actual.tensor == 0)), None
        )
        if mask is None:
            return None
        name = mask.label or f"a mask of {list(mask.tensor.shape)}"
        text = f"{name}: True keeps a place in the port, and drops it in the original: hand over paddle.logical_not of it"
        return Difference(Cause.CONSTANT, text, original_node, port_node, (port_node, [wanted]))
    return None


def _softmaxes(trace: Trace) -> list[Node]:
    return [node for node in trace.nodes if node.name == "_softmax" and not node.backward]


def _masks(trace: Trace) -> list[Value]:
    return [value for value in trace.values() if value.tensor.dtype is torch.bool and value.tensor.dim() > 0]


def _says(mask: Value, original_drops: torch.Tensor, port_drops: torch.Tensor) -> bool:
    """Whether the original drops where a mask is true, and the port where it is false."""
    try:
        held = mask.tensor.expand(port_drops.shape)
    except RuntimeError:
        return False
    mixed = held.any(-1) & ~held.all(-1)  # a row of which nothing is kept is weighed evenly
    return bool(mixed.any()) and bool((original_drops == held)[mixed].all()) and bool((port_drops == ~held)[mixed].all())
