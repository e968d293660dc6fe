"""What comparing costs a call: every op of the table on small tensors, forward and backward, and a recurrent network.

Each op's first sample is called on eight sets of operands in turn: natively, under `reference("torch")`, under `compare("torch")`,
and compared with a last bit planted into a third of Torch's results, so that none is equal and each needs a verdict. All ways are
timed in turns within one process, in processor time; a ratio is the median over the rounds of that round's own ratio. The first
call is that of a fresh mode, in a process that has made no comparison of the op before.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when the frameworks are imported

import numpy as np

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message="No ccache found")  # Paddle's advice for compiling; nothing is compiled here
    import paddle
import torch
from bench_call import markdown, shown
from bench_step import written
from machine import machine
from rich.console import Console
from rich.progress import track

import padiff_shim
from padiff_shim.auditing.cases import AuditCall, cases
from padiff_shim.catalogue.registry import ops
from padiff_shim.testing import planted
from padiff_shim.verdicts import Verdict

BEGIN, END = "<!-- begin: written by bench_every_op.py -->", "<!-- end: written by bench_every_op.py -->"
NATIVE, REFERENCE, COMPARE, APART = "native", "reference", "compare", "compare, none equal"
WAYS = (NATIVE, REFERENCE, COMPARE, APART)
SETS, WARM = 8, 24  # sets of operands; calls before a way is timed
SHOWN = 12


class LastBit:
    """A third of the elements moved to their next neighbour: rounding, in each call other elements."""

    def __init__(self) -> None:
        self._random = torch.Generator().manual_seed(0)

    def __call__(self, result: torch.Tensor, *_: Any) -> torch.Tensor:
        if not result.is_floating_point():
            return result
        up = torch.rand(result.shape, generator=self._random) < 1 / 3
        return torch.where(up, torch.nextafter(result, torch.full_like(result, torch.inf)), result)


class Program:
    """Calls of one op, each with its backward, on one set of operands after the other."""

    def __init__(self, op: str) -> None:
        case = next(case for case in cases(op) if case.stress == "plain" and case.dtype == "float32")
        self.calls = [AuditCall(case) for _ in range(SETS)]
        self.seeds: dict[tuple[int, ...], Any] = {}
        for number, call in enumerate(self.calls):
            call.arrays = call.sample.arrays(np.random.default_rng(number), "float32")

    def run(self, times: int) -> float:
        """Processor seconds of one of so many calls."""
        seconds = 0.0
        for number in range(times):
            call = self.calls[number % SETS]
            operands = call.tensors(grad=True)
            start = time.process_time()
            results = call.run(operands)
            ends = [result for result in results if not result.stop_gradient and result.is_floating_point()][:1]
            if ends:
                paddle.autograd.backward(ends, [self._seed(ends[0])])
            seconds += time.process_time() - start
        return seconds / times

    def _seed(self, result: Any) -> Any:
        shape = tuple(result.shape)
        if shape not in self.seeds:
            self.seeds[shape] = paddle.to_tensor(np.random.default_rng(1).standard_normal(shape).astype("float32"))
        return self.seeds[shape]


class Recurrent:
    """Steps of a two-layer LSTM, forward and backward."""

    def __init__(self) -> None:
        paddle.seed(0)
        self.layer = paddle.nn.LSTM(64, 64, num_layers=2)
        self.batches = [np.random.default_rng(number).standard_normal((8, 32, 64)).astype("float32") for number in range(SETS)]

    def run(self, times: int) -> float:
        """Processor seconds of one of so many steps."""
        start = time.process_time()
        for number in range(times):
            self.layer(paddle.to_tensor(self.batches[number % SETS]))[0].square().mean().backward()
            self.layer.clear_gradients()
        return (time.process_time() - start) / times


def small_loop(op: Callable[[Any], Any]) -> type:
    """Programs of one function on [2, 3, 32, 32], followed by its mean: what numeric gradients are made of."""

    class Loop:
        def __init__(self) -> None:
            self.values = np.random.default_rng(0).random((2, 3, 32, 32)).astype("float32")

        def run(self, times: int) -> float:
            start = time.process_time()
            for _ in range(times):
                op(paddle.to_tensor(self.values, stop_gradient=False)).mean()
            return (time.process_time() - start) / times

    return Loop


PROGRAMS: dict[str, tuple[Callable[[], Any], str]] = {
    "LSTM: 2 layers, hidden 64, 32 steps, batch 8, a step": (Recurrent, "rnn"),
    "log_sigmoid of [2, 3, 32, 32] and its mean, forward": (small_loop(paddle.nn.functional.log_sigmoid), "logsigmoid"),
    "max_pool2d 3x3/1 of [2, 3, 32, 32] and its mean, forward": (
        small_loop(lambda x: paddle.nn.functional.max_pool2d(x, 3, 1)),
        "pool2d",
    ),
}


@contextlib.contextmanager
def opened(way: str, mode: Any, op: str) -> Iterator[Any]:
    """The mode of a way, with its plants."""
    with contextlib.ExitStack() as stack:
        if way == APART:
            stack.enter_context(planted(op, LastBit(), side="torch"))
            bit = LastBit()
            stack.enter_context(planted(op, lambda gradient, *_: bit(gradient), side="torch", gradients=True))
        yield stack.enter_context(mode) if mode is not None else None


def measured(program: Any, op: str, rounds: int, calls: int) -> dict[str, Any]:
    """Seconds of each way, the median of its ratio to native, the first call, and whether a kernel is accused."""
    first = modes()
    program.run(WARM)  # natively
    with opened(COMPARE, first[COMPARE], op):
        start = program.run(1)
    every, runs = modes(), {}
    for way in WAYS:
        with opened(way, every[way], op) as runs[way]:
            program.run(min(WARM, calls))
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    for turn in range(rounds):
        for way in WAYS[turn % len(WAYS) :] + WAYS[: turn % len(WAYS)]:
            with opened(way, every[way], op):
                seconds[way].append(program.run(calls))
    hard = sum(count for name, count in runs[COMPARE].verdicts.items() if Verdict(name).severity > Verdict.UNVERIFIED.severity)
    return {
        "first": start,
        "accused": hard,
        **{way: statistics.median(seconds[way]) for way in WAYS},
        "ratios": {
            way: statistics.median(a / b for a, b in zip(seconds[way], seconds[NATIVE], strict=True))
            for way in WAYS
            if way != NATIVE
        },
    }


def modes() -> dict[str, Any]:
    """A mode for each way."""
    fresh = {way: padiff_shim.compare("torch", progress=False) for way in (COMPARE, APART)}
    return {NATIVE: None, REFERENCE: padiff_shim.reference("torch"), **fresh}


def worker(names: list[str], rounds: int, calls: int) -> None:
    """Measure these ops; a JSON object a line. A kernel may end the process."""
    padiff_shim.install()
    for name in names:
        print(json.dumps({"begin": name}), flush=True)
        try:
            row = measured(Program(name), name, rounds, calls)
        except Exception as error:  # no sample here, or a call that Paddle itself refuses
            row = {"refused": f"{type(error).__name__}: {str(error).splitlines()[0][:80] if str(error) else ''}"}
        print(json.dumps({"op": name, **row}), flush=True)


def in_processes(names: list[str], rounds: int, calls: int) -> Iterator[dict[str, Any]]:
    """What :func:`worker` measures, begun again behind an op that ended it."""
    command = [sys.executable, __file__, "--worker", "--rounds", str(rounds), "--calls", str(calls)]
    while names:
        with subprocess.Popen([*command, *names], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            assert process.stdout is not None
            begun = names[0]
            for line in process.stdout:
                row = json.loads(line) if line.startswith("{") else {}
                begun = row.get("begin", begun)
                if "op" in row:
                    names = names[names.index(row["op"]) + 1 :]
                    yield row
        if process.returncode and begun in names:
            names = names[names.index(begun) + 1 :]
            yield {"op": begun, "refused": "Paddle's own kernel ends the process"}


COLUMNS = ["native µs", *(f"{way} / native" for way in WAYS[1:]), "first ms"]


def cells(row: dict[str, Any]) -> list[str]:
    """A row's figures."""
    return [f"{row[NATIVE] * 1e6:.0f}", *(f"{row['ratios'][way]:.0f}" for way in WAYS[1:]), f"{row['first'] * 1e3:.0f}"]


