"""What an op's entry says of its rounding: a quantity for its result and one for each gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ..oracle.precision import KINDS
from ..oracle.staging import Quantity

_MODELLED = frozenset(KINDS)


class Model:
    """The rounding model of an op. ``values``: the op's arguments as ``Op.reference`` takes them, in ``Op.params`` order."""

    def forward(self, values: Sequence[Any]) -> Quantity | None:
        """The result, or None where this model has no bound for these arguments."""
        return None

    def gradient(self, name: str, values: Sequence[Any], out: torch.Tensor | None, grad: torch.Tensor) -> Quantity | None:
        """The gradient of the operand ``name`` for the incoming gradient ``grad``; None without a bound."""
        return None


def floating(*tensors: Any) -> bool:
    """Every tensor among these has a dtype with a rounding model (the others are numbers or None)."""
    return _MODELLED.issuperset([one.dtype for one in tensors if isinstance(one, torch.Tensor)])


def reciprocal(count: float, dtype: torch.dtype) -> Any:
    """1 / count in the oracle's precision."""
    oracle = KINDS[dtype].oracle
    return 1.0 / count if oracle is np.float64 else oracle(1) / oracle(count)


def reduced(axis: Any, ndim: int) -> tuple[int, ...]:
    """Paddle's axis (None, int, sequence, tensor; empty means all) as sorted non-negative axes."""
    if hasattr(axis, "tolist"):
        axis = axis.tolist()
    if isinstance(axis, int):
        axis = (axis,)
    return tuple(sorted(int(one) % max(ndim, 1) for one in axis)) if axis and ndim else tuple(range(ndim))
