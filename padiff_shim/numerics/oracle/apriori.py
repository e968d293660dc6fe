"""Differences that need no oracle: a-priori bounds of whole tensors, in their own dtype, for a few passes over memory.

Where two results are nowhere further apart than a part of their unit bound, both lie within it if one of them does, and where
neither does, they are wrong alike, which is the question of an audit. The functions give limits that are nowhere larger than
that part of the bounds of :mod:`.sums` and :mod:`.rows` (whose terms these are); None for 16-bit results, whose bounds hold the
roundings of many steps. A limit is asked for piece by piece, so that no tensor of the result's size is ever made of it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import torch

from .precision import KINDS, confidence

CLOSE = 0.75  # of the unit bound: an honest kernel is off by a quarter or so
# Of the probabilistic bound: an error below it is nobody's fault, however small the other side's is.
FAR_INSIDE = 0.02
PIECE = 65536  # elements that are looked at in one go: a few arrays of them stay in a core's own cache
# Products of so many terms and more are off by up to a few units while their typical error is far below one (see ``TYPICAL`` in
# :mod:`..judging.classes`): two results may be apart by ``APART`` unit bounds, and by ``USUAL`` in root mean square.
TERMS, APART, USUAL = 8, 2.0, 0.5
WORK = 1 << 22  # multiplications that a product's bound may cost: beyond, the oracle on a sample is cheaper


_NONE = torch.empty(0)


class Limit:
    """Differences that need no oracle, of a result of this many rows of ``width`` elements; ``part(first, last)``: of some rows.

    ``relative``: not 0 where the limit is this times the result's magnitude. ``usual``: the part of it that the differences may be
    in root mean square; infinite where that is not asked.
    """

    __slots__ = ("_from", "_held", "_part", "_rows", "relative", "usual", "width")

    def __init__(self, part: Callable[[int, int], torch.Tensor], rows: int, width: int = 1, relative: float = 0.0) -> None:
        self._part, self._rows, self.width, self.relative, self.usual = part, rows, max(width, 1), relative, math.inf
        self._from, self._held = 0, _NONE

    @classmethod
    def of(cls, values: torch.Tensor) -> Limit:
        """Limits that are there already: one axis."""
        limit = cls(lambda first, last: values[first:last], values.numel())
        limit._held = values
        return limit

    def between(self, low: int, high: int) -> torch.Tensor:
        """Those of the flat positions from ``low`` to ``high``: one axis."""
        start, held = self._from, self._held
        if low == start and high - low == held.numel():
            return held
        if not start <= low < high <= start + self._held.numel():  # a row longer than a piece is made once
            first, last = low // self.width, -(-high // self.width)
            start, self._held = first * self.width, self._part(first, last).reshape(-1)
            self._from = start
        return self._held[low - start : high - start]

    def whole(self) -> torch.Tensor:
        """All of them: one axis."""
        return self._part(0, self._rows).reshape(-1)


class Factor(Protocol):
    """An operand of a product, see :class:`.staging.Operand`."""

    view: Any
    grid: tuple[int, ...]


Harmless = Callable[[torch.Tensor], "Limit | None"]  # (one of the results) -> differences that need no oracle


def unknown(result: torch.Tensor) -> Limit | None:
    """No bound of this kind."""
    return None


def _unit(tensor: torch.Tensor) -> float:
    return CLOSE * KINDS[tensor.dtype].format.unit


def judged(tensor: torch.Tensor) -> bool:
    """Whether there is a bound for this dtype here."""
    return tensor.dtype in (torch.float32, torch.float64)


def by_rows(formula: Callable[..., torch.Tensor], lead: int, *tensors: torch.Tensor) -> Limit:
    """A limit by a formula of tensors of one shape, whose axes from ``lead`` on make one row; it gets some rows of each."""
    shape = tensors[0].shape[lead:]
    width = math.prod(shape)
    rows = tensors[0].numel() // max(width, 1)
    flat = [tensor.detach().reshape(rows, *shape) for tensor in tensors]

    def part(first: int, last: int) -> torch.Tensor:
        return formula(*(flat if last - first == rows else [tensor[first:last] for tensor in flat]))

    return Limit(part, rows, width)


def relative(rounds: float) -> Harmless:
    """``rounds`` roundings of the result."""

    def bound(result: torch.Tensor) -> Limit | None:
        if not judged(result) or not rounds:
            return None
        factor = rounds * _unit(result)
        found = by_rows(lambda y: y.abs().mul_(factor), result.ndim, result)
        found.relative = factor
        return found

    return bound


def pointwise(rounds: float, magnitude: Callable[..., torch.Tensor], *tensors: torch.Tensor) -> Harmless:
    """``rounds`` roundings of a magnitude, as a function of the result and of these tensors of its shape: a new tensor."""

    def bound(result: torch.Tensor) -> Limit | None:
        if not judged(result):
            return None
        factor = rounds * _unit(result)
        return by_rows(lambda *given: magnitude(*given).mul_(factor), result.ndim, result, *tensors)

    return bound


def of_sum(terms: Callable[[], torch.Tensor], k: int, rounds: float, factor: float = 1.0) -> Harmless:
    """A sum of k terms. ``terms``: gives the sums of their magnitudes; ``factor``: they are multiplied by it."""

    def bound(result: torch.Tensor) -> Limit | None:
        if not judged(result):
            return None
        far = min(confidence(result.numel()) * k**0.5, k + 2.0) + rounds
        allowed = max(CLOSE * (1.0 + rounds), FAR_INSIDE * far) * KINDS[result.dtype].format.unit
        found = terms().reshape(-1).mul(abs(factor) * allowed)
        return Limit.of(found)

    return bound


def of_product(x: Factor, y: Factor, k: int, rounds: float, factor: float) -> Harmless:
    """``factor`` times a matrix product, or a batch of them, over k terms: the product of the magnitudes."""

    def bound(result: torch.Tensor) -> Limit | None:
        if not judged(result) or k < TERMS or result.numel() * k > WORK:
            return None
        shapes = _matrices(x.grid, x.view.shape, y.grid, y.view.shape, k)
        if shapes is None:
            return None
        rows, columns = x.view.reshape(shapes.x).abs(), y.view.reshape(shapes.y).abs()
        found = torch.matmul(columns, rows.mT) if shapes.turned else torch.matmul(rows, columns.mT)
        found = found.mul_(abs(factor) * APART * (1.0 + rounds) * KINDS[result.dtype].format.unit).view(-1)
        if found.numel() != result.numel():
            return None
        limit = Limit.of(found)
        limit.usual = USUAL / APART
        return limit

    return bound


class _Matrices(NamedTuple):
    """The shapes of both factors as (batches of) matrices [rows, k]; ``turned``: the result's axes run over y's rows first."""

    x: tuple[int, ...]
    y: tuple[int, ...]
    turned: bool


@functools.lru_cache(maxsize=4096)
def _matrices(x: tuple[int, ...], x_shape: torch.Size, y: tuple[int, ...], y_shape: torch.Size, k: int) -> _Matrices | None:
    """Of factors with these grids and shapes; None where the result's axes do not run over one's first, and then the other's."""
    lead = next((n for n, (one, other) in enumerate(zip(x, y)) if one != other), min(len(x), len(y)))
    turned = bool(x[lead:] and y[lead:] and x[lead] > y[lead])
    axes = [*y, *x[lead:]] if turned else [*x, *y[lead:]]
    if axes != sorted(set(axes)):
        return None
    batch = x_shape[:lead].numel()
    sides = [(shape[lead : len(grid)].numel(), shape[len(grid) :].numel()) for grid, shape in ((x, x_shape), (y, y_shape))]
    if any(inner != k for _, inner in sides) or not batch:
        return None
    lots = (batch,) if batch > 1 else ()
    return _Matrices((*lots, *sides[0]), (*lots, *sides[1]), turned)


