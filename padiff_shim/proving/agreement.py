"""The first question to two programs: whether they give the same, as far as rounding errors travel. Their calls are the second."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from ..weights.mapping import Mapping
from . import outcomes
from .arrays import Array, apart
from .outcome import Outcome
from .tolerances import RoundingBound, measured, numbers

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
        self._tolerances: dict[bool, list[RoundingBound]] = {}  # of each row, by whether the outputs alone are asked for

    def breach(self, port: Outcome, *, forward: bool = False) -> str:
        """What is further apart than rounding errors travel, or not the same where nothing rounds; "" if nothing is.

        ``forward``: of the outputs and running statistics alone.
        """
        for (name, mine, yours), allowed in zip(self._rows(port, forward), self._allowed(forward)):
            if mine is not None and yours is not None and not _near(mine, yours, allowed):
                return (
                    f"{name or 'output'} differs in float64 ({apart(mine, yours)}, of which rounding explains {allowed.usual:.2g})"
                )
        return ""

    def alike(self, port: Outcome, other: Outcome, *, forward: bool = False) -> bool:
        """Whether two runs of the port are one up to rounding."""
        rows = zip(self._rows(port, forward), self._rows(other, forward), self._allowed(forward))
        return all(_near(before, after, allowed) for (_, _, before), (_, _, after), allowed in rows)

    def _allowed(self, forward: bool) -> list[RoundingBound]:
        if forward not in self._tolerances:
            self._tolerances[forward] = [_tolerance(mine, moved) for _, mine, moved in self._rows(self._touched, forward, own=True)]
        return self._tolerances[forward]

    def _rows(self, outcome: Outcome, forward: bool, *, own: bool = False) -> Iterator[Row]:
        """All that the original gives beside what another run does; ``own``: one of the original's, too."""
        original, mapping = self._original, self._mapping
        laid = outcomes.own if own else outcomes.ported
        yield from outcomes.outputs(original, outcome)
        kinds = [("", original.statistics, outcome.statistics)]
        if not forward:
            kinds += [(OF_GRADIENT, original.gradients, outcome.gradients), ("", original.weights, outcome.weights)]
        for what, mine, yours in kinds:
            gradient = what == OF_GRADIENT
            ends = outcomes.own(mapping, mine, gradient=gradient), laid(mapping, yours, gradient=gradient)
            for pair, *arrays in zip(mapping, *ends):
                yield f"{what}{pair.paddle or pair.torch}", arrays[0], arrays[1]


def _near(mine: Array | None, yours: Array | None, allowed: RoundingBound) -> bool:
    """Whether two arrays agree; what one side alone has, and shapes, are asked elsewhere."""
    if mine is None or yours is None or mine.shape != yours.shape or not mine.size:
        return True
    return bool(allowed.holds(_numbers(mine), _numbers(yours)).all())


def _tolerance(mine: Array | None, moved: Array | None) -> RoundingBound:
    if mine is None or not mine.size or not np.issubdtype(mine.dtype, np.inexact):
        return RoundingBound(0.0)
    return measured(_numbers(mine), None if moved is None or moved.shape != mine.shape else _numbers(moved))


def _numbers(array: Array) -> torch.Tensor:
    return numbers(torch.from_numpy(np.ascontiguousarray(array)))
