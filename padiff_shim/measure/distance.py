"""How far two tensors are apart: one record, for every answer of this package."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..trees import numbers
from .bits import Array, same_bits, unlike

# Of a float dtype: digits behind the leading one, and the least exponent.
_PRECISION = {
    "float8_e5m2fnuz": (2, -15),
    "float8_e5m2": (2, -14),
    "float8_e4m3fnuz": (3, -7),
    "float8_e4m3fn": (3, -6),
    "bfloat16": (7, -126),
    "float16": (10, -14),
    "float32": (23, -126),
    "complex64": (23, -126),
    "float64": (52, -1022),
    "complex128": (52, -1022),
}
_PIECE = 1 << 13  # elements; larger ones in float64 would be memory that malloc maps anew each time
_READ = 1 << 20  # elements from which quantiles are taken
QUANTILES = (0.5, 0.9, 0.99)


def unit_in_last_place(dtype: str, size: float) -> float:
    """The distance of the numbers of a float dtype around a number of this ``size``: the power of two of its last digit."""
    digits, least = _PRECISION[dtype]
    return math.ldexp(1.0, max(math.frexp(size)[1] - 1, least) - digits)


def coarser(dtype: str, other: str) -> str:
    """The one of two float dtypes that has fewer digits; "" if one is no float."""
    return min(dtype, other, key=lambda name: _PRECISION[name][0]) if {dtype, other} <= _PRECISION.keys() else ""


@dataclass(frozen=True)
class Distance:
    """How far a tensor is from another one, the second.

    Attributes:
        identical: shapes, dtypes and all elements are equal. Two elements are equal if all their bits are, or if both are NaN; so
            0.0 does not equal -0.0.
        max_abs, mean_abs: of the absolute differences, measured in float64; infinite where one of two elements alone is finite; NaN
            where single elements are not known.
        relative: norm of the difference over the second tensor's norm (0/0 is 0).
        ulp: ``max_abs`` in units in the last place of the second tensor's largest finite element, in the coarser of both dtypes;
            None where one is no float. (An element near 0 that is what two large ones left was rounded as they were.)
        elements, different: how many elements were compared, and how many of them are not equal.
        how: ``"values"``, ``"sample"`` (some elements: there may be larger differences), ``"figures"`` (least, greatest, sums:
            single elements are not known), ``"fingerprint"`` (``relative`` is an estimate), ``"digest"``, ``"shape"`` (shapes
            differ: no element was compared) or ``"nothing"`` (there are no values).
        layout: how the first tensor's elements had to be arranged; "" if they lie alike.
        relative_mean: ``mean_abs`` over the mean magnitude of the second tensor's elements (0/0 is 0, as for a gradient of zeros on
            both sides).
        scale: the second tensor's largest finite magnitude.
        max_rel: the largest difference of two elements over the second one; infinite where that one alone is 0.
        first, worst: the index of the first element that differs, and of the largest difference; None where none does.
        nan, infinite: how many elements of both are NaN, and infinite.
        quantiles: of the absolute differences, by share: half of them are at most ``quantiles[0.5]``. Of more than 2^20 elements
            evenly spaced ones are read. Empty where nobody asked.
        name: where the tensors are in what was compared.
        shapes, dtypes: of both.
    """

    identical: bool
    max_abs: float = 0.0
    mean_abs: float = 0.0
    relative: float = 0.0
    ulp: float | None = 0.0
    elements: int = 0
    different: int = 0
    how: str = "values"
    layout: str = ""
    relative_mean: float = 0.0
    scale: float = 0.0
    max_rel: float = 0.0
    first: tuple[int, ...] | None = None
    worst: tuple[int, ...] | None = None
    nan: tuple[int, int] = (0, 0)
    infinite: tuple[int, int] = (0, 0)
    quantiles: Mapping[float, float] = field(default_factory=dict)
    name: str = ""
    shapes: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    dtypes: tuple[str, str] = ("", "")

    @property
    def share(self) -> float:
        """The share of the elements that are not equal, from 0 to 1."""
        return self.different / self.elements if self.elements else 0.0

    @property
    def equal_share(self) -> float:
        """The share of the elements that are equal."""
        return 1.0 - self.share

    @property
    def relative_max(self) -> float:
        """``max_abs`` over the second tensor's largest magnitude (0/0 is 0)."""
        return _over(self.max_abs, self.scale)

    def within(self, atol: float, rtol: float, scale: float | None = None) -> bool:
        """Whether no element differs by more than ``atol`` plus ``rtol`` of the largest element.

        ``scale``: that element; default :attr:`scale`.
        """
        scale = self.scale if scale is None else scale
        if self.identical or (atol == 0 and rtol == 0):
            return self.identical
        if self.how == "fingerprint":
            return bool(self.relative <= rtol)
        return self.how in ("values", "sample") and bool(self.max_abs <= atol + rtol * scale)


