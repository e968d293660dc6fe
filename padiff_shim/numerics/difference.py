"""How two tensors differ: equality, statistics in one pass over memory, block maxima."""

from __future__ import annotations

import functools
import math
import operator
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch

from ..measure.distance import unit_in_last_place
from .precision import KINDS, Array, equal_in_value, norm

# ---- Where a tensor is largest: one candidate of each of its blocks.


class Peaks(NamedTuple):
    """Candidates for the largest elements: one of each block of the tensor, its flat position and its size."""

    places: Array
    sizes: Array

    @classmethod
    def of(cls, flat: Array, length: int, low: int = 0) -> Peaks:
        """Of blocks of this length. ``low``: the position of the first element."""
        if length == 1:
            places, sizes = _every(flat.size), flat.copy()
        else:
            places = block_peaks(flat, length)
            sizes = flat[places]
        return cls(places + low if low else places, sizes)

    @classmethod
    def together(cls, parts: Sequence[Peaks]) -> Peaks:
        """Those of all parts of a tensor."""
        return parts[0] if len(parts) == 1 else cls(*(np.concatenate(column) for column in zip(*parts)))


@functools.lru_cache(maxsize=256)
def _every(count: int) -> Array:
    """All positions; not to be written into."""
    places = np.arange(count)
    places.flags.writeable = False
    return places


