"""The terms: elementwise functions with the rounding error that a kernel of theirs may have.

Constants in units of u: + - * are correctly rounded by IEEE 754, quotients and square roots by good kernels; for exp, tanh and the
like c is calibrated on the kernels of both frameworks (``rounds``: what a good kernel reaches, ``hard``: what any of them needs).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .precision import Array, normal_cdf, normal_pdf
from .sums import Term

Arrays = Mapping[str, Array]
Attrs = Mapping[str, Any]


def pair(arrays: Arrays, attrs: Attrs) -> tuple[Any, Any]:
    """Both operands of a binary op; a number comes from ``attrs``."""
    return arrays["x"] if "x" in arrays else attrs["x"], arrays["y"] if "y" in arrays else attrs["y"]


def _copy(arrays: Arrays, attrs: Attrs) -> Any:
    return attrs.get("sign", 1.0) * arrays["x"], None


def _product(arrays: Arrays, attrs: Attrs) -> Any:
    x, y = pair(arrays, attrs)
    return x * y, None


def _add(arrays: Arrays, attrs: Attrs) -> Any:
    x, y = pair(arrays, attrs)
    value = x + attrs.get("sign", 1.0) * y
    # A number is first rounded to the tensor's dtype.
    number = 0.0 if "x" in arrays and "y" in arrays else abs(attrs["x" if "x" in attrs else "y"])
    return value, (np.abs(value) + number if number else None)


def _divide(arrays: Arrays, attrs: Attrs) -> Any:
    x, y = pair(arrays, attrs)
    return x / y, None


def _power(arrays: Arrays, attrs: Attrs) -> Any:
    x, y = pair(arrays, attrs)
    if attrs.get("root"):
        return np.sqrt(np.asarray(x, _dtype(arrays))), None
    value = np.power(np.asarray(x, _dtype(arrays)), np.asarray(y, _dtype(arrays)))
    if "x" in arrays and "y" in arrays:
        return value, None
    # d(x^y) = y x^y dx/x + x^y log x dy: a number that is rounded first moves the result that much.
    moved = np.abs(y * np.log(np.abs(x))) if "x" in arrays else np.abs(y)
    return value, np.abs(value) * (1.0 + np.where(np.isfinite(moved), moved, 0.0))


def _dtype(arrays: Arrays) -> Any:
    return next(iter(arrays.values())).dtype


def _affine(arrays: Arrays, attrs: Attrs) -> Any:
    x, scale, bias = arrays["x"], attrs["scale"], attrs["bias"]
    value = x * scale + bias if attrs["after"] else (x + bias) * scale
    if bias == 0:
        return value, None
    return value, np.abs(x * scale) + abs(bias if attrs["after"] else bias * scale) + np.abs(value)


def _relu(arrays: Arrays, attrs: Attrs) -> Any:
    x, slope = arrays["x"], attrs.get("slope", 0.0)
    below = slope * np.minimum(x, 0) if slope else np.zeros_like(x)  # 0 times infinity is none
    return np.where(x > 0, x, np.where(np.isnan(x), x, below)), None


def _tanh_argument(x: Array) -> tuple[Array, Array]:
    """sqrt(2/pi) (x + 0.044715 x^3) and its derivative."""
    root = np.sqrt(2 / (4 * np.arctan(np.asarray(1, x.dtype))))
    cubic = np.asarray(44715, x.dtype) / 1000000
    return root * (x + cubic * x**3), root * (1 + 3 * cubic * x * x)


def _gelu_parts(x: Array, form: str) -> tuple[Array, Array]:
    """The gate of gelu(x) = x gate(x), and its derivative."""
    if form == "none":
        return normal_cdf(x), normal_pdf(x)
    if form == "tanh":
        inner, slope = _tanh_argument(x)
        tanh = np.tanh(inner)
        return 0.5 * (1 + tanh), 0.5 * (1 - tanh * tanh) * slope
    speed = 1.702 if form == "quick" else 1.0  # "silu"
    gate = 1 / (1 + np.exp(-speed * x))
    return gate, speed * gate * (1 - gate)


def _gelu(arrays: Arrays, attrs: Attrs) -> Any:
    x = arrays["x"]
    value = x * _gelu_parts(x, attrs["form"])[0]
    value = np.where(np.isneginf(x), 0.0, value)
    # 1 + erf cancels in the negative tail: the error there is absolute.
    return value, np.abs(x) * np.where(x < 0, 0.5, 1.0) + np.abs(value)


def _gelu_gradient(arrays: Arrays, attrs: Attrs) -> Any:
    x, g = arrays["x"], arrays["grad"]
    gate, slope = _gelu_parts(x, attrs["form"])
    bent = np.where(np.isinf(x), 0.0, x * slope)
    size = np.where(x < 0, 0.5, 1.0) + np.abs(bent) * (1.0 + np.minimum(x * x, 100.0))
    if attrs["form"] == "tanh":  # 1 - tanh^2 is off by u however small it is, and then multiplied by x and the slope
        size = size + 0.5 * np.abs(x) * _tanh_argument(x)[1]
    return g * (gate + bent), np.abs(g) * size


def _exp_gradient(arrays: Arrays, attrs: Attrs) -> Any:
    return arrays["grad"] * np.exp(arrays["x"]), None


def _tanh_gradient(arrays: Arrays, attrs: Attrs) -> Any:
    y = np.tanh(arrays["x"])
    slope = 1 - y * y
    return arrays["grad"] * slope, np.abs(arrays["grad"]) * (np.abs(slope) + 2 * y * y)


def _sqrt_gradient(arrays: Arrays, attrs: Attrs) -> Any:
    return arrays["grad"] / (2 * np.sqrt(arrays["x"])), None


def _rsqrt_gradient(arrays: Arrays, attrs: Attrs) -> Any:
    return -0.5 * arrays["grad"] * (1 / np.sqrt(arrays["x"])) ** 3, None  # at -0 infinite as 1 / sqrt(-0) is


def _square_gradient(arrays: Arrays, attrs: Attrs) -> Any:
    return 2 * arrays["x"] * arrays["grad"], None


def _relu_gradient(arrays: Arrays, attrs: Attrs) -> Any:
    x = arrays["x"]
    return np.where(x <= 0, attrs.get("slope", 0.0) * arrays["grad"], arrays["grad"]), None  # NaN is not below


def _times(arrays: Arrays, attrs: Attrs) -> Any:
    """grad times the other operand of a product, be it a tensor or a number."""
    return arrays["grad"] * (arrays["other"] if "other" in arrays else attrs["other"]), None


def _numerator(arrays: Arrays, attrs: Attrs) -> Any:
    return arrays["grad"] / pair(arrays, {"x": 0.0, **attrs})[1], None


def _denominator(arrays: Arrays, attrs: Attrs) -> Any:
    x, y = pair(arrays, attrs)
    return -arrays["grad"] * x / (y * y), None


def _base(arrays: Arrays, attrs: Attrs) -> Any:
    x, y = pair(arrays, attrs)
    dtype = _dtype(arrays)
    value = arrays["grad"] * y * np.power(np.asarray(x, dtype), np.asarray(y, dtype) - 1)
    value = np.where(np.equal(y, 0), 0.0, value)
    moved = np.abs((y - 1) * np.log(np.abs(x)))
    return value, np.abs(value) * (2.0 + np.where(np.isfinite(moved), moved, 0.0))


def _exponent(arrays: Arrays, attrs: Attrs) -> Any:
    x, y = (np.asarray(v, _dtype(arrays)) for v in pair(arrays, attrs))
    value = arrays["grad"] * np.power(x, y) * np.log(x)
    value = np.where((x == 0) & (y >= 0), 0.0, value)
    return value, np.abs(value) + np.abs(arrays["grad"] * np.power(x, y))


def _normalised(arrays: Arrays, attrs: Attrs) -> Any:
    """grad times the normalised input: the terms of layer norm's weight gradient. Kernels may use r x - r mu."""
    x, mu, size = arrays["x"], arrays["mean"], arrays["size"]
    v = arrays["variance"] * attrs.get("stretch", 1.0)
    r = 1 / (np.sqrt(v) + attrs["epsilon"]) if attrs.get("outside") else 1 / np.sqrt(v + attrs["epsilon"])
    if attrs.get("centre", 1.0) == 0.0:
        mu, r = 0.0 * mu, 1 / np.sqrt(v + np.square(mu) + attrs["epsilon"])
    far = np.abs(x - mu) + np.abs(x) + np.abs(mu) + size
    # A kernel adds up the squares of a row: nothing is promised where that sum is infinite.
    lost = attrs["count"] * (v + np.square(mu)) > attrs["largest"] / 4
    return arrays["grad"] * (x - mu) * r, np.where(lost, np.inf, np.abs(arrays["grad"]) * r * far)


