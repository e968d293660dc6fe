"""Sizes of the models: as in the reports where it matters for rounding, else small."""

from __future__ import annotations

from typing import NamedTuple


class Ctrl(NamedTuple):
    """CTRL (Keskar et al. 2019): all 48 layers, and its head size of 80, which makes the scores' divisor sqrt(80)."""

    layers: int = 48
    width: int = 160
    heads: int = 2
    feed_forward: int = 640
    vocabulary: int = 512
    positions: int = 256
    epsilon: float = 1e-6


class Reformer(NamedTuple):
    """Reformer (Kitaev et al. 2020) for `length` tokens, whose positions are axial.

    With a head size of 64 `/ sqrt(head_size)` and `* rsqrt(head_size)`, which published ports use, are the same number.
    """

    attention: tuple[str, ...] = ("local", "local")
    width: int = 128
    heads: int = 2
    head_size: int = 64
    chunk: int = 16
    feed_forward: int = 512
    vocabulary: int = 320
    axes: tuple[int, int] = (8, 8)
    epsilon: float = 1e-12

    @property
    def length(self) -> int:
        return self.axes[0] * self.axes[1]
