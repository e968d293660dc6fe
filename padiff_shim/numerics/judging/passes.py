"""The whole tensor at a glance: statistics of the difference of two results, in one pass over memory."""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch

from ..oracle.precision import KINDS, Array, norm

CHUNK = 65536  # elements: a few pieces of it stay in a core's own cache
KEPT = 1 << 24  # largest buffer that is kept, in elements
SHARE = 1 / 512
THIN = 16  # where |d| / |t| is only reported, every 16th element of a large tensor is asked


class Peaks(NamedTuple):
    """Candidates for the largest elements: one of each block of the tensor, its flat position and its size."""

    places: Array
    sizes: Array

    @classmethod
    def of(cls, flat: Array, length: int, low: int = 0) -> Peaks:
        """Of blocks of this length. ``low``: the position of the first element."""
        places = block_peaks(flat, length)
        sizes = flat[places]
        return cls(places + low if low else places, sizes)

    @classmethod
    def together(cls, parts: Sequence[Peaks]) -> Peaks:
        """Those of all parts of a tensor."""
        return parts[0] if len(parts) == 1 else cls(*(np.concatenate(column) for column in zip(*parts)))

    def largest_first(self) -> Array:
        """The positions, by size."""
        return self.places[np.argsort(self.sizes)[::-1]]


@dataclass
class Difference:
    """|paddle - torch| over the whole tensor.

    ``distance``: of the judged shape; None on the host where relative errors are looked at. ``ratio``: |d| / max(|t|, floor), on a
    device only; the floor is the smallest normal number over the unit roundoff, below which no bound is relative any more
    (numbers that one side flushes to 0 would hide all others). ``tops``, ``ratios``: where both are largest; None on a device, and
    ``ratios`` where they are not looked at. ``stats``: see docs/log.md; ``ulp_max`` and the relative tolerance are lower estimates
    on large tensors without ``ratios``. ``finite``: neither result has NaN or Inf. ``rms``: root mean square of torch's finite
    values. ``beyond``: the largest |d| over what is harmless, where that was said; infinite where
    that is more than :data:`SHARE` of the result (sums that cancel: their condition is to be said).
    """

    distance: Any
    ratio: Any = None
    tops: Peaks | None = None
    ratios: Peaks | None = None
    stats: dict[str, Any] = field(default_factory=dict)
    finite: bool = True
    rms: float = 0.0
    beyond: float = math.inf


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


def differ(
    paddle: torch.Tensor, torch_: torch.Tensor, *, relative: bool = True, harmless: torch.Tensor | None = None
) -> Difference:
    """Statistics of the difference of two tensors of one shape and dtype.

    ``relative``: also look where |d| / |t| is largest. ``harmless``: positive numbers to hold |d| against, which broadcast.
    The arrays of the answer are overwritten by the thread's next call.
    """
    p, t = readable(paddle), readable(torch_)
    bits = KINDS[paddle.dtype].format.bits
    if isinstance(p, np.ndarray):
        return _on_host(p, t, bits, relative, harmless)
    return _on_device(p, t, bits, harmless)


def alike(tensor: torch.Tensor) -> Difference:
    """What :func:`differ` says of a result that both kernels gave."""
    wide, finite = tensor.detach(), True
    size = float(torch.linalg.vector_norm(wide, dtype=torch.float64))
    if not math.isfinite(size):
        finite = bool(torch.isfinite(wide).all())
        size = float(norm(wide.double().nan_to_num(0.0, 0.0, 0.0).cpu().numpy()))
    return Difference(None, stats=equal_stats(tensor.numel()), finite=finite, rms=size / math.sqrt(tensor.numel()))


