"""The way of :mod:`.execute` for its commonest cases, with nothing left to decide.

No autocast, CPU tensors of dtypes whose rule is known and asks for no cast: then a call is bridge, kernel, bridge; with a gradient
wanted, on the tape. Anything else answers None and takes the full way. Tests run every sample with and without this shortcut.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..dispatch.frames import Frame
from ..dispatch.operands import FLOATS, weight, without_gradient
from ..frameworks.memory import TENSOR_TYPES, as_operand, grad_tracer, torch_dtype
from ..table.signature import REFUSALS, refused
from .leaves import with_gradient
from .results import handed

if TYPE_CHECKING:
    from .execute import Substitution

_PLAIN = frozenset({int, float, type(None)})


def shortcut(substitution: Substitution) -> Callable[[Frame, tuple[Any, ...]], Any] | None:
    """A function from the bound values to the result, or None where it does not apply; None if the op never qualifies."""
    door, op = substitution.door, substitution.op
    if op.operands or door.entry.inplace:
        return None
    count, reference, plain, transposed, dtype_at = op.tensors, op.reference, door.rules.plain, door.transposed, door.dtype_at

    def quick(frame: Frame, values: tuple[Any, ...]) -> Any:
        tracer = grad_tracer()
        if tracer is None or tracer._amp_dtype != "float32" or (dtype_at is not None and values[dtype_at] is not None):
            return None
        key, needs = [], []
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
                key.append(kind)
            else:
                return None
        if tuple(key) not in plain:
            return None
        wanted, trainable = (needs, ()) if tracer._has_grad else ((), needs)
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

        def run(*tensors: Any) -> Any:
            return reference(*tensors, *attributes)

        try:
            if wanted:
                return substitution.on_tape(frame, values, sides, attributes, run)
            out = without_gradient(run, values, sides) if trainable else run(*sides)
        except REFUSALS as error:
            raise refused(error) from None
        return substitution.answer(values, sides, out, handed)

    return quick
