"""float64 runs of models that say float32 themselves: positions made as float32, a norm that is computed in it, one-hot numbers.

Without it such a model does not run in float64 (a product of float32 and float64 is refused), or computes a part of it in float32,
where the other program may not: that would be taken for a mistake. So in these runs whatever says float32 says float64 in both
programs, and what is float32 all the same (an attribute that is no buffer) is widened before a call is given it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import paddle
import torch
from torch.overrides import TorchFunctionMode

from ..dispatch.frames import paused
from ..frameworks.memory import TENSOR_TYPES
from .sides import NotInDouble, OutOfMemory, Side

_Found = TypeVar("_Found")


def in_double(theirs: Side, ours: Side, question: Callable[[], _Found]) -> _Found:
    """What is asked of float64 runs of both: widened, or where one does not run so, as the models are.

    Raises:
        NotInDouble: one runs in neither way; or there is no memory for it.
    """
    theirs.widening = ours.widening = True
    try:
        return question()
    except OutOfMemory:
        raise
    except NotInDouble:
        theirs.widening = ours.widening = False
        return question()
    finally:
        theirs.widening = ours.widening = False
        theirs.forget_double()
        ours.forget_double()


class Widened(TorchFunctionMode):
    """Within it Torch's functions make and are given float64 where the program says float32."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function is torch.Tensor.float:
            function = torch.Tensor.double
        name, kwargs = getattr(function, "__name__", ""), kwargs or {}
        if name in ("__get__", "__set__") or "out" in kwargs:
            return function(*args, **kwargs)
        change = _torch_dtype if _writes(name) else _torchs
        return function(*_changed(args, change), **_changed(kwargs, change))


def paddles(name: str, arguments: Any) -> Any:
    """The arguments of a call of Paddle's, widened; ``name``: of its op."""
    return _changed(arguments, _paddle_dtype if _writes(name) else _paddles)


def _writes(name: str) -> bool:
    """Whether a function writes into what it is given, whose dtype then stays."""
    plain = name.strip("_")
    return name in ("__setitem__", "_setitem_dygraph") or (name.endswith("_") and name != f"__{plain}__") or name.startswith("__i")


def _changed(value: Any, change: Callable[[Any], Any]) -> Any:
    """An argument, or what a tuple, list or dict of them holds, changed; itself if nothing was."""
    if type(value) in (tuple, list):
        found = [_changed(one, change) for one in value]
        return value if all(one is other for one, other in zip(found, value)) else type(value)(found)
    if type(value) is dict:
        return {key: _changed(one, change) for key, one in value.items()}
    return change(value)


def _torch_dtype(value: Any) -> Any:
    return torch.float64 if value is torch.float32 else value


def _torchs(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.double() if value.dtype is torch.float32 and not value.requires_grad else value
    return _torch_dtype(value)


def _paddle_dtype(value: Any) -> Any:
    if type(value) is str:
        return "float64" if value == "float32" else value
    return paddle.float64 if type(value) is type(paddle.float32) and value == paddle.float32 else value


def _paddles(value: Any) -> Any:
    if type(value) in TENSOR_TYPES:
        if value.dtype != paddle.float32 or not value.stop_gradient or not value._is_initialized():
            return value
        with paused():
            return value.astype("float64")
    return _paddle_dtype(value)