def block_length(count: int) -> int:
    """Length of the blocks that give one candidate each: about 256 blocks; every element of a small tensor is a candidate."""
    return 1 if count <= 1024 else min(max(count // 256, 64), 2048)


def block_peaks(flat: Array, length: int) -> Array:
    """Position of the largest element of each block."""
    count = flat.size // length
    places = flat[: count * length].reshape(count, length).argmax(axis=1)
    places += np.arange(0, count * length, length)
    if count * length < flat.size:
        places = np.append(places, count * length + flat[count * length :].argmax())
    return places


# ---- Whole tensors in pieces that stay in a core's own cache, with buffers that are kept between calls.

CHUNK = 65536  # elements of a piece: a few arrays of them stay in a core's own cache
THIN = 16  # where |d| / |t| is only reported, every 16th element of a large tensor is read
FEW = 4096  # elements that are counted as they are
KEPT = 1 << 24  # largest buffer that is kept, in elements


class _Scratch(threading.local):
    """Buffers of this thread, kept between calls: fresh pages cost more than the arithmetic. Large ones are not kept."""

    def __init__(self) -> None:
        self.buffers: dict[tuple[str, Any], Array] = {}

    def take(self, name: str, count: int, dtype: Any) -> Array:
        """``count`` elements, of undefined value."""
        buffer = self.buffers.get((name, dtype))
        if buffer is None or buffer.size < count:
            buffer = np.empty(count, dtype)
            if count <= KEPT:
                self.buffers[name, dtype] = buffer
        return buffer[:count]


SCRATCH = _Scratch()


def top_of(values: Array) -> float:
    """The largest element; NaN if there is one. (NumPy finds where it is in a fraction of the time that ``values.max()`` takes.)"""
    return values.item(values.argmax())


def smallest(values: Array) -> float:
    """The smallest element; NaN if there is one."""
    return values.item(values.argmin())


def scaled(values: Array, size: Array) -> Array:
    """``values`` in units of ``size``, which broadcasts against them; overwritten by the thread's next call."""
    room = SCRATCH.take("scaled", values.size, values.dtype).reshape(values.shape)
    return np.divide(values, size, out=room, casting="unsafe")


class ChunkStatistics(NamedTuple):
    """Of a piece, or of the whole. ``apart``, ``size``: norms of the difference and of Torch's; ``mean``: its part of the mean.

    ``top``: the largest difference relative to Torch's element; ``peak``: the largest of these.
    """

    apart: float
    size: float
    mean: float
    largest: float
    different: int
    top: float
    peak: float
    finite: bool


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

    def look(self, low: int, high: int) -> ChunkStatistics:
        """At one piece."""
        a, b, d, r = self._at(low, high)
        np.subtract(a, b, out=d)
        squares, size, finite = float(d.dot(d)), float(b.dot(b)), True
        if not math.isfinite(squares + size):
            finite = bool(np.isfinite(a).all() and np.isfinite(b).all())
            np.nan_to_num(d, copy=False, nan=0.0, posinf=0.0, neginf=0.0)
        apart = math.sqrt(squares) if self.least < squares < math.inf else _root(squares, d)
        size = math.sqrt(size) if self.least < size < math.inf else _root(size, b)
        np.abs(d, out=d)
        thin = self._thin
        if thin == 1:
            top, peak = _ratio(d, b, r, self.floor)
        else:
            top, peak = _ratio(d[::thin], b[::thin], r[: len(range(0, high - low, thin))], self.floor)
            peak = max(top_of(b), -smallest(b))
        if not finite:
            peak = float(np.abs(b).max(initial=0.0, where=np.isfinite(b)))
        total = float(d.dot(_ones(d.dtype)[: high - low]))
        mean = total / self.count if math.isfinite(total) else float((d / d.dtype.type(self.count)).sum(dtype=np.float64))
        return ChunkStatistics(apart, size, mean, top_of(d), unequal(d), top, peak, finite)

    def all(self) -> ChunkStatistics:
        """At every piece: what is seen of the whole."""
        if self.count <= CHUNK:
            return self.look(0, self.count)
        seen = [self.look(low, min(low + CHUNK, self.count)) for low in range(0, self.count, CHUNK)]
        apart, size, mean, largest, different, top, peak, finite = zip(*seen)
        # Added one after the other, in whatever Python.
        total = functools.reduce(operator.add, mean, 0.0)
        sizes = _together(apart), _together(size), total, max(largest), sum(different), max(top), max(peak)
        return ChunkStatistics(*sizes, all(finite))

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


def _ratio(d: Array, b: Array, out: Array, floor: Any) -> tuple[float, float]:
    """d / max(|b|, floor) into ``out``; its maximum, and the largest |b|."""
    np.abs(b, out=out)
    peak = top_of(out)
    if not smallest(out) >= floor:
        np.maximum(out, floor, out=out)
    np.divide(d, out, out=out)
    top = top_of(out)
    if math.isnan(top):
        np.nan_to_num(out, copy=False, nan=0.0, posinf=0.0)
        top = top_of(out)
    return top, peak


def unequal(d: Array) -> int:
    """How many elements of |d| are not 0; bools are counted many times faster than numbers, and integers compared than floats."""
    if d.size <= FEW:
        return int(np.count_nonzero(d))
    whole = d.view(np.int32 if d.dtype.itemsize == 4 else np.int64)
    return int(np.count_nonzero(np.not_equal(whole, 0, out=SCRATCH.take("unequal", d.size, np.bool_))))


@functools.cache
def _ones(dtype: Any) -> Array:
    return np.ones(CHUNK, dtype)


# ---- Whether two results are equal: most are, so every pair is asked this first.

_SOME = 32  # machine epsilons
# Numbers are asked, not bits: 0.0 is -0.0, as many gradients have it on one side, and a NaN may be wrong on both sides.
same = torch.equal


def equal_but_nan(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors that are not the :func:`same` are equal but for NaN, at the same places."""
    if not (tensor.is_floating_point() or tensor.is_complex()) or tensor.sum().isfinite():
        return False
    return bool(equal_in_value(tensor, other).all())


def far_apart(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether an element differs by more than some roundoffs of it: not every difference is worth a look for ties."""
    if not tensor.is_floating_point():
        return True
    apart, size = (tensor - other).abs(), torch.maximum(tensor.abs(), other.abs())
    return not bool((apart <= _SOME * torch.finfo(tensor.dtype).eps * size).all())


# ---- Statistics of the difference of two whole tensors, in one pass over memory.


@dataclass
class TensorDifference:
    """|paddle - torch| over the whole tensor.

    ``distance``: of the judged shape; None on the host where relative errors are looked at. ``ratio``: |d| / max(|t|, floor), on a
    device only; the floor is the smallest normal number over the unit roundoff, below which no bound is relative any more
    (numbers that one side flushes to 0 would hide all others). ``stats``: see docs/log.md; the relative tolerance is a lower
    estimate on large tensors whose ratios are not looked at. ``finite``: neither result has NaN or Inf. ``rms``: root
    mean square of torch's finite values. ``peaks``: see :attr:`tops` and :attr:`ratios`, made when they are
    first read.
    """

    distance: Any
    ratio: Any = None
    stats: dict[str, Any] = field(default_factory=dict)
    finite: bool = True
    rms: float = 0.0
    peaks: Callable[[], tuple[Peaks | None, Peaks | None]] = lambda: (None, None)

    @functools.cached_property
    def _found(self) -> tuple[Peaks | None, Peaks | None]:
        return self.peaks()

    @property
    def tops(self) -> Peaks | None:
        """Where the difference is largest; None on a device."""
        return self._found[0]

    @property
    def ratios(self) -> Peaks | None:
        """Where it is largest beside the result; None on a device, and where that is not looked at."""
        return self._found[1]


def readable(tensor: Any) -> Any:
    """A view for whole-tensor passes: NumPy on the CPU (float32 for the 16-bit dtypes), torch on a device; an array as it is."""
    if isinstance(tensor, np.ndarray):
        return tensor
    tensor = tensor.detach()
    if tensor.dtype in (torch.float16, torch.bfloat16):
        tensor = tensor.float()
    return tensor if tensor.is_cuda else tensor.numpy()


def _flat(tensor: torch.Tensor) -> Any:
    """:func:`readable` in one piece: Torch turns a matrix several times faster than NumPy."""
    return readable(tensor if tensor.is_contiguous() else tensor.detach().contiguous())


def differ(paddle: torch.Tensor, torch_: torch.Tensor, *, relative: bool = True) -> TensorDifference:
    """Statistics of the difference of two tensors of one shape and dtype.

    ``relative``: also look where |d| / |t| is largest.
    The arrays of the answer are overwritten by the thread's next call.
    """
    p, t, dtype = _flat(paddle), _flat(torch_), _dtype_name(paddle.dtype)
    return _on_host(p, t, dtype, relative) if isinstance(p, np.ndarray) else _on_device(p, t, dtype)


@functools.cache
def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def no_difference(tensor: torch.Tensor) -> TensorDifference:
    """What :func:`differ` says of a result that both kernels gave."""
    wide, finite = tensor.detach(), True
    if wide.is_cpu and wide.dtype in (torch.float32, torch.float64) and wide.numel() <= CHUNK:
        flat = wide.numpy().reshape(-1).astype(np.float64)
        size = math.sqrt(flat.dot(flat))
    else:
        size = float(torch.linalg.vector_norm(wide, dtype=torch.float64))
    if not math.isfinite(size):
        finite = bool(torch.isfinite(wide).all())
        size = float(norm(wide.double().nan_to_num(0.0, 0.0, 0.0).cpu().numpy()))
    return TensorDifference(None, stats=equal_stats(tensor.numel()), finite=finite, rms=size / math.sqrt(tensor.numel()))


def _on_host(p: Array, t: Array, dtype: str, relative: bool) -> TensorDifference:
    pieces, count = Pieces(p.reshape(-1), t.reshape(-1), relative), p.size
    seen = pieces.all()
    stats = statistics(count, seen.different, seen.largest, seen.mean, seen.apart, seen.size, seen.top, seen.peak, dtype)
    difference = TensorDifference(
        None if relative else pieces.distance.reshape(p.shape), stats=stats, finite=seen.finite, peaks=pieces.peaks
    )
    difference.rms = seen.size / math.sqrt(count)
    return difference


def _on_device(p: torch.Tensor, t: torch.Tensor, dtype: str) -> TensorDifference:
    """The same on an accelerator, with one transfer of eight numbers."""
    distance = torch.sub(p, t).contiguous()
    finite = torch.isfinite(distance).all()
    distance = distance.nan_to_num_(0.0, 0.0, 0.0).abs_()
    finfo = torch.finfo(t.dtype)
    ratio = (distance / t.abs().clamp_min(2.0 * finfo.tiny / finfo.eps)).nan_to_num_(0.0, posinf=0.0)
    wide, clean = distance.double(), t.double().nan_to_num_(0.0, 0.0, 0.0)
    sums = [(wide / p.numel()).sum(), _norm(wide), _norm(clean)]
    figures = (distance.count_nonzero(), distance.max(), *sums, ratio.max(), clean.abs().max(), finite)
    different, largest, mean, apart, size, top, peak, good = torch.stack([n.double() for n in figures]).tolist()
    stats = statistics(p.numel(), int(different), largest, mean, apart, size, top, peak, dtype)
    return TensorDifference(distance, ratio, stats=stats, finite=bool(good), rms=size / math.sqrt(p.numel()))


def _norm(wide: torch.Tensor) -> torch.Tensor:
    """The Euclidean norm of a float64 tensor, of any size."""
    top = wide.abs().amax()
    return top * torch.linalg.vector_norm(wide / torch.where(top > 0, top, 1.0))


def statistics(
    count: int, different: int, largest: float, mean: float, apart: float, size: float, ratio: float, peak: float, dtype: str
) -> dict[str, Any]:
    frobenius = apart / size if size > 0 else (0.0 if apart == 0 else math.inf)
    return {
        "count": count,
        "different": different,
        "max_abs": largest,
        "mean_abs": mean,
        "rel_fro": frobenius,
        "ulp_max": largest / unit_in_last_place(dtype, peak) if largest else 0.0,
        "tolerance": {"atol": largest, "rtol": ratio},
    }


def stats_of(paddle: torch.Tensor, torch_: torch.Tensor) -> dict[str, Any]:
    """The statistics of two results; of dtypes that are not rounded how many differ."""
    if paddle.dtype in KINDS:
        return differ(paddle, torch_).stats
    return {"count": paddle.numel(), "different": int((~equal_in_value(paddle, torch_)).sum())}


def equal_stats(count: int) -> dict[str, Any]:
    """The statistics of two equal results."""
    return statistics(count, 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, "")
