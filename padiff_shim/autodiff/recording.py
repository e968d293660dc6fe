"""What every layer of a model gave, the gradients that came back to it, and the lines that called it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import numpy as np
import paddle
import torch

from ..dispatch.site import Site, call_stack
from ..proving.values import as_array, leaves, mapped

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
    stack: tuple[Site, ...] = ()

    @property
    def key(self) -> tuple[str, int]:
        return self.path, self.occurrence


class Recorder:
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
