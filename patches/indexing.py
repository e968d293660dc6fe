"""Reading and writing at indices. What is read is exact; where one element is read or written twice, gradients and sums add up."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from padiff_shim.table.op import Definition, Fault, Ints, Sample, c_op, op

from ._declarations import with_axes

READ: dict[str, Any] = {"exact": True}
ROWS = (Sample((5, 3), Ints((4,), 0, 5)), Sample((2, 5, 3), Ints((7,), 0, 5), axis=1), Sample((4, 5), Ints((6,), 0, 5), axis=1))


def line(index: torch.Tensor) -> torch.Tensor:
    """An index of rows, of which Paddle takes a column, too."""
    if index.ndim > 1 and index.numel() != len(index):
        raise NotImplementedError("an index with several axes")
    return index.reshape(-1)


def whole(index: torch.Tensor) -> torch.Tensor:
    """Indices as Torch takes them everywhere."""
    return index if index.dtype in (torch.int64, torch.bool) else index.long()


@op(
    "x index axis=0",
    samples=(*ROWS, Sample((5, 3), Ints((), 0, 5))),
    **READ,
)
def gather(x: torch.Tensor, index: torch.Tensor, axis: Any) -> torch.Tensor:
    """``torch.index_select``; an index without axes takes its axis away."""
    axis = int(axis)
    with_axes(x)
    rows = torch.index_select(x, axis, line(index))
    return rows if index.ndim else rows.squeeze(axis)


@op("x|input index axis|dim=0", samples=ROWS, **READ)
def index_select(x: torch.Tensor, index: torch.Tensor, axis: int) -> torch.Tensor:
    """``torch.index_select``."""
    with_axes(x)
    return torch.index_select(x, axis, index)


@op("x index", samples=(Sample((5, 4, 3), Ints((6, 2), 0, 4)), Sample((5, 4), Ints((2, 3, 1), 0, 5))), **READ)
def gather_nd(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Torch's ``x[index]`` with one index for each leading axis."""
    return x[whole(index).unbind(-1)] if index.shape[-1] else x.expand(*index.shape[:-1], *x.shape).clone()


