"""Attributes of calls that stand for each other: which differ, and in which further calls the same ones do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from .trace import Node


def unlike_attributes(original: Node, port: Node) -> dict[str, Any]:
    """The original's attributes that the port's call has not; None for one that the original's has not."""
    names = sorted({*original.attributes, *port.attributes} - _idle(original, port))
    pairs = ((name, original.attributes.get(name), port.attributes.get(name)) for name in names)
    apart = {name: (wanted, own) for name, wanted, own in pairs if not equal(wanted, own)}
    return {name: wanted for name, (wanted, own) in apart.items() if name != "dim" or not _of_one_axis(original, port)}


def _of_one_axis(original: Node, port: Node) -> bool:
    """Whether two calls name the same axes, from the first or from the last."""
    counts = {max((tensor.dim() for tensor in _first_tensors(call)), default=0) for call in (original, port)}
    dims = [call.attributes.get("dim") for call in (original, port)]
    if len(counts) > 1 or 0 in counts or not all(isinstance(dim, (int, list)) for dim in dims):
        return False
    (count,) = counts
    named = [[axis % count for axis in (dim if isinstance(dim, list) else [dim])] for dim in dims]  # type: ignore[operator]
    return named[0] == named[1]


def _first_tensors(call: Node) -> list[torch.Tensor]:
    """A call's first operand and result, of which the one with more axes has those that it names."""
    return [*(operand.tensor for operand in call.operands[:1]), *(value.tensor for value in call.results[:1])]


def calls_alike(original: Node, port: Node, original_calls: Sequence[Node], port_calls: Sequence[Node]) -> list[tuple[Node, Node]]:
    """All pairs of calls whose attributes differ as those of this pair do, this pair first: a setting of the whole model.

    This pair alone where the programs have other numbers of such calls, or in another order: the others may not stand for each
    other. Empty where the port's call cannot be given the original's: none of its own are unlike, or they are of another kind, or
    it only moves elements, of which Paddle itself says where they lie.
    """
    unlike = unlike_attributes(original, port)
    if (
        not unlike
        or port.backward
        or port.moves
        or any(type(wanted) is not type(port.attributes.get(name)) for name, wanted in unlike.items())
    ):
        return []
    calls = [[node for node in nodes if (node.name, node.backward) == (port.name, False)] for nodes in (original_calls, port_calls)]
    pairs = list(zip(*calls)) if len(calls[0]) == len(calls[1]) else []
    if not any(call is original and counterpart is port for call, counterpart in pairs):
        return [(original, port)]
    alike = [pair for pair in pairs if _differ_as(unlike, port, *pair)]
    return sorted(alike, key=lambda pair: pair[1] is not port)


def _differ_as(unlike: Mapping[str, Any], port: Node, call: Node, counterpart: Node) -> bool:
    other = unlike_attributes(call, counterpart)
    return other.keys() == unlike.keys() and all(
        equal(other[name], wanted) and equal(counterpart.attributes.get(name), port.attributes.get(name))
        for name, wanted in unlike.items()
    )


def _idle(original: Node, port: Node) -> set[str]:
    """Attributes that say nothing: how fast running statistics follow a batch, where neither is given any batch's."""
    trains = any(call.attributes.get("training", True) for call in (original, port))
    return set() if trains else {"momentum"}


def equal(value: Any, other: Any) -> bool:
    if (value is None) is not (other is None):
        return _bounds_nothing(other if value is None else value)
    if isinstance(value, (int, float)) and isinstance(other, (int, float)):
        return abs(value - other) <= 1e-7 * max(abs(value), abs(other)) or value == other
    return bool(value == other)


def _bounds_nothing(value: Any) -> bool:
    """Whether a number is where a float ends: Paddle's limit of a clip that has none."""
    return isinstance(value, float) and abs(value) >= float(torch.finfo(torch.float32).max)
