"""Paddle's own engine and graph: its native functions, its nodes, hooks that only observe, the state of one thread's backward."""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import CodeType
from typing import Any, NamedTuple

import paddle
import torch
from paddle.base import core

from ..frameworks import autocast
from ..frameworks.autocast import autocast_off, grad_tracer
from ..frameworks.memory import HALVES, to_paddle
from ..frameworks.versions import IS_3, PaddleTensor, attribute, grad_node, set_attribute
from ..interrupts import call_in_hook, call_silently

# ---- Paddle's own functions, whatever is patched now or later: the tape is built with them.

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
        functions["run_partial_grad"] = _keeping_arguments(functions["run_partial_grad"])
    globals().update(functions)


_unfinished: list[Any] = []  # the arguments of a partial backward that failed


def _keeping_arguments(original: Callable[..., Any]) -> Callable[..., Any]:
    """A partial backward that fails leaves nodes and tensors behind in Paddle, which the next one drops without the GIL.

    If that were the last of a post hook of compare mode, the process would end; so they are kept until then.
    """

    @functools.wraps(original)
    def partial(*args: Any) -> Any:
        try:
            grads = original(*args)
        except BaseException:
            _unfinished[:] = [list(value) if isinstance(value, (list, tuple)) else value for value in args]
            raise
        _unfinished.clear()
        return grads

    return partial


def register_grad_hook(tensor: PaddleTensor, function: Callable[[Any], Any]) -> None:
    """Have Paddle's engine call ``function`` with the tensor's gradient."""
    _register_grad_hook(tensor, functools.partial(call_in_hook, function))


def register_silent_hook(tensor: PaddleTensor, function: Callable[..., Any], *args: Any) -> int:
    """Have the engine call ``function(*args, gradient)``, which is no part of the program: its errors wait for the engine's end."""
    number: int = _register_grad_hook(tensor, functools.partial(call_silently, function, *args))
    return number


def empty() -> Any:
    """A tensor for another one to be put into."""
    return _Tensor()


def alias(tensor: PaddleTensor, shape: Sequence[int] | None = None) -> Any:
    """Another tensor over the same memory with a node of its own (Paddle's reshape, which autocast must not cast)."""
    shape = tensor.shape if shape is None else shape
    tracer = grad_tracer()
    if tracer._amp_dtype == "float32" or not autocast.active(tracer):  # the former without a call
        return reshape(tensor, shape)
    with autocast_off():
        return reshape(tensor, shape)


def backward_options(grads: Sequence[Any]) -> tuple[bool, bool]:
    """(retain_graph, create_graph) of the backward that is running, read off the Paddle function that started it.

    Paddle's engine does not pass them to its hooks. The frame that called into the engine is the one below the hook's.
    ``grads``: the hook's gradients.
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
    option = _options[code] = next((name for name in ("create_graph", "retain_graph") if name in names), "")
    return option


# ---- The state of one thread's backward.


class _Local(threading.local):
    """What belongs to one thread."""

    def __init__(self) -> None:
        self.session: Any = None  # the backward that is running: a backward.Session
        self.around: list[Any] = []  # what torch's engine has finished of leaves in the backwards around it, the outermost first
        self.turn: Any = None  # the call of torch's engine that is running
        self.block: Any = None  # the block without reentry whose calls are being made: a calls.RecomputedBlock
        self.passing: Any = None  # the operands of the PyLayer that Paddle's engine comes to: see islands
        self.floats: dict[tuple[torch.dtype, torch.device], tuple[Any, Any]] = {}  # what sentinels are made of and pass on


LOCAL = _Local()


class turn:
    """Torch's engine runs over twins inside; ``name`` tells this call from those within it."""

    __slots__ = ("_name", "_outer")

    def __init__(self, name: Any) -> None:
        self._name = name

    def __enter__(self) -> None:
        self._outer, LOCAL.turn = LOCAL.turn, self._name

    def __exit__(self, *_: object) -> None:
        if LOCAL.turn is self._name:  # else an error left it open, and it was put right: see intercept/engine.py
            LOCAL.turn = self._outer


_tinies: dict[int, weakref.ref[Any]] = {}  # what the sentinels of all threads are made of


def floats(side: torch.Tensor) -> tuple[Any, Any]:
    """One float that wants a gradient, and one for hooks to return; the engine refuses one on another device than that of ``side``.

    Two, because the engine writes what a hook returns.
    """
    key = side.dtype, side.device
    pair = LOCAL.floats.get(key)
    if pair is None:
        tiny = to_paddle(torch.zeros(1, dtype=side.dtype))  # on the CPU: a copy of it launches no kernel
        passed = to_paddle(torch.zeros(1, dtype=side.dtype, device=side.device))
        tiny.stop_gradient = False
        pair = LOCAL.floats[key] = tiny, passed
        name = id(tiny)
        _tinies[name] = weakref.ref(tiny, lambda gone: _tinies.pop(name, None) if _tinies.get(name) is gone else None)
    return pair


