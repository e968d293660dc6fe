"""What comparing costs: two Transformer encoders, forward and backward on new data at each pass, one thread.

Native, substituted and compared passes are timed in turns within one process, in processor time; ratios are medians of the rounds'
own ratios, so that a change of the machine's speed meets all of them alike.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when the frameworks are imported

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message="No ccache found")  # Paddle's advice for compiling; nothing is compiled here
    import paddle
import torch
from bench_call import markdown, shown
from machine import machine
from rich.console import Console
from rich.progress import track

import padiff_shim
from padiff_shim import numerics

MARK = "<!-- below: written by bench_compare.py -->"


class Size(NamedTuple):
    """An encoder, its batch, and how many passes are timed as one."""

    width: int
    heads: int
    layers: int
    batch: int
    length: int
    passes: int


SIZES = {
    "Encoder: 4 layers, d=256, 4 heads, batch 8x64": Size(256, 4, 4, 8, 64, 1),
    "Small model: 2 layers, d=32, 2 heads, batch 2x8": Size(32, 2, 2, 2, 8, 40),
}
LEARNING = 5  # passes before the first round: caches, dtype rules, what screening learns


def program(size: Size) -> Callable[[], None]:
    """Forward and backward passes of the encoder, each on data of its own."""
    paddle.seed(0)
    layer = paddle.nn.TransformerEncoderLayer(
        size.width, size.heads, 4 * size.width, dropout=0.0, activation="gelu", normalize_before=True
    )
    encoder = paddle.nn.TransformerEncoder(layer, size.layers, paddle.nn.LayerNorm(size.width))

    def run() -> None:
        for _ in range(size.passes):
            encoder(paddle.randn([size.batch, size.length, size.width])).square().mean().backward()
            encoder.clear_gradients()

    return run


def seconds(function: Callable[[], None]) -> float:
    """Processor seconds of one call."""
    start = time.process_time()
    function()
    return time.process_time() - start


def floor() -> Any:
    """A compare mode that runs both kernels at every call, forward and backward, and neither judges nor records anything."""
    mode = padiff_shim.compare("torch", progress=False)
    plan = mode._plan
    plan.judge, plan.outcome.record = (lambda case: numerics.equal(case.mine)), (lambda *_: {"muted": True})
    return mode


class Held:
    """A mode held open over all rounds but active only while its way is timed; its log goes to a temporary folder."""

    def __init__(self, make: Callable[[], Any] | None, function: Callable[[], None]) -> None:
        self.mode = make() if make is not None else None
        self.function = function

    def __call__(self) -> float:
        if self.mode is None:
            return seconds(self.function)
        with self.mode:
            return seconds(self.function)


NATIVE, SUBSTITUTED, FULL = "native", "substituted", "compare"


def ways(size: Size) -> dict[str, Held]:
    """What is timed."""
    function = program(size)
    compare = padiff_shim.compare
    makers: dict[str, Callable[[], Any] | None] = {
        NATIVE: None,
        SUBSTITUTED: lambda: padiff_shim.reference("torch"),
        "both kernels, no verdict, no record": floor,
        FULL: lambda: compare("torch", progress=False),
        "compare, screening=True": lambda: compare("torch", screening=True, progress=False),
        "compare, every=10": lambda: compare("torch", every=10, progress=False),
        'compare, budget="10%"': lambda: compare("torch", budget="10%", progress=False),
        "compare, shadow=True": lambda: compare("torch", shadow=True, progress=False),
    }
    return {name: Held(make, function) for name, make in makers.items()}


def measure(size: Size, rounds: int) -> dict[str, list[float]]:
    """Seconds of one pass in every round, per way."""
    todo = ways(size)
    for way in todo.values():
        for _ in range(LEARNING):
            way()
    seconds: dict[str, list[float]] = {name: [] for name in todo}
    names = list(todo)
    for turn in track(range(rounds), description="timing", console=Console(stderr=True), transient=True):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            gc.collect()
            seconds[name].append(todo[name]() / size.passes)
    return seconds


HEADER = ["way", "ms (best)", "/ native", "/ (native + substituted)"]


def rows(seconds: dict[str, list[float]]) -> list[list[str]]:
    """The table."""
    table = []
    for name, times in seconds.items():
        native = statistics.median(t / n for t, n in zip(times, seconds[NATIVE], strict=True))
        both = statistics.median(t / (n + s) for t, n, s in zip(times, seconds[NATIVE], seconds[SUBSTITUTED], strict=True))
        table.append([name, f"{min(times) * 1e3:.1f}", f"{native:.2f}", f"{both:.2f}"])
    return table


def main() -> int:
    """Measure, print, and write Markdown if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="also write the table there, below its mark if it has one")
    args = parser.parse_args()
    torch.set_num_threads(1)
    tables = [(name, HEADER, rows(measure(size, args.rounds))) for name, size in SIZES.items()]
    console = Console(width=None if sys.stdout.isatty() else 130)
    for table in tables:
        console.print(shown(*table), "")
    facts = machine()
    console.print("\n".join(facts), highlight=False)
    if args.markdown:
        text = args.markdown.read_text().partition(MARK)[0] if args.markdown.exists() else ""
        lines = ["Measured on", *[f"- {fact}" for fact in facts], "", *[markdown(*table) for table in tables]]
        args.markdown.write_text(f"{text}{MARK}\n" + "\n".join(lines).rstrip() + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
