"""The caller's own models, run as a training step is, with what every layer gave."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import numpy as np
import paddle
import torch

from ..dispatch.call_site import CallSite, call_stack
from ..errors import ArgumentError
from ..modes.options import ReferenceOptions
from ..modes.reference import opened
from ..proof.programs import Inputs, ModelSide, PaddleSide, TorchSide, seeded
from ..trees import as_array, leaves, mapped
from .models import Model

# ---- What every layer of a model gave, the gradients that came back to it, and the lines that called it.

Array = np.ndarray[Any, Any]


@dataclass
class Visit:
    """One call of one layer.

    Args:
        path, occurrence: which layer, and its how-maniest call.
        kind: the layer's class.
        outputs: tensors in the layer's output, as arrays.
        gradients: of the same tensors, by place; what wants none is missing.
        stack: the user's lines, the outermost first.
    """

    path: str
    occurrence: int
    kind: str
    outputs: list[Array]
    gradients: dict[int, Array] = field(default_factory=dict)
    stack: tuple[CallSite, ...] = ()

    @property
    def key(self) -> tuple[str, int]:
        return self.path, self.occurrence


class VisitRecorder:
    """Takes down the visits of one run, in the order in which the layers return.

    Args:
        until: the function below which a stack begins.
        follow: gives for a visit the base model's visit whose values this run goes on with; None: it goes on with its own.
        phase: what is followed, ``"forward"`` or ``"backward"``.
    """

    def __init__(self, until: CodeType, follow: Callable[[Visit], Visit | None] | None = None, phase: str = "forward") -> None:
        self.visits: list[Visit] = []
        self.by_key: dict[tuple[str, int], Visit] = {}
        self._until, self._follow, self._phase = until, follow, phase
        self._count: dict[str, int] = {}

    def leave(self, path: str, layer: Any, output: Any) -> Any:
        """Take down that a layer returns ``output``; what it shall return instead, or None."""
        tensors = [tensor for _, tensor in leaves(output) if isinstance(tensor, (paddle.Tensor, torch.Tensor))]
        occurrence = self._count[path] = self._count.get(path, -1) + 1
        copies = [as_array(tensor).copy() for tensor in tensors]
        visit = Visit(path, occurrence, type(layer).__name__, copies, stack=call_stack(self._until))
        self.visits.append(visit)
        self.by_key[visit.key] = visit
        partner = self._follow(visit) if self._follow else None
        if partner is not None and self._phase == "forward":
            return _with_values(output, tensors, partner.outputs)
        for place, tensor in enumerate(tensors):
            if wants_gradient(tensor):
                tensor.register_hook(self._listener(visit, place, partner))
        return None

    def _listener(self, visit: Visit, place: int, partner: Visit | None) -> Callable[[Any], Any]:
        def listen(gradient: Any) -> Any:
            found = as_array(gradient).copy()
            visit.gradients[place] = found
            wanted = partner.gradients.get(place) if partner is not None else None
            return _like(gradient, wanted) if wanted is not None and wanted.shape == found.shape else None

        return listen


def wants_gradient(tensor: Any) -> bool:
    """Whether a backward comes to a tensor of either framework."""
    return tensor.requires_grad if isinstance(tensor, torch.Tensor) else not tensor.stop_gradient


def _like(tensor: Any, values: Array) -> Any:
    """A tensor of the same framework, dtype and device with other values."""
    if isinstance(tensor, torch.Tensor):
        return torch.from_numpy(np.array(values)).to(tensor.device, tensor.dtype)
    made = paddle.to_tensor(np.array(values), place=tensor.place)
    return made if made.dtype == tensor.dtype else made.astype(tensor.dtype)


def _with_values(output: Any, tensors: list[Any], values: list[Array]) -> Any:
    """``output`` with other values where they have the shapes of its own; None if nothing is exchanged."""
    if len(values) != len(tensors) or any(list(tensor.shape) != list(array.shape) for tensor, array in zip(tensors, values)):
        return None
    waiting = iter(values)
    return mapped(output, lambda one: _exchanged(one, next(waiting)) if isinstance(one, (paddle.Tensor, torch.Tensor)) else one)


def _exchanged(tensor: Any, values: Array) -> Any:
    """A tensor with other values that wants a gradient if the given one does, and is no leaf: it may be written in place."""
    made = _like(tensor, values)
    if not wants_gradient(tensor):
        return made
    if isinstance(made, torch.Tensor):
        return made.requires_grad_().clone()
    made.stop_gradient = False
    return made.clone()


# ---- The caller's own models, run as a step of a training is: forward, loss, backward, optimizer.


@dataclass
class ModelRun:
    """What one run of one model gave: its outputs by path, its loss, gradients of its inputs, and what its layers did."""

    recorder: VisitRecorder
    outputs: dict[str, Array] = field(default_factory=dict)
    loss: Array | None = None
    input_gradients: dict[str, Array] = field(default_factory=dict)


class TrainedSide(ModelSide):
    """A side that runs the caller's model itself, with the inputs as they are."""

    def __init__(self, model: Model, inputs: dict[str, Any], loss: Callable[[Any], Any] | None, optimizer: Any, seed: int) -> None:
        super().__init__(model.model, Inputs(lambda _: inputs), loss, seed, backward=True)
        self.handle, self._given, self._optimizer = model, inputs, optimizer

    def forward(self, recorder: VisitRecorder, step: int, *, backward: bool) -> ModelRun:
        """One forward, and a backward if asked for; gradients stay in the model."""
        given = mapped(self._given, _fresh)
        self._clear()
        found = ModelRun(recorder)
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
        self._state_of(self.model).refresh()  # the model is the caller's, who may exchange what it holds
        super()._clear()

    @contextlib.contextmanager
    def kept(self, *, buffers: bool) -> Iterator[None]:
        """What a forward writes (running statistics) is put back afterwards, if asked for."""
        if buffers:
            self._state_of(self.model).restore()
        try:
            yield
        finally:
            if buffers:
                self._state_of(self.model).restore()

    @contextlib.contextmanager
    def _watched(self, recorder: VisitRecorder) -> Iterator[None]:
        hooks: list[Any] = []
        for path, layer in self.handle.layers:
            leave = lambda layer, _, output, path=path: recorder.leave(path, layer, output)  # noqa: E731
            hooks += self._hooks(layer, lambda *_: None, leave)
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()


class TrainedTorch(TrainedSide, TorchSide):
    """The caller's own Torch module."""


class TrainedPaddle(TrainedSide, PaddleSide):
    """The caller's own Paddle layer."""

    @contextlib.contextmanager
    def _mode(self, double: bool = False, *, formed: bool = True) -> Iterator[None]:
        """Torch's kernels and random numbers, but Paddle's definitions: what trains otherwise natively shall differ here, too."""
        with opened(ReferenceOptions(random="torch")) if self.shim else contextlib.nullcontext():
            yield


def trained(
    model: Model, inputs: dict[str, Any], loss: Callable[[Any], Any] | None, optimizer: Any, *, seed: int, shim: bool
) -> TrainedSide:
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