def distance(
    array: Array,
    other: Array,
    dtypes: tuple[str, str] | None = None,
    *,
    how: str = "values",
    layout: str = "",
    name: str = "",
    whole: bool = False,
) -> Distance:
    """How far two arrays of one shape are apart; piece by piece, in float64, so that measuring does not round.

    Args:
        array, other: numbers, or the bits of bfloat16 and float8 as :func:`~padiff_shim.trees.elements` gives them.
        dtypes: what they are called; default those of the arrays.
        how, layout, name: of the answer.
        whole: quantiles, NaN and infinities, too, and of tensors that are equal as well.
    """
    dtypes = dtypes or (array.dtype.name, other.dtype.name)
    about: dict[str, Any] = {"how": how, "layout": layout, "name": name, "dtypes": dtypes, "shapes": (array.shape, other.shape)}
    alike, unit = dtypes[0] == dtypes[1], coarser(*dtypes)
    if array.shape != other.shape:
        return Distance(False, math.nan, math.nan, math.nan, None, **{**about, "how": "shape"})
    if not whole and alike and same_bits(array, other):
        return Distance(how == "values", ulp=0.0 if unit else None, elements=array.size, **about)
    flat, opposite = (np.ascontiguousarray(side).reshape(-1) for side in (array, other))
    sums = np.zeros(5)  # differences and their squares; the second tensor's finite elements, their squares, and how many they are
    different, top, peak, most = 0, 0.0, 0.0, 0.0
    first = worst = -1
    nan, infinite = np.zeros(2, int), np.zeros(2, int)
    with np.errstate(all="ignore"):
        for begin in range(0, flat.size, _PIECE):
            piece = [side[begin : begin + _PIECE] for side in (flat, opposite)]
            a, b = (_wide(numbers(side, dtype)) for side, dtype in zip(piece, dtypes))
            common = (a, b) if a.dtype == b.dtype else (a.astype(np.complex128), b.astype(np.complex128))
            unequal = unlike(*piece if alike and piece[0].dtype == piece[1].dtype else common)
            count = int(np.count_nonzero(unequal))
            apart, sizes = np.abs(a - b), np.abs(b)
            if not math.isfinite(float(apart.max())):
                nan += [np.count_nonzero(np.isnan(side)) for side in (a, b)]
                infinite += [np.count_nonzero(np.isinf(side)) for side in (a, b)]
                apart = np.where((a == b) | ~unequal, 0.0, np.nan_to_num(apart, nan=np.inf, posinf=np.inf))
                sizes = sizes[np.isfinite(sizes)]
            sums += [apart.sum(), apart.dot(apart), sizes.sum(), sizes.dot(sizes), sizes.size]
            peak = max(peak, float(sizes.max(initial=0.0)))
            if count:
                different += count
                first = first if first >= 0 else begin + int(unequal.argmax())
                at = int(apart.argmax())
                if apart[at] > top:
                    top, worst = float(apart[at]), begin + at
                most = max(most, float(np.fmax.reduce(apart / np.abs(b), initial=0.0)))
    total, squares, size, size_squares, finite = sums.tolist()
    quantiles = _quantiles(flat, opposite, dtypes) if whole else {}
    return Distance(
        alike and not different and how == "values",
        top,
        total / flat.size if flat.size else 0.0,
        _over(math.sqrt(squares), math.sqrt(size_squares)),
        top / unit_in_last_place(unit, peak) if unit else None,
        flat.size,
        different,
        relative_mean=_over(total / flat.size, size / finite if finite else 0.0) if flat.size else 0.0,
        scale=peak,
        max_rel=most,
        first=None if first < 0 else _index(first, array.shape),
        worst=None if worst < 0 else _index(worst, array.shape),
        nan=(int(nan[0]), int(nan[1])),
        infinite=(int(infinite[0]), int(infinite[1])),
        quantiles=quantiles,
        **about,
    )


def _wide(piece: Array) -> Array:
    return piece.astype(np.complex128 if piece.dtype.kind == "c" else np.float64, copy=False)


def _quantiles(flat: Array, opposite: Array, dtypes: tuple[str, str]) -> dict[float, float]:
    """Of the absolute differences."""
    if not flat.size:
        return {}
    every = -(-flat.size // _READ)
    a, b = (_wide(numbers(side[::every], dtype)) for side, dtype in zip((flat, opposite), dtypes))
    with np.errstate(all="ignore"):
        apart = np.where((a == b) | ((a != a) & (b != b)), 0.0, np.nan_to_num(np.abs(a - b), nan=np.inf, posinf=np.inf))
    return dict(zip(QUANTILES, np.quantile(apart, QUANTILES, method="inverted_cdf").tolist()))


def _over(part: float, whole: float) -> float:
    return part / whole if whole else 0.0 if part == 0 else math.inf


def _index(place: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(axis) for axis in np.unravel_index(place, shape))


def worst_of(distances: Iterable[Distance]) -> Distance:
    """One that is nowhere nearer than any of several."""
    known = list(distances)
    ulps = [apart.ulp for apart in known]
    return Distance(
        all(apart.identical for apart in known),
        max((apart.max_abs for apart in known), default=0.0),
        max((apart.mean_abs for apart in known), default=0.0),
        max((apart.relative for apart in known), default=0.0),
        None if None in ulps else max((ulp for ulp in ulps if ulp is not None), default=0.0),
        *max(
            ((apart.elements, apart.different) for apart in known), key=lambda counts: counts[1] / (counts[0] or 1), default=(0, 0)
        ),
        max_rel=max((apart.max_rel for apart in known), default=0.0),
    )
