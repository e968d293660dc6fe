"""Gradients of what is no parameter: of inputs, and of what layers return."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..trees import changed, copied, is_tensor, leaves

Array = np.ndarray[Any, Any]
Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def _given(arguments: Arguments) -> list[tuple[str, Any]]:
    """(name, value) of all arguments."""
    positional, keywords = arguments
    return [(f"input {key}", one) for key, one in (*enumerate(positional), *keywords.items())]


def named(arguments: Arguments) -> list[tuple[str, Any]]:
    """(name, tensor) of all arguments: ``"input 0"``, ``"input 0[1]"``, ``"input tokens"``, ``"input batch.tokens"``."""
    return [found for name, one in _given(arguments) for found in leaves(one, name)]


def inputs(arguments: Arguments, leaf: Callable[[str, Any], Any]) -> tuple[Arguments, dict[str, Any]]:
    """Arguments with gradients behind them, and their leaves by name, as :func:`named` gives them.

    The model is given a copy of each leaf, for it may write its inputs in place.

    Args:
        arguments: positional and keyword arguments.
        leaf: makes a leaf of (name, tensor), or None of one that has no gradient.
    """
    begun: dict[str, Any] = {}

    def wanting(name: str, one: Any) -> Any:
        made = leaf(name, one) if is_tensor(one) else None
        if made is None:
            return one
        begun[name] = made
        return made.clone()

    held = [changed(one, wanting, name) for name, one in _given(arguments)]
    count = len(arguments[0])
    return (tuple(held[:count]), dict(zip(arguments[1], held[count:]))), begun


def gradients(begun: dict[str, Any]) -> dict[str, Array]:
    """The gradients of leaves, by name; those that a backward reached."""
    return {name: copied(leaf.grad) for name, leaf in begun.items() if leaf.grad is not None}


def follow(tensor: Any, found: list[Array | None]) -> None:
    """Keep a place for the gradient of a tensor, which a backward fills if it gets there."""
    place = len(found)
    found.append(None)

    def keep(gradient: Any) -> None:
        found[place] = copied(gradient)

    wanted = not tensor.stop_gradient if hasattr(tensor, "stop_gradient") else tensor.requires_grad
    if wanted:
        tensor.register_hook(keep)
