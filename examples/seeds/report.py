"""Prints results as the reports did ("mean dif:", "max dif:"), and as tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.table import Table

from .compare import Difference, Result, Row

NUMBER = 24  # characters for a float in full


def print_steps(console: Console, result: Result, describe: Callable[[Any], str]) -> None:
    """Every step in the words of the reports, native on the left, under the shim on the right."""
    console.print(f"{'':10}{'native':{NUMBER}}under the shim")
    for row in result.rows:
        console.print(f"{'~' * 50}\n{row.step} {describe(row.step)}".rstrip() + mark(row))
        console.print(f"mean dif: {row.native.mean!r:{NUMBER}}{row.shim.mean!r}")
        console.print(f"max dif:  {row.native.max!r:{NUMBER}}{row.shim.max!r}")


def steps_table(result: Result, describe: Callable[[Any], str]) -> Table:
    """A line for each step."""
    table = new_table("step", "", "native", "", "shim", "")
    table.add_row("", "", *["mean", "max"] * 2, style="bold")
    for row in result.rows:
        style = "dim" if row.aside else "" if row.passed else "red"
        table.add_row(f"{row.step}{mark(row)}", describe(row.step), *cells(row.native), *cells(row.shim), style=style)
    return table


def summary_table(results: list[Result]) -> Table:
    """A line for each case: its largest differences, and how many steps are exactly 0 under the shim."""
    table = new_table("case", "native", "", "shim", "", "exact")
    table.add_row("", *["mean", "max"] * 2, "", style="bold")
    for result in results:
        native, shim = (largest([getattr(row, side) for row in result.judged]) for side in ("native", "shim"))
        passed = result.exact == len(result.judged)
        exact = f"{result.exact} of {len(result.judged)}"
        table.add_row(result.title, *cells(native), *cells(shim), exact, style="" if passed else "red")
    return table


def mark(row: Row) -> str:
    """Steps that are not judged; the summary says why."""
    return " (not counted)" if row.aside else ""


def new_table(*heads: str) -> Table:
    """Texts to the left, numbers to the right."""
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    numbers = heads.index("native")
    for place, head in enumerate(heads):
        table.add_column(head, justify="left" if place < numbers else "right", no_wrap=True)
    return table


def cells(apart: Difference) -> list[str]:
    """Mean and maximum, short; a plain 0 is a bit for bit equal step."""
    if apart.max == 0:
        return ["0" if apart.identical else "±0"] * 2
    return [f"{value:.1e}" for value in (apart.mean, apart.max)]


def largest(all_apart: list[Difference]) -> Difference:
    """The worst of several steps."""
    identical = all(apart.identical for apart in all_apart)
    means, maxima = ([getattr(apart, name) for apart in all_apart] for name in ("mean", "max"))
    return Difference(max(means, default=0.0), max(maxima, default=0.0), identical)
