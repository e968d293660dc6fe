"""Calls that Paddle has no kernel for in 16 bits: its kernel in float32 stands for it, and Torch's side is judged all the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import paddle

from ..dispatch import raised
from ..dispatch.dtypes import exchanged_in
from ..dispatch.frames import paused
from ..frameworks.memory import autocast_off, to_torch
from ..signals import let_pass
from ..table.op import Op

REASON = "native kernel missing in {dtype}"
STANDS_IN = "Paddle has no kernel in {dtype} here: its side is that of its kernel in float32, rounded; "
CAST_GRADIENT = "Paddle 2.6 rounds the cast of a gradient to 16 bits towards zero"
ADVICE = (
    '\n  [padiff_shim: this Paddle has no kernel in {dtype} on this device. compare("torch", carry="torch") goes on with Torch\'s '
    'results; reference("torch") runs the program on Torch\'s kernels.]'
)


def dtype_of(op: Op, error: Exception, args: Any, kwargs: dict[str, Any]) -> str:
    """The dtype in which Paddle has no kernel for a call that it answered with ``error``, if float32 can stand for it; or ""."""
    let_pass(error)
    return raised.lacks(op.name, error, args, kwargs, mixed=op.promote == "none")


def spared(written: Sequence[Any], args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """The arguments with copies of the tensors that the call writes into."""
    with paused(), paddle.no_grad():
        copies = {id(tensor): tensor.clone() for tensor in written if isinstance(tensor, paddle.Tensor)}
    return exchanged_in(args, kwargs, copies)


def in_float32(make: Callable[..., Any], args: Any, kwargs: dict[str, Any], dtype: str, written: int | None = None) -> Any:
    """Paddle's own call on the same values in float32, with its result in ``dtype`` again, on Paddle's graph.

    ``written``: position of the argument that the call writes into.
    """
    with paused(), autocast_off():
        result, wide = raised.in_float32(make, args, kwargs, dtype, _cast)
        if written is None:
            return result
        target = args[written]
        paddle.assign(_cast(wide[id(target)], dtype), target)
    return target if result is wide[id(target)] else result


def _cast(tensor: Any, dtype: str) -> Any:
    """A cast on Paddle's graph, rounded to the nearest: Paddle 2.6 rounds towards zero."""
    result = tensor.astype(dtype)
    if tensor.size and dtype != "float32":
        to_torch(result.detach()).copy_(to_torch(tensor.detach()))
    return result


def advised(error: RuntimeError, dtype: str) -> RuntimeError:
    """Paddle's own error, which says as well what to write."""
    error.args = (f"{error}{ADVICE.format(dtype=dtype)}",)
    return error
