"""A-priori bounds: differences of two results that are small enough to need no oracle.

Where two results are nowhere further apart than a part of their unit bound, both lie within it if one of them does, and where
neither does, they are wrong alike, which is the question of an audit. The functions give limits that are nowhere larger than
that part of the bounds in :mod:`.quantity` and :mod:`.formulas`, for a few passes over memory in the tensors' own dtype. There are
none for 16-bit results, whose bounds hold the roundings of many steps.

A limit is asked for piece by piece, so that no tensor of the result's size is made of it.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch

from .precision import KINDS, confidence

CLOSE = 0.75  # of the unit bound: an honest kernel is off by a quarter or so
# Of the probabilistic bound: an error below it is nobody's fault, however small the other side's is.
FAR_INSIDE = 0.02
PIECE = 65536  # elements that are looked at in one go: a few arrays of them stay in a core's own cache
# Products of so many terms and more are off by up to a few units while their typical error is far below one (see ``TYPICAL`` in
# :mod:`.trial`): two results may be apart by ``APART`` unit bounds, and by ``USUAL`` in root mean square.
TERMS, APART, USUAL = 8, 2.0, 0.5
WORK = 1 << 22  # multiplications that a product's bound may cost: beyond, the oracle on a sample is cheaper

_UNITS = {dtype: KINDS[dtype].format.unit for dtype in (torch.float32, torch.float64)}
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


Harmless = Callable[[torch.Tensor], "Limit | None"]  # (one of the results) -> differences that need no oracle


def unknown(result: torch.Tensor) -> Limit | None:
    """No bound of this kind."""
    return None


class BoundFormula(ABC):
    """Limits as a function of one of the results and of the bound's tensors."""

    __slots__ = ()

    @abstractmethod
    def limit(self, result: torch.Tensor, *tensors: torch.Tensor | None) -> Limit | None:
        """By Torch, in pieces; None: there are none."""


class Bound:
    """A :class:`BoundFormula` of one call's tensors, and of no others."""

    __slots__ = ("formula", "tensors")

    def __init__(self, formula: BoundFormula, *tensors: torch.Tensor | None) -> None:
        self.formula, self.tensors = formula, tensors

    def __call__(self, result: torch.Tensor) -> Limit | None:
        return self.formula.limit(result, *map(_detached, self.tensors)) if result.dtype in _UNITS else None

    def among(self, arguments: Sequence[Any]) -> Learnt | None:
        """The same for another call whose tensors are alike in all but their values; ``arguments``: this call's.

        None where a tensor is not among them, or more than once: which is meant in another call is not known.
        """
        places = []
        for tensor in self.tensors:
            matches = [-1] if tensor is None else [place for place, argument in enumerate(arguments) if argument is tensor]
            if len(matches) != 1:
                return None
            places += matches
        return Learnt(self.formula, places)


class Learnt:
    """A :class:`Bound` without its tensors: ``places`` says which of a call's they are (-1: None)."""

    __slots__ = ("_formula", "_places")

    def __init__(self, formula: BoundFormula, places: Sequence[int]) -> None:
        self._formula, self._places = formula, tuple(places)

    def of(self, result: torch.Tensor, arguments: Sequence[Any]) -> Limit | None:
        """The limits for one of the results of a call, and its arguments."""
        if result.dtype not in _UNITS:
            return None
        return self._formula.limit(result, *[None if place < 0 else _detached(arguments[place]) for place in self._places])


def _detached(tensor: torch.Tensor | None) -> torch.Tensor | None:
    return tensor.detach() if tensor is not None and tensor.requires_grad else tensor


# ---- The kinds of bounds.


class _Relative(BoundFormula):
    """``rounds`` roundings of the result."""

    __slots__ = ("_rounds",)

    def __init__(self, rounds: float) -> None:
        self._rounds = rounds * CLOSE

    def limit(self, result: torch.Tensor, *tensors: torch.Tensor | None) -> Limit | None:
        factor = self._rounds * _UNITS[result.dtype]
        limit = _by_rows(lambda y: _times(torch.abs(y), factor), (), result)
        limit.relative = factor
        return limit


class _OfRows(BoundFormula):
    """By a formula of rows: (unit, rows of the result and of the first tensors, the other tensors) -> limits: new arrays.

    ``shape``: of one row; ``()`` for functions of single elements. ``cut``: how many tensors are cut into rows, too. The unit is
    :data:`CLOSE` times the unit roundoff.
    """

    __slots__ = ("_cut", "_formula", "_shape")

    def __init__(self, formula: Callable[..., torch.Tensor], shape: Sequence[int], cut: int) -> None:
        self._formula, self._shape, self._cut = formula, tuple(shape), cut

    def limit(self, result: torch.Tensor, *tensors: torch.Tensor | None) -> Limit | None:
        unit, whole = CLOSE * _UNITS[result.dtype], tensors[self._cut :]
        return _by_rows(lambda *rows: self._formula(unit, *rows, *whole), self._shape, result, *tensors[: self._cut])


