"""A drift as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..arguments import path as checked
from ..errors import ArgumentError, FileError, described, optional
from .rows import SIDES, DriftRow

_INSTALL = "pip install matplotlib   (or: pip install padiff_shim[plot])"
_STYLES = {"native": ("o-", "tab:red"), "substituted": ("s-", "tab:green"), "float64": ("^--", "tab:blue")}
_NAMES = 60  # rows up to which each has its name on the axis


def draw(rows: Sequence[DriftRow], title: str, path: str | Path) -> Path:
    """See :meth:`.told.Drift.plot`. Differences of 0, which a logarithm does not have, stand on the lowest line."""
    target = checked("path", path)
    if target.suffix.lower() not in (".png", ".svg"):
        raise ArgumentError(f"path= ends with .png or .svg, got {described(str(path))}")
    optional("matplotlib", _INSTALL)
    figures, agg = (optional(f"matplotlib.{name}", _INSTALL) for name in ("figure", "backends.backend_agg"))
    figure = figures.Figure(figsize=(min(24.0, max(7.0, 0.22 * len(rows))), 6.0), layout="constrained")
    agg.FigureCanvasAgg(figure)  # no window, and no setting of the program's own plots
    axes = figure.add_subplot()
    found = {side: [_max(row, side) for row in rows] for side in SIDES}
    positive = [value for values in found.values() for value in values if value is not None and value > 0]
    floor = min(positive, default=1e-16) / 10
    for side, values in found.items():
        if any(value is not None for value in values):
            marker, colour = _STYLES[side]
            heights = [float("nan") if value is None else max(value, floor) for value in values]
            axes.plot(range(len(rows)), heights, marker, color=colour, label=side, markersize=3, linewidth=1)
    axes.set_yscale("log")
    axes.axhline(floor, color="gray", linewidth=0.5)
    axes.text(0, floor, "0: equal", fontsize=7, va="bottom", color="gray")
    axes.set_ylabel("largest absolute difference")
    axes.set_title(title, fontsize=8, wrap=True)
    axes.legend()
    if len(rows) <= _NAMES:
        axes.set_xticks(range(len(rows)), [row.label for row in rows], rotation=90, fontsize=6)
    else:
        axes.set_xlabel("tensors in the order of the run")
    try:
        figure.savefig(target)
    except OSError as error:
        raise FileError(f"{target} cannot be written: {error.strerror or error}") from error
    return target


def _max(row: DriftRow, side: str) -> Any:
    apart = getattr(row, side)
    return None if apart is None else apart.max
