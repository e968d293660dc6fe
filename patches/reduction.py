"""Reductions: sum, mean, logsumexp."""

from __future__ import annotations

from typing import Any

import torch

from padiff_shim.numerics import models
from padiff_shim.table.op import Op, Sample, c_op, legacy


def axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """Paddle's axis (None, int, sequence, 1-D or 0-D tensor; empty means all) as non-negative axes."""
    if hasattr(axis, "tolist"):
        axis = axis.tolist()
    if isinstance(axis, int):
        axis = (axis,)
    if not axis:
        return tuple(range(ndim))
    for one in axis:
        if not -max(ndim, 1) <= one < max(ndim, 1):
            raise IndexError(f"axis {one} is out of range for {ndim} dimensions")
    found = tuple(sorted({int(one) % max(ndim, 1) for one in axis}))
    if len(found) != len(axis):
        raise ValueError(f"axis {axis} names a dimension twice")
    return found if ndim else ()


_NARROW_INTEGERS = frozenset({torch.uint8, torch.int8, torch.int16})


def sum_(x: torch.Tensor, axis: Any, dtype: torch.dtype | None, keepdim: bool) -> torch.Tensor:
    """``torch.sum``; of Paddle's integers only bool and int32 become int64."""
    if dtype is None and x.dtype in _NARROW_INTEGERS:
        dtype = x.dtype
    over = axes(axis, x.ndim)
    if len(over) == x.ndim and not keepdim:
        return torch.sum(x, dtype=dtype)
    return torch.sum(x, dim=over, keepdim=keepdim, dtype=dtype)


def mean(x: torch.Tensor, axis: Any, keepdim: bool) -> torch.Tensor:
    """``torch.mean``."""
    over = axes(axis, x.ndim)
    return torch.mean(x) if len(over) == x.ndim and not keepdim else torch.mean(x, dim=over, keepdim=keepdim)


def logsumexp(x: torch.Tensor, axis: Any, keepdim: bool, reduce_all: bool) -> torch.Tensor:
    """``torch.logsumexp``."""
    return torch.logsumexp(x, dim=axes(None if reduce_all else axis, x.ndim), keepdim=keepdim)


_AXES: tuple[Any, ...] = (None, [], 0, -1, [0, 2], [-1, 0], [0, 1, 2])
_SAMPLES = (
    *(Sample(((3, 4, 5),), {"axis": axis, "keepdim": keepdim}) for axis in _AXES for keepdim in (False, True)),
    Sample(((),), {"axis": None, "keepdim": False}),
    Sample(((3, 4),), {"axis": 1, "keepdim": False}),
)
_EMPTY = (Sample(((0, 4),), {"axis": 0, "keepdim": False}), Sample(((0, 4),), {"axis": None, "keepdim": False}))

OPS = (
    Op(
        "sum",
        "reduction",
        sum_,
        "x axis=None dtype=None keepdim=False",
        (
            c_op("sum", "x|input axis|dim=None dtype=None keepdim=False"),
            legacy("reduce_sum", "x axis|dim=[0] keepdim|keep_dim=False reduce_all=False"),
        ),
        _SAMPLES + _EMPTY,
        promote="none",
        amp=("reduce_sum", ""),
        model=models.Sum(),
        integer=True,
    ),
    Op(
        "mean",
        "reduction",
        mean,
        "x axis=None keepdim=False",
        (
            c_op("mean", "x|input axis|dim=None keepdim=False"),
            c_op("mean_all", "x"),
            legacy("reduce_mean", "x axis|dim=[0] keepdim|keep_dim=False reduce_all=False"),
            legacy("mean", "x"),
        ),
        _SAMPLES,
        amp=("reduce_mean", ""),
        model=models.Mean(),
    ),
    Op(
        "logsumexp",
        "reduction",
        logsumexp,
        "x axis=None keepdim=False reduce_all=False",
        (
            c_op("logsumexp", "x|input axis|dim=None keepdim=False reduce_all=False"),
            legacy("logsumexp", "x axis keepdim=False reduce_all=False"),
        ),
        _SAMPLES,
        amp=("logsumexp", ""),
        model=models.LogSumExp(),
    ),
)
