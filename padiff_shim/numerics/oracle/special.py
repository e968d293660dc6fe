"""Special functions where Torch's own in float64 are no oracle, and the steps of which kernels make them.

Torch 2.13's float64 trigamma is good to nine digits, and its incomplete gamma functions are where both operands are large and near
one another (docs/defects.md); all others of its special functions that the table has are good to their last digits.
``tests/numerics/test_special.py`` holds both against mpmath.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from .precision import Array

LARGE = 20.0  # from here on Stirling's series has the digits of a long double
MOST = 100_000  # terms of a series, or of a continued fraction
# Stirling's series of log gamma, in odd powers of 1 / x: the Bernoulli number B(2k) over 2k (2k - 1).
STIRLING = (
    (1, 12), (-1, 360), (1, 1260), (-1, 1680), (1, 1188), (-691, 360360), (1, 156), (-3617, 122400), (43867, 244188),
    (-174611, 125400), (77683, 5796), (-236364091, 1506960),
)  # fmt: skip


def _zeta(order: int, first: int = 16) -> float:
    """Riemann's zeta function at a whole number from 2 on, by Euler and Maclaurin's formula from ``first`` on.

    Not Torch's: this module may be imported where a mode of Torch's puts new tensors on another device.
    """
    rest = [first ** (1.0 - order) / (order - 1), first**-order / 2]
    for k, divisor in enumerate((12, -720, 30240, -1209600, 47900160)):
        rest.append(math.prod(range(order, order + 2 * k + 1)) * float(first) ** (-order - 2 * k - 1) / divisor)
    return math.fsum([*(number**-order for number in range(1, first)), *rest])


ZETA = [0.0, 0.0, *map(_zeta, range(2, 25))]


def polygamma(order: int, x: torch.Tensor) -> torch.Tensor:
    """``torch.polygamma``, whose second function is the Hurwitz zeta function, reflected below 0."""
    if order != 1:
        return torch.ops.aten.polygamma(order, x)
    beyond = torch.where(x > 0, x, 1 - x)
    above = torch.special.zeta(2.0, beyond).masked_fill(beyond == math.inf, 0.0)
    sine = torch.sin(math.pi * (x - x.round()))  # of the distance to the pole, which is exact
    return torch.where(x > 0, above, (math.pi / sine) ** 2 - above)


def lower(a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """The lower incomplete gamma function P(a, x), regularised."""
    return _incomplete(a, x, False, torch.ops.aten.igamma)


def upper(a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """The upper one, Q(a, x) = 1 - P(a, x)."""
    return _incomplete(a, x, True, torch.ops.aten.igammac)


def _incomplete(a: torch.Tensor, x: torch.Tensor, complement: bool, kernel: Any) -> torch.Tensor:
    """By series and continued fraction in long double where both operands are positive and finite; the edges are Torch's."""
    result = kernel(a, x)
    shape = result.shape
    wide_a, wide_x = (operand.expand(shape).cpu().numpy().astype(np.longdouble).reshape(-1) for operand in (a, x))
    common = np.flatnonzero((wide_a > 0) & (wide_x > 0) & np.isfinite(wide_a) & np.isfinite(wide_x))
    if not common.size:
        return result
    with np.errstate(all="ignore"):
        value = _regularised(wide_a[common], wide_x[common], complement)
    flat = result.reshape(-1).clone()
    flat[torch.from_numpy(common).to(flat.device)] = torch.from_numpy(value.astype(np.float64)).to(flat.device)
    return flat.reshape(shape)


def _regularised(a: Array, x: Array, complement: bool) -> Array:
    """P, or with ``complement`` Q: the series below a + 1, the continued fraction above (Numerical Recipes, 6.2)."""
    value, series = np.empty_like(a), x < a + 1
    low, high = (a[series], x[series]), (a[~series], x[~series])
    power, rest = _power(*low), _rest(*low)
    # Of small a both P and x^a / gamma(a + 1) are 1 but for a small part, which is added up by itself.
    value[series] = -(np.expm1(power) + np.exp(power) * rest) if complement else np.exp(power) * (1 + rest)
    above = np.exp(_power(*high)) * _fraction(*high)
    value[~series] = above if complement else 1 - above
    return value


