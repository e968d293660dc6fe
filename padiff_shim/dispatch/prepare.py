"""A bound call, made ready for any plan: operands on torch's side, attributes, and the casts that they need.

    bind -> bridge -> autocast -> dtype rule

Whatever does not fit leaves as :class:`StayNative`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from ..frameworks import autocast
from ..frameworks.memory import TENSOR_TYPES, check_target, dtype_of, grad_tracer, torch_dtype
from ..table import reasons
from ..table.reasons import StayNative
from .creation import readers
from .door import Door
from .frames import Frame
from .operands import NUMBERS, Inputs, beside_graph, bridge


class Casts(NamedTuple):
    """Autocast's casts of single operands, then the promotion of all to the result's dtype."""

    targets: list[torch.dtype | None] | None
    promotion: torch.dtype | None

    @property
    def none(self) -> bool:
        """Nothing is cast."""
        return self.targets is None and self.promotion is None

    def apply(self, tensors: Sequence[Any]) -> list[Any]:
        """The operands as the kernel gets them."""
        converted = list(tensors)
        for index, tensor in enumerate(converted):
            if isinstance(tensor, torch.Tensor):
                if self.targets is not None and (target := self.targets[index]) is not None:
                    tensor = tensor.to(target)
                converted[index] = tensor if self.promotion is None else tensor.to(self.promotion)
        return converted


NO_CASTS = Casts(None, None)


class Prepared(NamedTuple):
    """A bound call on torch's side."""

    inputs: Inputs
    attributes: tuple[Any, ...]
    casts: Casts


def prepare(door: Door, frame: Frame, values: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Prepared:
    """The bound call on torch's side: operands, attributes, and the casts that they need; or StayNative."""
    op = door.op
    if op.operands:
        operands, attributes = values[0], values[1:]
    elif op.tensors:
        operands, attributes = values[: op.tensors], values[op.tensors :]
    else:
        return _created(door, values)
    tracer = grad_tracer()
    if tracer is None:
        raise StayNative(reasons.STATIC)
    if door.numbers:
        operands = _numbers(door, operands)
    inputs = bridge(frame, operands, tracer._has_grad, door)
    if tracer._has_grad:
        beside_graph(inputs, door)
    if door.dtype_at is not None and attributes[door.dtype_at - op.tensors] is not None:
        attributes = _convert_dtype(door, attributes)
    if door.entry.inplace:
        check_target(inputs.paddle, elementwise=op.elementwise)
    empty = [not side.numel() for side in inputs.torch if isinstance(side, torch.Tensor)]
    if any(empty) and (all(empty) or not op.passes_empty):
        raise StayNative(reasons.EMPTY)
    targets = _autocast(door, tracer, inputs) if autocast.active(tracer) else None
    cast = door.rules.find(inputs, targets, values, args, kwargs)
    return Prepared(inputs, attributes, NO_CASTS if targets is None and cast is None else Casts(targets, cast))


def _created(door: Door, values: tuple[Any, ...]) -> Prepared:
    """A call that creates its result from numbers alone."""
    if grad_tracer() is None:
        raise StayNative(reasons.STATIC)
    attributes = tuple([read(value) for read, value in zip(readers(door.names), values)])
    return Prepared(Inputs([], [], []), attributes, NO_CASTS)


def _numbers(door: Door, operands: Sequence[Any]) -> list[Any]:
    """The operands with numbers where this door takes such, which Paddle reads out of tensors of one element, without gradient."""
    found = list(operands)
    for index in door.numbers:
        if type(found[index]) in TENSOR_TYPES:
            if found[index].size != 1 or not found[index].stop_gradient:
                raise StayNative(reasons.TENSOR_FOR_NUMBER)
            found[index] = found[index].item()
    return found


def _convert_dtype(door: Door, attributes: tuple[Any, ...]) -> tuple[Any, ...]:
    """The dtype attribute as torch's."""
    at = door.dtype_at - door.op.tensors  # type: ignore[operator]
    dtype = torch_dtype(attributes[at])
    if dtype is None:
        raise StayNative(reasons.NO_TWIN, dtype=attributes[at])
    return (*attributes[:at], dtype, *attributes[at + 1 :])


def _autocast(door: Door, tracer: Any, inputs: Inputs) -> list[torch.dtype | None]:
    """Per operand the dtype that Paddle's autocast would give it."""
    tensors = [t for t in inputs.torch if isinstance(t, torch.Tensor)]
    dtypes = [dtype_of(t.dtype) for t in tensors]
    name = door.op.amp[any(type(t) in NUMBERS for t in inputs.torch)] or door.op.name
    chosen = autocast.destination(tracer, name, dtypes, on_accelerator=any(t.is_cuda for t in tensors))
    queue = iter(autocast.casts(name, chosen, dtypes))
    return [torch_dtype(next(queue)) if isinstance(t, torch.Tensor) else None for t in inputs.torch]


def device_of(sides: Sequence[Any], attributes: Sequence[Any] = ()) -> torch.device:
    """The device of a call: its first tensor's; of a call without operands the one that it names."""
    tensor = next((side for side in sides if isinstance(side, torch.Tensor)), None)
    return next(value for value in attributes if isinstance(value, torch.device)) if tensor is None else tensor.device
