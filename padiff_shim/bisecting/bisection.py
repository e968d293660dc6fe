"""What :func:`padiff_shim.bisect` answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ..screen import Column, Screen
from ..text import in_markdown, shown
from .choosing import Unit

SHOWN = 4  # lines of one unit
_KERNELS = {"paddle": "Paddle's", "torch": "Torch's"}


@dataclass
class Bisection:
    """The smallest set that makes the difference; iterating it gives its units.

    Args:
        over: ``"ops"``, ``"layers"`` or ``"calls"``.
        kernel: whose kernels make it bad: ``"paddle"`` (bad natively, good on Torch's) or ``"torch"`` (the other way round).
        minimal: with these on that kernel and all others on the other framework's the target holds; without any one of them not.
        units: how many there are altogether.
        alone: whether it is these only: with all others on that kernel and these on the other framework's the target does not hold.
        runs: how often the program ran. ``known``: how many answers were known from an earlier run.
    """

    over: str
    kernel: str
    minimal: list[Unit] = field(default_factory=list)
    units: int = 0
    alone: bool = False
    runs: int = 0
    known: int = 0
    seconds: float = 0.0

    def __iter__(self) -> Iterator[Unit]:
        return iter(self.minimal)

    def __len__(self) -> int:
        return len(self.minimal)

    @property
    def headline(self) -> str:
        """The answer in one line."""
        what = self.over[:-1] if len(self.minimal) == 1 else self.over
        found = f"{len(self.minimal)} of {self.units} {self.over if len(self.minimal) != 1 else what + 's'}"
        others = "no other is needed or makes it" if self.alone else "others make it as well"
        return f"{_KERNELS[self.kernel]} kernels of {found} make the difference ({others}); {self.runs} runs"

    def as_dict(self) -> dict[str, Any]:
        """In plain types (JSON)."""
        return {
            "headline": self.headline,
            "over": self.over,
            "kernel": self.kernel,
            "units": self.units,
            "alone": self.alone,
            "runs": self.runs,
            "known": self.known,
            "seconds": self.seconds,
            "minimal": [
                {
                    "unit": str(unit),
                    "op": unit.op,
                    "layer": unit.layer,
                    "number": unit.number,
                    "calls": unit.calls,
                    "places": [
                        {"op": op, "layer": layer, "file": site.file, "line": site.line, "calls": calls}
                        for (op, layer, site), calls in unit.places.items()
                    ],
                }
                for unit in self.minimal
            ],
        }

    def _rows(self) -> list[tuple[str, str, str]]:
        return [
            (str(unit) + (f", call {unit.number + 1} there" if unit.number else ""), str(unit.calls), _lines(unit)) for unit in self
        ]

    def to_markdown(self) -> str:
        """For an issue or a pull request."""
        lines = [f"**{in_markdown(self.headline)}**", "", f"| {self.over[:-1]} | calls | lines |", "| --- | ---: | --- |"]
        return "\n".join([*lines, *(f"| {' | '.join(map(in_markdown, row))} |" for row in self._rows())]) + "\n"

    def text(self, width: int | None = None, *, colour: bool = False) -> str:
        """For a terminal, ``width`` columns wide (default: its own); with ``colour`` as ANSI sequences."""
        screen = Screen(width, colour=colour)
        screen.say(self.headline, "bold")
        heads = (Column(self.over[:-1]), Column("calls", right=True), Column("lines"))
        screen.table(heads, ([shown(cell, 2000) for cell in row] for row in self._rows()))
        return screen.text()

    def __str__(self) -> str:
        return self.text()


def _lines(unit: Unit) -> str:
    """Where a unit's calls are made."""
    told: dict[str, None] = {}
    for (op, layer, site), _ in unit.places.items():
        beside = [part for part, known in ((op, unit.op), (layer, unit.layer)) if part and part != known]
        told[str(site) + (f" ({', '.join(beside)})" if beside else "")] = None
    more = f"; and {len(told) - SHOWN} more" if len(told) > SHOWN else ""
    return "; ".join(list(told)[:SHOWN]) + more
