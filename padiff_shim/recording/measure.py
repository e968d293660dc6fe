"""How far two recorded tensors are apart, with as much of them as both recordings hold."""

from __future__ import annotations

import itertools
import math
import operator
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import figures
from .reading import Tensor

Array = np.ndarray[Any, Any]
_FLOATS: dict[str, tuple[Any, Any]] = {
    "float16": (np.int16, np.float16),
    "float32": (np.int32, np.float32),
    "float64": (np.int64, np.float64),
}
_AXES = 4  # up to so many every order of axes is tried
# Of the largest element: what rounding leaves of a difference, at the most, after many calls.
_ROUNDED = {"bfloat16": 2.0**-4, "float16": 2.0**-5, "float32": 2.0**-12, "float64": 2.0**-26}
_CHANCES = 100  # of so many ways to arrange some values one is no coincidence
_SAME_SUMS = 1e-9  # relative: sums of the same numbers in another order, in float64


@dataclass(frozen=True)
class Apart:
    """How far two tensors are apart.

    Args:
        identical: all elements are equal (0 and -0 are), in the same or in another layout.
        max_abs, mean_abs: of the absolute differences; NaN where nothing is known of single elements.
        relative: norm of the difference over the second tensor's norm.
        ulp: largest difference in units in the last place of the coarser dtype; None for what is no float.
        elements, different: how many elements were compared, and how many of them differ.
        how: ``"values"``, ``"sample"`` (some elements: there may be larger differences), ``"figures"`` (least, greatest, sums:
            nothing is known of single elements), ``"digest"``, ``"shape"`` or ``"nothing"`` (a recording has no values of it).
        layout: how the first tensor's elements had to be arranged; "" if they lie alike.
    """

    identical: bool
    max_abs: float = 0.0
    mean_abs: float = 0.0
    relative: float = 0.0
    ulp: float | None = 0.0
    elements: int = 0
    different: int = 0
    how: str = "digest"
    layout: str = ""

    def within(self, atol: float, rtol: float, scale: float) -> bool:
        """Whether it is no difference to somebody who allows ``atol`` plus ``rtol`` of the largest element."""
        if self.identical or (atol == 0 and rtol == 0):
            return self.identical
        return self.how in ("values", "sample") and bool(self.max_abs <= atol + rtol * scale)


def apart(one: Tensor, other: Tensor) -> Apart:
    """The difference of two tensors."""
    if one.digest and one.digest == other.digest and one.dtype == other.dtype and one.size == other.size:
        # Equal bytes in C order: the same shape, or one reshaped.
        return Apart(True, elements=one.size, layout="" if one.shape == other.shape else "reshaped")
    if one.size != other.size:
        return Apart(False, np.nan, np.nan, np.nan, None, how="shape")
    if not (one.digest and other.digest):
        return Apart(False, np.nan, np.nan, np.nan, None, how="nothing")
    mine, yours = one.values(), other.values()
    if mine is not None and yours is not None:
        return _best(mine, yours, _unit(one, other), weights=one.kind in ("parameter", "gradient"))
    if one.shape == other.shape:
        drawn = _elements(one), _elements(other)
        if drawn[0] is not None and drawn[1] is not None and drawn[0].shape == drawn[1].shape:
            return _measured(drawn[0], drawn[1], _unit(one, other), "sample", "")
    return _by_figures(one, other)


def _elements(tensor: Tensor) -> Array | None:
    """The sample, as recorded or taken from the values."""
    values = tensor.values()
    if values is None and not tensor.sample:
        return None
    return np.array(tensor.sample if values is None else figures.sample(values), np.float64)


def _by_figures(one: Tensor, other: Tensor) -> Apart:
    names = ("min", "max", "nan", "inf", "mean_abs", "norm")
    pairs = [(one.figures.get(name, 0.0), other.figures.get(name, 0.0)) for name in names]
    relative = max(abs(a - b) / max(abs(a), abs(b)) if a != b else 0.0 for a, b in pairs)
    alike = relative <= _SAME_SUMS and all(a == b for a, b in pairs[:4])
    return Apart(alike, np.nan, np.nan, relative, None, one.size, 0 if alike else one.size, "figures")


def _unit(one: Tensor, other: Tensor) -> str:
    """The coarser of both dtypes, in whose last places differences are counted; "" if one is no float."""
    order = ("bfloat16", "float16", "float32", "float64")
    return next((name for name in order if name in (one.dtype, other.dtype)), "") if {one.dtype, other.dtype} <= set(order) else ""


def _best(mine: Array, yours: Array, unit: str, *, weights: bool) -> Apart:
    """The difference of both as they lie, or in the arrangement of the first that explains it."""
    plain = None
    if _lie_alike(mine.shape, yours.shape):
        layout = "" if mine.shape == yours.shape else "reshaped"
        plain = _measured(mine.reshape(yours.shape), yours, unit, "values", layout)
        if not plain.different:
            return plain
    layouts = [(layout, laid) for layout, laid in _layouts(mine, yours.shape) if plain is None or layout != plain.layout]
    arranged = [_measured(laid, yours, unit, "values", layout) for layout, laid in layouts]
    best = min(arranged, key=lambda apart: (not apart.identical, apart.different > 0 and apart.relative), default=None)
    if best is not None and _explains(best, plain, mine, yours, unit, weights=weights):
        return best
    return plain or Apart(False, np.nan, np.nan, np.nan, None, how="shape")


