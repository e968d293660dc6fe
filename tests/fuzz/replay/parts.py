"""A random program's own functions and its optimizers, in Torch: PyLayers, what is recomputed, steps over leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F
import torch.utils.checkpoint

from .tensor import Elsewhere
from .value import Value


def saved(ctx: Any) -> Any:
    """What a PyLayer has saved, if it is still what it was: Paddle does not look."""
    try:
        return ctx.saved_tensors
    except RuntimeError as error:
        if "modified by an inplace" not in str(error):
            raise
        raise Elsewhere("a PyLayer or recompute whose operand was changed") from None


class _Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2.0

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad * 2.0


class _Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        (x,) = saved(ctx)
        return 3.0 * x * x * grad


class _Mix(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
        ctx.save_for_backward(x, y)
        return torch.tanh(x) + y, x * y

    @staticmethod
    def backward(ctx: Any, first: torch.Tensor, second: torch.Tensor) -> Any:
        x, y = saved(ctx)
        return first * (1.0 - torch.tanh(x) ** 2) + second * y, first + second * x


def _applied(function: Any) -> Any:
    def apply(*operands: Value) -> Any:
        outputs = function.apply(*(operand.wanted() for operand in operands))
        results = [Value(output) for output in (outputs if isinstance(outputs, tuple) else (outputs,))]
        for result in results:
            result.deaf = not result.stop_gradient  # if it is no leaf
        return results if isinstance(outputs, tuple) else results[0]

    return SimpleNamespace(apply=apply)


def block(x: torch.Tensor) -> torch.Tensor:
    """What recompute runs again."""
    return F.softmax(torch.tanh(x) * 1.5, dim=-1) + x * 0.5


class _Reentrant(torch.autograd.Function):
    """``torch.utils.checkpoint`` in its reentrant form, also for partial gradients, as Paddle has it."""

    @staticmethod
    def forward(ctx: Any, function: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        ctx.function, ctx.random = function, torch.get_rng_state()
        return function(Value(x)).data

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[None, torch.Tensor | None]:
        if torch.is_grad_enabled():
            raise Elsewhere("a second derivative of reentrant recompute")
        (x,) = saved(ctx)
        again = x.detach().requires_grad_()
        with torch.enable_grad(), torch.random.fork_rng(devices=()):
            torch.set_rng_state(ctx.random)
            out = ctx.function(Value(again))
        torch.autograd.backward([out.graph()], [grad])
        return None, again.grad


class _Unchanged(torch.autograd.Function):
    """What was recomputed, if its operand is still what it was."""

    @staticmethod
    def forward(ctx: Any, out: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return out.clone()  # no view: programs write into views of it

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
        saved(ctx)
        return grad, None


def recompute(function: Callable[[Value], Value], x: Value, use_reentrant: bool = True) -> Value:
    """``function``, run again by its backward."""
    if x.stop_gradient or not torch.is_grad_enabled():
        return function(x)
    if not use_reentrant:
        operand, x.family.recomputed = x.wanted(), True
        again = torch.utils.checkpoint.checkpoint(lambda x: function(Value(x)).graph(), operand, use_reentrant=False)
        return Value(_Unchanged.apply(again, operand))
    result = Value(_Reentrant.apply(function, x.wanted()))
    result.deaf = True  # Paddle's is a PyLayer
    return result


class _Asking(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return F.gelu(x) * torch.amax(x)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        with torch.enable_grad():
            x = saved(ctx)[0].detach().requires_grad_()
            return torch.autograd.grad(F.gelu(x) * torch.amax(x), x, grad)[0]


class _Again(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return block(x)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        with torch.enable_grad():
            x = saved(ctx)[0].detach().requires_grad_()
            torch.autograd.backward([recompute(of_values(block), Value(x)).graph()], [grad])
            return x.grad


def of_values(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Value], Value]:
    """A function of tensors as one that a program may call."""
    return lambda x: Value(function(x.wanted()))


# Optimizers


class Optimizer:
    """One of ``torch.optim`` over leaves; steps do not count as in-place writes of the leaves, as in Paddle."""

    def __init__(self, kind: Callable[..., torch.optim.Optimizer], rate: float, parameters: Sequence[Value]) -> None:
        self.leaves = list(parameters)
        if len(set(map(id, self.leaves))) < len(self.leaves):
            raise Elsewhere("an optimizer that is given a tensor twice")
        for leaf in self.leaves:
            leaf.changing()
        held = [torch.nn.Parameter(leaf.graph().data) for leaf in self.leaves]
        for mine, leaf in zip(held, self.leaves):
            mine.grad = leaf.node.grad
        self.own = kind(held, rate)

    def step(self) -> None:
        self.own.step()
        for leaf in self.leaves:
            leaf.family.rewritten()

    def clear_grad(self) -> None:
        for leaf in self.leaves:
            leaf.clear_grad()


def _optimizer(kind: Callable[..., torch.optim.Optimizer]) -> Callable[..., Optimizer]:
    return lambda rate, parameters: Optimizer(kind, rate, parameters)


def _momentum(held: list[Any], rate: float) -> torch.optim.Optimizer:
    return torch.optim.SGD(held, rate, momentum=0.9)


OPTIMIZERS = SimpleNamespace(
    SGD=_optimizer(torch.optim.SGD),
    Momentum=_optimizer(_momentum),
    Adam=_optimizer(torch.optim.Adam),
    AdamW=_optimizer(torch.optim.AdamW),
)
FUNCTIONS = {"Twice": _Twice, "Cube": _Cube, "Mix": _Mix, "Asking": _Asking, "Again": _Again}
PYLAYERS = {name: _applied(function) for name, function in FUNCTIONS.items()}
