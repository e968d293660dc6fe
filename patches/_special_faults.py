"""Known faults of kernels of special functions: formulas for ``op(faults=...)``, as in :mod:`._faults`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from padiff_shim.table.op import Fault
from padiff_shim.torch_versions import without_modes

from ._faults import sloped

# 2k! over the Bernoulli number B(2k): of the Hurwitz zeta function's series by Euler and Maclaurin.
_ZETA = (
    *(12.0, -720.0, 30240.0, -1209600.0, 47900160.0, -1.8924375803183791606e9, 7.47242496e10, -2.950130727918164224e12),
    *(1.1646782814350067249e14, -4.5979787224074726105e15, 1.8152105401943546773e17, -7.1661652561756670113e18),
)


def _asymptotic(x: torch.Tensor) -> torch.Tensor:
    """Torch's trigamma: six terms, and a series that ends too early."""
    below = x < 0.5
    at = torch.where(below, 1 - x, x)
    total = torch.where(below, -((math.pi / torch.sin(math.pi * x)) ** 2), torch.zeros_like(x))
    for _ in range(6):
        total = total + 1 / (at * at)
        at = at + 1
    square = 1 / (at * at)
    total = total + (1 + 1 / (2 * at) + square * (1 / 6 - square * (1 / 30 - square / 42))) / at
    return torch.where(below, -total, total)


def _nine_terms(x: torch.Tensor) -> torch.Tensor:
    """The trigamma of Paddle's float32 kernel: of numbers below -8 nine terms do not come to where the series begins."""
    total = sum(((x + k) ** -2 for k in range(10)), torch.zeros_like(x))
    at = x + 9
    term = at**-2
    total = total + term * at - term / 2
    factor, order = 1.0, 0
    for bernoulli in _ZETA:
        factor, term = factor * (2 + order), term / at
        total = total + factor * term / bernoulli
        factor, term, order = factor * (3 + order), term / at, order + 2
    return total


def _five_terms(x: torch.Tensor) -> torch.Tensor:
    """The digamma in Paddle's gradient of gammaln: a series from 8.5 on, of five terms."""
    below = x < 0
    at = torch.where(below, 1 - x, x)
    total = torch.where(below, -math.pi / torch.tan(math.pi * x), torch.zeros_like(x))
    for _ in range(9):
        low = at < 8.5
        total = total - torch.where(low, 1 / at, torch.zeros_like(at))
        at = torch.where(low, at + 1, at)
    square = 1 / (at * at)
    series = square * (1 / 12 - square * (1 / 120 - square * (1 / 252 - square * (1 / 240 - square / 132))))
    return total + (torch.log(at) - 0.5 / at - series)


def _with_slope(slope: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., torch.Tensor]:
    def formula(own: Callable[..., Any], x: torch.Tensor) -> torch.Tensor:
        lies = x.detach()
        return sloped(own(lies), slope(lies), x)

    return formula


def _trigamma(own: Callable[..., Any], x: torch.Tensor, n: int) -> torch.Tensor:
    if n != 1:
        raise NotImplementedError("trigamma")
    return sloped(_asymptotic(x.detach()), own(x.detach(), 2), x)


def _quantile(own: Callable[..., Any], x: torch.Tensor) -> torch.Tensor:
    """``erfinv`` by the normal distribution's quantile at (x + 1) / 2, where small numbers lose their digits; infinite beyond 1."""
    value = torch.special.ndtri(((x.detach() + 1) / 2).clamp(0.0, 1.0)) / math.sqrt(2.0)
    return sloped(value, math.sqrt(math.pi) / 2 * torch.exp(value * value), x)


def _in_front(a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """1, with the roundings of x^a exp(-x) / gamma(a + 1) by logarithms."""
    here, there = (a * torch.log(x) - x - torch.lgamma(a + 1) for _ in range(2))
    return torch.exp(here - there.detach())


def _upper(a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Q(a, x) by an unscaled series below a or 1, and an unscaled continued fraction above."""
    series = 1 - torch.special.gammainc(a, x) * _in_front(a, x)
    return torch.where((x < a + 1) | (x < 1), series, torch.special.gammaincc(a, x) * _in_front(a, x))


def _slope(a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """The density, of which the power, the exponential and the gamma function are computed each by itself."""
    return torch.exp(-x) * x ** (a - 1) / torch.exp(torch.lgamma(a))


def _plain(own: Callable[..., Any], a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return sloped(_upper(a, x.detach()), -_slope(a, x.detach()), x)


def _unmended(kernel: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Torch's own kernel, which is not to its last digits in float64."""

    def formula(own: Callable[..., Any], a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        with without_modes():
            value = kernel(a.detach(), x.detach())
        lies = own(a, x)
        return value + (lies - lies.detach())

    return formula


QUANTILE = {"quantile": Fault(_quantile, precision=True, narrow=True)}
DIGAMMA = {"six-terms": Fault(_with_slope(_asymptotic), precision=True), "nine-terms": Fault(_with_slope(_nine_terms))}
GAMMALN = {"five-terms": Fault(_with_slope(_five_terms), precision=True)}
TRIGAMMA = {"six-terms": Fault(_trigamma, precision=True)}
GAMMAINCC = {
    "plain-series": Fault(_plain, precision=True),
    "near-series": Fault(_unmended(torch.special.gammaincc), precision=True),
}
GAMMAINC = {
    "1-gammaincc": Fault(lambda own, a, x: 1 - _plain(own, a, x), precision=True),
    "near-series": Fault(_unmended(torch.special.gammainc), precision=True),
}
