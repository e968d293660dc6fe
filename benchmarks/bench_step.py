"""What a training step costs: a pre-LN Transformer in Paddle, native and under `reference("torch")`, and its Torch twin.

Beside it chains of small ops. All three ways are timed in turns in one process, on one thread; times and ratios are medians over
the rounds. Each row of the first table also says how many of the parameters' gradients are the twin's bit for bit, so that what is
timed is known to be the same.
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
sys.path.append(str(Path(__file__).resolve().parent.parent / "examples"))  # the models are those of the demo

import numpy as np

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message="No ccache found")  # Paddle's advice for compiling; nothing is compiled here
    import paddle
import digits_paddle
import digits_torch
import torch
from bench_call import markdown, shown
from digits_data import Config
from machine import machine
from rich.console import Console
from rich.progress import track
from timing import PADDLE, SHIM, TORCH, Timing, Ways, in_turns

import padiff_shim
from padiff_shim.frameworks import weight_copies

BEGIN, END = "<!-- begin: written by bench_step.py -->", "<!-- end: written by bench_step.py -->"
LINKS = 20  # ops of a chain
ISLAND = "cos"  # an op that is left native


class Size(NamedTuple):
    """A model and its input."""

    width: int
    batch: int
    length: int
    layers: int

    def __str__(self) -> str:
        return f"{self.width}, {self.batch}x{self.length}, {self.layers}"


SIZES = (Size(32, 2, 8, 2), Size(64, 8, 16, 2), Size(256, 8, 64, 4), Size(768, 4, 128, 2))


class Step:
    """The same Transformer in both frameworks, with equal weights and inputs."""

    def __init__(self, size: Size) -> None:
        config = Config(width=size.width, layers=size.layers)
        paddle.seed(0)
        self.ours = paddle.nn.Sequential(*[digits_paddle.EncoderLayer(config) for _ in range(size.layers)])
        self.twin = torch.nn.Sequential(*[digits_torch.EncoderLayer(config) for _ in range(size.layers)])
        digits_torch.load_paddle_state(self.twin, {name: tensor.numpy() for name, tensor in self.ours.state_dict().items()})
        shape = (size.batch, size.length, size.width)
        values = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
        self.x, self.twin_x = paddle.to_tensor(values), torch.tensor(values)

    def forward(self) -> Ways:
        """The ways to run the model without gradients."""

        def ours() -> None:
            with paddle.no_grad():
                self.ours(self.x)

        def twin() -> None:
            with torch.no_grad():
                self.twin(self.twin_x)

        return {PADDLE: ours, SHIM: ours, TORCH: twin}

    def both(self) -> Ways:
        """The ways to run forward and backward."""
        parameters = self.ours.parameters()

        def ours() -> None:
            (self.ours(self.x) ** 2).mean().backward()
            for parameter in parameters:  # dropped, as Torch's zero_grad does, and not filled with zeros
                parameter.clear_gradient(False)

        def twin() -> None:
            (self.twin(self.twin_x) ** 2).mean().backward()
            self.twin.zero_grad()

        return {PADDLE: ours, SHIM: ours, TORCH: twin}

    def identical(self) -> dict[str, str]:
        """How many parameters' gradients are the twin's bit for bit, per way."""
        (self.twin(self.twin_x) ** 2).mean().backward()
        turned = digits_torch.turned(self.twin)
        grads = {name: p.grad.t() if name in turned else p.grad for name, p in self.twin.named_parameters() if p.grad is not None}
        self.twin.zero_grad()

        def count() -> str:
            (self.ours(self.x) ** 2).mean().backward()
            equal = [grads[name].numpy().tobytes() == p.grad.numpy().tobytes() for name, p in self.ours.named_parameters()]
            self.ours.clear_gradients()
            return f"{sum(equal)} of {len(equal)}"

        native = count()
        with padiff_shim.reference("torch"):
            return {PADDLE: native, SHIM: count()}


def cells(timing: Timing, digits: int) -> list[str]:
    """Milliseconds of the three ways, then the ratios of the medians over the rounds."""
    times = [statistics.median(timing.rounds[way]) * 1e3 for way in (PADDLE, SHIM, TORCH)]
    ratios = [timing.ratio(*pair) or 0.0 for pair in ((PADDLE, TORCH), (SHIM, TORCH), (SHIM, PADDLE))]
    return [*[f"{value:.{digits}f}" for value in times], *[f"{ratio:.2f}" for ratio in ratios]]


TIMES = ["native ms", "shim ms", "torch ms", "native / torch", "shim / torch", "shim / native"]
STEPS = ["width, batch x length, layers", "pass", *TIMES, "gradients equal: native", "shim"]


def settle(step: Callable[[], Any]) -> None:
    """Have the mode learn what it learns once, such as which products need no copy of their weights."""
    with padiff_shim.reference("torch"):
        for _ in range(weight_copies.WORTH + 1):
            step()


def step_rows(sizes: tuple[Size, ...], rounds: int, budget: float) -> list[list[str]]:
    """The table of Transformers."""
    rows = []
    for size in track(sizes, description="steps", console=Console(stderr=True), transient=True):
        step = Step(size)
        settle(step.both()[SHIM])
        rows.append([str(size), "forward, no grad", *cells(in_turns(step.forward(), rounds, budget), 2), "", ""])
        same = step.identical()
        rows.append([str(size), "forward + backward", *cells(in_turns(step.both(), rounds, budget), 2), same[PADDLE], same[SHIM]])
    return rows


class Lone(NamedTuple):
    """A few calls in both frameworks that take one 8x8 matrix and give one; ``ops`` of them are what the row is about."""

    name: str
    ours: Callable[[Any], Any]
    theirs: Callable[[Any], Any]
    ops: int = LINKS
    grad: bool = True
    exclude: tuple[str, ...] = ()  # ops that the mode leaves native


def _chain(op: Callable[[Any], Any], times: int = LINKS) -> Callable[[Any], Any]:
    def links(x: Any) -> Any:
        x = x * 2.0  # no leaf: what follows is on the tape
        for _ in range(times):
            x = op(x)
        return x

    return links


def lone_ops() -> list[Lone]:
    """What is measured beside the Transformers."""
    half = LINKS // 2
    return [
        Lone("one matmul, no grad", lambda x: paddle.matmul(x, x), lambda x: torch.matmul(x, x), 1, grad=False),
        Lone("one matmul, forward + backward", lambda x: paddle.matmul(x, x), lambda x: torch.matmul(x, x), 1),
        Lone(
            f"chain of {LINKS} elementwise ops (tanh, add), no grad",
            _chain(lambda x: paddle.tanh(x) + x, half),
            _chain(lambda x: torch.tanh(x) + x, half),
            grad=False,
        ),
        Lone(
            f"chain of {LINKS} elementwise ops (tanh, add), forward + backward",
            _chain(lambda x: paddle.tanh(x) + x, half),
            _chain(lambda x: torch.tanh(x) + x, half),
        ),
        Lone(
            f"chain of {LINKS} views (transpose), forward + backward",
            _chain(lambda x: x.transpose([1, 0])),
            _chain(lambda x: x.permute(1, 0)),
        ),
        Lone(f"chain of {LINKS} islands ({ISLAND}), forward + backward", _chain(paddle.cos), _chain(torch.cos), exclude=(ISLAND,)),
    ]


LONE = ["8x8 float32", *TIMES, "shim - native µs per op"]


def lone_rows(rounds: int, budget: float) -> list[list[str]]:
    """The table of single calls and chains."""
    rows = []
    values = np.random.default_rng(0).standard_normal((8, 8), dtype=np.float32)
    for case in track(lone_ops(), description="small", console=Console(stderr=True), transient=True):
        x, twin_x = paddle.to_tensor(values, stop_gradient=not case.grad), torch.tensor(values, requires_grad=case.grad)
        seed, twin_seed = paddle.ones([8, 8]), torch.ones(8, 8)

        def run(case: Lone = case, x: Any = x, seed: Any = seed) -> None:
            result = case.ours(x)
            if case.grad:
                result.backward(seed)
                x.clear_gradient(False)

        def twin(case: Lone = case, x: Any = twin_x, seed: Any = twin_seed) -> None:
            result = case.theirs(x)
            if case.grad:
                result.backward(seed)
                x.grad = None

        timing = in_turns({PADDLE: run, SHIM: run, TORCH: twin}, rounds, budget, case.exclude)
        over = statistics.median(timing.rounds[SHIM]) - statistics.median(timing.rounds[PADDLE])
        rows.append([case.name, *cells(timing, 4), f"{over * 1e6 / case.ops:+.1f}"])
    return rows


def written(text: str, tables: str, begin: str = BEGIN, end: str = END) -> str:
    """``text`` with what stands between the marks exchanged; with the marks at its end if it has none."""
    before, _, rest = text.partition(begin)
    after = rest.partition(end)[2]
    return f"{before}{begin}\n{tables.rstrip()}\n{end}{after or chr(10)}"


def main() -> int:
    """Measure, print, and write Markdown if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the two small models and few rounds: some seconds")
    parser.add_argument("--small", action="store_true", help="the table of small ops alone, printed")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="also write the tables there, between their marks")
    args = parser.parse_args()
    if args.small and args.markdown:
        parser.error("--markdown writes both tables: leave out --small")
    torch.set_num_threads(1)
    rounds, budget = (5, 0.02) if args.quick else (11, 0.1)
    tables = [] if args.small else [("Cost of a step", STEPS, step_rows(SIZES[:2] if args.quick else SIZES, rounds, budget))]
    tables.append(("Cost of small ops", LONE, lone_rows(rounds, budget / 2)))
    console = Console(width=None if sys.stdout.isatty() else 160)
    for table in tables:
        console.print(shown(*table), "")
    facts = machine()
    console.print("\n".join(facts), highlight=False)
    if args.markdown:
        lines = ["Measured on", *[f"- {fact}" for fact in facts], "", *["#" + markdown(*table) for table in tables]]
        args.markdown.write_text(written(args.markdown.read_text() if args.markdown.exists() else "", "\n".join(lines)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
