"""Tensors made of numbers alone, whose elements are rounded."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from padiff_shim.table.op import Entry, function, op
from padiff_shim.table.reasons import INTEGER, PLACED, StayNative

_OTHERS = "dtype=None name=None device=None requires_grad=False"


def _floats(dtype: Any, *values: Any) -> bool:
    """Whether the call makes floats: by its dtype, or by its numbers, where it names none."""
    if dtype is not None:
        return "float" in str(dtype)
    return any("float" in str(getattr(value, "dtype", type(value))) for value in values)


def _usual(floats: bool, where: tuple[Any, ...]) -> None:
    """Floats on the current device; what Paddle 3 takes beside (``device``, ``requires_grad``, ``pin_memory``) stays native."""
    if not floats:
        raise StayNative(INTEGER)
    if any(where):
        raise StayNative(PLACED)


def _range(start: Any, end: Any, step: Any, dtype: Any, *where: Any) -> tuple[Any, ...]:
    """One number is the end."""
    _usual(_floats(dtype, start, end, step), where)
    return *((0, start) if end is None else (start, end)), step, dtype, None


def _space(start: Any, stop: Any, num: Any, dtype: Any, name: Any, *where: Any) -> tuple[Any, ...]:
    _usual(_floats("float" if dtype is None else dtype), where)
    return start, stop, num, dtype, None


def _logarithmic(start: Any, stop: Any, num: Any, base: Any, dtype: Any, name: Any, *where: Any) -> tuple[Any, ...]:
    return *_space(start, stop, num, dtype, name, *where)[:3], base, dtype, None


def _door(name: str, params: str, arrange: Any) -> Entry:
    return function(f"paddle.{name}", params, arrange=arrange, seen_below=True)


_WIDE = (torch.float32, torch.float64)


@op(
    "start end step dtype place",
    c=False,
    tensors=0,
    doors=(_door("arange", "start=0 end=None step=1 dtype=None device=None requires_grad=False pin_memory=False", _range),),
    note="Torch multiplies the step, where Paddle adds it up; as many elements as in Paddle",
)
def arange(start: float, end: float, step: float, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """``torch.arange``, of as many elements as Paddle counts in the result's dtype."""
    if dtype not in _WIDE:
        raise NotImplementedError("numbers of 16 bits")
    first, last, each = (np.float32(one) if dtype == torch.float32 else np.float64(one) for one in (start, end, step))
    count = math.ceil(abs((last - first) / each)) if each and (last - first) / each > 0 else 0
    start, end, step = float(start), float(end), float(step)
    found = torch.arange(start, end, step, dtype=dtype, device=device)
    return found if len(found) == count else torch.arange(start, start + step * (count - 0.5), step, dtype=dtype, device=device)


@op(
    "start stop num dtype place",
    c=False,
    tensors=0,
    doors=(_door("linspace", f"start stop|end num|steps {_OTHERS}", _space),),
)
def linspace(start: float, stop: float, num: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """``torch.linspace``."""
    if dtype not in _WIDE:
        raise NotImplementedError("numbers of 16 bits")
    return torch.linspace(float(start), float(stop), int(num), dtype=dtype, device=device)


@op(
    "start stop num base dtype place",
    c=False,
    tensors=0,
    doors=(_door("logspace", f"start stop|end num|steps base=10.0 {_OTHERS}", _logarithmic),),
)
def logspace(start: float, stop: float, num: int, base: float, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """``torch.logspace``."""
    if dtype not in _WIDE:
        raise NotImplementedError("numbers of 16 bits")
    return torch.logspace(float(start), float(stop), int(num), float(base), dtype=dtype, device=device)
