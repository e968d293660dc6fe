"""Whole tensors in pieces that stay in a core's own cache, with buffers that are kept from one look to the next."""

from __future__ import annotations

import functools
import math
import operator
import threading
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from ..oracle.apriori import PIECE
from ..oracle.limits import Limit
from ..oracle.precision import Array, norm
from .peaks import Peaks, block_length

CHUNK = PIECE  # elements of a piece
THIN = 16  # where |d| / |t| is only reported, every 16th element of a large tensor is asked
FEW = 4096  # elements that are counted as they are
KEPT = 1 << 24  # largest buffer that is kept, in elements


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


def top_of(values: Array) -> float:
    """The largest element; NaN if there is one. (NumPy finds where it is in a fraction of the time that ``values.max()`` takes.)"""
    return values.item(values.argmax())


def smallest(values: Array) -> float:
    """The smallest element; NaN if there is one."""
    return values.item(values.argmin())


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


class Seen(NamedTuple):
    """Of a piece, or of the whole. ``apart``, ``size``: norms of the difference and of Torch's; ``mean``: its part of the mean.

    ``far``, ``share``, ``usual``: the largest difference beside what is harmless, the norm of that, and the sum of the squares.
    """

    apart: float
    size: float
    mean: float
    largest: float
    different: int
    top: float
    finite: bool
    far: float
    share: float
    usual: float


class Pieces:
    """Two flat results on the host, to be looked at in pieces that stay in a core's own cache."""

    __slots__ = ("_ratio", "_room", "_thin", "count", "distance", "floor", "least", "p", "relative", "t")

    def __init__(self, p: Array, t: Array, relative: bool) -> None:
        self.p, self.t, self.relative, self.count = p, t, relative, p.size
        self._room = min(p.size, CHUNK)
        self.distance = SCRATCH.take("distance", self._room if relative else p.size, p.dtype)
        self._ratio = SCRATCH.take("ratio", self._room, p.dtype)
        self._thin = 1 if relative or p.size <= CHUNK else THIN
        self.floor, self.least = _floors(p.dtype)

    def _at(self, low: int, high: int) -> tuple[Array, Array, Array, Array]:
        """Paddle's, Torch's, room for the distance, for the ratio."""
        if high - low == self.count:
            return self.p, self.t, self.distance, self._ratio
        distance = self.distance[: high - low] if self.relative else self.distance[low:high]
        return self.p[low:high], self.t[low:high], distance, self._ratio[: high - low]

    def look(self, low: int, high: int, harmless: Limit | None) -> Seen:
        """At one piece."""
        a, b, d, r = self._at(low, high)
        np.subtract(a, b, out=d)
        squares, size, finite, beside = float(d.dot(d)), float(b.dot(b)), True, (math.inf, 0.0, 0.0)
        if not math.isfinite(squares + size):
            finite = bool(np.isfinite(a).all() and np.isfinite(b).all())
            np.nan_to_num(d, copy=False, nan=0.0, posinf=0.0, neginf=0.0)
        apart = math.sqrt(squares) if self.least < squares < math.inf else _root(squares, d)
        size = math.sqrt(size) if self.least < size < math.inf else _root(size, b)
        np.abs(d, out=d)
        thin = self._thin
        if thin == 1:
            top, normal = _ratio(d, b, r, self.floor)
        else:
            top, normal = _ratio(d[::thin], b[::thin], r[: len(range(0, high - low, thin))], self.floor)
        if harmless is not None:
            if harmless.relative and normal and thin == 1:
                beside = top / harmless.relative, harmless.relative * size, 0.0
            else:
                limit = harmless.between(low, high).numpy()
                far = top_of(np.divide(d, limit, out=r))
                beside = far, math.sqrt(float(limit.dot(limit))), float(r.dot(r)) if harmless.usual < math.inf else 0.0
        total = float(d.dot(_ones(d.dtype)[: high - low]))
        mean = total / self.count if math.isfinite(total) else float((d / d.dtype.type(self.count)).sum(dtype=np.float64))
        return Seen(apart, size, mean, top_of(d), unequal(d), top, finite, *beside)

    def all(self, harmless: Limit | None) -> Seen:
        """At every piece: what is seen of the whole."""
        if self.count <= CHUNK:
            return self.look(0, self.count, harmless)
        seen = [self.look(low, min(low + CHUNK, self.count), harmless) for low in range(0, self.count, CHUNK)]
        apart, size, mean, largest, different, top, finite, far, share, usual = zip(*seen)
        beyond = math.inf if any(map(math.isnan, far)) else max(far)
        sizes = _together(apart), _together(size), _sum(mean), max(largest), sum(different), max(top)
        return Seen(*sizes, all(finite), beyond, _together(share), _sum(usual))

    def peaks(self) -> tuple[Peaks, Peaks | None]:
        """Where distance and ratio are largest: once more over memory for what is not kept."""
        tops, ratios, length = list[Peaks](), list[Peaks](), block_length(self.count)
        with np.errstate(all="ignore"):
            for low in range(0, self.count, CHUNK):
                a, b, d, r = self._at(low, min(low + CHUNK, self.count))
                if self.relative:
                    np.nan_to_num(np.subtract(a, b, out=d), copy=False, nan=0.0, posinf=0.0, neginf=0.0)
                    _ratio(np.abs(d, out=d), b, r, self.floor)
                    ratios.append(Peaks.of(r, length, low))
                tops.append(Peaks.of(d, length, low))
        return Peaks.together(tops), Peaks.together(ratios) if self.relative else None


def _together(norms: Iterable[float]) -> float:
    """The norm of what has these norms in its pieces."""
    return functools.reduce(math.hypot, norms, 0.0)


def _sum(parts: Iterable[float]) -> float:
    """One after the other, in whatever Python."""
    return functools.reduce(operator.add, parts, 0.0)


def _root(squares: float, values: Array) -> float:
    """The Euclidean norm of the finite ``values``, given the sum of their squares: again where that left the range."""
    if _floors(values.dtype)[1] < squares < math.inf or (squares == 0 and not values.any()):
        return math.sqrt(squares)
    return float(norm(np.where(np.isfinite(values), values, 0.0)))


@functools.cache
def _floors(dtype: Any) -> tuple[Any, float]:
    """Smallest normal number over the unit roundoff; and the least sum of squares that has lost nothing."""
    tiny, eps = float(np.finfo(dtype).tiny), float(np.finfo(dtype).eps)
    return np.dtype(dtype).type(2.0 * tiny / eps), tiny / eps


def _ratio(d: Array, b: Array, out: Array, floor: Any) -> tuple[float, bool]:
    """d / max(|b|, floor) into ``out``; its maximum, and whether the floor was needed nowhere."""
    np.abs(b, out=out)
    normal = bool(smallest(out) >= floor)
    if not normal:
        np.maximum(out, floor, out=out)
    np.divide(d, out, out=out)
    top = top_of(out)
    if math.isnan(top):
        np.nan_to_num(out, copy=False, nan=0.0, posinf=0.0)
        top = top_of(out)
    return top, normal


def unequal(d: Array) -> int:
    """How many elements of |d| are not 0; bools are counted many times faster than numbers, and integers compared than floats."""
    if d.size <= FEW:
        return int(np.count_nonzero(d))
    whole = d.view(np.int32 if d.dtype.itemsize == 4 else np.int64)
    return int(np.count_nonzero(np.not_equal(whole, 0, out=SCRATCH.take("unequal", d.size, np.bool_))))


@functools.cache
def _ones(dtype: Any) -> Array:
    return np.ones(CHUNK, dtype)
