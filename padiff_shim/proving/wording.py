"""How operands are told: what they are called, where they come from, what they hold."""

from __future__ import annotations

from collections.abc import Sequence

from .trace import Operand, Value

_ROLES = {"self": "the first operand", "other": "the second operand", "mat2": "the second operand", "mat1": "the first operand"}


def role(operand: Operand) -> str:
    return _ROLES.get(operand.name, operand.name)


def given(value: Value) -> bool:
    """Whether it is an input or a weight, which has a name of its own."""
    return value.node is None and bool(value.label) and "(" not in value.label


def swapped(mine: Sequence[Operand], another: Operand, yours: Sequence[Operand], other: Operand) -> str:
    """Which of the port's operands is which of the original's; those of a list have one name, and are counted."""
    ours, theirs = role(other), role(another)
    if ours != theirs:
        return f"{ours} is what the original has as {theirs}"
    number, place = _place(yours, other), _place(mine, another)
    return f"number {number} of {ours} is what the original has as number {place}"


def _place(operands: Sequence[Operand], wanted: Operand) -> int:
    return [one for one in operands if one.name == wanted.name].index(wanted) + 1


def from_elsewhere(one: Operand, other: Operand) -> str:
    """Where an operand comes from on both sides, in so many words that they differ."""
    for told in (whence, _whence_exactly):
        ours, theirs = told(other.value), told(one.value)
        if ours != theirs:
            break
    return f"{role(other)} comes from {ours}, in the original from {theirs}"


def extent(value: Value) -> str:
    elements = value.sorted
    return f"{list(value.tensor.shape)}" + (
        f" from {elements[0].item():.4g} to {elements[-1].item():.4g}" if elements.numel() else ""
    )


def whence(value: Value) -> str:
    return value.label if value.node is None else f"{value.node.name} (line {value.node.site.line})"


def _whence_exactly(value: Value) -> str:
    """The same with the layer, and which of several results it is."""
    if value.node is None:
        return value.label
    several = len(value.node.results) > 1 and value in value.node.results
    which = f"result {value.node.results.index(value) + 1} of " if several else ""
    return which + whence(value).replace(")", f", layer {value.node.layer})" if value.node.layer else ")")
