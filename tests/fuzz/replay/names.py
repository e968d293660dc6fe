"""The names that a random program starts with, in Torch: ``paddle``, ``F``, leaves, layers, PyLayers, recompute, hooks."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from ..given import SPECIAL, calculus, numbers, watching
from .parts import OPTIMIZERS, PYLAYERS, block, of_values, recompute
from .tensor import FLOATS, Elsewhere
from .value import INTEGERS, Value, made, moved, operand, product, run_backward


def make(shape: list[int], dtype: str = "float32", seed: int = 0, grad: bool = False, shift: float = 0.0) -> Value:
    """A leaf; of the same numbers as in Paddle."""
    tensor = torch.from_numpy(numbers(shape, dtype, seed, shift))
    tensor = tensor.to(FLOATS[dtype]) if dtype in FLOATS else tensor
    copy = Value(tensor.clone())
    copy.stop_gradient, copy.barred = not grad, INTEGERS if grad and dtype in SPECIAL else ""
    return copy


class Layer:
    """A Linear of known weights, kept as Torch keeps them."""

    def __init__(self, width_in: int, width_out: int, seed: int) -> None:
        torch.nn.init.xavier_uniform_(torch.empty(width_out, width_in))  # draws as many numbers as Paddle's layer
        weight, bias = make([width_in, width_out], seed=seed).data * 0.5, make([width_out], seed=seed + 1).data * 0.5
        self.weight = weight.t().contiguous().requires_grad_()
        self.bias = bias.requires_grad_()

    def __call__(self, x: Value) -> Value:
        return Value(F.linear(self._fitting(x), self.weight, self.bias))

    def _fitting(self, x: Value) -> torch.Tensor:
        if x.dtype != self.weight.dtype:
            raise Elsewhere("linear of several dtypes")
        return x.wanted()


class Scaled(Layer):
    """One whose weight is computed at each call."""

    def __call__(self, x: Value) -> Value:
        return Value(F.linear(self._fitting(x), self.weight * 0.5, self.bias))


# Functions

UNARY = {name: getattr(torch, name) for name in ("exp", "tanh", "square", "neg", "sin", "abs", "cos", "sqrt", "rsqrt", "log")}
UNARY["reciprocal"] = torch.reciprocal
ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu, "sigmoid": torch.sigmoid, "silu": F.silu}


def _one(function: Callable[..., torch.Tensor]) -> Callable[[Value], Value]:
    return lambda x: made(function, x)


def _reduction(function: Callable[..., torch.Tensor]) -> Callable[..., Value]:
    def reduce(x: Value, axis: int | None = None, keepdim: bool = False) -> Value:
        return Value(function(x.wanted(), keepdim=keepdim, **({} if axis is None else {"dim": axis})))

    return reduce


def _largest(x: torch.Tensor, dim: Any = (), keepdim: bool = False) -> torch.Tensor:
    of_all = (dim == () or x.ndim < 2) and not keepdim
    largest = torch.max(x) if of_all else torch.amax(x, dim, keepdim)
    return largest.clone()  # Torch's backward reads what it found; ours goes on where that is written


def _total(x: torch.Tensor, keepdim: bool, **axis: int) -> torch.Tensor:
    return torch.sum(x, **axis, keepdim=keepdim) if axis else torch.sum(x)


def _average(x: torch.Tensor, keepdim: bool, **axis: int) -> torch.Tensor:
    return torch.mean(x, **axis, keepdim=keepdim) if axis else torch.mean(x)


def matmul(x: Value, y: Value, transpose_x: bool = False, transpose_y: bool = False) -> Value:
    """``torch.matmul``; a vector is not transposed."""

    def function(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.matmul(a.mT if transpose_x and a.ndim > 1 else a, b.mT if transpose_y and b.ndim > 1 else b)

    if x.data.dtype != y.data.dtype and not (x.data.numel() and y.data.numel()):
        raise Elsewhere("a product of nothing in two dtypes, which has Paddle's second one")
    return product(function, x, y)


def linear(x: Value, weight: Value, *bias: Value) -> Value:
    """``torch.nn.functional.linear`` of a weight as Torch keeps it."""
    if len({operand.dtype for operand in (x, weight, *bias)}) > 1:
        raise Elsewhere("linear of several dtypes")
    turned = weight.family.turned(weight.data, weight.weight().t().clone(memory_format=torch.contiguous_format))
    return Value(F.linear(x.wanted(), turned, *(part.wanted() for part in bias)))


def layer_norm(x: Value, width: int, weight: Value | None = None, bias: Value | None = None) -> Value:
    """``torch.nn.functional.layer_norm`` over the last axis."""
    operands = [operand.wanted() for operand in (x, weight, bias) if operand is not None]
    if len({operand.dtype for operand in operands}) > 1:
        raise Elsewhere("layer_norm of several dtypes")
    return Value(F.layer_norm(operands[0], (width,), *operands[1:]))


def as_strided(x: Value, shape: list[int], strides: list[int], offset: int = 0) -> Value:
    """The offset is one of bytes."""
    if offset % x.data.element_size():
        raise Elsewhere("as_strided between two elements")
    if x.family.strided:
        raise Elsewhere("as_strided of a result that lies strided in Torch")
    if x.apart and x.data.storage_offset():
        raise Elsewhere("as_strided of a part of a memory")
    start = offset // x.data.element_size()  # of the memory, as in Torch
    return x.alias(lambda t: t.as_strided(shape, strides, start))


def split(x: Value, count: int, axis: int) -> list[Value]:
    """Copies, as Paddle's are."""
    return x.chunk(count, axis)


