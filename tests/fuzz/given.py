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


def watching() -> dict[str, Any]:
    """``watch(name, factor)`` makes a hook, which multiplies gradients if asked; ``seen`` holds what hooks were shown."""
    seen: list[tuple[str, Any]] = []

    def watch(name: str, factor: float | None = None) -> Callable[[Any], Any]:
        def hook(grad: Any) -> Any:
            seen.append((name, grad.clone()))
            return None if factor is None else grad * factor

        return hook

    return {"watch": watch, "seen": seen}
