"""What a budget has to know before its account is opened: costs that no call shows by itself."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import paddle
import torch

from ..dispatch.frames import Frame
from ..gradients import clean


@functools.cache
def warm_up() -> None:
    """Pay what Torch's first backward of a process costs (half a second) before a budget's account is opened."""
    leaf = torch.ones(1, requires_grad=True)
    with torch.enable_grad():
        torch.autograd.grad(leaf * 2, [leaf], torch.ones(1))


def seconds_of_entry(frame: Frame, clock: Callable[[], float], calls: int = 100) -> float:
    """What it costs to be led into a hook of ``frame`` that stands idle, and out of it."""
    one = paddle.zeros([1])

    def measured(function: Callable[..., Any]) -> float:
        began = clock()
        for _ in range(calls):
            function(one, one)
        return clock() - began

    frame.idle = True
    try:
        return max(0.0, min(measured(paddle._C_ops.add) - measured(clean.add) for _ in range(3)) / calls)
    finally:
        frame.idle = False
