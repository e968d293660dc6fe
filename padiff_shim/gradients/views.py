"""A view on both sides: torch's of the twin, Paddle's of the tensor. Nothing crosses between the frameworks.

Handing Paddle a torch view of Paddle's memory would make the alias chain whose release deadlocks Paddle 3.3.1. Both views lie over
the same memory, and must agree in shape and strides; where they do not, the call is an island.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..frameworks.memory import TENSOR_TYPES, grad_tracer
from .twins import Call, sentinel, taped


def _ints(values: Sequence[Any]) -> list[int]:
    return [int(value) for value in values]


def _reshape(side: torch.Tensor, shape: Sequence[Any]) -> torch.Tensor:
    return side.reshape([side.shape[i] if size == 0 else size for i, size in enumerate(_ints(shape))])


def _squeeze(side: torch.Tensor, axis: Any) -> torch.Tensor:
    axes = [axis] if isinstance(axis, int) else _ints(axis)
    return side.squeeze(tuple(a for a in axes if side.shape[a] == 1)) if axes else side.squeeze()


def _unsqueeze(side: torch.Tensor, axis: Any) -> torch.Tensor | None:
    axes = [axis] if isinstance(axis, int) else _ints(axis)
    return side.unsqueeze(axes[0]) if len(axes) == 1 else None


def _getitem(side: torch.Tensor, index: Any) -> torch.Tensor | None:
    for item in index if type(index) is tuple else (index,):
        if type(item) is slice:
            if not all(type(v) in (int, type(None)) for v in (item.start, item.stop, item.step)) or (item.step or 1) < 0:
                return None
        elif type(item) not in (int, type(None), type(Ellipsis)):
            return None
    return side[index]


VIEWS: dict[str, Callable[..., torch.Tensor | None]] = {
    "reshape": _reshape,
    "transpose": lambda side, perm: side.permute(_ints(perm)),
    "_getitem_dygraph": _getitem,
    "squeeze": _squeeze,
    "unsqueeze": _unsqueeze,
    "flatten": lambda side, start, stop: side.flatten(start, stop) if side.ndim else None,
}


def view(name: str, original: Callable[..., Any], args: Sequence[Any]) -> Any:
    """A view of a tape tensor, on the tape; None where the two frameworks' views are not the same."""
    tensor = args[0]
    record = taped(tensor) if type(tensor) in TENSOR_TYPES and not tensor.stop_gradient else None
    if record is None:
        return None
    try:
        with torch.enable_grad():
            side = VIEWS[name](record.twin, *args[1:])
    except Exception:
        return None  # Paddle decides whether it is an error
    if side is None or not side.numel() or side.untyped_storage().data_ptr() != record.twin.untyped_storage().data_ptr():
        return None
    tracer = grad_tracer()
    tracer._has_grad = False
    try:
        source = original(*args)
    finally:
        tracer._has_grad = True
    if list(source.shape) != list(side.shape):
        return None
    if not record.apart and (source.data_ptr() != side.data_ptr() or list(source.strides) != list(side.stride())):
        return None
    if side is record.twin:
        side = side.view_as(side)
    side.grad_fn.register_prehook(Call(name, None, ()))
    return sentinel(source, side)
