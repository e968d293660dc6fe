"""The original, as a program that can be run again and again."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ..frameworks.copies import duplicate
from .arrays import Array
from .sides import Side
from .widening import Widened

_NARROW = (torch.float32, torch.float16, torch.bfloat16)


class TorchSide(Side):
    """The original."""

    framework = "torch"
    hooks = ("_forward_pre_hooks", "_forward_hooks")

    def _write(self, buffer: Any, value: Any) -> None:
        with torch.no_grad():
            buffer.copy_(value)

    def fill(self, parameter: Any, values: np.ndarray[Any, Any]) -> None:
        self._write(parameter, torch.from_numpy(values))

    def _mode(self, wide: bool = False, *, formed: bool = True) -> contextlib.AbstractContextManager[Any]:
        return Widened(self.wider) if self._widens(wide) else contextlib.nullcontext()

    def dtype(self) -> str:
        first = next((one for one in self._held(self.model).parameters.values() if one.is_floating_point()), None)
        return "float32" if first is None else str(first.dtype).rpartition(".")[2]

    @property
    def epsilon(self) -> float:
        """Of the dtype of the parameters."""
        return float(torch.finfo(getattr(torch, self.dtype())).eps)

    def _device(self) -> str:
        return next((str(parameter.device) for parameter in self._held(self.model).parameters.values()), "cpu")

    def _labels(self, model: Any) -> dict[int, str]:
        found = self._held(model)
        return {tensor.data_ptr(): name for name, tensor in [*found.buffers.items(), *found.parameters.items()]}

    def _go_back(self, tensors: list[Any], *, ones: bool) -> None:
        wanted = [tensor for tensor in tensors if tensor.requires_grad]
        if not wanted:
            return
        starts = None if ones else [torch.from_numpy(self._cotangent(i, t)).to(t) for i, t in enumerate(wanted)]
        torch.autograd.backward(wanted, starts)

    def _leaf(self, tensor: Any) -> Any:
        return tensor.detach().requires_grad_() if tensor.is_floating_point() else None

    def _trainable(self, parameter: Any) -> bool:
        return bool(parameter.requires_grad)

    def _clear(self) -> None:
        for model in (self.model, self._wide):
            if model is not None:
                for parameter in self._held(model).parameters.values():
                    parameter.grad = None

    def _gradients(self, model: Any, array: Callable[[Any], Array]) -> dict[str, Array]:
        return {name: array(p.grad) for name, p in self._held(model).parameters.items() if p.grad is not None}

    def _shallow(self) -> Any:
        weights = [weight for weight in self.model.parameters() if type(weight) is torch.nn.Parameter and not vars(weight)]
        narrow = [weight for weight in weights if weight.dtype in _NARROW]
        return duplicate(self.model, {id(weight): torch.nn.Parameter(weight.data, weight.requires_grad) for weight in narrow})

    @staticmethod
    def converted(model: Any, dtype: str) -> Any:
        wanted = getattr(torch, dtype)
        return model._apply(lambda tensor: tensor.to(wanted) if tensor.is_floating_point() else tensor)

    def can_be_simple(self) -> bool:
        """Experts of transformers 5 multiply by groups, of which Torch has no float64 kernel; they have a switch for that."""
        return any(config._experts_implementation != "eager" for _, config in _with_experts(self.model))

    def simplify(self, model: Any) -> None:
        for layer, _ in _with_experts(model):
            layer.set_experts_implementation("eager")

    def _named_layers(self, model: Any) -> list[tuple[str, Any]]:
        return list(model.named_modules())

    def _hooks(self, layer: Any, enter: Callable[..., None], leave: Callable[..., None]) -> list[Any]:
        return [layer.register_forward_pre_hook(enter), layer.register_forward_hook(leave)]


def _with_experts(model: torch.nn.Module) -> list[tuple[Any, Any]]:
    """Models of transformers that say how experts are computed, each with its configuration."""
    models = ((layer, getattr(layer, "config", None)) for layer in model.modules() if hasattr(layer, "set_experts_implementation"))
    return [(layer, config) for layer, config in models if hasattr(config, "_experts_implementation")]
