"""The gradients of one call alone: what compare mode holds against Paddle's."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def gradients(results: Sequence[tuple[torch.Tensor, torch.Tensor]], leaves: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """torch's own gradients of ``leaves``; zeros where the results do not depend on one.

    ``results``: those that have an incoming gradient, and that gradient. Results that torch gives no gradient (indices, running
    statistics) are passed over.
    """
    outs = [out for out, _ in results if out.requires_grad]
    if not outs:
        return [torch.zeros_like(leaf) for leaf in leaves]
    grads = [grad if grad.dtype == out.dtype else grad.to(out.dtype) for out, grad in results if out.requires_grad]
    found = torch.autograd.grad(outs, leaves, grads, retain_graph=True, allow_unused=True)
    return [torch.zeros_like(leaf) if grad is None else grad for grad, leaf in zip(found, leaves)]