def summed(function: Callable[..., torch.Tensor], *tensors: torch.Tensor) -> torch.Tensor:
    """The sum over the first axis of a function of tensors of one shape, some rows at a time: a tensor of one axis fewer."""
    rows, width = tensors[0].shape[0], tensors[0][:1].numel()
    step = max(PIECE // max(width, 1), 1)
    if rows <= step:
        return function(*tensors).sum(0)
    total = function(*[tensor[:step] for tensor in tensors]).sum(0)
    for first in range(step, rows, step):
        total += function(*[tensor[first : first + step] for tensor in tensors]).sum(0)
    return total


def magnitudes(tensor: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """The sums of a tensor's magnitudes over the axes along which ``shape`` was broadcast to it."""
    tensor, count = tensor.detach(), shape.numel()
    if count and tensor.shape[tensor.ndim - len(shape) :] == shape:
        return summed(torch.abs, tensor.reshape(-1, *shape))
    return tensor.abs().sum_to_size(shape)


def softmax(x: torch.Tensor, axis: int) -> Harmless:
    """y u (|z| + 7 + sum y |z|) with z = x - max."""

    def rows(result: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        y, z = result.abs(), x.amax(1, keepdim=True) - x
        mean = (y * z).sum(1, keepdim=True)
        return z.add_(mean.add_(7.0)).mul_(y.mul_(_unit(result)))

    return lambda result: by_rows(rows, axis % x.ndim, result, x) if judged(result) and x.ndim else None


def softmax_gradient(x: torch.Tensor, axis: int, grad: torch.Tensor) -> Harmless:
    """u (7 |dx| + p (9 sum |g| p + 2 |g| + 2 |sum g p|))."""

    def rows(result: torch.Tensor, x: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
        p, size = torch.softmax(x, 1), grad.abs()
        dot = (grad * p).sum(1, keepdim=True).abs_()
        mean = (size * p).sum(1, keepdim=True)
        found = size.add_(mean.mul_(4.5).add_(dot)).mul_(p.mul_(2.0 * _unit(result)))
        return found.add_(result.abs(), alpha=7.0 * _unit(result))

    return lambda result: by_rows(rows, axis % x.ndim, result, x, grad) if judged(result) and x.ndim else None


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

    def rows(y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        unit, shape = _unit(y), y.shape[1:]
        spread = _moments(x, inside, epsilon)[1].mul_(x.abs().mean(inside, keepdim=True)).mul_(2.0 * unit)
        size = spread if weight is None else spread * weight.detach().reshape(shape).abs()
        scaled = y.abs() if bias is None else (y - bias.detach().reshape(shape)).abs_()
        return scaled.mul_(8.0 * unit).add_(size) if weight is None else size.add_(scaled, alpha=8.0 * unit)

    return lambda result: by_rows(rows, axes[0], result, x) if judged(result) and axes else None


def layer_norm_gradient(
    x: torch.Tensor, weight: torch.Tensor | None, epsilon: float, axes: tuple[int, ...], grad: torch.Tensor
) -> Harmless:
    """r u (3 |h| + 5 mean |h| + |xhat| (10 mean |h xhat| + 2 r mean |x| mean |h|)) + 4 u |dx|, with h = g w."""
    inside = tuple(range(1, len(axes) + 1))

    def rows(result: torch.Tensor, x: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
        unit, h = _unit(result), grad.abs()
        h = h if weight is None else h.mul_(weight.detach().reshape(x.shape[1:]).abs())
        mean, spread = _moments(x, inside, epsilon)
        hat = (x - mean).mul_(spread).abs_()
        average = h.mean(inside, keepdim=True)
        product = (h * hat).mean(inside, keepdim=True).mul_(10.0)
        product.add_(x.abs().mean(inside, keepdim=True).mul_(spread).mul_(average), alpha=2.0)
        found = hat.mul_(product).add_(h, alpha=3.0).add_(average, alpha=5.0).mul_(spread * unit)
        return found.add_(torch.abs(result, out=h), alpha=4.0 * unit)

    return lambda result: by_rows(rows, axes[0], result, x, grad) if judged(result) and axes else None


def normalised(x: torch.Tensor, grad: torch.Tensor, epsilon: float) -> torch.Tensor:
    """A lower estimate of the sums over rows of the magnitudes of grad times the normalised input: twice |g| r |x - mean|."""

    def term(x: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
        mean, spread = _moments(x, (1,), epsilon)
        return (x - mean).mul_(spread).mul_(grad).abs_()

    return summed(term, x.detach(), grad.detach()).mul_(2.0)
