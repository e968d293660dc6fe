"""What the demos print with."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table


def new_table(*heads: str) -> Table:
    """A table without lines; the first of its columns names the rows."""
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    for head in heads:
        table.add_column(head, justify="right" if table.columns else "left")
    return table


def new_progress(console: Console, transient: bool = False) -> Progress:
    """Bars with their counts and the time so far."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=transient)


def size(difference: float) -> str:
    """A difference: 0 is exact."""
    return "0" if difference == 0 else f"{difference:.1e}"
