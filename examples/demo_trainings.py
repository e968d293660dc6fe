"""Whole trainings, natively and under `padiff_shim.reference("torch", optimizer="torch", random="torch")`, against Torch twins.

With dropout, weight decay, clipping and schedules; the Paddle code is the same in both runs. Exit status 1: under the shim a
training was not its Torch twin's bit for bit at every step, or a float call stayed native.
"""

from __future__ import annotations

import argparse
import importlib
import math
import sys
import warnings
from typing import NamedTuple

from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from tables import explain, lacking, new_progress, new_table, notes, size, stayed

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message="No ccache found")  # Paddle's advice for compiling; nothing is compiled here
    import demo_models
    import torch
    from zoo import trained
    from zoo.measuring import Row, measure


class Kind(NamedTuple):
    """What a training draws, and for how many steps it runs; None: not in that dtype."""

    draws: str
    float32: int | None = 50
    float64: int | None = 20
    bfloat16: int | None = 20


TRAININGS = {
    "transformer": Kind("dropout", bfloat16=None),  # whose script makes arrays of its logits
    "gpt": Kind("dropout"),
    "llama": Kind(""),
    "t5": Kind("dropout"),
    "resnet": Kind(""),
    "mobilenet": Kind("dropout"),
    "unet": Kind("dropout"),
    "tagger": Kind("dropout"),
    "vae": Kind("noise"),
    "gan": Kind("noise"),
    "wgan": Kind("noise"),
    "vit": Kind("dropout"),
    "ppo": Kind("actions"),
    "minilm": Kind("dropout", float32=3, float64=None, bfloat16=3),
}
NOTES = {**demo_models.NOTES, "mobilenet": "RMSProp is defined otherwise: epsilon in the root, momentum of steps with their rates"}
COLUMNS = {
    "draws": "the training's random numbers: Torch's in all of the compared runs, but for dropout in the tagger's native LSTM",
    "native": "Paddle's kernels and optimizers: difference of the last loss and largest one of a trained parameter to Torch's",
    "differs": "the first step whose loss, or whose parameters afterwards, differ in a bit under the shim",
    "covered": "float calls that ran on Torch's kernels",
    "s": "seconds of the training: Paddle, Paddle under the shim, Torch",
}


def shown(rows: list[Row]) -> Table:
    """All trainings as one table."""
    table = new_table("training", "", "steps", "draws", "native", "", "differs", "covered", "s", "", "")
    table.add_row("", "", "", "", "loss", "params", "at step", "", "native", "shim", "torch", style="bold")
    for row in rows:
        apart = "none" if row.apart is None else f"[red]{row.apart}[/]"
        good = row.covered[0] == row.covered[1]
        share = "100%" if good else f"[red]{min(99.9, 100 * row.covered[0] / row.covered[1]):.1f}%[/]"
        times = ("" if math.isnan(value) else f"{value:.1f}" for value in row.seconds)
        what = (row.name, row.dtype.replace("float", "f"), str(row.steps), TRAININGS[row.name].draws)
        native = map(size, row.native) if row.native else ("no", "kernels")
        table.add_row(*what, *native, apart, share, *times)
    return table


def lines_table(lines: list[trained.Line]) -> Table:
    """What was done with the trained models."""
    table = new_table("largest difference to the Torch twin", "native", "shim")
    for line in lines:
        table.add_row(line.what, size(line.native), size(line.shim) if line.good else f"[red]{size(line.shim)}[/]")
    return table


def work_of(names: list[str], dtypes: list[str], steps: int | None) -> list[tuple[str, str, int]]:
    """Every training with its dtype and number of steps."""
    rows = []
    for name in names:
        for dtype in dtypes:
            usual = getattr(TRAININGS[name], dtype)
            if usual is not None:
                rows.append((name, dtype, usual if steps is None else min(steps, usual)))
    return rows


def run_all(work: list[tuple[str, str, int]], progress: Progress) -> tuple[list[Row], list[trained.Line]]:
    """Train everything, and use what was trained."""
    after = {"gpt": (trained.generation, lambda _: trained.checkpoints()), "resnet": (trained.evaluation,)}
    rows, lines = [], []
    bar = progress.add_task("", total=sum((4 if TRAININGS[name].draws else 3) * steps for name, _, steps in work))
    for name, dtype, steps in work:
        progress.update(bar, description=f"{name}, {dtype}")
        models = measure(name, dtype, steps, bool(TRAININGS[name].draws), lambda: progress.advance(bar))
        rows.append(models.row)
        if dtype == "float32":
            for check in after.get(name, ()):
                lines += check(models)
    return rows, lines


def report(console: Console, rows: list[Row], lines: list[trained.Line]) -> bool:
    """Print all that was measured; True if nothing differs that should be equal."""
    console.print(shown(rows))
    explain(console, COLUMNS)
    stayed(console, rows)
    notes(console, rows, NOTES)
    for row in rows:
        if row.apart is not None:
            loss, parameter = map(size, row.shim)
            console.print(f"{row.name}, {row.dtype}: under the shim the loss ends {loss}, a parameter {parameter} away.")
    good = sum(row.perfect for row in rows)
    console.print(f"{good} of {len(rows)} trainings identical bit for bit at all steps with every float call covered.")
    if lines:
        console.print()
        console.print(lines_table(lines))
    return good == len(rows) and all(line.good for line in lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", help=f"of {', '.join(TRAININGS)} (default: all)")
    parser.add_argument(
        "--dtypes", nargs="+", choices=["float32", "float64", "bfloat16"], default=["float32", "float64", "bfloat16"]
    )
    parser.add_argument("--steps", type=int, help="at most so many of each training")
    options = parser.parse_args()
    for name in options.models:
        if name not in TRAININGS:
            parser.error(f"there is no training {name!r}; there are {', '.join(TRAININGS)}")
    names = options.models or list(TRAININGS)
    if missing := lacking(names):
        parser.error(missing)
    importlib.import_module("torch._dynamo")  # else the first step of Torch's optimizers imports it: seconds that are no training's
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", message="When training, we now always track")  # Paddle's BatchNorm says so at every call
    console = Console(highlight=False)
    with new_progress(console, transient=True) as progress:
        rows, lines = run_all(work_of(names, options.dtypes, options.steps), progress)
    return 0 if report(console, rows, lines) else 1


if __name__ == "__main__":
    sys.exit(main())
