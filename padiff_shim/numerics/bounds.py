"""A-priori bounds: differences of two results that are small enough to need no oracle.

Where two results are nowhere further apart than a part of their unit bound, both lie within it if one of them does, and where
neither does, they are wrong alike, which is the question of an audit. The functions give limits that are nowhere larger than
that part of the bounds in :mod:`.quantity` and :mod:`.formulas`, for a few passes over memory in the tensors' own dtype. There are
none for 16-bit results, whose bounds hold the roundings of many steps.

Each formula is written once, for two array namespaces. ``xp`` is NumPy for small tensors on the host, where the number of steps is
what costs and a step of NumPy costs a fraction of Torch's; it is Torch for all others, on any device. There a limit is asked for
piece by piece, so that no tensor of the result's size is made of it.
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch

from .precision import KINDS, Array, confidence

CLOSE = 0.75  # of the unit bound: an honest kernel is off by a quarter or so
# Of the probabilistic bound: an error below it is nobody's fault, however small the other side's is.
FAR_INSIDE = 0.02
PIECE = 65536  # elements that are looked at in one go: a few arrays of them stay in a core's own cache
# Products of so many terms and more are off by up to a few units while their typical error is far below one (see ``TYPICAL`` in
# :mod:`.trial`): two results may be apart by ``APART`` unit bounds, and by ``USUAL`` in root mean square.
TERMS, APART, USUAL = 8, 2.0, 0.5
WORK = 1 << 22  # multiplications that a product's bound may cost: beyond, the oracle on a sample is cheaper
# Up to these sizes NumPy makes the limits: elements of a result, of each tensor that the bound reads, and multiplications of a
# product (NumPy's BLAS takes more than one thread for larger ones).
SMALL, SMALL_READ, SMALL_WORK = 4096, 16384, 1 << 17

_UNITS = {dtype: KINDS[dtype].format.unit for dtype in (torch.float32, torch.float64)}
_LETTERS = {np.dtype(name).char: unit for name, unit in zip(("float32", "float64"), _UNITS.values())}
_NONE = torch.empty(0)

Tensor = Any  # of the namespace ``xp``: a torch.Tensor or a NumPy array
# What needs no oracle, as NumPy gives it: this times the result's magnitude, if it is not 0; else these differences, and which part
# of them in root mean square (infinite where that is not asked), as `Limit` has it.
Near = tuple[float, "Array | None", float]


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
    """Limits as a function of one of the results and of the bound's tensors. ``small``: NumPy can make them of small tensors."""

    __slots__ = ("small",)
    small: bool

    @abstractmethod
    def limit(self, result: torch.Tensor, *tensors: torch.Tensor | None) -> Limit | None:
        """By Torch, in pieces; None: there are none."""

    @abstractmethod
    def near(self, result: Array, *arrays: Any) -> Near | None:
        """By NumPy, at once."""


class Bound:
    """A :class:`BoundFormula` of one call's tensors, and of no others."""

    __slots__ = ("formula", "tensors")

    def __init__(self, formula: BoundFormula, *tensors: torch.Tensor | None) -> None:
        self.formula, self.tensors = formula, tensors

    def __call__(self, result: torch.Tensor) -> Limit | None:
        return self.formula.limit(result, *map(_detached, self.tensors)) if result.dtype in _UNITS else None

    def among(self, arguments: Sequence[Any], result: torch.Tensor | None = None) -> Learnt | None:
        """The same for another call whose tensors are alike in all but their values; ``arguments``: this call's.

        None where a tensor is not among them, or more than once: which is meant in another call is not known. ``result``: one of
        this call's results, which says how small they are.
        """
        places = []
        for tensor in self.tensors:
            matches = [-1] if tensor is None else [place for place, argument in enumerate(arguments) if argument is tensor]
            if len(matches) != 1:
                return None
            places += matches
        small = self.formula.small and result is not None and _are_small(result, self.tensors)
        return Learnt(self.formula, places, small=small)


class Learnt:
    """A :class:`Bound` without its tensors: ``places`` says which of a call's they are (-1: None).

    ``small``: they are small and on the host, so that :meth:`near` serves.
    """

    __slots__ = ("_formula", "_places", "small")

    def __init__(self, formula: BoundFormula, places: Sequence[int], *, small: bool = False) -> None:
        self._formula, self._places, self.small = formula, tuple(places), small

    def of(self, result: torch.Tensor, arguments: Sequence[Any]) -> Limit | None:
        """The limits for one of the results of a call, and its arguments."""
        if result.dtype not in _UNITS:
            return None
        return self._formula.limit(result, *[None if place < 0 else _detached(arguments[place]) for place in self._places])

    def near(self, result: Array, arrays: Callable[[int], Array]) -> Near | None:
        """The same by NumPy; ``arrays``: gives the call's tensors, by their places."""
        return self._formula.near(result, *[None if place < 0 else arrays(place) for place in self._places])


