"""The first question to two programs: whether they give the same, as far as rounding errors travel. Their calls are the second."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch

from ..weights.mapping import Mapping
from . import outcomes
from .arrays import Array, apart, largest, size
from .outcome import Outcome
from .tolerances import RoundingBound, floor_of, measured
from .trace import numbers

STEEP = 20 / 52  # of a dtype's digits: no error travels so far but past a tie, a step or a singular point
OF_GRADIENT = "gradient of "  # how a gradient that differs is named
Row = tuple[str, Array | None, Array | None]


class Agreement:
    """Runs in a wider dtype held against one of the original.

    Args:
        mapping: which weights belong together.
        original: the original's run.
        touched: the same with one rounding error more at every call, see :func:`.tolerances.rounded`.
        dtype: in which they ran.
    """

    def __init__(self, mapping: Mapping, original: Outcome, touched: Outcome, dtype: str = "float64") -> None:
        self._mapping, self._original, self._dtype = mapping, original, dtype
        self._allowed = {  # of each row, by whether the outputs alone are asked for
            forward: [_tolerance(expected, moved) for _, expected, moved in self._rows(touched, forward, own=True)]
            for forward in (True, False)
        }

    def breach(self, port: Outcome, *, forward: bool = False, statistics: bool = True) -> str:
        """What is further apart than rounding errors travel, or not the same where nothing rounds; "" if nothing is.

        ``forward``: of the outputs and running statistics alone; without ``statistics`` of the outputs.
        """
        rows = self._rows(port, forward) if statistics else self._outputs(port)
        for (name, expected, actual), allowed in zip(rows, self._allowed[forward]):
            if expected is not None and actual is not None and not _near(expected, actual, allowed):
                how = f"{apart(expected, actual)}, of which rounding explains {allowed.usual:.2g}"
                return f"{name or 'output'} differs in {self._dtype} ({how})"
        return ""

    def alike(self, port: Outcome, other: Outcome, *, forward: bool = False) -> bool:
        """Whether two runs of the port are one up to rounding."""
        rows = zip(self._rows(port, forward), self._rows(other, forward), self._allowed[forward])
        return all(_near(before, after, allowed) for (_, _, before), (_, _, after), allowed in rows)

    def unsettled(self, port: Outcome, *, forward: bool = False) -> str:
        """What is far apart, and moved as far by single rounding errors: at a tie, a step or a singular point; "" if nothing is.

        A gradient that is 0 but for rounding (of a key's bias behind a softmax) is small beside the others, and none of these.
        """
        rows = list(zip(self._rows(port, forward), self._allowed[forward]))
        least = max(
            (size(expected) for (_, expected, _), _ in rows if expected is not None and expected.dtype.kind in "fc"), default=0.0
        )
        for (name, expected, actual), allowed in rows:
            if expected is None or actual is None or expected.shape != actual.shape or expected.dtype.kind not in "fc":
                continue
            far = max(np.finfo(expected.dtype).eps ** STEEP * size(expected), floor_of(expected.dtype) * least)
            if allowed.usual > far and bool(((_numbers(expected) - _numbers(actual)).abs() > far).any()):
                return name or "output"
        return ""

    def _outputs(self, outcome: Outcome) -> Iterator[Row]:
        """All outputs of the original beside another run's, None where that has none."""
        partners = {path: actual for path, _, actual in outcomes.outputs(self._original, outcome)}
        yield from ((path, expected, partners.get(path)) for path, expected in self._original.outputs.items())

    def _rows(self, outcome: Outcome, forward: bool, *, own: bool = False) -> Iterator[Row]:
        """All that the original gives beside what another run does; ``own``: one of the original's, too."""
        original, mapping = self._original, self._mapping
        laid = outcomes.own if own else outcomes.ported
        yield from self._outputs(outcome)
        kinds = [("", original.statistics, outcome.statistics)]
        if not forward:
            kinds += [(OF_GRADIENT, original.gradients, outcome.gradients), ("", original.weights, outcome.weights)]
        for what, expected, actual in kinds:
            gradient = what == OF_GRADIENT
            arrays = outcomes.own(mapping, expected, gradient=gradient), laid(mapping, actual, gradient=gradient)
            for pair, *row in zip(mapping, *arrays):
                yield f"{what}{pair.paddle or pair.torch}", row[0], row[1]


def _near(expected: Array | None, actual: Array | None, allowed: RoundingBound) -> bool:
    """Whether two arrays agree; what one side alone has, and shapes, are asked elsewhere."""
    if expected is None or actual is None or expected.shape != actual.shape or not expected.size:
        return True
    if math.isinf(allowed.limit) and largest(expected, actual) <= allowed.usual:
        return True
    return bool(allowed.holds(_numbers(expected), _numbers(actual)).all())


def _tolerance(expected: Array | None, moved: Array | None) -> RoundingBound:
    if expected is None or not expected.size or not np.issubdtype(expected.dtype, np.inexact):
        return RoundingBound(0.0)
    same = moved is not None and moved.shape == expected.shape
    return measured(_numbers(expected), _numbers(moved) if moved is not None and same else None, floor_of(expected.dtype))


def _numbers(array: Array) -> torch.Tensor:
    return numbers(torch.from_numpy(np.ascontiguousarray(array)))
