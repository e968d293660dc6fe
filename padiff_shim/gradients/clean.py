"""Paddle's own functions, whatever is patched now or later: what the tape is built with."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any

import paddle
from paddle.base import core

from ..frameworks import autocast
from ..frameworks.memory import autocast_off, grad_tracer
from ..frameworks.versions import IS_3
from ..postponed import as_hook, silent_hook

# The last argument of Paddle's engine: where 3.x draws the graph. Without it 3.3.1 crashes.
NO_PATH: tuple[Any, ...] = (None,) if IS_3 else ()

# Names of paddle._C_ops -> here.
C_OPS = {"add": "add", "reshape": "reshape", "assign": "assign", "assign_out_": "assign_into"}

add: Callable[..., Any] = paddle._C_ops.add
reshape: Callable[..., Any] = paddle._C_ops.reshape
assign: Callable[..., Any] = paddle._C_ops.assign  # a copy with a node of its own
assign_into: Callable[..., Any] = paddle._C_ops.assign_out_  # the values and the node of one tensor for another, in place
cast: Callable[..., Any] = paddle._C_ops.cast
run_backward: Callable[..., Any] = core.eager.run_backward
run_partial_grad: Callable[..., Any] = core.eager.run_partial_grad
_Tensor: Callable[[], Any] = core.eager.Tensor
_register_grad_hook: Callable[..., Any] = paddle.Tensor._register_grad_hook
remove_grad_hook: Callable[..., Any] = paddle.Tensor._remove_grad_hook


def use(**functions: Callable[..., Any]) -> None:
    """Called when the hooks are built, with the unpatched functions."""
    if "run_partial_grad" in functions:
        functions["run_partial_grad"] = _holding(functions["run_partial_grad"])
    globals().update(functions)


_unfinished: list[Any] = []  # the arguments of a partial backward that failed


def _holding(original: Callable[..., Any]) -> Callable[..., Any]:
    """A partial backward that fails leaves nodes and tensors behind in Paddle, which the next one drops without the GIL.

    If that were the last of a post hook of compare mode, the process would end; so they are kept until then.
    """

    @functools.wraps(original)
    def partial(*args: Any) -> Any:
        try:
            found = original(*args)
        except BaseException:
            _unfinished[:] = [list(one) if isinstance(one, (list, tuple)) else one for one in args]
            raise
        _unfinished.clear()
        return found

    return partial


def register_grad_hook(tensor: Any, function: Callable[[Any], Any]) -> None:
    """Have Paddle's engine call ``function`` with the tensor's gradient."""
    _register_grad_hook(tensor, as_hook(function))


def register_silent_hook(tensor: Any, function: Callable[..., Any], *args: Any) -> int:
    """Have it call ``function(*args, gradient)``, which is no part of the program: what it raises waits for the engine's end."""
    number: int = _register_grad_hook(tensor, silent_hook(function, *args))
    return number


def empty() -> Any:
    """A tensor for another one to be put into."""
    return _Tensor()


def alias(tensor: Any, shape: Sequence[int] | None = None) -> Any:
    """Another tensor over the same memory with a node of its own (Paddle's reshape, which autocast must not cast)."""
    shape = tensor.shape if shape is None else shape
    if not autocast.active(grad_tracer()):
        return reshape(tensor, shape)
    with autocast_off():
        return reshape(tensor, shape)


def backward_options(grads: Sequence[Any]) -> tuple[bool, bool]:
    """(retain_graph, create_graph) of the backward that is running, read off the Paddle function that started it.

    Paddle's engine does not tell its hooks. The frame that called into the engine is the one below the hook's. ``grads``: what the
    hook was given.
    """
    caller = sys._getframe(2)
    for _ in range(4):  # hooks of our own stand between
        option = _options.get(caller.f_code)
        if option is None:
            option = _option_of(caller.f_code)
        if option == "create_graph":  # paddle.grad works on copies of the nodes: keep what they share
            return True, bool(caller.f_locals["create_graph"])
        if option:  # Tensor.backward, paddle.autograd.backward
            return bool(caller.f_locals["retain_graph"]), False
        if caller.f_back is None:
            break
        caller = caller.f_back
    return True, not next(grad for grad in grads if grad._is_initialized()).is_leaf  # started from elsewhere: keep everything


_options: dict[CodeType, str] = {}  # functions -> which option they have, or ""


def _option_of(code: CodeType) -> str:
    if len(_options) >= 1000:  # a program may make its functions over and over
        _options.clear()
    names = code.co_varnames
    found = _options[code] = next((name for name in ("create_graph", "retain_graph") if name in names), "")
    return found
