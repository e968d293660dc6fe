"""The first question to two programs: whether they give the same, as far as rounding errors travel. Their calls are the second."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from ..weights.mapping import Mapping
from . import outcomes
from .arrays import Array, apart
from .outcome import Outcome
from .tolerances import Tolerance, measured, numbers

OF_GRADIENT = "gradient of "  # how a gradient that differs is named
Row = tuple[str, Array | None, Array | None]


class Agreement:
    """Runs in float64 held against one of the original.

    Args:
        mapping: which weights belong together.
        original: the original's run.
        touched: the same with one rounding error more at every call, see :func:`.tolerances.rounded`.
    """

    def __init__(self, mapping: Mapping, original: Outcome, touched: Outcome) -> None:
        self._mapping, self._original, self._touched = mapping, original, touched
        self._tolerances: dict[bool, list[Tolerance]] = {}  # of each row, by whether the outputs alone are asked for

    def breach(self, port: Outcome, *, forward: bool = False) -> str:
        """What is further apart than rounding errors travel, or not the same where nothing rounds; "" if nothing is.

        ``forward``: of the outputs and running statistics alone.
        """
        for (name, one, other), allowed in zip(self._rows(port, forward), self._allowed(forward)):
            if one is not None and other is not None and not _near(one, other, allowed):
                return (
                    f"{name or 'output'} differs in float64 ({apart(one, other)}, of which rounding explains {allowed.usual:.2g})"
                )
        return ""

    def alike(self, port: Outcome, other: Outcome, *, forward: bool = False) -> bool:
        """Whether two runs of the port are one up to rounding."""
        rows = zip(self._rows(port, forward), self._rows(other, forward), self._allowed(forward))
        return all(_near(one, two, allowed) for (_, _, one), (_, _, two), allowed in rows)

    def _allowed(self, forward: bool) -> list[Tolerance]:
        if forward not in self._tolerances:
            self._tolerances[forward] = [_tolerance(one, moved) for _, one, moved in self._rows(self._touched, forward, own=True)]
        return self._tolerances[forward]

    def _rows(self, outcome: Outcome, forward: bool, *, own: bool = False) -> Iterator[Row]:
        """All that the original gives beside what another run does; ``own``: one of the original's, too."""
        original, mapping = self._original, self._mapping
        laid = outcomes.own if own else outcomes.ported
        for path, one, other in outcomes.outputs(original, outcome):
            yield path, one, other
        kinds = [("", original.statistics, outcome.statistics)]
        if not forward:
            kinds += [(OF_GRADIENT, original.gradients, outcome.gradients), ("", original.weights, outcome.weights)]
        for what, mine, yours in kinds:
            for pair, one, other in zip(mapping, outcomes.own(mapping, mine), laid(mapping, yours)):
                yield f"{what}{pair.paddle or pair.torch}", one, other


def _near(one: Array | None, other: Array | None, allowed: Tolerance) -> bool:
    """Whether two arrays agree; what one side alone has, and shapes, are asked elsewhere."""
    if one is None or other is None or one.shape != other.shape or not one.size:
        return True
    return bool(allowed.holds(*map(_numbers, (one, other))).all())


def _tolerance(one: Array | None, moved: Array | None) -> Tolerance:
    if one is None or not one.size or not np.issubdtype(one.dtype, np.inexact):
        return Tolerance(0.0)
    return measured(_numbers(one), None if moved is None or moved.shape != one.shape else _numbers(moved))


def _numbers(array: Array) -> torch.Tensor:
    return numbers(torch.from_numpy(np.ascontiguousarray(array)))
