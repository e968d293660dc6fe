"""One line of a drift: a tensor of the original, and how far the port's is from it in each of its runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
SIDES = ("native", "substituted", "float64")


@dataclass(frozen=True)
class Distance:
    """Mean and largest absolute difference; ``identical``: every bit is the same."""

    mean: float
    max: float
    identical: bool


@dataclass(frozen=True)
class DriftRow:
    """A layer's result or an op's, and its distances; ``float64`` is None where there is no float64 pair.

    ``kind``: ``"layer"``, ``"call"`` (of an op) or ``"output"``. ``number``: the how-maniest call of the layer, from 0.
    ``site``: of a call its line in the port.
    """

    kind: str
    paddle: str
    torch: str
    number: int
    site: str
    native: Distance
    substituted: Distance
    float64: Distance | None

    @property
    def name(self) -> str:
        """In one word."""
        shown = self.paddle or ("(the model)" if self.kind == "layer" else "(output)")
        return f"{shown}, call {self.number + 1}" if self.number else shown


def distance(ours: Array, theirs: Array) -> Distance | None:
    """Measured in float64, so that the measurement rounds nothing of float32; None for other shapes and for no numbers."""
    if ours.shape != theirs.shape or not ours.size:
        return None
    wide = np.complex128 if np.iscomplexobj(theirs) else np.float64
    same = (ours == theirs) | ((ours != ours) & (theirs != theirs))
    with np.errstate(invalid="ignore"):
        apart = np.where(same, 0.0, np.abs(ours.astype(wide) - theirs.astype(wide)))
    apart = np.nan_to_num(apart, nan=np.inf)
    identical = ours.dtype == theirs.dtype and ours.tobytes() == theirs.tobytes()
    return Distance(float(apart.mean()), float(apart.max()), identical)


def largest(distances: Iterable[Distance | None]) -> Distance:
    """The worst of several."""
    known = [one for one in distances if one is not None]
    return Distance(
        max((one.mean for one in known), default=0.0),
        max((one.max for one in known), default=0.0),
        all(one.identical for one in known),
    )
