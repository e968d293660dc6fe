"""A tensor of a random program in Torch: Paddle's language (aliases, ``stop_gradient``, in-place writes) over Torch's autograd.

``data`` is the memory that views share, ``node`` the tensor in Torch's graph. They part where a write goes on in the graph: there
Torch has the new value as another tensor, and every alias of the memory sees it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

FLOATS = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32, "float64": torch.float64}
DTYPES = {**FLOATS, "int32": torch.int32, "int64": torch.int64, "bool": torch.bool}


class Elsewhere(Exception):
    """What a Torch program cannot say, or says otherwise: the line is taken out of the program."""


class Family:
    """The tensors that share a memory. ``mirrored``: one of them is a copy in Torch, which lacks the strides for a view."""

    def __init__(self, first: torch.Tensor) -> None:
        self.mirrored = False
        self.strided = not first.is_contiguous()  # a result, which Paddle's programs see in the order of its elements
        self.recomputed = False  # a block that is recomputed without reentry reads it again
        self._turned: list[tuple[torch.Tensor, torch.Tensor]] = []

    def turned(self, weight: torch.Tensor, copy: torch.Tensor) -> torch.Tensor:
        """``copy`` is a Linear weight of this memory as Torch keeps it, which a program in Torch has instead, and writes."""
        self._turned.append((weight.detach(), copy))
        return copy

    def rewritten(self) -> None:
        """Autograd did not hear of a write: what a backward reads of this memory is the new values."""
        if self.recomputed:
            raise Elsewhere("an uncounted write to what a recomputed block reads again")
        for weight, copy in self._turned:
            copy.data.copy_(weight.t())


class Tensor:
    """A tensor of the program."""

    __array_ufunc__ = None  # NumPy's numbers leave arithmetic to it

    def __init__(self, node: torch.Tensor, data: torch.Tensor | None = None, family: Family | None = None) -> None:
        self.node = node
        self.data = node.detach() if data is None else data
        self.family = family or Family(self.data)
        self.stop_gradient = not node.requires_grad
        self.barred = ""  # why Torch cannot say what Paddle does where it is read with a gradient
        self.deaf = False  # the result of a PyLayer: what hooks on it return goes no further
        self.own: torch.Tensor | None = None  # the gradient that the latest backward's hooks have made of its own
        self.kept: Tensor | None = None
        self._read = False  # whether the program may hold its gradient
        self._keeps: torch.Tensor | None = None
        self._begins: torch.Tensor | None = None
        self._silent = False
        self._cleared: torch.Tensor | None = None  # the leaf whose gradient was made zero since the last one came
        self._role = ""
        self._version = node._version
        self._written = False  # the node has a memory of its own

    # In the graph

    def wanted(self) -> torch.Tensor:
        """The tensor as an operand: in the graph if it wants a gradient, also under ``no_grad``: Torch chooses kernels by that.

        There it is the memory that is read, which Paddle's copies have laid out where Torch's graph has a view (``expand``).
        """
        if self.barred and torch.is_grad_enabled() and not self.stop_gradient:
            raise Elsewhere(self.barred)
        if self.stop_gradient or not self.data.is_floating_point():
            return self.data
        self._plays("an operand")
        tensor = self.graph()
        return tensor if torch.is_grad_enabled() or not self.apart else self.data.detach().requires_grad_()

    def weight(self) -> torch.Tensor:
        """The tensor as a Linear weight, which Torch keeps as [out, in]: a leaf is one in all calls, or in none."""
        if self.stop_gradient:
            return self.data
        self._plays("a weight")
        return self.graph()

    def _plays(self, role: str) -> None:
        if self.is_leaf and torch.is_grad_enabled():
            if self._role not in ("", role):
                raise Elsewhere("a leaf as a Linear weight and otherwise")
            self._role = role

    def graph(self) -> torch.Tensor:
        """The tensor in the graph; a leaf from now on if it was in none."""
        if not self.node.requires_grad:
            self.node, self._version = self.data.detach().requires_grad_(), self.data._version
        rebased = self.node._is_view() and self.node._version != self._version  # Torch leads a view past the hooks between, then
        if rebased or (self.apart and not _same(self.node, self.data)):
            raise Elsewhere("read with a gradient after a write through an alias")
        return self.node

    @property
    def apart(self) -> bool:
        """Whether the graph's tensor lies elsewhere than the memory."""
        return self.node.data_ptr() != self.data.data_ptr() or self.node.stride() != self.data.stride()

    @property
    def is_leaf(self) -> bool:
        return self.node.is_leaf

    def alias(self, function: Callable[[torch.Tensor], torch.Tensor]) -> Tensor:
        """A view of the same memory; a copy where Torch has no such view."""
        whole, node = function(self.data), self.wanted()
        view = type(self)(whole if node is self.data else function(node), whole, self.family)
        if whole.untyped_storage().data_ptr() != self.data.untyped_storage().data_ptr():
            self.family.mirrored = True  # Paddle has a view, unless it has Torch's strides: right as long as nobody writes
        return self._passed(view)

    def copied(self, function: Callable[[torch.Tensor], torch.Tensor]) -> Tensor:
        """A copy; in the graph what Torch makes, which may be a view."""
        node, whole = function(self.wanted()), function(self.data).clone(memory_format=torch.contiguous_format)
        return self._passed(type(self)(node if node.requires_grad else whole, whole))

    def mirror(self, axis: int) -> Tensor:
        """Paddle's view with a negative stride: right as long as nobody writes."""
        flipped = type(self)(self.wanted().flip(axis))
        self.family.mirrored = True
        flipped.family = self.family
        return self._passed(flipped)

    def _passed(self, result: Tensor) -> Tensor:
        if not result.data.is_floating_point():
            result.barred, result.stop_gradient = self.barred, self.stop_gradient
        return result

    # Writes

    def replaced(self) -> torch.Tensor:
        """The value before some of its elements are set. Paddle goes on from there, as if a stopped one had wanted its gradient."""
        if not self.stop_gradient:
            return self.wanted().clone()
        if not self.is_leaf:
            return self.graph().clone()
        before = self.data.clone().requires_grad_()
        before.register_hook(self._add)
        return before.clone()

    def write(self, new: torch.Tensor) -> Tensor:
        """An in-place op: the tensor takes the values and the history of ``new``."""
        self._writable(new)
        if self.is_leaf and not self.stop_gradient and torch.is_grad_enabled():
            raise Elsewhere("a leaf that wants a gradient is written in place")
        if self.repeats:
            raise Elsewhere("an in-place op on a view that shows an element several times")
        new = new.to(self.data.dtype)
        with torch.no_grad():
            self.data.copy_(new)
            if self.apart and not self.node._is_view():  # what was saved of it is this memory in Paddle: it counts as written
                torch.autograd.graph.increment_version(self.node)
        if new.requires_grad:
            self.kept = self.grad  # of a leaf that it was
            if self.node.is_leaf and self.node.requires_grad:
                self.node.register_hook(self._add)  # to which an earlier graph may still lead: one tensor in Paddle
            self.node, self.stop_gradient, self.deaf, self._written = new, False, False, True
            self._version = new._version
        return self

    @property
    def repeats(self) -> bool:
        """Whether elements lie on one another."""
        steps = [(size - 1) * stride for size, stride in zip(self.data.shape, self.data.stride())]
        places = torch.arange(sum(steps) + 1).as_strided(self.data.shape, self.data.stride())
        return places.unique().numel() < places.numel()

    def overwrite(self, new: torch.Tensor) -> Tensor:
        """A write that autograd does not hear of: what was saved of this memory is the new values, too."""
        self._writable(new)
        if not self.data.is_contiguous():
            raise Elsewhere("an uncounted write to a view, which Paddle writes in the order of memory")
        if self.node.requires_grad and not self.is_leaf:
            raise Elsewhere("an uncounted write to what a backward may read")
        for memory in (self.data, *([self.node] if self._written else [])):
            memory.data.copy_(new.detach().clone())  # which may lie over it
        self.family.rewritten()
        return self

    def changing(self) -> None:
        """Its memory is about to be written."""
        if self.family.mirrored:
            raise Elsewhere("a write below a view that is a copy in Torch")

    def _writable(self, new: torch.Tensor) -> None:
        self.changing()
        if new.shape != self.data.shape:
            raise Elsewhere("a write of another shape")

    # Gradients

    @property
    def grad(self) -> Tensor | None:
        self._read = True
        gradient = self.kept
        if self.node.is_leaf:
            gradient = None if self.node.grad is None else type(self)(self.node.grad)
        if gradient is not None:
            gradient.stop_gradient = False  # Paddle's are leaves
            gradient.barred = "a gradient, which grows, as an operand in a graph"
        return gradient

    def clear_gradient(self, zeros: bool = True) -> None:
        """Forget it, or have zeros of it; the next one takes their place in Paddle, so that a sum of -0.0 stays one."""
        read, gradient = self._read, self.grad
        if gradient is not None and zeros:
            gradient.data.zero_()
            if self.node.is_leaf and self._cleared is None:
                self.node.register_hook(self._replacing)
                self._cleared = self.node
        elif gradient is not None:
            if read:
                raise Elsewhere("a gradient that the program holds, emptied")
            self.node.grad, self.kept = None, None

    def _replacing(self, grad: torch.Tensor) -> None:
        if self._cleared is self.node and not self._silent:
            self.node.grad = self._cleared = None

    def register_hook(self, function: Callable[[Tensor], Tensor | None]) -> Any:
        """A hook on the gradient of this value."""

        def shown(grad: torch.Tensor) -> torch.Tensor | None:
            if self._silent:
                return None
            _there(grad)
            answer = function(type(self)(self.own if deaf else grad))
            if answer is None:
                return None
            self.own = answer.node
            return None if deaf else self.own

        deaf, node = self.deaf, self.graph()
        _ = node.grad_fn  # without a look at it Torch 2.13 crashes where the node is a view, and its memory was written since
        self._begin(node)
        return Hook(self, node.register_hook(shown))

    def _begin(self, node: torch.Tensor) -> None:
        if self._begins is not node:
            self._begins = node
            node.register_hook(self._came)

    def _came(self, grad: torch.Tensor) -> None:
        if not self._silent:
            self.own = grad

    @contextlib.contextmanager
    def asked(self) -> Iterator[None]:
        """While its own gradient is asked for: hooks on a leaf hear nothing of it then."""
        self._silent, self.own = self.node.is_leaf, None
        yield
        self._silent = False

    def retain_grads(self) -> None:
        """Keep the gradient of a tensor that is no leaf: the last one, not their sum as in Torch."""
        node = self.graph()
        if node.is_leaf or self._keeps is node:
            return
        self._keeps = node
        self._begin(node)
        node.register_hook(self._keep)

    def _keep(self, grad: torch.Tensor) -> None:
        _there(grad)
        self.kept = type(self)((self.own if self.deaf else grad).detach().clone())

    def _add(self, grad: torch.Tensor) -> None:
        copy = grad.detach().clone()
        self.kept = type(self)(copy if self.kept is None else self.kept.data + copy)


class Hook:
    """A hook that may be removed while the tensor is what it was: Paddle looks for it at the node that the tensor has by then."""

    def __init__(self, tensor: Tensor, handle: Any) -> None:
        self._tensor, self._node, self._handle = tensor, tensor.node, handle

    def remove(self) -> None:
        if self._tensor.node is not self._node:
            raise Elsewhere("a hook that is removed from a tensor that was written in place, where Paddle finds it not")
        self._handle.remove()


def _there(grad: torch.Tensor | None) -> None:
    if grad is None:
        raise Elsewhere("a hook on one of several results of which nothing was made, where Paddle may have zeros")


def _same(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.allclose(tensor.detach().double(), other.double(), rtol=0, atol=0, equal_nan=True)
