"""A native call made in float32, on the same values, where Paddle has no kernel in 16 bits.

All numbers of 16 bits are numbers of float32. So an op that moves, chooses or counts values gives in float32 what it would give in
16 bits; one that computes gives its result with another rounding, which is no result of a kernel in 16 bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import paddle

from ..frameworks.memory import FLOATS, TENSOR_TYPES
from ..frameworks.versions import has_elements
from .containers import each
from .dtypes import exchanged
from .lacking import HALVES, dtype_without_kernel, is_old_form_without_kernel

DTYPES = {name: getattr(paddle, name) for name in HALVES}
Cast = Callable[[Any, str], Any]  # a tensor, and the dtype to have it in
_SHARING = frozenset({"coalesce_tensor"})  # gives tensors other memory, which copies in float32 would not get


def _values(*arguments: Any) -> Iterator[Any]:
    for value in arguments:
        if isinstance(value, dict):
            yield from _values(*value.values())
        elif isinstance(value, (list, tuple)):
            yield from _values(*value)
        else:
            yield value


def dtype_of_call(args: Any, kwargs: dict[str, Any]) -> str:
    """The first dtype of 16 bits among the operands, else among the attributes; "" if there is none."""
    values = list(_values(args, kwargs))
    dtypes = [value.dtype for value in values if type(value) in TENSOR_TYPES] + values
    return next((name for dtype in dtypes for name, half in DTYPES.items() if type(dtype) is type(half) and dtype == half), "")


def lacks(name: str, error: Exception, args: Any, kwargs: dict[str, Any], *, mixed: bool = False) -> str:
    """The dtype in which Paddle has no kernel ``name``, by its error, if a call in float32 can stand for this one; or "".

    ``mixed``: operands of float32 beside those of 16 bits ask for no promotion.
    """
    dtype = dtype_of_call(args, kwargs) if is_old_form_without_kernel(error) else dtype_without_kernel(error)
    return dtype if dtype and is_sound(name, args, kwargs) and is_of_one_dtype(args, kwargs, dtype, mixed=mixed) else ""


def is_sound(name: str, args: Any, kwargs: dict[str, Any]) -> bool:
    """Whether a call in float32 does what it says, and no more than that.

    Of nothing ``expand_as`` makes what nobody wrote; its backward, and ``spectral_norm``, end the process (docs/defects.md): in 16
    bits they are refused.
    """
    if name not in ("expand_as", "spectral_norm"):
        return name not in _SHARING
    return all(has_elements(value) for value in _values(args, kwargs) if type(value) in TENSOR_TYPES)


def is_of_one_dtype(args: Any, kwargs: dict[str, Any], dtype: str, *, mixed: bool = False) -> bool:
    """Whether all floats of a call are of this dtype, so that nothing is promoted.

    A dtype that only an attribute names is that of the result alone: the operands are float32.
    """
    floats = {value.dtype for value in _values(args, kwargs) if type(value) in TENSOR_TYPES and value.dtype in FLOATS}
    alike = ({DTYPES[dtype]}, {paddle.float32}, set()) if not mixed else ({DTYPES[dtype]}, {DTYPES[dtype], paddle.float32})
    return floats in alike and dtype_of_call(args, kwargs) == dtype


def in_float32(make: Callable[..., Any], args: Any, kwargs: dict[str, Any], dtype: str, cast: Cast) -> tuple[Any, dict[int, Any]]:
    """``make(*args, **kwargs)`` on the same values in float32.

    Args:
        dtype: of 16 bits, which the operands have, or which an attribute names.
        cast: makes a float32 tensor of one of 16 bits, and the other way round.

    Returns:
        The result, in ``dtype`` again; and the tensors of float32 that stood for those of 16 bits, by the identity of these.
    """
    half = DTYPES[dtype]
    tensors = {id(value): value for value in _values(args, kwargs) if type(value) in TENSOR_TYPES and value.dtype == half}
    wide = {key: cast(tensor, "float32") for key, tensor in tensors.items()}
    result = make(*_exchanged(args, wide, half), **{key: _exchanged(value, wide, half) for key, value in kwargs.items()})

    def narrow(_: int, value: Any) -> Any:
        if type(value) not in TENSOR_TYPES or value.dtype != paddle.float32 or any(value is tensor for tensor in wide.values()):
            return value
        return cast(value, dtype) if value._is_initialized() else paddle.empty(value.shape, dtype)

    return each(result, narrow), wide


def _exchanged(value: Any, wide: dict[int, Any], half: Any) -> Any:
    """An argument with the tensors of 16 bits, and a dtype that it names, exchanged for those of float32."""
    if isinstance(value, (list, tuple)):
        return type(value)(_exchanged(item, wide, half) for item in value)
    return paddle.float32 if type(value) is type(half) and value == half else exchanged(value, wide)
