"""Functions of whole rows: softmax, logsumexp, layer normalisation and their gradients.

Softmax and logsumexp: Blanchard, Higham and Higham, Accurately computing the log-sum-exp and softmax functions, IMA J. Numer.
Anal. 41 (2021), doi 10.1093/imanum/draa038; the constants here are first-order and allow for exp being a few ulps off.
Layer normalisation: first-order propagation of the errors of mean and variance; valid for one-pass and two-pass kernels of the
numerator, two-pass kernels of the variance.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from .precision import Array, gamma, span
from .quantity import Evaluation, Operand, Quantity, Staged

# (arrays, attrs) -> (value, bound(f, u, u_o)); arrays of shape (samples, row).
Formula = Callable[[Mapping[str, Array], Mapping[str, Any]], tuple[Array, Callable[[float, float, float], Array]]]


@dataclass
class Rows(Quantity):
    """A function of rows. ``whole``: the result has the row's axes too, which are ``axes``."""

    whole: bool = True
    formula: Formula = None  # type: ignore[assignment]  # dataclass inheritance wants a default
    relative: bool = False

    @property
    def grid(self) -> tuple[int, ...]:
        """Samples are rows."""
        return tuple(n for axis, n in enumerate(self.shape) if axis not in self.axes) if self.whole else self.shape

    @property
    def relatively(self) -> bool:
        """As :attr:`relative` says."""
        return self.relative

    def result(self, tensor: torch.Tensor) -> Operand:
        """One row a sample, or one value where the row was reduced."""
        return row(tensor, self.axes) if self.whole else Operand(tensor.detach(), tuple(range(tensor.ndim)), ())

    def scale(self, reference: torch.Tensor) -> list[torch.Tensor] | None:
        """Relative errors for softmax; for the others each row in units of its largest value."""
        if self.relative:
            return None
        if not self.whole:
            return [reference.detach().abs() + 1.0]
        return [reference.detach().abs().amax(self.axes, keepdim=True)] if self.axes else []

    def evaluate(self, staged: Staged) -> Evaluation:
        """The formula, plus the smallest normal number (kernels may flush to zero)."""
        value, inexact = self.formula(staged.arrays, staged.attrs)
        kind = self.kind

        def bound(f: float, unit: float | None = None, output: float | None = None) -> Array:
            last = kind.output if output is None else output
            return inexact(f, kind.unit if unit is None else unit, last) + last * np.abs(value) + kind.tiny

        return Evaluation(value, bound)


def row(tensor: torch.Tensor, axes: tuple[int, ...]) -> Operand:
    """A tensor of the call's full shape as an operand of rows over ``axes``."""
    view = tensor.detach()
    rest = [axis for axis in range(view.ndim) if axis not in axes]
    order = [*rest, *axes]
    view = view if order == list(range(view.ndim)) else view.permute(order)
    return Operand(view, tuple(range(len(rest))), (math.prod(tensor.shape[axis] for axis in axes),))


def shared(tensor: torch.Tensor) -> Operand:
    """A weight of one row's size, the same for every row."""
    return Operand(tensor.detach().reshape(-1), (), (tensor.numel(),))


def _total(values: Array) -> Array:
    """The sum of each row, in a column."""
    return np.add.reduce(values, 1, keepdims=True)


def _mean(values: Array) -> Array:
    """The mean of each row, in a column."""
    return _total(values) / values.shape[1]


def _exponentials(x: Array, attrs: Mapping[str, Any]) -> tuple[Array, Array, Array, Array, Array]:
    """(max, x - max, exp of it, their sum, softmax); a row that is all -inf is shifted by 0.

    Of other kernels: ``clip`` is the least x - max; with ``swallow`` NaN there counts as ``clip``, be it of a NaN in the row
    ("entries") or of a maximum that is NaN or infinite itself ("rows"); with ``naive`` an infinite maximum is subtracted.
    """
    swallow = attrs.get("swallow")
    top = x.max(1, keepdims=True) if swallow is None else np.fmax.reduce(x, 1, keepdims=True)
    z = x - (top if swallow or attrs.get("naive") else np.where(np.isinf(top), 0.0, top))
    if swallow == "rows":
        z = np.where(np.isfinite(x.max(1, keepdims=True)), z, attrs["clip"])
    if "clip" in attrs:
        z = np.where(np.isnan(z), attrs["clip"], np.maximum(z, attrs["clip"])) if swallow else np.maximum(z, attrs["clip"])
    e = np.exp(z) if "base" not in attrs else np.exp2(z)
    s = _total(e)
    return top, z, e, s, e / s


def _loss(z: Array, p: Array) -> Callable[[float, float], Array]:
    """Relative error of softmax: u(|z| + 4) of the numerator, u sum p(|z| + 2) + g(f) of the denominator."""
    size = np.where(p > 0, np.abs(z), 0.0)
    numerator, denominator = size + 4.0, _total(p * (size + 2.0))
    return lambda f, u: u * numerator + u * denominator + gamma(f, u)


def softmax(arrays: Mapping[str, Array], attrs: Mapping[str, Any]) -> Any:
    """exp(x - max) / sum; componentwise bound |y| (u(|z| + 4) + u sum p(|z| + 2) + g(f))."""
    _, z, _, s, p = _exponentials(arrays["x"], attrs)
    p = np.where(np.isinf(s), np.nan, p)
    lost = functools.cache(lambda: _loss(z, p))
    return p, lambda f, u, last: p * (lost()(f, u) + 2 * last)


def logsumexp(arrays: Mapping[str, Array], attrs: Mapping[str, Any]) -> Any:
    """max + log sum exp(x - max); bound u sum p(|z| + 2) + g(f) + 2u|log s| + u|y|."""
    top, z, e, s, p = _exponentials(arrays["x"], attrs)
    log = np.log(s)
    value = ((top if attrs.get("naive") else np.where(np.isinf(top), 0.0, top)) + log)[:, 0]
    if "shift" in attrs:
        value = value + attrs["shift"]
    size = np.where(e > 0, np.abs(z), 0.0)

    def bound(f: float, u: float, last: float) -> Array:
        steps = (p * (size + 2.0)).sum(1)  # torch's has all of them rounded to 16 bits
        return (u + last) * steps + gamma(f, u) + (2 * u + last) * np.abs(log[:, 0]) + u * np.abs(value)

    return value, bound


def softmax_gradient(arrays: Mapping[str, Array], attrs: Mapping[str, Any]) -> Any:
    """y (g - sum g y), with y as inexact as the forward softmax left it."""
    _, z, _, _, p = _exponentials(arrays["x"], attrs)
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


def logsumexp_gradient(arrays: Mapping[str, Array], attrs: Mapping[str, Any]) -> Any:
    """g softmax(x), usually as g exp(x - y), so that the rounding of y counts absolutely."""
    top, z, _, s, p = _exponentials(arrays["x"], attrs)
    value = arrays["grad"] * p
    out = np.where(np.isinf(top), 0.0, top) + np.log(s)
    loss = functools.cache(lambda: _loss(z, p))

    def bound(f: float, u: float, last: float) -> Array:
        stored = last * (np.abs(out) + np.abs(np.where(p > 0, z - np.log(s), 0.0)) + 1.0)
        return np.abs(value) * (loss()(f, u) + 2 * u * np.abs(out) + stored + 2 * u)

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
    def of(cls, x: Array, attrs: Mapping[str, Any]) -> Moments:
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


def layer_norm(arrays: Mapping[str, Array], attrs: Mapping[str, Any]) -> Any:
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


def layer_norm_gradient(arrays: Mapping[str, Array], attrs: Mapping[str, Any]) -> Any:
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
