"""Where a backward of torch arrives, if some tensors let nothing through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


def edge(side: torch.Tensor) -> tuple[Any, int]:
    """Where the gradient of a tensor arrives in torch's graph."""
    node, number = torch.autograd.graph.get_gradient_edge(side)[:2]
    return node, number


def reached_without(cuts: set[tuple[Any, int]], roots: Sequence[torch.Tensor]) -> set[tuple[Any, int]]:
    """The edges of torch's graph that a backward from ``roots`` arrives at, ending at ``cuts``."""
    waiting = [edge(side) for side in roots]
    reached, walked = set(waiting), set()
    while waiting:
        node, _ = waiting.pop()
        if node in walked:
            continue
        walked.add(node)
        new = [edge for edge in node.next_functions if edge[0] is not None and edge not in reached and edge not in cuts]
        reached.update(new)
        waiting += new
    return reached
