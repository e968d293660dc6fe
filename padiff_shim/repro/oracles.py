"""Ops in NumPy, for long double, where torch has no higher precision. One of them goes into a script of :mod:`.script`.

Each takes the op's arguments in the order of ``Op.params``, tensors as arrays; the formulas are the textbook ones.
"""
# Not shared with :mod:`padiff_shim.numerics`: the text of one function goes into a script that runs without this library. It gives
# a value alone, and the formulas there give a bound with it.

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

Array = Any


def over(axis: Any, ndim: int) -> tuple[int, ...]:
    """Paddle's axis (None or empty: all) as a tuple."""
    if isinstance(axis, int):
        return (axis,)
    return tuple(axis) if axis else tuple(range(ndim))


def matmul(x: Array, y: Array, transpose_x: bool, transpose_y: bool) -> Array:
    """x @ y with transposes of the last two axes."""
    left = np.swapaxes(x, -1, -2) if transpose_x and x.ndim > 1 else x
    right = np.swapaxes(y, -1, -2) if transpose_y and y.ndim > 1 else y
    return np.matmul(left, right)


def linear(x: Array, weight: Array, bias: Array | None, transpose_weight: bool) -> Array:
    """x @ weight.T + bias."""
    product = np.matmul(x, weight.T)
    return product if bias is None else product + bias


def addmm(input: Array, x: Array, y: Array, beta: float, alpha: float) -> Array:
    """beta input + alpha x @ y."""
    return np.longdouble(beta) * input + np.longdouble(alpha) * np.matmul(x, y)


def sum_(x: Array, axis: Any, dtype: Any, keepdim: bool) -> Array:
    """The sum over some axes."""
    return np.sum(x, axis=over(axis, x.ndim), keepdims=keepdim)


def mean(x: Array, axis: Any, keepdim: bool) -> Array:
    """The mean over some axes."""
    return np.mean(x, axis=over(axis, x.ndim), keepdims=keepdim)


def logsumexp(x: Array, axis: Any, keepdim: bool, reduce_all: bool) -> Array:
    """log(sum(exp(x))), shifted by the maximum where that is finite."""
    axes = over(None if reduce_all else axis, x.ndim)
    peak = np.max(x, axis=axes, keepdims=True)
    peak = np.where(np.isfinite(peak), peak, 0)
    with np.errstate(all="ignore"):
        total = np.log(np.sum(np.exp(x - peak), axis=axes, keepdims=True)) + peak
    return total if keepdim else np.squeeze(total, axis=axes)


def softmax(x: Array, axis: int) -> Array:
    """exp(x - max) / sum."""
    powers = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return powers / np.sum(powers, axis=axis, keepdims=True)


def layer_norm(x: Array, scale: Array | None, bias: Array | None, epsilon: float, begin_norm_axis: int) -> Array:
    """(x - mean) / sqrt(var + epsilon) * scale + bias over the axes from ``begin_norm_axis`` on."""
    axes, shape = tuple(range(begin_norm_axis, x.ndim)), x.shape[begin_norm_axis:]
    centred = x - np.mean(x, axis=axes, keepdims=True)
    normal = centred / np.sqrt(np.mean(centred * centred, axis=axes, keepdims=True) + np.longdouble(epsilon))
    normal = normal if scale is None else normal * scale.reshape(shape)
    return normal if bias is None else normal + bias.reshape(shape)


ORACLES: dict[str, Callable[..., Array]] = {
    "matmul": matmul,
    "linear": linear,
    "addmm": addmm,
    "baddbmm": addmm,
    "bmm": np.matmul,
    "mv": np.matmul,
    "sum": sum_,
    "mean": mean,
    "logsumexp": logsumexp,
    "softmax": softmax,
    "layer_norm": layer_norm,
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
    "pow": np.power,
    "square": np.square,
    "exp": np.exp,
    "tanh": np.tanh,
    "sqrt": np.sqrt,
}
