"""State dicts read into trees. They know names and shapes, but no types: how a matrix lies, its partner's layer tells."""

from __future__ import annotations

import re
from collections.abc import Mapping as Dict
from typing import Any

from ..errors import ArgumentError, described
from .layouts import AS_IS
from .modules import IGNORED, slot_of, split_projections
from .names import joined, leaf, parent, role
from .tensors import framework_of, weight_of
from .tree import Node, Side

LONGEST, DEEPEST = 1000, 100  # of a name: its letters, and its dots, for each of which a layer is made
_CELL = re.compile(r"(?:(?P<layer>.*)\.)?cell(?P<way>_fw|_bw)?\.(?P<what>(weight|bias)_[ih][ho])")
_OF_A_CELL = re.compile(r"(weight|bias)_[ih]h")
_PARAMETRIZED = re.compile(r"(?:(?P<layer>.*)\.)?parametrizations\.(?P<name>\w+)\.(?P<what>original[01]?|0\._[uv])")
_ROLES = {
    "original0": "magnitude", "original1": "direction", "original": "original", "0._u": "spectral u", "0._v": "spectral v",
    "weight_g": "magnitude", "weight_orig": "original", "weight_u": "spectral u",
}  # fmt: skip


def framework_of_state(state: Dict[str, Any], hint: str | None) -> str:
    """Which framework's names and layouts a state dict has; arrays alone do not say, so their names do, or ``hint``."""
    found = {framework_of(tensor) for tensor in state.values()} - {"numpy"}
    if len(found) == 1 and None not in found:
        return str(found.pop())
    if found:
        raise ArgumentError(f"a state dict holds tensors of one framework, or arrays; got {sorted(map(str, found))}")
    ends = {leaf(name) for name in state}
    if ends & {"_mean", "_variance"}:
        return "paddle"
    if ends & {"running_mean", "num_batches_tracked", "in_proj_weight"} or hint is None:
        return "torch"
    return hint


def read_state(state: Dict[str, Any], hint: str | None = None) -> Side:
    """The tree of a state dict, from its dotted names.

    Args:
        state: tensors of one framework or arrays, by name.
        hint: the framework of a dict that holds arrays and whose names do not tell.
    """
    for name in state:
        if not isinstance(name, str):
            raise ArgumentError(f"the names of a state dict are strings, got {described(name)}")
        if len(name) > LONGEST or name.count(".") > DEEPEST:
            raise ArgumentError(
                f"the names of a state dict have up to {LONGEST:,} letters and {DEEPEST} dots, got {described(name)} with "
                f"{name.count('.'):,} dots"
            )
    framework = framework_of_state(state, hint)
    nodes = {"": Node("")}
    roles: dict[str, set[str]] = {}
    for name in state:
        if leaf(name) not in IGNORED:
            _add(nodes, roles, state, name, framework)
    for node in nodes.values():
        if any(slot.role.startswith("in_proj_") or slot.role == "q_proj_weight" for slot in node.slots):
            node.kind = "attention"
            split_projections(node)
    return Side(framework, nodes[""], dict(state))


def _add(nodes: dict[str, Node], roles: dict[str, set[str]], state: Dict[str, Any], name: str, framework: str) -> None:
    """Put one entry into its place in the tree."""
    tensor = state[name]
    path, what = _place(name, state)
    node = _node(nodes, path)
    if what in roles.setdefault(path, set()):
        return  # Paddle lists a cell's weights under the layer's names and again under the cell's
    roles[path].add(what)
    # Nothing says what is a parameter: whole numbers are not.
    weight = weight_of(name, tensor, framework, buffer=not _is_floating(tensor))
    slot = slot_of(weight, what, "", AS_IS)
    (node.extras if weight.optional else node.slots).append(slot._replace(typed=False))


def _is_floating(tensor: Any) -> bool:
    name = str(getattr(tensor, "dtype", ""))
    return "float" in name or "complex" in name or name == "uint16"


def _place(name: str, state: Dict[str, Any]) -> tuple[str, str]:
    """(path of the layer, role) of an entry: those of cells and parametrizations belong to the layer around them."""
    if cell := _CELL.fullmatch(name):
        layer, place = cell["layer"] or "", 0
        if leaf(layer).isdigit() and joined(parent(layer), f"weight_ih_l{leaf(layer)}") in state:
            layer, place = parent(layer), int(leaf(layer))  # a level of a stack, whose weights have names of their own as well
        suffix = f"_l{place}" + ("_reverse" if cell["way"] == "_bw" else "")
        return layer, cell["what"].replace("_ho", "_hr") + suffix
    if _OF_A_CELL.fullmatch(leaf(name)):
        return parent(name), f"{leaf(name)}_l0"
    if found := _PARAMETRIZED.fullmatch(name):
        return found["layer"] or "", _ROLES[found["what"]]
    return parent(name), _ROLES.get(leaf(name), leaf(name) if "proj" in leaf(name) else role(leaf(name)))


def _node(nodes: dict[str, Node], path: str) -> Node:
    """The node of that path, made with those above it where they are missing."""
    if path not in nodes:
        above = _node(nodes, parent(path))
        nodes[path] = Node(joined(path))
        above.children.append(nodes[path])
    return nodes[path]
