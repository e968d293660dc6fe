"""Choices of elements by their order: the largest, the smallest, the middle, the first k, all in a row.

What is chosen is exact; gradients add up where one element is chosen for several places, and are shared where several are equal.
Which of equal elements an index names is no rule of Paddle's: it is Torch's choice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from padiff_shim.numerics.ties import Frequent, Running, Selected
from padiff_shim.table.op import Entry, Sample, c_op, each, function, op

from ._declarations import axes, of, reduction, rows
from ._faults import whole_to_each

CHOSEN: dict[str, Any] = {"exact": True}
_REDUCED: dict[str, Any] = {"ties": Selected(lambda x, axis, keepdim: rows(x, axis)), **CHOSEN}
_EQUAL = "of equal elements one has the gradient: the one that Torch chooses"
_ROW = (Sample((3, 4)), Sample((2, 3, 4), axis=1), Sample((5,), axis=0))


def _placed(chosen: Any, dtype: torch.dtype = torch.int64) -> tuple[torch.Tensor, torch.Tensor]:
    """What was chosen, and a copy of its indices: Torch's backward reads them, and the program may change them."""
    return chosen[0], chosen[1].to(dtype, copy=True)


def _chosen(formula: Callable[..., Any], *arguments: Any) -> tuple[Any, ...]:
    """``torch.kthvalue`` and its like."""
    return _placed(formula(*arguments))


def _reduced(formula: Callable[..., Any], x: torch.Tensor, axis: Any, keepdim: bool) -> torch.Tensor:
    """``torch.amax`` and its like, over Paddle's axes."""
    return formula(x, axes(axis, x.ndim), keepdim)


_SHARED: dict[str, Any] = {
    "faults": whole_to_each(lambda x, axis, keepdim: axis),
    "copies_result": True,
    "note": "equal elements share the gradient; up to Paddle 3.0 each has the whole",
    **_REDUCED,
}


def _extreme(of_all: Callable[..., Any], over_axes: Callable[..., Any], x: torch.Tensor, axis: Any, keepdim: bool) -> torch.Tensor:
    """``torch.max`` of all elements, ``torch.amax`` over axes; in a gradient the signs of zeros differ."""
    over = axes(axis, x.ndim)
    return of_all(x) if len(over) == x.ndim and not keepdim else over_axes(x, over, keepdim)


max_ = reduction(legacy="reduce_max", **_SHARED)(of(_extreme, torch.max, torch.amax))
min_ = reduction(legacy="reduce_min", **_SHARED)(of(_extreme, torch.min, torch.amin))

amax = reduction(amp="reduce_amax", copies_result=True, **_REDUCED)(of(_reduced, torch.amax))
amin = reduction(amp="reduce_amin", copies_result=True, **_REDUCED)(of(_reduced, torch.amin))


@op(
    "x|input k axis|dim=-1 largest=True sorted=True",
    amp="top_k_v2",
    results=("out", "indices"),
    samples=(*each((Sample((3, 4), k=2), Sample((2, 5, 3), k=3, axis=1)), largest=(True, False)), Sample((2, 5), k=5)),
    refusals=(Sample((3, 4), k=5),),
    ties=Selected(lambda x, k, axis, largest, sorted: x.movedim(axis, -1), distinct=True),
    **CHOSEN,
)
def topk(x: torch.Tensor, k: Any, axis: int, largest: bool, sorted: bool) -> tuple[Any, ...]:
    """``torch.topk``."""
    return _placed(torch.topk(x, int(k), axis, largest, sorted))


@op(
    "x|input axis=-1 descending=False stable=False",
    results=("out", "indices"),
    samples=each(_ROW, descending=(False, True)),
    ties=Selected(lambda x, axis, descending, stable: x.movedim(axis, -1), distinct=True),
    **CHOSEN,
)
def argsort(x: torch.Tensor, axis: int, descending: bool, stable: bool) -> tuple[Any, ...]:
    """``torch.sort``."""
    return _placed(torch.sort(x, dim=axis, descending=descending, stable=stable))


kthvalue = op(
    "x k=1 axis=-1 keepdim=False",
    results=("out", "indices"),
    note=_EQUAL,
    samples=(Sample((3, 4), k=2), Sample((2, 5, 3), k=5, axis=1, keepdim=True), Sample((2, 5), k=1)),
    refusals=(Sample((3, 4), k=5),),
    ties=Selected(lambda x, k, axis, keepdim: x.movedim(axis, -1)),
    **CHOSEN,
)(of(_chosen, torch.kthvalue))

mode = op(
    "x axis=-1 keepdim=False",
    results=("out", "indices"),
    note=_EQUAL,
    samples=_ROW,
    ties=Frequent(lambda x, axis, keepdim: x.movedim(axis, -1)),
    **CHOSEN,
)(of(_chosen, torch.mode))


