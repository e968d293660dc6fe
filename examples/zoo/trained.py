"""What a model is trained for: inference with its weights, and a checkpoint from which training goes on.

Each check gives lines: what was compared with the Torch twin, natively and under the shim.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import paddle
import torch

import padiff_shim

from . import gpt, pairs, training
from .measuring import BATCHES, NUMBERS, SHIM, Trace, Trained, inputs, paddle_state, torch_state

Arrays = list[np.ndarray]
TINY = float(np.finfo(np.float64).tiny)
Mode = Callable[[], AbstractContextManager]


def under_the_shim() -> AbstractContextManager:
    """The mode that makes a training the twin's."""
    return padiff_shim.reference("torch", **SHIM)


class Line(NamedTuple):
    """One comparison with the Torch twin: the largest differences, and whether the shim's side has to be 0."""

    what: str
    native: float | None
    shim: float | None
    exact: bool = True

    @property
    def good(self) -> bool:
        """Nothing that should be equal differs."""
        return not self.exact or self.shim == 0


def natively() -> AbstractContextManager:
    """Paddle's kernels and optimizers; only what is drawn is Torch's, so that there is something to compare."""
    return padiff_shim.reference("torch", **NUMBERS)


def largest(ours: Arrays, theirs: Arrays) -> float:
    """The largest difference; 0 if all bits are equal, and only then. Infinite where one side has more."""
    if len(ours) != len(theirs):
        return float("inf")
    apart = [np.abs(a.astype(np.float64) - b).max() for a, b in zip(ours, theirs) if a.tobytes() != b.tobytes()]
    return max(TINY, *map(float, apart)) if apart else 0.0


def both(what: str, ours: Callable[[], Arrays], theirs: Arrays) -> Line:
    """Compare what a Paddle function gives natively and under the shim."""
    native = largest(ours(), theirs)
    with under_the_shim():
        shim = largest(ours(), theirs)
    return Line(what, native, shim)


def generation(trained: Trained) -> list[Line]:
    """A GPT goes on from prompts, one token at a time, with the keys and values of those before kept."""
    prompts = np.random.default_rng(2).integers(0, gpt.WORDS, (1, 4))
    theirs = gpt.torch_generate(trained.twin.torch, prompts)
    what = f"gpt: {len(theirs)} tokens with a KV cache, logits of each"
    return [both(what, lambda: gpt.paddle_generate(trained.ours.paddle, prompts), theirs)]


def evaluation(trained: Trained) -> list[Line]:
    """A ResNet in evaluation, where BatchNorm reads its running statistics."""
    images = trained.ours.arrays["images"]
    ours, twin = trained.ours.paddle, trained.twin.torch

    def paddle_logits() -> Arrays:
        ours.eval()
        with paddle.no_grad():
            logits = ours(paddle.to_tensor(images)).numpy()
        ours.train()
        return [logits]

    def torch_logits() -> Arrays:
        twin.eval()
        with torch.no_grad():
            logits = twin(torch.from_numpy(images)).numpy()
        twin.train()
        return [logits]

    return [both("resnet: evaluation", paddle_logits, torch_logits())]


def epoch(pair: pairs.Pair, batches: list, optimizer: Any, schedule: Any, trace: Trace, seed: int) -> None:
    """An epoch of the Paddle half, as a script has it that seeds each of them."""
    paddle.seed(seed)
    for batch in batches:
        _, loss = pair.module.paddle_step(pair.paddle, **{name: paddle.to_tensor(array) for name, array in batch.items()})
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        schedule.step()
        trace.on_step(loss)


def torch_epoch(pair: pairs.Pair, batches: list, optimizer: Any, schedule: Any, trace: Trace, seed: int) -> None:
    """The same in Torch."""
    torch.manual_seed(seed)
    for batch in batches:
        _, loss = pair.module.torch_step(pair.torch, **{name: torch.from_numpy(array) for name, array in batch.items()})
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(pair.torch.parameters(), pair.module.RECIPE.clip)
        optimizer.step()
        schedule.step()
        trace.on_step(loss)


class Script:
    """A training of two epochs in Paddle, which may be saved between them."""

    def __init__(self, name: str, dtype: str, steps: int):
        self.pair = pairs.build(name, dtype, dropout=True)
        self.batches = inputs(self.pair.module, dtype, steps)
        self.half = steps // 2
        self.optimizer, self.schedule = training.paddle_optimizer(self.pair.paddle.parameters(), self.pair.module.RECIPE, steps)
        self.trace = Trace(lambda: paddle_state(self.pair), lambda: None)

    def first(self) -> Script:
        """The first epoch."""
        epoch(self.pair, self.batches[: self.half], self.optimizer, self.schedule, self.trace, 10)
        return self

    def second(self) -> Trace:
        """The second one."""
        epoch(self.pair, self.batches[self.half :], self.optimizer, self.schedule, self.trace, 11)
        return self.trace

    def save(self, path: Path) -> Script:
        """A checkpoint."""
        paddle.save({"model": self.pair.paddle.state_dict(), "optimizer": self.optimizer.state_dict()}, str(path))
        return self

    def load(self, path: Path) -> Script:
        """Go on from a checkpoint."""
        state = paddle.load(str(path))
        self.pair.paddle.set_state_dict(state["model"])
        self.optimizer.set_state_dict(state["optimizer"])
        return self


def twin_of(name: str, dtype: str, steps: int) -> Trace:
    """The Torch twin, trained without a stop."""
    pair = pairs.build(name, dtype, dropout=True)
    batches = inputs(pair.module, dtype, steps)
    trace = Trace(lambda: torch_state(pair), lambda: None)
    optimizer, schedule = training.torch_optimizer(pair.torch.parameters(), pair.module.RECIPE, steps)
    torch_epoch(pair, batches[: steps // 2], optimizer, schedule, trace, 10)
    torch_epoch(pair, batches[steps // 2 :], optimizer, schedule, trace, 11)
    return trace


def checkpoints(name: str = "gpt", dtype: str = "float32", steps: int = 5 * BATCHES) -> list[Line]:
    """Saved half-way, natively and under the shim, and resumed in both ways, against the twin that was not stopped."""
    twin = twin_of(name, dtype, steps)
    final = twin.final

    def apart(trace: Trace) -> float:
        if len(trace.losses) == steps - steps // 2 and trace.losses == twin.losses[steps // 2 :]:
            return largest([trace.final[key] for key in final], [final[key] for key in final])
        return max(*trace.drift(twin), TINY)

    def first(path: Path, mode: Mode) -> None:
        with paddle.utils.unique_name.guard():  # an optimizer's state goes by names, which count from 0 in each process
            script = Script(name, dtype, steps)
            with mode():
                script.first()
            script.save(path)

    def second(path: Path, mode: Mode) -> float:
        with paddle.utils.unique_name.guard():
            script = Script(name, dtype, steps).load(path)
            with mode():
                return apart(script.second())

    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for where, mode in {"natively": natively, "under the shim": under_the_shim}.items():
            path = Path(folder) / where
            first(path, mode)
            what = f"{name}: saved {where} at step {steps // 2}, resumed, at step {steps}"
            lines.append(Line(what, second(path, natively), second(path, under_the_shim), exact=mode is under_the_shim))
    return lines