def _on_host(p: Array, t: Array, bits: int, relative: bool, harmless: torch.Tensor | None) -> Difference:
    shape, count = p.shape, p.size
    limit = None if harmless is None else np.broadcast_to(harmless.numpy(), shape).reshape(-1)
    p, t = (np.ascontiguousarray(v).reshape(-1) for v in (p, t))
    distance = _SCRATCH.take("distance", min(count, CHUNK) if relative else count, p.dtype)
    ratio = _SCRATCH.take("ratio", min(count, CHUNK), p.dtype)
    ones, floor = _ones(p.dtype), _floor(p.dtype)
    length = block_length(count)
    thin = 1 if relative or count <= CHUNK else THIN
    mean, norms, largest, top = 0.0, [0.0, 0.0], 0.0, 0.0
    tops, ratios = list[Peaks](), list[Peaks]()
    different, finite, beyond, allowed = 0, True, math.inf if limit is None else 0.0, 0.0
    for low in range(0, count, CHUNK):
        high = min(low + CHUNK, count)
        b, d = t[low:high], distance[: high - low] if relative else distance[low:high]
        np.subtract(p[low:high], b, out=d)
        squares, size = float(np.dot(d, d)), float(np.dot(b, b))
        if not (math.isfinite(squares) and math.isfinite(size)):
            finite = finite and bool(np.isfinite(p[low:high]).all() and np.isfinite(b).all())
            np.nan_to_num(d, copy=False, nan=0.0, posinf=0.0, neginf=0.0)
        norms = [math.hypot(norms[0], _root(squares, d)), math.hypot(norms[1], _root(size, b))]
        np.abs(d, out=d)
        r = ratio[: high - low]
        if limit is not None:
            far = float(np.divide(d, limit[low:high], out=r).max())
            allowed = math.hypot(allowed, math.sqrt(float(np.dot(limit[low:high], limit[low:high]))))
            beyond = math.inf if math.isnan(far) else max(beyond, far)  # 0 / 0, or a limit that is none
        top = max(top, _ratio(d[::thin], b[::thin], r[::thin], floor))
        tops.append(Peaks.of(d, length, low))
        if relative:
            ratios.append(Peaks.of(r, length, low))
        total = float(np.dot(d, ones[: high - low]))
        mean += total / count if math.isfinite(total) else float((d / d.dtype.type(count)).sum(dtype=np.float64))
        largest = max(largest, float(tops[-1].sizes.max()))
        different += _unequal(d)
    stats = _stats(count, different, largest, mean, norms[0], norms[1], top, bits)
    found = Difference(None if relative else distance.reshape(shape), None, Peaks.together(tops), stats=stats, finite=finite)
    found.ratios = Peaks.together(ratios) if relative else None
    found.rms, found.beyond = norms[1] / math.sqrt(count), beyond if allowed <= SHARE * norms[1] else math.inf
    return found


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


def scaled(values: Array, size: Array) -> Array:
    """``values`` in units of ``size``, which broadcasts against them; overwritten by the thread's next call."""
    found = _SCRATCH.take("scaled", values.size, values.dtype).reshape(values.shape)
    return np.divide(values, size, out=found, casting="unsafe")


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


def _on_device(p: torch.Tensor, t: torch.Tensor, bits: int, harmless: torch.Tensor | None = None) -> Difference:
    """The same on an accelerator, with one transfer of eight numbers."""
    distance = torch.sub(p, t).contiguous()
    finite = torch.isfinite(distance).all()
    distance = distance.nan_to_num_(0.0, 0.0, 0.0).abs_()
    finfo = torch.finfo(t.dtype)
    ratio = (distance / t.abs().clamp_min(2.0 * finfo.tiny / finfo.eps)).nan_to_num_(0.0, posinf=0.0)
    wide, clean = distance.double(), t.double().nan_to_num_(0.0, 0.0, 0.0)
    sums = [(wide / p.numel()).sum(), _norm(wide), _norm(clean)]
    beyond = _beyond(distance, clean, harmless)
    found = (distance.count_nonzero(), distance.max(), *sums, ratio.max(), finite, beyond)
    different, largest, mean, apart, size, top, good, far = torch.stack([n.double() for n in found]).tolist()
    stats = _stats(p.numel(), int(different), largest, mean, apart, size, top, bits)
    return Difference(distance, ratio, stats=stats, finite=bool(good), rms=size / math.sqrt(p.numel()), beyond=far)


def _beyond(distance: torch.Tensor, clean: torch.Tensor, harmless: torch.Tensor | None) -> torch.Tensor:
    if harmless is None:
        return distance.new_tensor(math.inf)
    whole = torch.linalg.vector_norm(harmless.expand(distance.shape)) <= SHARE * torch.linalg.vector_norm(clean)
    return torch.where(whole, (distance / harmless).max(), math.inf)


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
