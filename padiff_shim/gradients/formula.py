"""The gradients of one call alone: what compare mode holds against Paddle's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

# torch.autograd.grad without its checks of what is made here: they take as long as the engine for a small call.
run_engine: Callable[..., Any] = torch.autograd.Variable._execution_engine.run_backward


def gradients(results: Sequence[tuple[torch.Tensor, torch.Tensor]], leaves: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """torch's own gradients of ``leaves``; zeros where the results do not depend on one.

    ``results``: those that have an incoming gradient, and that gradient. Results that torch gives no gradient (indices, running
    statistics) are passed over. A gradient has the shape of its result.
    """
    outs = tuple([out for out, _ in results if out.requires_grad])
    if not outs or not leaves:
        return [torch.zeros_like(leaf) for leaf in leaves]
    grads = tuple([grad if grad.dtype == out.dtype else grad.to(out.dtype) for out, grad in results if out.requires_grad])
    found = run_engine(outs, grads, True, False, tuple(leaves), True, accumulate_grad=False)
    return [torch.zeros_like(leaf) if grad is None else grad for grad, leaf in zip(found, leaves)]
