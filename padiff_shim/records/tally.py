"""What is counted while calls run: on which kernel, why natively, and what copies of weights cost."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Protocol

from .clock import Clock

_ROUNDS_NOTHING = ("exact in both", "nothing is rounded")  # what the reasons of such calls say


def rounds(reason: str) -> bool:
    """Whether a call that stayed native for this reason is a float call: of integers, or of no elements, nothing is rounded."""
    return not any(words in reason for words in _ROUNDS_NOTHING)


class Tally:
    """The counters of one run in one thread (so that no increment is ever lost to another thread)."""

    __slots__ = ("backward", "clock", "definitions", "integers", "lacking", "lines", "native", "substituted")

    def __init__(self) -> None:
        self.substituted: Counter[str] = Counter()
        self.integers: Counter[str] = Counter()  # of the substituted calls those whose result is no float
        self.lacking: Counter[tuple[str, str]] = Counter()  # of those that Paddle has no kernel for: (op, dtype)
        self.backward: Counter[str] = Counter()
        self.native: Counter[tuple[str, str]] = Counter()
        self.definitions: Counter[tuple[str, str]] = Counter()  # of updates and clippings: (name, whose formula)
        self.lines: Counter[tuple[str, str, str, Any]] = Counter()  # of calls that stayed native: (op, reason, layer, line)
        self.clock: Clock | None = None  # where a run notes its time


class Tallies:
    """The counters of one run, a :class:`Tally` a thread."""

    def __init__(self) -> None:
        self._of: dict[int, Tally] = {}

    def here(self) -> Tally:
        """This thread's counters."""
        return self._of.setdefault(threading.get_ident(), Tally())

    def keep(self, tally: Tally) -> None:
        """Count ``tally``, which is of no thread here, too."""
        self._of[-1 - len(self._of)] = tally

    def total(self, kind: str) -> Counter[Any]:
        """One counter, by the name that a :class:`Tally` has for it, over all threads."""
        found: Counter[Any] = Counter()
        for tally in list(self._of.values()):
            found.update(dict(getattr(tally, kind)))  # a copy: its thread counts on
        return found

    def clocks(self) -> list[Clock]:
        """Those of all threads."""
        return [tally.clock for tally in list(self._of.values()) if tally.clock is not None]

    def clear(self) -> None:
        """Begin anew, in the child of a fork."""
        self._of.clear()


@dataclass
class LayoutCost:
    """What the contiguous [out, in] copies of Linear weights cost in a run."""

    copies: int = 0
    bytes: int = 0
    seconds: float = 0.0
    reused: int = 0
    views: int = 0
    spared: int = 0  # products that have the same bits without a copy

    def add(self, other: Mapping[str, Any]) -> None:
        """What they cost elsewhere, by the same names."""
        for one in COUNTED:
            setattr(self, one, getattr(self, one) + int(other.get(one) or 0))
        self.seconds += spent(other)


COUNTED = tuple(one.name for one in fields(LayoutCost) if one.name != "seconds")


def spent(table: Mapping[str, Any]) -> float:
    """The seconds of a table: a time, whatever was written there."""
    seconds = float(table.get("seconds") or 0.0)
    return seconds if 0 <= seconds < math.inf else 0.0


class Account(Protocol):
    """What an open mode asks of its run: somewhere to count, and to leave a remark."""

    @property
    def layout_cost(self) -> LayoutCost:
        """What copies of weights cost."""

    def tally(self) -> Tally:
        """This thread's counters."""

    def warn(self, message: str) -> None:
        """Keep a remark that the user should see once."""

    def on_the_way(self, *, backward: bool = False) -> None:
        """A good moment to keep what is counted so far; ``backward``: the end of one."""
