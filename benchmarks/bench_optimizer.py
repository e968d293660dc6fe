"""What an optimizer's step and a whole training step cost: native Paddle, under `reference("torch")`, and Torch's own.

The parameters are those of a Transformer. All ways are timed in turns in one process, on one thread; times and ratios are medians
over the rounds. The last column says how many parameters of a smaller one are the twin's bit for bit after three steps.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from bench_step import Size, Step, digits_torch, markdown, paddle, settle, shown, torch, written
from machine import machine
from rich.console import Console
from rich.progress import track
from timing import DEFINED, PADDLE, SHIM, TORCH, Timing, Ways, in_turns

import padiff_shim

SIZE, SMALL = Size(256, 8, 64, 4), Size(64, 8, 16, 2)
RATE, FALLS = 1e-5, 0.999
BEGIN, END = "<!-- begin: written by bench_optimizer.py -->", "<!-- end: written by bench_optimizer.py -->"
STEPS = 3  # after which parameters are compared


class Kind(NamedTuple):
    """An optimizer in both frameworks; without a twin Torch has none."""

    ours: str
    options: dict[str, Any]
    twin: str
    twin_options: dict[str, Any]


KINDS = {
    "SGD": Kind("SGD", {}, "SGD", {}),
    "Momentum": Kind("Momentum", {}, "SGD", {"momentum": 0.9}),
    "Adam": Kind("Adam", {}, "Adam", {}),
    "Adam, weight decay": Kind("Adam", {"weight_decay": 0.01}, "Adam", {"weight_decay": 0.01}),
    "AdamW": Kind("AdamW", {}, "AdamW", {}),
    "Adamax": Kind("Adamax", {}, "Adamax", {}),
    "Adagrad": Kind("Adagrad", {}, "Adagrad", {"eps": 1e-6}),
    "Adadelta": Kind("Adadelta", {}, "Adadelta", {"rho": 0.95, "eps": 1e-6}),
    "RMSProp": Kind("RMSProp", {"rho": 0.9, "epsilon": 1e-8}, "RMSprop", {"alpha": 0.9}),
    "NAdam": Kind("NAdam", {}, "NAdam", {}),
    "RAdam": Kind("RAdam", {}, "RAdam", {}),
    "Rprop": Kind("Rprop", {}, "Rprop", {"step_sizes": (1e-5, 50)}),
    "Lamb": Kind("Lamb", {}, "", {}),
}


class Limit:
    """A limit of the gradients' norm that falls, so that each step clips what the last one has left."""

    def __init__(self, grads: list[Any]) -> None:
        self.now = torch.nn.utils.get_total_norm(grads).item()

    def next(self) -> float:
        self.now *= FALLS
        return self.now


def ways(step: Step, kind: Kind, *, clip: bool) -> Ways:
    """The same step in both frameworks; with ``clip`` after the gradients were clipped by their global norm."""
    params = list(step.twin.parameters())
    limits = [Limit([param.grad for param in params]) for _ in range(2)]
    clipper = paddle.nn.ClipGradByGlobalNorm(1.0) if clip else None
    ours = getattr(paddle.optimizer, kind.ours)(RATE, parameters=step.ours.parameters(), grad_clip=clipper, **kind.options)

    def mine() -> None:
        if clipper is not None:
            clipper.clip_norm = limits[0].next()
        ours.step()

    ways: Ways = {PADDLE: mine, SHIM: mine, DEFINED: mine}
    if kind.twin:
        theirs = getattr(torch.optim, kind.twin)(params, lr=RATE, **kind.twin_options)

        def twin() -> None:
            if clip:
                torch.nn.utils.clip_grad_norm_(params, limits[1].next())
            theirs.step()

        ways[TORCH] = twin
    return ways


def training(step: Step) -> Ways:
    """A whole step: forward, loss, backward, clipping, AdamW with a schedule, gradients dropped."""
    schedule = paddle.optimizer.lr.CosineAnnealingDecay(RATE, T_max=10_000)
    clipper = paddle.nn.ClipGradByGlobalNorm(1e-3)
    ours = paddle.optimizer.AdamW(schedule, parameters=step.ours.parameters(), grad_clip=clipper)
    params = list(step.twin.parameters())
    theirs = torch.optim.AdamW(params, lr=RATE)
    falls = torch.optim.lr_scheduler.CosineAnnealingLR(theirs, T_max=10_000)

    def mine() -> None:
        (step.ours(step.x) ** 2).mean().backward()
        ours.step()
        schedule.step()
        ours.clear_grad(False)

    def twin() -> None:
        (step.twin(step.twin_x) ** 2).mean().backward()
        torch.nn.utils.clip_grad_norm_(params, 1e-3)
        theirs.step()
        falls.step()
        theirs.zero_grad()

    return {PADDLE: mine, SHIM: mine, DEFINED: mine, TORCH: twin}


