"""The accuracy cases that users reported: native Paddle, and the same code under the shim, against Torch.

Exit status 1 if a step under the shim is not Torch's bit for bit.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable

from rich.console import Console
from rich.progress import Progress

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message="No ccache found")  # Paddle's advice for compiling; nothing is compiled here
    import paddle
import torch
from seeds import report, seed_000, seed_001, seed_002, seed_003
from seeds.compare import Result, measure
from tables import new_progress

SEEDS = (seed_000, seed_001, seed_002, seed_003)


def plain(step: object) -> str:
    """Steps that say themselves what they are."""
    return ""


def run_all(progress: Progress) -> list[tuple[Result, Callable[[object], str]]]:
    """Measure case by case; with each what its steps are called."""
    work = [(title, build, getattr(seed, "describe", plain)) for seed in SEEDS for title, build in seed.cases().items()]
    return [(measure(title, build()), describe) for title, build, describe in progress.track(work, description="measuring")]


def detail(console: Console, result: Result, describe: Callable[[object], str], brief: bool) -> None:
    """Every step of a case."""
    console.rule(result.title)
    if not brief:
        report.print_steps(console, result, describe)
    if brief or describe is not plain:
        console.print(report.steps_table(result, describe), "")


def conclude(console: Console, results: list[Result]) -> bool:
    """The summary; True if every judged step is exactly 0 under the shim."""
    console.rule("the largest differences of each case")
    console.print(report.summary_table(results), "")
    console.print("0: equal bit for bit; ±0: equal but for the sign of a zero.")
    exact, judged = sum(result.exact for result in results), sum(len(result.judged) for result in results)
    console.print(f"Under the shim {exact} of {judged} rows are exactly 0: identical to Torch bit for bit.")
    for reason, steps in set_aside(results).items():
        console.print(f"Not counted: {', '.join(steps)}: {reason}.")
    ops = sorted(set().union(*(result.substituted for result in results)))
    console.print(f"On Torch kernels: {', '.join(ops)}.")
    return exact == judged > 0


def set_aside(results: list[Result]) -> dict[str, list[str]]:
    """The steps that are shown but not judged, by reason."""
    rows: dict[str, list[str]] = {}
    for result in results:
        for row in result.rows:
            if row.aside:
                rows.setdefault(row.aside, []).append(str(row.step))
    return rows


def main() -> int:
    """Run, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--verbose", action="store_true", help="after the summary every step, in the reports' own format")
    parser.add_argument("--brief", action="store_true", help="with a line for each step instead")
    args = parser.parse_args()
    console = Console(highlight=False, markup=False)
    paddle.set_device("cpu")
    started = time.perf_counter()
    console.print(f"Paddle {paddle.__version__}, Torch {torch.__version__}, on CPU ({torch.backends.cpu.get_cpu_capability()})")
    with new_progress(console, transient=True) as progress:
        measured = run_all(progress)
    passed = conclude(console, [result for result, _ in measured])
    console.print(f"{time.perf_counter() - started:.0f} s" + ("" if args.verbose or args.brief else "; --verbose shows every step"))
    if args.verbose or args.brief:
        for result, describe in measured:
            detail(console, result, describe, args.brief)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
