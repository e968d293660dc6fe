"""Paddle's own graph, looked at without running it."""

from __future__ import annotations

from typing import Any

from ..frameworks.versions import grad_node
from .local import tinies


def leads_to_tape(tensor: Any) -> bool:
    """Whether Paddle's engine, started at a tensor, could come to a sentinel."""
    ends = {grad_node(tiny).node_ptr() for tiny in tinies()}  # what sentinels are made of: see twins.sentinel
    node = grad_node(tensor)
    waiting, seen = [] if node is None else [node], set()
    while waiting:
        for following in waiting.pop().next_functions:
            if following is None:  # an operand that wants no gradient
                continue
            place = following.node_ptr()
            if place in ends:
                return True
            if place not in seen:
                seen.add(place)
                waiting.append(following)
    return False
