"""Fingerprints of tensors: a 64-bit hash of the bits and a few figures, computed in one pass over the values.

The hash is ``sum(weight[i] * (word[i] ^ word[i] >> 32)) mod 2**64`` over the tensor's bytes in C order as 64-bit words, the last
one filled up with zeros. Weights are odd, so tensors that differ in one word have different hashes; others collide with a
probability of at most 2**-33 where only signs differ, and 2**-64 where last digits do. Numbers without digits, as tensors full of
ones or of twos have, leave few bits of it: there the largest magnitude tells. A sum can be computed in any order, on any device.

Figures are single numbers of at most six digits. ``projection`` is the sum of the elements with fixed signs: of two tensors it
differs by about the norm of their difference, so that a distance can be told where no values were written.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..trees import numbers

Array = np.ndarray[Any, Any]
FIGURES = ("norm", "mean", "max_abs", "projection")
PERIOD = 2**15  # words after which weights repeat, times a weight of the block
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


def fingerprint(array: Array, meant: Array | None = None) -> Fingerprint:
    """The fingerprint of an array, block by block; ``meant``: the numbers of its bits, if that is not the array itself.

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
    known = flat if meant is None else np.ascontiguousarray(meant).reshape(-1)
    known = known.view(known.real.dtype) if np.iscomplexobj(known) else known
    squares, total, projected, largest, bits = 0.0, 0.0, 0.0, 0.0, 0
    buffer = np.empty(min(PERIOD, len(words)), np.uint64)
    with np.errstate(all="ignore"):
        for block in range(max(-(-len(words) // PERIOD), -(-len(known) // (2 * PERIOD)))):
            chunk = words[PERIOD * block : PERIOD * (block + 1)]
            mixed = buffer[: len(chunk)]
            np.right_shift(chunk, _HALF, out=mixed)
            np.bitwise_xor(mixed, chunk, out=mixed)
            np.multiply(mixed, weights()[: len(chunk)], out=mixed)
            bits += block_weight(block) * int(mixed.sum())
            part = known[2 * PERIOD * block : 2 * PERIOD * (block + 1)]
            if len(part):
                part = part if part.dtype == np.float32 else part.astype(np.float64)
                squares += float(np.dot(part, part))
                total += float(part.sum())
                projected += float(np.dot(part, signs()[: len(part)]))
                largest = max(largest, float(part.max()), -float(part.min())) if largest == largest else largest
    norm = math.sqrt(squares) if squares >= 0 else squares
    return Fingerprint(bits % 2**64, norm, total / len(known) if len(known) else 0.0, largest, projected)


class StepFingerprints:
    """The fingerprints of steps, each of tensors in their order. Small tensors are copied, and computed many at a time.

    >>> steps = StepFingerprints()
    >>> steps.add(np.zeros(3, np.float32), "float32"); steps.add(np.ones((2, 2), bool), "bool"); steps.end_step()
    >>> ((bits, figures),) = steps.take()
    >>> [fingerprint(np.zeros(3, np.float32)).bits, fingerprint(np.ones((2, 2), bool)).bits] == bits.tolist()
    True
    """

    def __init__(self, device: Any = None) -> None:
        self._number = 0  # tensors since the last :meth:`take`
        self._ends: list[int] = []  # of the steps that have ended
        self._waiting: dict[str, _Waiting] = {}  # by dtype
        self._ready: list[Computed] = []
        self._device = device  # a :class:`.device_fingerprints.DeviceFingerprints`, for tensors on a GPU
        self._on_device: list[int] = []

    def add(self, array: Array, dtype: str) -> None:
        """One tensor by its elements and the name of their dtype, as of :func:`..trees.elements`; it may change afterwards."""
        if dtype in STORED and 0 < array.nbytes <= SMALL:
            array = np.ascontiguousarray(array)
            self.add_memory(array.ctypes.data, array.size, dtype)
            return
        bits, *figures = fingerprint(array, numbers(array, dtype))
        self._ready.append(([self._number], np.array([bits], np.uint64), np.array([figures])))
        self._number += 1

    def add_memory(self, address: int, size: int, dtype: str) -> None:
        """:meth:`add` of at least one element of a dtype of :data:`STORED`; they lie there in C order."""
        waiting = self._waiting.get(dtype) or self._waiting.setdefault(dtype, _Waiting(dtype))
        if size * waiting.width > SMALL:
            memory: Any = (ctypes.c_char * (size * waiting.width)).from_address(address)
            self.add(np.frombuffer(memory, STORED[dtype]), dtype)
            return
        waiting.add(address, size, self._number)
        self._number += 1

    def add_on_device(self, tensor: Any) -> None:
        """One tensor of Torch on a GPU."""
        self._on_device.append(self._number)
        self._device.add(tensor)
        self._number += 1

    def end_step(self) -> None:
        """What is added next belongs to the next step."""
        self._ends.append(self._number)
        for waiting in self._waiting.values():
            waiting.end_step()

    def take(self) -> list[tuple[Array, Array]]:
        """Hashes (uint64) and figures (float64, a row of :data:`FIGURES` each) of the steps that have ended, once."""
        bits, figures = np.zeros(self._number, np.uint64), np.zeros((self._number, len(FIGURES)))
        if self._device is not None:
            self._ready.append((self._on_device, *self._device.take()))
        for places, hashes, rows in itertools.chain(self._ready, *(waiting.take() for waiting in self._waiting.values())):
            bits[places], figures[places] = hashes, rows
        spans = itertools.pairwise([0, *self._ends])
        self._number, self._ends, self._ready, self._on_device = 0, [], [], []
        return [(bits[begin:end], figures[begin:end]) for begin, end in spans]


class _Waiting:
    """Small tensors of one dtype, one behind the other in memory, whole blocks each.

    They wait for several steps: code and tables that were used last run in a third of the time.
    """

    def __init__(self, dtype: str) -> None:
        self._dtype, self.width = dtype, np.dtype(STORED[dtype]).itemsize
        self._memory = np.zeros(_MEMORY + _PORTION + SMALL, np.uint8)
        self._room = np.empty(_PORTION + SMALL, np.uint8)
        self._address, self._filled = self._memory.ctypes.data, 0
        self._portions: list[tuple[int, list[int], list[int]]] = []  # computed at once: where they begin, sizes and places
        self._begin, self._sizes, self._places = 0, list[int](), list[int]()  # of the portion that is filled
        self._ends_with_step = False  # a portion of this step is full already
        self._ready: list[Computed] = []

    def add(self, address: int, size: int, place: int) -> None:
        """Copy the elements that lie there."""
        filled, length = self._filled, size * self.width
        ctypes.memmove(self._address + filled, address, length)
        filled += length
        if rest := length % _BLOCK:
            self._memory[filled : filled + _BLOCK - rest] = 0
            filled += _BLOCK - rest
        self._filled = filled
        self._sizes.append(size)
        self._places.append(place)
        if filled - self._begin >= _PORTION:
            self._ends_with_step = True
            self._end_portion()

    def end_step(self) -> None:
        """Portions of all steps are alike, so that their layouts are known; steps that are smaller share one."""
        if self._ends_with_step or self._filled - self._begin >= SMALL:
            self._ends_with_step = False
            self._end_portion()

    def _end_portion(self) -> None:
        if self._sizes:
            self._portions.append((self._begin, self._sizes, self._places))
            self._begin, self._sizes, self._places = self._filled, [], []
            if self._filled >= _MEMORY:
                self._compute()

    def _compute(self) -> None:
        for begin, sizes, places in self._portions:
            self._ready.append((places, *_together(self._memory[begin:], self._room, tuple(sizes), self._dtype)))
        self._portions, self._begin, self._filled = [], 0, 0

    def take(self) -> list[Computed]:
        """What is known of all of them, once."""
        self._end_portion()
        self._compute()
        ready, self._ready = self._ready, []
        return ready


Computed = tuple[Sequence[int], Array, Array]  # places of tensors, their hashes and figures
STORED = {  # names of dtypes -> of the bits in memory
    name: "uint16" if name == "bfloat16" else name
    for name in ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")
}
SMALL = 2**16  # bytes up to which tensors are copied and computed together
_PORTION = 2**18  # bytes that are computed in one pass: as many as a processor's cache holds
_MEMORY = 2**22  # bytes that wait
_BLOCK = 64  # bytes whose elements are summed first, by a product with ones


class _Layout(NamedTuple):
    """Tensors one behind the other, each a whole number of blocks long."""

    starts: Array  # the first element of each
    weights: Array  # of each word
    signs: Array  # of each element
    sizes: Array


@functools.lru_cache(maxsize=64)
def _layout(sizes: tuple[int, ...], block: int) -> _Layout:
    padded = [-(-size // block) * block for size in sizes]
    weighted = np.concatenate([weights()[: size // block * (_BLOCK // 8)] for size in padded])
    signed = np.concatenate([signs()[:size] for size in padded])
    return _Layout(np.cumsum([0, *padded[:-1]]), weighted, signed, np.array(sizes))


def _together(memory: Array, room: Array, sizes: tuple[int, ...], dtype: str) -> tuple[Array, Array]:
    """Hashes and figures of tensors of these sizes, a row each. Zeros behind a tensor change neither."""
    stored = memory.view(STORED[dtype])
    block = _BLOCK // stored.itemsize
    layout = _layout(sizes, block)
    starts, blocks = layout.starts, layout.starts // block
    content = memory[: 8 * len(layout.weights)]
    words, mixed = content.view(np.uint64), room[: len(content)].view(np.uint64)
    np.right_shift(words, _HALF, out=mixed)
    np.bitwise_xor(mixed, words, out=mixed)
    np.multiply(mixed, layout.weights, out=mixed)
    bits = np.add.reduceat(mixed, blocks * (_BLOCK // 8))
    figures = np.empty((len(starts), len(FIGURES)))
    values = stored[: len(layout.signs)]
    if dtype == "float32":
        products = mixed.view(np.float32)
    else:
        values = numbers(values, dtype).astype(np.float64)
        products = np.empty_like(values)
    ones = np.ones(block, values.dtype)
    with np.errstate(all="ignore"):
        np.multiply(values, values, out=products)
        figures[:, 0] = np.sqrt(np.add.reduceat(products.reshape(-1, block) @ ones, blocks))
        figures[:, 1] = np.add.reduceat(values.reshape(-1, block) @ ones, blocks) / layout.sizes
        np.abs(values, out=products)
        figures[:, 2] = np.maximum.reduceat(products, starts)
        np.multiply(values, layout.signs, out=products)
        figures[:, 3] = np.add.reduceat(products.reshape(-1, block) @ ones, blocks)
    return bits, figures
