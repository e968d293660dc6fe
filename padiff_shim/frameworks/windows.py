"""Torch's side of gradients, known from one look to the next without holding them.

An optimizer looks at each gradient at each step, and a clipper before it. Crossing takes microseconds, several times as many where
caches are cold, and a crossed tensor holds its memory: kept, gradients would outlive their step. A *window* is a tensor of Torch's
over the place where a gradient lies that owns nothing. It is looked through only while the gradient that it was asked for is
there, and only if that one lies where the last one lay, with its shape and dtype; else another window is opened. (What is not dense
lies nowhere: it has no pointer.)
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Sequence
from typing import Any

import torch

from .memory import CPU_ALONE, FLOATS, TENSOR_TYPES, as_it_lies
from .versions import IS_3, PaddleTensor, attribute, set_attribute

_WINDOW, _WINDOWS = "_padiff_window", "_padiff_windows"  # attributes of parameters


class _Looks:
    """No copy of a parameter has them, in this process or in a file."""

    __slots__ = ()

    def __deepcopy__(self, memo: Any) -> None:
        return None

    def __reduce__(self) -> Any:
        return _nothing, ()


class Window(_Looks):
    """Where the gradient of one parameter lay, and ``side``, valid while one lies there. It never changes: threads share it."""

    __slots__ = ("_dtype", "_pointer", "_shape", "side")

    def __init__(self, grad: PaddleTensor, side: torch.Tensor) -> None:
        self._pointer, self._shape, self._dtype, self.side = grad.data_ptr(), grad.shape, grad.dtype, side

    def shows(self, grad: PaddleTensor) -> bool:
        """Whether this is the gradient behind it."""
        if grad.data_ptr() != self._pointer or grad.shape != self._shape or not grad.is_contiguous():
            return False
        dtype = grad.dtype
        return dtype is self._dtype or bool(dtype == self._dtype)  # Paddle 3.1 and 3.2 make one at each look


def window(param: PaddleTensor, grad: PaddleTensor) -> Window | None:
    """The window on the gradient of a parameter, to be used while ``grad`` is held; None where it has to cross."""
    known: Window | None = attribute(param, _WINDOW)
    if known is None or not known.shows(grad):
        known = _opened(grad)
        if known is not None:
            set_attribute(param, _WINDOW, known)
    return known


def on_torchs_side(param: PaddleTensor, grad: PaddleTensor) -> torch.Tensor:
    """The gradient of a parameter on Torch's side, to be used while ``grad`` is held. Raises StayNative where it cannot cross."""
    seen = window(param, grad)
    return as_it_lies(grad) if seen is None else seen.side


def _opened(grad: PaddleTensor) -> Window | None:
    if not (CPU_ALONE and IS_3) or type(grad) not in TENSOR_TYPES or not grad.is_dense() or not grad.is_contiguous():
        return None
    dtype, count, place = FLOATS.get(grad.dtype), math.prod(grad.shape), grad.data_ptr()
    if dtype is None or not count or not place:
        return None
    return Window(grad, torch.frombuffer(_bytes(count * dtype.itemsize).from_address(place), dtype=dtype).view(grad.shape))


class Windows(_Looks):
    """Windows on the gradients of many parameters, compared all at once. It never changes, either."""

    def __init__(self, pairs: Sequence[tuple[Any, Any]] = ()) -> None:
        """Look at the gradients of these parameters; if one of them has to cross, nothing is known of any."""
        windows = [window(*pair) for pair in pairs]
        opened = [window for window in windows if window is not None]
        grads = [grad for _, grad in pairs] if len(opened) == len(windows) else []
        self._places = [grad.data_ptr() for grad in grads]
        self._shapes = [grad.shape for grad in grads]
        self._dtypes = [grad.dtype for grad in grads]
        self.sides = [window.side for window in opened] if grads else []  # valid while gradients are held that are shown

    def show(self, grads: Sequence[Any]) -> bool:
        """Whether these are the gradients behind them."""
        return (
            bool(self._places)
            and [grad.data_ptr() for grad in grads] == self._places
            and [grad.shape for grad in grads] == self._shapes
            and [grad.dtype for grad in grads] == self._dtypes
            and False not in [grad.is_contiguous() for grad in grads]
        )


def all_on_torchs_side(pairs: Sequence[tuple[Any, Any]]) -> list[torch.Tensor]:
    """The gradients of parameters on Torch's side, to be used while they are held; known from the last time with the first one."""
    first = pairs[0][0]
    known: Windows | None = attribute(first, _WINDOWS)
    if known is None or not known.show([grad for _, grad in pairs]):
        known = Windows(pairs)
        if known.sides:
            set_attribute(first, _WINDOWS, known)
    return known.sides or [on_torchs_side(*pair) for pair in pairs]


@functools.lru_cache(maxsize=4096)
def _bytes(count: int) -> Any:
    return ctypes.c_char * count


def _nothing() -> None:
    return None
