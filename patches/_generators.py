"""Torch's global generator, for the ops that draw random numbers."""

from __future__ import annotations

from typing import Any

import torch


def always(*_: Any) -> bool:
    """Every call draws."""
    return True


def generator(seed: int, device: torch.device | None = None) -> torch.Generator | None:
    """Torch's global generator (None), or where the call has a seed of its own one that begins with it."""
    return torch.Generator("cpu" if device is None else device).manual_seed(int(seed)) if seed else None
