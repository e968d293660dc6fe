"""One training step of sixteen models, natively and under `padiff_shim.reference("torch")`, against their Torch twins.

Weights and inputs are equal; the Paddle code is the same in both runs. Exit status 1: under the shim a row was not identical to the
Torch twin bit for bit, or a float call stayed native.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table
from tables import covered, explain, models_of, new_table, notes, rows_of, size, stayed

import padiff_shim

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message="No ccache found")  # Paddle's advice for compiling; nothing is compiled here
    import torch
    from zoo import PAIRS, pairs

COLUMNS = {
    "native": "largest difference of Paddle's outputs and of its gradients to Torch's",
    "under the shim": "outputs and gradients that are Torch's bit for bit",
    "covered": "float calls that ran on Torch's kernels",
    "ms": "a step of Paddle, of Paddle under the shim and of Torch, in milliseconds (median)",
}

NOTES = {"wgan": "natively Paddle's leaky_relu has the gradient 1 at 0, which the images' empty edges reach; Torch's has the slope"}


class Row(NamedTuple):
    """What one model showed in one dtype."""

    name: str
    dtype: str
    native: tuple[float, float] | None  # None: Paddle has no kernels
    same: tuple[int, int]  # identical under the shim, of so many
    apart: float  # largest difference under the shim
    covered: tuple[int, int]  # float calls on Torch's kernels, of all
    left: dict[str, str]  # ops that stayed native, with the reason
    times: tuple[float, float, float]

    @property
    def perfect(self) -> bool:
        """Identical, with every float call covered."""
        return self.same[0] == self.same[1] and self.covered[0] == self.covered[1]


def largest(ours: dict[str, np.ndarray], theirs: dict[str, np.ndarray]) -> float:
    """The largest absolute difference; infinite where one side has what the other has not."""
    if ours.keys() != theirs.keys():
        return float("inf")
    return max((float(np.abs(ours[key].astype(np.float64) - theirs[key]).max()) for key in ours), default=0.0)


def identical(ours: pairs.Result, theirs: pairs.Result) -> tuple[int, int]:
    """How many arrays are the same bit for bit, of how many."""
    count = total = 0
    for mine, other in zip(ours, theirs):
        total += len(other)
        count += sum(key in mine and mine[key].tobytes() == other[key].tobytes() for key in other)
    return count, total


def seconds(step: Callable[[], Any], rounds: int) -> float:
    """The median time of a step, after one that warms up."""
    step()
    taken = []
    for _ in range(rounds):
        start = time.perf_counter()
        step()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def natively(pair: pairs.Pair) -> pairs.Result | None:
    """A step on Paddle's own kernels; None where it has none of the models' dtype."""
    try:
        return pairs.paddle_step(pair)
    except RuntimeError as error:
        if "is not registered" not in str(error):
            raise
        return None


def measure(name: str, dtype: str, rounds: int) -> Row:
    """Compare and time one model in one dtype."""
    expected = pairs.torch_step(pairs.build(name, dtype))
    native = natively(pairs.build(name, dtype))
    pair = pairs.build(name, dtype)
    with padiff_shim.reference("torch") as run:
        ours = pairs.paddle_step(pair)
    count, left = covered(run)
    pair = pairs.build(name, dtype)
    with padiff_shim.reference("torch"):
        shim = seconds(lambda: pairs.paddle_step(pair), rounds)
    return Row(
        name,
        dtype,
        native and (largest(native.outputs, expected.outputs), largest(native.gradients, expected.gradients)),
        identical(ours, expected),
        max(largest(mine, other) for mine, other in zip(ours, expected)),
        count,
        left,
        (
            seconds(lambda: pairs.paddle_step(pair), rounds) if native else math.nan,
            shim,
            seconds(lambda: pairs.torch_step(pair), rounds),
        ),
    )


def shown(rows: list[Row]) -> Table:
    """All rows as one table."""
    table = new_table("one step", "", "native", "", "under the shim", "covered", "ms", "", "")
    table.add_row("", "", "outputs", "gradients", "", "", "native", "shim", "torch", style="bold")
    for row in rows:
        good = row.same[0] == row.same[1]
        result = f"identical ({row.same[1]})" if good else f"[red]{row.same[0]} of {row.same[1]}, {row.apart:.1e}[/]"
        style = "" if row.covered[0] == row.covered[1] else "[red]"
        times = ("" if math.isnan(value) else f"{1000 * value:.0f}" for value in row.times)
        native = map(size, row.native) if row.native else ("no", "kernels")
        covered = f"{style}{row.covered[0]} of {row.covered[1]}"
        table.add_row(row.name, row.dtype, *native, result, covered, *times)
    return table


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="steps that are timed")
    options = models_of(parser, PAIRS)
    torch.set_num_threads(1)
    console = Console()
    rows = rows_of(console, options, lambda name, dtype: measure(name, dtype, options.rounds))
    console.print(shown(rows))
    explain(console, COLUMNS)
    stayed(console, rows)
    notes(console, rows, NOTES)
    good = sum(row.perfect for row in rows)
    console.print(f"{good} of {len(rows)} rows identical bit for bit with every float call covered.", highlight=False)
    return 0 if good == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
