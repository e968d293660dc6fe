"""The whole tensor at a glance: statistics of the difference of two results, in one pass over memory."""

from __future__ import annotations

import functools
import math
import threading
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ..oracle.precision import KINDS, Array, norm

CHUNK = 65536  # elements: a few pieces of it stay in a core's own cache
KEPT = 1 << 24  # largest buffer that is kept, in elements
THIN = 16  # where |d| / |t| is only reported, every 16th element of a large tensor is asked


@dataclass
class Difference:
    """|paddle - torch| over the whole tensor.

    ``distance``: of the judged shape. ``ratio``: |d| / max(|t|, floor), or None; the floor is the smallest normal number over the
    unit roundoff, below which no bound is relative any more (numbers that one side flushes to 0 would hide all others).
    ``peaks``: flat positions, one a block of the tensor, where the ratio (else the distance) is largest in its block; None on a
    device. ``stats``: see docs/log.md; ``ulp_max`` and the relative tolerance are lower estimates on large tensors without
    ``ratio``. ``finite``: neither result has NaN or Inf. ``rms``: root mean square of torch's finite values.
    """

    distance: Any
    ratio: Any
    peaks: Array | None
    stats: dict[str, Any] = field(default_factory=dict)
    finite: bool = True
    rms: float = 0.0


def readable(tensor: torch.Tensor) -> Any:
    """A view for whole-tensor passes: NumPy on the CPU (float32 for the 16-bit dtypes), torch on a device."""
    tensor = tensor.detach()
    if tensor.dtype in (torch.float16, torch.bfloat16):
        tensor = tensor.float()
    return tensor if tensor.is_cuda else tensor.numpy()


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


_SCRATCH = _Scratch()


def differ(paddle: torch.Tensor, torch_: torch.Tensor, *, relative: bool = True) -> Difference:
    """Statistics of the difference of two tensors of one shape and dtype.

    ``relative``: also keep |d| / |t|. The arrays of the answer are overwritten by the thread's next call.
    """
    p, t = readable(paddle), readable(torch_)
    bits = KINDS[paddle.dtype].format.bits
    if isinstance(p, np.ndarray):
        return _on_host(p, t, bits, relative)
    return _on_device(p, t, bits)


def _on_host(p: Array, t: Array, bits: int, keep: bool) -> Difference:
    shape, count = p.shape, p.size
    p, t = (np.ascontiguousarray(v).reshape(-1) for v in (p, t))
    distance = _SCRATCH.take("distance", count, p.dtype)
    ratios = _SCRATCH.take("ratio", count if keep else min(count, CHUNK), p.dtype)
    ones, floor = _ones(p.dtype), _floor(p.dtype)
    length = block_length(count)
    mean, norms, tops, peaks = 0.0, [0.0, 0.0], [0.0, 0.0], []
    different, finite = 0, True
    for low in range(0, count, CHUNK):
        high = min(low + CHUNK, count)
        b, d = t[low:high], distance[low:high]
        np.subtract(p[low:high], b, out=d)
        squares, size = float(np.dot(d, d)), float(np.dot(b, b))
        if not (math.isfinite(squares) and math.isfinite(size)):
            finite = finite and bool(np.isfinite(p[low:high]).all() and np.isfinite(b).all())
            np.nan_to_num(d, copy=False, nan=0.0, posinf=0.0, neginf=0.0)
        norms = [math.hypot(norms[0], _root(squares, d)), math.hypot(norms[1], _root(size, b))]
        np.abs(d, out=d)
        r = ratios[low:high] if keep else ratios[: high - low]
        thin = 1 if keep or count <= CHUNK else THIN
        top = _ratio(d[::thin], b[::thin], r[::thin], floor)
        places = block_peaks(r if keep else d, length)
        total = float(np.dot(d, ones[: high - low]))
        mean += total / count if math.isfinite(total) else float((d / d.dtype.type(count)).sum(dtype=np.float64))
        tops = [max(tops[0], float(d.max() if keep else d[places].max())), max(tops[1], top)]
        different += _unequal(d)
        peaks.append(places + low if low else places)
    stats = _stats(count, different, tops[0], mean, norms[0], norms[1], tops[1], bits)
    places = peaks[0] if len(peaks) == 1 else np.concatenate(peaks)
    return Difference(
        distance.reshape(shape), ratios.reshape(shape) if keep else None, places, stats, finite, norms[1] / math.sqrt(count)
    )