COPY = Term(_copy, 1.0, 1.0)
SUM = Term(_copy, 0.0, 0.0)
DOT = Term(_product, 1.0, 1.0, product=True)
MULTIPLY = Term(_product, 1.0, 1.0)
MULTIPLY_NUMBER = Term(_product, 2.0, 2.0)
ADD = Term(_add, 1.0, 1.0)
DIVIDE = Term(_divide, 1.0, 2.0)  # by a reciprocal and a Newton step: up to 0.56 ulp (AVX-512)
DIVIDE_NUMBER = Term(_divide, 3.0, 3.0, 1.0)
POWER = Term(_power, 2.0, 4.0)
SQUARE = Term(lambda arrays, attrs: (np.square(arrays["x"]), None), 1.0, 1.0)
AFFINE = Term(_affine, 2.0, 3.0, 1.0)
RELU = Term(_relu, 1.0, 1.0)
EXP = Term(lambda arrays, attrs: (np.exp(arrays["x"]), None), 2.0, 4.0)
TANH = Term(lambda arrays, attrs: (np.tanh(arrays["x"]), None), 2.0, 10.0)
SQRT = Term(lambda arrays, attrs: (np.sqrt(arrays["x"]), None), 1.0, 6.0)
RSQRT = Term(lambda arrays, attrs: (1 / np.sqrt(arrays["x"]), None), 2.0, 6.0, 1.0)
GELU = Term(_gelu, 6.0, 12.0)

DIVIDED = Term(_times, 2.0, 3.0)
TIMES = Term(_times, 1.0, 2.0)
NUMERATOR = Term(_numerator, 3.0, 3.0)
DENOMINATOR = Term(_denominator, 4.0, 5.0, 3.0)
BASE = Term(_base, 4.0, 8.0, 2.0)
EXPONENT = Term(_exponent, 5.0, 10.0, 3.0)
SQUARE_GRADIENT = Term(_square_gradient, 2.0, 2.0)
RELU_GRADIENT = Term(_relu_gradient, 1.0, 1.0)
EXP_GRADIENT = Term(_exp_gradient, 3.0, 6.0, 1.0)
TANH_GRADIENT = Term(_tanh_gradient, 3.0, 12.0, 2.0)
SQRT_GRADIENT = Term(_sqrt_gradient, 3.0, 8.0, 1.0)
RSQRT_GRADIENT = Term(_rsqrt_gradient, 6.0, 16.0, 5.0)
GELU_GRADIENT = Term(_gelu_gradient, 4.0, 16.0)
NORMALISED = Term(_normalised, 6.0, 6.0, 2.0)
