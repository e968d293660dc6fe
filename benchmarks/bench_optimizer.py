"""What an optimizer's step costs: native Paddle, under `reference("torch")`, and Torch's own, on the parameters of a Transformer.

All three ways are timed in turns in one process, on one thread; times and ratios are medians over the rounds.
"""

from __future__ import annotations

import argparse
from typing import Any

from bench_step import TIMES, Size, Step, cells, markdown, paddle, torch
from rich.console import Console
from rich.progress import track
from timing import PADDLE, SHIM, TORCH, Ways, in_turns

import padiff_shim

SIZE = Size(256, 8, 64, 4)
RATE, LIMIT = 1e-6, 1.0
KINDS: dict[str, tuple[str, dict[str, Any], str, dict[str, Any]]] = {
    "AdamW": ("AdamW", {}, "AdamW", {}),
    "Adam, weight decay": ("Adam", {"weight_decay": 0.01}, "Adam", {"weight_decay": 0.01}),
    "Momentum": ("Momentum", {}, "SGD", {"momentum": 0.9}),
    "SGD": ("SGD", {}, "SGD", {}),
}


def ways(step: Step, kind: str, *, clip: bool) -> Ways:
    """The same step in both frameworks; with ``clip`` after the gradients were clipped by their global norm."""
    name, options, twin_name, twin_options = KINDS[kind]
    limit = {"grad_clip": paddle.nn.ClipGradByGlobalNorm(LIMIT)} if clip else {}
    ours = getattr(paddle.optimizer, name)(RATE, parameters=step.ours.parameters(), **limit, **options)
    params = list(step.twin.parameters())
    theirs = getattr(torch.optim, twin_name)(params, lr=RATE, **twin_options)

    def twin() -> None:
        if clip:
            torch.nn.utils.clip_grad_norm_(params, LIMIT)
        theirs.step()

    return {PADDLE: ours.step, SHIM: ours.step, TORCH: twin}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--budget", type=float, default=0.2, help="seconds for each way in a round")
    asked = parser.parse_args()
    step = Step(SIZE)
    with padiff_shim.reference("torch"):
        (step.ours(step.x) ** 2).mean().backward()
    (step.twin(step.twin_x) ** 2).mean().backward()
    rows = []
    cases = [(kind, clip) for kind in KINDS for clip in (False, True)]
    for kind, clip in track(cases, description="optimizers", console=Console(stderr=True), transient=True):
        timing = in_turns(ways(step, kind, clip=clip), asked.rounds, asked.budget)
        rows.append([f"{kind}{', clipped by the global norm' if clip else ''}", *cells(timing, 2)])
    title = f"An optimizer's step: {len(list(step.twin.parameters()))} parameters of a Transformer ({SIZE})"
    print(markdown(title, ["step", *TIMES], rows))


if __name__ == "__main__":
    main()
