"""Two arrays of values: whether they are one bit for bit, and how far they are apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def same_bits(array: Array, other: Array) -> bool:
    """Whether two arrays are one: shape, dtype and bytes."""
    if array.shape != other.shape or array.dtype != other.dtype:
        return False
    whole = _WHOLE.get(array.dtype.itemsize) if array.size > _FEW else None
    return array.tobytes() == other.tobytes() if whole is None else bool((array.view(whole) == other.view(whole)).all())


_FEW = 4096  # elements, of which copies as bytes are compared sooner
_WHOLE = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}  # bytes of an element -> whole numbers of the same bits


def apart(array: Array, other: Array) -> str:
    """How two arrays differ, in words."""
    if array.shape != other.shape:
        return f"shapes {list(array.shape)} and {list(other.shape)}"
    return f"largest difference {largest(array, other):.3g}"


def largest(one: Array, other: Array) -> float:
    """The largest difference of two arrays of one shape; infinite where only one is finite."""
    if not one.size or same_bits(one, other):
        return 0.0
    wide = np.complex128 if np.iscomplexobj(one) else np.float64
    mine, yours = one.reshape(-1), other.reshape(-1)
    with np.errstate(invalid="ignore", over="ignore"):
        pieces = (slice(at, at + _PIECE) for at in range(0, mine.size, _PIECE))
        most = [float(np.abs(np.subtract(mine[piece], yours[piece], dtype=wide)).max()) for piece in pieces]
        if math.isfinite(sum(most)):
            return max(most)
        between = np.abs(np.subtract(one, other, dtype=wide))
    between = np.where((one == other) | ((one != one) & (other != other)), 0.0, between)
    return float(np.where(between == between, between, np.inf).max())


_PIECE = 1 << 15  # elements, whose differences stay in a processor's cache


def largests(pairs: Sequence[tuple[Array, Array]]) -> list[float | None]:
    """:func:`largest` of many pairs, each of one shape; None where the bits are the same.

    Pairs of few elements are laid end to end, for each call of NumPy's costs more than they.
    """
    found: list[float | None] = [None] * len(pairs)
    waiting: list[int] = []
    elements = 0
    for place, (one, other) in enumerate(pairs):
        if same_bits(one, other):
            continue
        if one.dtype.kind == "f" and other.dtype.kind == "f" and 0 < one.size <= _PIECE:
            waiting.append(place)
            elements += one.size
        else:
            found[place] = largest(one, other)
        if elements > _PIECE:
            _together(pairs, waiting, found)
            waiting, elements = [], 0
    _together(pairs, waiting, found)
    return found


def _together(pairs: Sequence[tuple[Array, Array]], places: list[int], found: list[float | None]) -> None:
    """Fill in the largest differences of these pairs."""
    if not places:
        return
    mine, yours = (
        np.concatenate([pairs[place][side].reshape(-1) for place in places], dtype=np.float64, casting="same_kind")
        for side in (0, 1)
    )
    begins = np.cumsum([0, *(pairs[place][0].size for place in places[:-1])])
    with np.errstate(invalid="ignore", over="ignore"):
        most = np.maximum.reduceat(np.abs(np.subtract(mine, yours, out=mine), out=mine), begins).tolist()
    for place, value in zip(places, most):
        found[place] = value if math.isfinite(value) else largest(*pairs[place])
