"""How far two recorded tensors are apart, and which tensors of two runs belong together."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..runlog.events import NAMED
from . import tensors as contents
from .tensors import Array, Tensor

# ---- Distances

_FLOATS: dict[str, tuple[Any, Any]] = {
    "float16": (np.int16, np.float16),
    "float32": (np.int32, np.float32),
    "float64": (np.int64, np.float64),
}
_AXES = 4  # up to so many every order of axes is tried
# The largest difference that rounding makes after many calls, relative to the largest element.
_ROUNDED = {"bfloat16": 2.0**-4, "float16": 2.0**-5, "float32": 2.0**-12, "float64": 2.0**-26}
_CHANCES = 100  # an arrangement of values is no coincidence if there are more ways to arrange them
_SAME_SUMS = 1e-9  # relative: sums of the same numbers in another order, in float64


@dataclass(frozen=True)
class TensorDistance:
    """How far two tensors are apart.

    Attributes:
        identical: all elements are equal (0 and -0 are), in the same or in another layout.
        max_abs, mean_abs: of the absolute differences; NaN where single elements are not known.
        relative: norm of the difference over the second tensor's norm.
        ulp: largest difference in units in the last place of the coarser dtype; None between other dtypes than floats.
        elements, different: how many elements were compared, and how many of them differ.
        how: ``"values"``, ``"sample"`` (some elements: there may be larger differences), ``"figures"`` (least, greatest, sums:
            single elements are not known), ``"fingerprint"`` (``relative`` is an estimate), ``"digest"``, ``"shape"`` or
            ``"nothing"`` (a recording has no values).
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
        """Whether no element differs by more than ``atol`` plus ``rtol`` of the largest element, ``scale``."""
        if self.identical or (atol == 0 and rtol == 0):
            return self.identical
        if self.how == "fingerprint":
            return bool(self.relative <= rtol)
        return self.how in ("values", "sample") and bool(self.max_abs <= atol + rtol * scale)


def apart(a: Tensor, b: Tensor) -> TensorDistance:
    """How far two tensors are apart, with as much of them as both recordings hold."""
    if a.digest and a.digest == b.digest and a.dtype == b.dtype and a.size == b.size:
        # Equal bytes in C order: the same shape, or one reshaped.
        return TensorDistance(True, elements=a.size, layout="" if a.shape == b.shape else "reshaped")
    if a.size != b.size:
        return TensorDistance(False, np.nan, np.nan, np.nan, None, how="shape")
    if not (a.digest and b.digest):
        return TensorDistance(False, np.nan, np.nan, np.nan, None, how="nothing")
    values = a.values(), b.values()
    if values[0] is not None and values[1] is not None:
        return _best(values[0], values[1], _unit(a, b), weights=a.kind in NAMED)
    if a.shape == b.shape:
        drawn = _elements(a), _elements(b)
        if drawn[0] is not None and drawn[1] is not None and drawn[0].shape == drawn[1].shape:
            return _measured(drawn[0], drawn[1], _unit(a, b), "sample", "")
    return by_figures(a, b)


def _elements(tensor: Tensor) -> Array | None:
    """The sample, as recorded or from the values."""
    values = tensor.values()
    if values is None and not tensor.sample:
        return None
    return np.array(tensor.sample if values is None else contents.sample(values), np.float64)


def by_figures(first: Tensor, second: Tensor) -> TensorDistance:
    """How far least, greatest and sums are apart, where single elements are not known."""
    names = ("min", "max", "nan", "inf", "mean_abs", "norm")
    pairs = [(first.figures.get(name, 0.0), second.figures.get(name, 0.0)) for name in names]
    relative = max(abs(a - b) / max(abs(a), abs(b)) if a != b else 0.0 for a, b in pairs)
    alike = relative <= _SAME_SUMS and all(a == b for a, b in pairs[:4])
    return TensorDistance(alike, np.nan, np.nan, relative, None, first.size, 0 if alike else first.size, "figures")


def _unit(a: Tensor, b: Tensor) -> str:
    """The coarser of both dtypes, in whose last places differences are counted; "" if one is no float."""
    order = ("bfloat16", "float16", "float32", "float64")
    return next((name for name in order if name in (a.dtype, b.dtype)), "") if {a.dtype, b.dtype} <= set(order) else ""


def _best(first: Array, second: Array, unit: str, *, weights: bool) -> TensorDistance:
    """The difference of both as they lie, or in the arrangement of the first that explains it."""
    plain = None
    if _lie_alike(first.shape, second.shape):
        layout = "" if first.shape == second.shape else "reshaped"
        plain = _measured(first.reshape(second.shape), second, unit, "values", layout)
        if not plain.different:
            return plain
    layouts = [(layout, laid) for layout, laid in _layouts(first, second.shape) if plain is None or layout != plain.layout]
    arranged = [_measured(laid, second, unit, "values", layout) for layout, laid in layouts]
    best = min(arranged, key=lambda apart: (not apart.identical, apart.different > 0 and apart.relative), default=None)
    if best is not None and _explains(best, plain, first, second, unit, weights=weights):
        return best
    return plain or TensorDistance(False, np.nan, np.nan, np.nan, None, how="shape")


