"""How far two recorded tensors are apart, and which tensors of two runs belong together."""

from __future__ import annotations

import dataclasses
import itertools
import math
import operator
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..measure.distance import Distance, distance
from ..runlog.events import NAMED
from . import tensors as contents
from .tensors import Array, Tensor

# ---- Distances

_AXES = 4  # up to so many every order of axes is tried
_NEARER = 10  # times: as much nearer an arrangement brings elements that lie otherwise
_UNLIKE = 0.5  # relative: beyond, tensors of other shapes are not told apart further
_CHANCES = 100  # an arrangement of values is no coincidence if there are more ways to arrange them
SUMS = 1e-5  # relative: sums of the same float32 numbers in another order
_SAME_ELEMENTS = 1e-6  # relative: figures of six digits
_SAME_SUMS = 1e-9  # relative: sums of the same numbers in another order, in float64


def apart(a: Tensor, b: Tensor) -> Distance:
    """How far two tensors are apart, with as much of them as both recordings hold."""
    largest = [str(side.figures.get("max_abs")) for side in (a, b)]  # of fingerprints: hashes of ones or twos say little
    if a.digest and a.digest == b.digest and a.dtype == b.dtype and a.size == b.size and largest[0] == largest[1]:
        # Equal bytes in C order: the same shape, or one reshaped.
        return Distance(True, elements=a.size, how="digest", layout="" if a.shape == b.shape else "reshaped")
    if a.size != b.size:
        return Distance(False, np.nan, np.nan, np.nan, None, how="shape")
    if not (a.digest and b.digest):
        return by_figures(a, b) if a.figures and b.figures else Distance(False, np.nan, np.nan, np.nan, None, how="nothing")
    values = a.values(), b.values()
    if values[0] is not None and values[1] is not None:
        return _best(values[0], values[1], (a.dtype, b.dtype), weights=a.kind in NAMED)
    if a.shape == b.shape:
        drawn = elements(a), elements(b)
        if drawn[0] is not None and drawn[1] is not None and drawn[0].shape == drawn[1].shape:
            return distance(drawn[0], drawn[1], (a.dtype, b.dtype), how="sample")
    return by_figures(a, b)


def repeated(a: Tensor, b: Tensor) -> Distance | None:
    """As :func:`apart`, where one tensor holds the other's elements several times along axes; None where it does not."""
    small, large = sorted((a, b), key=lambda tensor: tensor.size)
    axes = list(zip(small.shape, large.shape))
    if not small.size or len(small.shape) != len(large.shape) or any(size not in (1, other) for size, other in axes):
        return None
    arrays = [values for tensor in (a, b) if (values := tensor.values()) is not None]
    if len(arrays) == 2:
        both = [np.broadcast_to(array, large.shape) for array in arrays]
        return distance(both[0], both[1], (a.dtype, b.dtype), layout="repeated")
    times = large.size // small.size
    scales = {"norm": math.sqrt(times), "nan": times, "inf": times}
    figures = {name: value * scales.get(name, 1) for name, value in small.figures.items()}
    grown = dataclasses.replace(small, shape=large.shape, figures=figures)
    return by_figures(*((grown, b) if small is a else (a, grown)), turned=True) if figures and large.figures else None


def elements(tensor: Tensor, values: Array | None = None) -> Array | None:
    """The sample, as recorded or from the values, or from those at hand."""
    values = tensor.values() if values is None else values
    if values is None and not tensor.sample:
        return None
    return np.array(tensor.sample if values is None else contents.sample(values), np.float64)


def by_figures(first: Tensor, second: Tensor, *, turned: bool = False) -> Distance:
    """How far least, greatest and sums are apart, where single elements are not known; ``turned``: they may lie otherwise."""
    if "max_abs" in first.figures or "max_abs" in second.figures:
        return _by_fingerprints(first, second, turned=turned)
    names = ("min", "max", "nan", "inf", "mean_abs", "norm")
    pairs = [(first.figures.get(name, 0.0), second.figures.get(name, 0.0)) for name in names]
    relative = max(abs(a - b) / max(abs(a), abs(b)) if a != b else 0.0 for a, b in pairs)
    alike = relative <= _SAME_SUMS and all(a == b for a, b in pairs[:4])
    return Distance(alike, np.nan, np.nan, relative, None, first.size, 0 if alike else first.size, "figures")