def array(tensor: torch.Tensor) -> Array:
    """Over a tensor's memory."""
    return (tensor.detach() if tensor.requires_grad else tensor).numpy()


def _detached(tensor: torch.Tensor | None) -> torch.Tensor | None:
    return tensor.detach() if tensor is not None and tensor.requires_grad else tensor


def _are_small(result: torch.Tensor, tensors: Sequence[torch.Tensor | None]) -> bool:
    """Whether NumPy can make the bound of a result by these tensors. Of one without axes it makes a number, not an array."""
    present = [tensor for tensor in tensors if tensor is not None]
    if result.numel() > SMALL or result.dtype not in _UNITS or not all(tensor.ndim for tensor in present):
        return False
    return all(tensor.is_cpu and tensor.dtype is result.dtype and tensor.numel() <= SMALL_READ for tensor in (result, *present))


# ---- The kinds of bounds.


class _Relative(BoundFormula):
    """``rounds`` roundings of the result."""

    __slots__ = ("_rounds",)

    def __init__(self, rounds: float) -> None:
        self._rounds, self.small = rounds * CLOSE, True

    def limit(self, result: torch.Tensor, *tensors: torch.Tensor | None) -> Limit | None:
        factor = self._rounds * _UNITS[result.dtype]
        limit = _by_rows(lambda y: _times(torch, torch.abs(y), factor), (), result)
        limit.relative = factor
        return limit

    def near(self, result: Array, *arrays: Any) -> Near | None:
        return self._rounds * _LETTERS[result.dtype.char], None, math.inf


class _OfRows(BoundFormula):
    """By a formula of rows: (xp, unit, rows of the result and of the first tensors, the other tensors) -> limits: new arrays.

    ``shape``: of one row; ``()`` for functions of single elements. ``cut``: how many tensors are cut into rows, too. The unit is
    :data:`CLOSE` times the unit roundoff.
    """

    __slots__ = ("_cut", "_formula", "_shape")

    def __init__(self, formula: Callable[..., Tensor], shape: Sequence[int], cut: int) -> None:
        self._formula, self._shape, self._cut, self.small = formula, tuple(shape), cut, True

    def limit(self, result: torch.Tensor, *tensors: torch.Tensor | None) -> Limit | None:
        unit, whole = CLOSE * _UNITS[result.dtype], tensors[self._cut :]
        return _by_rows(lambda *rows: self._formula(torch, unit, *rows, *whole), self._shape, result, *tensors[: self._cut])

    def near(self, result: Array, *arrays: Any) -> Near | None:
        unit, rows = CLOSE * _LETTERS[result.dtype.char], [result, *arrays[: self._cut]]
        if self._shape:
            rows = [row.reshape(-1, *self._shape) for row in rows]
        return 0.0, self._formula(np, unit, *rows, *arrays[self._cut :]).reshape(-1), math.inf


class _OfSum(BoundFormula):
    """A sum of k terms: roundings of the sums of the terms' magnitudes, which ``terms(xp, *tensors)`` gives as a new array."""

    __slots__ = ("_factor", "_k", "_known", "_rounds", "_terms")

    def __init__(self, terms: Callable[..., Tensor], k: int, rounds: float, factor: float, *, small: bool = True) -> None:
        self._terms, self._k, self._rounds, self._factor, self.small = terms, k, rounds, abs(factor), small
        self._known: dict[int, float] = {}

    def limit(self, result: torch.Tensor, *tensors: torch.Tensor | None) -> Limit | None:
        size = self._terms(torch, *tensors).reshape(-1)
        return Limit.of(_times(torch, size, self._allowed(result.numel()) * _UNITS[result.dtype]))

    def near(self, result: Array, *arrays: Any) -> Near | None:
        size = self._terms(np, *arrays)
        return 0.0, _times(np, size, self._allowed(result.size) * _LETTERS[result.dtype.char]).reshape(-1), math.inf

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
        self.small = math.prod(shapes.x) * shapes.y[-2] <= SMALL_WORK

    def limit(self, result: torch.Tensor, *tensors: torch.Tensor | None) -> Limit | None:
        if result.numel() * self._k > WORK:
            return None
        product = self._product(torch, *tensors)
        if product.numel() != result.numel():
            return None
        limit = Limit.of(_times(torch, product, self._size * _UNITS[result.dtype]).reshape(-1))
        limit.usual = USUAL / APART
        return limit

    def near(self, result: Array, *arrays: Any) -> Near | None:
        product = self._product(np, *arrays)
        if product.size != result.size:
            return None
        return 0.0, _times(np, product, self._size * _LETTERS[result.dtype.char]).reshape(-1), USUAL / APART

    def _product(self, xp: ModuleType, x: Tensor, y: Tensor) -> Tensor:
        (x_order, y_order), (x_shape, y_shape, turned) = self._orders, self._shapes
        rows = xp.abs((x if x_order is None else _permuted(xp, x, x_order)).reshape(x_shape))
        columns = xp.abs((y if y_order is None else _permuted(xp, y, y_order)).reshape(y_shape))
        if turned:
            rows, columns = columns, rows
        return rows.dot(columns.T) if xp is np and rows.ndim == 2 else xp.matmul(rows, columns.swapaxes(-1, -2))


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


