"""Where the time of one thread goes: a stopwatch that is always on exactly one thing.

What begins takes the time over from what it began in, so that the times of all things add up to the time that passed.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

REFERENCE, NATIVE, MOVES, OPTIMIZER, BACKWARD = "reference", "native", "moves", "optimizer", "backward"
PARTS = (REFERENCE, NATIVE, MOVES, OPTIMIZER, BACKWARD)
_MANY = 20_000  # places told apart; those beyond are counted by op alone


class Place(NamedTuple):
    """What is measured: a part of the work, and the op, layer and line of the program that it is for.

    ``site``: a line (its ``str`` is ``"train.py:12 in forward"``), or "" where none is known.
    """

    part: str
    op: str
    layer: str
    site: Any


ENGINES = Place(BACKWARD, "", "", "")  # of a backward what is of no op: the engines, sums of gradients, leaves, reducers


class Clock:
    """The stopwatch of one thread. ``calls`` and ``seconds`` are by :class:`Place`.

    Nothing is measured while nothing has begun: the program's own time is what is left.
    """

    __slots__ = ("_mark", "_open", "_thread", "calls", "seconds")

    def __init__(self) -> None:
        self.calls: Counter[Place] = Counter()
        self.seconds: Counter[Place] = Counter()
        self._open: list[Place] = []
        self._mark = 0.0
        self._thread = threading.get_ident()

    def begin(self, place: Place) -> None:
        """``place`` takes the time over."""
        now = time.perf_counter()
        if self._open:
            self.seconds[self._open[-1]] += now - self._mark  # type: ignore[assignment]
        if place not in self.calls and len(self.calls) >= _MANY:
            place = Place(place.part, place.op, "", "")
        self._open.append(place)
        self._mark = now

    def end(self, *, counts: bool = True) -> None:
        """What it began in goes on. ``counts``: it was a call."""
        if not self._open:  # a Ctrl-C fell between an end and the next beginning in a backward
            return
        now = time.perf_counter()
        place = self._open.pop()
        self.seconds[place] += now - self._mark  # type: ignore[assignment]
        if counts:
            self.calls[place] += 1
        self._mark = now

    def settle(self) -> None:
        """Torch's engine has returned: what goes on in a backward is of no call."""
        if self._open and self._open[-1].part == BACKWARD and self._open[-1] is not ENGINES:
            self.end()
            self.begin(ENGINES)

    def here(self) -> Place:
        """What the time goes to."""
        return self._open[-1] if self._open else ENGINES

    def passing(self, op: str) -> Callable[[Any], None]:
        """For the node of a call in the graph of gradients: a function that gives the time of a backward to this call.

        It keeps the time until the node of another call takes it: what runs in between is the rest of its own gradient. Nothing
        happens in another thread than the clock's, as where a device has an engine thread of its own.
        """
        known = self.here()
        place = Place(BACKWARD, op, known.layer, known.site)

        def passed(_: Any) -> None:
            if self._open and self._open[-1].part == BACKWARD and threading.get_ident() == self._thread:
                self.end(counts=self._open[-1] is not ENGINES)
                self.begin(place)

        return passed
