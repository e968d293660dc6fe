"""The gradients of one call alone: what compare mode holds against Paddle's."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ..frameworks.torch_engine import gradients_of


def gradients(results: Sequence[tuple[torch.Tensor, torch.Tensor]], leaves: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """torch's own gradients of ``leaves``; zeros where the results do not depend on one.

    ``results``: those that have an incoming gradient, and that gradient. Results that torch gives no gradient (indices, running
    statistics) are passed over. A gradient has the shape of its result.
    """
    outs = tuple([out for out, _ in results if out.requires_grad])
    if not outs or not leaves:
        return [torch.zeros_like(leaf) for leaf in leaves]
    grads = tuple([grad if grad.dtype == out.dtype else grad.to(out.dtype) for out, grad in results if out.requires_grad])
    found = gradients_of(outs, leaves, grads, create_graph=False)
    return [torch.zeros_like(leaf) if grad is None else grad for grad, leaf in zip(found, leaves)]
