"""The run as a table for terminals and logs (rich)."""

from __future__ import annotations

import io

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..text import SENTENCE, columns, shown
from .source import Substituted


def _ops_table(run: Substituted) -> Table:
    table = Table(title=f"padiff_shim: Paddle ops on {run.backend} kernels", title_justify="left")
    table.add_column("op")
    for heading in ("substituted", "backward", "native"):
        table.add_column(heading, justify="right")
    table.add_column("why native", overflow="fold")
    data = run.as_dict()["ops"]
    for name, counts in sorted(data.items(), key=lambda item: (-item[1]["substituted"], item[0])):
        native = counts["native"]
        table.add_row(
            Text(shown(name)),
            str(counts["substituted"]),
            str(counts["backward"]),
            str(sum(native.values())),
            Text("; ".join(f"{shown(reason, SENTENCE)} ({calls})" for reason, calls in sorted(native.items()))),
        )
    return table


def _layout_line(run: Substituted) -> str:
    cost = run.layout_cost
    if run.linear_layout == "view":
        return f"Linear weights: transposed views, no copies ({cost.views} calls)."
    return (
        f"Linear weights: contiguous [out, in] copies: {cost.copies} made ({cost.bytes / 2**20:.1f} MiB, "
        f"{cost.seconds * 1e3:.1f} ms), {cost.reused} times reused."
    )


def _optimizer_line(run: Substituted) -> str:
    """Whose definition each optimizer and clipper followed."""
    told = [
        f"{shown(name)} by {definition.capitalize()}'s definition ({calls})"
        for name, definitions in sorted(run.as_dict()["optimizers"].items())
        for definition, calls in sorted(definitions.items())
    ]
    return f"Optimizers on {run.backend} kernels: {', '.join(told)}."


def run_table(run: Substituted, width: int | None = None) -> str:
    """The run as text, ``width`` columns wide (default: :func:`padiff_shim.text.columns`)."""
    buffer = io.StringIO()
    console = Console(file=buffer, width=width or columns())
    console.print(_ops_table(run))
    if run.layout_cost.copies or run.layout_cost.reused or run.layout_cost.views:
        console.print(Text(_layout_line(run)), soft_wrap=True)
    if run.as_dict()["optimizers"]:
        console.print(Text(_optimizer_line(run)), soft_wrap=True)
    for warning in run.warnings:
        console.print(Text(f"warning: {shown(warning, SENTENCE)}"), soft_wrap=True)
    return buffer.getvalue().rstrip()
