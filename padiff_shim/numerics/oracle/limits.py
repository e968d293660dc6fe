"""What differences need no oracle: limits, made in pieces; and bounds, which give them for the tensors of any call."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from . import few as in_numpy

CLOSE = 0.75  # of the unit bound: an honest kernel is off by a quarter or so

_NONE = torch.empty(0)


class Limit:
    """Differences that need no oracle, of a result of this many rows of ``width`` elements; ``part(first, last)``: of some rows.

    ``relative``: not 0 where the limit is this times the result's magnitude. ``usual``: the part of it that the differences may be
    in root mean square; infinite where that is not asked.
    """

    __slots__ = ("_from", "_held", "_part", "_rows", "relative", "usual", "width")

    def __init__(self, part: Callable[[int, int], torch.Tensor], rows: int, width: int = 1, relative: float = 0.0) -> None:
        self._part, self._rows, self.width, self.relative, self.usual = part, rows, max(width, 1), relative, math.inf
        self._from, self._held = 0, _NONE

    @classmethod
    def of(cls, values: torch.Tensor) -> Limit:
        """Limits that are there already: one axis."""
        limit = cls(lambda first, last: values[first:last], values.numel())
        limit._held = values
        return limit

    def between(self, low: int, high: int) -> torch.Tensor:
        """Those of the flat positions from ``low`` to ``high``: one axis."""
        start, held = self._from, self._held
        if low == start and high - low == held.numel():
            return held
        if not start <= low < high <= start + self._held.numel():  # a row longer than a piece is made once
            first, last = low // self.width, -(-high // self.width)
            start, self._held = first * self.width, self._part(first, last).reshape(-1)
            self._from = start
        return self._held[low - start : high - start]

    def whole(self) -> torch.Tensor:
        """All of them: one axis."""
        return self._part(0, self._rows).reshape(-1)


class Seat(NamedTuple):
    """How an operand of a shape is seen from the outputs: its dims in this order, those of size 1 last, which are dropped."""

    name: str
    order: tuple[int, ...] | None  # None: as they are
    kept: tuple[int, ...] | None  # the shape without those that are dropped; None: all stay
    grid: tuple[int, ...]
    inner: tuple[int, ...]


Formula = Callable[..., "Limit | None"]  # (one of the results, the bound's tensors) -> limits; None: there are none


class Bound:
    """Limits as a function of one of the results. ``formula`` gets the result and ``tensors``, and knows of no other tensor.

    ``few``: the same in NumPy, for small tensors.
    """

    __slots__ = ("few", "formula", "tensors")

    def __init__(self, formula: Formula, *tensors: torch.Tensor | None, few: in_numpy.Formula | None = None) -> None:
        self.formula, self.tensors, self.few = formula, tensors, few

    def __call__(self, result: torch.Tensor) -> Limit | None:
        return self.formula(result, *self.tensors)

    def among(self, given: Sequence[Any], result: torch.Tensor | None = None) -> Learnt | None:
        """The same for another call whose tensors are alike in all but their values; ``given``: this call's.

        None where a tensor is not among them, or more than once: which is meant in another call is not known. ``result``: one of
        this call's results, if it is said how small they are.
        """
        places = []
        for tensor in self.tensors:
            found = [place for place, one in enumerate(given) if one is tensor] if tensor is not None else [-1]
            if len(found) != 1:
                return None
            places += found
        small = None
        if self.few is not None and result is not None and in_numpy.suits(result, self.tensors):
            small = in_numpy.Few(self.few, places)
        return Learnt(self.formula, places, small)


class Learnt:
    """A :class:`Bound` without its tensors: ``places`` says which of a call's they are (-1: None); ``few``: if they are small."""

    __slots__ = ("_formula", "_places", "few")

    def __init__(self, formula: Formula, places: Sequence[int], few: in_numpy.Few | None = None) -> None:
        self._formula, self._places, self.few = formula, tuple(places), few

    def of(self, result: torch.Tensor, given: Sequence[Any]) -> Limit | None:
        """The limits for one of the results of a call, and its tensors."""
        return self._formula(result, *[None if place < 0 else given[place] for place in self._places])
