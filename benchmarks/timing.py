"""Timing several ways of doing one thing in turns, within one process."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import padiff_shim

Ways = dict[str, Callable[[], Any]]
PADDLE, SHIM, TORCH = "Paddle", "shim", "Torch"
DEFINED = "shim, optimizer=torch"  # with Torch's definition of optimizers and clipping


def seconds(function: Callable[[], Any], calls: int) -> float:
    """Seconds for one of ``calls`` calls: of this process' processor time, so that what else runs on the machine counts little."""
    start = time.process_time()
    for _ in range(calls):
        function()
    return (time.process_time() - start) / calls


def timed(way: str, function: Callable[[], Any], calls: int, exclude: Sequence[str] = ()) -> float:
    """`seconds`, inside a mode where the way wants one; opening it and the first calls after it are not timed."""
    if way not in (SHIM, DEFINED):
        return seconds(function, calls)
    with padiff_shim.reference("torch", exclude=exclude, optimizer="torch" if way == DEFINED else "paddle"):
        seconds(function, min(calls, 20))  # opening a mode outdates weight copies, and the interpreter's method caches
        return seconds(function, calls)


class Timing(NamedTuple):
    """Seconds of every round, per way."""

    rounds: dict[str, list[float]]

    def best(self, way: str) -> float | None:
        """Microseconds of the best round."""
        return min(self.rounds[way]) * 1e6 if way in self.rounds else None

    def ratio(self, way: str, to: str) -> float | None:
        """Median over the rounds of way / to."""
        if way not in self.rounds or to not in self.rounds:
            return None
        return statistics.median(a / b for a, b in zip(self.rounds[way], self.rounds[to], strict=True))


def in_turns(functions: Ways, rounds: int, budget: float, exclude: Sequence[str] = ()) -> Timing:
    """Time all ways in turns, ``budget`` seconds for each in a round; the mode leaves the ops in ``exclude`` native."""
    seconds: dict[str, list[float]] = {way: [] for way in functions}
    calls = {}
    for way, function in functions.items():
        once = min(timed(way, function, 1, exclude) for _ in range(2))
        calls[way] = max(1, int(budget / (once if once > budget / 20 else timed(way, function, 20, exclude))))
    order = list(functions)
    gc.disable()
    try:
        for turn in range(rounds):
            for way in order[turn % len(order) :] + order[: turn % len(order)]:
                seconds[way].append(timed(way, functions[way], calls[way], exclude))
    finally:
        gc.enable()
    return Timing(seconds)
