"""A-priori bounds: differences small enough that no oracle is needed."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch

from . import bounds_numpy
from .precision import KINDS, Array, confidence

# ---- What differences need no oracle: limits, made in pieces; and bounds, which give them for the tensors of any call.

CLOSE = 0.75  # of the unit bound: an honest kernel is off by a quarter or so

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


class Seat(NamedTuple):
    """How an operand of a shape is seen from the outputs: its dims in this order, those of size 1 last, which are dropped."""

    name: str
    order: tuple[int, ...] | None  # None: as they are
    kept: tuple[int, ...] | None  # the shape without those that are dropped; None: all stay
    grid: tuple[int, ...]
    inner: tuple[int, ...]


Formula = Callable[..., "Limit | None"]  # (one of the results, the bound's tensors) -> limits; None: there are none


class Bound:
    """Limits as a function of one of the results. ``formula`` gets the result and ``tensors``, and knows of no other tensor.

    ``few``: the same in NumPy, for small tensors.
    """

    __slots__ = ("few", "formula", "tensors")

    def __init__(self, formula: Formula, *tensors: torch.Tensor | None, few: bounds_numpy.Formula | None = None) -> None:
        self.formula, self.tensors, self.few = formula, tensors, few

    def __call__(self, result: torch.Tensor) -> Limit | None:
        return self.formula(result, *self.tensors)

    def among(self, given: Sequence[Any], result: torch.Tensor | None = None) -> Learnt | None:
        """The same for another call whose tensors are alike in all but their values; ``given``: this call's.

        None where a tensor is not among them, or more than once: which is meant in another call is not known. ``result``: one of
        this call's results, if it is said how small they are.
        """
        places = []
        for tensor in self.tensors:
            found = [place for place, one in enumerate(given) if one is tensor] if tensor is not None else [-1]
            if len(found) != 1:
                return None
            places += found
        small = None
        if self.few is not None and result is not None and bounds_numpy.suits(result, self.tensors):
            small = bounds_numpy.Few(self.few, places)
        return Learnt(self.formula, places, small)


class Learnt:
    """A :class:`Bound` without its tensors: ``places`` says which of a call's they are (-1: None); ``few``: if they are small."""

    __slots__ = ("_formula", "_places", "few")

    def __init__(self, formula: Formula, places: Sequence[int], few: bounds_numpy.Few | None = None) -> None:
        self._formula, self._places, self.few = formula, tuple(places), few

    def of(self, result: torch.Tensor, given: Sequence[Any]) -> Limit | None:
        """The limits for one of the results of a call, and its tensors."""
        return self._formula(result, *[None if place < 0 else given[place] for place in self._places])


# ---- Differences that need no oracle: a-priori bounds of whole tensors, in their own dtype, for a few passes over memory.
#
# Where two results are nowhere further apart than a part of their unit bound, both lie within it if one of them does, and where
# neither does, they are wrong alike, which is the question of an audit. The functions give limits that are nowhere larger than
# that part of the bounds of :mod:`.sums` and :mod:`.rows` (whose terms these are); None for 16-bit results, whose bounds hold the
# roundings of many steps. A limit is asked for piece by piece, so that no tensor of the result's size is ever made of it.

# Of the probabilistic bound: an error below it is nobody's fault, however small the other side's is.
FAR_INSIDE = 0.02
PIECE = 65536  # elements that are looked at in one go: a few arrays of them stay in a core's own cache
# Products of so many terms and more are off by up to a few units while their typical error is far below one (see ``TYPICAL`` in
# :mod:`..judging.classes`): two results may be apart by ``APART`` unit bounds, and by ``USUAL`` in root mean square.
TERMS, APART, USUAL = 8, 2.0, 0.5
WORK = 1 << 22  # multiplications that a product's bound may cost: beyond, the oracle on a sample is cheaper


Harmless = Callable[[torch.Tensor], "Limit | None"]  # (one of the results) -> differences that need no oracle


def unknown(result: torch.Tensor) -> Limit | None:
    """No bound of this kind."""
    return None


def unit_of(tensor: torch.Tensor) -> float:
    return CLOSE * KINDS[tensor.dtype].format.unit


def times(tensor: torch.Tensor, factor: float) -> torch.Tensor:
    """The tensor itself, multiplied: NumPy takes a fraction of the time that a number takes Torch, which makes a tensor of it."""
    if tensor.is_cuda:
        return tensor.mul_(factor)
    array = tensor.numpy()
    np.multiply(array, factor, out=array)
    return tensor


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
    return Bound(partial(_relative, rounds), few=partial(bounds_numpy.relative, CLOSE * rounds) if rounds else None)