_PLACE = "_padiff_place"  # attribute of these floats


def place(tiny: PaddleTensor) -> int:
    """The address of the node that is behind all sentinels of a float: it lives as long as the float does."""
    known: int | None = attribute(tiny, _PLACE)
    if known is None:
        known = grad_node(tiny).node_ptr()
        set_attribute(tiny, _PLACE, known)
    return known


def copied(tiny: PaddleTensor, dtype: torch.dtype) -> Any:
    """A copy of one of these floats. Its node, where it has one, leads to that float alone, and saves nothing that is freed."""
    if dtype in HALVES:  # on the CPU, where it is, autocast makes float32 of them, with a node more
        with autocast_off():
            return assign(tiny)
    return assign(tiny)


def tinies() -> list[Any]:
    """What the sentinels that live are made of, those of other threads too."""
    return [tiny for tiny in (reference() for reference in list(_tinies.values())) if tiny is not None]


# ---- Walks over Paddle's own graph, without running it.


def walked(starts: Iterable[Any], barred: Iterable[int] = ()) -> Iterator[tuple[int, Any]]:
    """(place, node) of each node that Paddle's engine comes to from some nodes, the nearest first.

    ``starts``: None among them is an operand that wants no gradient. ``barred``: places that it does not come to.
    """
    waiting, seen = deque(starts), set(barred)
    while waiting:
        node = waiting.popleft()
        if node is not None and (place := node.node_ptr()) not in seen:
            seen.add(place)
            yield place, node
            waiting += node.next_functions


def places_of(tensors: Iterable[Any]) -> set[int]:
    """Where the nodes of tensors are."""
    return {node.node_ptr() for node in map(grad_node, tensors) if node is not None}


def leads_to_tape(tensor: PaddleTensor) -> bool:
    """Whether Paddle's engine, started at a tensor, could come to a sentinel."""
    return leads_to([tensor], tinies())  # what sentinels are made of: see twins.sentinel


def leads_to(starts: Sequence[Any], ends: Sequence[Any], without: Sequence[Any] = ()) -> bool:
    """Whether Paddle's engine, started at some tensors, could come to one of the others, also to one with the same node.

    ``without``: not by way of these.
    """
    places = places_of(ends)
    return any(place in places for place, _ in walked(map(grad_node, starts), places_of(without)))


def same_node(tensor: PaddleTensor, other: Any) -> bool:
    """Whether Paddle's engine comes to one and the same node of two tensors."""
    nodes = grad_node(tensor), grad_node(other)
    return None not in nodes and nodes[0].node_ptr() == nodes[1].node_ptr()


def led_to(results: Sequence[Any], operands: Sequence[Any]) -> list[bool]:
    """Which of some tensors with nodes of their own Paddle's engine could come to, started at the results of a call with them.

    Not all that want gradients: Paddle asks for none of a quantiser's scale, though the scale says that it wants one.
    """
    places = [grad_node(tensor).node_ptr() for tensor in operands]
    missing = set(places)
    nodes = [node for node in map(grad_node, results) if node is not None]
    for place, _ in walked(following for node in nodes for following in node.next_functions):  # a result may be an operand
        missing.discard(place)
        if not missing:
            break
    return [place not in missing for place in places]


# ---- Hooks on the results of one node that only look on, and stand aside where they would be in the way.
#
# ``paddle.grad`` does not run the node of an input that leads to no other one: a hook there sees a gradient that goes no further.
# And Paddle ends it with an error where another result of that node has a hook.

_HOOKS = "_padiff_onlookers"  # attribute of Paddle tensors: those on all results of their node


class _Hook(NamedTuple):
    """A hook on one result."""

    result: weakref.ref[Any]
    called: tuple[Any, ...]  # a function, and its arguments
    number: int


def look_on(results: Mapping[int, Any], function: Callable[..., Any], *args: Any) -> None:
    """Have Paddle's engine call ``function(*args, position, gradient)`` for each of a node's results, by position."""
    hooks = []
    for position, result in results.items():
        called = (function, *args, position)
        hooks.append(_Hook(weakref.ref(result), called, register_silent_hook(result, *called)))
    for result in results.values():
        set_attribute(result, _HOOKS, hooks)


@contextlib.contextmanager
def onlookers_aside(inputs: Sequence[Any]) -> Iterator[None]:
    """Around a partial backward to ``inputs``."""
    ends = [tensor for tensor in inputs if attribute(tensor, _HOOKS)]
    ends = [end for end in ends if len(inputs) == 1 or not leads_to([end], [tensor for tensor in inputs if tensor is not end])]
    for end in ends:
        for hook in attribute(end, _HOOKS):
            remove_grad_hook(end, hook.number)
    try:
        yield
    finally:
        for end in ends:
            hooks = attribute(end, _HOOKS)
            living = [(hook, hook.result()) for hook in hooks]
            hooks[:] = [
                hook._replace(number=register_silent_hook(result, *hook.called)) for hook, result in living if result is not None
            ]