def _middle(x: torch.Tensor, over: tuple[int, ...], keepdim: bool, ignore: bool) -> torch.Tensor:
    """The mean of the two elements in the middle of a row, without its NaN or, with ``ignore=False``, NaN where it has one."""
    laid = rows(x, list(over))
    row = torch.sort(laid, -1).values  # NaN last
    count = (~torch.isnan(laid)).sum(-1, keepdim=True)
    last = laid.shape[-1] - 1
    low, high = ((number // 2).clamp(0, last) for number in (count - 1, count))
    if not ignore:
        low, high = (torch.where(count > last, place, last) for place in (low, high))
    below, above = row.gather(-1, low).squeeze(-1), row.gather(-1, high).squeeze(-1)
    middle = torch.where(below == above, _shared(laid, below, ignore), (below + above) / 2)
    if keepdim:
        middle = middle.reshape([1 if axis in over else size for axis, size in enumerate(x.shape)])
    return middle


def _shared(laid: torch.Tensor, middle: torch.Tensor, ignore: bool) -> torch.Tensor:
    """The middle of rows, whose gradient all elements share that are equal to it, as ``torch.median`` of a whole tensor has it."""
    if laid.ndim == 1 and laid.numel():
        return torch.nanmedian(laid) if ignore else torch.median(laid)
    equal = laid.detach() == middle.detach().unsqueeze(-1)
    return torch.where(equal, laid, -torch.inf).amax(-1) if laid.shape[-1] else middle


def _median(chosen: Callable[..., Any], x: torch.Tensor, axis: Any, keepdim: bool, middle: str) -> Any:
    """``torch.median`` or ``torch.nanmedian``; Paddle's default is the mean of the two in the middle."""
    if middle == "avg":
        x = x if x.dtype == torch.float64 else x.float()
        return _middle(x, axes(axis, x.ndim), keepdim, chosen is torch.nanmedian)
    whole = axis is None or (isinstance(axis, (list, tuple)) and len(axis) != 1)
    if whole and axes(axis, x.ndim) != tuple(range(x.ndim)):
        raise NotImplementedError("the lower median over some of several axes")
    if not whole:
        return _placed(chosen(x, axis if isinstance(axis, int) else axis[0], keepdim))
    return chosen(x).reshape([1] * x.ndim) if keepdim else chosen(x)


_MIDDLE = (
    *each((Sample((3, 4)), Sample((3, 5)), Sample((2, 3, 4))), axis=(None, 0, -1), keepdim=(False, True)),
    *each((Sample((3, 4), mode="min"), Sample((2, 5), mode="min")), axis=(1, -1), keepdim=(False, True)),
)
_MIDDLES = Selected(lambda x, axis, keepdim, mode: rows(x, axis))
_MEAN = (
    "with mode='avg', which is Paddle's default, the mean of the two in the middle; where those are equal, all that are equal to "
    "them share the gradient (in Paddle 3.3; before, one has it); with mode='min' along an axis, " + _EQUAL
)


median = op(
    "x axis=None keepdim=False mode='avg'",
    promote="none",
    python="paddle.median",
    note=_MEAN,
    ties=_MIDDLES,
    samples=_MIDDLE,
)(of(_median, torch.median))

nanmedian = op(
    "x axis=None keepdim=False mode='avg'",
    promote="none",
    python="paddle.nanmedian",
    note=_MEAN,
    ties=_MIDDLES,
    samples=(*_MIDDLE, Sample((2, 3, 4), axis=[0, 2])),
)(of(_median, torch.nanmedian))


_RUNS = each(_ROW, dtype=("int64", "int32"))


def _along(x: torch.Tensor, axis: int, dtype: Any) -> torch.Tensor:
    return x.movedim(axis, -1)


def _running(formula: Callable[..., Any], x: torch.Tensor, axis: int, dtype: torch.dtype) -> tuple[Any, ...]:
    return _placed(formula(x, axis), dtype)


cummax = op("x axis=-1 dtype='int64'", results=("out", "indices"), samples=_RUNS, ties=Running(_along, torch.cummax), **CHOSEN)(
    of(_running, torch.cummax)
)


cummin = op("x axis=-1 dtype='int64'", results=("out", "indices"), samples=_RUNS, ties=Running(_along, torch.cummin), **CHOSEN)(
    of(_running, torch.cummin)
)


_ARGUMENTS = (
    *each((Sample((3, 4)), Sample((2, 3, 4))), axis=(None, 0, -1), keepdim=(False, True)),
    Sample((5,), axis=0),
)


_IN_3_3 = "linear_v2"  # a C function that there is from 3.3 on, where that of argmax has Python's own parameters


def _doors(name: str) -> tuple[Entry, ...]:
    """The C function; before 3.3 it had a flag for all axes, and Paddle's own function in front of it."""
    params = "x|input axis|dim=None keepdim=False dtype='int64'"
    return c_op(name, params, since=_IN_3_3), function(f"paddle.{name}", params, until=_IN_3_3)


def _index(formula: Any, x: torch.Tensor, axis: Any, keepdim: bool, dtype: torch.dtype) -> torch.Tensor:
    """Over all axes an index into the flat tensor, with as many axes as the tensor where they are kept."""
    index = formula(x.detach(), None if axis is None else int(axis), keepdim)
    return (index.reshape([1] * x.ndim) if axis is None and keepdim else index).to(dtype)


_EXTREME: dict[str, Any] = {
    "c": False,
    "samples": _ARGUMENTS,
    "results": ("indices",),
    "steps": True,
    "ties": Selected(lambda x, axis, keepdim, dtype: rows(x, axis)),
    "note": "of equal elements the first one, in Torch as in Paddle",
    **CHOSEN,
}


argmax = op("x axis=None keepdim=False dtype='int64'", more_entries=_doors("argmax"), amp="arg_max", **_EXTREME)(
    of(_index, torch.argmax)
)

argmin = op("x axis=None keepdim=False dtype='int64'", more_entries=_doors("argmin"), amp="arg_min", **_EXTREME)(
    of(_index, torch.argmin)
)
