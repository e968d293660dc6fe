"""Fingerprints of tensors: a 64-bit hash of the bits and a few figures, computed in one pass over the values.

The hash is ``sum(weight[i] * (word[i] ^ word[i] >> 32)) mod 2**64`` over the tensor's bytes in C order as 64-bit words, the last one
filled up with zeros. Weights are odd, so tensors that differ in one word have different hashes; others collide with a probability
of at most 2**-33 where only signs differ, and 2**-64 where last digits do. A sum can be computed in any order, on any device.

Figures are single numbers of at most six digits. ``projection`` is the sum of the elements with fixed signs: of two tensors it
differs by about the norm of their difference, so that a distance can be told where no values were written.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]
FIGURES = ("norm", "mean", "max_abs", "projection")
PERIOD = 2**15  # words after which weights repeat, times a weight of the block
TINY = 1024  # elements up to which tensors of a step are computed together
_MASK = np.uint64(32)


def _mixed(numbers: Array) -> Array:
    """SplitMix64: well mixed 64-bit words of the numbers from 0 on."""
    words = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(words ^ (words >> np.uint64(31)))


@functools.cache
def weights() -> Array:
    """Of the words of a block."""
    return _mixed(np.arange(PERIOD)) | np.uint64(1)


@functools.lru_cache(maxsize=4096)
def _block_weight(block: int) -> int:
    return int(_mixed(np.array([PERIOD + block]))[0]) | 1 if block else 1


@functools.cache
def signs() -> Array:
    """1.0 or -1.0 for the elements of a block, as float32."""
    return (1.0 - 2.0 * (_mixed(np.arange(2 * PERIOD) + 2**40) >> np.uint64(63))).astype(np.float32)


class Fingerprint(NamedTuple):
    """Of one tensor."""

    bits: int
    norm: float
    mean: float
    max_abs: float
    projection: float


def fingerprint(array: Array) -> Fingerprint:
    """The fingerprint of an array of numbers; bfloat16 as uint16 gets no figures of use, see :func:`of_bfloat16`.

    >>> fingerprint(np.array([3.0, -4.0], np.float32))[1:4]
    (5.0, -0.5, 4.0)
    """
    flat = np.ascontiguousarray(array).reshape(-1)
    if flat.dtype != np.float32:
        return Fingerprint(_hash(flat.view(np.uint8)), *_figures_of_any(flat))
    size, total, squares, projected, largest = flat.size, 0.0, 0.0, 0.0, 0.0
    bits, signed, ones = 0, signs(), _ones()
    words = flat[: size // 2 * 2].view(np.uint64)
    weighted, buffer = weights(), np.empty(min(PERIOD, len(words)), np.uint64)
    with np.errstate(all="ignore"):
        for block in range(-(-size // (2 * PERIOD))):
            part = flat[2 * PERIOD * block : 2 * PERIOD * (block + 1)]
            squares += float(np.dot(part, part))
            total += float(np.dot(part, ones[: len(part)]))
            projected += float(np.dot(part, signed[: len(part)]))
            largest = max(largest, float(part.max()), -float(part.min())) if largest == largest else largest
            chunk = words[PERIOD * block : PERIOD * (block + 1)]
            bits += _block_weight(block) * _weighted(chunk, weighted, buffer)
    if size % 2:
        last = size // 2
        bits += _block_weight(last // PERIOD) * int(weighted[last % PERIOD]) * int(flat[-1:].view(np.uint32)[0])
    return Fingerprint(bits % 2**64, *_rounded(squares, total, size, largest, projected))


@functools.cache
def _ones() -> Array:
    return np.ones(2 * PERIOD, np.float32)


def _weighted(words: Array, weighted: Array, buffer: Array) -> int:
    room = buffer[: len(words)]
    np.right_shift(words, _MASK, out=room)
    np.bitwise_xor(room, words, out=room)
    np.multiply(room, weighted[: len(words)], out=room)
    return int(room.sum())


def _hash(content: Array) -> int:
    """Of bytes."""
    whole = np.zeros(-(-len(content) // 8), np.uint64)
    whole.view(np.uint8)[: len(content)] = content
    buffer, bits = np.empty(min(PERIOD, len(whole)), np.uint64), 0
    for block in range(-(-len(whole) // PERIOD)):
        bits += _block_weight(block) * _weighted(whole[PERIOD * block : PERIOD * (block + 1)], weights(), buffer)
    return bits % 2**64


def _figures_of_any(flat: Array) -> tuple[float, float, float, float]:
    if not flat.size:
        return 0.0, 0.0, 0.0, 0.0
    with np.errstate(all="ignore"):
        wide = flat.view(flat.real.dtype) if np.iscomplexobj(flat) else flat
        wide = wide.astype(np.float64)
        repeats = -(-len(wide) // len(signs()))
        projected = float(np.dot(wide, np.tile(signs(), repeats)[: len(wide)]))
        return _rounded(float(np.dot(wide, wide)), float(wide.sum()), len(wide), float(np.abs(wide).max()), projected)


def _rounded(squares: float, total: float, size: int, largest: float, projected: float) -> tuple[float, float, float, float]:
    norm = math.sqrt(squares) if squares >= 0 else squares
    return norm, total / size if size else 0.0, largest, projected


def of_bfloat16(words: Array) -> Fingerprint:
    """The fingerprint of a bfloat16 tensor, from its bits as uint16."""
    flat = np.ascontiguousarray(words).reshape(-1)
    wide = (flat.astype(np.uint32) << 16).view(np.float32)
    return Fingerprint(_hash(flat.view(np.uint8)), *_figures_of_any(wide))


class StepFingerprints:
    """The fingerprints of a step's tensors, in their order; tiny ones of float32 are copied and computed together.

    >>> step = StepFingerprints()
    >>> step.add(np.zeros(3, np.float32)); step.add(np.ones((2, 2), np.float32))
    >>> bits, figures = step.take()
    >>> [fingerprint(np.zeros(3, np.float32)).bits, fingerprint(np.ones((2, 2), np.float32)).bits] == bits.tolist()
    True
    """

    def __init__(self) -> None:
        self._bits: list[int] = []
        self._figures: list[Sequence[float]] = []
        self._places: list[int] = []  # of tiny tensors, among all
        self._sizes: list[int] = []
        self._arena = np.zeros(2**16, np.float32)
        self._end = 0
        self._device: Any = None  # collects those on a GPU
        self._on_device: list[int] = []  # their places
        self._layouts: dict[tuple[int, ...], tuple[Array, Array, Array, Array]] = {}

    def __len__(self) -> int:
        return len(self._bits)

    def add(self, array: Array, *, bfloat16: bool = False) -> None:
        """One tensor; its values may change afterwards. ``bfloat16``: they are its bits as uint16."""
        size = array.size
        if size > TINY or array.dtype != np.float32 or bfloat16:
            made = of_bfloat16(array) if bfloat16 else fingerprint(array)
            self._bits.append(made.bits)
            self._figures.append(made[1:])
            return
        begin = self._end
        end = begin + max(2, size + size % 2)
        if end > len(self._arena):
            self._arena = np.concatenate([self._arena, np.zeros_like(self._arena)])
        arena = self._arena
        arena[begin : begin + size] = array.reshape(-1)
        arena[begin + size : end] = 0.0
        self._end = end
        self._places.append(len(self._bits))
        self._sizes.append(size)
        self._bits.append(0)
        self._figures.append(())

    def add_on_device(self, tensor: Any) -> None:
        """One tensor of Torch on a GPU."""
        from .device_fingerprints import DeviceFingerprints

        if self._device is None:
            self._device = DeviceFingerprints()
        self._on_device.append(len(self._bits))
        self._device.add(tensor)
        self._bits.append(0)
        self._figures.append(())

    def take(self) -> tuple[Array, Array]:
        """Hashes (uint64) and figures (float64, a row of :data:`FIGURES` each) of all that were added; begins anew."""
        bits = np.array(self._bits, np.uint64)
        figures = np.zeros((len(bits), len(FIGURES)))
        if self._sizes:
            bits[self._places], tiny = self._tiny()
            for place, row in zip(self._places, tiny.tolist()):
                self._figures[place] = row
        if self._on_device:
            bits[self._on_device], there = self._device.take()
            for place, row in zip(self._on_device, there.tolist()):
                self._figures[place] = row
            self._on_device = []
        if len(bits):
            figures[:] = self._figures
        self._bits, self._figures, self._places, self._sizes, self._end = [], [], [], [], 0
        return bits, figures

    def _tiny(self) -> tuple[Array, Array]:
        starts, sizes, weighted, signed = self._layout(tuple(self._sizes))
        values = self._arena[: self._end]
        words = values.view(np.uint64)
        mixed = words >> _MASK
        mixed ^= words
        mixed *= weighted
        bits = np.add.reduceat(mixed, starts >> 1)
        with np.errstate(all="ignore"):
            figures = np.stack([
                np.sqrt(np.add.reduceat(values * values, starts, dtype=np.float64)),
                np.add.reduceat(values, starts, dtype=np.float64) / sizes,
                np.maximum.reduceat(np.abs(values), starts),
                np.add.reduceat(values * signed, starts, dtype=np.float64),
            ], 1)  # fmt: skip
        return bits, figures

    def _layout(self, sizes: tuple[int, ...]) -> tuple[Array, Array, Array, Array]:
        """Where the tiny tensors of a step begin, their sizes, and the weights and signs of their elements; it seldom changes."""
        layout = self._layouts.get(sizes)
        if layout is None:
            room = [max(2, size + size % 2) for size in sizes]
            starts = np.cumsum([0, *room[:-1]])
            layout = (
                starts,
                np.maximum(np.array(sizes), 1),
                np.concatenate([weights()[: length // 2] for length in room]),
                np.concatenate([signs()[:length] for length in room]),
            )
            if len(self._layouts) >= 8:
                self._layouts.clear()
            self._layouts[sizes] = layout
        return layout
