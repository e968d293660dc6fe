"""Extrema that skip NaN, as Paddle's kernels compare: with ``>`` and ``<``, beginning at the lowest finite number."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from padiff_shim.table.op import Fault

from ._windows import channels_last, numbers, paddings, same, to_first, to_last

_BOTTOM = {"amax": -math.inf, "amin": math.inf}


def scanned(n: int) -> dict[str, Fault]:
    """Maxima of windows over ``n`` axes: a NaN takes the place of what came before it, and gives way to what comes next."""

    def formula(own: Callable[..., Any], x: torch.Tensor, *rest: Any) -> torch.Tensor:
        size, stride, padding, _, _, form, kind, whole, adaptive, algorithm = rest
        if kind != "max" or adaptive:
            raise NotImplementedError("maxima of windows")
        last = channels_last(form, x, n)
        first = to_first(x, last)
        lengths, counts = first.shape[2:], to_first(own(x.detach(), *rest), last).shape[2:]
        if whole:
            size, stride, pads = list(lengths), [1] * n, [(0, 0)] * n
        else:
            size, stride = numbers(size, n, "kernel_size"), numbers(stride, n, "stride")
            pads = paddings(padding, algorithm, n, last=last) or same(lengths, size, stride)
        ends = [(count - 1) * step + 1 for count, step in zip(counts, stride)]
        beside = [(pad[0], end - 1 + window - length - pad[0]) for pad, end, window, length in zip(pads, ends, size, lengths)]
        flat = [number for pair in reversed(beside) for number in pair]
        laid, there = F.pad(first, flat), F.pad(torch.ones_like(first[:1, :1]), flat) > 0
        most = first.new_full((*first.shape[:2], *counts), torch.finfo(x.dtype).min)
        for offset in itertools.product(*map(range, size)):
            cut = (..., *(slice(begin, begin + end, step) for begin, end, step in zip(offset, ends, stride)))
            most = torch.where(there[cut] & ~(most > laid[cut]), laid[cut], most)
        return to_last(most, last)

    return {"nan-passed-over": Fault(formula, narrow=True)}


def _skipping(own: Callable[..., Any], x: torch.Tensor, *rest: Any) -> Any:
    """Maxima of what is larger than the lowest finite number."""
    lowest = torch.finfo(x.dtype).min
    return own(torch.where(x > lowest, x, lowest), *rest)


SKIPPED = {"nan-skipped": Fault(_skipping, narrow=True)}


def _put(
    own: Callable[..., Any], arr: torch.Tensor, indices: torch.Tensor, value: torch.Tensor, axis: int, kind: str, whole: bool
) -> torch.Tensor:
    """Extrema beside what is there already."""
    if kind not in _BOTTOM or not whole:
        raise NotImplementedError("extrema")
    return own(arr, indices, torch.where(value.isnan(), _BOTTOM[kind], value), axis, kind, whole)


PUT = {"nan-skipped": Fault(_put)}
