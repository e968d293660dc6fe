"""The whole tensor at a glance: statistics of the difference of two results, in one pass over memory."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from ..oracle.elements import equal_in_value
from ..oracle.limits import Limit
from ..oracle.precision import KINDS, Array, norm
from .peaks import Peaks
from .pieces import CHUNK, SCRATCH, Pieces, smallest, top_of

SHARE = 1 / 512


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
    if wide.is_cpu and wide.dtype in (torch.float32, torch.float64) and wide.numel() <= CHUNK:
        flat = wide.numpy().reshape(-1).astype(np.float64)
        size = math.sqrt(flat.dot(flat))
    else:
        size = float(torch.linalg.vector_norm(wide, dtype=torch.float64))
    if not math.isfinite(size):
        finite = bool(torch.isfinite(wide).all())
        size = float(norm(wide.double().nan_to_num(0.0, 0.0, 0.0).cpu().numpy()))
    return Difference(None, stats=equal_stats(tensor.numel()), finite=finite, rms=size / math.sqrt(tensor.numel()))


def _on_host(p: Array, t: Array, bits: int, relative: bool, harmless: Limit | None) -> Difference:
    pieces, count = Pieces(p.reshape(-1), t.reshape(-1), relative), p.size
    seen = pieces.all(harmless)
    stats = statistics(count, seen.different, seen.largest, seen.mean, seen.apart, seen.size, seen.top, bits)
    found = Difference(None if relative else pieces.distance.reshape(p.shape), stats=stats, finite=seen.finite, peaks=pieces.peaks)
    found.rms = seen.size / math.sqrt(count)
    if harmless is not None and seen.share <= SHARE * seen.size and not math.isnan(seen.far):  # NaN: 0 / 0, or a limit that is none
        found.beyond = max(seen.far, math.sqrt(seen.usual / count) / harmless.usual if seen.usual else 0.0)
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
        largest = max(largest, top_of(d), -smallest(d))
    return math.sqrt(apart), largest, math.sqrt(size)


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
    stats = statistics(p.numel(), int(different), largest, mean, apart, size, top, bits)
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


def statistics(
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


def stats_of(paddle: torch.Tensor, torch_: torch.Tensor) -> dict[str, Any]:
    """The statistics of two results; of dtypes that are not rounded how many differ."""
    if paddle.dtype in KINDS:
        return differ(paddle, torch_).stats
    return {"count": paddle.numel(), "different": int((~equal_in_value(paddle, torch_)).sum())}


def equal_stats(count: int) -> dict[str, Any]:
    """The statistics of two equal results."""
    return statistics(count, 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0)
