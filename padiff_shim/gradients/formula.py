"""The gradients of one call alone: what compare mode holds against Paddle's."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def gradients(out: torch.Tensor, leaves: Sequence[torch.Tensor], grad: torch.Tensor) -> list[torch.Tensor]:
    """torch's own gradients of ``leaves``; zeros where the result does not depend on one."""
    if grad.dtype != out.dtype:
        grad = grad.to(out.dtype)
    if not out.requires_grad:
        return [torch.zeros_like(leaf) for leaf in leaves]
    grads = torch.autograd.grad(out, leaves, grad, retain_graph=True, allow_unused=True)
    return [torch.zeros_like(leaf) if found is None else found for found, leaf in zip(grads, leaves)]
