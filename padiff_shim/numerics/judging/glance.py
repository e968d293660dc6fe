"""What :mod:`.passes` says of two results on the host that are no further apart than needs no oracle: most are so.

The same figures, bit for bit, in fewer steps: of large tensors the arithmetic is what costs, of small ones the number of steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ..oracle.few import Few
from ..oracle.limits import Limit
from ..oracle.precision import Array
from .passes import SHARE, statistics
from .pieces import CHUNK, unequal

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
    about = _ABOUT.get(paddle.dtype)
    if about is None or not 0 < paddle.numel() <= CHUNK or paddle.is_cuda:
        return None
    return _look(about, _flat(paddle), _flat(torch_), harmless.relative, harmless, harmless.usual)


def glance_at_few(
    paddle: torch.Tensor, torch_: torch.Tensor, few: Few, arrays: Callable[[int], Array]
) -> tuple[dict[str, Any], float] | None:
    """:func:`glance` at two small results on the host, by a bound that is made in NumPy. ``arrays``: see :meth:`Few.of`."""
    own = (torch_.detach() if torch_.requires_grad else torch_).contiguous().numpy()
    found = few.of(own, arrays)
    return None if found is None else _look(_ABOUT[torch_.dtype], _flat(paddle), own.reshape(-1), *found)


def _look(
    about: _Format, p: Array, t: Array, relative: float, harmless: Limit | Array | None, usual: float
) -> tuple[dict[str, Any], float] | None:
    """``relative``, ``usual``: as :class:`Limit` has them; ``harmless``: the limit, or its values."""
    count = t.size
    d = np.subtract(p, t)
    squares, total = d.dot(d).item(), t.dot(t).item()
    if not (about.least < squares < math.inf and about.least < total < math.inf):
        return None  # a NaN, or a number that has no square
    size = math.sqrt(total)
    np.absolute(d, d)
    r = np.absolute(t)
    normal = r.item(r.argmin()) >= about.floor
    if not normal:
        np.maximum(r, about.floor, out=r)
    np.divide(d, r, r)
    top = r.item(r.argmax())
    if relative and normal:
        beyond, share = top / relative, relative * size
    else:
        limit = harmless.between(0, count).numpy() if isinstance(harmless, Limit) else harmless
        if limit is None:
            return None
        np.divide(d, limit, r)
        beyond, share = r.item(r.argmax()), math.sqrt(limit.dot(limit).item())
        if usual < math.inf and (far := r.dot(r).item()):
            beyond = max(beyond, math.sqrt(far / count) / usual)
    if not (beyond <= 1.0 and share <= SHARE * size):  # NaN: 0 / 0, or a limit that is none
        return None
    mean = d.dot(about.ones[:count]).item() / count
    return statistics(count, unequal(d), d.item(d.argmax()), mean, math.sqrt(squares), size, top, about.bits), beyond
