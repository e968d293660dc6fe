"""What Paddle keeps for its backward of an operand that lies strided: the operand itself, or a contiguous copy.

Some of its kernels read strided tensors, more from version to version; for the others it makes a copy, and keeps that. A program
may then write into the operand's memory (fill a buffer column by column from the columns before), and its backward goes on with the
old values; where the operand itself is kept, the backward raises.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import paddle
from paddle.base import core

from ..dispatch.door import Door
from ..dispatch.dtypes import has_kernel
from ..dispatch.frames import paused
from ..dispatch.spelling import spelled
from ..frameworks.memory import TENSOR_TYPES
from ..gradients.saved import never_unpacked
from ..signals import let_pass


def keeps_itself(door: Door, values: Sequence[Any], index: int) -> bool | None:
    """Whether Paddle keeps operand ``index`` of a call itself; the very call is asked, with copies of what it writes into.

    True as well of calls that cannot be made once more, so that a backward that reads what was written raises. None if it cannot be
    seen now. ``values``: the bound call, as Paddle's own tensors.
    """
    if not _can_be_asked(door) or not values[index].data_ptr():
        return True
    operand = values[index].detach()
    saved: list[Any] = []
    operand.stop_gradient = False
    own = [operand if place == index else _apart(value, place in door.overwritten) for place, value in enumerate(values)]
    args = spelled(door.entry, dict(zip(door.names, own)), door.names)
    with paused(), paddle.enable_grad():
        try:
            core.eager.register_saved_tensors_hooks(saved.append, never_unpacked)
        except ValueError:  # the program's own are set
            return None
        try:
            door.native(*args)
        except Exception as error:
            let_pass(error)
            return True
        finally:
            core.eager.reset_saved_tensors_hooks()
    memory = operand.data_ptr()
    return any(tensor.data_ptr() == memory for tensor in saved)


def _can_be_asked(door: Door) -> bool:
    op = door.op
    return not (op.random or op.operands) and door.entry.arrange is None and has_kernel(op)


def _apart(value: Any, written: bool) -> Any:
    """A value beside the graph; a copy of what the native call would write into: the program's own call is yet to come."""
    if type(value) not in TENSOR_TYPES:
        return value
    return value.detach().clone() if written else value.detach()
