"""A view on both sides: torch's of the twin, Paddle's of the tensor. Nothing crosses between the frameworks.

Handing Paddle a torch view of Paddle's memory would make the alias chain whose release deadlocks Paddle 3.3.1. Both views lie over
the same memory, and must agree in shape and strides; where they do not, the call is an island.

The Paddle tensor of a view keeps the node that Paddle made for it, which leads to the sentinel of what it views: so it costs no
sentinel of its own, until somebody wants to see its gradient (:func:`.seats.seat`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..frameworks.memory import FLOATS, TENSOR_TYPES
from ..frameworks.versions import set_attribute
from .calls import Call
from .twins import TAPE, Taped, share, taped, twin

_WHOLE = frozenset({int, type(None)})


def _ints(values: Any) -> list[int]:
    return [int(value) for value in values]


def _axes(axis: Any) -> list[int]:
    return [axis] if type(axis) is int else _ints(axis)


def _reshape(side: torch.Tensor, shape: Sequence[Any]) -> torch.Tensor:
    sizes = _ints(shape)
    return side.reshape([side.shape[i] if size == 0 else size for i, size in enumerate(sizes)] if 0 in sizes else sizes)


def _squeeze(side: torch.Tensor, axis: Any) -> torch.Tensor:
    axes = _axes(axis)
    return side.squeeze(tuple(a for a in axes if side.shape[a] == 1)) if axes else side.squeeze()


def _unsqueeze(side: torch.Tensor, axis: Any) -> torch.Tensor:
    for one in _axes(axis):
        side = side.unsqueeze(one)
    return side


def basic(item: Any) -> bool:
    """Whether a part of an index makes a view that torch has, too."""
    if type(item) is slice:
        step = item.step
        return type(item.start) in _WHOLE and type(item.stop) in _WHOLE and (step is None or (type(step) is int and step > 0))
    return type(item) is int or item is None or item is Ellipsis


def _getitem(side: torch.Tensor, index: Any) -> torch.Tensor | None:
    for item in index if type(index) is tuple else (index,):
        if not basic(item):
            return None
    return side[index]


def _slice(side: torch.Tensor, axes: Any, starts: Any, ends: Any, flags: Any, decreased: Any) -> torch.Tensor:
    """``_C_ops.slice``: one slice after another, and the axes of one element that the index took away."""
    for axis, start, end in zip(axes, _ints(starts), _ints(ends)):
        size = side.shape[axis]
        side = side.narrow(axis, *_range(start, end, size))
    return side.squeeze(tuple(decreased)) if decreased else side


def _strided_slice(side: torch.Tensor, axes: Any, starts: Any, ends: Any, strides: Any) -> torch.Tensor:
    """``_C_ops.strided_slice`` forwards; torch has no views backwards."""
    for axis, *slices in zip(axes, _ints(starts), _ints(ends), _ints(strides)):
        side = side[(*[slice(None)] * (axis % side.ndim), slice(*slices))]
    return side


def _range(start: int, end: int, size: int) -> tuple[int, int]:
    """Where a slice begins, and its length."""
    begin, stop, _ = slice(start, end).indices(size)
    return begin, max(0, stop - begin)


def _unbind(side: torch.Tensor, axis: int = 0) -> tuple[torch.Tensor, ...]:
    return side.unbind(axis)


def _as_strided(side: torch.Tensor, shape: Any, stride: Any, offset: int = 0) -> torch.Tensor:
    """Paddle counts the offset in bytes from the tensor's own beginning."""
    return side.as_strided(_ints(shape), _ints(stride), side.storage_offset() + offset // side.element_size())


VIEWS: dict[str, Callable[..., Any]] = {
    "reshape": _reshape,
    "transpose": torch.permute,
    "_getitem_dygraph": _getitem,
    "squeeze": _squeeze,
    "unsqueeze": _unsqueeze,
    "flatten": lambda side, start, stop: side.flatten(start, stop) if side.ndim else None,
    "slice": _slice,
    "strided_slice": _strided_slice,
    "unbind": _unbind,
    "diagonal": lambda side, offset=0, axis1=0, axis2=1: side.diagonal(offset, axis1, axis2),
    "tensor_unfold": lambda side, axis, size, step: side.unfold(axis, size, step),
    "as_strided": _as_strided,
    "view_shape": lambda side, shape: side.view(_ints(shape)),
}


def view(name: str, original: Callable[..., Any], args: Sequence[Any]) -> Any:
    """A view of a tensor that wants gradients, on the tape; None where the two frameworks' views are not the same."""
    tensor = args[0]
    if type(tensor) not in TENSOR_TYPES or tensor.stop_gradient:
        return None
    record = taped(tensor)
    if record is None and tensor.dtype not in FLOATS:
        return None  # integers may say that they want gradients: there are none
    base = twin(tensor) if record is None else record.twin
    side = _of_torch(VIEWS[name], base, args[1:])  # where torch laid out the values elsewhere: a copy, of what Paddle views
    several = type(side) is tuple
    apart = record is not None and record.apart
    for one in side if several else (side,):
        if one is None or not one.numel() or not (apart or _shares(one, base)):
            return None
    source = original(*args)
    if several:
        if len(source) != len(side) or not all(_agree(*pair, record) for pair in zip(source, side)):
            return None
        _counted(name, side[0], record)  # one node for all of them
        for one, of in zip(source, side):
            set_attribute(one, TAPE, Taped(of, one, None))
        return source
    if source is tensor:
        return source
    if not _agree(source, side, record):
        return None
    if name == "_getitem_dygraph" and side.shape == base.shape and side.data_ptr() == base.data_ptr():
        return share(tensor, source)  # Paddle's t[:] is another object with the very node of t
    if side is base:
        side = side.view_as(side)
    _counted(name, side, record)
    set_attribute(source, TAPE, Taped(side, source, None))
    return source


def _of_torch(formula: Callable[..., Any], base: torch.Tensor, rest: Sequence[Any]) -> Any:
    """Torch's view, with its graph; None where torch refuses: Paddle decides whether that is an error."""
    try:
        if torch.is_grad_enabled():
            return formula(base, *rest)
        with torch.enable_grad():
            return formula(base, *rest)
    except Exception:
        return None


def _counted(name: str, side: torch.Tensor, record: Taped | None) -> None:
    """A second backward that ends in a leaf has to raise; where the view is of a call's result, that call does."""
    if record is None:
        Call(name, None, ()).behind(side)


def _shares(side: torch.Tensor, base: torch.Tensor) -> bool:
    """Whether torch made a view, and not a copy."""
    return side.data_ptr() == base.data_ptr() or side.untyped_storage().data_ptr() == base.untyped_storage().data_ptr()


def _agree(source: Any, side: torch.Tensor, record: Taped | None) -> bool:
    """Whether Paddle's view is torch's: the same elements, and the same strides unless torch laid out the values elsewhere."""
    if source.shape != list(side.shape):
        return False
    if record is not None and record.apart:
        return True
    return source.data_ptr() == side.data_ptr() and tuple(source.strides) == side.stride()
