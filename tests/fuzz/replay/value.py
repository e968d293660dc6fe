"""What the lines of a random program do with a tensor: operators, indices, and the methods that its grammar knows."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from .tensor import DTYPES, Elsewhere, Tensor

INTEGERS = "a gradient through integers"
READS = "an in-place op that reads what it writes"


def operand(value: Any) -> Any:
    """A tensor in the graph, or a number as Python has it."""
    if isinstance(value, Value):
        return value.wanted()
    return value.item() if isinstance(value, np.generic) else value


def cast(operands: list[Any]) -> list[Any]:
    """Tensors in the dtype of the result, as Paddle casts them before it computes: one without axes counts as a number."""
    if all(isinstance(tensor, torch.Tensor) for tensor in operands):
        kind = functools.reduce(
            torch.promote_types, {tensor.dtype for tensor in operands if tensor.ndim} or {tensor.dtype for tensor in operands}
        )
        return [tensor.to(kind) for tensor in operands]
    return operands


def both(function: Callable[..., Any], x: Any, y: Any) -> Value:
    """A function of two operands, of which one may be a number."""
    return Value(function(*cast([operand(x), operand(y)])))


def made(function: Callable[..., Any], *tensors: Value, **options: Any) -> Value:
    """A new value from tensors."""
    return Value(function(*cast([tensor.wanted() for tensor in tensors]), **options))


def product(function: Callable[..., Any], x: Value, *others: Value) -> Value:
    """A matrix product, which Paddle computes in the dtype of its first operand."""
    first = x.wanted()
    return Value(function(first, *(other.wanted().to(first.dtype) for other in others)))


def moved(function: Callable[[torch.Tensor], torch.Tensor], x: Value) -> Value:
    """A copy that takes elements elsewhere."""
    return x.copied(function)


class Value(Tensor):
    """A tensor of the program, as the program sees it."""

    def __add__(self, other: Any) -> Value:
        return both(lambda x, y: x + y, self, other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Value:
        return both(lambda x, y: x - y, self, other)

    def __rsub__(self, other: Any) -> Value:
        return both(lambda x, y: x - y, other, self)

    def __mul__(self, other: Any) -> Value:
        return both(lambda x, y: x * y, self, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Value:
        return both(lambda x, y: x / y, self, other)

    def __rtruediv__(self, other: Any) -> Value:
        return both(lambda x, y: x / y, other, self)

    def __pow__(self, other: Any) -> Value:
        return both(torch.pow, self, other)

    def __matmul__(self, other: Any) -> Value:
        return product(torch.matmul, self, other)

    def __gt__(self, other: Any) -> Value:
        return Value(self.data > operand(other))

    def abs(self) -> Value:
        return made(torch.abs, self)

    def sum(self) -> Value:
        return made(torch.sum, self)

    def mean(self) -> Value:
        return made(torch.mean, self)

    # Views and copies

    def __getitem__(self, index: Any) -> Value:
        if isinstance(index, Value):
            return self.copied(lambda x: x[index.data])
        axis = mirrored(index)
        return self.alias(lambda x: x[index]) if axis is None else self.mirror(axis)

    def transpose(self, axes: list[int]) -> Value:
        return self.alias(lambda x: x.permute(axes))

    def reshape(self, shape: list[int]) -> Value:
        return self.alias(lambda x: x.reshape(shape))

    def view(self, shape: list[int]) -> Value:
        return self.reshape(shape)  # what Paddle refuses was taken out; a result that lies strided in Torch alone would be refused

    def unsqueeze(self, axis: int) -> Value:
        return self.alias(lambda x: x.unsqueeze(axis))

    def flatten(self) -> Value:
        return self.alias(lambda x: x.reshape(-1))

    def squeeze(self) -> Value:
        return self.alias(torch.squeeze)

    def contiguous(self) -> Value:
        if self.data.stride() == torch.empty(self.data.shape).stride():  # of one row, too, which Torch need not ask
            return self
        raise Elsewhere("contiguous() of a view, which leaves the view's memory with the result natively")

    def view_as(self, other: Value) -> Value:
        return self.reshape(list(other.data.shape))

    def expand(self, shape: list[int]) -> Value:
        return self.copied(lambda x: x.expand(shape))

    def unbind(self) -> list[Value]:
        return [self[number] for number in range(len(self.data))]

    def chunk(self, count: int, axis: int) -> list[Value]:
        size = self.data.shape[axis] // count
        return [self.copied(lambda x, n=number: x.narrow(axis, n * size, size)) for number in range(count)]

    def clone(self) -> Value:
        return self.copied(torch.clone)

    def detach(self) -> Value:
        value = Value(self.data, self.data, self.family)
        value.barred = self.barred
        return value

    def astype(self, dtype: str | torch.dtype) -> Value:
        kind = dtype if isinstance(dtype, torch.dtype) else DTYPES[dtype]
        if kind == self.data.dtype:
            return self
        converted = Value(self.wanted().to(kind))
        if not kind.is_floating_point or self.barred:
            converted.stop_gradient = self.stop_gradient
            converted.barred = self.barred or ("" if self.stop_gradient else INTEGERS)
        return converted

    @property
    def dtype(self) -> torch.dtype:
        return self.data.dtype

    @property
    def ndim(self) -> int:
        return self.data.ndim

    def item(self, number: int) -> Any:
        if not self.data.is_contiguous():
            raise Elsewhere("item() of a view, which Paddle reads in the order of memory")
        return self.data.reshape(-1)[number].item()

    def tolist(self) -> Any:
        return (self.data.view(torch.uint16) if self.dtype == torch.bfloat16 else self.data).tolist()

    def numpy(self) -> torch.Tensor:
        """The values; a Torch tensor, as NumPy has no bfloat16."""
        return self.data.clone(memory_format=torch.contiguous_format)

    def __deepcopy__(self, memo: Any) -> Value:
        if not self.is_leaf:
            raise Elsewhere("a copy of a tensor in the graph")
        copy = Value(self.data.clone())
        copy.stop_gradient = self.stop_gradient
        return copy

    # Writes

    def __setitem__(self, index: Any, value: Any) -> None:
        tensor = operand(value)
        wanted = isinstance(tensor, torch.Tensor) and tensor.requires_grad
        new = self.replaced() if wanted else self.wanted().clone()
        if isinstance(tensor, torch.Tensor):
            tensor = tensor.to(new.dtype)
        if isinstance(tensor, torch.Tensor) and not new.numel():
            raise Elsewhere("a tensor set into one without elements, which Paddle takes in any shape")
        where = index.data if isinstance(index, Value) else index
        axis = mirrored(index)
        if axis is not None and isinstance(tensor, torch.Tensor) and tensor.ndim > new.ndim:
            raise Elsewhere("a write backwards of more axes than there are")
        if axis is None:
            new[where] = tensor
        else:
            new[...] = (tensor.expand(new.shape) if isinstance(tensor, torch.Tensor) else torch.full_like(new, tensor)).flip(axis)
        self.write(new)

    def _inplace(self, function: Callable[..., torch.Tensor], *others: Any) -> Value:
        """An op of the values before the write, which is what a backward reads in Paddle, too."""
        for other in others:
            if isinstance(other, Value) and other is not self and other.family is self.family:
                raise Elsewhere(READS)
            if isinstance(other, Value) and other.dtype != self.dtype:
                raise Elsewhere("an in-place op that changes the dtype")
        operands = [None if other is self else operand(other) for other in others]
        wanted = any(isinstance(tensor, torch.Tensor) and tensor.requires_grad for tensor in operands)
        before = self.replaced() if wanted else self.wanted().clone()
        return self.write(function(before, *(before if tensor is None else tensor for tensor in operands)))

    def add_(self, y: Value) -> Value:
        return self._inplace(torch.add, y)

    def subtract_(self, y: Value) -> Value:
        return self._inplace(torch.sub, y)

    def multiply_(self, y: Value) -> Value:
        return self._inplace(torch.mul, y)

    def scale_(self, factor: float, bias: float) -> Value:
        return self._inplace(lambda x: x * factor + bias)

    def zero_(self) -> Value:
        return self._inplace(torch.zero_)

    def fill_(self, value: float) -> Value:
        return self._inplace(lambda x: x.fill_(value))

    def clip_(self, low: float, high: float) -> Value:
        return self._inplace(lambda x: torch.clip(x, low, high))

    def tanh_(self) -> Value:
        return self._inplace(torch.tanh)

    def exp_(self) -> Value:
        return self._inplace(torch.exp)

    def square_(self) -> Value:
        return self._inplace(torch.square)

    def abs_(self) -> Value:
        return self._inplace(torch.abs)

    def sigmoid_(self) -> Value:
        return self._inplace(torch.sigmoid)

    def set_value(self, value: Any) -> None:
        data = value.data if isinstance(value, Value) else torch.as_tensor(np.asarray(value))
        if data.dtype != self.data.dtype:
            raise Elsewhere("set_value of another dtype")
        self._overwrite(value, data)

    def _overwrite(self, value: Any, data: torch.Tensor) -> None:
        if isinstance(value, Value) and value is not self and value.family is self.family:
            raise Elsewhere(READS)
        self.overwrite(data)

    def copy_(self, other: Value, blocking: bool) -> None:
        if other.data.dtype != self.data.dtype:
            raise Elsewhere("copy_ of another dtype")
        self._overwrite(other, other.data)

    # Gradients

    def backward(self, grad: Value | None = None, retain_graph: bool = False) -> None:
        run_backward([self], [grad], retain_graph)

    def clear_grad(self) -> None:
        self.clear_gradient()


def run_backward(roots: list[Value], grads: list[Value | None], retain_graph: bool) -> None:
    """Torch's backward from roots; one that wants no gradient has none."""
    for root in roots:
        if root.barred:  # a gradient itself: natively nothing comes to it unless something has led there
            raise Elsewhere(root.barred)
    pairs = [(root.graph(), None if grad is None else grad.data) for root, grad in zip(roots, grads) if not root.stop_gradient]
    gradients = [torch.ones_like(root) if grad is None else grad for root, grad in pairs]
    if pairs:
        torch.autograd.backward([root for root, _ in pairs], gradients, retain_graph=retain_graph)


def mirrored(index: Any) -> int | None:
    """The axis that an index runs backwards."""
    parts = index if isinstance(index, tuple) else (index,)
    if not (isinstance(parts[-1], slice) and parts[-1].step == -1):
        return None
    return -1 if parts[0] is Ellipsis else 0