def _lie_alike(first: tuple[int, ...], second: tuple[int, ...]) -> bool:
    """Whether a shape is the other with some neighbouring axes merged: then elements are in one order."""
    ends = [set(itertools.accumulate(shape, operator.mul)) for shape in (first, second)]
    return first == second or ends[0] <= ends[1] | {1} or ends[1] <= ends[0] | {1}


def _explains(best: Apart, plain: Apart | None, mine: Array, yours: Array, unit: str, *, weights: bool) -> bool:
    """Whether a difference is nothing but another arrangement.

    A weight lies transposed in the other framework, whatever its values: there the nearer one counts, if it is nearer by far. Of
    anything else no element may be left that differs by more than rounding, and chance may not have arranged them so.
    """
    if weights:
        return plain is None or best.identical or best.relative < plain.relative / 2
    if best.identical and plain is None:
        return True
    size = np.abs(yours[np.isfinite(yours)].astype(np.complex128 if np.iscomplexobj(yours) else np.float64)).max(initial=0.0)
    if best.different and not best.max_abs <= _ROUNDED.get(unit, 0.0) * size:
        return False
    moved = yours if plain is None else yours[np.asarray(mine.reshape(yours.shape) != yours)]
    _, counts = np.unique(moved, return_counts=True)
    ways = math.lgamma(moved.size + 1) - sum(math.lgamma(count + 1) for count in counts.tolist())
    return ways > math.log(_CHANCES)


def _layouts(array: Array, shape: tuple[int, ...]) -> list[tuple[str, Array]]:
    """Every way to bring an array into a shape: as it lies, with its axes in another order, or by reading it in order."""
    found = [("", array)] if array.shape == shape else []
    if 1 < array.ndim == len(shape) <= _AXES:
        orders = itertools.permutations(range(array.ndim))
        next(orders)
        fitting = [order for order in orders if tuple(array.shape[axis] for axis in order) == shape]
        found += [("transposed" if array.ndim == 2 else f"axes {list(order)}", array.transpose(order)) for order in fitting]
    if not found or array.shape != shape:
        found.append(("reshaped", array.reshape(shape)))
    return found


def _measured(mine: Array, yours: Array, unit: str, how: str, layout: str) -> Apart:
    """The difference of two arrays of one shape."""
    same = (mine == yours) | ((mine != mine) & (yours != yours))
    number = int(same.size - np.count_nonzero(same))
    if not number:
        return Apart(bool(mine.dtype == yours.dtype and how == "values"), elements=mine.size, how=how, layout=layout)
    wide = np.complex128 if np.iscomplexobj(mine) or np.iscomplexobj(yours) else np.float64
    a, b = mine.astype(wide), yours.astype(wide)
    with np.errstate(invalid="ignore", over="ignore"):
        between = np.where(same, 0.0, np.abs(a - b))
        between = np.where(np.isnan(between), np.inf, between)
        norm = float(np.sqrt(np.square(np.abs(b[np.isfinite(b)])).sum()))
        size = float(np.sqrt(np.square(between).sum()))
    return Apart(
        False, float(between.max()), float(between.mean()), size / norm if norm else np.inf,
        _ulps(mine, yours, same, unit), mine.size, number, how, layout,
    )  # fmt: skip


def _ulps(mine: Array, yours: Array, same: Array, unit: str) -> float | None:
    """The largest difference in units in the last place: numbers of a float dtype, counted in their order."""
    if not unit:
        return None
    if not (np.isfinite(mine) | same).all() or not (np.isfinite(yours) | same).all():
        return float("inf")
    here, there = (np.where(same, 0, _counted(array, unit)) for array in (mine, yours))
    across = (here < 0) != (there < 0)  # one on each side of 0: the distance may exceed an int64, and its last digits say nothing
    near = np.abs(np.where(across, 0, here) - np.where(across, 0, there)).astype(np.float64)
    return float(np.where(across, np.abs(here.astype(np.float64)) + np.abs(there.astype(np.float64)), near).max())


def _counted(array: Array, unit: str) -> Array:
    """Each element's place among all numbers of the dtype, counted from 0."""
    if unit == "bfloat16":
        words = figures.as_bfloat16(array.astype(np.float32)).astype(np.int64)
        return np.where(words & 0x8000, -(words & 0x7FFF), words)
    integer, float_ = _FLOATS[unit]
    with np.errstate(over="ignore"):
        bits = np.ascontiguousarray(array.astype(float_)).view(integer).astype(np.int64)
    return np.where(bits < 0, -(bits & np.int64(np.iinfo(integer).max)), bits)
