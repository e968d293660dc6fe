"""Clipping of gradients: Torch's ``clip_grad_norm_`` and ``clip_grad_value_``, and Paddle's definitions in Torch's functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch

_BESIDE_ZERO = 1e-6  # what Torch adds to a norm that it divides by


def factor(gradients: Iterable[torch.Tensor], limit: float, definition: str) -> torch.Tensor:
    """What the gradients of one norm are multiplied by, a tensor without axes.

    Args:
        gradients: laid out as in a Torch program, for a norm's last bits depend on the order. They are taken one after the other,
            and none is kept.
        limit: the largest norm that is left alone.
        definition: ``"torch"``: the norm of the gradients' norms, and ``limit / (norm + 1e-6)``, at most 1. ``"paddle"``: the root
            of the sum of all squares, and ``limit / max(norm, limit)``.
    """
    if definition == "torch":
        return factor_of_norms([torch.linalg.vector_norm(gradient) for gradient in gradients], limit)
    norm = torch.stack([gradient.square().sum() for gradient in gradients]).sum().sqrt()
    return limit / norm.clamp(min=limit)


def factor_of_norms(norms: Sequence[torch.Tensor], limit: float) -> torch.Tensor:
    """The same by Torch's definition, from the gradients' norms."""
    return factor_of_norm(norm_of_norms(norms), limit)


def norm_of_norms(norms: Sequence[torch.Tensor], order: float = 2.0) -> torch.Tensor:
    """Of all gradients, from their norms, by Torch's definition."""
    return torch.linalg.vector_norm(torch.stack(list(norms)), order)


def factor_of_norm(norm: torch.Tensor, limit: float) -> torch.Tensor:
    """What gradients of that norm are multiplied by, by Torch's definition."""
    return torch.clamp(limit / (norm + _BESIDE_ZERO), max=1.0)