def same_elements(first: Sequence[Tensor], second: Sequence[Tensor]) -> bool:
    """Whether tensors of fingerprints hold the same elements all together in another order: figures that do not depend on it are
    equal, and one that does is not."""
    if not first or sorted(tensor.shape for tensor in first) != sorted(tensor.shape for tensor in second):
        return False
    if not all({"mean", "max_abs"} <= tensor.figures.keys() for tensor in (*first, *second)):
        return False
    if all(by_figures(a, b).relative <= SUMS for a, b in zip(first, second)):
        return False  # the same order, but for rounding
    sides = (
        (
            math.hypot(*(tensor.figures["norm"] for tensor in side)),
            max(tensor.figures["max_abs"] for tensor in side),
            sum(tensor.figures["mean"] * tensor.size for tensor in side) / sum(tensor.size for tensor in side),
        )
        for side in (first, second)
    )
    pairs = list(zip(*sides))
    scales = [max(abs(a), scale) for (a, _), scale in zip(pairs, (0.0, 0.0, pairs[1][0]))]
    return all(abs(a - b) <= _SAME_ELEMENTS * scale < math.inf for (a, b), scale in zip(pairs, scales))


def _by_fingerprints(first: Tensor, second: Tensor, *, turned: bool) -> Distance:
    """The estimated distance; of what lies otherwise, or on several ranks, by norms and greatest elements alone."""
    names = [name for name in ("norm", "max_abs", "projection") if name in first.figures and name in second.figures]
    names = names if first.shape == second.shape and not turned else names[:2]
    pairs = [(first.figures[name], second.figures[name]) for name in names]
    gaps = [0.0 if a == b or (math.isnan(a) and math.isnan(b)) else abs(a - b) for a, b in pairs]
    gap = max((math.inf if math.isnan(gap) else gap for gap in gaps), default=math.inf)
    relative = gap / (second.figures.get("norm") or 1.0) if gap else 0.0
    whole = "projection" in names
    return Distance(not whole and relative <= SUMS, np.nan, np.nan, relative, None, first.size, 0, "fingerprint")


def _best(first: Array, second: Array, dtypes: tuple[str, str], *, weights: bool) -> Distance:
    """The difference of both as they lie, or in the arrangement of the first that explains it."""
    plain = None
    if lie_alike(first.shape, second.shape):
        layout = "" if first.shape == second.shape else "reshaped"
        plain = distance(first.reshape(second.shape), second, dtypes, layout=layout)
        if not plain.different:
            return plain
    layouts = [(layout, laid) for layout, laid in _layouts(first, second.shape) if plain is None or layout != plain.layout]
    arranged = [distance(laid, second, dtypes, layout=layout) for layout, laid in layouts]
    best = min(arranged, key=lambda apart: (not apart.identical, apart.different > 0 and apart.relative), default=None)
    if best is not None and _explains(best, plain, first, second, weights=weights):
        return best
    return plain or Distance(False, np.nan, np.nan, np.nan, None, how="shape")


def lie_alike(first: tuple[int, ...], second: tuple[int, ...]) -> bool:
    """Whether a shape is the other with some neighbouring axes merged: then elements are in one order."""
    ends = [set(itertools.accumulate(shape, operator.mul)) for shape in (first, second)]
    return first == second or ends[0] <= ends[1] | {1} or ends[1] <= ends[0] | {1}


def _explains(best: Distance, plain: Distance | None, first: Array, second: Array, *, weights: bool) -> bool:
    """Whether a difference is nothing but another arrangement.

    The other arrangement has to be nearer by far. That is enough for a weight, which lies transposed in the other framework,
    whatever its values. Of other tensors chance may not have arranged the elements so.
    """
    if plain is not None and not best.identical and best.relative >= plain.relative / (2 if weights else _NEARER):
        return False
    if weights or (best.identical and plain is None):
        return True
    if plain is None and best.relative > _UNLIKE:
        return False
    moved = second if plain is None else second[np.asarray(first.reshape(second.shape) != second)]
    _, counts = np.unique(moved, return_counts=True)
    ways = math.lgamma(moved.size + 1) - sum(math.lgamma(count + 1) for count in counts.tolist())
    return ways > math.log(_CHANCES)