def _gelu(rounds: float, xp: ModuleType, unit: float, result: Tensor, x: Tensor) -> Tensor:
    size = _leaky(xp, x, -0.5)
    size += xp.abs(result)
    return _times(xp, size, rounds * unit)


def gelu_gradient(rounds: float, form: str, grad: torch.Tensor, x: torch.Tensor) -> Harmless:
    """``rounds`` roundings of at most what the rounding of gelu's gradient is relative to (``formulas.GELU_GRADIENT``)."""
    return Bound(_OfRows(partial(_gelu_gradient, rounds, form), (), 2), grad, x)


def _gelu_gradient(rounds: float, form: str, xp: ModuleType, unit: float, result: Tensor, grad: Tensor, x: Tensor) -> Tensor:
    size = xp.sign(x)
    size *= 0.25
    size += 0.75  # 1, and a half below 0
    if form == "none":  # and |x| pdf(x) (1 + min(x^2, 100))
        square = x * x
        bent = square * -0.5
        xp.exp(bent, out=bent)
        bent *= xp.abs(x)
        square = _at_most(xp, square, 100.0)
        square += 1.0
        size = _add_product(xp, size, bent, square, 0.3989)
    elif form == "tanh":  # and |x| times a part of the argument's slope
        square = x * x
        square *= 0.1341
        square += 1.0
        size = _add_product(xp, size, square, xp.abs(x), 0.3989)
    size *= xp.abs(grad)
    return _times(xp, size, rounds * unit)


def softmax(x: torch.Tensor, axis: int) -> Harmless:
    """y u (|z| + 7 + sum y |z|) with z = x - max."""
    return Bound(_OfRows(_softmax, x.shape[axis % x.ndim :], 1), x) if x.ndim else unknown


def _softmax(xp: ModuleType, unit: float, result: Tensor, x: Tensor) -> Tensor:
    y, z = xp.abs(result), _most(xp, x) - x
    mean = _total(xp, y * z)
    mean += 7.0
    z += mean
    z *= _times(xp, y, unit)
    return z


def softmax_gradient(x: torch.Tensor, axis: int, grad: torch.Tensor) -> Harmless:
    """u (7 |dx| + p (9 sum |g| p + 2 |g| + 2 |sum g p|))."""
    return Bound(_OfRows(_softmax_gradient, x.shape[axis % x.ndim :], 2), x, grad) if x.ndim else unknown


def _softmax_gradient(xp: ModuleType, unit: float, result: Tensor, x: Tensor, grad: Tensor) -> Tensor:
    p, size = _probabilities(xp, x), xp.abs(grad)
    mean = _times(xp, _total(xp, size * p), 4.5)
    mean += xp.abs(_total(xp, grad * p))
    size += mean
    size *= _times(xp, p, 2.0 * unit)
    return _add(xp, size, xp.abs(result), 7.0 * unit)


def layer_norm(
    x: torch.Tensor, weight: torch.Tensor | None, bias: torch.Tensor | None, epsilon: float, axes: tuple[int, ...]
) -> Harmless:
    """u (8 |y - b| + 2 |w| r mean |x|)."""
    if not axes:
        return unknown
    return Bound(_OfRows(partial(_layer_norm, epsilon), (x.shape[axes[0] :].numel(),), 1), x, weight, bias)


