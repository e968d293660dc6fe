"""Reading a tensor at an index, and writing values there, as compared calls: their results and gradients.

Which places an index means is what Paddle's own reading of a contiguous tensor at that index says.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import paddle
import torch

from ..dispatch.entry_point import EntryPoint
from ..dispatch.frames import paused
from ..frameworks.memory import FLOATS, to_torch
from ..table.op import Entry, Op

# Of what writes a tensor's values: its arguments -> the tensor that is written, the values, and the index.
_READERS: dict[str, Callable[..., tuple[Any, Any, Any] | None]] = {
    "_setitem_dygraph": lambda x, index, value: (x, value, index),
    "index_put_": lambda x, indices, value, accumulate=False: None if accumulate else (x, value, tuple(indices)),
    "masked_fill_": lambda x, mask, value: (x, value, mask) if mask.shape == x.shape else None,
    "scatter_": lambda x, index, updates, overwrite=True: (x, updates, index) if overwrite and index.ndim == 1 else None,
}


class Places:
    """Where values go: the ``rows`` of a tensor whose leading axes are made one, with the ``trailing`` axes that it has besides."""

    def __init__(self, tensor: Any, index: Any) -> None:
        parts = index if type(index) is tuple else (index,)
        axes = tensor.ndim if any(part is Ellipsis or type(part) is bool for part in parts) else sum(map(_axes, parts))
        with paused(), paddle.no_grad():
            numbers = paddle.arange(math.prod(tensor.shape[:axes])).reshape(tensor.shape[:axes])
            self.rows = to_torch(numbers._getitem_dygraph(index)).clone()
        self.trailing = tuple(tensor.shape[axes:])

    def _kind(self) -> tuple[Any, ...]:
        return (*self.rows.shape, self.trailing)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Places) and self._kind() == other._kind()

    def __hash__(self) -> int:
        return hash(self._kind())

    def __str__(self) -> str:
        return f"{list(self.rows.shape)} places"

    def operands(self, x: torch.Tensor, value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The tensor's rows, the places among them, and the values for each; of further axes in front Paddle takes those of one."""
        shape = (*self.rows.shape, *self.trailing)
        value = value.reshape(value.shape[max(0, value.ndim - len(shape)) :]).expand(shape)
        return x.reshape(-1, *self.trailing), self.rows.reshape(-1), value.reshape(-1, *self.trailing)


def _axes(part: Any) -> int:
    """How many axes a part of an index reads."""
    if part is None:
        return 0
    kind = np.asarray(part).dtype if isinstance(part, (list, np.ndarray)) else getattr(part, "dtype", None)
    return np.ndim(part) if kind in (np.dtype(bool), paddle.bool) else 1


def _write(x: torch.Tensor, value: torch.Tensor, places: Places) -> torch.Tensor:
    """``torch.index_put``."""
    rows, chosen, values = places.operands(x, value)
    return rows.index_put((chosen,), values).view(x.shape)


def _last_of_each(x: torch.Tensor, value: torch.Tensor, places: Places) -> torch.Tensor:
    """Of several values for one place the last one stays, and has the gradient."""
    rows, chosen, values = places.operands(x, value)
    last = torch.full(rows.shape[:1], -1, device=rows.device)
    last = last.scatter_reduce(0, chosen, torch.arange(len(chosen), device=rows.device), "amax")
    written = (last >= 0).view(-1, *[1] * len(places.trailing))
    return torch.where(written, values[last.clamp(min=0)], rows).view(x.shape)


def _read(x: torch.Tensor, places: Places) -> torch.Tensor:
    return x.reshape(-1, *places.trailing)[places.rows]


class BoundCall(NamedTuple):
    """A call that reads or writes, bound to the op: what is redirected, the op's arguments, and those of Paddle's call."""

    entry_point: EntryPoint
    values: tuple[Any, ...]
    args: tuple[Any, ...]


@functools.cache
def _writing_entry_point(name: str) -> EntryPoint:
    """As if it was an entry point: a function of the tensor, the values, and what writes these."""
    op = Op(op_name(name), _write, "x value index", (), tensors=2, exact=True, complex=True, promote="none", oracle=_last_of_each)
    target = f"paddle.{'Tensor' if name == '_setitem_dygraph' else '_C_ops'}.{name}"
    return EntryPoint(op, Entry(target, "x index value", inplace=True), lambda x, value, write: write(x, value))


@functools.cache
def _reading_entry_point(original: Callable[..., Any]) -> EntryPoint:
    op = Op("getitem", _read, "x index", (), tensors=1, exact=True, complex=True, promote="none")
    # In Python, as it were: of a view, and beside slices, it is made of several nodes.
    return EntryPoint(op, Entry("paddle.Tensor._getitem_dygraph", "x index"), lambda x, index: original(x, index), python=True)


def _selects(part: Any) -> bool:
    """Whether a part of an index chooses elements: others make views, or read one slice."""
    return isinstance(part, list) or (isinstance(part, (np.ndarray, paddle.Tensor)) and part.ndim > 0)


def read_of(original: Callable[..., Any], tensor: Any, index: Any) -> BoundCall | None:
    """A call that reads; None where it makes a view, and of whole numbers, which are compared nowhere."""
    if tensor.dtype not in FLOATS or not any(map(_selects, index if type(index) is tuple else (index,))) or not tensor.size:
        return None
    places = Places(tensor, index)
    return BoundCall(_reading_entry_point(original), (tensor, places), (tensor, index)) if places.rows.numel() else None


def op_name(name: str) -> str:
    """The name of what is written by a function, as runs count it."""
    return name.removesuffix("_dygraph").strip("_")


def values_wanted(args: Sequence[Any], target: Any) -> bool:
    """Whether a gradient is wanted of what a call writes."""
    return any(
        isinstance(value, paddle.Tensor) and value is not target and not value.stop_gradient and value.dtype in FLOATS
        for value in args
    )


def write_of(name: str, original: Callable[..., Any], args: tuple[Any, ...]) -> BoundCall | None:
    """A call that writes; None where it is not known what it writes where."""
    reader = _READERS.get(name)
    known = None if reader is None else reader(*args)
    if known is None or any(not isinstance(tensor, paddle.Tensor) or not tensor.size for tensor in known[:2]):
        return None
    tensor, value, index = known
    operand = value
    if value.dtype != tensor.dtype:  # Paddle casts it before
        with paused(), paddle.no_grad():
            operand = value.astype(tensor.dtype)
        operand.stop_gradient = False
    places = Places(tensor, index)

    def write(x: Any, values: Any) -> Any:
        original(*({id(tensor): x, id(value): values}.get(id(arg), arg) for arg in args))
        return x

    return BoundCall(_writing_entry_point(name), (tensor, operand, places), (tensor, value, write)) if places.rows.numel() else None
