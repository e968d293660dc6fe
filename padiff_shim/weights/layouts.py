"""How a weight lies, seen from the layout in which it is compared with its partner.

The way there is a row of steps, each of which only looks at the elements in another way: a view of an array or tensor, never a
copy. So one description serves values, gradients and updates, of either framework, in both directions.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

if TYPE_CHECKING:
    from .tree import Shape, Slot

# How a whole weight lies: as it is, with its last two axes exchanged, or as one axis.
AS_IS, TRANSPOSED, FLAT = "as it is", "transposed", "flat"


class ViewStep(NamedTuple):
    """One step: see :func:`narrow`, :func:`select`, :func:`unflatten`, :func:`permute`."""

    kind: str
    axis: int
    numbers: tuple[int, ...]

    def of(self, values: Any) -> Any:
        """The view of an array or tensor."""
        before = (slice(None),) * self.axis
        if self.kind == "narrow":
            return values[(*before, slice(*self.numbers))]
        if self.kind == "select":
            return values[(*before, self.numbers[0])]
        if self.kind == "unflatten":
            return values.reshape(self.shape(tuple(values.shape)))
        return values.permute(self.numbers) if isinstance(values, torch.Tensor) else values.transpose(self.numbers)

    def shape(self, shape: Shape) -> Shape:
        """The shape of the view of something of that shape."""
        before, after = shape[: self.axis], shape[self.axis + 1 :]
        if self.kind == "narrow":
            return (*before, self.numbers[1] - self.numbers[0], *after)
        if self.kind == "select":
            return (*before, *after)
        if self.kind == "unflatten":
            return (*before, *self.numbers, *after)
        return tuple(shape[axis] for axis in self.numbers)


def narrow(axis: int, start: int, stop: int) -> ViewStep:
    """The elements from ``start`` to ``stop`` of an axis."""
    return ViewStep("narrow", axis, (start, stop))


def select(axis: int, index: int) -> ViewStep:
    """One element of an axis, which is gone then."""
    return ViewStep("select", axis, (index,))


def unflatten(axis: int, *sizes: int) -> ViewStep:
    """An axis as several, the last of which runs fastest."""
    return ViewStep("unflatten", axis, sizes)


def permute(*axes: int) -> ViewStep:
    """The axes in another order."""
    return ViewStep("permute", 0, axes)


class Blocks(NamedTuple):
    """How one weight holds several along an axis.

    Args:
        shares: how large the parts are beside one another.
        order: in which order they lie, by their numbers; () as they are numbered.
        groups: how many groups there are, each with its share of every part; 0: so many that the shares are rows.
    """

    shares: tuple[int, ...] = (1, 1)
    order: tuple[int, ...] = ()
    groups: int = 1

    def counted(self, rows: int) -> Blocks:
        """The same of so many rows, with the number of groups."""
        return self if self.groups else self._replace(groups=max(1, rows // sum(self.shares)))

    def sizes(self, rows: int) -> tuple[int, ...]:
        """The rows of each part, of so many together; () if they cannot be divided so."""
        unit, rest = divmod(rows, sum(self.shares))
        parts = tuple(share * unit for share in self.shares)
        return () if rest or not unit or any(size % self.groups for size in parts) else parts

    def steps(self, axis: int, sizes: tuple[int, ...]) -> list[tuple[ViewStep, ...]]:
        """For each part those from the whole to it: its rows, or [groups, rows of each] where there are several."""
        share = [size // self.groups for size in sizes]
        starts, stop = {}, 0
        for part in self.order or range(len(sizes)):
            starts[part], stop = stop, stop + share[part]
        apart = () if self.groups == 1 else (unflatten(axis, self.groups, stop),)
        inside = axis + len(apart)
        return [(*apart, narrow(inside, start, start + share[part])) for part, start in sorted(starts.items())]

    def own(self, axis: int, size: int) -> tuple[ViewStep, ...]:
        """The steps from a part that is a weight of its own to the same shape."""
        return () if self.groups == 1 else (unflatten(axis, self.groups, size // self.groups),)


def reordered(one: Blocks, other: Blocks, axis: int, rows: int) -> list[tuple[tuple[ViewStep, ...], tuple[ViewStep, ...]]]:
    """For each part the steps to it in both orders, which end in one shape; nothing if so many rows cannot be divided so."""
    one, other = one.counted(rows), other.counted(rows)
    sizes = one.sizes(rows)
    few, many = sorted((one.groups, other.groups))
    if not sizes or sizes != other.sizes(rows) or many % few:
        return []
    pairs = []
    for number, ways in enumerate(zip(one.steps(axis, sizes), other.steps(axis, sizes))):
        ends = []
        for way, blocks in zip(ways, (one, other)):
            if few < many and blocks.groups == few:
                way = (*way, unflatten(axis + (few > 1), many // few, sizes[number] // many))
            elif 1 < few < many:
                way = (*way, unflatten(axis, few, many // few))
            ends.append(way)
        pairs.append((ends[0], ends[1]))
    return pairs


def canonical(slot: Slot, values: Any) -> Any:
    """The values of a slot in canonical layout: a view of an array or tensor."""
    if slot.layout == TRANSPOSED:
        values = values.swapaxes(-1, -2)
    elif slot.layout == FLAT:
        values = values.reshape(-1)
    for step in slot.steps:
        values = step.of(values)
    return values


def own_layout(slot: Slot, value: torch.Tensor) -> torch.Tensor:
    """Values of a whole weight in canonical layout as the weight holds them."""
    assert slot.weight is not None
    assert not slot.steps
    return value.mT if slot.layout == TRANSPOSED else value.reshape(slot.weight.shape) if slot.layout == FLAT else value


def is_whole(slot: Slot) -> bool:
    """Whether a slot holds all of its weight."""
    return slot.weight is None or math.prod(slot.shape) == math.prod(slot.weight.shape)


def in_words(slot: Slot) -> str:
    """Which part of a weight a slot is, in words; "" for all of it."""
    parts, groups = [], 0
    for step in slot.steps:
        axis = step.axis
        if step.kind == "unflatten":
            groups = step.numbers[-1]
        elif step.kind == "select":
            parts.append(f"number {step.numbers[0]}")
        elif step.kind == "narrow":
            lines = "rows" if axis - bool(groups) == 0 else f"axis {axis - bool(groups)}"
            parts.append(f"{lines} {step.numbers[0]}:{step.numbers[1]}" + (f" of every {groups}" if groups else ""))
    return ", ".join(parts)