def tables(rows: list[dict[str, Any]], programs: dict[str, dict[str, Any]]) -> list[tuple[str, list[str], list[list[str]]]]:
    """How the ratios spread, the dearest ops, those in which a kernel is accused, and the programs."""
    sound = [row for row in rows if "ratios" in row and not row["accused"]]
    accused = [row for row in rows if row.get("accused")]
    spread = []
    for way in WAYS[1:]:
        ratios = sorted(row["ratios"][way] for row in sound)
        marks = [ratios[int(share * (len(ratios) - 1))] for share in (0.5, 0.9, 1.0)] if ratios else []
        spread.append([way, str(len(ratios)), *(f"{mark:.0f}" for mark in marks), str(sum(ratio > 100 for ratio in ratios))])
    firsts = sorted(row["first"] for row in sound)

    def dearest(of: list[dict[str, Any]], way: str) -> list[list[str]]:
        return [[row["op"], *cells(row)] for row in sorted(of, key=lambda row: -row["ratios"][way])[:SHOWN]]

    longest = f"{firsts[-1] * 1e3:.0f} ms" if firsts else "-"
    return [
        (
            f"Every op, the ratio to native (longest first call: {longest})",
            ["way", "ops", "median", "90 %", "largest", "> 100"],
            spread,
        ),
        ("The dearest ops", ["op", *COLUMNS], dearest(sound, COMPARE)),
        ("The dearest where no result is equal", ["op", *COLUMNS], dearest(sound, APART)),
        ("The dearest in which a kernel is accused", ["op", *COLUMNS], dearest(accused, COMPARE)),
        ("Programs", ["program", *COLUMNS], [[name, *cells(row)] for name, row in programs.items()]),
    ]