class _OfSum(BoundFormula):
    """A sum of k terms: roundings of the sums of the terms' magnitudes, which ``terms(*tensors)`` gives as a new array."""

    __slots__ = ("_factor", "_k", "_known", "_rounds", "_terms")

    def __init__(self, terms: Callable[..., torch.Tensor], k: int, rounds: float, factor: float) -> None:
        self._terms, self._k, self._rounds, self._factor = terms, k, rounds, abs(factor)
        self._known: dict[int, float] = {}

    def limit(self, result: torch.Tensor, *tensors: torch.Tensor | None) -> Limit | None:
        size = self._terms(*tensors).reshape(-1)
        return Limit.of(_times(size, self._allowed(result.numel()) * _UNITS[result.dtype]))

    def _allowed(self, count: int) -> float:
        """How many roundings of its terms' magnitudes each of ``count`` sums may be off by."""
        allowed = self._known.get(count)
        if allowed is None:
            far = min(confidence(count) * self._k**0.5, self._k + 2.0) + self._rounds
            self._known[count] = allowed = self._factor * max(CLOSE * (1.0 + self._rounds), FAR_INSIDE * far)
        return allowed


class _OfProduct(BoundFormula):
    """A matrix product, or a batch of them: so many roundings of the product of the magnitudes."""

    __slots__ = ("_k", "_orders", "_shapes", "_size")

    def __init__(self, orders: Sequence[tuple[int, ...] | None], shapes: _Matrices, k: int, size: float) -> None:
        self._orders, self._shapes, self._k, self._size = orders, shapes, k, size

    def limit(self, result: torch.Tensor, *tensors: torch.Tensor | None) -> Limit | None:
        if result.numel() * self._k > WORK:
            return None
        product = self._product(*tensors)
        if product.numel() != result.numel():
            return None
        limit = Limit.of(_times(product, self._size * _UNITS[result.dtype]).reshape(-1))
        limit.usual = USUAL / APART
        return limit

    def _product(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        (x_order, y_order), (x_shape, y_shape, turned) = self._orders, self._shapes
        rows = torch.abs((x if x_order is None else x.permute(x_order)).reshape(x_shape))
        columns = torch.abs((y if y_order is None else y.permute(y_order)).reshape(y_shape))
        if turned:
            rows, columns = columns, rows
        return rows @ columns.mT


def _by_rows(formula: Callable[..., torch.Tensor], shape: Sequence[int], *tensors: torch.Tensor) -> Limit:
    """A limit by a formula of tensors of one shape, each cut into rows of the shape ``shape``; it gets some rows of each."""
    width = math.prod(shape)
    rows = tensors[0].numel() // max(width, 1)
    flat = [tensor.detach().reshape(rows, *shape) for tensor in tensors]

    def part(first: int, last: int) -> torch.Tensor:
        return formula(*(flat if last - first == rows else [tensor[first:last] for tensor in flat]))

    return Limit(part, rows, width)


# ---- The bounds of the rounding models.


def relative(rounds: float) -> Harmless:
    """``rounds`` roundings of the result."""
    return Bound(_Relative(rounds)) if rounds else unknown


def gelu(rounds: float, x: torch.Tensor) -> Harmless:
    """``rounds`` roundings of |x| (half of it below 0) + |gelu(x)|."""
    return Bound(_OfRows(partial(_gelu, rounds), (), 1), x)


def _gelu(rounds: float, unit: float, result: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    size = torch.nn.functional.leaky_relu(x, -0.5)  # the larger of x and -x / 2
    size += torch.abs(result)
    return _times(size, rounds * unit)


def gelu_gradient(rounds: float, form: str, grad: torch.Tensor, x: torch.Tensor) -> Harmless:
    """``rounds`` roundings of at most what the rounding of gelu's gradient is relative to (``formulas.GELU_GRADIENT``)."""
    return Bound(_OfRows(partial(_gelu_gradient, rounds, form), (), 2), grad, x)


def _gelu_gradient(
    rounds: float, form: str, unit: float, result: torch.Tensor, grad: torch.Tensor, x: torch.Tensor
) -> torch.Tensor:
    size = torch.sign(x)
    size *= 0.25
    size += 0.75  # 1, and a half below 0
    if form == "none":  # and |x| pdf(x) (1 + min(x^2, 100))
        square = x * x
        bent = square * -0.5
        torch.exp(bent, out=bent)
        bent *= torch.abs(x)
        square.clamp_(max=100.0)
        square += 1.0
        size.addcmul_(bent, square, value=0.3989)
    elif form == "tanh":  # and |x| times a part of the argument's slope
        square = x * x
        square *= 0.1341
        square += 1.0
        size.addcmul_(square, torch.abs(x), value=0.3989)
    size *= torch.abs(grad)
    return _times(size, rounds * unit)


def softmax(x: torch.Tensor, axis: int) -> Harmless:
    """y u (|z| + 7 + sum y |z|) with z = x - max."""
    return Bound(_OfRows(_softmax, x.shape[axis % x.ndim :], 1), x) if x.ndim else unknown


def _softmax(unit: float, result: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    y, z = torch.abs(result), x.amax(1, keepdim=True) - x
    mean = _total(y * z)
    mean += 7.0
    z += mean
    z *= _times(y, unit)
    return z


def softmax_gradient(x: torch.Tensor, axis: int, grad: torch.Tensor) -> Harmless:
    """u (7 |dx| + p (9 sum |g| p + 2 |g| + 2 |sum g p|))."""
    return Bound(_OfRows(_softmax_gradient, x.shape[axis % x.ndim :], 2), x, grad) if x.ndim else unknown


def _softmax_gradient(unit: float, result: torch.Tensor, x: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
    p, size = torch.softmax(x, 1), torch.abs(grad)
    mean = _times(_total(size * p), 4.5)
    mean += torch.abs(_total(grad * p))
    size += mean
    size *= _times(p, 2.0 * unit)
    return size.add_(torch.abs(result), alpha=7.0 * unit)


def layer_norm(
    x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, epsilon: float, axes: tuple[int, ...]
) -> Harmless:
    """u (8 |y - b| + 2 |w| r mean |x|)."""
    if not axes:
        return unknown
    return Bound(_OfRows(partial(_layer_norm, epsilon), (x.shape[axes[0] :].numel(),), 1), x, weight, bias)


def _layer_norm(
    epsilon: float, unit: float, y: torch.Tensor, x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None
) -> torch.Tensor:
    spread = _moments(x, epsilon)[1]
    spread *= _total(torch.abs(x))
    spread = _times(spread, 2.0 * unit / x.shape[1])
    scaled = _times(torch.abs(y if bias is None else y - bias.reshape(-1)), 8.0 * unit)
    scaled += spread if weight is None else spread * torch.abs(weight.reshape(-1))
    return scaled


def layer_norm_gradient(
    x: torch.Tensor, weight: torch.Tensor | None, epsilon: float, axes: tuple[int, ...], grad: torch.Tensor
) -> Harmless:
    """r u (3 |h| + 5 mean |h| + |xhat| (10 mean |h xhat| + 2 r mean |x| mean |h|)) + 4 u |dx|, with h = g w."""
    if not axes:
        return unknown
    return Bound(_OfRows(partial(_layer_norm_gradient, epsilon), (x.shape[axes[0] :].numel(),), 2), x, grad, weight)


def _layer_norm_gradient(
    epsilon: float, unit: float, result: torch.Tensor, x: torch.Tensor, grad: torch.Tensor, weight: torch.Tensor | None
) -> torch.Tensor:
    h = torch.abs(grad)
    if weight is not None:
        h *= torch.abs(weight.reshape(-1))
    (mean, spread), width = _moments(x, epsilon), x.shape[1]
    hat = x - mean
    hat *= spread
    torch.abs(hat, out=hat)
    total, sizes = _total(h), _total(torch.abs(x))
    product = _times(_total(h * hat), 10.0 / width)
    sizes *= spread
    sizes *= total
    hat *= product.add_(sizes, alpha=2.0 / width**2)
    hat += _times(total, 5.0 / width)
    hat.add_(h, alpha=3.0)
    hat *= _times(spread, unit)
    return hat.add_(torch.abs(result), alpha=4.0 * unit)


def of_axes(x: torch.Tensor, over: tuple[int, ...], k: int, factor: float) -> Harmless:
    """``factor`` times a sum of k elements of a tensor over some axes."""
    leading = over == tuple(range(len(over)))
    terms = partial(_over_rows, x.shape[len(over) :].numel()) if leading else lambda x: x.abs().sum(over)
    return Bound(_OfSum(terms, k, 0.0, factor), x)


def of_broadcast(shape: torch.Size, k: int, tensor: torch.Tensor, factor: float = 1.0) -> Harmless:
    """``factor`` times a sum of k elements of a tensor over the axes along which ``shape`` was broadcast to it."""
    if shape.numel() and tensor.shape[tensor.ndim - len(shape) :] == shape:
        return Bound(_OfSum(partial(_over_rows, shape.numel()), k, 0.0, factor), tensor)
    return Bound(_OfSum(lambda tensor: tensor.abs().sum_to_size(shape), k, 0.0, factor), tensor)


def of_rows(tensor: torch.Tensor, count: int) -> Harmless:
    """The sum over rows of ``count`` elements."""
    return Bound(_OfSum(partial(_over_rows, count), tensor.numel() // max(count, 1), 0.0, 1.0), tensor)


def _over_rows(count: int, tensor: torch.Tensor) -> torch.Tensor:
    """The sums of magnitudes over rows of ``count`` elements."""
    return _summed(torch.abs, tensor.reshape(-1, count))


def normalised_sums(x: torch.Tensor, grad: torch.Tensor, count: int, epsilon: float, rounds: float) -> Harmless:
    """The sums over rows of ``count`` elements of grad times the normalised input."""
    return Bound(_OfSum(partial(_normalised, count, epsilon), x.numel() // max(count, 1), rounds, 1.0), x, grad)


def _normalised(count: int, epsilon: float, x: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
    """A lower estimate of the sums of the magnitudes: twice |g| r |x - mean|."""

    def term(x: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
        mean, spread = _moments(x, epsilon)
        size = x - mean
        size *= spread
        size *= grad
        return torch.abs(size, out=size)

    return _times(_summed(term, x.reshape(-1, count), grad.reshape(-1, count)), 2.0)


def of_product(seats: Sequence[Seat], tensors: Sequence[torch.Tensor], k: int, rounds: float, factor: float) -> Harmless:
    """``factor`` times a matrix product, or a batch of them, over k terms: the product of the magnitudes."""
    (x, y), (left, right) = seats, tensors
    formula = _of_product(x, y, left.shape, right.shape, k, rounds, float(factor))
    return unknown if formula is None else Bound(formula, left, right)


@functools.lru_cache(maxsize=4096)
def _of_product(
    x: Seat, y: Seat, x_shape: torch.Size, y_shape: torch.Size, k: int, rounds: float, factor: float
) -> _OfProduct | None:
    shapes = _matrices(x, _seen(x, x_shape), y, _seen(y, y_shape), k) if k >= TERMS else None
    return None if shapes is None else _OfProduct((x.order, y.order), shapes, k, abs(factor) * APART * (1.0 + rounds))


class Seat(NamedTuple):
    """How an operand of a shape is seen from the outputs: its dims in this order, those of size 1 last, which are dropped."""

    name: str
    order: tuple[int, ...] | None  # None: as they are
    squeezed: tuple[int, ...] | None  # the shape without those that are dropped; None: all stay
    grid: tuple[int, ...]
    inner: tuple[int, ...]


def _seen(seat: Seat, shape: torch.Size) -> tuple[int, ...]:
    """The shape of a factor in its seat."""
    if seat.squeezed is not None:
        return seat.squeezed
    return tuple(shape) if seat.order is None else tuple([shape[axis] for axis in seat.order])


class _Matrices(NamedTuple):
    """The shapes of both factors as (batches of) matrices [rows, k]; ``turned``: the result's axes run over y's rows first."""

    x: tuple[int, ...]
    y: tuple[int, ...]
    turned: bool


def _matrices(left: Seat, x_shape: tuple[int, ...], other: Seat, y_shape: tuple[int, ...], k: int) -> _Matrices | None:
    """Of factors with these seats and shapes; None where the result's axes do not run over one's first, and then the other's."""
    x, y = left.grid, other.grid
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


def _times(tensor: torch.Tensor, factor: float) -> torch.Tensor:
    """The tensor itself, multiplied: NumPy takes a fraction of the time that a number takes Torch, which makes a tensor of it."""
    if tensor.is_cuda:
        return tensor.mul_(factor)
    values = tensor.numpy()
    np.multiply(values, factor, values)
    return tensor


def _total(rows: torch.Tensor) -> torch.Tensor:
    """The sum of each row: along the second axis, which stays."""
    return rows.sum(1, keepdim=True)


def _moments(rows: torch.Tensor, epsilon: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean, and 1 / sqrt(variance + epsilon), of each row; never more. (``torch.var`` takes many times as long.)"""
    mean, width = _total(rows), rows.shape[1]
    mean /= width
    squares = torch.linalg.vector_norm(rows, 2, 1, keepdim=True).square_()
    squares /= width
    variance = (squares - mean * mean).clamp_(min=0.0).add_(squares, alpha=8.0 * _UNITS[rows.dtype])
    variance += epsilon
    return mean, 1.0 / variance.sqrt_()


def _summed(function: Callable[..., torch.Tensor], *tensors: torch.Tensor) -> torch.Tensor:
    """The sum over the rows of a function of matrices of one shape, some rows at a time: of one axis."""
    rows, width = tensors[0].shape
    if rows * width <= PIECE:
        return function(*tensors).sum(0)
    step = max(PIECE // width, 1)
    total = function(*[tensor[:step] for tensor in tensors]).sum(0)
    for first in range(step, rows, step):
        total += function(*[tensor[first : first + step] for tensor in tensors]).sum(0)
    return total
