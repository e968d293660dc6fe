"""What one call costs: native Paddle, under `reference("torch")`, through NumPy as ports do it by hand, and Torch itself.

All ways of a case are timed in turns within one process, so that a change of the machine's speed meets all of them alike:
microseconds are the best round, ratios the median of the rounds' own ratios. Every way runs on one thread.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when the frameworks are imported

import numpy as np

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message="No ccache found")  # Paddle's advice for compiling; nothing is compiled here
    import paddle
import torch
from machine import machine
from rich.console import Console
from rich.progress import track
from rich.table import Table
from timing import PADDLE, SHIM, TORCH, Ways, in_turns, seconds

import padiff_shim

NUMPY = "NumPy"
MARK = "<!-- below: written by bench_call.py -->"
PASSES = ("no grad", "forward", "forward + backward")


class Case(NamedTuple):
    """One call in both frameworks."""

    op: str
    size: int
    native: Callable[..., Any]
    twin: Callable[..., Any]
    operands: tuple[str, ...]  # "matrix" (size x size) or "vector" (size)

    def arrays(self) -> list[np.ndarray]:
        """The operands' values."""
        random = np.random.default_rng(0)
        shapes = {"matrix": (self.size, self.size), "vector": (self.size,)}
        return [random.standard_normal(shapes[kind], dtype=np.float32) for kind in self.operands]


def cases(quick: bool) -> list[Case]:
    """What is measured: matmul over all sizes, a few other ops small and middle."""
    two, affine = ("matrix", "matrix"), ("matrix", "matrix", "vector")
    sizes = (8, 128, 1024) if quick else (8, 32, 128, 512, 1024)
    cases = [Case("matmul", size, paddle.matmul, torch.matmul, two) for size in sizes]
    for size in (8,) if quick else (8, 256):
        cases += [
            Case("linear", size, paddle.nn.functional.linear, lambda x, w, b: torch.nn.functional.linear(x, w.t(), b), affine),
            Case(
                "layer_norm",
                size,
                lambda x, w, b: paddle.nn.functional.layer_norm(x, x.shape[-1:], w, b),
                lambda x, w, b: torch.nn.functional.layer_norm(x, x.shape[-1:], w, b),
                ("matrix", "vector", "vector"),
            ),
            Case("softmax", size, paddle.nn.functional.softmax, lambda x: torch.softmax(x, -1), ("matrix",)),
            Case("add", size, paddle.add, torch.add, two),
        ]
    return cases


def ways(case: Case, kind: str) -> Ways:
    """The ways to make the call; Paddle's and the shim's are the same code."""
    arrays, grad = case.arrays(), kind != "no grad"
    ours = [paddle.to_tensor(array, stop_gradient=not grad) for array in arrays]
    theirs = [torch.tensor(array, requires_grad=grad) for array in arrays]
    native, twin = case.native, case.twin
    if kind != "forward + backward":

        def through_numpy() -> Any:
            return paddle.to_tensor(twin(*[torch.tensor(x.numpy()) for x in ours]).numpy())

        plain: Ways = {PADDLE: lambda: native(*ours), SHIM: lambda: native(*ours), TORCH: lambda: twin(*theirs)}
        return plain if grad else {**plain, NUMPY: through_numpy}
    shape = (case.size, case.size)
    our_seed, their_seed = paddle.ones(shape), torch.ones(shape)

    def both() -> None:
        native(*ours).backward(our_seed)
        for x in ours:
            x.clear_gradient(False)

    def torch_both() -> None:
        twin(*theirs).backward(their_seed)
        for x in theirs:
            x.grad = None

    return {PADDLE: both, SHIM: both, TORCH: torch_both}


def call_rows(quick: bool) -> list[list[str]]:
    """The main table."""
    rounds, budget = (10, 0.004) if quick else (40, 0.005)
    rows = []
    todo = [(case, kind) for case in cases(quick) for kind in PASSES]
    for case, kind in track(todo, description="timing", console=Console(stderr=True), transient=True):
        timing = in_turns(ways(case, kind), rounds, budget)
        native, shim = timing.best(PADDLE), timing.best(SHIM)
        times = [f"{t:.1f}" if t is not None else "" for t in (native, shim, timing.best(NUMPY), timing.best(TORCH))]
        ratios = [f"{r:.2f}" if r is not None else "" for r in (timing.ratio(SHIM, PADDLE), timing.ratio(SHIM, TORCH))]
        rows.append([case.op, f"{case.size}x{case.size}", kind, *times, f"{shim - native:+.1f}", *ratios])  # type: ignore[operator]
    return rows


STEPS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {  # of a chain, in Paddle and in Torch
    "view": (lambda x: x.transpose([1, 0]), lambda x: x.permute(1, 0)),
    "island": (paddle.stanh, lambda x: 1.7159 * torch.tanh(0.67 * x)),  # an op that the table lacks
}
LONG = 100  # calls of a chain


def chain(step: Callable[[Any], Any], x: Any, seed: Any, kind: str) -> Callable[[], Any]:
    """Calls one after another; with them the backward of all."""

    def forward() -> Any:
        y = x * 2.0
        for _ in range(LONG):
            y = step(y)
        return y

    def both() -> None:
        forward().backward(seed)
        x.grad = None

    return both if kind == "forward + backward" else forward