def _layer_norm(
    epsilon: float, xp: ModuleType, unit: float, y: Tensor, x: Tensor, weight: Tensor | None, bias: Tensor | None
) -> Tensor:
    spread = _moments(xp, x, epsilon)[1]
    spread *= _total(xp, xp.abs(x))
    spread = _times(xp, spread, 2.0 * unit / x.shape[1])
    scaled = _times(xp, xp.abs(y if bias is None else y - bias.reshape(-1)), 8.0 * unit)
    scaled += spread if weight is None else spread * xp.abs(weight.reshape(-1))
    return scaled


def layer_norm_gradient(
    x: torch.Tensor, weight: torch.Tensor | None, epsilon: float, axes: tuple[int, ...], grad: torch.Tensor
) -> Harmless:
    """r u (3 |h| + 5 mean |h| + |xhat| (10 mean |h xhat| + 2 r mean |x| mean |h|)) + 4 u |dx|, with h = g w."""
    if not axes:
        return unknown
    return Bound(_OfRows(partial(_layer_norm_gradient, epsilon), (x.shape[axes[0] :].numel(),), 2), x, grad, weight)


def _layer_norm_gradient(
    epsilon: float, xp: ModuleType, unit: float, result: Tensor, x: Tensor, grad: Tensor, weight: Tensor | None
) -> Tensor:
    h = xp.abs(grad)
    if weight is not None:
        h *= xp.abs(weight.reshape(-1))
    (mean, spread), width = _moments(xp, x, epsilon), x.shape[1]
    hat = x - mean
    hat *= spread
    xp.abs(hat, out=hat)
    total, sizes = _total(xp, h), _total(xp, xp.abs(x))
    product = _times(xp, _total(xp, h * hat), 10.0 / width)
    sizes *= spread
    sizes *= total
    hat *= _add(xp, product, sizes, 2.0 / width**2)
    hat += _times(xp, total, 5.0 / width)
    hat = _add(xp, hat, h, 3.0)
    hat *= _times(xp, spread, unit)
    return _add(xp, hat, xp.abs(result), 4.0 * unit)


def of_axes(x: torch.Tensor, over: tuple[int, ...], k: int, factor: float) -> Harmless:
    """``factor`` times a sum of k elements of a tensor over some axes."""
    leading = over == tuple(range(len(over)))
    terms = partial(_over_rows, x.shape[len(over) :].numel()) if leading else lambda xp, x: xp.abs(x).sum(over)
    return Bound(_OfSum(terms, k, 0.0, factor), x)


def of_broadcast(shape: torch.Size, k: int, tensor: torch.Tensor, factor: float = 1.0) -> Harmless:
    """``factor`` times a sum of k elements of a tensor over the axes along which ``shape`` was broadcast to it."""
    if shape.numel() and tensor.shape[tensor.ndim - len(shape) :] == shape:
        return Bound(_OfSum(partial(_over_rows, shape.numel()), k, 0.0, factor), tensor)
    return Bound(_OfSum(lambda xp, tensor: tensor.abs().sum_to_size(shape), k, 0.0, factor, small=False), tensor)


