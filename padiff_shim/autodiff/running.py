"""The caller's own models, run as a training step: forward, loss, backward, optimizer; with a record of every layer's call."""

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
from ..proof.programs import Inputs, ModelSide, PaddleSide, TorchSide, failure_of_backward, seeded
from ..text import tr
from ..trees import as_array, leaves, mapped
from .models import Model

Array = np.ndarray[Any, Any]


@dataclass
class Visit:
    """One call of one layer.

    Args:
        path: dotted name of the layer.
        occurrence: number of the call among those of the layer, from 0 on.
        kind: name of the layer's class.
        outputs: tensors in the layer's output, as arrays.
        gradients: gradients of these tensors, by place; a tensor without gradient is missing.
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
    """Records the visits of one run, in the order in which the layers return.

    Args:
        until: the function below which a stack begins.
        follow: gives for a visit the base model's visit whose values this run goes on with; None: it goes on with its own.
        phase: whose values it goes on with, those of the ``"forward"`` or of the ``"backward"``.
    """

    def __init__(self, until: CodeType, follow: Callable[[Visit], Visit | None] | None = None, phase: str = "forward") -> None:
        self.visits: list[Visit] = []
        self.by_key: dict[tuple[str, int], Visit] = {}
        self._until, self._follow, self._phase = until, follow, phase
        self._count: dict[str, int] = {}

    def leave(self, path: str, layer: Any, output: Any) -> Any:
        """Record that a layer returns ``output``; returns the output that replaces it, or None."""
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
            array = as_array(gradient).copy()
            visit.gradients[place] = array
            wanted = partner.gradients.get(place) if partner is not None else None
            return _like(gradient, wanted) if wanted is not None and wanted.shape == array.shape else None

        return listen


def wants_gradient(tensor: Any) -> bool:
    """Whether a tensor of either framework requires a gradient."""
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
    return mapped(
        output, lambda tensor: _exchanged(tensor, next(waiting)) if isinstance(tensor, (paddle.Tensor, torch.Tensor)) else tensor
    )


def _exchanged(tensor: Any, values: Array) -> Any:
    """A tensor with other values that requires a gradient if the original does; no leaf, so that it may be written in place."""
    made = _like(tensor, values)
    if not wants_gradient(tensor):
        return made
    if isinstance(made, torch.Tensor):
        return made.requires_grad_().clone()
    made.stop_gradient = False
    return made.clone()


@dataclass
class ModelRun:
    """The results of one run of one model: outputs by path, loss, gradients of its inputs by path, and the layers' visits.

    ``failed``: why the backward failed on Paddle's kernels; "" if it did not.
    """

    recorder: VisitRecorder
    outputs: dict[str, Array] = field(default_factory=dict)
    loss: Array | None = None
    input_gradients: dict[str, Array] = field(default_factory=dict)
    failed: str = ""


class TrainedSide(ModelSide):
    """A side that runs the caller's model itself, with the inputs as they are."""

    def __init__(self, model: Model, inputs: dict[str, Any], loss: Callable[[Any], Any] | None, optimizer: Any, seed: int) -> None:
        super().__init__(model.model, Inputs(lambda _: inputs), loss, seed, backward=True)
        self.handle, self._inputs_of_call, self._optimizer = model, inputs, optimizer

    def forward(self, recorder: VisitRecorder, step: int, *, backward: bool) -> ModelRun:
        """One forward, and a backward on request; gradients stay in the model."""
        inputs = mapped(self._inputs_of_call, _fresh)
        self._clear()
        result = ModelRun(recorder)
        with self._watched(recorder), seeded(self.seed + step), self._mode():
            output = self.model(**inputs)
            if self._loss is not None or backward:
                loss = self._loss_of(output)
                result.loss = as_array(loss).copy() if self._loss is not None else None
                if backward and wants_gradient(loss):  # no parameter and no input may require a gradient
                    try:
                        loss.backward()
                    except Exception as error:
                        once_more = lambda: self._loss_of(self.model(**mapped(self._inputs_of_call, _fresh))).backward()  # noqa: E731
                        result.failed = self._failure(error, once_more)
        tensors = [(path, tensor) for path, tensor in leaves(output) if isinstance(tensor, self.handle.tensor)]
        result.outputs = {path: as_array(tensor).copy() for path, tensor in tensors}
        inputs_with_gradients = [(path, tensor) for path, tensor in leaves(inputs) if getattr(tensor, "grad", None) is not None]
        result.input_gradients = {path: as_array(tensor.grad).copy() for path, tensor in inputs_with_gradients}
        return result

    def _loss_of(self, output: Any) -> Any:
        return self._loss(output) if self._loss is not None else mean_loss(output)

    def _failure(self, error: Exception, again: Callable[[], None]) -> str:
        """What to say of a backward that fails; ``again`` makes it once more, with its forward. Torch's own error is raised."""
        raise error

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
    def restoring(self, buffers: bool) -> Iterator[None]:
        """With ``buffers``, running statistics that a forward writes are restored before and afterwards."""
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
        """Torch's kernels and random numbers, but Paddle's definitions: a model that trains differently natively does so here."""
        with opened(ReferenceOptions(random="torch")) if self.shim else contextlib.nullcontext():
            yield

    def _failure(self, error: Exception, again: Callable[[], None]) -> str:
        reason = failure_of_backward(error, again, TrainedSide.forward.__code__)
        return tr("the backward of the Paddle model fails ({reason})", reason=reason)


def trained(
    model: Model, inputs: dict[str, Any], loss: Callable[[Any], Any] | None, optimizer: Any, *, seed: int, shim: bool
) -> TrainedSide:
    """The side that runs a model; ``shim``: a Paddle model runs on Torch's kernels."""
    if model.framework == "torch":
        return TrainedTorch(model, inputs, loss, optimizer, seed)
    side = TrainedPaddle(model, inputs, loss, optimizer, seed)
    side.shim = shim
    return side


def _fresh(tensor: Any) -> Any:
    """A copy that requires a gradient if the original does: a model may write into its inputs."""
    if isinstance(tensor, torch.Tensor):
        return tensor.detach().clone().requires_grad_(tensor.requires_grad)
    if isinstance(tensor, paddle.Tensor):
        copied = tensor.detach().clone()
        copied.stop_gradient = tensor.stop_gradient
        return copied
    return tensor


def mean_loss(output: Any) -> Any:
    """PaDiff's default loss: the mean of the output; of several tensors, the mean of their means in float32.

    Raises:
        ArgumentError: the output has no tensor of floats.
    """
    tensors = [tensor for _, tensor in leaves(output) if isinstance(tensor, (paddle.Tensor, torch.Tensor)) and _is_float(tensor)]
    if not tensors:
        raise ArgumentError(tr("the model returns no tensor of floats: give loss_fn=, or diff_phase='forward'"))
    if len(tensors) == 1 and isinstance(output, (paddle.Tensor, torch.Tensor)):
        return tensors[0].mean()
    if isinstance(tensors[0], torch.Tensor):
        return torch.stack([tensor.to(torch.float32).mean() for tensor in tensors]).mean()
    return paddle.stack([tensor.astype("float32").mean() for tensor in tensors]).mean()


def _is_float(tensor: Any) -> bool:
    return tensor.is_floating_point() if isinstance(tensor, torch.Tensor) else "float" in str(tensor.dtype)
