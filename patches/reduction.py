"""Reductions over axes, and running ones along an axis."""

from __future__ import annotations

import math
from typing import Any

import torch

from padiff_shim.numerics import models
from padiff_shim.table.op import Fault, Sample, c_op, each, op

from ._declarations import REDUCED, REDUCED_EMPTY, all_of, axes, of, reduction
from ._faults import quotients, unguarded

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


@reduction(legacy=("reduce_mean", "mean: x"), more_entries=(c_op("mean_all", "x"),), model=models.Mean())
def mean(x: torch.Tensor, axis: Any, keepdim: bool) -> torch.Tensor:
    """``torch.mean``."""
    over = axes(axis, x.ndim)
    return torch.mean(x) if all_of(over, x, keepdim=keepdim) else torch.mean(x, dim=over, keepdim=keepdim)


@reduction(
    "x|input axis|dim=None keepdim=False reduce_all=False",
    legacy="logsumexp: x * axis keepdim=False reduce_all=False",
    faults={"infinite-maximum": Fault(unguarded)},
)
def logsumexp(x: torch.Tensor, axis: Any, keepdim: bool, reduce_all: bool) -> torch.Tensor:
    """``torch.logsumexp``."""
    return torch.logsumexp(x, dim=axes(None if reduce_all else axis, x.ndim), keepdim=keepdim)


@reduction(
    "x|input axis|dim=None keepdim=False reduce_all=False",
    legacy="reduce_prod",
    complex=True,
    faults={"product/element": Fault(quotients)},
    note="of several axes one after the other, the last one first; where an element is 0, Paddle's gradient is NaN",
)
def prod(x: torch.Tensor, axis: Any, keepdim: bool, reduce_all: bool) -> torch.Tensor:
    """``torch.prod``, which takes one axis or all."""
    over = axes(None if reduce_all else axis, x.ndim)
    if all_of(over, x, keepdim=keepdim):
        return torch.prod(x)
    for place in reversed(over):
        x = torch.prod(x, place, keepdim)
    return x


_SPREAD = "x axis=None unbiased=None keepdim=False name=None correction=1"
_SPREADS = (
    *each((Sample((3, 4, 5), unbiased=True),), axis=(None, 0, -1, [0, 2]), keepdim=(False, True)),
    Sample((3, 4), axis=1, unbiased=False),
)


def _spread(
    formula: Any, x: torch.Tensor, axis: Any, unbiased: bool | None, keepdim: bool, name: Any, correction: float
) -> torch.Tensor:
    """``torch.std`` or ``torch.var``, where something is left to divide by."""
    over, less = axes(axis, x.ndim), correction if unbiased is None else int(bool(unbiased))
    if math.prod(x.shape[place] for place in over) <= less:
        raise NotImplementedError("no degree of freedom")
    return formula(x, over, correction=less, keepdim=keepdim)


std = op(_SPREAD, promote="same", python="paddle.std", samples=_SPREADS)(of(_spread, torch.std))

var = op(_SPREAD, promote="same", python="paddle.var", samples=_SPREADS)(of(_spread, torch.var))


@op(
    "x axis=None dtype=None keepdim=False",
    promote="none",
    python="paddle.nansum",
    samples=REDUCED,
)
def nansum(x: torch.Tensor, axis: Any, dtype: torch.dtype | None, keepdim: bool) -> torch.Tensor:
    """``torch.nansum``."""
    return torch.nansum(x, axes(axis, x.ndim), keepdim, dtype=dtype)


@op(
    "x axis=None keepdim=False",
    promote="same",  # whether Paddle takes integers depends on their axes
    python="paddle.nanmean",
    samples=REDUCED,
)
def nanmean(x: torch.Tensor, axis: Any, keepdim: bool) -> torch.Tensor:
    """``torch.nanmean``."""
    return torch.nanmean(x, axes(axis, x.ndim), keepdim)


@op("x target", promote="same", legacy=True, unread=("target",), samples=(Sample((2, 3, 4), (3, 1)), Sample((3, 4), ())))
def reduce_as(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """``Tensor.sum_to_size``."""
    return x.sum_to_size(target.shape)


_RUNNING = "x|input axis=-1 flatten=False exclusive=False reverse=False"
_ALONG = (
    *each((Sample((3, 4)),), axis=(0, 1), reverse=(False, True)),
    Sample((2, 3, 4), axis=-2),
    Sample((2, 3), flatten=True),
    Sample((5,)),
)


def _running(formula: Any, x: torch.Tensor, axis: int, flatten: bool, exclusive: bool, reverse: bool) -> torch.Tensor:
    """A running reduction along an axis, of the flattened tensor, or from behind."""
    if exclusive:
        raise NotImplementedError("exclusive: the element itself left out")
    if not x.ndim:
        raise NotImplementedError("0-D")
    x, axis = (x.flatten(), 0) if flatten else (x, axis)
    if reverse:
        return formula(x.flip(axis), axis).flip(axis)
    return formula(x, axis)


cumsum = op(_RUNNING, inplace=True, legacy=True, complex=True, samples=_ALONG, refusals=(Sample((3, 4), axis=7),))(
    of(_running, torch.cumsum)
)


logcumsumexp = op(_RUNNING, legacy=True, samples=_ALONG)(of(_running, torch.logcumsumexp))


@op(
    "x|input dim exclusive=False reverse=False",
    inplace=True,
    legacy="cumprod: x * dim",
    complex=True,
    samples=(Sample((3, 4), dim=0), Sample((2, 3, 4), dim=-1), Sample((5,), dim=0)),
)
def cumprod(x: torch.Tensor, dim: int, exclusive: bool, reverse: bool) -> torch.Tensor:
    """``torch.cumprod``."""
    if reverse:
        raise NotImplementedError("reverse, which Paddle 2 does not know")
    return _running(torch.cumprod, x, dim, False, exclusive, reverse)


@op(
    "x|input offset=0 axis1=0 axis2=1",
    legacy=True,
    complex=True,
    note="with an offset and axis1 behind axis2, Paddle takes the diagonal on the other side up to 3.0",
    samples=(
        Sample((4, 4)),
        Sample((3, 5), offset=1),
        Sample((5, 3), offset=-1),
        Sample((3, 5), axis1=1, axis2=0),
        Sample((2, 3, 4), axis1=1, axis2=2),
    ),
)
def trace(x: torch.Tensor, offset: int, axis1: int, axis2: int) -> torch.Tensor:
    """``torch.trace``, or the sum of another diagonal."""
    if x.ndim == 2 and not offset:
        return torch.trace(x)
    return x.diagonal(offset, axis1, axis2).sum(-1)
