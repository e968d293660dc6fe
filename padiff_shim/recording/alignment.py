"""Which calls of two runs belong together, and how far two recorded tensors are apart."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import folder
from .folder import Tensor

# ---- How far two recorded tensors are apart, with as much of them as both recordings hold.

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
class TensorDistance:
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


def apart(one: Tensor, other: Tensor) -> TensorDistance:
    """The difference of two tensors."""
    if one.digest and one.digest == other.digest and one.dtype == other.dtype and one.size == other.size:
        # Equal bytes in C order: the same shape, or one reshaped.
        return TensorDistance(True, elements=one.size, layout="" if one.shape == other.shape else "reshaped")
    if one.size != other.size:
        return TensorDistance(False, np.nan, np.nan, np.nan, None, how="shape")
    if not (one.digest and other.digest):
        return TensorDistance(False, np.nan, np.nan, np.nan, None, how="nothing")
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
    return np.array(tensor.sample if values is None else folder.sample(values), np.float64)


def _by_figures(one: Tensor, other: Tensor) -> TensorDistance:
    names = ("min", "max", "nan", "inf", "mean_abs", "norm")
    pairs = [(one.figures.get(name, 0.0), other.figures.get(name, 0.0)) for name in names]
    relative = max(abs(a - b) / max(abs(a), abs(b)) if a != b else 0.0 for a, b in pairs)
    alike = relative <= _SAME_SUMS and all(a == b for a, b in pairs[:4])
    return TensorDistance(alike, np.nan, np.nan, relative, None, one.size, 0 if alike else one.size, "figures")


def _unit(one: Tensor, other: Tensor) -> str:
    """The coarser of both dtypes, in whose last places differences are counted; "" if one is no float."""
    order = ("bfloat16", "float16", "float32", "float64")
    return next((name for name in order if name in (one.dtype, other.dtype)), "") if {one.dtype, other.dtype} <= set(order) else ""


def _best(mine: Array, yours: Array, unit: str, *, weights: bool) -> TensorDistance:
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
    return plain or TensorDistance(False, np.nan, np.nan, np.nan, None, how="shape")


def _lie_alike(first: tuple[int, ...], second: tuple[int, ...]) -> bool:
    """Whether a shape is the other with some neighbouring axes merged: then elements are in one order."""
    ends = [set(itertools.accumulate(shape, operator.mul)) for shape in (first, second)]
    return first == second or ends[0] <= ends[1] | {1} or ends[1] <= ends[0] | {1}


def _explains(best: TensorDistance, plain: TensorDistance | None, mine: Array, yours: Array, unit: str, *, weights: bool) -> bool:
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


def _measured(mine: Array, yours: Array, unit: str, how: str, layout: str) -> TensorDistance:
    """The difference of two arrays of one shape."""
    same = (mine == yours) | ((mine != mine) & (yours != yours))
    number = int(same.size - np.count_nonzero(same))
    if not number:
        return TensorDistance(bool(mine.dtype == yours.dtype and how == "values"), elements=mine.size, how=how, layout=layout)
    wide = np.complex128 if np.iscomplexobj(mine) or np.iscomplexobj(yours) else np.float64
    a, b = mine.astype(wide), yours.astype(wide)
    with np.errstate(invalid="ignore", over="ignore"):
        between = np.where(same, 0.0, np.abs(a - b))
        between = np.where(np.isnan(between), np.inf, between)
        norm = float(np.sqrt(np.square(np.abs(b[np.isfinite(b)])).sum()))
        size = float(np.sqrt(np.square(between).sum()))
    return TensorDistance(
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
        words = folder.as_bfloat16(array.astype(np.float32)).astype(np.int64)
        return np.where(words & 0x8000, -(words & 0x7FFF), words)
    integer, float_ = _FLOATS[unit]
    with np.errstate(over="ignore"):
        bits = np.ascontiguousarray(array.astype(float_)).view(integer).astype(np.int64)
    return np.where(bits < 0, -(bits & np.int64(np.iinfo(integer).max)), bits)


# ---- Which calls of two runs belong together, by dynamic programming over their ops, layers, shapes and values.

Pair = tuple[Tensor | None, Tensor | None]
_GAP = -1.0  # of a call without partner
_APART = -1e9  # what never belongs together
_OP, _OTHER_OP = 3.0, -3.5
_LAYER, _OTHER_LAYER = 1.5, -0.5
_SHAPE, _OTHER_SIZE = 0.5, -3.0
_EQUAL, _NEAR = 4.0, 3.0  # equal bits; figures within some digits, by how many
_STEPS = 400_000  # cells of a table that is kept whole; a larger one is divided


class Columns:
    """A sequence of tensors as arrays, one element a tensor; ``words`` gives what is equal one number, in both sequences."""

    def __init__(self, tensors: Sequence[Tensor], words: dict[Any, int]) -> None:
        def codes(keys: Sequence[Any]) -> Array:
            return np.array([words.setdefault(key, len(words)) for key in keys], np.int64)

        self.kinds = list(dict.fromkeys(one.names for one in tensors))
        place = {names: number for number, names in enumerate(self.kinds)}
        self.kind = np.array([place[one.names] for one in tensors], np.int64)
        self.layer = codes([("layer", one.layer) for one in tensors])
        self.shape = codes([("shape", one.shape) for one in tensors])
        self.digest = codes([("digest", one.digest or one) for one in tensors])
        self.size = np.array([one.size for one in tensors], np.int64)
        told = ("min", "max", "mean_abs", "norm")
        self.figures = np.array([[one.figures.get(name, np.nan) for name in told] for one in tensors], np.float64)
        self.figures = self.figures.reshape(-1, len(told))
        self.length = len(tensors)


class Likeness:
    """How well each tensor of one sequence goes with each of another."""

    def __init__(self, mine: Columns, yours: Columns) -> None:
        self.mine, self.yours = mine, yours
        self._same_op = np.array([[bool({*one} & {*other}) for other in yours.kinds] for one in mine.kinds], bool)
        self._same_op = self._same_op.reshape(len(mine.kinds), len(yours.kinds))

    def row(self, place: int, begin: int, end: int) -> Array:
        """Of the tensor at ``place`` with each of the others from ``begin`` to ``end``."""
        mine, yours, cut = self.mine, self.yours, slice(begin, end)
        op = self._same_op[mine.kind[place]][yours.kind[cut]]
        equal = yours.digest[cut] == mine.digest[place]
        score = np.where(op, _OP, np.where(equal, 0.0, _OTHER_OP))
        score += np.where(yours.layer[cut] == mine.layer[place], _LAYER, _OTHER_LAYER)
        score += np.where(yours.shape[cut] == mine.shape[place], _SHAPE, 0.0)
        score += np.where(equal, _EQUAL, self._near(place, yours.figures[cut]))
        return np.where(yours.size[cut] == mine.size[place], score, np.where(op, score + _OTHER_SIZE, _APART))

    def _near(self, place: int, figures: Array) -> Array:
        """Between 0 (other figures) and :data:`_NEAR` (alike in nine digits)."""
        mine = self.mine.figures[place]
        with np.errstate(invalid="ignore", divide="ignore"):
            scale = np.maximum(np.abs(figures), np.abs(mine))
            apart = np.where(scale > 0, np.abs(figures - mine) / scale, 0.0).max(axis=1)
            digits = -np.log10(np.maximum(apart, 1e-9))
        return np.asarray(np.nan_to_num(np.clip(digits / 9.0, 0.0, 1.0) * _NEAR))


def align(first: Sequence[Tensor], second: Sequence[Tensor]) -> list[Pair]:
    """All tensors of both, in order: those that belong together side by side, the others alone.

    Runs of 10^5 calls need linear memory (Hirschberg, 1975) and rows of arrays; ``proof.match`` aligns some dozen calls of one
    place, with another preference among equal alignments, and compares whole operands.
    """
    start = 0
    while start < min(len(first), len(second)) and _surely(first[start], second[start]):
        start += 1
    stop = 0
    while stop < min(len(first), len(second)) - start and _surely(first[-1 - stop], second[-1 - stop]):
        stop += 1
    words: dict[Any, int] = {}
    ends = len(first) - stop, len(second) - stop
    mine, yours = Columns(first[start : ends[0]], words), Columns(second[start : ends[1]], words)
    middle = list(_divided(Likeness(mine, yours), 0, mine.length, 0, yours.length))
    places = [(place, place) for place in range(start)]
    places += [(None if a is None else a + start, None if b is None else b + start) for a, b in middle]  # type: ignore[misc]
    places += [(len(first) - stop + place, len(second) - stop + place) for place in range(stop)]
    return [(None if a is None else first[a], None if b is None else second[b]) for a, b in places]


def _surely(one: Tensor, other: Tensor) -> bool:
    """Whether there is nothing to be found out: the same call with the same bits."""
    return bool(one.digest) and one.digest == other.digest and one.layer == other.layer and bool({*one.names} & {*other.names})


Places = tuple["int | None", "int | None"]


def _divided(like: Likeness, a: int, b: int, c: int, d: int) -> Iterator[Places]:
    """The best alignment of one sequence from a to b with the other from c to d.

    A large table is divided at its middle row (Hirschberg, 1975).
    """
    if b - a <= 1 or (b - a) * (d - c) <= _STEPS:
        yield from _traced(like, a, b, c, d)
        return
    middle = (a + b) // 2
    total = _last_row(like, range(a, middle), c, d) + _last_row(like, range(b - 1, middle - 1, -1), c, d)[::-1]
    cut = c + int(np.argmax(total))
    yield from _divided(like, a, middle, c, cut)
    yield from _divided(like, middle, b, cut, d)


def _next_row(row: Array, scores: Array) -> Array:
    """One row of the table from the one above: a pair, or a gap on either side.

    Gaps along the row depend on each other; with the gap's cost taken out of each column they are a running maximum.
    """
    best = row + _GAP
    best[1:] = np.maximum(best[1:], row[:-1] + scores)
    slope = _GAP * np.arange(len(best))
    return np.asarray(np.maximum.accumulate(best - slope) + slope)


def _last_row(like: Likeness, rows: range, c: int, d: int) -> Array:
    """The table's last row; rows in falling order mean both sequences backwards."""
    row = _GAP * np.arange(d - c + 1, dtype=np.float64)
    for place in rows:
        scores = like.row(place, c, d)
        row = _next_row(row, scores if rows.step > 0 else scores[::-1])
    return row


def _traced(like: Likeness, a: int, b: int, c: int, d: int) -> list[Places]:
    """The best alignment by the whole table."""
    rows, scores = [_GAP * np.arange(d - c + 1, dtype=np.float64)], []
    for place in range(a, b):
        scores.append(like.row(place, c, d))
        rows.append(_next_row(rows[-1], scores[-1]))
    found: list[Places] = []
    i, j = b - a, d - c
    while i or j:
        here = rows[i][j]
        if i and j and np.isclose(here, rows[i - 1][j - 1] + scores[i - 1][j - 1], rtol=0, atol=1e-6):
            i, j = i - 1, j - 1
            found.append((a + i, c + j))
        elif i and np.isclose(here, rows[i - 1][j] + _GAP, rtol=0, atol=1e-6):
            i -= 1
            found.append((a + i, None))
        else:
            j -= 1
            found.append((None, c + j))
    return found[::-1]
