"""The a-priori bounds of :mod:`.apriori` once more, for small tensors on the host: there the number of steps is what costs.

NumPy takes a fraction of the time that Torch takes for a step over few elements. The formulas are those of :mod:`.apriori`, which
says what they are; here a row is a row of a matrix.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch

from .precision import KINDS, Array

ELEMENTS = 4096  # of a result, up to which its bound is made here
READ = 16384  # and of each tensor that the bound reads
WORK = 1 << 17  # and multiplications of a product: NumPy's BLAS takes more than one thread for larger ones

# What is harmless: this times the result's magnitude, if it is not 0; else these differences, and which part of them in root
# mean square (infinite where that is not asked), as `Limit` has it.
Near = tuple[float, "Array | None", float]
Formula = Callable[..., "Near | None"]  # (one of the results, the bound's tensors), NumPy arrays
_UNITS = {"f": KINDS[torch.float32].format.unit, "d": KINDS[torch.float64].format.unit}  # by NumPy's letters
_most = np.maximum.reduce


def array(tensor: torch.Tensor) -> Array:
    """Over a tensor's memory."""
    return (tensor.detach() if tensor.requires_grad else tensor).numpy()


class Few:
    """A bound without its tensors: ``places`` says which of a call's they are (-1: None)."""

    __slots__ = ("_formula", "_places")

    def __init__(self, formula: Formula, places: Sequence[int]) -> None:
        self._formula, self._places = formula, tuple(places)

    def of(self, result: Array, arrays: Callable[[int], Array]) -> Near | None:
        """The limits for one of the results of a call; ``arrays``: gives the call's tensors, by their places."""
        return self._formula(result, *[None if place < 0 else arrays(place) for place in self._places])


def suits(result: torch.Tensor, tensors: Sequence[torch.Tensor | None]) -> bool:
    """Whether the bound of a result by these tensors can be made here. Of one without axes NumPy makes a number, not an array."""
    if result.numel() > ELEMENTS or result.dtype not in (torch.float32, torch.float64):
        return False
    if any(one is not None and not one.ndim for one in tensors):
        return False
    return all(one is None or (one.is_cpu and one.dtype is result.dtype and one.numel() <= READ) for one in (result, *tensors))


def _ones(count: int, like: Array) -> Array:
    """By which a matrix is multiplied to add up its rows or columns: a fraction of the time of NumPy's sums over one axis."""
    return _ONES[like.dtype.char][:count] if count <= READ else np.ones(count, like.dtype)


_ONES = {letter: np.ones(READ, letter) for letter in _UNITS}


def _row_sums(matrix: Array) -> Array:
    return matrix.dot(_ones(matrix.shape[1], matrix))


def _said(limits: Array, usual: float = math.inf) -> Near:
    return 0.0, limits.reshape(-1), usual


def relative(factor: float, result: Array) -> Near:
    """``factor`` roundings of the result."""
    return factor * _UNITS[result.dtype.char], None, math.inf


def pointwise(factor: float, magnitude: Callable[..., Array], result: Array, *tensors: Array) -> Near:
    """``factor`` roundings of a magnitude of the result and of these tensors: a new array."""
    size = magnitude(result, *tensors)
    return _said(np.multiply(size, factor * _UNITS[result.dtype.char], size))


def of_sum(terms: Callable[..., Array], allowed: Callable[[int], float], result: Array, *tensors: Array) -> Near:
    """So many roundings of the sums of the terms' magnitudes, a new array. ``allowed``: by how many sums there are."""
    size = terms(*tensors)
    return _said(np.multiply(size, allowed(result.size) * _UNITS[result.dtype.char], size))


def of_product(
    orders: tuple[Sequence[int] | None, Sequence[int] | None],
    shapes: tuple[Sequence[int], Sequence[int]],
    turned: bool,
    factor: float,
    usual: float,
    result: Array,
    one: Array,
    other: Array,
) -> Near | None:
    """``factor`` roundings of the product of the magnitudes, as matrices [rows, k] (or batches of them) of these shapes."""
    (x, y), (x_shape, y_shape) = orders, shapes
    rows = np.absolute(one if x is None else one.transpose(x)).reshape(x_shape)
    columns = np.absolute(other if y is None else other.transpose(y)).reshape(y_shape)
    if turned:
        rows, columns = columns, rows
    found = rows.dot(columns.T) if rows.ndim == 2 else np.matmul(rows, columns.swapaxes(1, 2))
    if found.size != result.size:
        return None
    found *= factor * _UNITS[result.dtype.char]
    return 0.0, found.reshape(-1), usual


def magnitudes(shape: Sequence[int], tensor: Array) -> Array:
    """The sums of magnitudes over the axes that stand before those of ``shape``."""
    size = np.absolute(tensor).reshape(-1, math.prod(shape))
    return _ones(len(size), size).dot(size)


def over_axes(over: tuple[int, ...], tensor: Array) -> Array:
    """The sums of magnitudes over some axes."""
    size = np.absolute(tensor)
    if len(over) == size.ndim:
        return _row_sums(size.reshape(1, -1))
    return np.add.reduce(size, over)


def gelu(result: Array, x: Array) -> Array:
    """|x| (half of it below 0) + |gelu(x)|."""
    size = np.maximum(x, x * -0.5)
    size += np.absolute(result)
    return size