def _power(a: Array, x: Array) -> Array:
    """log(x^a exp(-x) / gamma(a + 1)).

    Of large a the three logarithms are far larger than their sum: C. Loader, Fast and Accurate Computation of Binomial
    Probabilities (2000).
    """
    large = a >= LARGE
    apart = np.where(large, (x - a) / a, 0)
    pi = 4 * np.arctan(np.ones((), a.dtype))
    return np.where(
        large, a * (np.log1p(apart) - apart) - _stirling(a) - np.log(2 * pi * a) / 2, a * np.log(x) - x - _log_gamma_of_next(a)
    )


def _stirling(a: Array) -> Array:
    """log gamma(a + 1) - (a log(a) - a + log(2 pi a) / 2), of large a."""
    return sum((np.asarray(up, a.dtype) / down * a ** (-2 * k - 1) for k, (up, down) in enumerate(STIRLING)), np.zeros_like(a))


def _log_gamma_of_next(a: Array) -> Array:
    """log gamma(a + 1): of small a by its Taylor series, of others by that of a number above LARGE."""
    pi = 4 * np.arctan(np.ones((), a.dtype))
    high = a + LARGE
    shifted = high * np.log(high) - high + np.log(2 * pi * high) / 2 + _stirling(high)
    for step in range(1, int(LARGE) + 1):
        shifted = shifted - np.log(a + step)
    taylor = np.zeros_like(a)
    for k in range(24, 2, -1):
        taylor = (taylor + (-1) ** k * ZETA[k] / k) * a
    taylor = ((taylor + pi * pi / 12) * a - np.longdouble("0.577215664901532860606512090082402431")) * a
    return np.where(a < 0.1, taylor, shifted)


def _rest(a: Array, x: Array) -> Array:
    """x / (a + 1) + x^2 / (a + 1) (a + 2) + ..."""
    term, total, unit = x / (a + 1), x / (a + 1), np.finfo(a.dtype).eps / 4
    left = np.arange(len(a))
    for k in range(2, MOST):
        left = left[term[left] > total[left] * unit]
        if not left.size:
            break
        term[left] = term[left] * x[left] / (a[left] + k)
        total[left] += term[left]
    return total


def _fraction(a: Array, x: Array) -> Array:
    """gamma(a + 1, x) exp(x) / x^a by a continued fraction: Lentz's method, whose zeros are the smallest number."""
    tiny = np.asarray(np.finfo(a.dtype).tiny, a.dtype) * 1e10
    b = x + 1 - a
    c, d = np.full_like(a, 1 / tiny), 1 / np.where(b == 0, tiny, b)
    total, left = d.copy(), np.arange(len(a))
    for k in range(1, MOST):
        step = -k * (k - a[left])
        b[left] += 2
        below, above = step * d[left] + b[left], b[left] + step / c[left]
        d[left], c[left] = 1 / np.where(below == 0, tiny, below), np.where(above == 0, tiny, above)
        change = d[left] * c[left]
        total[left] *= change
        left = left[np.abs(change - 1) > 2 * np.finfo(a.dtype).eps]
        if not left.size:
            break
    return total * a


# --- as kernels compute them: where terms cancel, a bound relative to the result would accuse every one of them -------------


def digamma(x: torch.Tensor) -> torch.Tensor:
    """By recurrence and the asymptotic series: near its root 1.46 the terms are a thousand times the result."""
    below = x <= 0
    at = torch.where(below, 1 - x, x)
    total = torch.where(below, -math.pi / torch.tan(math.pi * (x - x.round())), torch.zeros_like(x))
    for _ in range(10):
        low = at < 10
        total = total - torch.where(low, 1 / at, torch.zeros_like(at))
        at = torch.where(low, at + 1, at)
    square = 1 / (at * at)
    series = square * (1 / 12 - square * (1 / 120 - square * (1 / 252 - square * (1 / 240 - square * (1 / 132 - square / 47)))))
    return total + (torch.log(at) - 0.5 / at - series)


def sinc(x: torch.Tensor) -> torch.Tensor:
    """By the sine of pi x, which is rounded before."""
    at = math.pi * x
    return torch.where(x == 0, torch.ones_like(x), torch.sin(at) / at)


def lgamma(x: torch.Tensor) -> torch.Tensor:
    """Below 0 by reflection, whose terms cancel near its roots."""
    reflected = math.log(math.pi) - torch.log(torch.sin(math.pi * (x - x.round())).abs()) - torch.lgamma(1 - x)
    return torch.where(x < 0, reflected, torch.lgamma(x))
