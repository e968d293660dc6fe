"""What a call has read where that is no recorded result, but one that was reshaped, transposed or cut: found by its digest."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from .alignment import nearest
from .tensors import Array, RecordedOperand, Tensor, as_bfloat16, digest

_AXES = 4  # of what is read; beyond, it is looked for as it lies alone
_CUTS = 8  # parts of a result of which one is read
_HASHED = 2**28  # bytes for one operand
_APART = 1e-2  # relative: beyond, two operands are others
_NEAR = ((2, 48), (3, 12))  # so many results may be concatenated, of so many before a call
_ALL = 6  # results that may be concatenated where there are no others, as those of ranks


class Arranged(NamedTuple):
    """A part of a result, in another arrangement.

    Attributes:
        source: the result.
        shape: to which it is reshaped; () where it is not. ``axes``: in which order they then lie; () where they stay.
        place: (axis, number) of the part that is taken of it before; () where all is.
        last: the shape at last, where that is another one; ().
        values: of what is read.
        repeated: how its elements are repeated at last, as heads of a group are; "" where they are not.
    """

    source: Tensor
    shape: tuple[int, ...]
    place: tuple[int, ...]
    axes: tuple[int, ...]
    last: tuple[int, ...]
    values: Array
    repeated: str = ""

    def words(self) -> str:
        """As a program of Paddle writes it."""
        text = f".reshape({list(self.shape)})" if self.shape else ""
        text += f"[{':, ' * self.place[0]}{self.place[1]}]" if self.place else ""
        text += f".transpose({list(self.axes)})" if self.axes else ""
        return text + (f".reshape({list(self.last)})" if self.last else "") + self.repeated


def arrangements(source: Tensor, values: Array, shape: tuple[int, ...]) -> Iterator[Arranged]:
    """The ways in which a program may have made a tensor of this shape of a result, the likeliest first."""
    shape = shape if len(shape) <= _AXES else tuple(length for length in shape if length > 1)  # the others move nothing
    yield from _unrepeated(source, values, shape)
    for axis, length in enumerate(shape):
        for times in (times for times in range(2, _CUTS + 1) if not length % times):
            tiles = [times if place == axis else 1 for place in range(len(shape))]
            for way in _unrepeated(source, values, (*shape[:axis], length // times, *shape[axis + 1 :])):
                yield way._replace(values=way.values.repeat(times, axis), repeated=f".repeat_interleave({times}, {axis})")
                yield way._replace(values=np.tile(way.values, tiles), repeated=f".tile({tiles})")


def _unrepeated(source: Tensor, values: Array, shape: tuple[int, ...]) -> Iterator[Arranged]:
    """The same of what holds each element once."""
    size = math.prod(shape)
    cuts = source.size // size if size and not source.size % size else 0
    if not 0 < cuts <= _CUTS:
        return
    orders = list(itertools.permutations(range(len(shape)))) if len(shape) <= _AXES else [tuple(range(len(shape)))]
    for order in orders:
        before = tuple(shape[order.index(axis)] for axis in range(len(shape)))
        axes = () if order == orders[0] else order
        for axis in range(len(shape) + 1) if cuts > 1 else (-1,):
            whole = before if axis < 0 else (*before[:axis], cuts, *before[axis:])
            reshaped = values.reshape(whole)
            for part in range(cuts):
                taken = reshaped if axis < 0 else reshaped.take(part, axis)
                place = () if axis < 0 else (axis, part)
                yield Arranged(source, () if whole == source.shape else whole, place, axes, (), taken.transpose(order))
    whole = source.shape if len(source.shape) <= _AXES else tuple(length for length in source.shape if length > 1)
    if cuts == 1 and len(whole) <= _AXES:
        for order in list(itertools.permutations(range(len(whole))))[1:]:
            taken = values.reshape(whole).transpose(order).reshape(shape)
            yield Arranged(source, () if whole == source.shape else whole, (), order, shape, taken)


def arrangement_of(operand: RecordedOperand, results: Sequence[Tensor]) -> Arranged | None:
    """How a call's operand was made of one of these results of its run, the last ones first; None where no way gives its bits."""
    hashed = 0
    for source in reversed(results):
        values = source.values() if source.dtype == operand.dtype else None
        for way in arrangements(source, values, operand.shape) if values is not None else ():
            hashed += way.values.nbytes
            if digest(as_bfloat16(way.values) if operand.dtype == "bfloat16" else way.values) == operand.digest:
                return way
            if hashed > _HASHED:
                return None
    return None


