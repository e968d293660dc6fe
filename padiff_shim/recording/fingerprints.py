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
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..text import tr

Array = np.ndarray[Any, Any]
FIGURES = ("norm", "mean", "max_abs", "projection")
PERIOD = 2**15  # words after which weights repeat, times a weight of the block
TINY = 1024  # elements up to which tensors are computed together
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
            bits += block_weight(block) * _weighted(chunk, weighted, buffer)
    if size % 2:
        last = size // 2
        bits += block_weight(last // PERIOD) * int(weighted[last % PERIOD]) * int(flat[-1:].view(np.uint32)[0])
    return Fingerprint(bits % 2**64, *_rounded(squares, total, size, largest, projected))


@functools.cache
def _ones() -> Array:
    return np.ones(2 * PERIOD, np.float32)


def _weighted(words: Array, weighted: Array, buffer: Array) -> int:
    room = buffer[: len(words)]
    np.right_shift(words, _HALF, out=room)
    np.bitwise_xor(room, words, out=room)
    np.multiply(room, weighted[: len(words)], out=room)
    return int(room.sum())


def _hash(content: Array) -> int:
    """Of bytes."""
    whole = np.zeros(-(-len(content) // 8), np.uint64)
    whole.view(np.uint8)[: len(content)] = content
    buffer, bits = np.empty(min(PERIOD, len(whole)), np.uint64), 0
    for block in range(-(-len(whole) // PERIOD)):
        bits += block_weight(block) * _weighted(whole[PERIOD * block : PERIOD * (block + 1)], weights(), buffer)
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


class OnDevice(Protocol):
    """What computes fingerprints of Torch tensors where they live."""

    def add(self, tensor: Any) -> None:
        """One tensor."""

    def take(self) -> tuple[Array, Array]:
        """Hashes and figures of all since the last call."""


@dataclass
class _Step:
    """The tensors of a step: how many, tiny ones with their places, fingerprints that are ready, places of those on a device."""

    number: int = 0
    tiny: list[Array] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    ready: list[tuple[int, Fingerprint]] = field(default_factory=list)
    on_device: list[int] = field(default_factory=list)


class StepFingerprints:
    """The fingerprints of steps, each of tensors in their order. Tiny tensors are copied, and several steps computed at once.

    >>> steps = StepFingerprints()
    >>> steps.add(np.zeros(3, np.float32)); steps.add(np.ones((2, 2), np.float32)); steps.end_step()
    >>> ((bits, figures),) = steps.take()
    >>> [fingerprint(np.zeros(3, np.float32)).bits, fingerprint(np.ones((2, 2), np.float32)).bits] == bits.tolist()
    True
    """

    def __init__(self, device: OnDevice | None = None) -> None:
        self._steps: list[_Step] = []  # that have ended
        self._step = _Step()
        self._held = 0  # elements of tiny tensors
        self._device = device  # collects tensors on a GPU
        self._layouts: dict[tuple[int, ...], _Layout] = {}

    @property
    def full(self) -> bool:
        """Whether the tiny tensors have grown beyond what a processor's cache holds."""
        return self._held > 2**15

    def add(self, array: Array, *, bfloat16: bool = False) -> None:
        """One tensor; its values may change afterwards. ``bfloat16``: they are its bits as uint16."""
        if array.size <= TINY and array.dtype == np.float32 and not bfloat16:
            self.add_tiny(array.copy())
            return
        step = self._step
        step.ready.append((step.number, of_bfloat16(array) if bfloat16 else fingerprint(array)))
        step.number += 1

    def add_tiny(self, array: Array) -> None:
        """:meth:`add` of a float32 array of at most :data:`TINY` elements that nobody changes."""
        step = self._step
        step.tiny.append(array)
        step.places.append(step.number)
        step.number += 1

    def add_on_device(self, tensor: Any) -> None:
        """One tensor of Torch on a GPU."""
        if self._device is None:
            raise ValueError(tr("no device= computes fingerprints"))
        step = self._step
        step.on_device.append(step.number)
        self._device.add(tensor)
        step.number += 1

    def end_step(self) -> None:
        """What is added next belongs to the next step."""
        self._held += sum([array.size for array in self._step.tiny])
        self._steps.append(self._step)
        self._step = _Step()

    def take(self) -> list[tuple[Array, Array]]:
        """Hashes (uint64) and figures (float64, a row of :data:`FIGURES` each) of the steps that have ended, once."""
        results = []
        on_device = self._device.take() if self._device is not None else None
        taken = 0
        for sizes, group in itertools.groupby(self._steps, lambda step: tuple([array.size for array in step.tiny])):
            steps = list(group)
            tiny = self._tiny(sizes, steps) if sizes else None
            for row, step in enumerate(steps):
                if tiny is not None and len(sizes) == step.number:
                    results.append((tiny[0][row], tiny[1][row]))
                    continue
                bits, figures = np.zeros(step.number, np.uint64), np.zeros((step.number, len(FIGURES)))
                if tiny is not None:
                    bits[step.places], figures[step.places] = tiny[0][row], tiny[1][row]
                if step.on_device and on_device is not None:
                    span = slice(taken, taken + len(step.on_device))
                    bits[step.on_device], figures[step.on_device] = on_device[0][span], on_device[1][span]
                    taken = span.stop
                for place, fingerprint_ in step.ready:
                    bits[place], figures[place] = fingerprint_.bits, fingerprint_[1:]
                results.append((bits, figures))
        self._steps, self._held = [], 0
        return results

    def _tiny(self, sizes: tuple[int, ...], steps: Sequence[_Step]) -> tuple[Array, Array]:
        """Hashes and figures of the tiny tensors of steps with the same sizes, a row each."""
        layout = self._layouts.get(sizes)
        if layout is None:
            if len(self._layouts) >= 8:
                self._layouts.clear()
            layout = self._layouts[sizes] = _Layout(sizes)
        values = np.frombuffer(_joined([layout.filled(step.tiny) for step in steps]), np.float32).reshape(len(steps), -1)
        words = values.view(np.uint64)
        mixed = words >> _HALF
        mixed ^= words
        mixed *= layout.weights
        bits = np.add.reduceat(mixed, layout.words, axis=1)
        figures = np.empty((len(steps), len(sizes), len(FIGURES)))
        with np.errstate(all="ignore"):
            starts = layout.starts
            np.sqrt(np.add.reduceat(values * values, starts, axis=1, dtype=np.float64), out=figures[..., 0])
            np.divide(np.add.reduceat(values, starts, axis=1, dtype=np.float64), layout.sizes, out=figures[..., 1])
            figures[..., 2] = np.maximum.reduceat(np.abs(values), starts, axis=1)
            figures[..., 3] = np.add.reduceat(values * layout.signs, starts, axis=1, dtype=np.float64)
        return bits, figures


def _joined(lists: Sequence[Sequence[Any]]) -> bytes:
    """The bytes of all arrays, one behind the other, each in C order."""
    arrays = list(itertools.chain.from_iterable(lists))
    try:
        return b"".join(arrays)
    except TypeError:  # an array lies otherwise
        return b"".join([array if isinstance(array, bytes) else array.tobytes() for array in arrays])


class _Layout:
    """Of tiny tensors of these sizes, one behind the other, each filled up to whole words: starts, weights, signs, zeros."""

    def __init__(self, sizes: tuple[int, ...]) -> None:
        room = [size + size % 2 or 2 for size in sizes]
        self.starts = np.cumsum([0, *room[:-1]])
        self.words = self.starts >> 1
        self.sizes = np.maximum(np.array(sizes), 1)
        self.weights = np.concatenate([weights()[: length // 2] for length in room])
        self.signs = np.concatenate([signs()[:length] for length in room])
        gaps = [(place, 4 * (length - size)) for place, (length, size) in enumerate(zip(room, sizes))]
        self._gaps = [(place + 1, bytes(gap)) for place, gap in reversed(gaps) if gap]

    def filled(self, arrays: list[Array]) -> list[Any]:
        """The arrays with zeros behind those that end within a word."""
        if not self._gaps:
            return arrays
        parts: list[Any] = [*arrays]
        for place, zeros in self._gaps:
            parts.insert(place, zeros)
        return parts
