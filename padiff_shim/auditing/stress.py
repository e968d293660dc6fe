"""Samples made hard: the same call with long sums, other scales, infinities, NaN, denormals, masks, strides, nothing at all.

A stress changes NumPy operands, or a sample's shapes, and knows the operands' domains: those that a sample limits to a range stay
in what the range stands for (positive numbers, shares between 0 and 1). It says nothing of results: the verdict does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..table.samples import Floats, Ints, Sample
from .limits import ELEMENTS

LAYOUTS = ("contiguous", "transposed", "sliced", "expanded")
Array = Any


@dataclass(frozen=True)
class Domain:
    """What the values of one operand may be, as far as its sample says."""

    low: float = -math.inf
    high: float = math.inf

    @classmethod
    def of(cls, sample: Sample, operand: Any) -> Domain:
        """That of one operand of a sample."""
        limits = (operand.low, operand.high) if isinstance(operand, Floats) else sample.within
        if limits is None:
            return cls()
        low, high = limits
        # A sample's range is where it is drawn from: [0.5, 2) stands for all positive numbers, [1.5, 3) for all above, [-0.9, 0.9)
        # for itself.
        if low > 1:
            return cls(low, math.inf)
        return cls(0.0, math.inf) if low >= 0 and high > 1 else cls(min(low, 0.0), max(high, 0.0))

    @property
    def unlimited(self) -> bool:
        """Every number."""
        return self.low == -math.inf

    @property
    def positive(self) -> bool:
        """Zero may be a pole."""
        return self.low >= 0

    def holds(self, factor: float) -> bool:
        """Its values may be multiplied by this."""
        return self.high == math.inf if factor > 1 else self.low <= 0


@dataclass(frozen=True)
class Stress:
    """One way to make a call hard.

    ``change``: ``(array, domain, generator) -> array``, or None where it means nothing for the operand. ``first``: of the first
    float operand alone. ``dtypes``: in which it is tried. ``layout``: how float operands lie in memory. ``says``: for people.
    """

    name: str
    says: str
    change: Callable[[Array, Domain, np.random.Generator], Array | None] | None = None
    first: bool = False
    dtypes: tuple[str, ...] = ("float32", "float64")
    layout: str = "contiguous"


def _times(exponents: dict[str, int]) -> Callable[[Array, Domain, np.random.Generator], Array | None]:
    def change(array: Array, domain: Domain, _: np.random.Generator) -> Array | None:
        factor = 2.0 ** exponents[str(array.dtype)]
        return np.asarray(array * array.dtype.type(factor)) if domain.holds(factor) else None

    return change


def _placed(value: float, count: int = 1) -> Callable[[Array, Domain, np.random.Generator], Array | None]:
    def change(array: Array, domain: Domain, rng: np.random.Generator) -> Array | None:
        if not array.size or (value == -math.inf and not domain.unlimited) or (value == math.inf and not domain.holds(2.0)):
            return None
        changed = array.copy()
        changed.reshape(-1)[rng.integers(0, array.size, count)] = value
        return changed

    return change


def _filled(value: float) -> Callable[[Array, Domain, np.random.Generator], Array | None]:
    def change(array: Array, domain: Domain, _: np.random.Generator) -> Array | None:
        return np.full_like(array, value) if domain.low <= value < domain.high or domain.unlimited else None

    return change


def _masked(array: Array, domain: Domain, rng: np.random.Generator) -> Array | None:
    """A third of the entries taken out, as attention masks do."""
    if not domain.unlimited or array.ndim < 1 or array.shape[-1] < 3:
        return None
    return np.where(rng.random(array.shape) < 1 / 3, array.dtype.type(-1e9), array)


def _denormal(array: Array, domain: Domain, rng: np.random.Generator) -> Array | None:
    """Half of the elements are denormal numbers."""
    if domain.low > 0:
        return None
    tiny = np.finfo(array.dtype).tiny
    small = array * array.dtype.type(tiny / 4)
    return np.where(rng.random(array.shape) < 0.5, small, array) if array.size > 1 else None


def laid_out(array: Array, layout: str) -> tuple[Array, list[int] | None, int]:
    """What is held in memory, and the strides (in elements) and the offset (in bytes) of the view of it that has these values."""
    held, strides, offset = array, None, 0
    if layout == "transposed" and array.ndim > 1:
        held = np.ascontiguousarray(np.swapaxes(array, -1, -2))
        strides = np.swapaxes(held, -1, -2).strides
    elif layout == "sliced" and array.ndim and array.size:
        held = np.zeros((*array.shape[:-1], array.shape[-1] + 3), array.dtype)
        held[..., 2:-1] = array
        strides, offset = held.strides, 2 * array.itemsize
    elif layout == "expanded" and array.ndim and array.size:
        held = np.ascontiguousarray(array[:1])
        strides = (0, *held.strides[1:])
    return held, None if strides is None else [one // array.itemsize for one in strides], offset


STRESSES: tuple[Stress, ...] = (
    Stress("plain", "as the op's sample has it", dtypes=("float32", "float64", "float16", "bfloat16")),
    *(Stress(layout, f"{layout} operands", dtypes=("float32",), layout=layout) for layout in LAYOUTS[1:]),
    Stress("large", "operands near 1e4", _times({"float32": 13, "float64": 13})),
    Stress("huge", "operands whose squares overflow", _times({"float32": 70, "float64": 550})),
    Stress("small", "operands near 1e-4", _times({"float32": -13, "float64": -13})),
    Stress("tiny", "operands whose squares underflow", _times({"float32": -70, "float64": -550})),
    Stress("denormal", "denormal numbers among the operands", _denormal, first=True),
    Stress("nan", "a NaN among the operands", _placed(math.nan), first=True),
    Stress("inf", "an infinity among the operands", _placed(math.inf), first=True),
    Stress("-inf", "a negative infinity among the operands", _placed(-math.inf), first=True),
    Stress("mask", "a third of the operand is -1e9", _masked, first=True),
    Stress("zeros", "operands of zeros", _filled(0.0), first=True, dtypes=("float32",)),
    Stress("ties", "operands of ones", _filled(1.0), first=True, dtypes=("float32",)),
)
LONG, EMPTY, WIDE = "long", "empty", "wide"
WIDTH = 40  # elements of the longest axis that vectorised kernels take as vectors, with a rest
# Ops that are asked with masked entries.
MASKED = ("softmax", "attention", "entropy", "logsumexp", "max", "min", "top", "sort", "relu", "sigmoid", "argm", "where")
IN_VECTORS = ("denormal", "nan", "inf", "-inf", "mask")  # what those treat otherwise than scalar loops


def changed(stress: Stress, sample: Sample, arrays: Sequence[Any], rng: np.random.Generator) -> list[Any] | None:
    """The operands under a stress; None where it means nothing for this sample."""
    if stress.change is None:
        return list(arrays)
    found, done = [], False
    for operand, array in zip(sample.operands, arrays):
        new = None
        if isinstance(array, np.ndarray) and array.dtype.kind == "f" and not (stress.first and done):
            with np.errstate(all="ignore"):
                new = stress.change(array, Domain.of(sample, operand), rng)
        found.append(array if new is None else new)
        done |= new is not None
    return found if done else None


def resized(sample: Sample, most_long: int = ELEMENTS) -> Iterator[tuple[str, Sample]]:
    """The sample with each of its sizes in turn made long, and made 0: ``("long 3", ...)``, ``("empty 3", ...)``.

    ``most_long``: what a long size is at most.

    An operand's size is known by its number alone: all axes of that size in all operands change together, and where that means
    nothing, both frameworks refuse the call. There are no indices into what is not there: a size that limits integers stays unless
    none are left.
    """
    shapes = [shape for shape in sample.shapes if shape]
    sizes = sorted({size for shape in shapes[:1] for size in shape if size > 1})
    for size in sizes:
        most = max(shape.count(size) for shape in shapes)
        rest = max(math.prod(other for other in shape if other != size) for shape in shapes)
        long = min(int((ELEMENTS / max(rest, 1)) ** (1 / max(most, 1))), most_long)
        if long >= 4 * size:
            yield f"{LONG} {size}", _with(sample, size, long - long % 2 + 1)
        empty = _with(sample, size, 0)
        if not any(isinstance(one, Ints) and one.high == size and 0 not in one.shape for one in empty.operands):
            yield f"{EMPTY} {size}", empty


def wide(sample: Sample) -> Sample | None:
    """The sample with the first operand's last axis as long as vectorised kernels want it; None where that makes large operands."""
    shape = next((shape for shape in sample.shapes if shape), ())
    if not shape or not 1 < shape[-1] < WIDTH:
        return None
    found = _with(sample, shape[-1], WIDTH)
    return found if all(math.prod(one) <= ELEMENTS for one in found.shapes if one) else None


def _with(sample: Sample, size: int, other: int) -> Sample:
    def changed_shape(operand: Any) -> Any:
        if isinstance(operand, tuple):
            return tuple(other if one == size else one for one in operand)
        shape = getattr(operand, "shape", None)
        return operand if shape is None else replace(operand, shape=changed_shape(shape))

    return Sample(*map(changed_shape, sample.operands), within=sample.within, **sample.attrs)


def one_sign(sample: Sample, arrays: Sequence[Any]) -> list[Any]:
    """Operands from anywhere as positive numbers near 1: what a long sum loses shows best where nothing cancels."""
    return [
        np.asarray(abs(array) * array.dtype.type(0.25) + array.dtype.type(0.5))
        if isinstance(array, np.ndarray) and array.dtype.kind == "f" and Domain.of(sample, operand).unlimited
        else array
        for operand, array in zip(sample.operands, arrays)
    ]
