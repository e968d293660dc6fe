"""Which outputs to ask the oracle about, and which slices of the operands they need."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from ..interrupts import let_pass
from . import noise
from .difference import Peaks, TensorDifference, block_length, readable, scaled, smallest, top_of
from .precision import Array
from .quantity import GridPlaces, Quantity

# ---- Outputs for the oracle: those where the two results differ most, and random ones.

# Scales that vary less than this change no ranking that matters.
LEVEL = 4.0
LEAST = 1e-30  # of the largest one: no scale is less


def guided(difference: TensorDifference, quantity: Quantity, scales: list[Any] | None, count: int) -> Array:
    """Flat grid positions where |d| is largest in units that follow the bound, and where it is largest as such; at most ``count``.

    ``scales``: see :meth:`Quantity.scale`; None for relative errors.
    """
    half = max(count // 2, 1)
    if scales is None and (difference.ratios is not None or difference.ratio is not None):
        first = _units(_peaks(difference.ratio, difference.ratios, half), quantity, half)
        return distinct(np.concatenate([first, _units(_peaks(difference.distance, difference.tops, half), quantity, half)]))
    values = difference.distance
    largest = _largest_scaled(values, scales or (), half)
    if largest is None:
        return _units(_peaks(values, difference.tops, count), quantity, count)
    first = _units(largest, quantity, half)
    return distinct(np.concatenate([first, _units(_peaks(values, difference.tops, half), quantity, half)]))


def distinct(places: Array) -> Array:
    """``np.unique`` of one axis, which takes several times as long for a few places. Overwrites its argument."""
    places.sort()
    if places.size < 2:
        return places
    first = np.empty(places.size, bool)
    first[0] = True
    np.not_equal(places[1:], places[:-1], out=first[1:])
    return places[first]


def _largest_scaled(values: Any, scales: Sequence[Any], count: int) -> Array | None:
    """Candidates for the largest of ``values`` in units of the scales, the largest first; None where no scale varies."""
    ratios = values
    for scale in scales:
        ratios = _divided(ratios, scale)
    return None if ratios is values else _peaks(ratios, None, count)


def _divided(values: Any, scale: Any) -> Any:
    size = readable(scale)
    if isinstance(values, np.ndarray):
        size = np.abs(size)
        low, high = smallest(size), top_of(size)
        level = high <= LEVEL * low or not math.isfinite(high)
        return values if level else scaled(values, np.maximum(size, high * LEAST))
    size = size.abs()
    return values / size.clamp_min(size.amax() * LEAST)


def _peaks(values: Any, peaks: Peaks | None, count: int) -> Array:
    """Candidates, the largest first."""
    if peaks is None:
        flat = values.reshape(-1)
        if not isinstance(flat, np.ndarray):
            return flat.topk(min(4 * count, flat.numel())).indices.cpu().numpy()
        peaks = Peaks.of(flat, block_length(flat.size))
    return peaks.places[peaks.sizes.argsort()[::-1]]


def _units(places: Array, quantity: Quantity, count: int) -> Array:
    """Flat output positions as flat grid positions: themselves, or the rows that they lie in."""
    if quantity.grid == quantity.shape:
        return places[:count]
    index = np.unravel_index(places, quantity.shape)
    rest = [i for axis, i in enumerate(index) if axis not in quantity.axes]
    rows = np.ravel_multi_index(rest, quantity.grid) if rest else np.zeros_like(places)
    _, first = np.unique(rows, return_index=True)
    return rows[np.sort(first)[:count]]


def holding(mask: torch.Tensor, quantity: Quantity) -> Array:
    """Flat grid positions of all outputs, or of all rows, in which ``mask`` holds somewhere."""
    flat = mask.reshape(-1).nonzero().reshape(-1).cpu().numpy()
    return np.unique(_units(flat, quantity, flat.size)) if flat.size else flat


def positions(first: Array, quantity: Quantity, count: int, rng: np.random.Generator) -> tuple[tuple[Array, ...], int]:
    """Index arrays over the grid: the guided places, then random ones; and how many of them are guided.

    A grid of at most twice ``count`` is taken whole, and all of it counts as random.
    """
    grid = quantity.grid
    size = math.prod(grid)
    if size <= 2 * count:
        return _all(grid), 0
    return GridPlaces.of(np.concatenate([first, rng.integers(0, size, count)]), grid), len(first)


@functools.lru_cache(maxsize=256)
def _all(grid: tuple[int, ...]) -> tuple[Array, ...]:
    """Index arrays of every place."""
    places = GridPlaces.of(np.arange(math.prod(grid)), grid, whole=True) if grid else ()
    for axis in places:
        axis.flags.writeable = False
    return places


# ---- Large calls of formulas without a model: a part of the outputs, where a part of the operands is enough to compute it.
#
# Most formulas treat some axes apart: the batch, the channels, for elementwise functions all of them. No op declares which, so this
# module tries: it cuts a few places along an axis out of operands and results, those with the largest differences among them. The
# formula of the cut operands in float64 has to give what one of the two sides has there. If it does not, the axis stays whole.

LARGE = 1 << 15  # elements of the result: below, everything is computed
LEADING, OTHERS = 4, 2  # places kept of an axis for each of the largest differences, and at random
NEAR = 2.0**-7  # of the part's root mean square: no rounding, and nothing that a formula of other operands would give by accident


class SlicedCall(NamedTuple):
    """Operands and both results, cut."""

    operands: list[torch.Tensor]
    paddle: torch.Tensor
    torch: torch.Tensor


def cut(
    paddle: torch.Tensor,
    torch_: torch.Tensor,
    kernel: Callable[..., torch.Tensor],
    operands: Sequence[torch.Tensor],
    rng: np.random.Generator,
) -> SlicedCall | None:
    """The call cut along every axis that the formula treats apart; None where there is none, or where the call is not large."""
    if paddle.numel() < LARGE:
        return None
    # For each axis the places of the largest differences, absolute and relative
    apart = (paddle - torch_).abs().nan_to_num_(0.0, 0.0, 0.0).reshape(-1)
    relative = (apart / torch_.abs().reshape(-1)).nan_to_num_(0.0, 0.0, 0.0)
    odd = (torch.isfinite(paddle) != torch.isfinite(torch_)).reshape(-1).nonzero().reshape(-1)[:LEADING]
    flat = torch.cat([apart.topk(LEADING).indices, relative.topk(LEADING).indices, odd]).cpu().numpy()
    leading = list(np.unravel_index(flat, tuple(paddle.shape)))
    part = SlicedCall(list(operands), paddle, torch_)
    for axis in range(paddle.ndim):
        size = paddle.shape[axis]
        if size <= 2 * LEADING:
            continue
        places = np.unique(np.concatenate([leading[axis], rng.integers(0, size, OTHERS)]))
        index = torch.from_numpy(places).to(paddle.device)
        smaller = SlicedCall(
            [_along(t, axis, paddle.ndim, size, index) for t in part.operands],
            part.paddle.index_select(axis, index),
            part.torch.index_select(axis, index),
        )
        if _right(kernel, smaller):
            part = smaller
    return None if part.paddle.numel() == paddle.numel() else part


def _along(tensor: torch.Tensor, axis: int, ndim: int, size: int, index: torch.Tensor) -> torch.Tensor:
    """An operand cut along the axis of the result that it shares: as it broadcasts, or, of a vector, its only one."""
    place = axis - ndim + tensor.ndim
    if place < 0 or tensor.shape[place] != size:
        place = axis if axis < tensor.ndim and tensor.shape[axis] == size else 0 if tensor.ndim == 1 else -1
    if place < 0 or tensor.shape[place] != size:
        return tensor
    return tensor.index_select(place, index)


def _right(kernel: Callable[..., torch.Tensor], part: SlicedCall) -> bool:
    """The formula of the cut operands is what one side has there."""
    try:
        value = noise.exact(kernel, [noise.wide(t) for t in part.operands])
    except Exception as error:  # shapes that do not fit: this axis cannot be cut
        let_pass(error)
        return False
    if value.shape != part.torch.shape:
        return False
    limit = NEAR * float(value.nan_to_num(0.0, 0.0, 0.0).square().mean().sqrt())
    for side in (part.torch, part.paddle):
        apart = side.double() - value
        if float(apart[torch.isfinite(apart)].abs().max() if torch.isfinite(apart).any() else 0.0) <= limit:
            return True
    return False