def where(condition: Value, x: Value, y: Value) -> Value:
    """``torch.where``."""
    return made(lambda a, b: torch.where(condition.data, a, b), x, y)


def pad(x: Value, widths: list[int], value: float) -> Value:
    """``torch.nn.functional.pad``."""
    return Value(F.pad(x.wanted(), widths, value=value))


def to_tensor(data: Any) -> Value:
    """Numbers are float32, or int64; arrays are as they are."""
    if isinstance(data, torch.Tensor):
        return Value(data)
    tensor = torch.tensor(data)
    return Value(tensor.float() if tensor.is_floating_point() else tensor)


def assign(x: Value, output: Value) -> None:
    """Into another tensor."""
    if not x.stop_gradient and torch.is_grad_enabled():
        raise Elsewhere("an assignment that goes on in the graph")
    output.overwrite(x.data)


def subtract(x: Value, y: Value, out: Value) -> None:
    """Into one of its operands."""
    if not (x.stop_gradient and y.stop_gradient):
        raise Elsewhere("a result that is written into an operand in the graph")
    if x.dtype != y.dtype:
        raise Elsewhere("an in-place op that changes the dtype")
    out.overwrite(operand(x - y))


def gradient(
    outputs: list[Value],
    inputs: list[Value],
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool = False,
    no_grad_vars: Any = None,
) -> list[Value | None]:
    """``torch.autograd.grad``."""
    if no_grad_vars:
        raise Elsewhere("no_grad_vars")
    if any(value.stop_gradient for value in inputs):
        raise Elsewhere("a gradient with respect to what wants none")
    with contextlib.ExitStack() as stack:
        for value in inputs:
            stack.enter_context(value.asked())
        gradients = torch.autograd.grad(
            [output.graph() for output in outputs],
            [value.graph() for value in inputs],
            [torch.ones_like(output.data) for output in outputs],
            retain_graph=True,  # Paddle keeps it in any case
            create_graph=create_graph,
            allow_unused=allow_unused,
        )
    gradients = [grad if value.own is None else value.own for value, grad in zip(inputs, gradients)]
    return [None if gradient is None else _gradient(gradient, create_graph) for gradient in gradients]


