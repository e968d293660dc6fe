"""What :func:`padiff_shim.drift` answers."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..arguments import path as checked
from ..errors import FileError
from ..proving.findings import FAILS
from ..screen import Column, Screen
from ..text import in_markdown, shown
from .picture import draw
from .rows import SIDES, Distance, DriftRow, largest

# By how much the difference shrinks in float64, whose unit roundoff is 2e-9 of float32's: what that means.
_MEANINGS = ((1e-6, "it is rounding"), (1e-3, "nearly all of it is rounding"), (float("inf"), "it is not rounding alone"))

SHOWN = 30  # rows of Markdown that are not folded away
_LEAVE = (7, 0, 5, 6, 4, 0, 3, 0, 2, 1)  # which column is left out first where room is short


@dataclass
class Drift:
    """The differences of a port from its original, tensor by tensor.

    ``rows``: layers in the order of the run, then op calls, then outputs; then gradients in the order of the backward: of layers'
    results (the last first), of inputs, of parameters. ``framework_dtype``: of the models' parameters.
    """

    framework_dtype: str = "float32"
    rows: list[DriftRow] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def largest(self) -> dict[str, Distance]:
        """The largest mean and maximum of each column, without gradients; a pair that did not run is missing."""
        return _largest([row for row in self.rows if not row.of_gradient])

    @property
    def largest_gradients(self) -> dict[str, Distance]:
        """The same of gradients; empty without them."""
        return _largest([row for row in self.rows if row.of_gradient])

    @property
    def headline(self) -> str:
        """The answer in one line."""
        if not self.rows:
            return "no layer, call or output has one shape on both sides"
        kinds = (
            ("", [row for row in self.rows if not row.of_gradient]),
            ("gradients: ", [row for row in self.rows if row.of_gradient]),
        )
        return "; ".join(f"{name}{_said(rows)}" for name, rows in kinds if rows)

    def as_dict(self) -> dict[str, Any]:
        """In plain types (JSON)."""
        return {"headline": self.headline, **asdict(self)}

    def table(self) -> list[list[str]]:
        """Head and rows as text: a plain 0 is equal bit for bit, ±0 equal but for the sign of a zero."""
        head = ["kind", "paddle", "torch", "line", *(f"{side} {figure}" for side in SIDES for figure in ("mean", "max"))]
        return [head, *([row.kind, row.name, row.torch, row.site, *_cells(row)] for row in self.rows)]

    def to_csv(self, path: str | Path) -> Path:
        """Write all rows with all digits; empty cells where there is no float64 pair.

        Raises:
            FileError: it cannot be written.
        """
        target = checked("path", path)
        figures = [(side, figure) for side in SIDES for figure in ("mean", "max", "identical")]
        try:
            with open(target, "w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                writer.writerow(["kind", "paddle", "torch", "call", "line", *(f"{side}_{figure}" for side, figure in figures)])
                for row in self.rows:
                    numbers = [getattr(getattr(row, side), figure, "") for side, figure in figures]
                    writer.writerow([row.kind, row.paddle, row.torch, row.number, row.site, *numbers])
        except OSError as error:
            raise FileError(f"{target} cannot be written: {error.strerror or error}") from error
        return target

    def plot(self, path: str | Path) -> Path:
        """Draw the largest difference of each row as a curve for each column, on a logarithmic scale, as PNG or SVG.

        Raises:
            MissingFrameworkError: matplotlib is not installed (``pip install padiff_shim[plot]``).
            ArgumentError: another ending than .png or .svg.
            FileError: it cannot be written.
        """
        return draw(self.rows, self.headline, path)

    def to_markdown(self) -> str:
        """For an issue or a pull request."""
        _, *rows = self.table()
        head = f"| kind | layer or call, line | {' | '.join(SIDES)} |\n| --- | --- |{' ---: |' * len(SIDES)}"
        told = [_row(row) for row in rows]
        lines = [f"**{in_markdown(self.headline)}**", "", head, *told[:SHOWN]]
        if len(told) > SHOWN:
            lines += ["", f"<details><summary>{len(told) - SHOWN:,} more</summary>", "", head, *told[SHOWN:], "", "</details>"]
        lines += ["", "Largest absolute differences; 0: equal bit for bit, ±0: but for the sign of a zero."]
        return "\n".join([*lines, *(f"\n{in_markdown(note)}" for note in self.notes)]) + "\n"

    def text(self, width: int | None = None, *, colour: bool = False) -> str:
        """For a terminal, ``width`` columns wide (default: its own); with ``colour`` as ANSI sequences."""
        screen = Screen(width, colour=colour)
        screen.say(self.headline, "bold")
        head, *rows = self.table()
        for cells, row in zip(rows, self.rows):  # the kind is what a narrow screen leaves out
            cells[1] = row.label
        heads = [Column(name, leave, right=place >= 4) for place, (name, leave) in enumerate(zip(head, _LEAVE))]
        screen.table(heads, ([shown(cell) for cell in row] for row in rows))
        for note in self.notes:
            screen.say(f"note: {shown(note, 1000)}")
        return screen.text()

    def __str__(self) -> str:
        return self.text()


def _largest(rows: Sequence[DriftRow]) -> dict[str, Distance]:
    found = {side: [getattr(row, side) for row in rows if getattr(row, side) is not None] for side in SIDES}
    return {side: largest(distances) for side, distances in found.items() if distances}


def _said(rows: Sequence[DriftRow]) -> str:
    """What rows of one kind come to."""
    worst = _largest(rows)
    same = sum(row.substituted.identical for row in rows)
    text = f"{same} of {len(rows)} identical on Torch's kernels (largest difference {worst['substituted'].max:.2g})"
    if "native" not in worst:
        return f"{text}; natively it fails"
    text += f"; natively up to {worst['native'].max:.2g} apart"
    if "float64" not in worst or not worst["native"].max:
        return text
    ratio = worst["float64"].max / worst["native"].max
    meaning = next(words for limit, words in _MEANINGS if ratio < limit)
    return f"{text}, in float64 {worst['float64'].max:.2g}, which is {ratio:.1g} of it: {meaning}"


def _row(cells: list[str]) -> str:
    """Of Markdown: names and line in one cell, and of each column the maximum."""
    kind, paddle, torch, site = cells[:4]
    names = "<br>".join(in_markdown(one) for one in dict.fromkeys((paddle, torch, site)) if one)
    return f"| {' | '.join((kind, names, *cells[5::2]))} |"


def _cells(row: DriftRow) -> list[str]:
    found = []
    for side in SIDES:
        apart = getattr(row, side)
        if apart is None:
            found += [FAILS if side == "native" else ""] * 2
        elif apart.max == 0:
            found += ["0" if apart.identical else "±0"] * 2
        else:
            found += [f"{apart.mean:.1e}", f"{apart.max:.1e}"]
    return found
