"""Differences that need no oracle: a-priori bounds of whole tensors, in their own dtype, for a few passes over memory.

Where two results are nowhere further apart than a part of their unit bound, both lie within it if one of them does, and where
neither does, they are wrong alike, which is the question of an audit. The functions give limits that are nowhere larger than
that part of the bounds of :mod:`.sums` and :mod:`.rows` (whose terms these are); None for 16-bit results, whose bounds hold the
roundings of many steps. A limit is asked for piece by piece, so that no tensor of the result's size is ever made of it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import torch

from . import few
from .limits import CLOSE, Bound, Formula, Limit, Seat
from .precision import KINDS, Array, confidence

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
    return Bound(partial(_relative, rounds), few=partial(few.relative, CLOSE * rounds) if rounds else None)


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
    made = None if small is None else partial(few.pointwise, CLOSE * rounds, small)
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
    made = None if small is None else partial(few.of_sum, small, allowed)
    return Bound(partial(_of_sum, terms, allowed), *tensors, few=made)


def of_magnitudes(shape: torch.Size, k: int, tensor: torch.Tensor, factor: float = 1.0) -> Harmless:
    """A sum of k elements of a tensor over the axes along which ``shape`` was broadcast to it."""
    trailing = shape.numel() and tensor.shape[tensor.ndim - len(shape) :] == shape
    small = partial(few.magnitudes, tuple(shape)) if trailing else None
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
) -> tuple[Formula, few.Formula | None]:
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

    small = partial(few.of_product, (x.order, y.order), (shapes.x, shapes.y), turned, size, USUAL / APART)
    return bound, small if math.prod(shapes.x) * shapes.y[-2] <= few.WORK else None


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
