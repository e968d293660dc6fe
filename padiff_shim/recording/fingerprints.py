"""Fingerprints of tensors: a 64-bit hash of the bits and a few figures, computed in one pass over the values.

The hash is ``sum(weight[i] * (word[i] ^ word[i] >> 32)) mod 2**64`` over the tensor's bytes in C order as 64-bit words, the last
one filled up with zeros. Weights are odd, so tensors that differ in one word have different hashes; others collide with a
probability of at most 2**-33 where only signs differ, and 2**-64 where last digits do. A sum can be computed in any order, on any
device.

Figures are single numbers of at most six digits. ``projection`` is the sum of the elements with fixed signs: of two tensors it
differs by about the norm of their difference, so that a distance can be told where no values were written.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]
FIGURES = ("norm", "mean", "max_abs", "projection")
PERIOD = 2**15  # words after which weights repeat, times a weight of the block
SMALL = 2**14  # elements up to which tensors are copied and computed together
_HALF = np.uint64(32)


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
def block_weight(block: int) -> int:
    """The odd factor of a block's weights; 1 of the first."""
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


def fingerprint(array: Array, numbers: Array | None = None) -> Fingerprint:
    """The fingerprint of an array, block by block; ``numbers``: what its bits mean, if that is not the array itself.

    >>> fingerprint(np.array([3.0, -4.0], np.float32))[1:4]
    (5.0, -0.5, 4.0)
    """
    flat = np.ascontiguousarray(array).reshape(-1)
    content = flat.view(np.uint8)
    words = (
        np.concatenate([content, np.zeros(-len(content) % 8, np.uint8)]).view(np.uint64)
        if len(content) % 8
        else flat.view(np.uint64)
    )
    numbers = flat if numbers is None else np.ascontiguousarray(numbers).reshape(-1)
    numbers = numbers.view(numbers.real.dtype) if np.iscomplexobj(numbers) else numbers
    squares, total, projected, largest, bits = 0.0, 0.0, 0.0, 0.0, 0
    buffer = np.empty(min(PERIOD, len(words)), np.uint64)
    with np.errstate(all="ignore"):
        for block in range(max(-(-len(words) // PERIOD), -(-len(numbers) // (2 * PERIOD)))):
            chunk = words[PERIOD * block : PERIOD * (block + 1)]
            mixed = buffer[: len(chunk)]
            np.right_shift(chunk, _HALF, out=mixed)
            np.bitwise_xor(mixed, chunk, out=mixed)
            np.multiply(mixed, weights()[: len(chunk)], out=mixed)
            bits += block_weight(block) * int(mixed.sum())
            part = numbers[2 * PERIOD * block : 2 * PERIOD * (block + 1)]
            if len(part):
                part = part if part.dtype == np.float32 else part.astype(np.float64)
                squares += float(np.dot(part, part))
                total += float(part.sum())
                projected += float(np.dot(part, signs()[: len(part)]))
                largest = max(largest, float(part.max()), -float(part.min())) if largest == largest else largest
    norm = math.sqrt(squares) if squares >= 0 else squares
    return Fingerprint(bits % 2**64, norm, total / len(numbers) if len(numbers) else 0.0, largest, projected)


class StepFingerprints:
    """The fingerprints of steps, each of tensors in their order. Small tensors are copied, and computed in one pass over all.

    >>> steps = StepFingerprints()
    >>> steps.add(np.zeros(3, np.float32)); steps.add(np.ones((2, 2), np.float32)); steps.end_step()
    >>> ((bits, figures),) = steps.take()
    >>> [fingerprint(np.zeros(3, np.float32)).bits, fingerprint(np.ones((2, 2), np.float32)).bits] == bits.tolist()
    True
    """

    def __init__(self, device: Any = None) -> None:
        self._number = 0  # tensors since the last :meth:`take`
        self._ends: list[int] = []  # of the steps that have ended
        self._small: list[Array] = []  # that wait, their sizes and places
        self._sizes: list[int] = []
        self._places: list[int] = []
        self._ready: list[tuple[Sequence[int], Array, Array]] = []  # places, hashes and figures
        self._device = device  # a :class:`.device_fingerprints.DeviceFingerprints`, for tensors on a GPU
        self._on_device: list[int] = []

    def add(self, array: Array, numbers: Array | None = None) -> None:
        """One tensor, as of :func:`fingerprint`; its values may change afterwards."""
        if 0 < array.size <= SMALL and array.dtype == np.float32:
            self.add_small(array.copy())
            return
        bits, *figures = fingerprint(array, numbers)
        self._ready.append(([self._number], np.array([bits], np.uint64), np.array([figures])))
        self._number += 1

    def add_small(self, array: Array) -> None:
        """:meth:`add` of a float32 array of 1 to :data:`SMALL` elements that nobody changes."""
        self._small.append(array)
        self._sizes.append(array.size)
        self._places.append(self._number)
        self._number += 1

    def add_on_device(self, tensor: Any) -> None:
        """One tensor of Torch on a GPU."""
        self._on_device.append(self._number)
        self._device.add(tensor)
        self._number += 1

    def end_step(self) -> None:
        """What is added next belongs to the next step. Small steps wait for each other."""
        self._ends.append(self._number)
        if sum(self._sizes) >= SMALL:
            self._compute()

    def _compute(self) -> None:
        """Of the small tensors that wait."""
        for begin, end in _portions(sizes := tuple(self._sizes)):
            self._ready.append((self._places[begin:end], *_together(self._small[begin:end], sizes[begin:end])))
        self._small, self._sizes, self._places = [], [], []

    def take(self) -> list[tuple[Array, Array]]:
        """Hashes (uint64) and figures (float64, a row of :data:`FIGURES` each) of the steps that have ended, once."""
        self._compute()
        bits, figures = np.zeros(self._number, np.uint64), np.zeros((self._number, len(FIGURES)))
        if self._device is not None:
            self._ready.append((self._on_device, *self._device.take()))
        for places, hashes, rows in self._ready:
            bits[places], figures[places] = hashes, rows
        spans = itertools.pairwise([0, *self._ends])
        self._number, self._ends, self._ready, self._on_device = 0, [], [], []
        return [(bits[begin:end], figures[begin:end]) for begin, end in spans]


_TOGETHER = 2**16  # elements of small tensors that are computed in one pass: as many as a processor's cache holds
_BLOCK = 16  # elements that are summed first, by a product with ones


class _Layout(NamedTuple):
    """Tensors one behind the other, each a whole number of blocks long."""

    starts: Array  # the first element of each
    weights: Array  # of each word
    signs: Array  # of each element
    sizes: Array
    pads: list[tuple[int, bytes]]  # places of zeros among the tensors, the last first


@functools.lru_cache(maxsize=64)
def _layout(sizes: tuple[int, ...]) -> _Layout:
    padded = [-(-size // _BLOCK) * _BLOCK for size in sizes]
    weighted = np.concatenate([weights()[: size // 2] for size in padded])
    pads = [(place + 1, bytes(4 * (room - size))) for place, (size, room) in enumerate(zip(sizes, padded)) if room > size]
    signed = np.concatenate([signs()[:size] for size in padded])
    return _Layout(np.cumsum([0, *padded[:-1]]), weighted, signed, np.array(sizes), pads[::-1])


@functools.lru_cache(maxsize=64)
def _portions(sizes: tuple[int, ...]) -> list[tuple[int, int]]:
    """From which tensor to which they are computed at once."""
    ends, elements = [0], 0
    for place, size in enumerate(sizes, 1):
        elements += size
        if elements >= _TOGETHER or place == len(sizes):
            ends.append(place)
            elements = 0
    return list(itertools.pairwise(ends))


_ONES = np.ones(_BLOCK, np.float32)


def _together(arrays: Sequence[Array], sizes: tuple[int, ...]) -> tuple[Array, Array]:
    """Hashes and figures of float32 arrays, a row each. Zeros behind a tensor change neither."""
    layout = _layout(sizes)
    parts: list[Any] = list(arrays)
    for place, zeros in layout.pads:
        parts.insert(place, zeros)
    try:
        content = b"".join(parts)
    except TypeError:  # an array lies otherwise
        content = b"".join([part if isinstance(part, bytes) else part.tobytes() for part in parts])
    values = np.frombuffer(content, np.float32)
    words, starts, blocks = values.view(np.uint64), layout.starts, layout.starts // _BLOCK
    room = np.empty(len(values), np.float32)
    mixed = room.view(np.uint64)
    np.right_shift(words, _HALF, out=mixed)
    np.bitwise_xor(mixed, words, out=mixed)
    np.multiply(mixed, layout.weights, out=mixed)
    bits = np.add.reduceat(mixed, starts // 2)
    figures = np.empty((len(starts), len(FIGURES)))
    with np.errstate(all="ignore"):
        np.multiply(values, values, out=room)
        figures[:, 0] = np.sqrt(np.add.reduceat(room.reshape(-1, _BLOCK) @ _ONES, blocks))
        figures[:, 1] = np.add.reduceat(values.reshape(-1, _BLOCK) @ _ONES, blocks) / layout.sizes
        np.abs(values, out=room)
        figures[:, 2] = np.maximum.reduceat(room, starts)
        np.multiply(values, layout.signs, out=room)
        figures[:, 3] = np.add.reduceat(room.reshape(-1, _BLOCK) @ _ONES, blocks)
    return bits, figures
