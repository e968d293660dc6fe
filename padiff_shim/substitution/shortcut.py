"""The flow of :mod:`.call` for its commonest cases, with nothing left to decide.

No autocast, CPU tensors of dtypes whose rule is known and asks for no cast: then a call is bridge, kernel, bridge; with a gradient
wanted, on the tape. Anything else answers None and takes the full way. Tests run every
sample with and without this shortcut.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..dispatch.dtypes import DtypeRules
from ..dispatch.frames import Frame
from ..dispatch.operands import FLOATS, weight, with_gradient, without_gradient
from ..frameworks import weights
from ..frameworks.memory import TENSOR_TYPES, as_operand, grad_tracer, hand_over, own, torch_dtype
from ..gradients.twins import Call, finish
from ..table.op import Entry, Op
from ..table.signature import REFUSALS, refused

_PLAIN = frozenset({int, float, type(None)})


def shortcut(
    op: Op, entry: Entry, rules: DtypeRules, transposed: int | None, dtype_at: int | None
) -> Callable[[Frame, tuple[Any, ...]], Any] | None:
    """A function from the bound values to the result, or None where it does not apply; None if the op never qualifies."""
    if op.operands or entry.inplace:
        return None
    name, count, reference, plain = op.name, op.tensors, op.reference, rules.plain
    read = frozenset(index for index, parameter in enumerate(op.names[:count]) if parameter in op.saves)
    copies = op.copies_result
    reads_result, reads_less = "out" in op.saves, op.saves_beside_number is not None

    def quick(frame: Frame, values: tuple[Any, ...]) -> Any:
        tracer = grad_tracer()
        if tracer is None or tracer._amp_dtype != "float32" or (dtype_at is not None and values[dtype_at] is not None):
            return None
        key, needs, number = [], [], False
        for index, value in enumerate(values[:count]):
            kind = type(value)
            if kind in TENSOR_TYPES:
                dtype = FLOATS.get(value.dtype)
                if not value.stop_gradient:
                    if dtype is None:
                        return None
                    needs.append(index)
                key.append(dtype or torch_dtype(value.dtype))
            elif kind in _PLAIN:
                number = number or value is not None
                key.append(kind)
            else:
                return None
        if tuple(key) not in plain:
            return None
        wanted, trainable = (needs, ()) if tracer._has_grad else ((), needs)
        if wanted and number and reads_less:
            return None  # beside a number an op may read less: the full way knows
        sides: list[Any] = list(values[:count])
        for index, value in enumerate(sides):
            if type(value) in TENSOR_TYPES:
                if not value._is_initialized() or not value.place.is_cpu_place():
                    return None
                if index in wanted:
                    sides[index] = with_gradient(frame, value, transposed=index == transposed)
                else:
                    sides[index] = weight(frame, value) if index == transposed else as_operand(value)
                if not sides[index].numel():
                    return None
        attributes = values[count:]
        try:
            if wanted:
                with torch.enable_grad():
                    out = reference(*sides, *attributes)
                if copies is not None and copies(sides):
                    out = out.clone()  # torch's graph keeps the other one
                saved = [(values[index], values[index].inplace_version) for index in read if type(sides[index]) is torch.Tensor]
                renew = weights.renewer(values[transposed], sides[transposed]) if transposed is not None else None
                return finish(Call(name, frame.tally, saved, renew), out, sides, reads_result=reads_result)
            if trainable:
                out = without_gradient(lambda *xs: reference(*xs, *attributes), values, sides)
            else:
                out = reference(*sides, *attributes)
        except REFUSALS as error:
            raise refused(error) from None
        pointer = out.data_ptr()
        for side in sides:
            if type(side) is torch.Tensor and side.data_ptr() == pointer:
                out = own(out, sides)
        return hand_over(out)

    return quick
