"""The whole tensor at a glance: statistics of the difference of two results, in one pass over memory."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ..oracle.apriori import Limit
from ..oracle.precision import KINDS, Array, norm
from .peaks import Peaks, block_length
from .pieces import CHUNK, SCRATCH, smallest, top_of

SHARE = 1 / 512
THIN = 16  # where |d| / |t| is only reported, every 16th element of a large tensor is asked


@dataclass
class Difference:
    """|paddle - torch| over the whole tensor.

    ``distance``: of the judged shape; None on the host where relative errors are looked at. ``ratio``: |d| / max(|t|, floor), on a
    device only; the floor is the smallest normal number over the unit roundoff, below which no bound is relative any more
    (numbers that one side flushes to 0 would hide all others). ``stats``: see docs/log.md; ``ulp_max`` and the relative tolerance
    are lower estimates on large tensors whose ratios are not looked at. ``finite``: neither result has NaN or Inf. ``rms``: root
    mean square of torch's finite values. ``beyond``: the largest |d| over what is harmless, where that was said; infinite where
    that is more than :data:`SHARE` of the result (sums that cancel: their condition is to be said). ``peaks``: see :attr:`tops`
    and :attr:`ratios`, which seldom anybody asks for where something is harmless.
    """

    distance: Any
    ratio: Any = None
    stats: dict[str, Any] = field(default_factory=dict)
    finite: bool = True
    rms: float = 0.0
    beyond: float = math.inf
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


def readable(tensor: torch.Tensor) -> Any:
    """A view for whole-tensor passes: NumPy on the CPU (float32 for the 16-bit dtypes), torch on a device."""
    tensor = tensor.detach()
    if tensor.dtype in (torch.float16, torch.bfloat16):
        tensor = tensor.float()
    return tensor if tensor.is_cuda else tensor.numpy()


def _flat(tensor: torch.Tensor) -> Any:
    """:func:`readable` in one piece: Torch turns a matrix several times faster than NumPy."""
    return readable(tensor.detach().contiguous())


def differ(paddle: torch.Tensor, torch_: torch.Tensor, *, relative: bool = True, harmless: Limit | None = None) -> Difference:
    """Statistics of the difference of two tensors of one shape and dtype.

    ``relative``: also look where |d| / |t| is largest. ``harmless``: what to hold |d| against.
    The arrays of the answer are overwritten by the thread's next call.
    """
    p, t = _flat(paddle), _flat(torch_)
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


class _Pieces:
    """Two flat results on the host, to be looked at in pieces that stay in a core's own cache."""

    def __init__(self, p: Array, t: Array, relative: bool) -> None:
        self.p, self.t, self.relative = p, t, relative
        self.distance = SCRATCH.take("distance", min(p.size, CHUNK) if relative else p.size, p.dtype)
        self.ratio = SCRATCH.take("ratio", min(p.size, CHUNK), p.dtype)
        self.length, self.floor = block_length(p.size), _floor(p.dtype)

    def __iter__(self) -> Iterator[tuple[int, int, Array, Array, Array, Array]]:
        """(low, high, Paddle's, Torch's, room for the distance, for the ratio)."""
        count, kept = self.p.size, not self.relative
        for low in range(0, count, CHUNK):
            high = min(low + CHUNK, count)
            distance = self.distance[low:high] if kept else self.distance[: high - low]
            yield low, high, self.p[low:high], self.t[low:high], distance, self.ratio[: high - low]

    def peaks(self) -> tuple[Peaks, Peaks | None]:
        """Where distance and ratio are largest: once more over memory for what is not kept."""
        tops, ratios = list[Peaks](), list[Peaks]()
        with np.errstate(all="ignore"):
            for low, _, a, b, d, r in self:
                if self.relative:
                    np.nan_to_num(np.subtract(a, b, out=d), copy=False, nan=0.0, posinf=0.0, neginf=0.0)
                    _ratio(np.abs(d, out=d), b, r, self.floor)
                    ratios.append(Peaks.of(r, self.length, low))
                tops.append(Peaks.of(d, self.length, low))
        return Peaks.together(tops), Peaks.together(ratios) if self.relative else None