def sizes(paddle: torch.Tensor, torch_: torch.Tensor) -> tuple[float, float, float]:
    """Norm and largest element of the difference of two tensors of one shape and dtype, and the norm of the second one.

    Nothing else of :func:`differ`, in a fraction of its time; not finite where an element is not, or a square is none.
    """
    p, t = readable(paddle), readable(torch_)
    if not isinstance(p, np.ndarray):
        apart = p - t
        found = torch.stack([torch.linalg.vector_norm(apart), apart.abs().max(), torch.linalg.vector_norm(t)]).tolist()
        return found[0], found[1], found[2]
    p, t = (np.ascontiguousarray(v).reshape(-1) for v in (p, t))
    scratch = _SCRATCH.take("sizes", min(p.size, CHUNK), p.dtype)
    apart, largest, size = 0.0, 0.0, 0.0
    for low in range(0, p.size, CHUNK):
        b = t[low : low + CHUNK]
        d = np.subtract(p[low : low + CHUNK], b, out=scratch[: b.size])
        apart, size = apart + float(np.dot(d, d)), size + float(np.dot(b, b))
        largest = max(largest, float(d.max()), -float(d.min()))
    return math.sqrt(apart), largest, math.sqrt(size)


def _root(squares: float, values: Array) -> float:
    """The Euclidean norm of the finite ``values``, given the sum of their squares: again where that left the range."""
    info = np.finfo(values.dtype)
    if float(info.tiny / info.eps) < squares < math.inf or (squares == 0 and not values.any()):
        return math.sqrt(squares)
    return float(norm(np.where(np.isfinite(values), values, 0.0)))


@functools.cache
def _floor(dtype: Any) -> Any:
    """Smallest normal number over the unit roundoff."""
    return np.dtype(dtype).type(2.0 * float(np.finfo(dtype).tiny) / float(np.finfo(dtype).eps))


def _ratio(d: Array, b: Array, out: Array, floor: Any) -> float:
    """d / max(|b|, floor) into ``out``; its maximum."""
    np.abs(b, out=out)
    np.maximum(out, floor, out=out)
    np.divide(d, out, out=out)
    top = float(out.max())
    if math.isnan(top):
        np.nan_to_num(out, copy=False, nan=0.0, posinf=0.0)
        top = float(out.max())
    return top


def _unequal(d: Array) -> int:
    """How many elements of |d| are not 0; integers are counted much faster than floats."""
    return int(np.count_nonzero(d.view(np.int32 if d.dtype.itemsize == 4 else np.int64)))


def block_length(count: int) -> int:
    """Length of the blocks of which each gives one candidate: about 256 blocks; small tensors are looked at one by one."""
    return 1 if count <= 1024 else min(max(count // 256, 64), 2048)


def block_peaks(flat: Array, length: int) -> Array:
    """Position of the largest element of each block."""
    if length == 1:
        return np.arange(flat.size)
    count = flat.size // length
    places = flat[: count * length].reshape(count, length).argmax(axis=1)
    places += np.arange(0, count * length, length)
    if count * length < flat.size:
        places = np.append(places, count * length + flat[count * length :].argmax())
    return places


@functools.cache
def _ones(dtype: Any) -> Array:
    return np.ones(CHUNK, dtype)


def _on_device(p: torch.Tensor, t: torch.Tensor, bits: int) -> Difference:
    """The same on an accelerator, with one transfer of seven numbers."""
    distance = torch.sub(p, t).contiguous()
    finite = torch.isfinite(distance).all()
    distance = distance.nan_to_num_(0.0, 0.0, 0.0).abs_()
    finfo = torch.finfo(t.dtype)
    ratio = (distance / t.abs().clamp_min(2.0 * finfo.tiny / finfo.eps)).nan_to_num_(0.0, posinf=0.0)
    wide, clean = distance.double(), t.double().nan_to_num_(0.0, 0.0, 0.0)
    sums = [(wide / p.numel()).sum(), _norm(wide), _norm(clean)]
    numbers = torch.stack([n.double() for n in (distance.count_nonzero(), distance.max(), *sums, ratio.max(), finite)]).tolist()
    different, largest, mean, apart, size, top, good = numbers
    stats = _stats(p.numel(), int(different), largest, mean, apart, size, top, bits)
    return Difference(distance, ratio, None, stats, bool(good), size / math.sqrt(p.numel()))


def _norm(wide: torch.Tensor) -> torch.Tensor:
    """The Euclidean norm of a float64 tensor, of any size."""
    top = wide.abs().amax()
    return top * torch.linalg.vector_norm(wide / torch.where(top > 0, top, 1.0))


def _stats(
    count: int, different: int, largest: float, mean: float, apart: float, size: float, ratio: float, bits: int
) -> dict[str, Any]:
    frobenius = apart / size if size > 0 else (0.0 if apart == 0 else math.inf)
    return {
        "count": count,
        "different": different,
        "max_abs": largest,
        "mean_abs": mean,
        "rel_fro": frobenius,
        # One ulp is between 2^-bits and 2^(1-bits) of the value: right within a factor 2, at no extra pass.
        "ulp_max": ratio * 2.0**bits,
        "tolerance": {"atol": largest, "rtol": ratio},
    }


def equal_stats(count: int) -> dict[str, Any]:
    """The statistics of two equal results."""
    return _stats(count, 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0)