@op("x index", samples=(Sample((3, 5), Ints((3, 4), 0, 5)),), unread=("x",), **READ)
def index_sample(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """``torch.gather`` from the rows of a matrix."""
    if len(x) != len(index):
        raise ValueError("indices for another number of rows")
    return torch.gather(x, 1, whole(index))


@op(
    "arr|x|input indices|index axis|dim",
    samples=(Sample((3, 5), Ints((3, 4), 0, 5), axis=1), Sample((2, 4, 5), Ints((2, 6, 5), 0, 4), axis=1)),
    **READ,
)
def take_along_axis(arr: torch.Tensor, indices: torch.Tensor, axis: int) -> torch.Tensor:
    """``torch.gather``; Paddle counts negative indices from the end."""
    return torch.gather(arr, axis, _counted(whole(indices), arr.shape[axis]))


def _counted(indices: torch.Tensor, size: int) -> torch.Tensor:
    return torch.where(indices < 0, indices + size, indices) if indices.numel() and int(indices.min()) < 0 else indices


_REDUCED = {"add": "sum", "mul": "prod", "multiply": "prod", "mean": "mean", "amax": "amax", "amin": "amin"}
_BOTTOM = {"amax": -math.inf, "amin": math.inf}
_PUT = Sample((3, 5), Ints((3, 4), 0, 5), (3, 4), axis=1)


def _skipping(
    own: Callable[..., Any], arr: torch.Tensor, indices: torch.Tensor, value: torch.Tensor, axis: int, kind: str, whole: bool
) -> torch.Tensor:
    """Extrema beside what is there already that skip NaN, as Paddle's kernels compare: with ``>`` and ``<``."""
    if kind not in _BOTTOM or not whole:
        raise NotImplementedError("extrema")
    return own(arr, indices, torch.where(value.isnan(), _BOTTOM[kind], value), axis, kind, whole)


@op(
    "arr|x indices value|values axis reduce='assign' include_self=True",
    promote="same",
    samples=(_PUT.also(reduce="add"), _PUT.also(reduce="add", include_self=False), _PUT.also(reduce="amax")),
    faults={"nan-skipped": Fault(_skipping)},
)
def put_along_axis(
    arr: torch.Tensor, indices: torch.Tensor, value: torch.Tensor, axis: int, reduce: str, include_self: bool
) -> torch.Tensor:
    """``torch.scatter``, or ``torch.scatter_reduce``, with the sums of ``torch.scatter_add``."""
    indices = _counted(whole(indices), arr.shape[axis])
    if reduce == "assign":
        return torch.scatter(arr, axis, indices, value)
    if reduce == "add" and include_self:
        return torch.scatter_add(arr, axis, indices, value)
    return torch.scatter_reduce(arr, axis, indices, value, _REDUCED[reduce], include_self=include_self)


@op(
    "x index updates overwrite=True",
    unread=("updates",),  # Torch keeps them for their shape
    promote="same",
    samples=(Sample((5, 3), Ints((4,), 0, 5), (4, 3), overwrite=False), Sample((4,), Ints((6,), 0, 4), (6,), overwrite=False)),
)
def scatter(x: torch.Tensor, index: torch.Tensor, updates: torch.Tensor, overwrite: bool) -> torch.Tensor:
    """``torch.index_copy``; or the rows emptied, and ``torch.index_add``."""
    rows = line(whole(index))
    updates = updates if index.ndim else updates.unsqueeze(0)
    if updates.ndim != x.ndim:
        raise NotImplementedError("updates of another rank")
    return torch.index_copy(x, 0, rows, updates) if overwrite else torch.index_add(x.index_fill(0, rows, 0), 0, rows, updates)


@op(
    "x index updates",
    promote="same",
    samples=(Sample((5, 4, 3), Ints((6, 2), 0, 4), (6, 3)), Sample((5,), Ints((7, 1), 0, 5), (7,))),
)
def scatter_nd_add(x: torch.Tensor, index: torch.Tensor, updates: torch.Tensor) -> torch.Tensor:
    """``torch.index_put`` that accumulates."""
    if not index.shape[-1]:
        raise NotImplementedError("an index of no axes")
    if updates.shape != index.shape[:-1] + x.shape[index.shape[-1] :]:
        raise ValueError("updates of another shape than the places that they are added to")
    return torch.index_put(x, whole(index).unbind(-1), updates, accumulate=True)


@op(
    "x|input index add_value|source axis|dim",
    inplace=True,
    promote="same",
    unread=("add_value",),
    samples=(Sample((5, 3), Ints((7,), 0, 5), (7, 3), axis=0), Sample((2, 4), Ints((3,), 0, 4), (2, 3), axis=-1)),
)
def index_add(x: torch.Tensor, index: torch.Tensor, add_value: torch.Tensor, axis: int) -> torch.Tensor:
    """``torch.index_add``."""
    with_axes(x)
    return torch.index_add(x, axis, index, add_value)


def _put(x: Any, indices: Any, value: Any, accumulate: bool) -> tuple[Any, bool]:
    return [x, value, *indices], accumulate


@op(
    "tensors accumulate=False",
    c=False,
    operands=True,
    promote="same",
    more_entries=(c_op("index_put", "x|input indices value|values accumulate=False", arrange=_put),),
    amp="index_put",
)
def index_put(tensors: Sequence[torch.Tensor], accumulate: bool) -> torch.Tensor:
    """``torch.index_put``."""
    x, value, *indices = tensors
    return torch.index_put(x, [whole(index) for index in indices], value, accumulate=accumulate)


def _padded(x: torch.Tensor, weight: torch.Tensor, padding_idx: int, sparse: bool) -> str:
    """Where the padding is looked up, and its row is not zero."""
    if padding_idx == -1 or padding_idx >= len(weight) or not weight[padding_idx].any() or not (x == padding_idx).any():
        return ""
    return f"the padding (padding_idx={padding_idx}) reads as zeros, in Torch as what the weight holds there"


def _torchs_embedding(x: torch.Tensor, weight: torch.Tensor, padding_idx: int, sparse: bool) -> torch.Tensor:
    """``torch.nn.functional.embedding`` as it is."""
    if sparse:
        raise NotImplementedError("sparse gradients")
    return F.embedding(x, weight, None if padding_idx == -1 else padding_idx)


@op(
    "x weight padding_idx=-1 sparse=False",
    amp="lookup_table_v2",
    promote="same",
    definition=Definition(_torchs_embedding),
    differs=_padded,
    samples=(Sample(Ints((2, 4), 0, 5), (5, 3)), Sample(Ints((6,), 0, 5), (5, 3), padding_idx=2)),
    note="at `padding_idx` Paddle answers zeros, whatever the weights are (Torch: those); neither gives them a gradient",
)
def embedding(x: torch.Tensor, weight: torch.Tensor, padding_idx: int, sparse: bool) -> torch.Tensor:
    """``F.embedding``; Paddle's result is zero where the padding is looked up, whatever the table says."""
    if sparse:
        raise NotImplementedError("sparse gradients")
    if padding_idx == -1 or padding_idx >= len(weight):
        return F.embedding(x, weight)
    return F.embedding(x, weight, padding_idx).masked_fill((x == padding_idx).unsqueeze(-1), 0)


@op("x|input repeats axis|dim=0 output_size=-1", samples=(Sample((2, 3), repeats=2, axis=1), Sample((3,), repeats=3)), **READ)
def repeat_interleave(x: torch.Tensor, repeats: int, axis: int, output_size: int) -> torch.Tensor:
    """``torch.repeat_interleave``."""
    _as_asked(output_size, x.shape[axis] * repeats)
    return torch.repeat_interleave(x, repeats, axis)


def _as_asked(output_size: int, size: int) -> None:
    """Refuses a size that the result does not have: Paddle writes as many elements as it has into memory of that size."""
    if output_size not in (-1, size):
        raise NotImplementedError("an output_size that does not fit the counts")


@op(
    "x|input repeats axis|dim=0 output_size=-1",
    samples=(Sample((3, 2), Ints((3,), 1, 4)), Sample((2, 4), Ints((4,), 0, 3), axis=1)),
    **READ,
)
def repeat_interleave_with_tensor_index(x: torch.Tensor, repeats: torch.Tensor, axis: int, output_size: int) -> torch.Tensor:
    """``torch.repeat_interleave`` with a count for each element."""
    if output_size != -1:
        _as_asked(output_size, int(repeats.expand(x.shape[axis]).sum()))
    return torch.repeat_interleave(x, repeats, axis)