def main() -> int:
    """Measure, print, and write Markdown if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ops", nargs="*", help="ops of the table (default: all that are compared)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--calls", type=int, default=32, help="calls of each way in a round")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="also write the tables there, between their marks")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if unknown := [name for name in options.ops if name not in ops()]:
        parser.error(f"no such op: {', '.join(unknown)}; docs/ops.md lists them")
    torch.set_num_threads(1)
    if options.worker:
        worker(options.ops, options.rounds, options.calls)
        return 0
    names = options.ops or [name for name, op in ops().items() if not op.exact]
    console = Console(width=None if sys.stdout.isatty() else 170)
    progress = Console(stderr=True)
    rows = list(track(in_processes(names, options.rounds, options.calls), "ops", len(names), console=progress, transient=True))
    padiff_shim.install()
    programs = {name: measured(make(), op, options.rounds, 8) for name, (make, op) in PROGRAMS.items()} if not options.ops else {}
    filled = [table for table in tables(rows, programs) if table[2]]
    for table in filled:
        console.print(shown(*table), "")
    left = [f"{row['op']} ({row['refused']})" for row in rows if "refused" in row]
    notes = [f"Not measured: {len(left)}: {'; '.join(left)}"] if left else []
    facts = machine()
    console.print("\n".join([*notes, *facts]), highlight=False)
    if options.markdown:
        lines = ["Measured on", *[f"- {fact}" for fact in facts], "", *["#" + markdown(*table) for table in filled], *notes]
        options.markdown.write_text(written(options.markdown.read_text(), "\n".join(lines), BEGIN, END))
    return 0


if __name__ == "__main__":
    sys.exit(main())
