"""What a program is given in Paddle and in its replay alike: numbers by seed, and hooks that are watched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

SPECIAL = {"bool": lambda random, shape: random.rand(*shape) > 0.5, "int64": lambda random, shape: random.randint(0, 2, shape)}


def numbers(shape: Sequence[int], dtype: str, seed: int, shift: float) -> np.ndarray:
    """Normal values plus ``shift``; 0 or 1 where the dtype is bool or integer."""
    random = np.random.RandomState(seed)
    return np.asarray(SPECIAL[dtype](random, shape) if dtype in SPECIAL else random.standard_normal(shape) + shift)


def calculus(paddle: Any, F: Any) -> dict[str, Any]:
    """Functions that ask for gradients: in blocks and hooks they do so within a backward. ``paddle``, ``F``: those of the side."""

    def slope(x: Any) -> Any:
        """The gradient of a graph of its own."""
        with paddle.enable_grad():
            leaf = x.detach().clone()
            leaf.stop_gradient = False
            return paddle.grad([F.gelu(leaf * 1.5).sum()], [leaf])[0]

    def bent(x: Any) -> Any:
        """The same, whose own gradient goes on to ``x``."""
        with paddle.enable_grad():
            y = x * 1.5
            if y.stop_gradient:
                y.stop_gradient = False
            return paddle.grad([paddle.tanh(y).sum()], [y], create_graph=True)[0]

    def apart(x: Any) -> Any:
        """What wants no gradient."""
        with paddle.no_grad():
            return paddle.tanh(x)

    return {"slope": slope, "bent": bent, "apart": apart}


def watching() -> dict[str, Any]:
    """``watch(name, factor)`` makes a hook, which multiplies gradients if asked; ``seen`` holds what hooks were shown."""
    seen: list[tuple[str, Any]] = []

    def watch(name: str, factor: float | None = None) -> Callable[[Any], Any]:
        def hook(grad: Any) -> Any:
            seen.append((name, grad.clone()))
            return None if factor is None else grad * factor

        return hook

    return {"watch": watch, "seen": seen}