def of_rows(tensor: torch.Tensor, count: int) -> Harmless:
    """The sum over rows of ``count`` elements."""
    return Bound(_OfSum(partial(_over_rows, count), tensor.numel() // max(count, 1), 0.0, 1.0), tensor)


def _over_rows(count: int, xp: ModuleType, tensor: Tensor) -> Tensor:
    """The sums of magnitudes over rows of ``count`` elements."""
    return _summed(xp, xp.abs, tensor.reshape(-1, count))


def normalised_sums(x: torch.Tensor, grad: torch.Tensor, count: int, epsilon: float, rounds: float) -> Harmless:
    """The sums over rows of ``count`` elements of grad times the normalised input."""
    return Bound(_OfSum(partial(_normalised, count, epsilon), x.numel() // max(count, 1), rounds, 1.0), x, grad)


def _normalised(count: int, epsilon: float, xp: ModuleType, x: Tensor, grad: Tensor) -> Tensor:
    """A lower estimate of the sums of the magnitudes: twice |g| r |x - mean|."""

    def term(x: Tensor, grad: Tensor) -> Tensor:
        mean, spread = _moments(xp, x, epsilon)
        size = x - mean
        size *= spread
        size *= grad
        return xp.abs(size, out=size)

    return _times(xp, _summed(xp, term, x.reshape(-1, count), grad.reshape(-1, count)), 2.0)


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


# ---- Operations that NumPy and Torch spell differently, or that one of them makes in fewer steps.


def _times(xp: ModuleType, tensor: Tensor, factor: float) -> Tensor:
    """The tensor itself, multiplied: NumPy takes a fraction of the time that a number takes Torch, which makes a tensor of it."""
    if xp is np:
        return np.multiply(tensor, factor, tensor)
    if tensor.is_cuda:
        return tensor.mul_(factor)
    values = tensor.numpy()
    np.multiply(values, factor, values)
    return tensor


def _add(xp: ModuleType, tensor: Tensor, other: Tensor, factor: float) -> Tensor:
    """The tensor itself with ``factor * other`` added; ``other`` may be overwritten."""
    if xp is np:
        return np.add(tensor, np.multiply(other, factor, other), tensor)
    return tensor.add_(other, alpha=factor)


def _add_product(xp: ModuleType, tensor: Tensor, first: Tensor, second: Tensor, factor: float) -> Tensor:
    """The tensor itself with ``factor * first * second`` added; ``first`` may be overwritten."""
    if xp is np:
        return _add(np, tensor, np.multiply(first, second, first), factor)
    return tensor.addcmul_(first, second, value=factor)


def _at_most(xp: ModuleType, tensor: Tensor, most: float) -> Tensor:
    """The tensor, clipped from above."""
    return np.minimum(tensor, most) if xp is np else tensor.clamp_(max=most)


def _leaky(xp: ModuleType, x: Tensor, slope: float) -> Tensor:
    """The larger of x and ``slope`` x."""
    return np.maximum(x, x * slope) if xp is np else torch.nn.functional.leaky_relu(x, slope)


def _permuted(xp: ModuleType, tensor: Tensor, order: tuple[int, ...]) -> Tensor:
    return tensor.transpose(order) if xp is np else tensor.permute(order)


def _most(xp: ModuleType, rows: Tensor) -> Tensor:
    """The largest element of each row: along the second axis, which stays."""
    return rows.amax(1, keepdim=True) if xp is not np else np.maximum.reduce(rows, 1, keepdims=True)


def _probabilities(xp: ModuleType, rows: Tensor) -> Tensor:
    """The softmax of each row."""
    if xp is not np:
        return torch.softmax(rows, 1)
    p = np.exp(np.subtract(rows, _most(np, rows)))
    p /= _total(np, p)
    return p


def _total(xp: ModuleType, rows: Tensor) -> Tensor:
    """The sum of each row: along the second axis, which stays."""
    if xp is not np:
        return rows.sum(1, keepdim=True)
    if rows.ndim > 2:
        return np.add.reduce(rows, 1, keepdims=True)
    return rows.dot(_ones(rows.shape[1], rows))[:, None]


def _moments(xp: ModuleType, rows: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """Mean, and 1 / sqrt(variance + epsilon), of each row; never more. (``torch.var`` takes many times as long.)"""
    mean, width = _total(xp, rows), rows.shape[1]
    mean /= width
    squares = _total(np, rows * rows) if xp is np else torch.linalg.vector_norm(rows, 2, 1, keepdim=True).square_()
    squares /= width
    variance = squares - mean * mean
    variance = np.maximum(variance, 0.0) if xp is np else variance.clamp_(min=0.0)
    variance = _add(xp, variance, squares, 8.0 * (_LETTERS[rows.dtype.char] if xp is np else _UNITS[rows.dtype]))
    variance += epsilon
    return mean, 1.0 / xp.sqrt(variance, out=variance)


def _summed(xp: ModuleType, function: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """The sum over the rows of a function of matrices of one shape, some rows at a time: of one axis."""
    rows, width = tensors[0].shape
    if rows * width <= PIECE:
        return _column_sums(xp, function(*tensors))
    step = max(PIECE // width, 1)
    total = _column_sums(xp, function(*[tensor[:step] for tensor in tensors]))
    for first in range(step, rows, step):
        total += _column_sums(xp, function(*[tensor[first : first + step] for tensor in tensors]))
    return total


def _column_sums(xp: ModuleType, matrix: Tensor) -> Tensor:
    return matrix.sum(0) if xp is not np else _ones(len(matrix), matrix).dot(matrix)


def _ones(count: int, like: Array) -> Array:
    """By which a matrix is multiplied to add up its rows or columns: a fraction of the time of NumPy's sums over one axis."""
    return _ONES[like.dtype.char][:count] if count <= SMALL_READ else np.ones(count, like.dtype)


_ONES = {letter: np.ones(SMALL_READ, letter) for letter in _LETTERS}
