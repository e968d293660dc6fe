"""One compared call: its operands on torch's side, and what the verdicts on its result and its gradients need."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import TYPE_CHECKING, Any

import torch

from ..dispatch.door import Door
from ..dispatch.dtypes import apart
from ..dispatch.operands import wanting, without_gradient
from ..dispatch.prepare import Prepared, first_tensor
from ..frameworks import weights
from ..frameworks.memory import dtype_of, to_paddle, to_torch
from ..gradients.formula import gradients
from ..gradients.saved import reads
from . import describe

if TYPE_CHECKING:
    from .flow import Comparison


class Subject:
    """Built before Paddle's kernel runs; lives as long as Paddle's grad node where a gradient is wanted."""

    def __init__(self, comparison: Comparison, sub: Door, key: Any, number: int, prepared: Prepared) -> None:
        self.comparison, self.sub, self.key = comparison, sub, key
        self.inputs, self.attributes, casts = prepared
        sides = self.inputs.torch
        if sub.entry.inplace:  # Paddle is about to overwrite it, and what shares its memory
            target = _memory(sides[0])
            sides[:] = [
                _kept(side) if isinstance(side, torch.Tensor) and _overlap(_memory(side), target) else side for side in sides
            ]
        names = sub.names
        self.fields = {
            "call": number,
            "op": sub.op.name,
            "entry": sub.entry.target,
            **describe.where(comparison.step),
            "inputs": describe.operands(names, sides, sequence=sub.op.operands),
            "needs": [self.name_of(index) for index in wanting(self.inputs.paddle, sides)],
            "attributes": {n: describe.plain(v) for n, v in zip(names[sub.op.tensors :], self.attributes)},
            "device": str(first_tensor(sides).device),
            "amp": describe.autocast_state(),
        }
        if not casts.none:  # both kernels compute on the cast operands, and their gradients have that dtype
            sides[:] = casts.apply(sides)
        self.operands = list(sides)
        self.backward: Callable[..., Sequence[Any]] | None = None  # (incoming gradient, positions) -> gradients
        self.out: torch.Tensor | None = None
        self.shown: tuple[list[int], Any] | None = None  # shape and dtype of Paddle's result
        self.read: frozenset[int] = frozenset()  # positions of what torch's backward reads
        self.saved: list[tuple[Any, int]] = []
        self.aliased = False
        self.replay: tuple[tuple[Any, ...], dict[str, Any]] | None = None  # Paddle's arguments, where the call is made again
        self.incoming: Any = None  # the gradient of the result, between two hooks of one backward

    def run_reference(self) -> torch.Tensor:
        """Torch's kernel; keeps its backward if a gradient is wanted."""
        run = self.run
        if not self.inputs.needs:
            return without_gradient(run, self.inputs.paddle, self.inputs.torch)
        sides, needs, at = list(self.inputs.torch), self.inputs.needs, self.sub.transposed
        copy = None if at is None else sides[at]
        leaves = {index: sides[index].detach().requires_grad_() for index in needs}
        for index, leaf in leaves.items():
            sides[index] = leaf
        with torch.enable_grad():
            self.read = reads(self.sub.reads, self.attributes, sides, run).operands
            out = run(*sides)

        def backward(grad: torch.Tensor, wanted: Sequence[int]) -> list[torch.Tensor]:
            return gradients(out, [leaves[index] for index in wanted], grad)

        renews = at is not None and 0 in needs  # only the gradient of x reads the weight
        self.backward = weights.renewing(backward, self.inputs.paddle[at], copy) if renews else backward  # type: ignore[index]
        self.out = out.detach()
        return self.out

    def run(self, *tensors: Any) -> torch.Tensor:
        return self.sub.torch(tensors, self.attributes)

    def values(self) -> tuple[Any, ...]:
        """The arguments as ``Op.reference`` takes them."""
        return (self.operands, *self.attributes) if self.sub.op.operands else (*self.operands, *self.attributes)

    def gradients(self, grad: torch.Tensor, wanted: Container[int]) -> dict[int, torch.Tensor]:
        """Torch's gradients of the operands ``wanted`` for this one incoming gradient: nothing is kept for another backward.

        Raises:
            RuntimeError: if an operand that the backward reads was changed in place since.
        """
        if any(tensor.inplace_version != version for tensor, version in self.saved):
            raise RuntimeError("an operand was changed in place between forward and backward")
        if self.backward is None:
            raise RuntimeError("the graph was freed by an earlier backward")
        chosen = [index for index in self.inputs.needs if index in wanted]
        return {index: found.detach() for index, found in zip(chosen, self.backward(grad, chosen)) if found is not None}

    def release(self) -> None:
        """Backward is over for good: hold no tensor of the program any longer."""
        self.backward = self.out = self.incoming = None
        self.operands, self.saved = [], []
        self.inputs = self.inputs._replace(paddle=[], torch=[])

    def let_go(self) -> None:
        """The backward has ended: an incoming gradient that its node never took is held no longer."""
        self.incoming = None

    def name_of(self, index: int) -> str:
        """The operand's parameter name; those of a sequence are numbered."""
        return f"{self.sub.names[0]}[{index}]" if self.sub.op.operands else self.sub.names[index]

    def kernels(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Both kernels as functions of the operands that are tensors, for ops without a bound."""
        places = [index for index, side in enumerate(self.operands) if isinstance(side, torch.Tensor)]

        def torch_kernel(*tensors: torch.Tensor) -> torch.Tensor:
            sides = list(self.operands)
            for place, tensor in zip(places, tensors):
                sides[place] = tensor
            return self.run(*sides)

        def paddle_kernel(*tensors: torch.Tensor) -> torch.Tensor:
            copies = {id(self.inputs.paddle[place]): to_paddle(tensor.clone()) for place, tensor in zip(places, tensors)}
            found = apart(self.sub.original, args, kwargs, copies)
            return to_torch(found[0] if self.sub.entry.returns_list else found)

        kernels: dict[str, Any] = {"torch_kernel": torch_kernel, "operands": [self.operands[place] for place in places]}
        plain_weights = self.sub.transposed is None and not self.sub.entry.inplace
        return {**kernels, "paddle_kernel": paddle_kernel if plain_weights else None}

    def gradient_kernels(self, position: int, grad: torch.Tensor) -> dict[str, Any]:
        """The same for the gradient of operand number ``position`` of those that want one; Paddle's is not run a second time."""
        needs = self.inputs.needs

        def torch_kernel(*tensors: torch.Tensor) -> torch.Tensor:
            *given, incoming = tensors
            sides = list(self.operands)
            for index, tensor in zip(needs, given):
                sides[index] = tensor.detach().requires_grad_()
            others = {t.dtype for t in given}
            if len(others) == 1:
                dtype = others.pop()
                sides = [
                    s.to(dtype) if isinstance(s, torch.Tensor) and s.is_floating_point() and not s.requires_grad else s
                    for s in sides
                ]
            with torch.enable_grad():
                out = self.run(*sides)
                return torch.autograd.grad(out, sides[needs[position]], incoming)[0]

        return {"torch_kernel": torch_kernel, "paddle_kernel": None, "operands": [*(self.operands[i] for i in needs), grad]}


def _memory(tensor: torch.Tensor) -> tuple[int, int]:
    """The first byte of a tensor's elements, and the one behind the last."""
    if not tensor.numel():
        return 0, 0
    return tensor.data_ptr(), tensor.data_ptr() + _span(tensor) * tensor.element_size()


def _span(tensor: torch.Tensor) -> int:
    """Elements between a tensor's first and its last one, both counted."""
    return 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Whether two ranges of memory have a byte in common; views that interleave are taken to."""
    return one[0] < other[1] and other[0] < one[1]


def _kept(tensor: torch.Tensor) -> torch.Tensor:
    """A copy with the same strides, which matter to a kernel's last bits."""
    if not tensor.numel():
        return tensor
    return tensor.as_strided((_span(tensor),), (1,)).clone().as_strided(tensor.shape, tensor.stride(), 0)


def describe_tensor(tensor: torch.Tensor) -> dict[str, Any]:
    """Shape and dtype of a judged tensor."""
    return {"shape": list(tensor.shape), "dtype": dtype_of(tensor.dtype)}
