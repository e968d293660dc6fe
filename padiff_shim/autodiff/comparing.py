"""When two arrays count as equal, by the caller's tolerance, and how they differ otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Tolerance:
    """``|base - raw| <= atol + rtol * |base|``, for every element (``"strict"``), or for means.

    ``mode``: ``"strict"``; ``"mean"``: of the two means alone, whatever the shapes: elements in another order are not noticed;
    ``"abs_mean"``: of the means of absolute values.
    """

    atol: float
    rtol: float
    mode: str = "strict"

    def difference(self, base: Array | None, raw: Array | None) -> str:
        """How two arrays differ, in words; "" if they are equal within the tolerance. None is what is not there."""
        if base is None or raw is None:
            return "" if base is raw else f"there is none in the {'base' if base is None else 'raw'} model"
        if self.mode == "strict" and base.shape != raw.shape:
            return f"shapes {list(base.shape)} and {list(raw.shape)}"
        ours, theirs = self._reduced(base), self._reduced(raw)
        if not ours.size or not theirs.size:
            return "" if ours.size == theirs.size else f"shapes {list(base.shape)} and {list(raw.shape)}"
        apart = _apart(ours, theirs)
        with np.errstate(invalid="ignore"):
            allowed = self.atol + self.rtol * np.abs(np.where(np.isfinite(ours), ours, 0.0))
        wrong = apart > allowed
        return self._told(ours, theirs, apart, wrong) if wrong.any() else ""

    def _reduced(self, array: Array) -> Array:
        wide = array.astype(np.complex128 if np.iscomplexobj(array) else np.float64)
        if self.mode == "strict" or not wide.size:
            return wide
        return np.asarray((np.abs(wide) if self.mode == "abs_mean" else wide).mean())

    def _told(self, ours: Array, theirs: Array, apart: Array, wrong: Array) -> str:
        place = np.unravel_index(int(apart.argmax()), apart.shape)
        at = f" at {[int(one) for one in place]}" if apart.ndim else ""
        largest = float(apart.max())
        finite = (np.abs(ours) > 0) & np.isfinite(ours)
        relative = float((apart[finite] / np.abs(ours[finite])).max()) if finite.any() else np.inf
        what = "elements" if self.mode == "strict" else "means" if self.mode == "mean" else "means of absolute values"
        return (
            f"{int(wrong.sum())} of {wrong.size} {what} ({100 * wrong.mean():.3g} %) differ by more than atol={self.atol:g} and "
            f"rtol={self.rtol:g}: largest difference {largest:.3g}{at} ({_number(ours[place])} and {_number(theirs[place])}), "
            f"largest relative one {relative:.3g}; atol={_above(largest):.1e} would let it pass"
        )


def _apart(ours: Array, theirs: Array) -> Array:
    """Absolute differences; 0 for equal infinities and for NaN on both sides, infinite where only one is finite."""
    with np.errstate(invalid="ignore"):
        between = np.abs(ours - theirs)
    equal = (ours == theirs) | ((ours != ours) & (theirs != theirs))
    return np.asarray(np.nan_to_num(np.where(equal, 0.0, between), nan=np.inf, posinf=np.inf))


def _number(value: Any) -> str:
    return f"{value:.6g}"


def _above(value: float) -> float:
    """The next number of two digits."""
    if not np.isfinite(value) or value == 0:
        return value
    unit = 10.0 ** (np.floor(np.log10(value)) - 1)
    return float(np.ceil(value / unit) * unit)
