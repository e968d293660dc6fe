"""Tensors made of numbers alone, whose elements are rounded."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from padiff_shim.table.op import Entry, Fault, function, op
from padiff_shim.table.reasons import PLACED, WHOLE, StayNative

from ._declarations import of

_OTHERS = "dtype=None name=None device=None requires_grad=False"


def _floats(dtype: Any, *values: Any) -> bool:
    """Whether the call makes floats: by its dtype, or by its numbers, where it names none."""
    if dtype is not None:
        return "float" in str(dtype)
    return any("float" in str(getattr(value, "dtype", type(value))) for value in values)


def _usual(floats: bool, where: tuple[Any, ...]) -> None:
    """Floats on the current device; what Paddle 3 takes beside (``device``, ``requires_grad``, ``pin_memory``) stays native."""
    if not floats:
        raise StayNative(WHOLE)
    if any(where):
        raise StayNative(PLACED)


def _range(start: Any, end: Any, step: Any, dtype: Any, *where: Any) -> tuple[Any, ...]:
    """One number is the end."""
    _usual(_floats(dtype, start, end, step), where)
    return *((0, start) if end is None else (start, end)), step, dtype, None


def _closed(start: Any, end: Any, step: Any, dtype: Any, *where: Any) -> tuple[Any, ...]:
    """``paddle.range`` makes the default dtype where the call names none, of whole numbers too."""
    _usual(_floats("float" if dtype is None else dtype), where)
    return *((0, start) if end is None else (start, end)), step, dtype, None


def _space(start: Any, stop: Any, num: Any, dtype: Any, name: Any, *where: Any) -> tuple[Any, ...]:
    _usual(_floats("float" if dtype is None else dtype), where)
    return start, stop, num, dtype, None


def _logarithmic(start: Any, stop: Any, num: Any, base: Any, dtype: Any, name: Any, *where: Any) -> tuple[Any, ...]:
    return *_space(start, stop, num, dtype, name, *where)[:3], base, dtype, None


def _function_entry(name: str, params: str, arrange: Any) -> Entry:
    return function(f"paddle.{name}", params, arrange=arrange)


def _steps(start: float, end: float, step: float, dtype: torch.dtype) -> float:
    """How many steps lie between two numbers: Paddle counts in the result's dtype; of 16 bits as Torch does, in float64."""
    first, last, each = (np.float32(number) if dtype == torch.float32 else np.float64(number) for number in (start, end, step))
    return float((last - first) / each) if each else -1.0


def _open(*numbers: Any) -> int:
    """The elements of a range without its end."""
    return max(math.ceil(_steps(*numbers)), 0)


def _whole(*numbers: Any) -> int:
    """The elements of a range with its end."""
    return max(math.floor(_steps(*numbers)) + 1, 0)


def _stepping(count: Callable[..., int]) -> dict[str, Any]:
    """What a range of so many elements means, in steps that round; and with the step added up, in the result's dtype."""

    def multiplied(start: float, end: float, step: float, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        return torch.arange(count(start, end, step, dtype), dtype=dtype, device=device) * float(step) + float(start)

    def added_up(own: Callable[..., Any], start: float, end: float, step: float, dtype: torch.dtype, device: Any) -> torch.Tensor:
        steps = np.full(count(start, end, step, dtype), step, np.float32 if dtype == torch.float32 else np.float64)
        steps[:1] = start
        return torch.from_numpy(np.add.accumulate(steps)).to(device)

    return {"oracle": multiplied, "faults": {"step-added-up": Fault(added_up, precision=True, narrow=True)}}


def _as_many(
    make: Callable[..., torch.Tensor], count: Callable[..., int], start: float, end: float, step: float, dtype: Any, device: Any
) -> torch.Tensor:
    """What Torch's function gives for these numbers, or for the nearest end with which it has as many elements as Paddle counts."""
    many = count(start, end, step, dtype)
    start, end, step = float(start), float(end), float(step)
    values = make(start, end, step, dtype=dtype, device=device)
    return values if len(values) == many else make(start, start + step * (many - 0.5), step, dtype=dtype, device=device)


arange = op(
    "start end step dtype place",
    c=False,
    tensors=0,
    more_entries=(
        _function_entry("arange", "start=0 end=None step=1 dtype=None device=None requires_grad=False pin_memory=False", _range),
    ),
    **_stepping(_open),
    note="Torch multiplies the step, where Paddle adds it up; as many elements as in Paddle",
)(of(_as_many, torch.arange, _open))


@op(
    "start end step dtype place",
    c=False,
    tensors=0,
    more_entries=(_function_entry("range", "start=0 end=None step=1 dtype=None device=None requires_grad=False", _closed),),
    **_stepping(_whole),
    note="Torch multiplies the step, where Paddle adds it up; as many elements as in Paddle",
)
def range_(start: float, end: float, step: float, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """``torch.range``, of as many elements as Paddle counts in the result's dtype."""
    closed = torch.ops.aten.range.step  # what torch.range calls, which warns
    return _as_many(closed, _whole, start, end, step, dtype, device)


def _evenly(start: float, stop: float, num: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """What even spacing means, in steps that round."""
    shares = torch.arange(int(num), dtype=dtype, device=device) / max(int(num) - 1, 1)
    return shares * (float(stop) - float(start)) + float(start)


@op(
    "start stop num dtype place",
    c=False,
    tensors=0,
    more_entries=(_function_entry("linspace", f"start stop|end num|steps {_OTHERS}", _space),),
    oracle=_evenly,
)
def linspace(start: float, stop: float, num: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """``torch.linspace``."""
    return torch.linspace(float(start), float(stop), int(num), dtype=dtype, device=device)


def _powers(start: float, stop: float, num: int, base: float, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Powers of evenly spaced exponents, in steps that round."""
    return torch.pow(float(base), _evenly(start, stop, num, dtype, device))


@op(
    "start stop num base dtype place",
    c=False,
    tensors=0,
    more_entries=(_function_entry("logspace", f"start stop|end num|steps base=10.0 {_OTHERS}", _logarithmic),),
    oracle=_powers,
)
def logspace(start: float, stop: float, num: int, base: float, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """``torch.logspace``."""
    return torch.logspace(float(start), float(stop), int(num), float(base), dtype=dtype, device=device)
