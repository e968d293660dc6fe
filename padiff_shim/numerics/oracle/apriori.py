"""Differences that need no oracle: a-priori bounds of whole tensors, in their own dtype, for a few passes over memory.

Where two results are nowhere further apart than a part of their unit bound, both lie within it if one of them does, and where
neither does, they are wrong alike, which is the question of an audit. The functions give tensors that are nowhere larger than
that part of the bounds of :mod:`.sums` and :mod:`.rows` (whose terms these are), broadcastable to the judged shape; None for 16-bit
results, whose bounds hold the roundings of many steps.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from .precision import KINDS, confidence

CLOSE = 0.75  # of the unit bound: an honest kernel is off by a quarter or so
# Of the probabilistic bound: an error below it is nobody's fault, however small the other side's is.
FAR_INSIDE = 0.02

Harmless = Callable[[torch.Tensor], "torch.Tensor | None"]  # (one of the results) -> differences that need no oracle


def unknown(result: torch.Tensor) -> torch.Tensor | None:
    """No bound of this kind."""
    return None


def _unit(tensor: torch.Tensor) -> float:
    return CLOSE * KINDS[tensor.dtype].format.unit


def judged(tensor: torch.Tensor) -> bool:
    """Whether there is a bound for this dtype here."""
    return tensor.dtype in (torch.float32, torch.float64)


def relative(rounds: float, magnitude: Callable[[torch.Tensor], torch.Tensor] = torch.abs) -> Harmless:
    """``rounds`` roundings of a magnitude; default: of the result's."""

    def bound(result: torch.Tensor) -> torch.Tensor | None:
        if not judged(result) or not rounds:
            return None
        return magnitude(result.detach()).mul_(rounds * _unit(result))

    return bound


def of_sum(terms: Callable[[], torch.Tensor], k: int, rounds: float, factor: float = 1.0) -> Harmless:
    """A sum of k terms. ``terms``: gives the sums of their magnitudes; ``factor``: they are multiplied by it."""

    def bound(result: torch.Tensor) -> torch.Tensor | None:
        if not judged(result):
            return None
        far = min(confidence(result.numel()) * k**0.5, k + 2.0) + rounds
        allowed = max(CLOSE * (1.0 + rounds), FAR_INSIDE * far) * KINDS[result.dtype].format.unit
        return terms().reshape(result.shape).mul(abs(factor) * allowed)

    return bound


def softmax(x: torch.Tensor, axis: int) -> Harmless:
    """y u (|z| + 7 + sum y |z|) with z = x - max."""

    def bound(result: torch.Tensor) -> torch.Tensor | None:
        if not judged(result) or not x.ndim:
            return None
        y, z = result.detach().abs(), x.detach().amax(axis, keepdim=True) - x.detach()
        mean = (y * z).sum(axis, keepdim=True)
        return z.add_(mean.add_(7.0)).mul_(y.mul_(_unit(result)))

    return bound


def softmax_gradient(x: torch.Tensor, axis: int, grad: torch.Tensor) -> Harmless:
    """u (7 |dx| + p (9 sum |g| p + 2 |g| + 2 |sum g p|))."""

    def bound(result: torch.Tensor) -> torch.Tensor | None:
        if not judged(result) or not x.ndim:
            return None
        p, size = torch.softmax(x.detach(), axis), grad.detach().abs()
        dot = (grad.detach() * p).sum(axis, keepdim=True).abs_()
        mean = (size * p).sum(axis, keepdim=True)
        found = size.add_(mean.mul_(4.5).add_(dot)).mul_(p.mul_(2.0 * _unit(result)))
        return found.add_(result.detach().abs(), alpha=7.0 * _unit(result))

    return bound


def _moments(x: torch.Tensor, axes: tuple[int, ...], epsilon: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean, and 1 / sqrt(variance + epsilon), of each row; never more. (``torch.var`` takes many times as long.)"""
    count = x.shape[axes[0] :].numel()
    mean = x.mean(axes, keepdim=True)
    squares = torch.linalg.vector_norm(x, 2, axes, keepdim=True).square_().div_(count)
    cancelled = 8.0 * KINDS[x.dtype].format.unit * squares
    return mean, (squares - mean.square()).clamp_(min=0.0).add_(cancelled).add_(epsilon).rsqrt_()


def layer_norm(
    x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, epsilon: float, axes: tuple[int, ...]
) -> Harmless:
    """u (8 |y - b| + 2 |w| r mean |x|)."""

    def bound(result: torch.Tensor) -> torch.Tensor | None:
        if not judged(result) or not axes:
            return None
        unit, y, given = _unit(result), result.detach(), x.detach()
        spread = _moments(given, axes, epsilon)[1].mul_(given.abs().mean(axes, keepdim=True)).mul_(2.0 * unit)
        size = spread if weight is None else spread * weight.detach().reshape(x.shape[axes[0] :]).abs()
        scaled = y if bias is None else y - bias.detach().reshape(x.shape[axes[0] :])
        return torch.add(size, scaled.abs(), alpha=8.0 * unit)

    return bound


def layer_norm_gradient(
    x: torch.Tensor, weight: torch.Tensor | None, epsilon: float, axes: tuple[int, ...], grad: torch.Tensor
) -> Harmless:
    """r u (3 |h| + 5 mean |h| + |xhat| (10 mean |h xhat| + 2 r mean |x| mean |h|)) + 4 u |dx|, with h = g w."""

    def bound(result: torch.Tensor) -> torch.Tensor | None:
        if not judged(result) or not axes:
            return None
        unit, given = _unit(result), x.detach()
        h = grad.detach().abs()
        h = h if weight is None else h.mul_(weight.detach().reshape(x.shape[axes[0] :]).abs())
        mean, spread = _moments(given, axes, epsilon)
        hat = (given - mean).mul_(spread).abs_()
        average = h.mean(axes, keepdim=True)
        product = (h * hat).mean(axes, keepdim=True).mul_(10.0)
        product.add_(given.abs().mean(axes, keepdim=True).mul_(spread).mul_(average), alpha=2.0)
        found = hat.mul_(product).add_(h, alpha=3.0).add_(average, alpha=5.0).mul_(spread * unit)
        return found.add_(result.detach().abs(), alpha=4.0 * unit)

    return bound


def normalised(x: torch.Tensor, grad: torch.Tensor, epsilon: float) -> torch.Tensor:
    """A lower estimate of the sums over rows of the magnitudes of grad times the normalised input: twice |g| r |x - mean|."""
    mean, spread = _moments(x.detach(), (1,), epsilon)
    return (x.detach() - mean).mul_(spread).mul_(grad.detach()).abs_().sum(0).mul_(2.0)
