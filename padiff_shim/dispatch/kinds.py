"""Which calls are of one kind: what Paddle takes once, or refuses, it takes or refuses again."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

from ..frameworks.memory import TENSOR_TYPES, torch_dtype

_MOST = 4096  # kinds of calls that are remembered: more come with attributes that change at each call
_SMALL = 64  # whole numbers up to here are kinds of their own: axes, sizes of windows, groups


def make_room(known: dict[Any, Any] | set[Any]) -> None:
    """Forget what is known of kinds of calls, where it is of more than a program that repeats itself has."""
    if len(known) >= _MOST:
        known.clear()


def kind_of_call(operands: Sequence[Any], attributes: Sequence[Any]) -> Hashable:
    """Dtypes and ranks of the operands, types of those that are numbers; types of the attributes, and how large they are."""
    return tuple([_of_operand(value) for value in operands]), tuple([_of_attribute(value) for value in attributes])


def _of_operand(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return (type(value), *[_of_operand(item) for item in value])
    return (value.dtype, value.ndim) if type(value) in TENSOR_TYPES else type(value)


def _of_attribute(value: Any) -> Hashable:
    kind = type(value)
    if kind is int:
        return kind, value if abs(value) <= _SMALL else math.copysign(value.bit_length(), value)
    if kind is float:
        return kind, _of_float(value)
    if kind in (bool, str):
        return kind, value
    if isinstance(value, (list, tuple)):
        return (kind, *[_of_attribute(item) for item in value])
    if type(value) in TENSOR_TYPES or torch_dtype(value) is None:
        return _of_operand(value)
    return str(value)


def _of_float(value: float) -> Hashable:
    """Its sign and exponent, and whether it is whole or a power of two, where limits lie: a program may change it at each step."""
    if not math.isfinite(value):
        return str(value)
    mantissa, exponent = math.frexp(value)
    return math.copysign(1, value), exponent, abs(mantissa) == 0.5, value.is_integer()
