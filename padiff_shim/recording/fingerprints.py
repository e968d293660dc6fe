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
import sys
from collections.abc import Callable, Sequence
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


@functools.cache
def _ones() -> Array:
    return np.ones(2 * PERIOD, np.float32)


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
        self.number = 0  # of the next tensor, from the last :meth:`take` on
        self._ends: list[int] = []  # of the steps that have ended
        self._rows: dict[tuple[int, str], WaitingRows] = {}  # by size and dtype
        self.waiting: list[WaitingRows] = []  # those that hold tensors
        self.ready: list[Computed] = []
        self._device = device  # a :class:`.device_fingerprints.DeviceFingerprints`, for tensors on a GPU
        self._on_device: list[int] = []

    def add(self, array: Array, dtype: str) -> None:
        """One tensor by its elements and the name of their dtype, as of :func:`..trees.elements`; it may change afterwards."""
        if dtype in STORED and 0 < array.nbytes <= SMALL:
            array = np.ascontiguousarray(array)
            self.adder(array.size, dtype)(array.ctypes.data)
            return
        bits, *figures = fingerprint(array, numbers(array, dtype))
        self.ready.append(([self.number], np.array([bits], np.uint64), np.array([figures])))
        self.number += 1

    def adder(self, size: int, dtype: str) -> Callable[[int], None]:
        """What adds a tensor of at least one element of a dtype of :data:`STORED` by its address, where they lie in C order."""
        length = size * np.dtype(STORED[dtype]).itemsize
        if length > SMALL:
            memory: Any = ctypes.c_char * length
            return lambda address: self.add(np.frombuffer(memory.from_address(address), STORED[dtype]), dtype)
        rows = self._rows.get((size, dtype))
        if rows is None:
            rows = self._rows[size, dtype] = WaitingRows(self, size, dtype)
        return rows.copy

    def add_on_device(self, tensor: Any) -> None:
        """One tensor of Torch on a GPU."""
        self._on_device.append(self.number)
        self._device.add(tensor)
        self.number += 1

    def end_step(self) -> None:
        """What is added next belongs to the next step."""
        self._ends.append(self.number)

    def take(self) -> list[tuple[Array, Array]]:
        """Hashes (uint64) and figures (float64, a row of :data:`FIGURES` each) of the steps that have ended, once."""
        bits, figures = np.zeros(self.number, np.uint64), np.zeros((self.number, len(FIGURES)))
        if self._device is not None:
            self.ready.append((self._on_device, *self._device.take()))
        for rows in self.waiting:
            rows.compute()
        if self.ready:
            places, hashes, of_rows = zip(*self.ready)
            order = list(itertools.chain(*places))
            bits[order], figures[order] = np.concatenate(hashes), np.concatenate(of_rows)
        if len(self._rows) > _SIZES:  # as where each batch has another length
            self._rows.clear()
        spans = itertools.pairwise([0, *self._ends])
        self.number, self._ends, self.ready, self.waiting, self._on_device = 0, [], [], [], []
        return [(bits[begin:end], figures[begin:end]) for begin, end in spans]


Computed = tuple[Sequence[int], Array, Array]  # places of tensors, their hashes and figures
STORED = {  # names of dtypes -> of the bits in memory
    name: "uint16" if name == "bfloat16" else name
    for name in ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")
}
SMALL = 2**16  # bytes up to which tensors are copied and computed together
_MEMORY = 2**19  # bytes that wait, of tensors of one size
_LINE = 64  # bytes: where rows begin as tensors do, at a cache line, they are copied in a tenth of the time
_SIZES = 256  # for which memory is kept


_PROCESS = memoryview((ctypes.c_char * sys.maxsize).from_address(0)).cast("B")  # slices of it are copied in half memmove's time


class WaitingRows:
    """Small tensors of one size and dtype, a row each of whole words, that are computed together.

    They wait for several steps: code and tables that were used last run in a third of the time.
    """

    def __init__(self, step: StepFingerprints, size: int, dtype: str) -> None:
        self._step, self._size, self._dtype = step, size, dtype
        self._length = size * np.dtype(STORED[dtype]).itemsize
        self._width = -(-self._length // _LINE) * _LINE  # zeros behind the elements change no hash
        count = _MEMORY // self._width
        memory = np.zeros(count * self._width + _LINE, np.uint8)
        self._rows = memory[-memory.ctypes.data % _LINE :][: count * self._width].reshape(count, self._width)
        self._memory = memoryview(self._rows.data).cast("B")
        self._places: list[int] = []

    def copy(self, address: int) -> None:
        """The elements that lie there are the next tensor's."""
        step, places, length = self._step, self._places, self._length
        if not places:
            step.waiting.append(self)
        begin = len(places) * self._width
        self._memory[begin : begin + length] = _PROCESS[address : address + length]
        places.append(step.number)
        step.number += 1
        if len(places) == len(self._rows):
            self.compute()

    def compute(self) -> None:
        """What is known of those that wait, if any do."""
        if self._places:
            self._step.ready.append((self._places, *_of_rows(self._rows[: len(self._places)], self._size, self._dtype)))
            self._places = []


def _of_rows(rows: Array, size: int, dtype: str) -> tuple[Array, Array]:
    """Hashes and figures of tensors of one size, whose bytes are rows."""
    words = rows.view(np.uint64)
    mixed = words >> _HALF
    mixed ^= words
    bits = np.einsum("ij,j->i", mixed, weights()[: words.shape[1]])
    values = rows.view(STORED[dtype])[:, :size]
    values = values if dtype == "float32" else numbers(values, dtype).astype(np.float64)
    signed, ones = (factors[:size].astype(values.dtype, copy=False) for factors in (signs(), _ones()))
    figures = np.empty((len(rows), len(FIGURES)))
    with np.errstate(all="ignore"):
        figures[:, 0] = np.sqrt((values[:, None, :] @ values[:, :, None])[:, 0, 0])
        figures[:, 1] = values @ ones / size
        figures[:, 2] = np.maximum(values.max(1), -values.min(1))
        figures[:, 3] = values @ signed
    return bits, figures
