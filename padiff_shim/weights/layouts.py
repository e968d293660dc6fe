"""The way of values into canonical layout and back."""

from __future__ import annotations

import torch

from .tree import FLAT, TRANSPOSED, Slot


def canonical(slot: Slot, tensor: torch.Tensor) -> torch.Tensor:
    """The values of a slot in canonical layout: a view."""
    if slot.layout == TRANSPOSED:
        tensor = tensor.t()
    elif slot.layout == FLAT:
        tensor = tensor.reshape(-1)
    return tensor if slot.section is None else tensor.narrow(slot.section[0], slot.section[1], slot.section[2] - slot.section[1])


def own_layout(slot: Slot, value: torch.Tensor) -> torch.Tensor:
    """Values in canonical layout as the slot's weight holds them."""
    assert slot.weight is not None
    return value.t() if slot.layout == TRANSPOSED else value.reshape(slot.weight.shape) if slot.layout == FLAT else value
