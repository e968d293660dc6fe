"""The flow of :mod:`.call` for its commonest cases, with nothing left to decide.

No autocast, CPU tensors of dtypes whose rule is known and asks for no cast: then a call is bridge, kernel, bridge; and with a
gradient wanted and an op that brings its own backward, a graft. Anything else answers None and takes the full way. Tests run every
sample with and without this shortcut.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from .autograd import Node, graft
from .bind import REFUSALS, refused
from .bridge import TENSOR_TYPES, as_operand, grad_tracer, hand_over, own
from .modes import Frame
from .op import Entry, Op
from .operands import weight, without_gradient
from .rules import DtypeRules

_PLAIN = frozenset({int, float, type(None)})
_DIFFERENTIABLE = frozenset({torch.float32, torch.float64})


class Hollow(NamedTuple):
    """Stands in a vjp for a tensor whose values the backward does not read."""

    shape: torch.Size
    dtype: torch.dtype


def shortcut(
    op: Op, entry: Entry, rules: DtypeRules, transposed: int | None, dtype_at: int | None
) -> Callable[[Frame, tuple[Any, ...]], Any] | None:
    """A function from the bound values to the result, or None where it does not apply; None if the op never qualifies."""
    if op.operands or entry.inplace:
        return None
    count, reference, plain = op.tensors, op.reference, rules.plain
    differentiate = _differentiating(op) if op.vjp is not None and transposed is None and not entry.returns_list else None

    def quick(frame: Frame, values: tuple[Any, ...]) -> Any:
        tracer = grad_tracer()
        if tracer is None or tracer._amp_dtype != "float32" or (dtype_at is not None and values[dtype_at] is not None):
            return None
        sides: list[Any] = []
        key, needs, trainable = [], [], False
        for value in values[:count]:
            kind = type(value)
            if kind in TENSOR_TYPES:
                if not value.stop_gradient:
                    if not tracer._has_grad:
                        trainable = True
                    elif differentiate is None:
                        return None
                    else:
                        needs.append(len(sides))
                side = as_operand(value)
                if side.is_cuda or not side.numel():
                    return None
                sides.append(side)
                key.append(side.dtype)
            elif kind in _PLAIN:
                sides.append(value)
                key.append(kind)
            else:
                return None
        if tuple(key) not in plain:
            return None
        if needs:
            return differentiate(frame, values, sides, needs)  # type: ignore[misc]
        if transposed is not None:
            sides[transposed] = weight(frame, values[transposed])
        try:
            if trainable:
                out = without_gradient(lambda *xs: reference(*xs, *values[count:]), values, sides)
            else:
                out = reference(*sides, *values[count:])
        except REFUSALS as error:
            raise refused(error) from None
        pointer = out.data_ptr()
        for side in sides:
            if type(side) is torch.Tensor and side.data_ptr() == pointer:
                out = own(out, sides)
        return hand_over(out)

    return quick


def _differentiating(op: Op) -> Callable[[Frame, tuple[Any, ...], list[Any], list[int]], Any]:
    """The same with a gradient wanted: the op's own backward, grafted."""
    name, count, reference, formula, when = op.name, op.tensors, op.reference, op.vjp, op.vjp_when
    read = frozenset(index for index, parameter in enumerate(op.names[:count]) if parameter in op.saves)
    reads_result, reads_nothing = "out" in op.saves, not op.saves

    def quick(frame: Frame, values: tuple[Any, ...], sides: list[Any], needs: list[int]) -> Any:
        attributes = values[count:]
        arguments = [*sides, *attributes]
        if when is not None and not when(arguments):
            return None
        kept, saved = arguments[:], []
        for index, side in enumerate(sides):
            if type(side) is not torch.Tensor:
                return None  # beside a number an op may read less: the full way knows
            if index in read:
                saved.append((values[index], values[index].inplace_version))
            else:
                kept[index] = Hollow(side.shape, side.dtype)
        dtype = sides[needs[0]].dtype
        if dtype not in _DIFFERENTIABLE:
            return None
        try:
            out = reference(*arguments)
        except REFUSALS as error:
            raise refused(error) from None
        result = hand_over(own(out, sides))
        if reads_result:
            saved.append((result, result.inplace_version))

        def vjp(grad: torch.Tensor) -> Any:
            return formula(grad, out if reads_result else None, kept, needs)  # type: ignore[misc]

        def compute(*xs: torch.Tensor) -> torch.Tensor:
            replayed = arguments[:]
            for index, x in zip(needs, xs):
                replayed[index] = x
            return reference(*replayed)

        sources = [values[index] for index in needs]
        node = Node(name, frame.tally, sources, saved, vjp, None if reads_nothing else compute)
        return graft(result, node, sources, dtype)

    return quick
