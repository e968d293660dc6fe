"""Whole tensors in pieces that stay in a core's own cache, with buffers that are kept from one look to the next."""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np

from ..oracle.apriori import PIECE
from ..oracle.precision import Array
from .peaks import Peaks, block_length

CHUNK = PIECE  # elements of a piece
KEPT = 1 << 24  # largest buffer that is kept, in elements
top_of, smallest = np.maximum.reduce, np.minimum.reduce  # an array's own methods take a Python function more


class _Scratch(threading.local):
    """Buffers of this thread, kept between calls: fresh pages cost more than the arithmetic. Large ones are not kept."""

    def __init__(self) -> None:
        self.buffers: dict[tuple[str, Any], Array] = {}

    def take(self, name: str, count: int, dtype: Any) -> Array:
        """``count`` elements, of undefined value."""
        found = self.buffers.get((name, dtype))
        if found is None or found.size < count:
            found = np.empty(count, dtype)
            if count <= KEPT:
                self.buffers[name, dtype] = found
        return found[:count]


SCRATCH = _Scratch()


def scaled(values: Array, size: Array) -> Array:
    """``values`` in units of ``size``, which broadcasts against them; overwritten by the thread's next call."""
    found = SCRATCH.take("scaled", values.size, values.dtype).reshape(values.shape)
    return np.divide(values, size, out=found, casting="unsafe")


def magnitudes(flat: Array) -> tuple[float, float]:
    """The smallest and the largest magnitude; NaN if there is one."""
    low, high = math.inf, 0.0
    for start in range(0, flat.size, CHUNK):
        piece = flat[start : start + CHUNK]
        size = np.abs(piece, out=SCRATCH.take("ratio", piece.size, piece.dtype))
        low, high = np.minimum(low, smallest(size)), np.maximum(high, top_of(size))
    return float(low), float(high)


def scaled_peaks(values: Array, scale: Array, least: float) -> Peaks:
    """Where ``values`` are largest in units of a scale's magnitudes, none of which counts as less than ``least``; flat arrays."""
    length = block_length(values.size)
    step, found = max(CHUNK // length, 1) * length, list[Peaks]()
    for low in range(0, values.size, step):
        piece = scale[low : low + step]
        size = np.abs(piece, out=SCRATCH.take("ratio", piece.size, piece.dtype))
        np.divide(values[low : low + step], np.maximum(size, least, out=size), out=size)
        found.append(Peaks.of(size, length, low))
    return Peaks.together(found)
