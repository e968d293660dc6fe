"""What a budget has to know before its account is opened: costs that no call shows by itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import paddle

from ..dispatch import site
from ..dispatch.frames import Frame
from ..frameworks.memory import CPU_ALONE
from ..gradients import clean
from .sampling import Sampling


def measure(sampling: Sampling, frame: Frame) -> None:
    """What the account of ``sampling`` is going to need.

    Its clock becomes that of this thread on the processor, so that what others do on a busy machine is nobody's. Where there are
    devices it stays the wall's: kernels run there while the thread waits.
    """
    if CPU_ALONE and sampling.clock is time.perf_counter:
        sampling.clock = time.thread_time
    sampling.entry, sampling.layer = seconds_of_entry(frame, sampling.clock), seconds_of_layer(sampling.clock)


def seconds_of_layer(clock: Callable[[], float], calls: int = 100) -> float:
    """What it costs that a call of a layer is noted."""

    def inside(layer: Any) -> None:
        pass

    def measured(function: Callable[[Any], Any]) -> float:
        began = clock()
        for _ in range(calls):
            function(None)
        return clock() - began

    noted = site.tracking(inside, lambda: None, lambda _, __: None)
    return max(0.0, min(measured(noted) - measured(inside) for _ in range(3)) / calls)


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
