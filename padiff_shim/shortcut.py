"""The flow of :mod:`.call` for its commonest case, with nothing left to decide.

No gradient wanted, no autocast, CPU tensors of dtypes whose rule is known and asks for no cast: then a call is bridge, kernel,
bridge. Anything else answers None and takes the full way. Tests run every sample with and without this shortcut.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .bind import REFUSALS, refused
from .bridge import TENSOR_TYPES, grad_tracer, own, remember_layout, to_paddle, to_torch
from .modes import Frame
from .op import Entry, Op
from .operands import weight
from .rules import DtypeRules

_PLAIN = frozenset({int, float, type(None)})


def shortcut(
    op: Op, entry: Entry, rules: DtypeRules, transposed: int | None, dtype_at: int | None
) -> Callable[[Frame, tuple[Any, ...]], Any] | None:
    """A function from the bound values to the result, or None where it does not apply; None if the op never qualifies."""
    if op.operands or entry.inplace:
        return None
    count, reference, plain = op.tensors, op.reference, rules.plain

    def quick(frame: Frame, values: tuple[Any, ...]) -> Any:
        tracer = grad_tracer()
        if tracer is None or tracer._amp_dtype != "float32" or (dtype_at is not None and values[dtype_at] is not None):
            return None
        sides, key = [], []
        for value in values[:count]:
            kind = type(value)
            if kind in TENSOR_TYPES:
                if not value.stop_gradient and tracer._has_grad:
                    return None
                side = to_torch(value)
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
        if transposed is not None:
            sides[transposed] = weight(frame, values[transposed])
        try:
            out = reference(*sides, *values[count:])
        except REFUSALS as error:
            raise refused(error) from None
        pointer = out.data_ptr()
        for side in sides:
            if type(side) is torch.Tensor and side.data_ptr() == pointer:
                out = own(out, sides)
        return to_paddle(out) if out.is_contiguous() else remember_layout(to_paddle(out), out)

    return quick
