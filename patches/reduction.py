"""Reductions over axes."""

from __future__ import annotations

from typing import Any

import torch

from padiff_shim.numerics import models
from padiff_shim.table.op import Sample, c_op

from ._spell import REDUCED, REDUCED_EMPTY, all_of, axes, reduction

_NARROW_INTEGERS = frozenset({torch.uint8, torch.int8, torch.int16})


@reduction(
    "x|input axis|dim=None dtype=None keepdim=False",
    legacy="reduce_sum",
    promote="none",
    integer=True,
    model=models.Sum(),
    samples=REDUCED + REDUCED_EMPTY,
    refusals=(Sample((3, 4), axis=7), Sample((3, 4), axis=[0, 0])),
)
def sum_(x: torch.Tensor, axis: Any, dtype: torch.dtype | None, keepdim: bool) -> torch.Tensor:
    """``torch.sum``; of Paddle's integers only bool and int32 become int64."""
    if dtype is None and x.dtype in _NARROW_INTEGERS:
        dtype = x.dtype
    over = axes(axis, x.ndim)
    return torch.sum(x, dtype=dtype) if all_of(over, x, keepdim=keepdim) else torch.sum(x, dim=over, keepdim=keepdim, dtype=dtype)


@reduction(legacy=("reduce_mean", "mean: x"), doors=(c_op("mean_all", "x"),), model=models.Mean())
def mean(x: torch.Tensor, axis: Any, keepdim: bool) -> torch.Tensor:
    """``torch.mean``."""
    over = axes(axis, x.ndim)
    return torch.mean(x) if all_of(over, x, keepdim=keepdim) else torch.mean(x, dim=over, keepdim=keepdim)


@reduction(
    "x|input axis|dim=None keepdim=False reduce_all=False",
    legacy="logsumexp: x * axis keepdim=False reduce_all=False",
    model=models.LogSumExp(),
)
def logsumexp(x: torch.Tensor, axis: Any, keepdim: bool, reduce_all: bool) -> torch.Tensor:
    """``torch.logsumexp``."""
    return torch.logsumexp(x, dim=axes(None if reduce_all else axis, x.ndim), keepdim=keepdim)
