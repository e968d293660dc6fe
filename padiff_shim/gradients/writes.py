"""Native ops that write into a tensor, as islands: the tensor takes the island's history.

With Paddle's own node the tensor would be a frontier, and what leads to both sides of it would get its gradient in two parts, of
which hooks would see each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import paddle

from ..frameworks.memory import FLOATS, TENSOR_TYPES
from . import clean
from .inplace import before, refused, take
from .islands import Cell, begun, on_tape, recording
from .operands import Operands

# What moves values in place, and into which argument.
WRITES = {
    **dict.fromkeys(
        """_setitem_dygraph fill_ fill_diagonal_ fill_diagonal_tensor_ flatten_ increment_ index_elementwise_put_
        index_elementwise_put_with_tensor_ index_put_ masked_fill_ put_along_axis_ reshape_ scatter_ set_value_
        set_value_with_tensor_ squeeze_ transpose_ tril_ triu_ unsqueeze_""".split(),  # noqa: SIM905
        0,
    ),
    "where_": 1,
    "assign_out_": 1,
}


def written(name: str, place: int, original: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A native op that writes into an argument and returns it or nothing; an island where it meets the tape."""
    target: Any = args[place] if len(args) > place else None
    if type(target) not in TENSOR_TYPES or target.dtype not in FLOATS or refused(target) or not recording():
        return original(*args, **kwargs)
    if target.persistable:  # a state that goes from step to step (a quantiser's scale): its history would be that of all of them
        return original(*args, **kwargs)
    if not target.size or not (on_tape(args) or on_tape(list(kwargs.values()))):
        return original(*args, **kwargs)
    operands = Operands()
    first = target.stop_gradient and target._is_initialized()  # nobody wants a gradient of it, and the write may change that
    entered = operands.enter(target, before(target)) if first else operands.alias(target)
    # With a node of its own, which is exchanged: that of the operand stays where a second derivative looks for it.
    alias = paddle.Tensor() if target.stop_gradient and not first else clean.alias(entered)
    target._share_underline_tensor_to(alias)
    given = [alias if index == place else operands.alias(value) for index, value in enumerate(args)]
    outs = original(*given, **{key: operands.alias(value) for key, value in kwargs.items()})
    own = operands.inlets[:1] if first else []
    led = operands.led_to_by([alias])  # not what the new values know nothing of: the old ones, of an assignment
    if alias.stop_gradient or (first and (not led or operands.inlets == own)):  # nothing that is written wants a gradient
        return target if outs is alias else outs
    (end,) = begun(Cell(name, [alias], operands, once=False))
    take(target, alias.detach(), end)
    return target if outs is alias else outs
