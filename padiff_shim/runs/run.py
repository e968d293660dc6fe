"""What a run counted. Strings and numbers only; no framework, no tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..records.tally import LayoutCost, Tallies, Tally


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
    _tallies: Tallies = field(default_factory=Tallies, repr=False)

    def tally(self) -> Tally:
        """This thread's counters."""
        return self._tallies.here()

    def warn(self, message: str) -> None:
        """Keep a remark that the user should see once."""
        if message not in self.warnings:
            self.warnings.append(message)

    def add(self, data: Mapping[str, Any]) -> None:
        """Count what another process counted, as its :meth:`as_dict` says it; its remarks are kept, too."""
        tally = self.tally()
        for op, counts in data["ops"].items():
            tally.substituted[op] += counts["substituted"]
            tally.backward[op] += counts["backward"]
            tally.native.update({(op, reason): calls for reason, calls in counts["native"].items()})
        for name, definitions in data["optimizers"].items():
            tally.definitions.update({(name, definition): calls for definition, calls in definitions.items()})
        for name, cost in data["layout_cost"].items():
            setattr(self.layout_cost, name, getattr(self.layout_cost, name) + cost)
        self.environment = {**data["environment"], **self.environment}
        for remark in data["warnings"]:
            self.warn(remark)

    @property
    def substituted(self) -> dict[str, int]:
        """Op name -> forward calls that ran on the reference kernel."""
        return dict(self._tallies.total("substituted"))

    @property
    def backward(self) -> dict[str, int]:
        """Op name -> backward calls that ran on the reference kernel."""
        return dict(self._tallies.total("backward"))

    @property
    def native(self) -> dict[str, dict[str, int]]:
        """Op name -> {reason: calls that stayed on Paddle's kernel}."""
        grouped: dict[str, dict[str, int]] = {}
        for (op, reason), calls in self._tallies.total("native").items():
            grouped.setdefault(op, {})[reason] = calls
        return grouped

    @property
    def optimizers(self) -> dict[str, dict[str, int]]:
        """Optimizer or clipper -> {whose definition was computed with Torch, ``"paddle"`` or ``"torch"``: updates}."""
        grouped: dict[str, dict[str, int]] = {}
        for (name, definition), calls in self._tallies.total("definitions").items():
            grouped.setdefault(name, {})[definition] = calls
        return grouped

    def as_dict(self) -> dict[str, Any]:
        """Everything counted, as JSON-ready data.

        ``{"backend", "linear_layout", "environment", "layout_cost", "warnings", "optimizers": {name: {definition: updates}},
        "ops": {op: {"substituted": calls, "backward": calls, "native": {reason: calls}}}}``
        """
        substituted, backward, native = self.substituted, self.backward, self.native
        names = sorted({*substituted, *backward, *native})
        return {
            "backend": self.backend,
            "linear_layout": self.linear_layout,
            "environment": dict(self.environment),
            "layout_cost": vars(self.layout_cost).copy(),
            "warnings": list(self.warnings),
            "optimizers": self.optimizers,
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
        calls, native = sum(self.substituted.values()), sum(self._tallies.total("native").values())
        return f"<padiff_shim.Run backend={self.backend!r} substituted={calls} native={native}>"