def filled(step: Step) -> Step:
    """With gradients on both sides."""
    with padiff_shim.reference("torch"):
        (step.ours(step.x) ** 2).mean().backward()
    (step.twin(step.twin_x) ** 2).mean().backward()
    return step


def equal(build: Callable[[Step], Ways], *, gradients: bool) -> str:
    """How many parameters are the twin's bit for bit after steps with Torch's definition, from equal ones."""
    step = filled(Step(SMALL)) if gradients else Step(SMALL)
    both = build(step)
    if TORCH not in both:
        return ""
    with padiff_shim.reference("torch", optimizer="torch"):
        for _ in range(STEPS):
            both[DEFINED]()
            both[TORCH]()
    turned = digits_torch.turned(step.twin)
    pairs = zip(step.ours.named_parameters(), step.twin.named_parameters(), strict=True)
    cases = [
        mine.numpy().tobytes() == (theirs.detach().t() if name in turned else theirs.detach()).contiguous().numpy().tobytes()
        for (_, mine), (name, theirs) in pairs
    ]
    return f"{sum(cases)} of {len(cases)}"


COLUMNS = ["native ms", "shim ms", 'optimizer="torch" ms', "torch ms"]
COLUMNS += ["native / torch", "shim / torch", 'optimizer="torch" / torch', "equal"]


def cells(timing: Timing, same: str) -> list[str]:
    """Milliseconds of the ways, ratios of the medians over the rounds, and what was equal."""
    order = (PADDLE, SHIM, DEFINED, TORCH)
    times = [f"{statistics.median(timing.rounds[way]) * 1e3:.2f}" if way in timing.rounds else "" for way in order]
    ratios = [timing.ratio(way, TORCH) for way in order[:3]]
    return [*times, *[f"{ratio:.2f}" if ratio else "" for ratio in ratios], same]


def optimizer_rows(names: list[str], rounds: int, budget: float) -> list[list[str]]:
    """The table of optimizers."""
    rows = []
    step = filled(Step(SIZE))
    cases = [(name, clip) for name in names for clip in (False, True)]
    for name, clip in track(cases, description="optimizers", console=Console(stderr=True), transient=True):

        def build(of: Step, name: str = name, clip: bool = clip) -> Ways:
            return ways(of, KINDS[name], clip=clip)

        same = equal(build, gradients=True)
        rows.append([f"{name}{', clipped' if clip else ''}", *cells(in_turns(build(step), rounds, budget), same)])
    return rows


def training_rows(rounds: int, budget: float) -> list[list[str]]:
    """The table of whole training steps."""
    same = equal(training, gradients=False)
    step = Step(SIZE)
    seconds = training(step)
    settle(seconds[SHIM])
    name = "forward, loss, backward, clipping, AdamW with a schedule, clear_grad"
    return [[name, *cells(in_turns(seconds, rounds, budget), same)]]


def main() -> int:
    """Measure, print, and write Markdown if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kinds", nargs="*", help=f"optimizers (default: all): {', '.join(KINDS)}; or training, for that row alone")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--budget", type=float, default=0.15, help="seconds for each way in a round")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="also write all tables there, between their marks")
    arguments = parser.parse_args()
    if unknown := [kind for kind in arguments.kinds if kind not in (*KINDS, "training")]:
        parser.error(f"no such optimizer: {', '.join(unknown)}; there are {', '.join(KINDS)}, and training")
    if arguments.kinds and arguments.markdown:
        parser.error("--markdown writes all tables: name no optimizers")
    torch.set_num_threads(1)
    names = [kind for kind in arguments.kinds if kind in KINDS] if arguments.kinds else list(KINDS)
    tables = []
    if names:
        title = f"An optimizer's step: 60 parameters of a Transformer ({SIZE})"
        tables.append((title, ["step", *COLUMNS], optimizer_rows(names, arguments.rounds, arguments.budget)))
    if not arguments.kinds or "training" in arguments.kinds:
        tables.append(
            (
                f"A training step of a Transformer ({SIZE})",
                ["step", *COLUMNS],
                training_rows(arguments.rounds, 3 * arguments.budget),
            )
        )
    console = Console(width=None if sys.stdout.isatty() else 180)
    for table in tables:
        console.print(shown(*table), "")
    facts = machine()
    console.print("\n".join(facts), highlight=False)
    if arguments.markdown:
        lines = ["Measured on", *[f"- {fact}" for fact in facts], "", *["#" + markdown(*table) for table in tables]]
        arguments.markdown.write_text(written(arguments.markdown.read_text(), "\n".join(lines), BEGIN, END))
    return 0


if __name__ == "__main__":
    sys.exit(main())
