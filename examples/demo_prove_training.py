"""Is a port trained as its original is? The zoo's trainings proven step by step, and mistakes planted into the Paddle half's.

`python examples/demo_prove_training.py` prints a row for each; it fails if a right training is accused, or a mistake is not named.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from demo_prove import PaddleStep, TorchStep
from rich.console import Console
from tables import new_progress, new_table
from zoo.pairs import build
from zoo.training import Recipe, paddle_optimizer, torch_optimizer

import padiff_shim

MODELS = ("gpt", "llama", "t5", "vit", "resnet", "tagger")
STEPS, OF = 4, 8  # steps that are proven, of a training of so many
RECIPE = Recipe(rate=2e-3, schedule="warmup", decay=0.1, clip=0.05)


class Planted(NamedTuple):
    """A mistake: what is otherwise in the Paddle half's recipe, or how its step is made; and words of the cause."""

    name: str
    change: dict[str, Any]
    cause: str
    step: Callable[[Any, Any], Callable[[], None]] | None = None


def _uncleared(optimizer: Any, schedule: Any) -> Callable[[], None]:
    def step() -> None:
        optimizer.step()
        schedule.step()

    return step


def _early(optimizer: Any, schedule: Any) -> Callable[[], None]:
    def step() -> None:
        schedule.step()
        optimizer.step()
        optimizer.clear_grad()

    return step


MISTAKES = (
    Planted("weight decay", {"decay": 0.01}, "weight_decay=0.01 against 0.1"),
    Planted("decay in the gradient", {"optimizer": "Adam"}, "weight decay is added to the gradient"),
    Planted("betas of GANs", {"optimizer": "Adam of GANs"}, "beta1="),
    Planted("another optimizer", {"optimizer": "Momentum"}, "another optimizer"),
    Planted("learning rate", {"rate": 1e-3}, "another learning rate"),
    Planted("another schedule", {"schedule": "cosine"}, "another learning rate"),
    Planted("schedule before the step", {}, "one step early", _early),
    Planted("no clipping", {"clip": None}, "another clipping"),
    Planted("clipped to less", {"clip": 0.02}, "another clipping"),
    Planted("gradients not cleared", {}, "gradients are not cleared", _uncleared),
)


class Row(NamedTuple):
    """What became of one training."""

    model: str
    what: str
    proof: padiff_shim.Proof
    good: bool


def torch_training(module: torch.nn.Module) -> Callable[[], None]:
    """The original's optimizer, schedule and clipping."""
    optimizer, schedule = torch_optimizer(module.parameters(), RECIPE, OF)

    def step() -> None:
        torch.nn.utils.clip_grad_norm_(module.parameters(), RECIPE.clip)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()

    return step


def training(model: str, planted: Planted | None = None) -> Row:
    """Prove some steps of a model of the zoo with its dropout; with a mistake in how it is trained."""

    def paddle_training(layer: Any) -> Any:
        recipe = RECIPE._replace(**planted.change) if planted else RECIPE
        optimizer, schedule = paddle_optimizer(layer.parameters(), recipe, OF)
        return planted.step(optimizer, schedule) if planted and planted.step else (optimizer, schedule)

    pair = build(model, "float32", dropout=True)
    port, original = PaddleStep(pair.paddle, pair.module), TorchStep(pair.torch, pair.module)
    optimizers = (paddle_training, torch_training)
    proof = padiff_shim.prove(port, original, dict(pair.arrays), phase="train", optimizer=optimizers, steps=STEPS)
    named = any(planted.cause in str(mistake) for mistake in proof.mistakes) if planted else bool(proof)
    return Row(model, planted.name if planted else "right", proof, named)


def main() -> int:
    """Prove all, print the table; 1 if something is not as it should be."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", help=f"of {', '.join(MODELS)} (default: all right, mistakes in the first)")
    names = parser.parse_args().models or MODELS
    console = Console()
    jobs = [(model, None) for model in names] + [(names[0], planted) for planted in MISTAKES]
    with new_progress(console, transient=True) as progress:
        rows = [training(*job) for job in progress.track(jobs, description="training")]
    table = new_table("training", "Paddle half", "verdict", "named", "native", "seconds", "headline")
    for row in rows:
        proof, named = row.proof, ("yes" if row.good else "NO") if row.what != "right" else ""
        cells = (named, f"{proof.differences['native']:.1e}", f"{proof.seconds:.1f}", proof.headline.partition(" at ")[0])
        table.add_row(row.model, row.what, str(proof.verdict), *cells)
    console.print(table)
    good = sum(row.good for row in rows)
    console.print(f"{good} of {len(rows)}: right trainings proven for {STEPS} steps, mistakes named with both values")
    return int(good < len(rows))


if __name__ == "__main__":
    sys.exit(main())
