"""Train digits_paddle natively and under `padiff_shim.reference("torch", optimizer="torch")`; measure both against the Torch twin.

The Paddle script is the same unchanged code in both runs. Exit status 1: a step, the forward pass or the gradients under the shim
were not the twin's bit for bit.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from digits_data import Config, Data, Metrics, batches, load_data, steps_per_epoch
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from tables import new_progress, new_table, size

import padiff_shim

with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message="No ccache found")  # Paddle's advice for compiling; nothing is compiled here
    import digits_paddle
import digits_torch
import paddle
import torch

State = dict[str, np.ndarray]
RUNS = {"twin": "Torch twin", "native": "Paddle", "shim": "Paddle under the shim"}
COLUMNS = {
    "twin, native, shim": 'the Torch twin, Paddle, Paddle inside reference("torch", optimizer="torch")',
    "loss": "mean training loss of the epoch",
    "logits": "largest difference to the twin's logits on the test images",
    "params": "largest difference of a trained parameter to the twin's",
    "forward": "as logits, but the twin is given this run's weights: the kernels alone",
}


class Same(NamedTuple):
    """How many of the parameters' gradients are the twin's bit for bit, at equal weights and on the same images."""

    shared: int  # from the same gradient of the logits: the model's kernels, and the order in which gradients are added up
    whole: int  # from each framework's own cross_entropy
    of: int


class Epoch(NamedTuple):
    """A run at the end of an epoch."""

    loss: float
    metrics: Metrics
    parameters: State
    forward: float
    gradients: Same | None  # of a Paddle model


class Trace:
    """All that is compared of one training run."""

    def __init__(self, data: Data, config: Config, state: Callable[[Any], State], advance: Callable[[], None]):
        self.data, self.config, self.state, self.advance = data, config, state, advance
        self.probe = digits_torch.build_model(config)
        self.loss: list[float] = []
        self.logits: list[np.ndarray] = []
        self.parameters: list[bytes] = []  # their digest after each step; whole copies would take 0.1 GB
        self.epochs: list[Epoch] = []

    def on_step(self, step: int, loss: float, logits: np.ndarray, model: Any) -> None:
        """Keep what a training step computed."""
        digest = hashlib.sha256()
        for name, array in sorted(self.state(model).items()):
            digest.update(name.encode() + array.tobytes())
        self.loss.append(loss)
        self.logits.append(logits.copy())
        self.parameters.append(digest.digest())
        self.advance()

    def on_epoch(self, epoch: int, metrics: Metrics, model: Any) -> None:
        """Keep an epoch's results, and try its forward pass against the twin with the same weights."""
        parameters = self.state(model)
        digits_torch.load_paddle_state(self.probe, parameters)
        forward = largest(metrics.logits, digits_torch.evaluate(self.probe, self.data).logits)
        loss = float(np.mean(self.loss[epoch * len(self.loss) // (epoch + 1) :]))
        same = None if isinstance(model, torch.nn.Module) else same_gradients(model, self.probe, self.data, self.config)
        self.epochs.append(Epoch(loss, metrics, parameters, forward, same))


def paddle_state(model: Any) -> State:
    """A copy of a Paddle model's weights."""
    return {name: tensor.numpy().copy() for name, tensor in model.state_dict().items()}


def same_gradients(model: Any, twin: Any, data: Data, config: Config) -> Same:
    """Compare the gradients of the two models, whose weights are equal, on the first batch of training."""
    images, labels = next(batches(data, config, 0))

    def theirs(seed: np.ndarray | None) -> tuple[np.ndarray, list[bytes]]:
        twin.zero_grad()
        logits = twin(torch.from_numpy(images))
        logits.retain_grad()
        if seed is None:
            torch.nn.functional.cross_entropy(logits, torch.from_numpy(labels)).backward()
        else:
            logits.backward(torch.from_numpy(seed))
        turned = digits_torch.turned(twin)
        gradients = {name: p.grad.t() if name in turned else p.grad for name, p in twin.named_parameters()}
        return logits.grad.numpy(), [gradients[name].numpy().tobytes() for name, _ in model.named_parameters()]

    def ours(seed: np.ndarray | None) -> list[bytes]:
        logits = model(paddle.to_tensor(images))
        if seed is None:
            paddle.nn.functional.cross_entropy(logits, paddle.to_tensor(labels)).backward()
        else:
            logits.backward(paddle.to_tensor(seed))
        gradients = [parameter.grad.numpy().tobytes() for parameter in model.parameters()]
        model.clear_gradients()
        return gradients

    seed, whole = theirs(None)
    _, shared = theirs(seed)
    counts = [
        sum(a == b for a, b in zip(ours(start), expected, strict=True)) for start, expected in ((seed, shared), (None, whole))
    ]
    return Same(*counts, of=len(whole))


def largest(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The largest absolute difference; NaN if there is one on either side."""
    return float(np.abs(ours.astype(np.float64) - theirs).max())


def first_difference(ours: list, theirs: list) -> int | None:
    """The first training step, counted from 1, at which two runs differ in a bit."""
    pairs = zip(ours, theirs, strict=True)
    return next((step for step, (a, b) in enumerate(pairs, 1) if np.asarray(a).tobytes() != np.asarray(b).tobytes()), None)


def train_all(data: Data, config: Config, progress: Progress) -> tuple[dict[str, Trace], padiff_shim.Run]:
    """Train the twin, Paddle natively and Paddle under the shim, from the same weights and on the same batches."""
    start = paddle_state(digits_paddle.build_model(config))
    steps = config.epochs * steps_per_epoch(data, config)
    bars = {name: progress.add_task(title, total=steps, start=False) for name, title in RUNS.items()}

    def train(name: str, script: Any, state: Callable[[Any], State]) -> Trace:
        progress.start_task(bars[name])
        trace = Trace(data, config, state, partial(progress.advance, bars[name]))
        model = script.build_model(config)
        if script is digits_torch:
            digits_torch.load_paddle_state(model, start)
        script.train(model, data, config, on_step=trace.on_step, on_epoch=trace.on_epoch)
        return trace

    traces = {"twin": train("twin", digits_torch, digits_torch.paddle_state)}
    traces["native"] = train("native", digits_paddle, paddle_state)
    with padiff_shim.reference("torch", optimizer="torch") as run:
        traces["shim"] = train("shim", digits_paddle, paddle_state)
    return traces, run


def epochs_table(traces: dict[str, Trace]) -> Table:
    """Losses, and differences to the twin, epoch by epoch."""
    table = new_table("epoch", "loss", *[""] * 2, "logits", "", "params", "", "forward", "")
    table.add_row("", "twin", *["native", "shim"] * 4, style="bold")
    for number, (twin, *ours) in enumerate(zip(*(trace.epochs for trace in traces.values()), strict=True), 1):
        differences = [largest(epoch.metrics.logits, twin.metrics.logits) for epoch in ours]
        differences += [max(largest(epoch.parameters[name], twin.parameters[name]) for name in twin.parameters) for epoch in ours]
        differences += [epoch.forward for epoch in ours]
        losses = [f"{epoch.loss:.6f}" for epoch in (twin, *ours)]
        table.add_row(str(number), *losses, *map(size, differences))
    return table


def identity_table(twin: Trace, runs: dict[str, Trace]) -> Table:
    """How far training stays the twin's bit for bit."""
    table = new_table("first step that differs from the twin's", *runs)
    for label, part in {"logits": "logits", "loss": "loss", "parameters after it": "parameters"}.items():
        steps = [first_difference(getattr(run, part), getattr(twin, part)) for run in runs.values()]
        table.add_row(label, *(f"{step}" if step else f"none of {len(twin.loss)}" for step in steps))
    return table


def gradients_table(runs: dict[str, Trace]) -> Table:
    """How many gradients are the twin's, over all epochs."""
    table = new_table("gradients identical bit for bit", *runs)
    rows = {"from the same gradient of the logits": "shared", "from each framework's own cross_entropy": "whole"}
    for label, kind in rows.items():
        counts = []
        for run in runs.values():
            gradients = [epoch.gradients for epoch in run.epochs if epoch.gradients is not None]
            counts.append(f"{sum(getattr(same, kind) for same in gradients)} of {sum(same.of for same in gradients)}")
        table.add_row(label, *counts)
    return table


def native_table(run: padiff_shim.Run) -> Table:
    """The ops that stayed on Paddle's kernels under the shim."""
    table = new_table("stayed native", "calls")
    table.add_column("why", overflow="fold")
    for op, counts in run.to_dict()["ops"].items():
        for reason, calls in counts["native"].items():
            table.add_row(op, str(calls), reason)
    return table


def report(console: Console, traces: dict[str, Trace], run: padiff_shim.Run) -> bool:
    """Print all that was measured; True if training, forward pass and gradients under the shim were the twin's."""
    twin, native, shim = traces.values()
    console.print(epochs_table(traces))
    for name, meaning in COLUMNS.items():
        console.print(f"[bold]{name}[/]: {meaning}")
    accuracy = (f"{RUNS[name]} {trace.epochs[-1].metrics.accuracy:.2%}" for name, trace in traces.items())
    console.print(f"Test accuracy: {', '.join(accuracy)}.\n")
    console.print(identity_table(twin, {"native": native, "shim": shim}), "")
    console.print(gradients_table({"native": native, "shim": shim}), "")
    console.print(native_table(run), "")
    substituted = {op: counts["substituted"] for op, counts in run.to_dict()["ops"].items() if counts["substituted"]}
    console.print(f"On Torch kernels: {sum(substituted.values())} calls of {', '.join(sorted(substituted))}.")
    steps = (first_difference(getattr(shim, part), getattr(twin, part)) for part in ("logits", "loss", "parameters"))
    checks = {
        f"Training under the shim, logits, loss and parameters of {len(twin.loss)} steps": all(step is None for step in steps),
        "Forward under the shim, every epoch's test images with equal weights": all(epoch.forward == 0 for epoch in shim.epochs),
        "Backward under the shim, after every epoch, with equal weights, from the loss down": all(
            epoch.gradients is not None and epoch.gradients.whole == epoch.gradients.of for epoch in shim.epochs
        ),
    }
    for what, identical in checks.items():
        verdict = "[green]identical bit for bit[/]" if identical else "[red]DIFFERENT[/]"
        console.print(f"{what}: {verdict}.")
    return all(checks.values())


def main() -> int:
    """Train three times and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=Config.epochs)
    parser.add_argument("--seed", type=int, default=Config.seed)
    args = parser.parse_args()
    console = Console(highlight=False)
    with new_progress(console) as progress:
        traces, run = train_all(load_data(), Config(epochs=args.epochs, seed=args.seed), progress)
    return 0 if report(console, traces, run) else 1


if __name__ == "__main__":
    sys.exit(main())
