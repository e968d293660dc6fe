"""The tensor operands of one call on both sides, and several results in tuples and lists."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Container, Sequence
from typing import Any, NamedTuple

import numpy as np
import paddle
import torch

from ..frameworks import weight_copies
from ..frameworks.memory import TENSOR_TYPES, as_it_lies, as_operand, explain, to_torch
from ..table import reasons
from ..table.reasons import StayNative
from ..torch_versions import set_grad_enabled
from .frames import Frame

# ---- Several results of one call: in a tuple or a list, which may hold lists in turn (the states of a recurrent layer).


def flat(results: Any) -> list[Any]:
    """All results, one or several, in order; what is no container is one."""
    if not isinstance(results, (list, tuple)):
        return [results]
    return [result for item in results for result in (item if isinstance(item, (list, tuple)) else (item,))]


def each(results: Any, function: Callable[[int, Any], Any]) -> Any:
    """The same containers around ``function(position, result)``."""
    positions = itertools.count()

    def exchanged(result: Any) -> Any:
        if isinstance(result, (list, tuple)):
            return type(result)([exchanged(item) for item in result])
        return function(next(positions), result)

    return exchanged(results)


def nested(results: Any) -> bool:
    """Whether a result is a container inside of the container of results."""
    return isinstance(results, (list, tuple)) and any(isinstance(item, (list, tuple)) for item in results)


NUMBERS = (int, float, bool)


class CallOperands(NamedTuple):
    """The tensor operands of one call on both sides."""

    paddle: list[Any]  # as Paddle made the call (tensors, numbers, None)
    torch: list[Any]  # the same, bridged
    needs: list[int]  # positions whose gradient is wanted


def bridge(
    frame: Frame, operands: Sequence[Any], grad_mode: bool, transposed: int | None, integer_places: Container[int]
) -> CallOperands:
    """The Torch side of the operands, zero-copy. ``transposed``: which is a weight that Torch reads as [out, in]."""
    sides: list[Any] = []
    originals: list[Any] = []
    needs: list[int] = []
    has_tensor = False
    for index, value in enumerate(operands):
        if type(value) in TENSOR_TYPES or isinstance(value, paddle.Tensor):
            has_tensor = True
            try:
                wanted = grad_mode and not value.stop_gradient
                on_tape = wanted and frame.plan.on_tape  # a weight's copy is a leaf there: see substitution/execute.py
                turned = index == transposed and not on_tape
                side = weight(frame, value, sides[0], operands[2]) if turned else as_operand(value)
            except StayNative:
                raise
            except Exception as error:
                raise explain(value, error) from None
            if wanted and (side.is_floating_point() or side.is_complex()):
                needs.append(index)
            elif wanted and index not in integer_places:
                raise StayNative(reasons.INTEGER_WANTS_GRADIENT)
        elif value is None or type(value) in NUMBERS:
            side = value
        elif isinstance(value, np.ndarray):
            value = paddle.to_tensor(value)
            side = to_torch(value)
        elif isinstance(value, (np.generic, int, float)):
            side = value.item() if isinstance(value, np.generic) else value
        else:
            if type(value).__name__ in {"Value", "Variable", "OpResult", "Parameter"}:  # classes of a static program
                raise StayNative(reasons.STATIC)
            raise StayNative(reasons.OPERAND_TYPE, type=type(value).__name__)
        sides.append(side)
        originals.append(value)
    if not has_tensor:
        raise StayNative(reasons.NO_TENSOR)
    return CallOperands(originals, sides, needs)


def beside_graph(inputs: CallOperands, without_integers: bool) -> None:
    """StayNative where no float operand wants a gradient, but one of whole numbers, which may put the result on Paddle's graph."""
    if inputs.needs or without_integers:
        return
    if any(isinstance(value, paddle.Tensor) and not value.stop_gradient for value in inputs.paddle):
        raise StayNative(reasons.INTEGER_WANTS_GRADIENT)


def wanting(paddle_side: Sequence[Any], torch_side: Sequence[Any]) -> list[int]:
    """The float operands that want a gradient, under ``no_grad`` too."""
    positions = []
    for index, value in enumerate(paddle_side):
        if isinstance(value, paddle.Tensor) and not value.stop_gradient and torch_side[index].is_floating_point():
            positions.append(index)
    return positions


def without_gradient(run: Callable[..., Any], paddle_side: Sequence[Any], torch_side: Sequence[Any]) -> Any:
    """``run(*torch_side)`` as Torch would compute it under ``no_grad``, where parameters go on requiring gradients.

    Torch chooses some kernels by that: ``matmul`` (and with it ``linear``) folds a batch into one product if the matrix requires a
    gradient, even where that takes a copy, and otherwise multiplies batch by batch: other last bits.
    """
    trainable = wanting(paddle_side, torch_side)
    if not trainable:
        return run(*torch_side)
    sides = list(torch_side)
    for index in trainable:
        sides[index] = sides[index].detach().requires_grad_()
    recorded = torch.is_grad_enabled()
    try:
        set_grad_enabled(False)  # not no_grad(), at whose end a Ctrl-C would leave it so
        return each(run(*sides), lambda _, result: result.detach() if isinstance(result, torch.Tensor) else result)
    finally:
        set_grad_enabled(recorded)


def weight(frame: Frame, value: Any, x: Any, bias: Any) -> torch.Tensor:
    """A Linear weight as [out, in], by which ``x``, on Torch's side, is multiplied, to add ``bias``, on Paddle's."""
    cost = frame.run.layout_cost
    if value.ndim != 2:
        raise StayNative(reasons.NOT_A_MATRIX)
    if frame.linear_layout == "view":
        cost.views += 1
        return as_operand(value).t()
    source = as_it_lies(value)
    if spares(frame, x, source, bias):
        cost.spared += 1
        return source.t()
    return weight_copies.transposed_copy(value, source, cost)


def spares(frame: Frame, x: Any, weight: torch.Tensor, bias: Any) -> bool:
    """Whether a product may read this Linear weight as it lies: asked for, and known to leave its bits."""
    return frame.linear_layout != "copy" and weight_copies.needless(x, weight, bias)
