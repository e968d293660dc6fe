"""Two arrays of values: whether they are one bit for bit, and how far they are apart."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def same_bits(array: Array, other: Array) -> bool:
    """Whether two arrays are one: shape, dtype and bytes."""
    if array.shape != other.shape or array.dtype != other.dtype:
        return False
    whole = _WHOLE.get(array.dtype.itemsize) if array.size > _FEW else None
    if whole is None:
        return array.tobytes() == other.tobytes()
    return all(bool((part == another).all()) for part, another in _parts(array.view(whole), other.view(whole)))


def _parts(array: Array, other: Array) -> Iterator[tuple[Array, Array]]:
    """Both arrays piece by piece, of which each stays in a processor's cache, also where matrices lie otherwise in memory."""
    if array.ndim == 2 and array.strides != other.strides:
        for row in range(0, array.shape[0], _SIDE):
            for column in range(0, array.shape[1], _SIDE):
                tile = slice(row, row + _SIDE), slice(column, column + _SIDE)
                yield array[tile], other[tile]
        return
    turned = array.ndim == 2 and array.flags.f_contiguous and other.flags.f_contiguous
    flat, opposite = ((side.T if turned else side).reshape(-1) for side in (array, other))
    for begin in range(0, flat.size, _PIECE):
        yield flat[begin : begin + _PIECE], opposite[begin : begin + _PIECE]


_FEW = 4096  # elements, of which copies as bytes are compared sooner
_SIDE = 256  # of a tile
_PIECE = 1 << 15  # elements
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
    with np.errstate(invalid="ignore", over="ignore"):
        most = [float(np.abs(np.subtract(*part, dtype=wide)).max()) for part in _parts(one, other)]
        if math.isfinite(sum(most)):
            return max(most)
        between = np.abs(np.subtract(one, other, dtype=wide))
    between = np.where((one == other) | ((one != one) & (other != other)), 0.0, between)
    return float(np.where(between == between, between, np.inf).max())


def size(array: Array) -> float:
    """The largest element that is finite, without its sign."""
    if array.dtype.kind == "f" and array.size:
        most = max(float(array.max()), -float(array.min()))
        if math.isfinite(most):
            return most
    return float(np.abs(array).max(initial=0.0, where=np.isfinite(array)))


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