def tape_rows(quick: bool) -> list[list[str]]:
    """What one call of a chain costs that is no kernel of Torch's."""
    rounds, budget = (10, 0.01) if quick else (40, 0.02)
    rows = []
    for name, (ours, theirs) in STEPS.items():
        for kind in PASSES[1:]:
            x, t = paddle.ones([8, 8]), torch.ones(8, 8, requires_grad=True)
            x.stop_gradient = False
            native = chain(ours, x, paddle.ones([8, 8]), kind)
            timing = in_turns({PADDLE: native, SHIM: native, TORCH: chain(theirs, t, torch.ones(8, 8), kind)}, rounds, budget)
            over = statistics.median(a - b for a, b in zip(timing.rounds[SHIM], timing.rounds[PADDLE], strict=True))
            each = [f"{timing.best(way) / LONG:.1f}" for way in (PADDLE, SHIM, TORCH)]  # type: ignore[operator]
            rows.append([name, kind, *each, f"{over / LONG * 1e6:+.1f}"])
    return rows


TAPED = ["call", "pass", "Paddle µs", "shim µs", "Torch µs", "shim - Paddle µs"]
CALLS = ["op", "size", "pass", "Paddle µs", "shim µs", "NumPy µs", "Torch µs", "shim - Paddle µs", "shim / Paddle", "shim / Torch"]


def opened() -> None:
    """A mode, opened and closed."""
    with padiff_shim.reference("torch"):
        pass


def mode_rows(first: float) -> list[list[str]]:
    """What a mode costs, apart from the calls in it."""
    x = paddle.ones([8, 8])
    matmul = paddle._C_ops.matmul
    again = [seconds(opened, 1) for _ in range(100)]
    padiff_shim.install()
    held = [seconds(opened, 1) for _ in range(100)]
    padiff_shim.uninstall()
    plain, passed = [], []
    for _ in range(40):
        plain.append(seconds(lambda: matmul(x, x, False, False), 300))
        padiff_shim.install()
        passed.append(seconds(lambda: matmul(x, x, False, False), 300))
        padiff_shim.uninstall()
    return [
        ["open and close the first mode of a process", f"{first * 1e3:.0f} ms"],
        ["open and close a mode again (median)", f"{statistics.median(again) * 1e6:.0f} µs"],
        ["the same after install() (median)", f"{statistics.median(held) * 1e6:.0f} µs"],
        ["a call outside of any mode after install(), beyond native", f"{(min(passed) - min(plain)) * 1e6:+.2f} µs"],
    ]


def torch_allocations(function: Callable[[], Any]) -> int:
    """Bytes that torch's CPU allocator gives out during a call."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        result = function()
    del result
    events = profile.profiler.kineto_results.events()
    return sum(max(0, event.nbytes()) for event in events if event.name() == "[memory]")


def paddle_peak(function: Callable[[], Any]) -> int:
    """Bytes by which Paddle's host allocator rises at most during a call."""
    core = paddle.base.core
    before = core.host_memory_stat_current_value("Allocated", 0)
    core.host_memory_stat_reset_peak_value("Allocated", 0)
    result = function()
    del result
    return core.host_memory_stat_peak_value("Allocated", 0) - before


def memory_rows() -> list[list[str]]:
    """Bytes that both allocators give out during a call under the shim, as multiples of the result."""
    rows = []
    size = 512
    results = {"no grad": 1, "forward": 1, "forward + backward": 3}  # the result, and the gradients of both operands
    for kind in PASSES:
        functions = ways(Case("matmul", size, paddle.matmul, torch.matmul, ("matrix", "matrix")), kind)
        with padiff_shim.reference("torch"):
            function = functions[SHIM]
            function()
            ours, theirs = torch_allocations(function), paddle_peak(function)
        functions[PADDLE]()
        native, twin = paddle_peak(functions[PADDLE]), torch_allocations(functions[TORCH])
        unit = size * size * 4
        rows.append([f"matmul {size}x{size}", kind, str(results[kind]), *[f"{b / unit:.3f}" for b in (ours, theirs, native, twin)]])
    return rows


MEMORY = ["call", "pass", "results", "shim: Torch allocates", "shim: Paddle peak", "Paddle alone: peak", "Torch alone: allocates"]


def markdown(title: str, header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table under a heading."""
    body = [header, ["---"] * len(header), *rows]
    return "\n".join([f"## {title}", "", *[f"| {' | '.join(row)} |" for row in body], ""])


def shown(title: str, header: list[str], rows: list[list[str]]) -> Table:
    """The same for a terminal."""
    table = Table(title=title, title_justify="left")
    for place, name in enumerate(header):
        table.add_column(name, justify="right" if place > 2 else "left")
    for row in rows:
        table.add_row(*row)
    return table


def main() -> int:
    """Measure, print, and write Markdown if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer sizes and rounds: some seconds")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="also write the tables there, below its mark if it has one")
    args = parser.parse_args()
    torch.set_num_threads(1)
    first = seconds(opened, 1)  # of the process; both frameworks are imported already
    tables = [
        ("Cost of a call", CALLS, call_rows(args.quick)),
        (f"Cost of a call between others, of {LONG}", TAPED, tape_rows(args.quick)),
        ("Cost of a mode", ["what", "cost"], mode_rows(first)),
        ("Memory, in multiples of the result's size", MEMORY, memory_rows()),
    ]
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
