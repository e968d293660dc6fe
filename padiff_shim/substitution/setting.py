"""Elements set to a value that wants a gradient, where that gradient is a sum: torch's.

Setting moves values, and which they are is exact on either kernel; but what is written to several places gets the sum over them.
Paddle's has other last bits, is zero for one number behind a mask, and ends in an error where a value of as many axes is
broadcast (docs/defects.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..frameworks.memory import FLOATS, TENSOR_TYPES, as_operand, check_target, hand_over, stream_of
from ..gradients import inplace, islands, views
from ..gradients.calls import Call
from ..gradients.twins import twin
from ..signals import let_pass
from .moves import indices

SETS = frozenset({"_setitem_dygraph", "masked_fill_"})
_Put = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]  # the values before, and what is set -> the values after


def took(name: str, original: Callable[..., Any], args: Any) -> bool:
    """Whether torch has set the elements; no where Paddle's kernel does the same, or has to say whether it is an error."""
    if len(args) != 3 or not islands.recording() or not _fits(*args):
        return False
    tensor, index, value = args
    parts = index if type(index) is tuple else (index,)
    try:
        check_target((tensor,), elementwise=True)
        put = _masked(as_operand(index)) if name == "masked_fill_" else _at(parts, tensor, value)
        if put is None:
            return False
        side = inplace.before(tensor)
        with stream_of(side.device), torch.enable_grad():
            out = put(side.clone(), twin(value).to(side.dtype))
        if value.ndim > tensor.ndim:  # of the axes of one, in front, Paddle takes some and refuses some
            original(hand_over(as_operand(tensor).clone()), index, hand_over(as_operand(value).clone()))
    except Exception as error:
        let_pass(error)
        return False  # memory that Torch cannot write, or Paddle decides whether it is an error
    if out.shape != side.shape:
        return False
    read = [(part, part.inplace_version) for part in parts if type(part) in TENSOR_TYPES]
    inplace.write(Call("setitem", None, read), tensor, out, reads_result=False)
    return True


def leaves_memory(args: Sequence[Any]) -> bool:
    """Whether Paddle's kernel writes outside of its memory: elements chosen by tensors or lists, of a view with gaps."""
    tensor: Any = args[0] if len(args) == 3 else None
    if type(tensor) not in TENSOR_TYPES or not tensor._is_initialized() or tensor.is_contiguous() or inplace.refused(tensor):
        return False
    parts = args[1] if type(args[1]) is tuple else (args[1],)
    chosen = any(not views.basic(part) and not _is_mask(part) for part in parts)
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.strides))
    return chosen and bool(last >= tensor.size > 0)


def _is_mask(part: Any) -> bool:
    return str(getattr(part, "dtype", "")).rpartition(".")[2] == "bool"


def beside(set_: Callable[..., Any], tensor: Any, index: Any, value: Any) -> None:
    """The same in a copy without gaps, which is written back as it is. ``set_``: how elements are set otherwise."""
    copy = tensor.clone()
    set_(copy, index, value)
    set_(tensor, Ellipsis, copy)


def _fits(tensor: Any, _: Any, value: Any) -> bool:
    """Whether a float tensor that may be written is set to one that wants a gradient."""
    if any(type(one) not in TENSOR_TYPES or one.dtype not in FLOATS or not one._is_initialized() for one in (tensor, value)):
        return False
    # A state that goes from step to step: its history would be that of all of them.
    return not (value.stop_gradient or tensor.persistable or inplace.refused(tensor) or 0 in tensor.shape or 0 in value.shape)


def _masked(mask: torch.Tensor) -> _Put:
    def put(side: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return side.masked_fill(mask, value.reshape(())) if value.numel() == 1 else torch.where(mask, value, side)

    return put


def _at(parts: Any, tensor: Any, value: Any) -> _Put | None:
    """Setting at an index; None where each element of the value is written to one place."""
    parts, turned = _forwards(parts, tensor.shape)
    sides = indices(parts)
    masks = any(isinstance(side, torch.Tensor) and side.dtype is torch.bool for side in sides)
    if not masks and as_operand(tensor)[sides].numel() == value.size:
        return None

    def put(side: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
        side[sides] = given.expand(side[sides].shape).flip(turned) if turned else given
        return side

    return put


def _forwards(parts: Any, shape: Sequence[int]) -> tuple[Any, list[int]]:
    """The same places by an index without negative steps, which Torch has not, and the axes of the value that this turns."""
    if not any(type(part) is slice and type(part.step) is int and part.step < 0 for part in parts):
        return parts, []
    found, turned = [], []
    axis = place = 0  # in the tensor, and in what the index shows
    for part in parts:
        if part is Ellipsis:
            left_out = len(shape) - sum(type(one) in (int, slice) for one in parts)
            axis, place = axis + left_out, place + left_out
        elif part is None:
            place += 1
        elif type(part) is int:
            axis += 1
        elif type(part) is slice:
            shown = range(*part.indices(shape[axis]))
            if shown.step < 0 and shown:
                part = slice(shown[-1], shown[0] + 1, -shown.step)
                turned.append(place)
            axis, place = axis + 1, place + 1
        else:
            raise TypeError("tensors beside negative steps")  # where their axis comes to lie is Paddle's to say
        found.append(part)
    return tuple(found), turned
