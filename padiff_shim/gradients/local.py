"""What a backward keeps for one thread, and how the gradients of leaves come to it."""

from __future__ import annotations

import threading
from typing import Any

import torch


class _Local(threading.local):
    """What belongs to one thread."""

    def __init__(self) -> None:
        self.session: Any = None  # the backward that is running, see :mod:`.backward`
        self.reached: list[tuple[Any, Any]] = []  # leaf twins that torch's engine has come to, with their gradients
        self.floats: dict[torch.dtype, tuple[Any, Any]] = {}  # what sentinels are made of, and what they pass on


LOCAL = _Local()


class Watched(torch.autograd.Function):
    """A leaf twin as ops use it. Its gradient goes to the thread whose backward this is, not into ``grad``, which threads share."""

    @staticmethod
    def forward(ctx: Any, side: torch.Tensor) -> torch.Tensor:
        ctx.side = side
        return side.detach()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor | None:
        if LOCAL.session is None or LOCAL.session.partial:
            return grad
        LOCAL.reached.append((ctx.side, grad))
        return None