def _gradient(grad: torch.Tensor, in_graph: bool) -> Value:
    """What is asked for is no leaf, also where nothing leads on from it."""
    whole = grad.clone(memory_format=torch.contiguous_format)
    if not in_graph:
        return Value(whole.detach())
    return Value(whole if whole.requires_grad else whole.requires_grad_().view_as(whole))


def _autocast(**_: Any) -> Any:
    raise Elsewhere("autocast, whose lists are Paddle's own")


@contextlib.contextmanager
def no_grad() -> Iterator[None]:
    """``torch.no_grad``."""
    with torch.no_grad():
        yield


@contextlib.contextmanager
def enable_grad() -> Iterator[None]:
    """``torch.enable_grad``."""
    with torch.enable_grad():
        yield


FUNCTIONAL = SimpleNamespace(
    **{name: _one(function) for name, function in ACTIVATIONS.items()},
    linear=linear,
    layer_norm=layer_norm,
    softmax=lambda x, axis=-1: Value(F.softmax(x.wanted(), axis)),
    log_softmax=lambda x, axis=-1: Value(F.log_softmax(x.wanted(), axis)),
    dropout=lambda x, share, training=True: Value(F.dropout(x.wanted(), share, training)),
    pad=pad,
)
PADDLE = SimpleNamespace(
    **{name: _one(function) for name, function in UNARY.items()},
    nn=SimpleNamespace(
        functional=FUNCTIONAL,
        initializer=SimpleNamespace(Constant=lambda value: lambda x: x.overwrite(torch.full_like(x.data, value))),
    ),
    optimizer=OPTIMIZERS,
    amp=SimpleNamespace(auto_cast=_autocast),
    autograd=SimpleNamespace(
        backward=lambda roots, retain_graph=False: run_backward(roots, [None] * len(roots), retain_graph),
    ),
    sum=_reduction(_total),
    mean=_reduction(_average),
    max=_reduction(_largest),
    std=_reduction(torch.std),
    logsumexp=lambda x, axis: Value(torch.logsumexp(x.wanted(), axis)),
    clip=lambda x, low, high: Value(torch.clip(x.wanted(), low, high)),
    cumsum=lambda x, axis: Value(torch.cumsum(x.wanted(), axis)),
    matmul=matmul,
    einsum=lambda equation, x, y: product(lambda a, b: torch.einsum(equation, a, b), x, y),
    concat=lambda tensors: made(lambda *all_: torch.cat(all_), *tensors),
    stack=lambda tensors, axis: made(lambda *all_: torch.stack(all_, axis), *tensors),
    where=where,
    flip=lambda x, axes: moved(lambda t: t.flip(axes), x),
    roll=lambda x, shift: moved(lambda t: t.roll(shift), x),
    tile=lambda x, counts: moved(lambda t: torch.tile(t, counts), x),
    gather=lambda x, index: moved(lambda t: torch.index_select(t, 0, index.data), x),
    index_select=lambda x, index, axis: moved(lambda t: torch.index_select(t, axis, index.data), x),
    masked_fill=lambda x, mask, value: Value(x.wanted().masked_fill(mask.data, value)),
    take_along_axis=lambda x, index, axis: Value(torch.gather(x.wanted().clone(), axis, index.data)),  # of x only the shape is kept
    argsort=lambda x, axis: Value(torch.argsort(x.data, axis)),
    as_strided=as_strided,
    split=split,
    to_tensor=to_tensor,
    ones_like=lambda x: Value(torch.ones_like(x.data)),
    assign=assign,
    subtract=subtract,
    grad=gradient,
    no_grad=no_grad,
    enable_grad=enable_grad,
    seed=torch.manual_seed,
    Size=tuple,
)


def namespace() -> dict[str, Any]:
    """The names that a program starts with."""
    return {
        "paddle": PADDLE,
        "np": np,
        "F": FUNCTIONAL,
        "copy": copy,
        "make": make,
        "layer": Layer,
        "scaled": Scaled,
        **calculus(PADDLE, FUNCTIONAL),
        **PYLAYERS,
        "block": of_values(block),
        "recompute": recompute,
        **watching(),
    }
