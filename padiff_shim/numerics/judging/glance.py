"""What :mod:`.passes` says of two results on the host that are no further apart than needs no oracle: most are so.

The same figures, bit for bit, in fewer steps: of large tensors the arithmetic is what costs, of small ones the number of steps.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from ..oracle.limits import Limit
from ..oracle.precision import Array
from .passes import SHARE, statistics
from .pieces import CHUNK, smallest, top_of, unequal

_FORMATS = {torch.float32: np.float32, torch.float64: np.float64}


class _Format:
    """What is to be known of a dtype."""

    __slots__ = ("bits", "floor", "least", "ones")

    def __init__(self, kind: Any) -> None:
        about = np.finfo(kind)
        self.bits = about.nmant + 1
        self.floor, self.least = kind(2.0 * float(about.tiny) / float(about.eps)), float(about.tiny) / float(about.eps)
        self.ones = np.ones(CHUNK, kind)


_ABOUT = {dtype: _Format(kind) for dtype, kind in _FORMATS.items()}


def _flat(tensor: torch.Tensor) -> Array:
    tensor = tensor.detach() if tensor.requires_grad else tensor
    return tensor.contiguous().numpy().reshape(-1)


def glance(paddle: torch.Tensor, torch_: torch.Tensor, harmless: Limit) -> tuple[dict[str, Any], float] | None:
    """The statistics, and the largest difference beside what is ``harmless``; None where that is more than 1, or not said here.

    NumPy's warnings are the caller's to keep quiet.
    """
    about, count = _ABOUT.get(paddle.dtype), paddle.numel()
    if about is None or not 0 < count <= CHUNK or paddle.is_cuda:
        return None
    p, t = _flat(paddle), _flat(torch_)
    d = np.subtract(p, t)
    squares, total = float(d.dot(d)), float(t.dot(t))
    if not (about.least < squares < math.inf and about.least < total < math.inf):
        return None  # a NaN, or a number that has no square
    size = math.sqrt(total)
    np.abs(d, out=d)
    r = np.abs(t)
    normal = bool(smallest(r) >= about.floor)
    if not normal:
        np.maximum(r, about.floor, out=r)
    np.divide(d, r, out=r)
    top = float(top_of(r))
    if harmless.relative and normal:
        beyond, share = top / harmless.relative, harmless.relative * size
    else:
        limit = harmless.between(0, count).numpy()
        beyond, share = float(top_of(np.divide(d, limit, out=r))), math.sqrt(float(limit.dot(limit)))
        if harmless.usual < math.inf and (usual := float(r.dot(r))):
            beyond = max(beyond, math.sqrt(usual / count) / harmless.usual)
    if not (beyond <= 1.0 and share <= SHARE * size):  # NaN: 0 / 0, or a limit that is none
        return None
    mean = float(d.dot(about.ones[:count])) / count
    largest = float(top_of(d))
    return statistics(count, unequal(d), largest, mean, math.sqrt(squares), size, top, about.bits), beyond
