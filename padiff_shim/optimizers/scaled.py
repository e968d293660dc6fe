"""Lamb, whose steps are scaled by the norms of weights and updates: Torch has no such optimizer."""

from __future__ import annotations

import torch

from .update import Step, update


@update(
    "lamb_",
    "Lamb",
    "param grad lr moment1 moment2 beta1_pow beta2_pow master skip coefficient beta1 beta2 epsilon always_adapt multi_precision",
    "param moment1 moment2 beta1_pow beta2_pow master",
    of="paddle",
    coupled=False,
    differs="Torch has no Lamb",
)
def lamb(s: Step) -> None:
    """Paddle's formula."""
    s.moment1.lerp_(s.grad, 1 - s.beta1)
    s.moment2.mul_(s.beta2).addcmul_(s.grad, s.grad, value=1 - s.beta2)
    first, second = 1 - s.beta1_pow.item(), 1 - s.beta2_pow.item()
    direction = (s.moment1 / first).div_((s.moment2 / second).sqrt_().add_(s.epsilon))
    direction.add_(s.param, alpha=s.coefficient)
    ratio = 1.0
    if s.coefficient > 0 or s.always_adapt:
        weight, step = torch.linalg.vector_norm(s.param).item(), torch.linalg.vector_norm(direction).item()
        ratio = weight / step if weight > 0 and step > 0 else 1.0
    s.param.add_(direction, alpha=-s.lr * ratio)
    s.beta1_pow.mul_(s.beta1)
    s.beta2_pow.mul_(s.beta2)