def _relative(rounds: float, result: torch.Tensor) -> Limit | None:
    if not judged(result) or not rounds:
        return None
    factor = rounds * unit_of(result)
    found = by_rows(lambda y: times(y.abs(), factor), result.ndim, result)
    found.relative = factor
    return found


def pointwise(
    rounds: float, magnitude: Callable[..., torch.Tensor], *tensors: torch.Tensor, small: Callable[..., Array] | None = None
) -> Harmless:
    """``rounds`` roundings of a magnitude, as a function of the result and of these tensors of its shape: a new tensor.

    ``small``: the magnitude in NumPy, for small tensors.
    """
    made = None if small is None else partial(bounds_numpy.pointwise, CLOSE * rounds, small)
    return Bound(partial(_pointwise, rounds, magnitude), *tensors, few=made)


def _pointwise(rounds: float, magnitude: Callable[..., torch.Tensor], result: torch.Tensor, *tensors: torch.Tensor) -> Limit | None:
    if not judged(result):
        return None
    factor = rounds * unit_of(result)
    return by_rows(lambda *given: times(magnitude(*given), factor), result.ndim, result, *tensors)


def of_sum(
    terms: Callable[..., torch.Tensor],
    k: int,
    rounds: float,
    factor: float = 1.0,
    *,
    tensors: Sequence[torch.Tensor],
    small: Callable[..., Array] | None = None,
) -> Harmless:
    """A sum of k terms. ``terms``: gives the sums of their magnitudes, of ``tensors``; ``factor``: they are multiplied by it.

    ``small``: ``terms`` in NumPy, for small tensors.
    """
    allowed = partial(_allowed, k, rounds, abs(factor))
    made = None if small is None else partial(bounds_numpy.of_sum, small, allowed)
    return Bound(partial(_of_sum, terms, allowed), *tensors, few=made)


def of_magnitudes(shape: torch.Size, k: int, tensor: torch.Tensor, factor: float = 1.0) -> Harmless:
    """A sum of k elements of a tensor over the axes along which ``shape`` was broadcast to it."""
    trailing = shape.numel() and tensor.shape[tensor.ndim - len(shape) :] == shape
    small = partial(bounds_numpy.magnitudes, tuple(shape)) if trailing else None
    return of_sum(partial(magnitudes, shape=shape), k, 0.0, factor, tensors=(tensor,), small=small)


def _of_sum(
    terms: Callable[..., torch.Tensor], allowed: Callable[[int], float], result: torch.Tensor, *tensors: torch.Tensor
) -> Limit | None:
    if not judged(result):
        return None
    return Limit.of(times(terms(*tensors).reshape(-1), allowed(result.numel()) * KINDS[result.dtype].format.unit))


def _allowed(k: int, rounds: float, factor: float, count: int) -> float:
    """How many roundings of its terms' magnitudes each of ``count`` sums may be off by."""
    far = min(confidence(count) * k**0.5, k + 2.0) + rounds
    return factor * max(CLOSE * (1.0 + rounds), FAR_INSIDE * far)


def of_product(seats: Sequence[Seat], tensors: Sequence[torch.Tensor], k: int, rounds: float, factor: float) -> Harmless:
    """``factor`` times a matrix product, or a batch of them, over k terms: the product of the magnitudes."""
    (x, y), (one, other) = seats, tensors
    formula, small = _of_product(x, y, one.shape, other.shape, k, rounds, float(factor))
    return Bound(formula, one, other, few=small)


@functools.lru_cache(maxsize=4096)
def _of_product(
    x: Seat, y: Seat, x_shape: torch.Size, y_shape: torch.Size, k: int, rounds: float, factor: float
) -> tuple[Formula, bounds_numpy.Formula | None]:
    shapes = _matrices(x, _seen(x, x_shape), y, _seen(y, y_shape), k) if k >= TERMS else None
    if shapes is None:
        return lambda result, x, y: None, None
    turned, size = shapes.turned, abs(factor) * APART * (1.0 + rounds)

    def bound(result: torch.Tensor, one: torch.Tensor, other: torch.Tensor) -> Limit | None:
        if not judged(result) or result.numel() * k > WORK:
            return None
        rows, columns = _magnitudes(one, x.order, shapes.x), _magnitudes(other, y.order, shapes.y)
        found = torch.matmul(columns, rows.mT) if turned else torch.matmul(rows, columns.mT)
        found = times(found, size * KINDS[result.dtype].format.unit).view(-1)
        if found.numel() != result.numel():
            return None
        limit = Limit.of(found)
        limit.usual = USUAL / APART
        return limit

    small = partial(bounds_numpy.of_product, (x.order, y.order), (shapes.x, shapes.y), turned, size, USUAL / APART)
    return bound, small if math.prod(shapes.x) * shapes.y[-2] <= bounds_numpy.WORK else None


