"""Paddle's own kernel on the same values in float32, where it has none in 16 bits and nothing is rounded: moves, choices, counts.

All numbers of 16 bits are numbers of float32, so such a kernel gives in float32 what it would give in 16 bits; what it draws
it draws in float32 on every device. Values go there and back as steps of Torch's graph, where a gradient is wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import paddle
import torch

from ..dispatch.containers import each
from ..dispatch.dtypes import exchanged
from ..dispatch.frames import top
from ..dispatch.lacking import HALVES, dtype_without_kernel, is_old_form_without_kernel
from ..frameworks.memory import FLOATS, TENSOR_TYPES, as_operand
from ..gradients import inplace, islands
from ..gradients.calls import Call
from ..gradients.twins import twin
from ..signals import let_pass
from .moves import recast
from .results import overwritten

_DTYPES = {name: getattr(paddle, name) for name in HALVES}
NAMES: set[str] = set()  # ops of which a kernel was missing
_lacking: set[tuple[str, str]] = set()  # the same with the dtype
_SHARING = frozenset({"coalesce_tensor"})  # gives tensors other memory, which copies in float32 would not get


def is_for(name: str, error: Exception, args: Any, kwargs: dict[str, Any], place: int | None = None) -> bool:
    """Whether a native call failed for want of a kernel in the dtype of all its floats; :func:`made` then knows of it.

    ``place``: of the argument that the op writes into; none that Paddle refuses to write.
    """
    let_pass(error)
    dtype = _dtype(args, kwargs) if is_old_form_without_kernel(error) else dtype_without_kernel(error)
    if not dtype or name in _SHARING or not _fits(args, kwargs, dtype, place):
        return False
    NAMES.add(name)
    _lacking.add((name, dtype))
    return True


def made(name: str, make: Callable[..., Any], args: Any, kwargs: dict[str, Any], place: int | None = None) -> Any:
    """``make(*args, **kwargs)``, which calls the native op ``name``; in float32 where Paddle has no kernel in the operands' dtype.

    Args:
        place: of the argument that the op writes into.

    Raises:
        RuntimeError: Paddle's own, where there is no kernel and other floats are among the operands, or a leaf would be written.
    """
    if name not in NAMES or (name, _dtype(args, kwargs)) not in _lacking or not _fits(args, kwargs, _dtype(args, kwargs), place):
        try:
            return make(*args, **kwargs)
        except RuntimeError as error:
            if not is_for(name, error, args, kwargs, place):
                raise
    return _in_float32(name, make, args, kwargs, _dtype(args, kwargs), place)


def _values(*arguments: Any) -> Iterator[Any]:
    for value in arguments:
        if isinstance(value, dict):
            yield from _values(*value.values())
        elif isinstance(value, (list, tuple)):
            yield from _values(*value)
        else:
            yield value


def _dtype(args: Any, kwargs: dict[str, Any]) -> str:
    """The first dtype of 16 bits among the operands, or among the attributes; "" if there is none."""
    values = list(_values(args, kwargs))
    dtypes = [value.dtype for value in values if type(value) in TENSOR_TYPES] + values
    return next((name for dtype in dtypes for name, half in _DTYPES.items() if type(dtype) is type(half) and dtype == half), "")


def _fits(args: Any, kwargs: dict[str, Any], dtype: str, place: int | None) -> bool:
    """Whether all floats are of that dtype, so that no promotion is asked for, and what is written may be written.

    A dtype that only an attribute names is that of the result alone: the operands are float32.
    """
    floats = {value.dtype for value in _values(args, kwargs) if type(value) in TENSOR_TYPES and value.dtype in FLOATS}
    written = place is not None and islands.recording() and inplace.refused(args[place])
    return floats in ({_DTYPES[dtype]}, {paddle.float32}, set()) and _dtype(args, kwargs) == dtype and not written


def _in_float32(name: str, make: Callable[..., Any], args: Any, kwargs: dict[str, Any], dtype: str, place: int | None) -> Any:
    half = _DTYPES[dtype]
    tensors = {id(value): value for value in _values(args, kwargs) if type(value) in TENSOR_TYPES and value.dtype == half}
    wide = {key: recast(tensor, torch.float32) for key, tensor in tensors.items()}
    result = make(*_in_place_of(args, wide, half), **{key: _in_place_of(value, wide, half) for key, value in kwargs.items()})
    frame = top()
    if frame is not None:
        frame.tally.lacking[name.strip("_"), dtype] += 1
    if place is None:
        return each(result, lambda _, value: _narrow(value, dtype)) if isinstance(result, (list, tuple)) else _narrow(result, dtype)
    target = args[place]
    values = wide[id(target)]
    if values.stop_gradient or not islands.recording():
        overwritten(target, as_operand(values).to(FLOATS[half]))._bump_inplace_version()
    else:
        with torch.enable_grad():
            inplace.write(Call("cast", None, []), target, twin(values).to(FLOATS[half]), reads_result=False)
    return target if result is values else result


def _in_place_of(value: Any, wide: dict[int, Any], half: Any) -> Any:
    """An argument with the tensors of 16 bits, and a dtype that it names, exchanged for those of float32."""
    if isinstance(value, (list, tuple)):
        return type(value)(_in_place_of(item, wide, half) for item in value)
    return paddle.float32 if type(value) is type(half) and value == half else exchanged(value, wide)


def _narrow(value: Any, dtype: str) -> Any:
    """A result in 16 bits again."""
    if type(value) not in TENSOR_TYPES or value.dtype != paddle.float32:
        return value
    return recast(value, getattr(torch, dtype)) if value._is_initialized() else paddle.empty(value.shape, dtype)
