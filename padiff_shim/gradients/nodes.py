"""Paddle's own graph, looked at without running it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..frameworks.versions import grad_node
from .local import tinies


def leads_to_tape(tensor: Any) -> bool:
    """Whether Paddle's engine, started at a tensor, could come to a sentinel."""
    return leads_to([tensor], tinies())  # what sentinels are made of: see twins.sentinel


def leads_to(starts: Sequence[Any], ends: Sequence[Any], without: Sequence[Any] = ()) -> bool:
    """Whether Paddle's engine, started at some tensors, could come to one of the others, also to one with the same node.

    ``without``: not by way of these.
    """
    places = _places(ends)
    barred = _places(without)
    waiting = [node for node in map(grad_node, starts) if node is not None and node.node_ptr() not in barred]
    seen = {node.node_ptr() for node in waiting}
    if not places.isdisjoint(seen):
        return True
    seen |= barred
    while waiting:
        for following in waiting.pop().next_functions:
            if following is None:  # an operand that wants no gradient
                continue
            place = following.node_ptr()
            if place in places:
                return True
            if place not in seen:
                seen.add(place)
                waiting.append(following)
    return False


def _places(tensors: Sequence[Any]) -> set[int]:
    return {node.node_ptr() for node in map(grad_node, tensors) if node is not None}


def py_layers(starts: Sequence[Any]) -> set[int]:
    """The places of the PyLayers' nodes that Paddle's engine, started at some tensors, comes to."""
    waiting = [node for node in map(grad_node, starts) if node is not None]
    seen, found = {node.node_ptr() for node in waiting}, set()
    while waiting:
        node = waiting.pop()
        if "PyLayer" in node.name():
            found.add(node.node_ptr())
        for following in node.next_functions:
            if following is not None and (place := following.node_ptr()) not in seen:
                seen.add(place)
                waiting.append(following)
    return found


def same_node(tensor: Any, other: Any) -> bool:
    """Whether Paddle's engine comes to one and the same node of two tensors."""
    nodes = grad_node(tensor), grad_node(other)
    return None not in nodes and nodes[0].node_ptr() == nodes[1].node_ptr()


def led_to(results: Sequence[Any], operands: Sequence[Any]) -> list[bool]:
    """Which of some tensors with nodes of their own Paddle's engine could come to, started at the results of a call with them.

    Not all that want gradients: Paddle asks for none of a quantiser's scale, though the scale says that it wants one.
    """
    places = [grad_node(tensor).node_ptr() for tensor in operands]
    missing = set(places)
    waiting = [node for node in map(grad_node, results) if node is not None]
    seen = {node.node_ptr() for node in waiting}
    while waiting and missing:
        for following in waiting.pop().next_functions:
            if following is None:
                continue
            place = following.node_ptr()
            if place in missing:
                missing.discard(place)
            elif place not in seen:
                seen.add(place)
                waiting.append(following)
    return [place not in missing for place in places]
