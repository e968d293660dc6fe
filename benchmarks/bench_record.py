"""What recording fingerprints costs: a 4-layer GPT and a tiny network, natively and recorded in turns, in either order, one thread.

Ratios are medians of the rounds' own ratios, in processor time, so that a change of the machine's speed meets both alike. Then two
long runs of a small network are compared: seconds of ``padiff_shim.diff``, and memory at the peak, in a process of its own.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when the frameworks are imported

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message="No ccache found")  # Paddle's advice for compiling; nothing is compiled here
    import paddle
import numpy as np
from bench_call import markdown, shown
from machine import machine
from rich.console import Console

import padiff_shim

ROOT = Path(__file__).resolve().parents[1]
MARK = "<!-- below: written by bench_record.py -->"
WORDS, TOKENS = 1000, 128


class Block(paddle.nn.Layer):
    """Attention and a feed-forward network."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.after = paddle.nn.LayerNorm(width), paddle.nn.LayerNorm(width)
        self.joint, self.out = paddle.nn.Linear(width, 3 * width), paddle.nn.Linear(width, width)
        self.up, self.act, self.down = paddle.nn.Linear(width, 4 * width), paddle.nn.GELU(), paddle.nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        """[batch, tokens, width] to the same."""
        batch, tokens, width = x.shape
        parts = paddle.split(self.joint(self.before(x)), 3, -1)
        query, key, value = (part.reshape([batch, tokens, self.heads, width // self.heads]) for part in parts)
        mixed = paddle.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.reshape([batch, tokens, width]))
        return x + self.down(self.act(self.up(self.after(x))))


class GPT(paddle.nn.Layer):
    """A language model."""

    def __init__(self, width: int, layers: int, words: int, tokens: int) -> None:
        super().__init__()
        self.words, self.places = paddle.nn.Embedding(words, width), paddle.nn.Embedding(tokens, width)
        self.blocks = paddle.nn.LayerList([Block(width, 4) for _ in range(layers)])
        self.norm, self.head = paddle.nn.LayerNorm(width), paddle.nn.Linear(width, words)

    def forward(self, tokens: Any) -> Any:
        """[batch, tokens] to logits."""
        x = self.words(tokens) + self.places(paddle.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def gpt(width: int, layers: int = 4, words: int = WORDS, shape: tuple[int, int] = (4, TOKENS)) -> tuple[Any, Callable[[], Any]]:
    """A GPT with AdamW, and one step of it."""
    paddle.seed(0)
    model = GPT(width, layers, words, shape[1])
    optimizer = paddle.optimizer.AdamW(1e-3, parameters=model.parameters())
    tokens = paddle.to_tensor(np.random.default_rng(0).integers(0, words, shape))

    def step() -> None:
        loss = paddle.nn.functional.cross_entropy(model(tokens).reshape([-1, words]), tokens.reshape([-1]))
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()

    return model, step


def descent(model: Any) -> Callable[[], None]:
    """A step of SGD on the squares of what a model makes of 16 samples."""
    optimizer = paddle.optimizer.SGD(0.01, parameters=model.parameters())
    x = paddle.randn([16, 8])

    def step() -> None:
        (model(x) ** 2).mean().backward()
        optimizer.step()
        optimizer.clear_grad()

    return step


def tiny(_: int = 0) -> tuple[Any, Callable[[], Any]]:
    """Two Linears with SGD, and one step of them."""
    paddle.seed(0)
    model = paddle.nn.Sequential(paddle.nn.Linear(8, 16), paddle.nn.ReLU(), paddle.nn.Linear(16, 4))
    return model, descent(model)


def deep() -> tuple[Any, Callable[[], Any]]:
    """A small network whose steps have 23 tensors, and one step of it."""
    paddle.seed(0)
    nn = paddle.nn
    model = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4))
    return model, descent(model)


def timed(step: Callable[[], Any], steps: int) -> float:
    """Processor seconds of a step."""
    start = time.process_time()
    for _ in range(steps):
        step()
    return (time.process_time() - start) / steps


def row(name: str, made: tuple[Any, Callable[[], Any]], steps: int, rounds: int, **options: Any) -> list[str]:
    """A line of the table."""
    model, step = made
    timed(step, 3)
    natives, recordeds, size = [], [], 0.0
    for turn in range(rounds):
        natives += [timed(step, steps)] if turn % 2 else []
        with tempfile.TemporaryDirectory() as folder:
            with padiff_shim.record(folder, model, **options) as recording:
                step()
                recordeds.append(timed(step, steps))
            size = sum(path.stat().st_size for path in Path(folder).iterdir()) / recording.records
        natives += [] if turn % 2 else [timed(step, steps)]
    ratio = statistics.median(recorded / native for recorded, native in zip(recordeds, natives))
    call = ", ".join(f"{option}={value!r}" for option, value in options.items())
    return [name, call, f"{min(natives) * 1e3:.2f}", f"{min(recordeds) * 1e3:.2f}", f"{ratio:.2f}", f"{size:.0f}"]


def floor(rounds: int) -> list[str]:
    """The step of the small GPT with its tensors looked at and copied, and nothing computed of them."""
    from padiff_shim.recording import fingerprints

    def nothing(rows: Any, size: int, dtype: str) -> tuple[Any, Any]:
        return np.zeros(len(rows), np.uint64), np.zeros((len(rows), len(fingerprints.FIGURES)))

    of_rows = fingerprints._of_rows
    fingerprints._of_rows = nothing  # type: ignore[assignment]
    try:
        return row("the same, copied and not computed", gpt(32, 2, 64, (2, 16)), 60, rounds, values="fingerprint")
    finally:
        fingerprints._of_rows = of_rows


COMPARE = """
import re, sys, time, padiff_shim
start = time.process_time()
difference = padiff_shim.diff(*sys.argv[1:3])
seconds = time.process_time() - start
peak = re.search(r"VmHWM:\\s*(\\d+) kB", open("/proc/self/status").read())[1]  # ru_maxrss counts the parent's memory, too
print(len(difference.steps), difference.counts.compared, seconds, int(peak) / 2**10)
"""


def compared(steps: int, **options: Any) -> list[str]:
    """Two long runs of four layers, the second with a weight changed after two thirds, compared."""
    with tempfile.TemporaryDirectory() as folder:
        for name, changed in (("a", -1), ("b", steps * 2 // 3)):
            model, step = deep()
            with padiff_shim.record(Path(folder, name), model, **options):
                for number in range(steps):
                    if number == changed:
                        model[0].weight.set_value(model[0].weight + 1e-6)
                    step()
        command = [sys.executable, "-c", COMPARE, f"{folder}/a", f"{folder}/b"]
        done = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    number, tensors, seconds, peak = map(float, done.stdout.split())
    return [str(options["values"]), f"{number:,.0f}", f"{tensors:,.0f}", f"{seconds:.1f}", f"{peak:.0f}"]


def main() -> int:
    """Measure, print, and write Markdown if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=10_000, help="of the long runs")
    parser.add_argument("--small", action="store_true", help="the GPT of 82 tensors alone, and how much of that is copying")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="also write the tables there, below its mark if it has one")
    args = parser.parse_args()
    fingerprint: dict[str, Any] = {"values": "fingerprint"}
    digest: dict[str, Any] = {"values": "digest", "parameters": True, "gradients": True}
    head = ["network", "record(...)", "native ms", "recorded ms", "ratio", "bytes a tensor"]
    small = row("GPT, 2 layers, width 32, 82 tensors", gpt(32, 2, 64, (2, 16)), 60, args.rounds, **fingerprint)
    small_rows = [small, floor(args.rounds)]
    if args.small:
        Console(width=None if sys.stdout.isatty() else 130).print(shown("A step", head, small_rows))
        return 0
    costs = [
        row("GPT, 4 layers, width 256", gpt(256), 4, args.rounds, **fingerprint),
        row("GPT, 4 layers, width 64", gpt(64), 10, args.rounds, **fingerprint),
        row("GPT, 4 layers, width 64", gpt(64), 2, 3, **digest),
        *small_rows,
        row("two Linears", tiny(), 400, args.rounds, **fingerprint),
        row("two Linears", tiny(), 400, args.rounds, **fingerprint, every=10),
        row("two Linears", tiny(), 50, 3, **digest),
    ]
    tables: list[tuple[str, list[str], list[list[str]]]] = [("A step", head, costs)]
    runs = [compared(args.steps, **fingerprint), compared(args.steps // 4, **digest)]
    tables.append(("padiff_shim.diff of two runs", ["values", "steps", "tensors", "processor seconds", "peak MiB"], runs))
    console = Console(width=None if sys.stdout.isatty() else 130)
    facts = machine()
    for table in tables:
        console.print(shown(*table), "")
    console.print("\n".join(facts), highlight=False)
    if args.markdown:
        text = args.markdown.read_text().partition(MARK)[0] if args.markdown.exists() else ""
        lines = ["Measured on", *[f"- {fact}" for fact in facts], "", *(markdown(*table) for table in tables)]
        args.markdown.write_text(f"{text}{MARK}\n" + "\n".join(lines).rstrip() + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