def _lie_alike(first: tuple[int, ...], second: tuple[int, ...]) -> bool:
    """Whether a shape is the other with some neighbouring axes merged: then elements are in one order."""
    ends = [set(itertools.accumulate(shape, operator.mul)) for shape in (first, second)]
    return first == second or ends[0] <= ends[1] | {1} or ends[1] <= ends[0] | {1}


def _explains(best: TensorDistance, plain: TensorDistance | None, first: Array, second: Array, unit: str, *, weights: bool) -> bool:
    """Whether a difference is nothing but another arrangement.

    The other arrangement has to be nearer by far. That is enough for a weight, which lies transposed in the other framework,
    whatever its values. In other tensors no element may differ by more than rounding, and chance may not have arranged them so.
    """
    if plain is not None and not best.identical and best.relative >= plain.relative / 2:
        return False
    if weights or (best.identical and plain is None):
        return True
    size = np.abs(second[np.isfinite(second)].astype(np.complex128 if np.iscomplexobj(second) else np.float64)).max(initial=0.0)
    if best.different and not best.max_abs <= _ROUNDED.get(unit, 0.0) * size:
        return False
    moved = second if plain is None else second[np.asarray(first.reshape(second.shape) != second)]
    _, counts = np.unique(moved, return_counts=True)
    ways = math.lgamma(moved.size + 1) - sum(math.lgamma(count + 1) for count in counts.tolist())
    return ways > math.log(_CHANCES)


def _layouts(array: Array, shape: tuple[int, ...]) -> list[tuple[str, Array]]:
    """Every way to bring an array into a shape: as it lies, with its axes in another order, or by reading it in order."""
    layouts = [("", array)] if array.shape == shape else []
    if 1 < array.ndim == len(shape) <= _AXES:
        orders = itertools.permutations(range(array.ndim))
        next(orders)
        fitting = [order for order in orders if tuple(array.shape[axis] for axis in order) == shape]
        layouts += [("transposed" if array.ndim == 2 else f"axes {list(order)}", array.transpose(order)) for order in fitting]
    if not layouts or array.shape != shape:
        layouts.append(("reshaped", array.reshape(shape)))
    return layouts


def _measured(first: Array, second: Array, unit: str, how: str, layout: str) -> TensorDistance:
    """The difference of two arrays of one shape."""
    same = (first == second) | ((first != first) & (second != second))
    number = int(same.size - np.count_nonzero(same))
    if not number:
        return TensorDistance(bool(first.dtype == second.dtype and how == "values"), elements=first.size, how=how, layout=layout)
    wide = np.complex128 if np.iscomplexobj(first) or np.iscomplexobj(second) else np.float64
    a, b = first.astype(wide), second.astype(wide)
    with np.errstate(invalid="ignore", over="ignore"):
        between = np.where(same, 0.0, np.abs(a - b))
        between = np.where(np.isnan(between), np.inf, between)
        norm = float(np.sqrt(np.square(np.abs(b[np.isfinite(b)])).sum()))
        size = float(np.sqrt(np.square(between).sum()))
    return TensorDistance(
        False, float(between.max()), float(between.mean()), size / norm if norm else np.inf,
        _ulps(first, second, same, unit), first.size, number, how, layout,
    )  # fmt: skip


def _ulps(first: Array, second: Array, same: Array, unit: str) -> float | None:
    """The largest difference in units in the last place: numbers of a float dtype, counted in their order."""
    if not unit:
        return None
    if not (np.isfinite(first) | same).all() or not (np.isfinite(second) | same).all():
        return float("inf")
    here, there = (np.where(same, 0, _counted(array, unit)) for array in (first, second))
    across = (here < 0) != (there < 0)  # one on each side of 0: the distance may exceed an int64, and its last digits say nothing
    near = np.abs(np.where(across, 0, here) - np.where(across, 0, there)).astype(np.float64)
    return float(np.where(across, np.abs(here.astype(np.float64)) + np.abs(there.astype(np.float64)), near).max())


def _counted(array: Array, unit: str) -> Array:
    """Each element's place among all numbers of the dtype, counted from 0."""
    if unit == "bfloat16":
        words = contents.as_bfloat16(array.astype(np.float32)).astype(np.int64)
        return np.where(words & 0x8000, -(words & 0x7FFF), words)
    integer, float_ = _FLOATS[unit]
    with np.errstate(over="ignore"):
        bits = np.ascontiguousarray(array.astype(float_)).view(integer).astype(np.int64)
    return np.where(bits < 0, -(bits & np.int64(np.iinfo(integer).max)), bits)


