"""Lamb, whose steps are scaled by the norms of weights and updates: Torch has no such optimizer."""

from __future__ import annotations

import torch

from .update import Batch, multiply, numbers, update


@update(
    "lamb_",
    "Lamb",
    "param grad lr moment1 moment2 beta1_pow beta2_pow master skip coefficient beta1 beta2 epsilon always_adapt multi_precision",
    "param moment1 moment2 beta1_pow beta2_pow master",
    of="paddle",
    coupled=False,
    differs="Torch has no Lamb",
)
def lamb(b: Batch) -> None:
    """Paddle's formula."""
    adapts = b.coefficient > 0 or b.always_adapt
    powers = zip(numbers(b.flat("beta1_pow")), numbers(b.flat("beta2_pow")))
    for param, grad, moment1, moment2, (first, second) in zip(b.param, b.grad, b.moment1, b.moment2, powers):
        moment1.lerp_(grad, 1 - b.beta1)
        moment2.mul_(b.beta2).addcmul_(grad, grad, value=1 - b.beta2)
        direction = (moment1 / (1 - first)).div_((moment2 / (1 - second)).sqrt_().add_(b.epsilon))
        direction.add_(param, alpha=b.coefficient)
        param.add_(direction, alpha=-b.lr * (_ratio(param, direction) if adapts else 1.0))
    multiply(b.flat("beta1_pow"), b.beta1)
    multiply(b.flat("beta2_pow"), b.beta2)


def _ratio(param: torch.Tensor, direction: torch.Tensor) -> float:
    weight, step = torch.linalg.vector_norm(param).item(), torch.linalg.vector_norm(direction).item()
    return weight / step if weight > 0 and step > 0 else 1.0
