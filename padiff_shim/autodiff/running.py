"""The caller's own models, run as a step of a training is: forward, loss, backward, optimizer."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import paddle
import torch

from ..errors import ArgumentError
from ..modes.options import ReferenceOptions
from ..modes.reference import opened
from ..proving.paddle_side import PaddleSide
from ..proving.sides import Side, seeded
from ..proving.torch_side import TorchSide
from ..proving.values import Inputs, as_array, leaves, mapped
from .models import Model
from .recording import Recorder, wants_gradient

Array = np.ndarray[Any, Any]


@dataclass
class Pass:
    """What one run of one model gave: its outputs by path, its loss, gradients of its inputs, and what its layers did."""

    recorder: Recorder
    outputs: dict[str, Array] = field(default_factory=dict)
    loss: Array | None = None
    input_gradients: dict[str, Array] = field(default_factory=dict)


class Trained(Side):
    """A side that runs the caller's model itself, with the inputs as they are."""

    def __init__(self, model: Model, inputs: dict[str, Any], loss: Callable[[Any], Any] | None, optimizer: Any, seed: int) -> None:
        super().__init__(model.model, Inputs(lambda _: inputs), loss, seed, backward=True)
        self.handle, self._given, self._optimizer = model, inputs, optimizer

    def forward(self, recorder: Recorder, step: int, *, backward: bool) -> Pass:
        """One forward, and a backward if asked for; gradients stay in the model."""
        given = mapped(self._given, _fresh)
        self._clear()
        found = Pass(recorder)
        with self._watched(recorder), seeded(self._seed + step), self._mode():
            output = self.model(**given)
            if self._loss is not None or backward:
                loss = self._loss(output) if self._loss is not None else mean_loss(output)
                found.loss = as_array(loss).copy() if self._loss is not None else None
                if backward and wants_gradient(
                    loss
                ):  # without parameters, and inputs that want one, there is nothing to go back to
                    loss.backward()
        tensors = [(path, one) for path, one in leaves(output) if isinstance(one, self.handle.tensor)]
        found.outputs = {path: as_array(one).copy() for path, one in tensors}
        held = [(path, one) for path, one in leaves(given) if getattr(one, "grad", None) is not None]
        found.input_gradients = {path: as_array(one.grad).copy() for path, one in held}
        return found

    def update(self) -> None:
        """Take one step of the optimizer and clear the gradients; a function of the caller's does both itself."""
        with self._mode():
            if not isinstance(self._optimizer, (paddle.optimizer.Optimizer, torch.optim.Optimizer)):
                self._optimizer()
                return
            self._optimizer.step()
        self._clear()

    def _clear(self) -> None:
        self._held(self.model).look()  # the model is the caller's, who may exchange what it holds
        super()._clear()

    @contextlib.contextmanager
    def kept(self, *, buffers: bool) -> Iterator[None]:
        """What a forward writes (running statistics) is put back afterwards, if asked for."""
        if buffers:
            self._held(self.model).restore()
        try:
            yield
        finally:
            if buffers:
                self._held(self.model).restore()

    @contextlib.contextmanager
    def _watched(self, recorder: Recorder) -> Iterator[None]:
        hooks: list[Any] = []
        for path, layer in self.handle.layers:
            leave = lambda layer, _, output, path=path: recorder.leave(path, layer, output)  # noqa: E731
            hooks += self._hooks(layer, lambda *_: None, leave)
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()


class TrainedTorch(Trained, TorchSide):
    """The caller's own Torch module."""


class TrainedPaddle(Trained, PaddleSide):
    """The caller's own Paddle layer."""

    @contextlib.contextmanager
    def _mode(self, double: bool = False, *, formed: bool = True) -> Iterator[None]:
        """Torch's kernels and random numbers, but Paddle's definitions: what trains otherwise natively shall differ here, too."""
        with opened(ReferenceOptions(random="torch")) if self.shim else contextlib.nullcontext():
            yield


def trained(
    model: Model, inputs: dict[str, Any], loss: Callable[[Any], Any] | None, optimizer: Any, *, seed: int, shim: bool
) -> Trained:
    """A model made ready to run; ``shim``: a Paddle model on Torch's kernels."""
    if model.framework == "torch":
        return TrainedTorch(model, inputs, loss, optimizer, seed)
    side = TrainedPaddle(model, inputs, loss, optimizer, seed)
    side.shim = shim
    return side


def _fresh(tensor: Any) -> Any:
    """A copy that wants a gradient as the original does: a model may write into its inputs."""
    if isinstance(tensor, torch.Tensor):
        return tensor.detach().clone().requires_grad_(tensor.requires_grad)
    if isinstance(tensor, paddle.Tensor):
        copied = tensor.detach().clone()
        copied.stop_gradient = tensor.stop_gradient
        return copied
    return tensor


def mean_loss(output: Any) -> Any:
    """PaDiff's loss where none is given: the mean of the output; of several tensors, the mean of their means in float32.

    Raises:
        ArgumentError: no tensor of floats among them.
    """
    tensors = [tensor for _, tensor in leaves(output) if isinstance(tensor, (paddle.Tensor, torch.Tensor)) and _is_float(tensor)]
    if not tensors:
        raise ArgumentError("the model returns no tensor of floats: give loss_fn=, or diff_phase='forward'")
    if len(tensors) == 1 and isinstance(output, (paddle.Tensor, torch.Tensor)):
        return tensors[0].mean()
    if isinstance(tensors[0], torch.Tensor):
        return torch.stack([tensor.to(torch.float32).mean() for tensor in tensors]).mean()
    return paddle.stack([tensor.astype("float32").mean() for tensor in tensors]).mean()


def _is_float(tensor: Any) -> bool:
    return tensor.is_floating_point() if isinstance(tensor, torch.Tensor) else "float" in str(tensor.dtype)
