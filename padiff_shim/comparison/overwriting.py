"""Operands that Paddle's kernel writes into: where it is known before, Torch's gets copies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


def spared(sides: Sequence[Any], overwritten: Sequence[int]) -> list[Any]:
    """The operands, those copied that lie in the memory of what is overwritten."""
    targets = [_memory(side) for side in (sides[index] for index in overwritten) if isinstance(side, torch.Tensor)]
    return [_kept(side) if _shares(side, targets) else side for side in sides]


def versions(tensors: Sequence[Any]) -> list[int | None]:
    """Of each Paddle tensor, how often it was written in place."""
    return [getattr(tensor, "inplace_version", None) for tensor in tensors]


def written(tensors: Sequence[Any], before: Sequence[int | None]) -> list[int]:
    """Places of the tensors that were written since."""
    return [
        place
        for place, (tensor, version) in enumerate(zip(tensors, before))
        if version is not None and tensor.inplace_version != version
    ]


def _memory(tensor: torch.Tensor) -> tuple[int, int]:
    """The first byte of a tensor's elements, and the one behind the last."""
    if not tensor.numel():
        return 0, 0
    return tensor.data_ptr(), tensor.data_ptr() + _span(tensor) * tensor.element_size()


def _span(tensor: torch.Tensor) -> int:
    """Elements between a tensor's first and its last one, both counted."""
    return 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Whether two ranges of memory have a byte in common; views that interleave are taken to."""
    return one[0] < other[1] and other[0] < one[1]


def _shares(side: Any, targets: Sequence[tuple[int, int]]) -> bool:
    return isinstance(side, torch.Tensor) and any(_overlap(_memory(side), target) for target in targets)


def _kept(tensor: torch.Tensor) -> torch.Tensor:
    """A copy with the same strides, which matter to a kernel's last bits."""
    if not tensor.numel():
        return tensor
    return tensor.as_strided((_span(tensor),), (1,)).clone().as_strided(tensor.shape, tensor.stride(), 0)