# ---- Alignment, by dynamic programming over ops, layers, shapes and values

Pair = tuple[Tensor | None, Tensor | None]
_GAP = -1.0  # a tensor without partner
_APART = -1e9  # tensors that never belong together
_OP, _OTHER_OP = 3.0, -3.5
_LAYER, _OTHER_LAYER = 1.5, -0.5
_SHAPE, _OTHER_SIZE = 0.5, -3.0
_EQUAL, _NEAR = 4.0, 3.0  # equal bits; figures within some digits, by how many
_STEPS = 400_000  # cells of a table that is held as a whole; a larger one is divided


class Columns:
    """A sequence of tensors as arrays, one element a tensor; ``words`` numbers equal keys alike in both sequences."""

    def __init__(self, tensors: Sequence[Tensor], words: dict[Any, int]) -> None:
        def codes(keys: Sequence[Any]) -> Array:
            return np.array([words.setdefault(key, len(words)) for key in keys], np.int64)

        self.kinds = list(dict.fromkeys(tensor.names for tensor in tensors))
        place = {names: number for number, names in enumerate(self.kinds)}
        self.kind = np.array([place[tensor.names] for tensor in tensors], np.int64)
        self.layer = codes([("layer", tensor.layer) for tensor in tensors])
        self.shape = codes([("shape", tensor.shape) for tensor in tensors])
        self.digest = codes([("digest", tensor.digest or tensor) for tensor in tensors])
        self.size = np.array([tensor.size for tensor in tensors], np.int64)
        figures = ("min", "max", "mean_abs", "norm")
        self.figures = np.array([[tensor.figures.get(name, np.nan) for name in figures] for tensor in tensors], np.float64)
        self.figures = self.figures.reshape(-1, len(figures))
        self.length = len(tensors)


class Likeness:
    """How well each tensor of one sequence goes with each of another."""

    def __init__(self, first: Columns, second: Columns) -> None:
        self.first, self.second = first, second
        self._same_op = np.array([[bool({*names} & {*other}) for other in second.kinds] for names in first.kinds], bool)
        self._same_op = self._same_op.reshape(len(first.kinds), len(second.kinds))

    def row(self, place: int, begin: int, end: int) -> Array:
        """Of the tensor at ``place`` with each of the others from ``begin`` to ``end``."""
        first, second, cut = self.first, self.second, slice(begin, end)
        op = self._same_op[first.kind[place]][second.kind[cut]]
        equal = second.digest[cut] == first.digest[place]
        score = np.where(op, _OP, np.where(equal, 0.0, _OTHER_OP))
        score += np.where(second.layer[cut] == first.layer[place], _LAYER, _OTHER_LAYER)
        score += np.where(second.shape[cut] == first.shape[place], _SHAPE, 0.0)
        score += np.where(equal, _EQUAL, self._near(place, second.figures[cut]))
        return np.where(second.size[cut] == first.size[place], score, np.where(op, score + _OTHER_SIZE, _APART))

    def _near(self, place: int, figures: Array) -> Array:
        """Between 0 (other figures) and :data:`_NEAR` (alike in nine digits)."""
        first = self.first.figures[place]
        with np.errstate(invalid="ignore", divide="ignore"):
            scale = np.maximum(np.abs(figures), np.abs(first))
            apart = np.where(scale > 0, np.abs(figures - first) / scale, 0.0).max(axis=1)
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
    columns = Columns(first[start : ends[0]], words), Columns(second[start : ends[1]], words)
    middle = list(_divided(Likeness(*columns), 0, columns[0].length, 0, columns[1].length))
    places = [(place, place) for place in range(start)]
    places += [(None if a is None else a + start, None if b is None else b + start) for a, b in middle]  # type: ignore[misc]
    places += [(len(first) - stop + place, len(second) - stop + place) for place in range(stop)]
    return [(None if a is None else first[a], None if b is None else second[b]) for a, b in places]


def _surely(a: Tensor, b: Tensor) -> bool:
    """Whether both are the same call with the same bits."""
    return bool(a.digest) and a.digest == b.digest and a.layer == b.layer and bool({*a.names} & {*b.names})


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
    places: list[Places] = []
    i, j = b - a, d - c
    while i or j:
        here = rows[i][j]
        if i and j and np.isclose(here, rows[i - 1][j - 1] + scores[i - 1][j - 1], rtol=0, atol=1e-6):
            i, j = i - 1, j - 1
            places.append((a + i, c + j))
        elif i and np.isclose(here, rows[i - 1][j] + _GAP, rtol=0, atol=1e-6):
            i -= 1
            places.append((a + i, None))
        else:
            j -= 1
            places.append((None, c + j))
    return places[::-1]
