"""Gradients of what is no parameter: of inputs, and of what layers return."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..trees import as_array, is_tensor, leaves

Array = np.ndarray[Any, Any]
Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def named(arguments: Arguments) -> list[tuple[str, Any]]:
    """(name, tensor) of all arguments: ``"input 0"``, ``"input 0[1]"``, ``"input tokens"``."""
    positional, keywords = arguments
    given = [(f"input {place}", one) for place, one in enumerate(positional)] + [
        (f"input {key}", one) for key, one in keywords.items()
    ]
    return [(name + path, tensor) for name, one in given for path, tensor in leaves(one)]


def inputs(arguments: Arguments, leaf: Callable[[str, Any], Any]) -> tuple[Arguments, dict[str, Any]]:
    """Arguments with gradients behind them, and their leaves by name, as :func:`named` gives them.

    The model is given a copy of each leaf, for it may write its inputs in place.

    Args:
        arguments: positional and keyword arguments.
        leaf: makes a leaf of (name, tensor), or None of one that has no gradient.
    """
    begun: dict[str, Any] = {}

    def wanting(tree: Any, name: str) -> Any:
        if is_tensor(tree):
            made = leaf(name, tree)
            if made is None:
                return tree
            begun[name] = made
            return made.clone()
        if isinstance(tree, (list, tuple)):
            held = [wanting(one, f"{name}[{place}]") for place, one in enumerate(tree)]
            return type(tree)(*held) if hasattr(tree, "_fields") else type(tree)(held)
        return {key: wanting(one, f"{name}.{key}") for key, one in tree.items()} if isinstance(tree, dict) else tree

    positional, keywords = arguments
    changed = tuple(wanting(one, f"input {place}") for place, one in enumerate(positional))
    return (changed, {name: wanting(one, f"input {name}") for name, one in keywords.items()}), begun


def gradients(begun: dict[str, Any]) -> dict[str, Array]:
    """The gradients of leaves, by name; those that a backward reached."""
    return {name: as_array(leaf.grad).copy() for name, leaf in begun.items() if leaf.grad is not None}


def follow(tensor: Any, found: list[Array | None]) -> None:
    """Keep a place for the gradient of a tensor, which a backward fills if it gets there."""
    place = len(found)
    found.append(None)

    def keep(gradient: Any) -> None:
        found[place] = as_array(gradient).copy()

    wanted = not tensor.stop_gradient if hasattr(tensor, "stop_gradient") else tensor.requires_grad
    if wanted:
        tensor.register_hook(keep)
