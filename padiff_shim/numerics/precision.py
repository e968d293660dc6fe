"""Floating-point formats: unit roundoffs, emulated roundings, and functions that NumPy lacks in extended precision."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np
import torch

Array = np.ndarray


class Format(NamedTuple):
    """A binary format: significand bits (with the hidden one), exponent of the smallest quantum, largest finite value."""

    bits: int
    lowest: int
    largest: float

    @property
    def unit(self) -> float:
        """Unit roundoff u of rounding to nearest."""
        return 2.0**-self.bits


FORMATS = {
    "float64": Format(53, -1074, float(np.finfo(np.float64).max)),
    "float32": Format(24, -149, float(np.finfo(np.float32).max)),
    "tf32": Format(11, -136, float(np.finfo(np.float32).max)),
    "fp16": Format(11, -24, 65504.0),
    "bf16": Format(8, -133, 3.3895313892515355e38),
}


class DtypeKind(NamedTuple):
    """What is needed of a tensor's dtype: its format, the roundoff of sums in it, and the oracle that stands above it.

    ``unit``: roundoff of the accumulation (float32 for float16 and bfloat16). ``output``: roundoff of a final rounding to a
    narrower dtype, else 0. ``tiny``: smallest normal number of the dtype; below it kernels may flush to zero. ``eta``: half the
    smallest subnormal of the accumulation.
    """

    name: str
    format: Format
    unit: float
    output: float
    tiny: float
    eta: float
    oracle: Any


def _kind(name: str, accumulate: str, tiny: float, oracle: Any) -> DtypeKind:
    narrow = FORMATS[name].unit if name != accumulate else 0.0
    return DtypeKind(name, FORMATS[name], FORMATS[accumulate].unit, narrow, tiny, 2.0 ** (FORMATS[accumulate].lowest - 1), oracle)


KINDS = {
    torch.float16: _kind("fp16", "float32", 2.0**-14, np.float64),
    torch.bfloat16: _kind("bf16", "float32", 2.0**-126, np.float64),
    torch.float32: _kind("float32", "float32", 2.0**-126, np.float64),
    torch.float64: _kind("float64", "float64", 2.0**-1022, np.longdouble),
}

# On some platforms C's long double is the double itself; a float64 result then has no oracle.
WIDE = np.finfo(np.longdouble).nmant > np.finfo(np.float64).nmant + 8


@functools.cache
def span(unit: float) -> tuple[float, float]:
    """Smallest normal and largest number of the format in which sums with this roundoff are made."""
    kind = next(kind for kind in KINDS.values() if kind.format.bits >= 24 and kind.format.unit <= max(unit, 2.0**-53))
    return kind.tiny, kind.format.largest


def gamma(factor: Any, unit: float) -> Any:
    """Growth of ``factor`` roundings: expm1(factor u), which is at least Higham's gamma to first order, and never singular."""
    return np.expm1(factor * unit)


def confidence(count: int, failure: float = 1e-6) -> float:
    """lambda = sqrt(2 ln(2 N / failure)): the sqrt(k) model then holds for all N outputs with probability 1 - failure.

    N. J. Higham and T. Mary, A new approach to probabilistic rounding error analysis, SIAM J. Sci. Comput. 41 (2019),
    doi 10.1137/18M1226312: each output fails with probability 2 exp(-lambda^2/2); this is the union bound over N of them.
    """
    return math.sqrt(2.0 * math.log(2.0 * max(count, 1) / failure))


def accumulation(terms: float, count: int) -> float:
    """The factor of a probabilistic bound: lambda sqrt(k) for sums of k terms and N = ``count`` outputs, at most k + 2."""
    return min(confidence(count) * math.sqrt(terms), terms + 2.0)


def rounded(values: Array, name: str, *, truncate: bool = False) -> Array:
    """``values`` (long doubles: as float64) rounded to a format, to nearest even or toward zero; overflow gives infinities."""
    form = FORMATS[name]
    if values.dtype == np.longdouble:  # operands and results are doubles; the fast path below is for these
        return rounded(values.astype(np.float64), name, truncate=truncate).astype(values.dtype)
    if form.bits < 53:
        size = np.abs(values)
        top, low = float(size.max(initial=0.0)), float(size.min(initial=1.0, where=size > 0))
        if top < form.largest / 2 and low >= 2.0 ** (form.lowest + form.bits):
            # The low ``cut`` bits of the significand rounded away; no overflow, no subnormals
            cut = 53 - form.bits
            bits = np.ascontiguousarray(values).view(np.int64).copy()
            if not truncate:
                odd = (bits >> cut) & 1
                bits += odd + ((1 << (cut - 1)) - 1)
            bits &= -1 << cut
            return bits.view(np.float64).reshape(values.shape)
    significand, exponent = np.frexp(values)
    quantum = np.maximum(exponent - form.bits, form.lowest)
    scaled = np.ldexp(significand, exponent - quantum)
    nearest = np.ldexp(np.trunc(scaled) if truncate else np.rint(scaled), quantum)
    nearest = np.where(np.isfinite(values), nearest, values)
    return np.where(np.abs(nearest) > form.largest, np.copysign(np.inf, nearest), nearest)


def norm(values: Array) -> Any:
    """Euclidean norm; the squares neither overflow nor underflow. A scalar of the values' dtype."""
    if values.ndim == 1 and values.dtype == np.float64 and 1e-200 < (squares := values.dot(values).item()) < 1e200:
        return math.sqrt(squares)  # in sight of neither end of the range
    size = np.abs(values).reshape(-1)
    top = size[size.argmax()] if size.size else size.dtype.type(0)
    if top == 0 or not np.isfinite(top):
        return top
    scaled = np.asarray(values / top, np.float64).reshape(-1)
    return top * math.sqrt(float(np.dot(scaled, scaled)))


def rms(values: Array) -> float:
    """Root mean square of float64 values, of any size."""
    squares = values.dot(values).item() if values.ndim == 1 and values.dtype == np.float64 else 0.0
    if 1e-200 < squares < 1e200:  # in sight of neither end of the range
        return math.sqrt(squares / values.size)
    return float(norm(values)) / math.sqrt(values.size)


def represented(values: Array, name: str) -> bool:
    """Every value is a number of this format."""
    return bool(np.array_equal(rounded(values, name), values))


def normal_cdf(x: Array) -> Array:
    """Phi(x) of float64, with an absolute error of a few roundoffs."""
    return 0.5 * torch.special.erfc(torch.from_numpy(np.ascontiguousarray(x * -math.sqrt(0.5)))).numpy().reshape(x.shape)


def normal_pdf(x: Array) -> Array:
    """The density of N(0, 1)."""
    return np.exp(-x * x / 2) / math.sqrt(2 * math.pi)


# ---- Elements of two tensors of one shape.


def equal_in_value(tensor: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Which elements are equal as numbers; NaN is NaN."""
    return (tensor == other) | (tensor.isnan() & other.isnan())


def first_place(mask: torch.Tensor) -> list[int]:
    """The index of the first true element; of a tensor without axes none is needed."""
    return [int(axis) for axis in mask.nonzero()[0].tolist()] if mask.ndim else []
