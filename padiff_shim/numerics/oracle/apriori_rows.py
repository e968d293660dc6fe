"""Differences that need no oracle (see :mod:`.apriori`): functions of whole rows, whose bounds are in :mod:`.rows`."""

from __future__ import annotations

from functools import partial

import torch

from . import few
from .apriori import Harmless, by_rows, judged, of_sum, summed, times, unit_of
from .limits import CLOSE, Bound, Limit
from .precision import KINDS


def softmax(x: torch.Tensor, axis: int) -> Harmless:
    """y u (|z| + 7 + sum y |z|) with z = x - max."""

    def rows(result: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        y, z = result.abs(), x.amax(1, keepdim=True) - x
        mean = (y * z).sum(1, keepdim=True)
        return z.add_(mean.add_(7.0)).mul_(times(y, unit_of(result)))

    def bound(result: torch.Tensor, x: torch.Tensor) -> Limit | None:
        return by_rows(rows, axis % x.ndim, result, x) if judged(result) and x.ndim else None

    return Bound(bound, x, few=partial(few.softmax, axis % x.ndim, CLOSE) if x.ndim else None)


def softmax_gradient(x: torch.Tensor, axis: int, grad: torch.Tensor) -> Harmless:
    """u (7 |dx| + p (9 sum |g| p + 2 |g| + 2 |sum g p|))."""

    def rows(result: torch.Tensor, x: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
        p, size = torch.softmax(x, 1), grad.abs()
        dot = (grad * p).sum(1, keepdim=True).abs_()
        mean = (size * p).sum(1, keepdim=True)
        found = size.add_(times(mean, 4.5).add_(dot)).mul_(times(p, 2.0 * unit_of(result)))
        return found.add_(result.abs(), alpha=7.0 * unit_of(result))

    def bound(result: torch.Tensor, x: torch.Tensor, grad: torch.Tensor) -> Limit | None:
        return by_rows(rows, axis % x.ndim, result, x, grad) if judged(result) and x.ndim else None

    return Bound(bound, x, grad, few=partial(few.softmax_gradient, axis % x.ndim, CLOSE) if x.ndim else None)


def _moments(x: torch.Tensor, axes: tuple[int, ...], epsilon: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean, and 1 / sqrt(variance + epsilon), of each row; never more. (``torch.var`` takes many times as long.)"""
    count = x.shape[axes[0] :].numel()
    mean = x.mean(axes, keepdim=True)
    squares = torch.linalg.vector_norm(x, 2, axes, keepdim=True).square_().div_(count)
    variance = torch.addcmul(squares, mean, mean, value=-1.0).clamp_(min=0.0)
    return mean, variance.add_(squares, alpha=8.0 * KINDS[x.dtype].format.unit).add_(epsilon).rsqrt_()


def layer_norm(
    x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, epsilon: float, axes: tuple[int, ...]
) -> Harmless:
    """u (8 |y - b| + 2 |w| r mean |x|)."""
    inside = tuple(range(1, len(axes) + 1))

    def rows(y: torch.Tensor, x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None) -> torch.Tensor:
        unit, shape = unit_of(y), y.shape[1:]
        spread = times(_moments(x, inside, epsilon)[1].mul_(x.abs().mean(inside, keepdim=True)), 2.0 * unit)
        size = spread if weight is None else spread * weight.detach().reshape(shape).abs()
        scaled = y.abs() if bias is None else (y - bias.detach().reshape(shape)).abs_()
        return times(scaled, 8.0 * unit).add_(size) if weight is None else size.add_(scaled, alpha=8.0 * unit)

    def bound(result: torch.Tensor, x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None) -> Limit | None:
        if not judged(result) or not axes:
            return None
        return by_rows(partial(rows, weight=weight, bias=bias), axes[0], result, x)

    return Bound(bound, x, weight, bias, few=partial(few.layer_norm, x.shape[axes[0] :].numel(), epsilon, CLOSE) if axes else None)


def layer_norm_gradient(
    x: torch.Tensor, weight: torch.Tensor | None, epsilon: float, axes: tuple[int, ...], grad: torch.Tensor
) -> Harmless:
    """r u (3 |h| + 5 mean |h| + |xhat| (10 mean |h xhat| + 2 r mean |x| mean |h|)) + 4 u |dx|, with h = g w."""
    inside = tuple(range(1, len(axes) + 1))

    def rows(result: torch.Tensor, x: torch.Tensor, grad: torch.Tensor, weight: torch.Tensor | None) -> torch.Tensor:
        unit, h = unit_of(result), grad.abs()
        h = h if weight is None else h.mul_(weight.detach().reshape(x.shape[1:]).abs())
        mean, spread = _moments(x, inside, epsilon)
        hat = (x - mean).mul_(spread).abs_()
        average = h.mean(inside, keepdim=True)
        product = times((h * hat).mean(inside, keepdim=True), 10.0)
        product.add_(x.abs().mean(inside, keepdim=True).mul_(spread).mul_(average), alpha=2.0)
        found = hat.mul_(product).add_(h, alpha=3.0).add_(average, alpha=5.0).mul_(times(spread, unit))
        return found.add_(torch.abs(result, out=h), alpha=4.0 * unit)

    def bound(result: torch.Tensor, x: torch.Tensor, weight: torch.Tensor | None, grad: torch.Tensor) -> Limit | None:
        return by_rows(partial(rows, weight=weight), axes[0], result, x, grad) if judged(result) and axes else None

    small = partial(few.layer_norm_gradient, x.shape[axes[0] :].numel(), epsilon, CLOSE) if axes else None
    return Bound(bound, x, weight, grad, few=small)


def sums(tensor: torch.Tensor, count: int) -> Harmless:
    """The sums over rows of ``count`` elements."""
    rows = tensor.numel() // max(count, 1)
    return of_sum(partial(_sizes, count), rows, 0.0, tensors=(tensor,), small=partial(few.magnitudes, (count,)))


def _sizes(count: int, tensor: torch.Tensor) -> torch.Tensor:
    return summed(torch.abs, tensor.detach().reshape(-1, count))


def normalised_sums(x: torch.Tensor, grad: torch.Tensor, count: int, epsilon: float, rounds: float) -> Harmless:
    """The sums over rows of ``count`` elements of grad times the normalised input."""
    rows, small = x.numel() // max(count, 1), partial(few.normalised, count, epsilon)
    return of_sum(partial(_normalised, count, epsilon), rows, rounds, tensors=(x, grad), small=small)


def _normalised(count: int, epsilon: float, x: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
    """A lower estimate of the sums of the magnitudes: twice |g| r |x - mean|."""

    def term(x: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
        mean, spread = _moments(x, (1,), epsilon)
        return (x - mean).mul_(spread).mul_(grad).abs_()

    return times(summed(term, x.detach().reshape(-1, count), grad.detach().reshape(-1, count)), 2.0)