def _seen(seat: Seat, shape: torch.Size) -> tuple[int, ...]:
    """The shape of a factor in its seat."""
    if seat.kept is not None:
        return seat.kept
    return tuple(shape) if seat.order is None else tuple([shape[axis] for axis in seat.order])


def _magnitudes(tensor: torch.Tensor, order: tuple[int, ...] | None, shape: tuple[int, ...]) -> torch.Tensor:
    """Of a factor, as matrices."""
    if tensor.requires_grad:
        tensor = tensor.detach()
    return (tensor if order is None else tensor.permute(order)).reshape(shape).abs()


class _Matrices(NamedTuple):
    """The shapes of both factors as (batches of) matrices [rows, k]; ``turned``: the result's axes run over y's rows first."""

    x: tuple[int, ...]
    y: tuple[int, ...]
    turned: bool


def _matrices(one: Seat, x_shape: tuple[int, ...], other: Seat, y_shape: tuple[int, ...], k: int) -> _Matrices | None:
    """Of factors with these seats and shapes; None where the result's axes do not run over one's first, and then the other's."""
    x, y = one.grid, other.grid
    lead = next((n for n, (a, b) in enumerate(zip(x, y)) if a != b), min(len(x), len(y)))
    turned = bool(x[lead:] and y[lead:] and x[lead] > y[lead])
    axes = [*y, *x[lead:]] if turned else [*x, *y[lead:]]
    if axes != sorted(set(axes)):
        return None
    batch = math.prod(x_shape[:lead])
    sides = [(math.prod(shape[lead : len(grid)]), math.prod(shape[len(grid) :])) for grid, shape in ((x, x_shape), (y, y_shape))]
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


# ---- Differences that need no oracle (see :mod:`.apriori`): functions of whole rows, whose bounds are in :mod:`.rows`.


def softmax(x: torch.Tensor, axis: int) -> Harmless:
    """y u (|z| + 7 + sum y |z|) with z = x - max."""

    def rows(result: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        y, z = result.abs(), x.amax(1, keepdim=True) - x
        mean = (y * z).sum(1, keepdim=True)
        return z.add_(mean.add_(7.0)).mul_(times(y, unit_of(result)))

    def bound(result: torch.Tensor, x: torch.Tensor) -> Limit | None:
        return by_rows(rows, axis % x.ndim, result, x) if judged(result) and x.ndim else None

    return Bound(bound, x, few=partial(bounds_numpy.softmax, axis % x.ndim, CLOSE) if x.ndim else None)


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

    return Bound(bound, x, grad, few=partial(bounds_numpy.softmax_gradient, axis % x.ndim, CLOSE) if x.ndim else None)


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

    return Bound(
        bound, x, weight, bias, few=partial(bounds_numpy.layer_norm, x.shape[axes[0] :].numel(), epsilon, CLOSE) if axes else None
    )


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

    small = partial(bounds_numpy.layer_norm_gradient, x.shape[axes[0] :].numel(), epsilon, CLOSE) if axes else None
    return Bound(bound, x, weight, grad, few=small)


def sums(tensor: torch.Tensor, count: int) -> Harmless:
    """The sums over rows of ``count`` elements."""
    rows = tensor.numel() // max(count, 1)
    return of_sum(partial(_sizes, count), rows, 0.0, tensors=(tensor,), small=partial(bounds_numpy.magnitudes, (count,)))


def _sizes(count: int, tensor: torch.Tensor) -> torch.Tensor:
    return summed(torch.abs, tensor.detach().reshape(-1, count))


def normalised_sums(x: torch.Tensor, grad: torch.Tensor, count: int, epsilon: float, rounds: float) -> Harmless:
    """The sums over rows of ``count`` elements of grad times the normalised input."""
    rows, small = x.numel() // max(count, 1), partial(bounds_numpy.normalised, count, epsilon)
    return of_sum(partial(_normalised, count, epsilon), rows, rounds, tensors=(x, grad), small=small)


def _normalised(count: int, epsilon: float, x: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
    """A lower estimate of the sums of the magnitudes: twice |g| r |x - mean|."""

    def term(x: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
        mean, spread = _moments(x, (1,), epsilon)
        return (x - mean).mul_(spread).mul_(grad).abs_()

    return times(summed(term, x.detach().reshape(-1, count), grad.detach().reshape(-1, count)), 2.0)
