"""Automatic mixed precision on a CPU, where C++ makes no casts: calls of several parts, and calls that stay native.

What a call of the table needs is in :func:`padiff_shim.dispatch.prepare.prepare`. Paddle casts for each of its kernels. So a
function that Paddle composes in Python is computed in its parts, where the casts of the parts are not those of the whole; and what
runs on Paddle's kernel gets its operands cast as C++ casts them on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import paddle

from ..dispatch.dtypes import dtype_without_kernel
from ..dispatch.entry_point import EntryPoint
from ..dispatch.prepare import listed
from ..frameworks import autocast
from ..frameworks.autocast import grad_tracer
from ..frameworks.memory import PADDLE_DTYPES, TENSOR_TYPES
from ..table.reasons import PARTS, StayNative

_LOW, _REAL = frozenset({PADDLE_DTYPES["float16"], PADDLE_DTYPES["bfloat16"]}), frozenset({PADDLE_DTYPES["float32"]})
_NAMES = {PADDLE_DTYPES[name]: name for name in ("float16", "bfloat16", "float32", "float64")}
_Call = Callable[[tuple[Any, ...], dict[str, Any]], Any]


def parted(entry_point: EntryPoint, values: Sequence[Any]) -> Any:
    """The result of a call whose parts have casts of their own, or None: it is computed as a whole.

    Raises:
        StayNative: Paddle's own function in Python makes the parts.
    """
    op = entry_point.op
    if op.name == "linear":
        if values[2] is None or listed(entry_point, values) == "linear_v2":
            return None
        return paddle.add(paddle.nn.functional.linear(values[0], values[1]), values[2])  # its bias is added by an op of its own
    if entry_point.python and op.random is None and not _whole(entry_point, values):
        raise StayNative(PARTS)
    return None


def _whole(entry_point: EntryPoint, values: Sequence[Any]) -> bool:
    """Whether all parts of a function in Python compute in the dtype that autocast gives the whole."""
    tracer = grad_tracer()
    white, black = tracer._get_amp_op_list()
    name = listed(entry_point, values)
    if entry_point.op.products and name in white:
        return False  # which casts its bias, say, by itself
    if autocast.spreads(tracer) or name in black:
        return True  # all parts are cast alike
    low, real = (any(tensor.dtype in dtypes for tensor in tensors_of(values, {})) for dtypes in (_LOW, _REAL))
    if name == autocast.ATTENTION:
        return name in white or not real
    if autocast.listed_by_program(tracer) or (low and real):
        return False
    return not low or autocast.keeps_low(tracer)


def tensors_of(args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
    """The float tensors among the arguments, one level into lists, in order."""
    tensors = []
    for value in (*args, *kwargs.values()):
        for tensor in value if isinstance(value, (list, tuple)) else (value,):
            if type(tensor) in TENSOR_TYPES and tensor.dtype in _NAMES:
                tensors.append(tensor)
    return tensors


def recast(name: str, call: _Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A native call with its operands as Paddle's autocast gives them to the op ``name``.

    Where Paddle has no kernel for the low dtype on this CPU, the call is made in float32: so does Paddle itself on a GPU.
    """
    tracer, tensors = grad_tracer(), tensors_of(args, kwargs)
    if name == "cast" or not tensors or not autocast.active(tracer):  # of a cast C++ casts nothing
        return call(args, kwargs)
    dtypes = [_NAMES[tensor.dtype] for tensor in tensors]
    chosen = autocast.destination(tracer, name, dtypes, on_accelerator=True)
    targets = autocast.casts(name, chosen, dtypes)
    try:
        return call(*_cast(args, kwargs, iter(targets)) if any(targets) else (args, kwargs))
    except Exception as error:
        if chosen == "float32" or not dtype_without_kernel(error):
            raise
    return call(*in_float32(args, kwargs))


def in_float32(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A call's arguments, those of 16 bits in float32."""
    dtypes = [_NAMES[tensor.dtype] for tensor in tensors_of(args, kwargs)]
    return _cast(args, kwargs, iter(autocast.casts("", "float32", dtypes)))


def _cast(args: tuple[Any, ...], kwargs: dict[str, Any], targets: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    def cast(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)([cast(item) if type(item) in TENSOR_TYPES else item for item in value])
        if type(value) in TENSOR_TYPES and value.dtype in _NAMES:
            target = next(targets)
            return value if target is None else value.astype(target)  # intercepted: the cast is on the tape
        return value

    return tuple([cast(value) for value in args]), {key: cast(value) for key, value in kwargs.items()}
