"""One model of the zoo trained three times from equal weights: natively, under the shim, and as its Torch twin."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import paddle
import torch
from tables import covered

import padiff_shim

from . import pairs, training
from .tensors import array_of

State = dict[str, np.ndarray]
SHIM = {"optimizer": "torch", "random": "torch", "definitions": "torch"}
NUMBERS = {"ops": ["random", "dropouts"], "random": "torch"}  # Paddle's kernels and optimizers, with Torch's random numbers
BATCHES = 10  # that are read again and again


class Trace:
    """What is compared of one training: its losses, and its parameters after each step."""

    def __init__(self, state: Callable[[], State], advance: Callable[[], None]):
        self.state, self.advance = state, advance
        self.losses: list[float] = []
        self.digests: list[bytes] = []  # of all parameters; copies of each step would take much memory
        self.seconds = 0.0
        self.final: State = {}
        self.began = time.perf_counter()

    def on_step(self, loss: Any) -> None:
        """Keep what a step gave; the time that this takes is not the training's."""
        self.seconds += time.perf_counter() - self.began
        self.final = self.state()
        digest = hashlib.sha256()
        for name, array in sorted(self.final.items()):
            digest.update(name.encode() + array.tobytes())
        self.losses.append(float(loss.detach() if hasattr(loss, "detach") else loss))
        self.digests.append(digest.digest())
        self.advance()
        self.began = time.perf_counter()

    def first_apart(self, other: Trace) -> int | None:
        """The first step, counted from 1, whose loss or whose parameters afterwards differ in a bit."""
        steps = zip(self.losses, other.losses, self.digests, other.digests, strict=True)
        return next((step for step, (a, b, c, d) in enumerate(steps, 1) if a != b or c != d), None)

    def drift(self, other: Trace) -> tuple[float, float]:
        """The difference of the last losses, and the largest one of a parameter (running variances are two things natively)."""
        loss = abs(self.losses[-1] - other.losses[-1])
        trained = {name: mine for name, mine in self.final.items() if not name.endswith("_variance")}
        return loss, max(float(np.abs(mine.astype(np.float64) - other.final[name]).max()) for name, mine in trained.items())


class Row(NamedTuple):
    """What one training showed in one dtype."""

    name: str
    dtype: str
    steps: int
    native: tuple[float, float] | None  # drift of the loss and of the parameters; None: Paddle has no kernels
    apart: int | None  # the first step that differs under the shim
    shim: tuple[float, float]
    covered: tuple[int, int]  # float calls on Torch's kernels, of all
    left: dict[str, str]  # ops that stayed native, with the reason
    seconds: tuple[float, float, float]  # native, shim, Torch

    @property
    def perfect(self) -> bool:
        """Identical at all steps, with every float call covered."""
        return self.apart is None and self.covered[0] == self.covered[1]


class Trained(NamedTuple):
    """The row of a training, and its models: the Paddle half was trained under the shim."""

    row: Row
    ours: pairs.Pair
    twin: pairs.Pair


def inputs(module: Any, dtype: str, steps: int) -> list[dict[str, np.ndarray]]:
    """The batches of a training, without what it draws itself."""
    rng = np.random.default_rng(1)
    drawn = getattr(module, "DRAWN", ())
    several = [pairs.arrays_of(module, rng, dtype) for _ in range(min(BATCHES, steps))]
    several = [{name: array for name, array in arrays.items() if name not in drawn} for arrays in several]
    return [several[step % len(several)] for step in range(steps)]


def compared(pair: pairs.Pair) -> list[str]:
    """Torch's names of the weights and of BatchNorm's running statistics."""
    return [name for name in pair.torch.state_dict() if not name.endswith("num_batches_tracked")]


def paddle_state(pair: pairs.Pair) -> State:
    """Copies of what is compared of the Paddle half."""
    state = pair.paddle.state_dict()
    return {name: array_of(state[name]).copy() for name in map(pairs.paddle_name, compared(pair))}


def torch_state(pair: pairs.Pair) -> State:
    """The same of the Torch half, under Paddle's names and in its layout."""
    state, arrays = pair.torch.state_dict(), {}
    for name in compared(pair):
        tensor = state[name].t() if name in pair.turned else state[name]
        arrays[pairs.paddle_name(name)] = array_of(tensor).copy(order="C")
    return arrays


def train_paddle(pair: pairs.Pair, batches: list, advance: Callable[[], None], seed: int = 1) -> Trace:
    """Train the Paddle half by the zoo's script."""
    paddle.seed(seed)
    trace = Trace(lambda: paddle_state(pair), advance)
    if hasattr(pair.module, "paddle_train"):
        pair.module.paddle_train(pair.paddle, batches, trace.on_step)
    else:
        training.paddle_train(pair.module, pair.paddle, batches, trace.on_step)
    return trace


def train_torch(pair: pairs.Pair, batches: list, advance: Callable[[], None], seed: int = 1) -> Trace:
    """Train the Torch half by the zoo's script."""
    torch.manual_seed(seed)
    trace = Trace(lambda: torch_state(pair), advance)
    if hasattr(pair.module, "torch_train"):
        pair.module.torch_train(pair.torch, batches, trace.on_step)
    else:
        training.torch_train(pair.module, pair.torch, batches, trace.on_step)
    return trace


def natively(pair: pairs.Pair, batches: list, advance: Callable[[], None]) -> Trace | None:
    """The Paddle half on Paddle's own kernels; None where it has none of the models' dtype."""
    try:
        return train_paddle(pair, batches, advance)
    except RuntimeError as error:
        if "is not registered" not in str(error):
            raise
        return None


def measure(name: str, dtype: str, steps: int, draws: bool, advance: Callable[[], None] = lambda: None) -> Trained:
    """Train one model: the twin, natively, natively with Torch's random numbers if it draws any, and under the shim.

    Natively dropout drops other places; what kernels and optimizers do to a training is seen where the numbers are the same.
    The first native run is for the time that it takes.
    """

    def new() -> pairs.Pair:
        return pairs.build(name, dtype, dropout=True)

    batches = inputs(new().module, dtype, steps)
    torchs, ours = new(), new()
    twin = train_torch(torchs, batches, advance)
    native = alike = natively(new(), batches, advance)
    if draws and native is not None:
        pair = new()
        with padiff_shim.reference("torch", **NUMBERS):
            alike = train_paddle(pair, batches, advance)
    with padiff_shim.reference("torch", **SHIM) as run:
        shim = train_paddle(ours, batches, advance)
    count, left = covered(run)
    times = (native.seconds if native else float("nan"), shim.seconds, twin.seconds)
    row = Row(
        name, dtype, steps, alike.drift(twin) if alike else None, shim.first_apart(twin), shim.drift(twin), count, left, times
    )
    return Trained(row, ours, torchs)
