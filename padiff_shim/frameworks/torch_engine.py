"""Torch's autograd engine itself.

``torch.autograd.grad`` and ``backward`` check what they are given first, which takes as long as the engine for a small call, and
for that import symbolic shapes when they are first given a gradient: half a second and 28 MB.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

# (roots, gradients, keep_graph, create_graph, inputs, allow_unreachable, accumulate_grad=): all sequences are tuples.
run_engine: Callable[..., Any] = torch.autograd.Variable._execution_engine.run_backward


def gradients_of(
    roots: Sequence[torch.Tensor], wanted: Sequence[torch.Tensor], grads: Sequence[torch.Tensor], *, create_graph: bool
) -> tuple[torch.Tensor | None, ...]:
    """As ``torch.autograd.grad`` with ``retain_graph`` and ``allow_unused``; each gradient has shape and dtype of its root."""
    found: tuple[torch.Tensor | None, ...] = run_engine(
        tuple(roots), tuple(grads), True, create_graph, tuple(wanted), True, accumulate_grad=False
    )
    return found