def nearest(first: Array, second: Array) -> float:
    """The least relative difference of both in any layout; NaN where sizes differ."""
    sizes = [distance(laid, second).relative for _, laid in _layouts(first, second.shape)] if first.size == second.size else []
    return min(sizes, default=math.nan)


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


# ---- Alignment, by dynamic programming over ops, layers, shapes and values

Pair = tuple[Tensor | None, Tensor | None]
_GAP = -1.0  # a tensor without partner
_APART = -1e9  # tensors that never belong together
_OP, _OTHER_OP = 3.0, -3.5
_LAYER, _OTHER_LAYER = 1.5, -1.5
_SHAPE, _OTHER_SIZE = 0.5, -3.0
_EQUAL, _NEAR = 4.0, 3.0  # equal bits; figures within some digits, by how many
_STEPS = 400_000  # cells of a table that is held as a whole; a larger one is divided


class Likeness:
    """How well each tensor of one sequence goes with each of another."""

    def __init__(self, first: Sequence[Tensor], second: Sequence[Tensor]) -> None:
        words: dict[Any, int] = {}
        self.first, self.second = (_Columns(tensors, words) for tensors in (first, second))
        kinds = [list(dict.fromkeys(tensor.names for tensor in tensors)) for tensors in (first, second)]
        same = [[bool({*names} & {*other}) for other in kinds[1]] for names in kinds[0]]
        self._same_op = np.array(same, bool).reshape(len(kinds[0]), len(kinds[1]))

    def row(self, place: int, begin: int, end: int) -> Array:
        """Of the tensor at ``place`` with each of the others from ``begin`` to ``end``."""
        first, second, cut = self.first, self.second, slice(begin, end)
        op = self._same_op[first.kind[place]][second.kind[cut]]
        equal = second.digest[cut] == first.digest[place]
        score = np.where(op, _OP, np.where(equal, 0.0, _OTHER_OP))
        score += np.where(second.layer[cut] == first.layer[place], _LAYER, _OTHER_LAYER)
        score += np.where(second.shape[cut] == first.shape[place], _SHAPE, 0.0)
        figures, own = second.figures[cut], first.figures[place]
        with np.errstate(invalid="ignore", divide="ignore"):  # between 0 (other figures) and _NEAR (alike in nine digits)
            scale = np.maximum(np.abs(figures), np.abs(own))
            apart = np.where(scale > 0, np.abs(figures - own) / scale, 0.0).max(axis=1)
            near = np.nan_to_num(np.clip(-np.log10(np.maximum(apart, 1e-9)) / 9.0, 0.0, 1.0) * _NEAR)
        score += np.where(equal, _EQUAL, near)
        return np.where(second.size[cut] == first.size[place], score, np.where(op, score + _OTHER_SIZE, _APART))


class _Columns:
    """A sequence of tensors as arrays, one element a tensor; ``words`` numbers equal keys alike in both sequences."""

    def __init__(self, tensors: Sequence[Tensor], words: dict[Any, int]) -> None:
        place = {names: number for number, names in enumerate(dict.fromkeys(tensor.names for tensor in tensors))}
        self.kind = np.array([place[tensor.names] for tensor in tensors], np.int64)
        keys = [(("layer", own.layer), ("shape", own.shape), ("digest", own.digest or own)) for own in tensors]
        codes = np.array([[words.setdefault(key, len(words)) for key in row] for row in keys], np.int64).reshape(-1, 3)
        self.layer, self.shape, self.digest = codes.T
        self.size = np.array([tensor.size for tensor in tensors], np.int64)
        figures = ("min", "max", "mean_abs", "norm")
        self.figures = np.array([[tensor.figures.get(name, np.nan) for name in figures] for tensor in tensors], np.float64)
        self.figures = self.figures.reshape(-1, len(figures))


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
    ends = len(first) - stop, len(second) - stop
    middle = _divided(Likeness(first[start : ends[0]], second[start : ends[1]]), 0, ends[0] - start, 0, ends[1] - start)
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
