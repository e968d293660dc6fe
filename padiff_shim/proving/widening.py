"""Runs in a wider dtype of models that say a dtype: positions made as float32, a norm computed in it, a cast to bfloat16.

Without it such a model does not run in float64 (a product of float32 and float64 is refused), or computes a part of it in float32,
where the other program may not: that would be taken for a mistake. So in these runs whatever says a narrower dtype says float64 in
both programs, and what is of such a dtype all the same (an attribute that is no buffer) is widened before a call is given it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import paddle
import torch
from torch.overrides import TorchFunctionMode

from ..dispatch.frames import paused
from ..dispatch.lacking import HALVES
from ..frameworks.memory import TENSOR_TYPES
from .sides import NotWider, OutOfMemory, Side

_Answer = TypeVar("_Answer")
_NARROWER = {"float64": ("float32", *HALVES), "float32": tuple(HALVES)}  # what is widened to a dtype


def in_wider(original: Side, port: Side, question: Callable[[], _Answer]) -> _Answer:
    """What is asked of runs of both in a wider dtype; :attr:`.sides.Side.wider` then tells which it was.

    In float64, widened, or where one does not run so, as the models are; then without kernels that have no float64, where the
    original has a switch for that (:meth:`.sides.Side.simplify`). Models of 16 bits that run in none of these run in float32.

    Raises:
        NotWider: one runs in none of these ways; or there is no memory for it.
    """
    ways = [("float64", True, False), ("float64", False, False), ("float64", True, True)]
    ways += [("float32", True, False)] if original.dtype() in HALVES else []
    error: NotWider | None = None
    for dtype, widening, simple in ways:
        if simple and not original.can_be_simple():
            continue
        for side in (original, port):
            side.wider, side.widening, side.simple, side.not_wider = dtype, widening, simple, error
        try:
            return question()
        except OutOfMemory:
            raise
        except NotWider as why:
            error = error or why
        finally:
            for side in (original, port):
                side.widening = False
                side.forget_wide()
    assert error is not None
    raise error


class Widened(TorchFunctionMode):
    """Within it Torch's functions make and are given ``dtype`` where the program says a narrower one."""

    def __init__(self, dtype: str) -> None:
        super().__init__()
        self._dtype = getattr(torch, dtype)
        self._narrower = frozenset(getattr(torch, name) for name in _NARROWER[dtype])
        self._casts = {torch.Tensor.float: torch.float32, torch.Tensor.half: torch.float16, torch.Tensor.bfloat16: torch.bfloat16}

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = getattr(function, "__name__", ""), kwargs or {}
        if self._casts.get(function) in self._narrower:
            return args[0].to(self._dtype)
        if name in ("__get__", "__set__") or "out" in kwargs:
            return function(*args, **kwargs)
        change = self._of_dtype if _writes(name) else self._of_value
        return function(*_changed(args, change), **_changed(kwargs, change))

    def _of_dtype(self, value: Any) -> Any:
        return self._dtype if isinstance(value, torch.dtype) and value in self._narrower else value

    def _of_value(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.to(self._dtype) if value.dtype in self._narrower and not value.requires_grad else value
        return self._of_dtype(value)


class PaddleWidened:
    """The same for the arguments of calls of Paddle's."""

    def __init__(self, dtype: str) -> None:
        self._name, self._dtype = dtype, getattr(paddle, dtype)
        self._names = _NARROWER[dtype]
        self._narrower = frozenset(getattr(paddle, name) for name in self._names)

    def __call__(self, name: str, arguments: Any) -> Any:
        """The arguments of a call, widened; ``name``: of its op."""
        return _changed(arguments, self._of_dtype if _writes(name) else self._of_value)

    def _of_dtype(self, value: Any) -> Any:
        if type(value) is str:
            return self._name if value in self._names else value
        return self._dtype if type(value) is type(self._dtype) and value in self._narrower else value

    def _of_value(self, value: Any) -> Any:
        if type(value) in TENSOR_TYPES:
            if value.dtype not in self._narrower or not value.stop_gradient or not value._is_initialized():
                return value
            with paused():
                return value.astype(self._name)
        return self._of_dtype(value)


def _writes(name: str) -> bool:
    """Whether a function writes into what it is given, whose dtype then stays."""
    plain = name.strip("_")
    return name in ("__setitem__", "_setitem_dygraph") or (name.endswith("_") and name != f"__{plain}__") or name.startswith("__i")


def _changed(value: Any, change: Callable[[Any], Any]) -> Any:
    """An argument, or what a tuple, list or dict of them holds, changed; itself if nothing was."""
    if type(value) in (tuple, list):
        parts = [_changed(part, change) for part in value]
        return value if all(part is before for part, before in zip(parts, value)) else type(value)(parts)
    if type(value) is dict:
        return {key: _changed(part, change) for key, part in value.items()}
    return change(value)
