"""Views and other movements of values, elements that are set, and native kernels run in float32 where nothing is rounded."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ..dispatch.dtypes import dtype_of_call, in_float32, is_of_one_dtype, is_sound, lacks
from ..dispatch.frames import top
from ..frameworks.memory import (
    FLOATS,
    TENSOR_TYPES,
    TORCH_DTYPES,
    as_operand,
    check_target,
    forget_strides,
    hand_over,
    laid_out,
    shares_memory,
    stream_of,
    to_torch,
    torch_dtype,
    with_strides,
)
from ..frameworks.versions import PaddleTensor
from ..interrupts import let_pass
from ..table.reasons import StayNative
from ..tape import islands, views
from ..tape.calls import TapeCall
from ..tape.twins import taped, twin
from ..torch_versions import without_modes
from .execute import moved_result, on_tape, overwritten

# ---- Views, and what looks like one: where both frameworks make a view, each makes its own; where they copy, Torch copies.
#
# A reshape copies if the strides ask for it, an index of tensors, lists or masks always; Paddle's copies of strided tensors are
# many times slower than torch's.

_COPYING = frozenset({"reshape", "flatten", "contiguous"})


def move(name: str, original: Callable[..., Any], args: Sequence[Any]) -> Any:
    """The result of an op that makes views, or None where Paddle has to say what it does."""
    tensor = args[0]
    if type(tensor) not in TENSOR_TYPES:
        return None
    wanted = not tensor.stop_gradient and islands.recording()
    copies = name in _COPYING and not tensor.is_contiguous()  # Paddle's own contiguous() makes it so in place
    if wanted:
        result = views.view(name, original, args)
        if result is not None:
            return result
    if name == "_getitem_dygraph":
        return _indexed(tensor, args[1], wanted=wanted)
    if copies:

        def formula(side: torch.Tensor) -> torch.Tensor:
            if name == "contiguous" and side.is_contiguous():  # but for an axis of size 1, whose stride Torch leaves as it is
                return side.clone()
            return views.VIEWS[name](side, *args[1:])

        return _copied_by_torch(name, tensor, (), formula, wanted=wanted)
    if name == "contiguous":
        forget_strides(tensor)
    return None


# ---- What Paddle's kernels make densely, and Torch's with the strides of an operand: masks, and tensors of one number.

_EXPANDED = frozenset({"expand", "expand_as"})  # of masks; of floats Torch makes them
LAID_OUT = _EXPANDED | frozenset(
    """equal greater_equal greater_than isclose isfinite isinf isnan less_equal less_than logical_and logical_not logical_or
    logical_xor not_equal bitwise_and bitwise_not bitwise_or bitwise_xor full_like ones_like zeros_like""".split()  # noqa: SIM905
)


def laid_out_as_torchs(name: str, args: Sequence[Any], result: Any) -> Any:
    """A result of one of these kernels of Paddle's, beside the tape, with the strides that it has in a Torch program."""
    sources = [value for value in args if type(value) in TENSOR_TYPES]
    if type(result) not in TENSOR_TYPES or not result._is_initialized() or 0 in result.shape or not result.stop_gradient:
        return result
    try:
        sides = [as_operand(tensor) for tensor in sources]
        if name in _EXPANDED:
            return hand_over(sides[0].expand(tuple(result.shape)))
        if all(side.is_contiguous() for side in sides):
            return result
        with without_modes():  # nothing that the program calls
            like = [torch.empty_strided(side.shape, side.stride(), device="meta") for side in sides]
            made = functools.reduce(torch.add, like[1:], like[0].abs())
        return laid_out(result, made)
    except (StayNative, RuntimeError, ValueError, TypeError):
        return result  # memory that cannot be shared, or Paddle's own rules for shapes


def followed(name: str, args: Sequence[Any], result: Any) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """The results that Paddle moved by itself, beside the tape, each with Torch's view of the operand with the same elements."""
    if name not in views.VIEWS or not args or type(args[0]) not in TENSOR_TYPES:
        return []
    results = result if isinstance(result, (list, tuple)) else [result]
    if any(
        type(result_of_paddle) not in TENSOR_TYPES
        or result_of_paddle is args[0]
        or not (result_of_paddle.stop_gradient or result_of_paddle.dtype not in FLOATS)
        or taped(result_of_paddle) is not None
        for result_of_paddle in results
    ):
        return []
    try:
        views_of_torch = views.VIEWS[name](to_torch(args[0]), *args[1:])
        sides = [to_torch(result_of_paddle) for result_of_paddle in results]
    except (StayNative, RuntimeError, ValueError, TypeError, IndexError):
        return []
    made = list(views_of_torch) if isinstance(views_of_torch, tuple) else [views_of_torch]
    alike = len(made) == len(sides) and all(view is not None and view.shape == side.shape for view, side in zip(made, sides))
    return list(zip(sides, made)) if alike else []


