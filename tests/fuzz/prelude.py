"""What random programs may use beside Paddle itself: tensors by seed, layers, PyLayers, hooks that are watched."""

from __future__ import annotations

import copy
import functools
import io

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle.autograd import PyLayer
from paddle.distributed.fleet.utils import recompute

from .given import calculus, numbers, watching


def make(shape, dtype="float32", seed=0, grad=False, shift=0.0, below=None, edges=False):
    """A leaf: normal values plus ``shift``, or small whole numbers; on request with NaN, infinities and zeros among them."""
    leaf = paddle.to_tensor(numbers(shape, dtype, seed, shift, below, edges)).astype(dtype).detach()
    leaf.stop_gradient = not grad
    return leaf


def definite(x):
    """A positive definite matrix of another one."""
    return paddle.matmul(x, x, transpose_y=True) + 2 * paddle.eye(x.shape[-1], dtype=x.dtype)


def layer(width_in, width_out, seed, kind=paddle.nn.Linear):
    """A Linear of known weights."""
    linear = kind(width_in, width_out)
    linear.weight.set_value(make([width_in, width_out], seed=seed) * 0.5)
    linear.bias.set_value(make([width_out], seed=seed + 1) * 0.5)
    return linear


class Twice(PyLayer):
    """Saves nothing; a plain elementwise gradient."""

    @staticmethod
    def forward(ctx, x):
        return x * 2.0

    @staticmethod
    def backward(ctx, grad):
        return grad * 2.0


class Cube(PyLayer):
    """Saves its input."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensor()
        return 3.0 * x * x * grad


class Beside(PyLayer):
    """Gives what it was given, which then has its history: y alone, or ``marked`` as not taken."""

    @staticmethod
    def forward(ctx, x, y, marked=False):
        if marked:
            ctx.mark_not_inplace(y)
        return x + y, y

    @staticmethod
    def backward(ctx, grad, other):
        return grad, grad + 2.0 * other


class Mix(PyLayer):
    """Two operands, two results."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return paddle.tanh(x) + y, x * y

    @staticmethod
    def backward(ctx, first, second):
        x, y = ctx.saved_tensor()
        return first * (1.0 - paddle.tanh(x) ** 2) + second * y, first + second * x


class Asking(PyLayer):
    """Asks for the gradients of a graph of its own in its backward."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return F.gelu(x) * paddle.max(x)

    @staticmethod
    def backward(ctx, grad):
        with paddle.enable_grad():
            x = ctx.saved_tensor()[0].detach()
            x.stop_gradient = False
            return paddle.grad([F.gelu(x) * paddle.max(x)], [x], [grad])[0]


class Again(PyLayer):
    """Runs a backward within its backward, through a recomputed block."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return recompute(block, x)

    @staticmethod
    def backward(ctx, grad):
        with paddle.enable_grad():
            x = ctx.saved_tensor()[0].detach()
            x.stop_gradient = False
            paddle.autograd.backward([recompute(block, x)], [grad])
            return x.grad


def block(x):
    """What recompute runs again."""
    return F.softmax(paddle.tanh(x) * 1.5, axis=-1) + x * 0.5


class Scaled(paddle.nn.Linear):
    """A Linear whose weight is computed at each call."""

    def forward(self, x):
        return F.linear(x, self.weight * 0.5, self.bias)


def namespace():
    """The names that a program starts with."""
    return {
        "paddle": paddle,
        "np": np,
        "F": F,
        "copy": copy,
        "io": io,
        "functools": functools,
        "make": make,
        "definite": definite,
        "layer": layer,
        "scaled": functools.partial(layer, kind=Scaled),
        "Asking": Asking,
        "Again": Again,
        **calculus(paddle, F),
        "Twice": Twice,
        "Cube": Cube,
        "Beside": Beside,
        "Mix": Mix,
        "block": block,
        "recompute": recompute,
        **watching(),
    }
