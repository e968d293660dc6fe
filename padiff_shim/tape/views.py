"""A view on both sides: torch's of the twin, Paddle's of the tensor. Nothing crosses between the frameworks.

Handing Paddle a torch view of Paddle's memory would make the alias chain whose release deadlocks Paddle 3.3.1. Both views lie over
the same memory, and must agree in shape and strides; where they do not, the call is an island.

The Paddle tensor of a view keeps the node that Paddle made for it, which leads to the sentinel of what it views: so it costs no
sentinel of its own, until somebody wants to see its gradient (:func:`.hooks.give_sentinel`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..frameworks.memory import FLOATS, view_of_all
from ..frameworks.versions import set_attribute
from ..interrupts import let_pass
from .calls import TapeCall
from .paddle_graph import same_node
from .twins import TAPE, Taped, leaf, share, taped

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
    for position in _axes(axis):
        side = side.unsqueeze(position)
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
        begin, stop, _ = slice(start, end).indices(side.shape[axis])
        side = side.narrow(axis, begin, max(0, stop - begin))
    return side.squeeze(tuple(decreased)) if decreased else side


def _strided_slice(side: torch.Tensor, axes: Any, starts: Any, ends: Any, strides: Any) -> torch.Tensor:
    """``_C_ops.strided_slice`` forwards; torch has no views backwards."""
    for axis, *slices in zip(axes, _ints(starts), _ints(ends), _ints(strides)):
        side = side[(*[slice(None)] * (axis % side.ndim), slice(*slices))]
    return side


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
    "unbind": torch.unbind,
    "diagonal": lambda side, offset=0, axis1=0, axis2=1: side.diagonal(offset, axis1, axis2),
    "tensor_unfold": lambda side, axis, size, step: side.unfold(axis, size, step),
    "as_strided": _as_strided,
    "view_shape": lambda side, shape: side.view(_ints(shape)),
    "contiguous": torch.Tensor.contiguous,  # a view at most: of what lies contiguously the tensor itself
}


def view(name: str, original: Callable[..., Any], args: Sequence[Any]) -> Any:
    """A view of a tensor that wants gradients, on the tape; None where the two frameworks' views are not the same."""
    tensor = args[0]
    record = taped(tensor)
    if record is not None:
        base, apart = record.twin, record.apart
    elif tensor.dtype in FLOATS and tensor._is_initialized():
        base, apart = leaf(tensor), False
    else:
        return None  # integers may say that they want gradients, and what a kernel leaves unset, too: there are none
    side = _of_torch(VIEWS[name], base, args[1:])  # where torch laid out the values elsewhere: a copy, of what Paddle views
    if type(side) is tuple:
        viewed = side and all(_is_view(part, base, apart) for part in side)  # of an axis without elements there are none
        return _several(name, original(*args), side, record) if viewed else None
    if not _is_view(side, base, apart):
        return None
    if name == "contiguous" and not tensor.is_contiguous():  # but for an axis of size 1: Paddle copies, and Torch does not
        return None
    source = original(*args)
    if source is tensor:
        if not apart or side is base:
            return source
        source = view_of_all(tensor, list(tensor.shape))  # Torch copies what lies strided there, and Paddle nothing
    if side is base:
        side = side.view_as(side)
    made = _agreed(source, side, apart)
    if made is None:
        return None
    if name == "_getitem_dygraph" and side.shape == base.shape and side.data_ptr() == base.data_ptr() and same_node(tensor, source):
        return share(tensor, source)  # Paddle's t[:] is another object with the very node of t; t[::2] of one row is not
    if record is None:
        _counted(name, side)
    set_attribute(source, TAPE, made)
    return source


def _several(name: str, sources: Any, sides: Sequence[torch.Tensor], record: Taped | None) -> Any:
    """The same for an op that makes several views at once, behind one node."""
    made = [_agreed(source, side, record is not None and record.apart) for source, side in zip(sources, sides)]
    if len(sources) != len(sides) or None in made:
        return None
    if record is None:
        _counted(name, sides[0])
    for source, record_of_view in zip(sources, made):
        set_attribute(source, TAPE, record_of_view)
    return sources


def _of_torch(formula: Callable[..., Any], base: torch.Tensor, rest: Sequence[Any]) -> Any:
    """Torch's view, with its graph; None where torch refuses: Paddle decides whether that is an error."""
    try:
        if torch.is_grad_enabled():
            return formula(base, *rest)
        with torch.enable_grad():
            return formula(base, *rest)
    except Exception as error:
        let_pass(error)
        return None


def _counted(name: str, side: torch.Tensor) -> None:
    """A second backward that ends in a leaf has to raise; where the view is of a call's result, that call does."""
    TapeCall(name, None, ()).behind(side)


def _is_view(side: torch.Tensor | None, base: torch.Tensor, apart: bool) -> bool:
    """Whether torch made a view, with elements, and not a copy (of what it laid out ``apart``: either)."""
    if side is None or not side.numel():
        return False
    return apart or side.data_ptr() == base.data_ptr() or side.untyped_storage().data_ptr() == base.untyped_storage().data_ptr()


def _agreed(source: Any, side: torch.Tensor, apart: bool) -> Taped | None:
    """Paddle's view on the tape, if it is torch's: the same elements, and the same strides unless torch laid them out ``apart``."""
    made = Taped(side, source, None)
    if made.shape != list(side.shape) or not (apart or (not made.apart and tuple(made.strides) == side.stride())):
        return None
    return made
