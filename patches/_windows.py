"""Sizes, paddings and data formats of convolutions and pools, in all of Paddle's spellings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

FORMATS = {1: ("NCL", "NLC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}
Pads = list[tuple[int, int]]


def numbers(value: Any, n: int, what: str) -> list[int]:
    """Paddle's int or sequence as ``n`` ints; a tensor is read.

    Raises:
        ValueError: it has another length.
    """
    if hasattr(value, "tolist"):
        value = value.tolist()
    numbers = [int(number) for number in value] if isinstance(value, (list, tuple)) else [int(value)] * n
    if len(numbers) != n:
        raise ValueError(f"{what} has {len(numbers)} elements instead of {n}")
    return numbers


def channels_last(data_format: str, x: torch.Tensor, n: int) -> bool:
    """Whether the channels of ``x`` are its last axis.

    Raises:
        ValueError: a format of another number of axes, or an operand with another number of them.
    """
    if data_format not in FORMATS[n] or x.ndim != n + 2:
        raise ValueError(f"data format {data_format!r} and {x.ndim} axes: expected {FORMATS[n]} and {n + 2} axes")
    return data_format == FORMATS[n][1]


def to_first(x: torch.Tensor, last: bool) -> torch.Tensor:
    """Channels to where Torch has them."""
    return x.movedim(-1, 1) if last else x


def to_last(x: torch.Tensor, last: bool) -> torch.Tensor:
    """Channels back to where Paddle has them."""
    return x.movedim(1, -1) if last else x


def paddings(padding: Any, algorithm: str | None, n: int, *, last: bool) -> Pads | None:
    """Paddle's padding as (before, after) of each spatial axis; None is ``"SAME"``, for which operand and window are needed.

    It is a number, one or two for each axis, a pair for each axis with batch and channels, or the name of an algorithm;
    ``algorithm`` is where Paddle's C functions have that name.
    """
    if isinstance(padding, str) or algorithm in ("SAME", "VALID"):
        chosen = padding.upper() if isinstance(padding, str) else algorithm
        if chosen not in ("SAME", "VALID"):
            raise ValueError(f"padding {padding!r} is neither 'SAME' nor 'VALID'")
        return None if chosen == "SAME" else [(0, 0)] * n
    if hasattr(padding, "tolist"):
        padding = padding.tolist()
    if not isinstance(padding, (list, tuple)):
        padding = [padding] * n
    if len(padding) == n + 2 and isinstance(padding[0], (list, tuple)):
        pairs = [tuple(int(width) for width in pair) for pair in padding]
        if any(pairs[0] + pairs[-1 if last else 1]):
            raise ValueError("padding of batch or channels")
        return [(before, after) for before, after in (pairs[1:-1] if last else pairs[2:])]
    if len(padding) == n:
        return [(int(width), int(width)) for width in padding]
    if len(padding) == 2 * n:
        return [(int(before), int(after)) for before, after in zip(padding[::2], padding[1::2])]
    raise ValueError(f"padding {padding!r} for {n} axes")


def same(sizes: Sequence[int], kernel: Sequence[int], stride: Sequence[int]) -> Pads:
    """The paddings with which every ``stride``-th element has a window: the odd one goes behind."""
    total = [max((-(-size // step) - 1) * step + window - size, 0) for size, window, step in zip(sizes, kernel, stride)]
    return [(width // 2, width - width // 2) for width in total]


def padded(x: torch.Tensor, pads: Pads, value: float = 0.0, *, rest: bool = False) -> tuple[torch.Tensor, list[int]]:
    """The operand and the ``padding=`` that Torch is given: unequal paddings are in the operand then, as in a Torch program.

    ``rest``: only what one side has more than the other is in the operand, as in Torch's own ``padding="same"``.
    """
    if min(min(pair) for pair in pads) < 0:
        raise ValueError("negative padding")
    if all(before == after for before, after in pads):
        return x, [before for before, _ in pads]
    common = [min(pair) if rest else 0 for pair in pads]
    return F.pad(x, [width - both for pair, both in zip(pads[::-1], common[::-1]) for width in pair], value=value), common
