"""The formulas of the rounding models: elementwise terms, and functions of whole rows, with the rounding error of their kernels.

Constants in units of u: + - * are correctly rounded by IEEE 754, quotients and square roots by good kernels; for exp, tanh and the
like c is calibrated on the kernels of both frameworks (``rounds``: what a good kernel reaches, ``hard``: what any of them needs).

Softmax: Blanchard, Higham and Higham, Accurately computing the log-sum-exp and softmax functions, IMA J. Numer.
Anal. 41 (2021), doi 10.1093/imanum/draa038; the constants here are first-order and allow for exp being a few ulps off.
Layer normalisation: first-order propagation of the errors of mean and variance; valid for one-pass and two-pass kernels of the
numerator, two-pass kernels of the variance.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .precision import Array, gamma, normal_cdf, normal_pdf, span
from .quantity import Term

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
    below = slope * np.minimum(x, 0) if slope else np.zeros_like(x)  # 0 times infinity is NaN
    return np.where(x > 0, x, np.where(np.isnan(x), x, below)), None


def _tanh_argument(x: Array) -> tuple[Array, Array]:
    """sqrt(2/pi) (x + 0.044715 x^3) and its derivative."""
    root, cubic = np.sqrt(2 / np.pi), 0.044715
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


def _tanh_gradient(arrays: Arrays, attrs: Attrs) -> Any:
    y = np.tanh(arrays["x"])
    slope = 1 - y * y
    return arrays["grad"] * slope, np.abs(arrays["grad"]) * (np.abs(slope) + 2 * y * y)


def _relu_gradient(arrays: Arrays, attrs: Attrs) -> Any:
    x = arrays["x"]
    return np.where(x <= 0, attrs.get("slope", 0.0) * arrays["grad"], arrays["grad"]), None  # NaN is not below


def _times(arrays: Arrays, attrs: Attrs) -> Any:
    """grad times the other operand of a product, be it a tensor or a number."""
    return arrays["grad"] * (arrays["other"] if "other" in arrays else attrs["other"]), None


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
NUMERATOR = Term(lambda arrays, attrs: (arrays["grad"] / pair(arrays, {"x": 0.0, **attrs})[1], None), 3.0, 3.0)
DENOMINATOR = Term(_denominator, 4.0, 5.0, 3.0)
BASE = Term(_base, 4.0, 8.0, 2.0)
EXPONENT = Term(_exponent, 5.0, 10.0, 3.0)
SQUARE_GRADIENT = Term(lambda arrays, attrs: (2 * arrays["x"] * arrays["grad"], None), 2.0, 2.0)
RELU_GRADIENT = Term(_relu_gradient, 1.0, 1.0)
EXP_GRADIENT = Term(lambda arrays, attrs: (arrays["grad"] * np.exp(arrays["x"]), None), 3.0, 6.0, 1.0)
TANH_GRADIENT = Term(_tanh_gradient, 3.0, 12.0, 2.0)
SQRT_GRADIENT = Term(lambda arrays, attrs: (arrays["grad"] / (2 * np.sqrt(arrays["x"])), None), 3.0, 8.0, 1.0)
# At -0 infinite as 1 / sqrt(-0) is.
RSQRT_GRADIENT = Term(lambda arrays, attrs: (-0.5 * arrays["grad"] * (1 / np.sqrt(arrays["x"])) ** 3, None), 6.0, 16.0, 5.0)
GELU_GRADIENT = Term(_gelu_gradient, 4.0, 16.0)
NORMALISED = Term(_normalised, 6.0, 6.0, 2.0)


# ---- Functions of whole rows: each gives the values, and their bound as a function of (f, u, u_o).


def _total(values: Array) -> Array:
    """The sum of each row, in a column."""
    return np.add.reduce(values, 1, keepdims=True)


def _mean(values: Array) -> Array:
    """The mean of each row, in a column."""
    return _total(values) / values.shape[1]


def _exponentials(x: Array, attrs: Attrs) -> tuple[Array, Array, Array]:
    """(x - max, the sum of its exponentials, softmax); a row that is all -inf is shifted by 0.

    Of other kernels: ``clip`` is the least x - max; with ``swallow`` NaN there counts as ``clip``, be it of a NaN in the row
    ("entries") or of a maximum that is NaN or infinite itself ("rows").
    """
    swallow = attrs.get("swallow")
    top = x.max(1, keepdims=True) if swallow is None else np.fmax.reduce(x, 1, keepdims=True)
    z = x - (top if swallow else np.where(np.isinf(top), 0.0, top))
    if swallow == "rows":
        z = np.where(np.isfinite(x.max(1, keepdims=True)), z, attrs["clip"])
    if "clip" in attrs:
        z = np.where(np.isnan(z), attrs["clip"], np.maximum(z, attrs["clip"])) if swallow else np.maximum(z, attrs["clip"])
    e = np.exp(z) if "base" not in attrs else np.exp2(z)
    s = _total(e)
    return z, s, e / s


def _loss(z: Array, p: Array) -> Callable[[float, float], Array]:
    """Relative error of softmax: u(|z| + 4) of the numerator, u sum p(|z| + 2) + g(f) of the denominator."""
    size = np.where(p > 0, np.abs(z), 0.0)
    numerator, denominator = size + 4.0, _total(p * (size + 2.0))
    return lambda f, u: u * numerator + u * denominator + gamma(f, u)


def softmax(arrays: Arrays, attrs: Attrs) -> Any:
    """exp(x - max) / sum; componentwise bound |y| (u(|z| + 4) + u sum p(|z| + 2) + g(f))."""
    z, s, p = _exponentials(arrays["x"], attrs)
    p = np.where(np.isinf(s), np.nan, p)
    lost = functools.cache(lambda: _loss(z, p))
    return p, lambda f, u, last: p * (lost()(f, u) + 2 * last)


def softmax_gradient(arrays: Arrays, attrs: Attrs) -> Any:
    """y (g - sum g y), with y as inexact as the forward softmax left it."""
    z, _, p = _exponentials(arrays["x"], attrs)
    g = arrays["grad"]
    dot = _total(g * p) * attrs.get("projection", 1.0)
    value = p * (g - dot)

    @functools.cache
    def parts() -> tuple[Any, ...]:
        size, far, apart = np.abs(g), np.abs(dot), np.abs(g - dot)
        return _loss(z, p), size * p, apart, far + apart, size + far

    def bound(f: float, u: float, last: float) -> Array:
        loss, terms, apart, stored, size = parts()
        lost = loss(f, u) + 3 * last  # the roundings of the forward's steps and of its result
        inner = _total(terms * (lost + last + gamma(f + 1, u)))
        return p * (lost * apart + inner + last * stored + 2 * u * size)

    return value, bound


@dataclass
class Moments:
    """Mean and variance of rows, what the formulas of normalisation need of them, and their first-order errors."""

    x: Array
    mu: Array
    v: Array
    eps: float
    outside: bool

    @classmethod
    def of(cls, x: Array, attrs: Attrs) -> Moments:
        """Two passes in the oracle's precision."""
        count = x.shape[1]
        mu = _mean(x)
        v = _total(np.square(x - mu)) / max(count - attrs.get("ddof", 0), 1)
        if attrs.get("centre", 1.0) == 0.0:
            mu, v = np.zeros_like(mu), _mean(np.square(x))
        return cls(x, mu, v, attrs["epsilon"], bool(attrs.get("outside")))

    @property
    def r(self) -> Array:
        """1 / sqrt(v + eps), or 1 / (sqrt(v) + eps)."""
        return 1.0 / (np.sqrt(self.v) + self.eps) if self.outside else 1.0 / np.sqrt(self.v + self.eps)

    @functools.cached_property
    def _parts(self) -> tuple[Array, Array, Array, Array]:
        """Mean magnitude, deviation, magnitude of the mean, and sum of the squares."""
        return _mean(np.abs(self.x)), np.sqrt(self.v), np.abs(self.mu), _total(np.square(self.x))

    def errors(self, f: float, u: float, stored: float = 0.0) -> tuple[Array, Array, float]:
        """(absolute error of the mean, relative error of r, g'); ``stored``: roundoff with which mean and r are kept."""
        tiny, (size, deviation, middle, _) = span(u)[0], self._parts
        g = gamma(f, u) + u
        dmu = g * size
        dv = (g + 4 * u) * self.v + dmu * dmu + 4 * u * dmu * deviation + tiny
        total = self.v + max(self.eps, tiny)
        rel = dv / (2 * total) / np.maximum(1 - dv / total, 0.05) + 4 * u + stored
        return dmu + stored * middle, rel, g

    def promised(self, bound: Array, u: float) -> Array:
        """``bound``, and infinity where the squares that a kernel adds up may leave its range."""
        return np.where(self._parts[3] > span(u)[1] / 4, np.inf, bound)