def recast(tensor: PaddleTensor, dtype: str) -> Any:
    """A float tensor in another float dtype, by a step of torch's graph that is no call of the program's."""
    wanted = not tensor.stop_gradient and islands.recording()
    result = _copied_by_torch("cast", tensor, (), lambda side: side.to(TORCH_DTYPES[dtype]), wanted=wanted)
    return tensor.astype(dtype) if result is None else result  # without elements


def _indexed(tensor: PaddleTensor, index: Any, *, wanted: bool) -> Any:
    """A tensor at indices of which some are tensors, lists or masks."""
    parts = index if type(index) is tuple else (index,)
    if all(views.basic(part) for part in parts) or (tensor.dtype not in FLOATS and tensor.is_contiguous()):
        return None  # of strided integers, too, Paddle reads the wrong elements (docs/defects.md)
    try:
        sides = indices(parts)
    except (StayNative, ValueError, TypeError):
        return None
    return _copied_by_torch(
        "getitem", tensor, [part for part in parts if type(part) in TENSOR_TYPES], lambda side: side[sides], wanted=wanted
    )


def indices(parts: Sequence[Any]) -> tuple[Any, ...]:
    """An index on torch's side. Raises StayNative, ValueError or TypeError for what torch has no equal of."""
    return tuple([part if views.basic(part) else _index(part) for part in parts])


def _index(part: Any) -> torch.Tensor:
    """A tensor, list or array of indices or of truth values on torch's side."""
    if type(part) in TENSOR_TYPES:
        side = as_operand(part)
    elif type(part) is list or hasattr(part, "tolist"):  # an array of NumPy's
        side = torch.tensor(part)
    else:
        raise TypeError(f"an index of type {type(part).__name__}")
    if side.dtype is torch.bool:
        return side
    if side.is_floating_point() or not side.numel():
        raise TypeError("indices are integers")
    return side.long()


def _copied_by_torch(
    name: str, tensor: PaddleTensor, read: Sequence[Any], formula: Callable[[torch.Tensor], torch.Tensor], *, wanted: bool
) -> Any:
    """What torch copies; None where it makes a view or refuses. ``read``: tensors that the backward reads."""
    if (tensor.dtype not in FLOATS and name != "getitem") or not tensor._is_initialized() or 0 in tensor.shape:
        return None
    try:
        side = twin(tensor) if wanted else as_operand(tensor)
        with stream_of(side.device), torch.set_grad_enabled(wanted):
            out = formula(side)
    except Exception as error:
        let_pass(error)
        return None  # Paddle decides whether it is an error
    if not out.numel() or shares_memory(out, (side,)):
        return None
    if not wanted:
        return with_strides(moved_result(out, (side,)), out)
    with torch.enable_grad():
        return on_tape(TapeCall(name, None, [(operand, operand.inplace_version) for operand in read]), out, (side,))


# ---- Elements set to a value that wants a gradient, where that gradient is a sum: torch's.
#
# Setting moves values, exactly on either kernel; but a value that is written to several places gets the sum over them. Paddle's
# has other last bits, is zero for one number behind a mask, and ends in an error where a value of as many axes is broadcast. Of
# elements that tensors or lists choose, its gradient is written as float32 whatever the dtype is (docs/defects.md), and of several
# values for one place it reaches the first, though the last is what stays.

SETS = frozenset({"_setitem_dygraph", "masked_fill_"})
_Put = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]  # the values before, and what is set -> the values after


def set_by_torch(name: str, original: Callable[..., Any], args: Any) -> bool:
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
        side = islands.twin_before_write(tensor)
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
    islands.write(TapeCall("setitem", None, read), tensor, out, reads_result=False)
    return True


def leaves_memory(args: Sequence[Any]) -> bool:
    """Whether Paddle's kernel writes outside of its memory: elements chosen by tensors or lists, of a view with gaps."""
    tensor: PaddleTensor = args[0] if len(args) == 3 else None
    if type(tensor) not in TENSOR_TYPES or not tensor._is_initialized() or tensor.is_contiguous() or islands.refuses_writes(tensor):
        return False
    parts = args[1] if type(args[1]) is tuple else (args[1],)
    chosen = any(not views.basic(part) and str(getattr(part, "dtype", "")).rpartition(".")[2] != "bool" for part in parts)
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.strides))
    return chosen and bool(last >= tensor.size > 0)


