"""What a run counted. Strings and numbers only; no framework, no tensors."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Any


class Tally:
    """The counters of one run in one thread (so that no increment is ever lost to another thread)."""

    __slots__ = ("backward", "native", "substituted")

    def __init__(self) -> None:
        self.substituted: Counter[str] = Counter()
        self.backward: Counter[str] = Counter()
        self.native: Counter[tuple[str, str]] = Counter()


@dataclass
class LayoutCost:
    """What the contiguous [out, in] copies of Linear weights cost in a run."""

    copies: int = 0
    bytes: int = 0
    seconds: float = 0.0
    reused: int = 0
    views: int = 0


@dataclass
class Run:
    """The result of a mode: how many calls ran on which kernel, and why.

    ``print(run)`` shows a table, :meth:`as_dict` gives plain data. The counters go on while the mode is open and while gradients
    flow through its calls.
    """

    backend: str
    linear_layout: str
    environment: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    layout_cost: LayoutCost = field(default_factory=LayoutCost)
    _tallies: dict[int, Tally] = field(default_factory=dict, repr=False)

    def tally(self) -> Tally:
        """This thread's counters."""
        return self._tallies.setdefault(threading.get_ident(), Tally())

    def warn(self, message: str) -> None:
        """Keep a remark that the user should see once."""
        if message not in self.warnings:
            self.warnings.append(message)

    def _merged(self, kind: str) -> Counter[Any]:
        total: Counter[Any] = Counter()
        for tally in list(self._tallies.values()):
            total.update(getattr(tally, kind))
        return total

    @property
    def substituted(self) -> dict[str, int]:
        """Op name -> forward calls that ran on the reference kernel."""
        return dict(self._merged("substituted"))

    @property
    def backward(self) -> dict[str, int]:
        """Op name -> backward calls that ran on the reference kernel."""
        return dict(self._merged("backward"))

    @property
    def native(self) -> dict[str, dict[str, int]]:
        """Op name -> {reason: calls that stayed on Paddle's kernel}."""
        grouped: dict[str, dict[str, int]] = {}
        for (op, reason), calls in self._merged("native").items():
            grouped.setdefault(op, {})[reason] = calls
        return grouped

    def as_dict(self) -> dict[str, Any]:
        """Everything counted, as JSON-ready data.

        ``{"backend", "linear_layout", "environment", "layout_cost", "warnings", "ops": {op: {"substituted": calls,
        "backward": calls, "native": {reason: calls}}}}``
        """
        substituted, backward, native = self.substituted, self.backward, self.native
        names = sorted({*substituted, *backward, *native})
        return {
            "backend": self.backend,
            "linear_layout": self.linear_layout,
            "environment": dict(self.environment),
            "layout_cost": vars(self.layout_cost).copy(),
            "warnings": list(self.warnings),
            "ops": {
                name: {
                    "substituted": substituted.get(name, 0),
                    "backward": backward.get(name, 0),
                    "native": native.get(name, {}),
                }
                for name in names
            },
        }

    def __str__(self) -> str:
        from ..report.terminal import run_table

        return run_table(self)

    def __repr__(self) -> str:
        calls, native = sum(self.substituted.values()), sum(self._merged("native").values())
        return f"<padiff_shim.Run backend={self.backend!r} substituted={calls} native={native}>"