def layer_norm(arrays: Arrays, attrs: Attrs) -> Any:
    """weight (x - mu) r + bias; bound |w| r (dmu + u|x - mu|) + |w (x - mu) r| (rel + 3u) + u|b| + u|y|."""
    m = Moments.of(arrays["x"], attrs)
    w, b = arrays.get("weight"), arrays.get("bias")
    w = np.ones((1, 1), m.x.dtype) if w is None else w
    b = np.zeros((1, 1), m.x.dtype) if b is None else b * attrs.get("beta", 1.0)
    centred, r = m.x - m.mu, m.r
    scaled = w * centred * r
    value = scaled + b

    @functools.cache
    def parts() -> tuple[Array, ...]:
        return np.abs(w) * r, np.abs(centred), np.abs(scaled), np.abs(b), np.abs(value)

    def bound(f: float, u: float, last: float) -> Array:
        dmu, rel, _ = m.errors(f, u)
        factor, far, size, added, whole = parts()
        lost = factor * (dmu + u * far) + size * (rel + 3 * u)
        return m.promised(lost + u * added + u * whole, u)

    return value, bound


def layer_norm_gradient(arrays: Arrays, attrs: Attrs) -> Any:
    """r (h - mean h - xhat mean(h xhat)) with h = g w.

    The bound covers kernels that use sums of h x instead of h xhat (torch's does), hence the terms in |x| and |mu|.
    """
    m = Moments.of(arrays["x"], attrs)
    h = arrays["grad"] * arrays["weight"] if "weight" in arrays else arrays["grad"]
    r = m.r
    hat = (m.x - m.mu) * r
    first = _mean(h) * attrs.get("mean_term", 1.0)
    second = _mean(h * hat) * attrs.get("projection", 1.0)
    value = r * (h - first - hat * second)

    @functools.cache
    def parts() -> tuple[Array, ...]:
        size, far, near, third = np.abs(h), r * (np.abs(m.x) + np.abs(m.mu)), np.abs(hat), np.abs(second)
        mean = _mean(size)
        return (
            size,
            far,
            near,
            third,
            mean,
            _mean(size * near) + _mean(size * far),
            size + mean + (near + far) * third,
            np.abs(value),
        )

    def bound(f: float, u: float, last: float) -> Array:
        dmu, rel, g = m.errors(f, u, last)
        size, far, near, third, mean, products, stored, whole = parts()
        dhat = r * dmu + near * (rel + u) + u * far
        dsecond = g * products
        dsecond = dsecond + _mean(size * dhat)
        lost = r * (g * mean + (near + dhat) * dsecond + third * dhat + (3 * u + 2 * last) * stored) + whole * rel
        return m.promised(lost, u)

    return value, bound
