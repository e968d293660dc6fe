"""What a program is given in Paddle and in its replay alike: numbers by seed, and hooks that are watched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

SPECIAL = {
    "bool": lambda random, shape: random.rand(*shape) > 0.5,
    "int64": lambda random, shape: random.randint(0, 2, shape),
    "uint8": lambda random, shape: random.randint(0, 9, shape),
    **dict.fromkeys(("int8", "int16", "int32"), lambda random, shape: random.randint(-4, 5, shape)),
    **dict.fromkeys(
        ("complex64", "complex128"), lambda random, shape: random.standard_normal(shape) + 1j * random.standard_normal(shape)
    ),
}


EDGES = (float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e-40)


def numbers(
    shape: Sequence[int], dtype: str, seed: int, shift: float = 0.0, below: int | None = None, edges: bool = False
) -> np.ndarray:
    """Normal values plus ``shift``; small whole numbers where the dtype is one of those, 0 or more and ``below`` on request.

    ``edges``: some elements are not finite, or zero.
    """
    random = np.random.RandomState(seed)
    if below is not None:
        return np.asarray(random.randint(0, below, shape))
    values = np.asarray(SPECIAL[dtype](random, shape) if dtype in SPECIAL else random.standard_normal(shape) + shift)
    return np.where(random.rand(*shape) < 0.2, random.choice(EDGES, shape), values) if edges else values


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
