"""What a function of the caller's does to the elements of a weight: what it does to values tells what it does to gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Moves:
    """A function that gives each element of its result one of its argument's, and none twice.

    Args:
        index: for each element of the result the place of the argument's, both flattened.
        shape: that of the result.
    """

    index: torch.Tensor
    shape: tuple[int, ...]
    size: int

    @property
    def inverse(self) -> torch.Tensor | None:
        """For each element of the argument the place of the result's; None if some are dropped."""
        return torch.argsort(self.index) if self.index.numel() == self.size else None

    def of(self, values: Array) -> Array:
        """What it makes of an array."""
        moved: Array = values.reshape(-1)[self.index.numpy()].reshape(self.shape)
        return moved


def moves(function: Callable[[Any], Any], shape: tuple[int, ...]) -> Moves | None:
    """How a function of a tensor moves its elements, found by trying; None if it does anything else to them."""
    size = math.prod(shape)
    try:
        places = torch.as_tensor(function(torch.arange(size, dtype=torch.float64).reshape(shape)))
        index = places.reshape(-1).to(torch.int64)
        values = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        made = torch.as_tensor(function(values.clone())).reshape(-1)
    except Exception:  # whatever it says to such values, it says to the weight's, too
        return None
    known = bool((index == places.reshape(-1)).all()) and bool(((index >= 0) & (index < size)).all())
    if not known or index.unique().numel() != index.numel() or not torch.equal(made, values.reshape(-1)[index]):
        return None
    return Moves(index, tuple(places.shape), size)


def is_affine(function: Callable[[Any], Any], shape: tuple[int, ...]) -> bool:
    """Whether it is a linear map and a shift, so that gradients are taken across by the adjoint of the map."""
    generator = torch.Generator().manual_seed(0)
    one, other = (torch.randn(shape, dtype=torch.float64, generator=generator) for _ in range(2))
    try:
        together, first, second, zero = (
            torch.as_tensor(function(value)) for value in (one + other, one.clone(), other.clone(), torch.zeros_like(one))
        )
        if not torch.allclose(
            together + zero, first + second, rtol=1e-9, atol=1e-9 * float(first.abs().max() + second.abs().max())
        ):
            return False
        adjoint(function, shape, np.ones(tuple(together.shape)))
    except Exception:  # a function that gives no tensor, or none that autograd follows
        return False
    return True


def adjoint(function: Callable[[Any], Any], shape: tuple[int, ...], gradient: Array) -> Array:
    """The gradient with respect to a function's argument of that shape, from the one with respect to its result."""
    with torch.enable_grad():
        start = torch.zeros(shape, dtype=torch.float64, requires_grad=True)
        result = function(start * 1)
        back = torch.autograd.grad(result, start, torch.from_numpy(np.ascontiguousarray(gradient, dtype=np.float64)))[0]
    return back.numpy().astype(gradient.dtype)
