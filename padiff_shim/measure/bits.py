"""Whether two arrays are equal, and their largest difference, in as few steps as there are.

Two elements are equal if all their bits are, or if both are NaN, whose bits mean nothing. So 0.0 does not equal -0.0: a division by
them tells them apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

PIECE = 1 << 15  # elements that stay in a processor's cache
_FEW = 4096  # elements; copies of so few as bytes are quicker
_SIDE = 256  # of a tile
_WHOLE = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}  # bytes of an element -> whole numbers of the same bits


def unlike(array: Array, other: Array) -> Array:
    """Which elements of two arrays of one shape and dtype are not equal."""
    whole = _WHOLE.get(array.dtype.itemsize)
    if whole is not None:
        differ = array.view(whole) != other.view(whole)
    elif array.dtype.kind == "c":
        differ = unlike(array.real, other.real) | unlike(array.imag, other.imag)
    else:
        differ = (array != other) | (np.signbit(array) != np.signbit(other))
    if array.dtype.kind in "fc" and differ.any():
        differ &= (array == array) | (other == other)
    return np.asarray(differ)


def same_bits(array: Array | None, other: Array | None) -> bool:
    """Whether two arrays have one shape and dtype, and equal elements; None equals None alone."""
    if array is None or other is None:
        return array is other
    if array.shape != other.shape or array.dtype != other.dtype:
        return False
    if array.size <= _FEW:
        return array.tobytes() == other.tobytes() or not unlike(array, other).any()
    return not any(unlike(*part).any() for part in parts(array, other))


def parts(array: Array, other: Array) -> Iterator[tuple[Array, Array]]:
    """Both arrays piece by piece; each piece stays in a processor's cache, also where matrices are transposed in memory."""
    if array.ndim == 2 and array.strides != other.strides:
        for row in range(0, array.shape[0], _SIDE):
            for column in range(0, array.shape[1], _SIDE):
                tile = slice(row, row + _SIDE), slice(column, column + _SIDE)
                yield array[tile], other[tile]
        return
    turned = array.ndim == 2 and array.flags.f_contiguous and other.flags.f_contiguous
    flat, opposite = ((side.T if turned else side).reshape(-1) for side in (array, other))
    for begin in range(0, flat.size, PIECE):
        yield flat[begin : begin + PIECE], opposite[begin : begin + PIECE]


def largest(array: Array, other: Array) -> float:
    """The largest difference of two arrays of one shape; infinite where one alone is finite."""
    if not array.size or same_bits(array, other):
        return 0.0
    wide = np.complex128 if np.iscomplexobj(array) else np.float64
    with np.errstate(invalid="ignore", over="ignore"):
        most = [float(np.abs(np.subtract(*part, dtype=wide)).max()) for part in parts(array, other)]
        if math.isfinite(sum(most)):
            return max(most)
        between = np.abs(np.subtract(array, other, dtype=wide))
    between = np.where((array == other) | ((array != array) & (other != other)), 0.0, between)
    return float(np.where(between == between, between, np.inf).max())


def largests(pairs: Sequence[tuple[Array, Array]]) -> list[float | None]:
    """:func:`largest` of many pairs, each of one shape; None where the bits are the same.

    Small arrays are laid end to end, for a call of NumPy costs more than their elements.
    """
    differences: list[float | None] = [None] * len(pairs)
    waiting: list[int] = []
    elements = 0
    for place, (array, other) in enumerate(pairs):
        if same_bits(array, other):
            continue
        if array.dtype.kind == "f" and other.dtype.kind == "f" and 0 < array.size <= PIECE:
            waiting.append(place)
            elements += array.size
        else:
            differences[place] = largest(array, other)
        if elements > PIECE:
            _largest_of_small(pairs, waiting, differences)
            waiting, elements = [], 0
    _largest_of_small(pairs, waiting, differences)
    return differences


def _largest_of_small(pairs: Sequence[tuple[Array, Array]], places: list[int], differences: list[float | None]) -> None:
    """Fill in the largest differences of these pairs."""
    if not places:
        return
    flat, opposite = (
        np.concatenate([pairs[place][side].reshape(-1) for place in places], dtype=np.float64, casting="same_kind")
        for side in (0, 1)
    )
    begins = np.cumsum([0, *(pairs[place][0].size for place in places[:-1])])
    with np.errstate(invalid="ignore", over="ignore"):
        most = np.maximum.reduceat(np.abs(np.subtract(flat, opposite, out=flat), out=flat), begins).tolist()
    for place, value in zip(places, most):
        differences[place] = value if math.isfinite(value) else largest(*pairs[place])


def largest_element(array: Array) -> float:
    """The largest finite element, without its sign."""
    if array.dtype.kind == "f" and array.size:
        most = max(float(array.max()), -float(array.min()))
        if math.isfinite(most):
            return most
    return float(np.abs(array).max(initial=0.0, where=np.isfinite(array)))