def _on_host(p: Array, t: Array, bits: int, relative: bool, harmless: Limit | None) -> Difference:
    shape, count, ones = p.shape, p.size, _ones(p.dtype)
    pieces = _Pieces(p.reshape(-1), t.reshape(-1), relative)
    thin = 1 if relative or count <= CHUNK else THIN
    mean, apart, norm_, largest, top = 0.0, 0.0, 0.0, 0.0, 0.0
    different, finite, beyond, allowed, usual = 0, True, math.inf if harmless is None else 0.0, 0.0, 0.0
    for low, high, a, b, d, r in pieces:
        np.subtract(a, b, out=d)
        squares, size = float(d.dot(d)), float(b.dot(b))
        if not (math.isfinite(squares) and math.isfinite(size)):
            finite = finite and bool(np.isfinite(a).all() and np.isfinite(b).all())
            np.nan_to_num(d, copy=False, nan=0.0, posinf=0.0, neginf=0.0)
        size = _root(size, b)
        apart, norm_ = math.hypot(apart, _root(squares, d)), math.hypot(norm_, size)
        np.abs(d, out=d)
        far, normal = _ratio(d[::thin], b[::thin], r[: len(range(0, high - low, thin))], pieces.floor)
        top = max(top, far)
        if harmless is not None:
            if harmless.relative and normal and thin == 1:
                far, share = far / harmless.relative, harmless.relative * size
            else:
                limit = harmless.between(low, high).numpy()
                far, share = float(top_of(np.divide(d, limit, out=r))), math.sqrt(float(limit.dot(limit)))
                if harmless.usual < math.inf:
                    usual += float(r.dot(r))
            allowed = math.hypot(allowed, share)
            beyond = math.inf if math.isnan(far) else max(beyond, far)  # 0 / 0, or a limit that is none
        total = float(d.dot(ones[: high - low]))
        mean += total / count if math.isfinite(total) else float((d / d.dtype.type(count)).sum(dtype=np.float64))
        largest = max(largest, float(top_of(d)))
        different += _unequal(d)
    if usual:
        beyond = max(beyond, math.sqrt(usual / count) / harmless.usual)  # type: ignore[union-attr]
    stats = _stats(count, different, largest, mean, apart, norm_, top, bits)
    found = Difference(None if relative else pieces.distance.reshape(shape), stats=stats, finite=finite, peaks=pieces.peaks)
    found.rms, found.beyond = norm_ / math.sqrt(count), beyond if allowed <= SHARE * norm_ else math.inf
    return found


def sizes(paddle: torch.Tensor, torch_: torch.Tensor) -> tuple[float, float, float]:
    """Norm and largest element of the difference of two tensors of one shape and dtype, and the norm of the second one.

    Nothing else of :func:`differ`, in a fraction of its time; not finite where an element is not, or a square is none.
    """
    p, t = _flat(paddle), _flat(torch_)
    if not isinstance(p, np.ndarray):
        apart = p - t
        found = torch.stack([torch.linalg.vector_norm(apart), apart.abs().max(), torch.linalg.vector_norm(t)]).tolist()
        return found[0], found[1], found[2]
    p, t = p.reshape(-1), t.reshape(-1)
    scratch = SCRATCH.take("sizes", min(p.size, CHUNK), p.dtype)
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


def _ratio(d: Array, b: Array, out: Array, floor: Any) -> tuple[float, bool]:
    """d / max(|b|, floor) into ``out``; its maximum, and whether the floor was needed nowhere."""
    np.abs(b, out=out)
    normal = bool(smallest(out) >= floor)
    if not normal:
        np.maximum(out, floor, out=out)
    np.divide(d, out, out=out)
    top = float(top_of(out))
    if math.isnan(top):
        np.nan_to_num(out, copy=False, nan=0.0, posinf=0.0)
        top = float(top_of(out))
    return top, normal


def _unequal(d: Array) -> int:
    """How many elements of |d| are not 0; bools are counted many times faster than numbers, and integers compared than floats."""
    whole = d.view(np.int32 if d.dtype.itemsize == 4 else np.int64)
    return int(np.count_nonzero(np.not_equal(whole, 0, out=SCRATCH.take("unequal", d.size, np.bool_))))


@functools.cache
def _ones(dtype: Any) -> Array:
    return np.ones(CHUNK, dtype)


def _on_device(p: torch.Tensor, t: torch.Tensor, bits: int, harmless: Limit | None = None) -> Difference:
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


def _beyond(distance: torch.Tensor, clean: torch.Tensor, harmless: Limit | None) -> torch.Tensor:
    if harmless is None:
        return distance.new_tensor(math.inf)
    limit = harmless.whole().reshape(distance.shape)
    whole = torch.linalg.vector_norm(limit) <= SHARE * torch.linalg.vector_norm(clean)
    far = distance / limit
    most = torch.maximum(far.max(), torch.linalg.vector_norm(far) / (math.sqrt(far.numel()) * harmless.usual))
    return torch.where(whole, most, math.inf)


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
