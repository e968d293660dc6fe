"""Arguments that several questions about two models take."""

from __future__ import annotations

from typing import Any

from ..errors import ArgumentError, described

Losses = tuple[Any, Any]  # Paddle's, Torch's


def both_losses(loss: Any) -> Losses:
    """``loss=`` as one function for each side (Paddle's, Torch's), or None for both."""
    if isinstance(loss, tuple) and len(loss) == 2 and all(map(callable, loss)):
        return loss
    if loss is not None and not callable(loss):
        raise ArgumentError(f"loss= is a function of the output, or a pair of them (Paddle's, Torch's), got {described(loss)}")
    return loss, loss
