"""Is a port right, and if not, where? Mistakes planted into four ports, one and three at a time, and right ports of every kind.

`python examples/demo_prove.py` prints a row for each; it fails if a right port is accused, or a mistake is not found.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import mistakes
import numpy as np
import paddle
import torch
from mistakes import Planted
from rich.console import Console
from tables import new_progress, new_table
from zoo import rewritten
from zoo.pairs import arrays_of, build, drop_nothing, module_of

import padiff_shim

MODELS = {"gpt": mistakes.GPT, "bert": mistakes.BERT, "resnet": mistakes.RESNET, "tagger": mistakes.LSTM}
INPUTS = {"gpt": ("tokens",), "bert": ("tokens", "kinds"), "resnet": ("images",), "tagger": ("tokens", "lengths")}
TOGETHER = {
    "gpt": ("gelu by erf", "no last norm", "positions"),
    "bert": ("epsilon 1e-5", "no kinds", "no tanh"),
    "resnet": ("no relu in the block", "average pool", "input scaled"),
    "tagger": ("scaled embedding", "sigmoid behind", "shifted tokens"),
}
RIGHT = ("gpt", "bert", "densenet", "llama", "mobilenet", "resnet", "t5", "tagger", "unet", "vae", "vit")


class Row(NamedTuple):
    """What became of one port: whether each of its mistakes was found at its line or weight, and its cause named."""

    model: str
    what: str
    verdict: str
    located: tuple[bool, ...]
    named: tuple[bool, ...]
    seconds: float
    headline: str


def planted_port(name: str, planted: list[Planted], folder: Path) -> Any:
    """The module of the zoo with mistakes in its source, imported from a file of its own."""
    source, original, rest = Path(importlib.import_module(f"zoo.{name}").__file__ or "").read_text().partition("class Torch")
    for mistake in planted:
        if mistake.old:
            if mistake.old not in source:
                raise SystemExit(f"{name} has no {mistake.old!r}")
            source = source.replace(mistake.old, mistake.new, 1)
    port = f"{name}_{len(list(folder.iterdir()))}"  # each its own file: Python keeps the lines of one that it has read
    path = folder / f"{port}.py"
    path.write_text(source + original + rest)
    return module_of(f"zoo.{port}", path)


def wrong_port(name: str, planted: list[Planted], folder: Path, dtype: str | None = None) -> Row:
    """Prove a port with mistakes; ``dtype``: None is float32."""
    module = planted_port(name, planted, folder)
    torch.manual_seed(0)
    theirs, ours = module.torch_model(), module.paddle_model()
    drop_nothing(theirs)
    drop_nothing(ours)
    weights = "torch->paddle"
    for mistake in planted:
        if mistake.change is not None:
            padiff_shim.transfer_weights(theirs, ours)
            mistake.change(ours)
            weights = "as-is"
    arrays = arrays_of(module, np.random.default_rng(0), "float32")
    proof = padiff_shim.prove(ours, theirs, tuple(arrays[key] for key in INPUTS[name]), weights=weights, dtype=dtype)
    located, named = zip(*(_told(mistake, proof) for mistake in planted))
    what = planted[0].name if len(planted) == 1 else "at once: " + ", ".join(mistake.name for mistake in planted)
    return Row(name, what, str(proof.verdict), located, named, proof.seconds, proof.answer)


def _told(planted: Planted, proof: padiff_shim.Proof) -> tuple[bool, bool]:
    """Whether a proof names the place of a mistake, and there its cause."""
    if planted.change is not None:
        return planted.where in proof.reason, str(proof.verdict) in planted.cause
    at = [
        mistake
        for mistake in proof.mistakes
        if any(
            place and (planted.where in place.layer or planted.where in place.source) for place in (mistake.paddle, mistake.torch)
        )
    ]
    return bool(at), any(str(mistake.cause) in planted.cause for mistake in at)


class PaddleStep(paddle.nn.Layer):
    """A model of the zoo with its loss."""

    def __init__(self, model: Any, module: Any) -> None:
        super().__init__()
        self.model, self._name = model, module.__name__

    def forward(self, **arrays: Any) -> Any:
        outputs, loss = sys.modules[self._name].paddle_step(self.model, **arrays)
        return {"outputs": outputs, "loss": loss}


class TorchStep(torch.nn.Module):
    """The same of the Torch half."""

    def __init__(self, model: Any, module: Any) -> None:
        super().__init__()
        self.model, self._name = model, module.__name__

    def forward(self, **arrays: Any) -> Any:
        outputs, loss = sys.modules[self._name].torch_step(self.model, **arrays)
        return {"outputs": outputs, "loss": loss}


def right_pair(name: str, dtype: str) -> Row:
    """Prove a pair of the zoo with its loss and all gradients."""
    pair = build(name, dtype)
    proof = padiff_shim.prove(PaddleStep(pair.paddle, pair.module), TorchStep(pair.torch, pair.module), dict(pair.arrays))
    return Row(name, f"right, {dtype}", str(proof.verdict), (bool(proof),), (), proof.seconds, proof.answer)


def right_rewritten(name: str, dtype: str | None = None) -> Row:
    """Prove a right port that is written otherwise."""
    original, port, shape = rewritten.PORTS[name]
    torch.manual_seed(0)
    proof = padiff_shim.prove(port(), original(), np.random.default_rng(0).standard_normal(shape), dtype=dtype)
    return Row("otherwise", f"right: {name}", str(proof.verdict), (bool(proof),), (), proof.seconds, proof.answer)


def jobs(folder: Path, models: list[str], dtype: str | None) -> list[Any]:
    """What is to be proven: functions that give a row."""
    ports: list[Any] = []
    for name in models:
        by_name = {mistake.name: mistake for mistake in MODELS[name]}
        ports += [lambda name=name, mistake=mistake: wrong_port(name, [mistake], folder, dtype) for mistake in MODELS[name]]
        ports.append(lambda name=name, at=[by_name[word] for word in TOGETHER[name]]: wrong_port(name, at, folder, dtype))
    ports += [
        lambda name=name, dtype=dtype: right_pair(name, dtype)
        for dtype in ([dtype] if dtype else ["float32", "float64"])
        for name in RIGHT
    ]
    return ports + [lambda name=name: right_rewritten(name, dtype) for name in rewritten.PORTS]


def mark(values: tuple[bool, ...]) -> str:
    """Yes or no, or how many of several."""
    return ("yes" if values[0] else "NO") if len(values) == 1 else f"{sum(values)} of {len(values)}" if values else ""


def main() -> int:
    """Prove all, print the table and the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="*", choices=MODELS, default=list(MODELS), help="whose planted mistakes")
    parser.add_argument("--verbose", action="store_true", help="the headline of each row")
    parser.add_argument("--dtype", choices=["bfloat16"], help="of models and inputs (default: float32 and float64)")
    options = parser.parse_args()
    console = Console()
    rows = []
    with tempfile.TemporaryDirectory() as folder, new_progress(console, transient=True) as progress:
        for job in progress.track(jobs(Path(folder), options.models, options.dtype), description="proving"):
            rows.append(job())
    table = new_table("model", "port", "verdict", "found", "cause named", "seconds", *(["headline"] if options.verbose else []))
    for row in rows:
        shown = [row.model, row.what, row.verdict, mark(row.located), mark(row.named), f"{row.seconds:.1f}"]
        table.add_row(*shown, *([row.headline] if options.verbose else []))
    console.print(table)
    return counted(console, rows)


def counted(console: Console, rows: list[Row]) -> int:
    """The counts that the demo is about; 1 if one of them is not what it should be."""
    wrong, right = [row for row in rows if row.named], [row for row in rows if not row.named]
    located, named = [each for row in wrong for each in row.located], [each for row in wrong for each in row.named]
    proven = sum(row.located[0] for row in right)
    console.print(
        f"mistakes: {sum(located)} of {len(located)} found at their line or weight, the cause of {sum(named)} named; "
        f"right ports: {proven} of {len(right)} proven, none accused" + ("" if proven == len(right) else " IS NOT TRUE")
    )
    return int(not all(located) or sum(named) < 0.9 * len(named) or proven < len(right))


if __name__ == "__main__":
    sys.exit(main())
