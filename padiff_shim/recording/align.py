"""Which calls of two runs belong together, by dynamic programming over their ops, layers, shapes and values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .reading import Tensor

Array = np.ndarray[Any, Any]
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
    """All tensors of both, in order: those that belong together side by side, the others alone."""
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
