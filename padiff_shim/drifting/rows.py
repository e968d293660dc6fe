"""One line of a drift: a tensor of the original, and how far the port's is from it in each of its runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
    """A tensor and its distances; ``float64`` is None where there is no float64 pair, ``native`` where the port fails natively.

    ``kind``: ``"layer"`` (its result), ``"call"`` (of an op), ``"output"``, or a gradient: ``"gradient of layer"`` (of its result),
    ``"gradient of parameter"``, ``"gradient of input"``. ``number``: the how-maniest call of the layer, from 0.
    ``site``: of a call its line in the port.
    """

    kind: str
    paddle: str
    torch: str
    number: int
    site: str
    native: Distance | None
    substituted: Distance
    float64: Distance | None

    @property
    def of_gradient(self) -> bool:
        """Whether the tensor is a gradient."""
        return self.kind.startswith("gradient")

    @property
    def name(self) -> str:
        """In one word."""
        shown = self.paddle or ("(the model)" if self.kind.endswith("layer") else "(output)")
        return f"{shown}, call {self.number + 1}" if self.number else shown

    @property
    def label(self) -> str:
        """The same where no kind stands beside it."""
        return f"gradient of {self.name}" if self.of_gradient else self.name


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


def row_of(kind: str, names: tuple[str, str], number: int, site: str, arrays: Mapping[str, Array]) -> DriftRow | None:
    """The distances of one tensor in all runs; None where they have no common shape."""
    native, shim = (distance(arrays[name], arrays["torch"]) if name in arrays else None for name in ("native", "substituted"))
    if shim is None or (native is None and "native" in arrays):
        return None
    double: Distance | None = None
    if "native64" in arrays:
        double = distance(arrays["native64"], arrays["torch64"])
    return DriftRow(kind, names[0], names[1], number, site, native, shim, double)


def largest(distances: Iterable[Distance | None]) -> Distance:
    """The worst of several."""
    known = [one for one in distances if one is not None]
    return Distance(
        max((one.mean for one in known), default=0.0),
        max((one.max for one in known), default=0.0),
        all(one.identical for one in known),
    )
