"""Views, and what looks like one: where Paddle and torch both make a view, each makes its own; where they copy, torch does.

A reshape copies if the strides ask for it, an index of tensors, lists or masks always; Paddle's copies of strided tensors are many
times slower than torch's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..frameworks.memory import FLOATS, TENSOR_TYPES, as_operand, shares_memory, stream_of, to_torch
from ..gradients import islands, views
from ..gradients.calls import Call
from ..gradients.twins import taped, twin
from ..signals import let_pass
from ..table.reasons import StayNative
from .results import moved, on_tape

_COPYING = frozenset({"reshape", "flatten", "contiguous"})


def moving(name: str, original: Callable[..., Any], args: Sequence[Any]) -> Any:
    """The result of an op that makes views, or None where Paddle has to say what it does."""
    tensor = args[0]
    if type(tensor) not in TENSOR_TYPES:
        return None
    wanted = not tensor.stop_gradient and islands.recording()
    if wanted:
        found = views.view(name, original, args)
        if found is not None:
            return found
    if name == "_getitem_dygraph":
        return _read(tensor, args[1], wanted=wanted)
    if name in _COPYING and not tensor.is_contiguous():
        return _copied(name, tensor, args[1:], wanted=wanted)
    return None


def followed(name: str, args: Sequence[Any], result: Any) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """What Paddle moved by itself, beside the tape: each result, and Torch's view of the operand that holds the same elements."""
    if name not in views.VIEWS or not args or type(args[0]) not in TENSOR_TYPES or args[0].dtype not in FLOATS:
        return []
    results = result if isinstance(result, (list, tuple)) else [result]
    if any(type(one) not in TENSOR_TYPES or one is args[0] or not one.stop_gradient or taped(one) is not None for one in results):
        return []
    try:
        found = views.VIEWS[name](to_torch(args[0]), *args[1:])
        sides = [to_torch(one) for one in results]
    except (StayNative, RuntimeError, ValueError, TypeError, IndexError):
        return []
    made = list(found) if isinstance(found, tuple) else [found]
    alike = len(made) == len(sides) and all(one is not None and one.shape == side.shape for one, side in zip(made, sides))
    return list(zip(sides, made)) if alike else []


def recast(tensor: Any, dtype: str) -> Any:
    """A float tensor in another float dtype, by a step of torch's graph that is no call of the program's."""
    wanted = not tensor.stop_gradient and islands.recording()
    result = _made("cast", tensor, (), lambda side: side.to(getattr(torch, dtype)), wanted=wanted)
    return tensor.astype(dtype) if result is None else result  # without elements


def _copied(name: str, tensor: Any, rest: Sequence[Any], *, wanted: bool) -> Any:
    """A strided tensor in another shape, if that takes a copy."""
    return _made(name, tensor, (), lambda side: views.VIEWS[name](side, *rest), wanted=wanted)


def _read(tensor: Any, index: Any, *, wanted: bool) -> Any:
    """A tensor at indices of which some are tensors, lists or masks."""
    parts = index if type(index) is tuple else (index,)
    if all(views.basic(part) for part in parts) or (tensor.dtype not in FLOATS and tensor.is_contiguous()):
        return None  # of strided integers, too, Paddle reads others than those that are asked for (docs/defects.md)
    try:
        sides = indices(parts)
    except (StayNative, ValueError, TypeError):
        return None
    return _made("getitem", tensor, [part for part in parts if type(part) in TENSOR_TYPES], lambda side: side[sides], wanted=wanted)


def indices(parts: Sequence[Any]) -> tuple[Any, ...]:
    """An index on torch's side. Raises StayNative, ValueError or TypeError for what torch has no equal of."""
    return tuple([part if views.basic(part) else _index(part) for part in parts])


def _index(part: Any) -> torch.Tensor:
    """A tensor, list or array of indices or of truth values on torch's side."""
    if type(part) in TENSOR_TYPES:
        side = as_operand(part)
    elif type(part) is list or hasattr(part, "tolist"):  # an array of NumPy's
        side = torch.tensor(part)
    else:
        raise TypeError(f"an index of type {type(part).__name__}")
    if side.dtype is torch.bool:
        return side
    if side.is_floating_point() or not side.numel():
        raise TypeError("indices are integers")
    return side.long()


def _made(name: str, tensor: Any, read: Sequence[Any], formula: Callable[[torch.Tensor], torch.Tensor], *, wanted: bool) -> Any:
    """What torch copies; None where it makes a view or refuses. ``read``: tensors that the backward reads."""
    if (tensor.dtype not in FLOATS and name != "getitem") or not tensor._is_initialized() or 0 in tensor.shape:
        return None
    try:
        side = twin(tensor) if wanted else as_operand(tensor)
        with stream_of(side.device), torch.set_grad_enabled(wanted):
            out = formula(side)
    except Exception as error:
        let_pass(error)
        return None  # Paddle decides whether it is an error
    if not out.numel() or shares_memory(out, (side,)):
        return None
    if not wanted:
        return moved(out, (side,))
    with torch.enable_grad():
        return on_tape(Call(name, None, [(one, one.inplace_version) for one in read]), out, (side,))
