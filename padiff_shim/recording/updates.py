"""Which rows belong to a parameter's update, and arithmetic on them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np

from ..runlog.events import IN_STEP, LOSS
from ..text import tr
from .difference import Difference, TensorRow
from .tensors import GRADIENTS, Array, Tensor

_SCALED = 1e-3  # relative: gradients that are a multiple of others


class Updates:
    """The updates of two runs.

    Args:
        difference: with the rows of both.
    """

    def __init__(self, difference: Difference) -> None:
        self._ranks = len({step.rank for step in difference.steps}) > 1  # each is compared for itself
        self._rows: defaultdict[tuple[str, str], list[TensorRow]] = defaultdict(list)
        for row in difference.compared:
            self._rows[row.any.kind, self.name(row)].append(row)
        self._all = difference.rows
        self._first = difference.steps[0].step if difference.steps else 0

    def name(self, row: TensorRow) -> str:
        """What the rows of one parameter of one process share."""
        return f"{row.rank} {row.any.name}" if self._ranks else row.any.name

    def begins(self, row: TensorRow) -> bool:
        """Whether a row is of a parameter as the runs begin."""
        rows = [other for other in self._rows[row.any.kind, self.name(row)] if other.any.step == self._first]
        return row.any.kind == "parameter" and len(rows) > 1 and rows[0] is row

    def gradient(self, row: TensorRow) -> TensorRow | None:
        """The row of a parameter's gradient as the update used it that made this row."""
        for kind in GRADIENTS:
            used = [known for known in self._rows[kind, self.name(row)] if known.any.step == row.any.step]
            if used:
                return used[-1]
        return None

    def count(self, row: TensorRow, side: str) -> int:
        """How many updates of a parameter a run has made in the step, by the gradients that they used."""
        used = (getattr(other, side) for other in self._all if other.any.kind == IN_STEP and other.any.step == row.any.step)
        return sum(tensor is not None and tensor.name == row.any.name for tensor in used)

    def gradients_before(self, row: TensorRow) -> list[TensorRow]:
        """The rows of a parameter's gradients in the step before."""
        rows = (known for kind in GRADIENTS for known in self._rows[kind, self.name(row)])
        return [known for known in rows if known.any.step == row.any.step - 1]


def unscaled(rows: list[TensorRow]) -> list[TensorRow]:
    """The rows of a step; gradients of a scaled loss are no difference where those that the update uses are equal, unscaled."""
    equal = {row.any.name for row in rows if row.any.kind == IN_STEP and not row.differs}
    for place, row in enumerate(rows):
        if row.differs and row.any.kind == "gradient" and row.any.name in equal:
            a, b = linear(row.a), linear(row.b)
            ways = [b, b.T] if a is not None and b is not None and b.ndim == 2 else [b]
            if a is not None and any(way is not None and way.shape == a.shape and multiple(a, way, _SCALED) for way in ways):
                rows[place] = replace(row, differs=False, joined=tr("of a scaled loss; equal as the update uses them"))
    return rows


def multiple(values: Array, of: Array, within: float) -> float | None:
    """By which ``values`` are ``of``; None where they are no multiple of it within this, relative."""
    square = float(np.vdot(of, of))
    factor = float(np.vdot(values, of)) / square if square else 0.0
    return factor if factor and np.linalg.norm(values - factor * of) <= within * np.linalg.norm(values) else None


def wide(tensor: Tensor | None) -> Array | None:
    """Values in float64; None where they are not known, or not all finite numbers."""
    values = None if tensor is None or tensor.kind == LOSS else tensor.values()
    known = None if values is None or np.iscomplexobj(values) else values.astype(np.float64)
    return None if known is None or not np.isfinite(known).all() else known


def linear(tensor: Tensor | None) -> Array | None:
    """Values in float64, or figures of a fingerprint that add up as the values do: mean and projection."""
    values = wide(tensor)
    if values is None and tensor is not None and {"mean", "projection"} <= tensor.figures.keys():
        values = np.array([tensor.figures["mean"] * tensor.size, tensor.figures["projection"]])
    elif values is None and tensor is not None and tensor.size == 1 and "mean" in tensor.figures:
        values = np.array([tensor.figures["mean"]])
    return values
