"""Questions about the elements of two tensors of one shape."""

from __future__ import annotations

import torch


def equal_in_value(tensor: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Which elements are equal as numbers; NaN is NaN."""
    return (tensor == other) | (tensor.isnan() & other.isnan())


def first_place(mask: torch.Tensor) -> list[int]:
    """The index of the first true element; of a tensor without axes none is needed."""
    return [int(axis) for axis in mask.nonzero()[0].tolist()] if mask.ndim else []