def gelu_gradient(form: str, result: Array, grad: Array, x: Array) -> Array:
    """At most what the rounding of gelu's gradient is relative to."""
    size = np.sign(x)
    size *= 0.25
    size += 0.75  # 1, and a half below 0
    square = x * x
    if form == "none":  # and |x| pdf(x) (1 + min(x^2, 100))
        bent = np.exp(square * -0.5)
        bent *= np.absolute(x)
        bent *= np.minimum(square, 100.0) + 1.0
        size += np.multiply(bent, 0.3989, bent)
    elif form == "tanh":  # and |x| times a part of the argument's slope
        square *= 0.1341
        square += 1.0
        square *= np.absolute(x)
        size += np.multiply(square, 0.3989, square)
    size *= np.absolute(grad)
    return size


def softmax(axis: int, factor: float, result: Array, x: Array) -> Near:
    """y u (|z| + 7 + sum y |z|) with z = x - max."""
    x = x.reshape(-1, *x.shape[axis:])
    y = np.absolute(result).reshape(x.shape)
    z = np.subtract(_most(x, 1, keepdims=True), x)
    mean = np.add.reduce(np.multiply(y, z), 1, keepdims=True)
    mean += 7.0
    z += mean
    z *= np.multiply(y, factor * _UNITS[result.dtype.char], y)
    return _said(z)


def softmax_gradient(axis: int, factor: float, result: Array, x: Array, grad: Array) -> Near:
    """u (7 |dx| + p (9 sum |g| p + 2 |g| + 2 |sum g p|))."""
    unit, x = factor * _UNITS[result.dtype.char], x.reshape(-1, *x.shape[axis:])
    grad, p = grad.reshape(x.shape), np.exp(np.subtract(x, _most(x, 1, keepdims=True)))
    p /= np.add.reduce(p, 1, keepdims=True)
    size = np.absolute(grad)
    mean = np.add.reduce(np.multiply(size, p), 1, keepdims=True)
    mean *= 4.5
    mean += np.absolute(np.add.reduce(np.multiply(grad, p), 1, keepdims=True))
    size += mean
    size *= np.multiply(p, 2.0 * unit, p)
    size += np.multiply(np.absolute(result).reshape(x.shape), 7.0 * unit)
    return _said(size)


def _moments(x: Array, epsilon: float) -> tuple[Array, Array]:
    """Mean, and 1 / sqrt(variance + epsilon), of each row; never more."""
    count = x.shape[1]
    mean = _row_sums(x)
    mean /= count
    squares = _row_sums(np.multiply(x, x))
    squares /= count
    variance = np.maximum(squares - mean * mean, 0.0)
    squares *= 8.0 * _UNITS[x.dtype.char]
    squares += epsilon
    variance += squares
    return mean, np.divide(1.0, np.sqrt(variance, variance), variance)


def layer_norm(
    width: int, epsilon: float, factor: float, result: Array, x: Array, weight: Array | None, bias: Array | None
) -> Near:
    """u (8 |y - b| + 2 |w| r mean |x|)."""
    unit, x, y = factor * _UNITS[result.dtype.char], x.reshape(-1, width), result.reshape(-1, width)
    spread = _row_sums(np.absolute(x))
    spread *= _moments(x, epsilon)[1]
    spread *= 2.0 * unit / width
    scaled = np.absolute(y if bias is None else np.subtract(y, bias.reshape(-1)))
    scaled *= 8.0 * unit
    scaled += spread[:, None] if weight is None else np.multiply(spread[:, None], np.absolute(weight).reshape(-1))
    return _said(scaled)


def layer_norm_gradient(
    width: int, epsilon: float, factor: float, result: Array, x: Array, weight: Array | None, grad: Array
) -> Near:
    """r u (3 |h| + 5 mean |h| + |xhat| (10 mean |h xhat| + 2 r mean |x| mean |h|)) + 4 u |dx|, with h = g w."""
    unit, x = factor * _UNITS[result.dtype.char], x.reshape(-1, width)
    h = np.absolute(grad).reshape(-1, width)
    if weight is not None:
        h *= np.absolute(weight).reshape(-1)
    mean, spread = _moments(x, epsilon)
    hat = np.subtract(x, mean[:, None])
    hat *= spread[:, None]
    np.absolute(hat, hat)
    average = _row_sums(h)
    average /= width
    product = _row_sums(np.multiply(h, hat))
    product *= 10.0 / width
    product += _row_sums(np.absolute(x)) * spread * average * (2.0 / width)
    hat *= product[:, None]
    average *= 5.0
    hat += average[:, None]
    h *= 3.0
    hat += h
    spread *= unit
    hat *= spread[:, None]
    hat += np.multiply(np.absolute(result).reshape(-1, width), 4.0 * unit)
    return _said(hat)


def normalised(width: int, epsilon: float, x: Array, grad: Array) -> Array:
    """A lower estimate of the sums over rows of the magnitudes of grad times the normalised input: twice |g| r |x - mean|."""
    x, grad = x.reshape(-1, width), grad.reshape(-1, width)
    mean, spread = _moments(x, epsilon)
    size = np.subtract(x, mean[:, None])
    size *= spread[:, None]
    size *= grad
    np.absolute(size, size)
    found = _ones(len(size), size).dot(size)
    found *= 2.0
    return found
