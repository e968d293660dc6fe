"""Which outputs to ask the oracle about: where the two results differ most, and some at random."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from ..oracle.precision import Array
from ..oracle.staging import Places, Quantity
from .passes import Difference, readable
from .peaks import Peaks, block_length
from .pieces import magnitudes, scaled, scaled_peaks, smallest, top_of

# Scales that vary less than this change no ranking that matters.
LEVEL = 4.0
LEAST = 1e-30  # of the largest one: no scale is less


def guided(difference: Difference, quantity: Quantity, scales: list[Any] | None, count: int) -> Array:
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
    """``np.unique`` of one axis, which takes several times as long for a few places. Overwrites what it is given."""
    places.sort()
    if places.size < 2:
        return places
    first = np.empty(places.size, bool)
    first[0] = True
    np.not_equal(places[1:], places[:-1], out=first[1:])
    return places[first]


def _largest_scaled(values: Any, scales: Sequence[Any], count: int) -> Array | None:
    """Candidates for the largest of ``values`` in units of the scales, the largest first; None where no scale varies."""
    if len(scales) == 1 and isinstance(values, np.ndarray) and scales[0].shape == values.shape:
        size = np.ascontiguousarray(readable(scales[0])).reshape(-1)
        low, high = magnitudes(size)
        return None if _level(low, high) else scaled_peaks(values.reshape(-1), size, high * LEAST).largest_first()
    found = values
    for scale in scales:
        found = _divided(found, scale)
    return None if found is values else _peaks(found, None, count)


def _level(low: float, high: float) -> bool:
    return high <= LEVEL * low or not math.isfinite(high)


def _divided(values: Any, scale: Any) -> Any:
    size = readable(scale)
    if isinstance(values, np.ndarray):
        size = np.abs(size)
        low, high = smallest(size), top_of(size)
        return values if _level(low, high) else scaled(values, np.maximum(size, high * LEAST))
    size = size.abs()
    return values / size.clamp_min(size.amax() * LEAST)


def _peaks(values: Any, peaks: Peaks | None, count: int) -> Array:
    """Candidates, the largest first."""
    if peaks is None:
        flat = values.reshape(-1)
        if not isinstance(flat, np.ndarray):
            return flat.topk(min(4 * count, flat.numel())).indices.cpu().numpy()
        peaks = Peaks.of(flat, block_length(flat.size))
    return peaks.largest_first()


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
    return Places.of(np.concatenate([first, rng.integers(0, size, count)]), grid), len(first)


@functools.lru_cache(maxsize=256)
def _all(grid: tuple[int, ...]) -> tuple[Array, ...]:
    """Index arrays of every place."""
    found = Places.of(np.arange(math.prod(grid)), grid, whole=True) if grid else ()
    for axis in found:
        axis.flags.writeable = False
    return found