class Concatenated(NamedTuple):
    """Results that are concatenated, or stacked along an axis of their own, and may be reshaped then."""

    sources: tuple[Tensor, ...]
    axis: int
    stacked: bool
    values: Array

    def words(self, names: Sequence[str]) -> str:
        """As a program of Paddle writes it, of results with these names."""
        return f"{'stack' if self.stacked else 'concat'}([{', '.join(names)}], axis={self.axis})"


def concatenation_of(operand: RecordedOperand, results: Sequence[Tensor]) -> Concatenated | None:
    """Of which results of its run a call's operand was made, the last ones first; None where no order of them gives its bits."""
    size, hashed = math.prod(operand.shape), 0
    parts = {entry.digest: entry for entry in results if entry.dtype == operand.dtype and 0 < entry.size < size and entry.shape}
    for count, near in (*_NEAR, *([(len(parts), len(parts))] if len(parts) <= _ALL else [])):
        for sources in itertools.permutations(list(parts.values())[: -near - 1 : -1], count):
            shapes = [source.shape for source in sources]
            if sum(map(math.prod, shapes)) != size or len({*map(len, shapes)}) > 1:
                continue
            ways = [(axis, False) for axis in range(len(shapes[0])) if len({(*s[:axis], *s[axis + 1 :]) for s in shapes}) == 1]
            ways += [(axis, True) for axis in range(len(shapes[0]) + 1) if len({*shapes}) == 1]
            arrays = [values for source in sources if (values := source.values()) is not None]
            for axis, stacked in ways if len(arrays) == count else ():
                made = (np.stack(arrays, axis) if stacked else np.concatenate(arrays, axis)).reshape(operand.shape)
                hashed += made.nbytes
                if digest(as_bfloat16(made) if operand.dtype == "bfloat16" else made) == operand.digest:
                    return Concatenated(sources, axis, stacked, made)
                if hashed > _HASHED:
                    return None
    return None


def alike(first: Array, second: Array) -> bool:
    """Whether two operands are the same but for rounding, in whichever layout."""
    return nearest(first, second) <= _APART


def to_write(way: Arranged, other: Array) -> str:
    """How a program makes of the same result what the other run reads; "" where no way is known."""
    values = way.source.values()
    ways = [] if values is None else list(arrangements(way.source, values, way.values.shape))
    ways.sort(key=lambda known: known.axes != way.axes)
    return next((known.words() for known in ways if alike(known.values, other)), "")


# ---- Attention of fused kernels


def masks(query: Array, key: Array, value: Array, result: Array) -> tuple[int | None, float] | None:
    """(diagonal from which scores are hidden, or None; their scale) with which attention gives this result; None where none does.

    All of them ``[batch, heads, length, size]``.
    """
    size, lengths = query.shape[-1], (query.shape[-2], key.shape[-2])
    groups = query.shape[1] // key.shape[1] if query.ndim == 4 and key.shape[1] else 1
    key, value = (np.repeat(side, groups, 1) if groups > 1 else side for side in (key, value))
    scores = query.astype(np.float64) @ np.swapaxes(key, -1, -2).astype(np.float64)
    between = np.arange(lengths[1]) - np.arange(lengths[0])[:, None]
    for scale in (size**-0.5, 1.0, 1 / size, (size * query.shape[1]) ** -0.5):
        for diagonal in (None, *sorted(range(2 - lengths[0], lengths[1]), key=lambda place: abs(place - 1))):
            seen = scores * scale if diagonal is None else np.where(between >= diagonal, -np.inf, scores * scale)
            with np.errstate(invalid="ignore"):  # of rows in which nothing is seen
                weights = np.exp(seen - seen.max(-1, keepdims=True))
            expected = (weights / weights.sum(-1, keepdims=True)) @ value
            if np.linalg.norm(expected - result) <= _APART / 10 * np.linalg.norm(result):
                return diagonal, scale
    return None
