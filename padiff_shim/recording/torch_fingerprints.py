"""Looking on while a Torch program runs, for fingerprints: its modules, what backwards start from, and its optimizers."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from ..frameworks.optimizer_states import OF_TORCH, clip_of_call, torchs_parameters, torchs_states
from ..patching.functions import PyFunctionPatch
from .files import RecordFile
from .fingerprint_run import FrameworkFingerprints
from .record import SeesSteps, gradient_in_step, inside
from .tensors import Array


class TorchView:
    """See :class:`~.fingerprint_run.FrameworkView`."""

    tensor_type = torch.Tensor

    def content(self, tensor: Any) -> tuple[Array, bool] | None:
        """Values on the host."""
        if not isinstance(tensor, torch.Tensor):
            return np.asarray(tensor), False
        if tensor.layout is not torch.strided:
            return None
        plain = tensor.detach()
        try:
            if plain.dtype is torch.bfloat16:
                return plain.contiguous().view(torch.int16).numpy(force=True).view(np.uint16), True
            return plain.numpy(force=True), False
        except (TypeError, RuntimeError):  # distributed, or of a layout of its own
            return None

    def small(self, tensor: Any) -> Array | None:
        """Without a look at what cannot be."""
        plain = isinstance(tensor, torch.Tensor) and tensor.device.type == "cpu" and tensor.layout is torch.strided
        return tensor.detach().numpy(force=True).copy() if plain and tensor.dtype is torch.float32 else None

    def on_device(self, tensor: Any) -> Any:
        """On a GPU, as it is."""
        return tensor.detach() if isinstance(tensor, torch.Tensor) and tensor.is_cuda and tensor.layout is torch.strided else None

    def named(self, model: Any) -> Iterator[tuple[str, Any]]:
        """Parameters and buffers."""
        yield from model.named_parameters()
        yield from model.named_buffers()

    def sublayers(self, model: Any) -> Iterable[tuple[str, Any]]:
        """With the model itself, under ""."""
        return model.named_modules()


class TorchFingerprints(FrameworkFingerprints):
    """Between :meth:`begin` and :meth:`end` this thread's modules, losses, gradients and parameters are recorded."""

    def __init__(self, file: RecordFile, model: Any, every: int, first_step: int) -> None:
        super().__init__(file, TorchView(), model, every, first_step)
        self._hooks = list[Any]()
        self._steps = TorchSteps(self.run, self._looks_on)

    def begin(self) -> None:
        """Look on from here."""
        self._hooks = [
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, always_call=True),
        ]
        self._steps.begin()
        self._methods.put(torch.Tensor, "backward", self._backward)
        self._methods.put(torch.autograd, "backward", self._backward)

    def end(self) -> None:
        """Everything is as it was."""
        self._steps.end()
        self._methods.undo()
        for hook in self._hooks:
            hook.remove()
        self.run.end()

    def _looks_on(self) -> bool:
        return super()._looks_on() and not torch.jit.is_tracing()

    def _enter(self, module: Any, operands: Any) -> None:
        if self._looks_on():
            # Hooks of all modules are not passed what is given by name: it is the caller's.
            self.run.enter(module, operands, {} if operands else sys._getframe(1).f_locals.get("kwargs") or {})

    def _leave(self, module: Any, _: Any, result: Any) -> None:
        if self._looks_on():
            self.run.leave(result)


class TorchSteps:
    """Reports to ``run`` what optimizers' steps and clipping do with gradients, while ``looks_on`` says so."""

    def __init__(self, run: SeesSteps, looks_on: Callable[[], bool]) -> None:
        self._run, self._looks_on = run, looks_on
        self._hooks = list[Any]()
        functions = ("clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_")
        present = [getattr(torch.nn.utils, name) for name in functions if hasattr(torch.nn.utils, name)]
        self._clips = [self._watched(inspect.unwrap(function)) for function in present]

    def begin(self) -> None:
        """Look on from here."""
        self._hooks = [
            register_optimizer_step_pre_hook(self._step_begins),
            register_optimizer_step_post_hook(self._step_ends),
        ]
        for patch in self._clips:
            patch.install()

    def end(self) -> None:
        """Everything is as it was."""
        for patch in self._clips:
            patch.uninstall()
        for hook in self._hooks:
            hook.remove()

    def _watched(self, function: Any) -> PyFunctionPatch:
        """A redirection of a function with which programs clip gradients."""
        patch = PyFunctionPatch(function)

        def clip(parameters: Any, *args: Any, **kwargs: Any) -> Any:
            parameters = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
            if self._run.inside or not self._looks_on():
                return patch.original(parameters, *args, **kwargs)
            self._run.clipping(parameters, clip_of_call(function.__name__, args, kwargs))
            with inside(self._run):
                norm = patch.original(parameters, *args, **kwargs)
            self._run.clipped([(parameter, gradient_in_step(parameter)) for parameter in parameters], norm)
            return norm

        patch.set_hook(clip)
        return patch

    def _step_begins(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._looks_on() and not any(map(callable, (*args[1:], *kwargs.values()))):  # a closure has yet to compute gradients
            self._run.updating(torchs_parameters(optimizer), optimizer, OF_TORCH)
            self._run.inside = True

    def _step_ends(self, optimizer: Any, *_: Any) -> None:
        if self._looks_on():
            self._run.inside = False
            self._run.stepped(torchs_parameters(optimizer), lambda: torchs_states(optimizer))


observer = TorchFingerprints
