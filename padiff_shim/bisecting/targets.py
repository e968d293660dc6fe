"""What is asked of a program's result: the caller's own question, or whether it differs from a value."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import ArgumentError, described
from ..trees import as_array, leaves


def question(target: Any, atol: float, rtol: float) -> Callable[[Any], bool]:
    """``target`` as a function of the result that says whether it is bad.

    Raises:
        ArgumentError: it is neither a function nor a value, or the tolerances are none.
    """
    for name, value in (("atol", atol), ("rtol", rtol)):
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
            raise ArgumentError(f"{name}= is a number from 0 on, got {described(value)}")
    wanted = [] if target is None else _arrays(target)
    if wanted:
        return lambda result: _differs(_arrays(result), wanted, atol, rtol)
    if not callable(target):
        raise ArgumentError(
            "target= is a function of fn's result that is true while it is bad, or the value that it should have (numbers, arrays, "
            f"tensors of either framework, in tuples, lists or dicts), got {described(target)}"
        )
    if atol or rtol:
        raise ArgumentError("atol= and rtol= belong to a target that is a value; a function decides by itself")
    return lambda result: _yes(target(result))


def _yes(answer: Any) -> bool:
    """A truth value, also of one element of a tensor."""
    try:
        return bool(answer)
    except Exception:
        raise ArgumentError(f"target= has to answer with True or False, got {described(answer)}") from None


def _arrays(value: Any) -> list[np.ndarray[Any, Any]]:
    """Everything numeric, as arrays."""
    if isinstance(value, (bool, int, float, complex)):
        return [np.asarray(value)]
    if isinstance(value, (list, tuple)) and value and all(isinstance(one, (bool, int, float, complex)) for one in value):
        return [np.asarray(one) for one in value]
    return [as_array(one).copy() for _, one in leaves(value)]


def _differs(found: list[np.ndarray[Any, Any]], wanted: list[np.ndarray[Any, Any]], atol: float, rtol: float) -> bool:
    """Whether any element is further from what is wanted than the tolerances allow."""
    shapes = [[one.shape for one in arrays] for arrays in (found, wanted)]
    if shapes[0] != shapes[1]:
        raise ArgumentError(f"target= has {_said(shapes[1])}, but fn returned {_said(shapes[0])}")
    return not all(np.allclose(one, other, rtol=rtol, atol=atol, equal_nan=True) for one, other in zip(found, wanted))


def _said(shapes: list[Any]) -> str:
    return f"{len(shapes)} arrays of shapes {', '.join(str(list(shape)) for shape in shapes[:6])}" if shapes else "nothing numeric"