def set_in_copy(set_: Callable[..., Any], tensor: PaddleTensor, index: Any, value: Any) -> None:
    """The same in a copy without gaps, which is written back as it is. ``set_``: how elements are set otherwise."""
    copy = tensor.clone()
    set_(copy, index, value)
    set_(tensor, Ellipsis, copy)


def _fits(tensor: PaddleTensor, _: Any, value: Any) -> bool:
    """Whether a float tensor that may be written is set to one that wants a gradient."""
    if any(
        type(operand) not in TENSOR_TYPES or operand.dtype not in FLOATS or not operand._is_initialized()
        for operand in (tensor, value)
    ):
        return False
    # A state that goes from step to step: its history would be that of all of them.
    return not (
        value.stop_gradient or tensor.persistable or islands.refuses_writes(tensor) or 0 in tensor.shape or 0 in value.shape
    )


def _masked(mask: torch.Tensor) -> _Put:
    def put(side: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        return side.masked_fill(mask, value.reshape(())) if value.numel() == 1 else torch.where(mask, value, side)

    return put


def _at(parts: Any, tensor: PaddleTensor, value: Any) -> _Put | None:
    """Setting at an index; None where each element of the value is written to one place, which only slices and integers show."""
    parts, turned = _forwards(parts, tensor.shape)
    sides = indices(parts)
    chosen = any(isinstance(side, torch.Tensor) for side in sides)
    if not chosen and as_operand(tensor)[sides].numel() == value.size:
        return None

    def put(side: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        side[sides] = source.expand(side[sides].shape).flip(turned) if turned else source
        return side

    return put


def _forwards(parts: Any, shape: Sequence[int]) -> tuple[Any, list[int]]:
    """The same places by an index without negative steps, which Torch has not, and the axes of the value that this turns."""
    if not any(type(part) is slice and type(part.step) is int and part.step < 0 for part in parts):
        return parts, []
    forward_parts, turned = [], []
    axis = place = 0  # in the tensor, and in what the index shows
    for part in parts:
        if part is Ellipsis:
            left_out = len(shape) - sum(type(other) in (int, slice) for other in parts)
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
        forward_parts.append(part)
    return tuple(forward_parts), turned


# ---- Paddle's kernel on the same values in float32, where it has none in 16 bits and nothing is rounded.
#
# Values go there and back as steps of Torch's graph, where a gradient is wanted (:mod:`padiff_shim.dispatch.dtypes`).

NAMES: set[str] = set()  # ops of which a kernel was missing
_lacking: set[tuple[str, str]] = set()  # the same with the dtype


def lacks_kernel(name: str, error: Exception, args: Any, kwargs: dict[str, Any], place: int | None = None) -> bool:
    """Whether a native call failed for want of a kernel in the dtype of all its floats; :func:`call_in_float32` then knows of it.

    ``place``: of the argument that the op writes into; none that Paddle refuses to write.
    """
    let_pass(error)
    dtype = lacks(name, error, args, kwargs)
    if not dtype or _is_refused(args, place):
        return False
    NAMES.add(name)
    _lacking.add((name, dtype))
    return True


def call_in_float32(name: str, make: Callable[..., Any], args: Any, kwargs: dict[str, Any], place: int | None = None) -> Any:
    """``make(*args, **kwargs)``, which calls the native op ``name``; in float32 where Paddle has no kernel in the operands' dtype.

    Args:
        place: of the argument that the op writes into.

    Raises:
        RuntimeError: Paddle's own, where there is no kernel and other floats are among the operands, or a leaf would be written.
    """
    dtype = dtype_of_call(args, kwargs)
    known = (name, dtype) in _lacking and is_sound(name, args, kwargs)
    if not known or not is_of_one_dtype(args, kwargs, dtype) or _is_refused(args, place):
        try:
            return make(*args, **kwargs)
        except RuntimeError as error:
            if not lacks_kernel(name, error, args, kwargs, place):
                raise
    result, wide = in_float32(make, args, kwargs, dtype, recast)
    frame = top()
    if frame is not None:
        frame.tally.lacking[name.strip("_"), dtype] += 1
    if place is None:
        return result
    target = args[place]
    values, half = wide[id(target)], torch_dtype(target.dtype)
    assert half is not None
    if values.stop_gradient or not islands.recording():
        overwritten(target, as_operand(values).to(half))._bump_inplace_version()
    else:
        with torch.enable_grad():
            islands.write(TapeCall("cast", None, []), target, twin(values).to(half), reads_result=False)
    return target if result is values else result


def _is_refused(args: Any, place: int | None) -> bool:
    return place is not None and islands.recording() and islands.refuses_writes(args[place])
