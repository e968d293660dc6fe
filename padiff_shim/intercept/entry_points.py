"""Every watched entry point of Paddle, and what answers it."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import Any

import paddle
from paddle.autograd import PyLayer

from ..catalogue.registry import ops
from ..dispatch import call_site
from ..dispatch.entry_point import EntryPoint, Unlisted
from ..dispatch.frames import top
from ..frameworks.memory import PADDLE_DTYPES, TENSOR_TYPES
from ..frameworks.torch_state import undisturbed
from ..frameworks.versions import hide_from_tracer, leads_here
from ..interrupts import call_in_hook
from ..language import logged
from ..optimizers.update import updates
from ..patches import _unsubstituted
from ..patching.functions import ClassMethodPatch, PyFunctionPatch
from ..patching.patcher import Patcher, Point
from ..table.op import Entry, Op
from ..table.reasons import DRAWN, EXECUTED, NO_REFERENCE, OPTIMIZER, PREDICTED, RANDOM, RANDOM_ALONE, Reason
from ..table.signature import parse
from ..tape.islands import WRITES
from ..tape.paddle_graph import LOCAL
from . import amp, initial_weights, optimizers
from .engine import WithEngine
from .locate import c_function, calling, function_point, holder, point, present

_FLOATS = frozenset(PADDLE_DTYPES[name] for name in ("float16", "bfloat16", "float32", "float64"))
_GRADS = ("_grad", "_grad_")  # called by the engine in C++, not from Python


def _leading(patch: Any, leading: list[tuple[Op, Entry]]) -> Callable[..., Any]:
    """What a target is redirected to: the one op to which it leads, or that which a parameter of the call chooses."""
    original = patch.original
    hooks = [EntryPoint(op, entry, original, python=isinstance(patch, PyFunctionPatch)).hook() for op, entry in leading]
    when = leading[0][1].when
    if when is None:
        return hooks[0]
    place = [aliases[0] for aliases, _ in parse(leading[0][1].params)].index(when[0])
    chosen = {value: hook for hook, (_, entry) in zip(hooks, leading) for value in (entry.when or when)[1]}

    def hook(*args: Any, **kwargs: Any) -> Any:
        value = args[place] if len(args) > place else kwargs.get(when[0])
        return chosen.get(value, original)(*args, **kwargs)

    return functools.wraps(original)(hook)


def _is_float(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a tensor among the arguments (one level into lists) is a float tensor."""
    for value in (*args, *kwargs.values()):
        if type(value) in TENSOR_TYPES:
            if value.dtype in _FLOATS:
                return True
        elif type(value) in (list, tuple) and value and type(value[0]) in TENSOR_TYPES and value[0].dtype in _FLOATS:
            return True
    return False


def _reason(name: str, path: str) -> Reason:
    """Why a C function without reference has none."""
    reason = _unsubstituted.reason(name.rstrip("_")) if name not in _unsubstituted.NATIVE else _unsubstituted.NATIVE[name]
    return _unsubstituted.LEGACY.get(name, reason) if path.startswith("paddle._legacy_C_ops.") else reason


def _counting(name: str, path: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """The hook of a C function without reference."""
    reason = _reason(name, path)
    if path.startswith("paddle._C_ops.") and name in updates():
        return optimizers.updating(name, path, original)
    if path.startswith("paddle._legacy_C_ops.") and optimizers.has_old_form(name):
        return optimizers.updating_in_old_form(name, path, original)
    unwritten = _unsubstituted.UNWRITTEN.get(name, frozenset())
    other = Unlisted(name, path, reason, original, updates=reason is OPTIMIZER, unwritten=unwritten)
    drawn = Unlisted(name, path, DRAWN, original, updates=False) if reason in (RANDOM, RANDOM_ALONE) else None

    @undisturbed
    def hook(*args: Any, **kwargs: Any) -> Any:
        frame = top()
        if frame is None:
            return original(*args, **kwargs)
        if frame.idle or not (name == "run_program" or _is_float(args, kwargs)):
            if frame.idle:
                frame.plan.passed(other)
            elif drawn is not None:
                return frame.plan.unlisted(drawn, frame, args, kwargs)
            result = original(*args, **kwargs)
            if frame.observes:
                frame.plan.made(name, (*args, *kwargs.values()), result)
            return result
        result = frame.plan.unlisted(other, frame, args, kwargs)
        if name == "run_program":
            frame.run.warn(
                logged(
                    "a compiled program (to_static) ran: the ops inside it are not seen (to_static='eager' runs them one by one)"
                )
            )
        return result

    return hook


def _others(taken: dict[str, Point]) -> list[Point]:
    """The remaining C functions: those that compute with floats are counted."""
    points: list[Point] = []
    # Not by __name__: that of paddle._C_ops says something else once paddle is imported.
    exact = _unsubstituted.EXACT, _unsubstituted.EXACT | _unsubstituted.LEGACY_EXACT
    for place, module, silent in zip(("paddle._C_ops", "paddle._legacy_C_ops"), (paddle._C_ops, paddle._legacy_C_ops), exact):
        for name in dir(module):
            path = f"{place}.{name}"
            if path in taken or name.endswith(_GRADS) or name in silent or c_function(module, name) is None:
                continue
            redirection = point(path, lambda patch, name=name, path=path: _counting(name, path, patch.original))  # type: ignore[misc]
            if redirection is not None:
                redirection.rests = _reason(name, path) is not OPTIMIZER and name not in updates()  # which count the steps
                points.append(redirection)
    return points


def inventory() -> tuple[int, int, list[str]]:
    """How many targets of the op table this Paddle has and lacks; and its C functions that no table names (of a newer Paddle)."""
    entries = [entry for op in ops().values() for entry in op.entries]
    named = {entry.target for entry in entries}  # also C functions that another version's entry is in front of
    targets = {entry.target for entry in entries if leads_here(entry)}
    here = {target for target in targets if holder(target)[0] is not None}
    known = _unsubstituted.EXACT | set(_unsubstituted.NATIVE) | set(updates())
    strange = [
        name
        for name in dir(paddle._C_ops)
        if c_function(paddle._C_ops, name) is not None
        and not name.endswith(_GRADS)
        and not ({name, name.rstrip("_")} & known or f"paddle._C_ops.{name}" in named)
        and _reason(name, f"paddle._C_ops.{name}") is NO_REFERENCE
    ]
    return len(here), len(targets - here), strange


def _moving(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """The hook of an op that moves values."""

    @undisturbed
    def hook(*args: Any, **kwargs: Any) -> Any:
        frame = top()
        return original(*args, **kwargs) if frame is None else frame.plan.exact(name, original, args, kwargs)

    return hook


def _writing(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """The hook of an op that moves values in place: the tape has to know of it, and a comparison of its gradients."""

    @undisturbed
    def hook(*args: Any, **kwargs: Any) -> Any:
        frame = top()
        return original(*args, **kwargs) if frame is None else frame.plan.writes(name, frame, original, args, kwargs)

    return hook


def _py_layers() -> Point:
    """``PyLayer.apply``."""
    patch = ClassMethodPatch(PyLayer, "apply", "paddle.autograd.PyLayer.apply")

    def apply(kind: Any, *args: Any, **kwargs: Any) -> Any:
        tensors = kind.__init__ is object.__init__ or any(
            isinstance(v, (paddle.Tensor, list, tuple)) for v in [*args, *kwargs.values()]
        )
        if not (args or kwargs) or not tensors:  # the class itself is called
            return type.__call__(kind, *args, **kwargs)
        original, frame = patch.original(kind), top()
        return original(*args, **kwargs) if frame is None else frame.plan.py_layer(kind.__name__, original, args, kwargs)

    patch.set_hook(apply)
    return patch


def _execute(name: str, why: Reason, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    frame = top()
    if frame is not None and not frame.idle:
        frame.tally.native[name, why.text] += 1
        frame.run.warn(logged("a static program ran ({name}): the ops inside it are not seen", name=name))
    return original(*args, **kwargs)


def _in_the_frames_way(original: Callable[..., Any], function: Any, *args: Any, **kwargs: Any) -> Any:
    frame = top()
    if frame is None or not frame.eager:
        return original(function, *args, **kwargs)
    return function._call_dygraph_function(*args, **kwargs)


def _packing(original: Callable[..., Any]) -> Callable[..., Any]:
    def hook(*args: Any) -> Any:
        if not args:  # they are taken away
            LOCAL.block = None
        frame = top()
        if frame is None or len(args) != 2 or not all(map(callable, args)):
            return original(*args)
        pack, unpack = frame.plan.packing(frame, *args)
        return original(pack, functools.partial(call_in_hook, unpack))

    return functools.wraps(original)(hook)


def _all() -> list[Point]:
    packages = (sys.modules[name] for name in ("torch", "numpy", "padiff_shim", "padiff_shim.patches"))
    hide_from_tracer(*(os.path.dirname(str(package.__file__)) + os.sep for package in packages))
    # One point per target of the op table that this Paddle has
    targets: dict[str, list[tuple[Op, Entry]]] = {}
    for op in ops().values():
        for entry in filter(leads_here, op.entries):
            targets.setdefault(entry.target, []).append((op, entry))
    redirections = ((target, point(target, functools.partial(_leading, leading=leading))) for target, leading in targets.items())
    entries = {target: redirection for target, redirection in redirections if redirection is not None}
    # What `paddle.autograd.saved_tensors_hooks` calls, and with it recompute without reentry
    points_of_packing = present(
        point("paddle.base.core.eager.register_saved_tensors_hooks", lambda patch: _packing(patch.original)),
        point("paddle.base.core.eager.reset_saved_tensors_hooks", lambda patch: _packing(patch.original)),
    )
    for redirection in points_of_packing:
        redirection.rests = False  # calls may be compared before they are taken away again
    # Views, copies and selections: nothing is compared there, but the tape and a shadow stream have to pass through them
    asking = ("get_", "enable_", "disable_")  # no op: asks the framework something
    names = sorted(_unsubstituted.EXACT & set(dir(paddle._C_ops)))
    names = [name for name in names if not name.endswith("_") and not name.startswith(asking)]
    moving = {f"paddle._C_ops.{name}": name for name in names if c_function(paddle._C_ops, name) is not None}
    moving["paddle.Tensor._getitem_dygraph"] = "_getitem_dygraph"
    moving["paddle.Tensor.contiguous"] = "contiguous"
    writing = {f"paddle._C_ops.{name}": name for name in WRITES if c_function(paddle._C_ops, name) is not None}
    writing["paddle.Tensor._setitem_dygraph"] = "_setitem_dygraph"
    return [
        *entries.values(),
        *_others(entries),
        *present(
            *(point(target, lambda patch, name=name: _moving(name, patch.original)) for target, name in moving.items()),  # type: ignore[misc]
            *(point(target, lambda patch, name=name: _writing(name, patch.original)) for target, name in writing.items()),  # type: ignore[misc]
        ),
        _py_layers(),
        *present(
            # What a static program computes is in C++, out of reach.
            point("paddle.static.Executor.run", calling(functools.partial(_execute, "Executor.run", EXECUTED))),
            point("paddle.inference.Predictor.run", calling(functools.partial(_execute, "Predictor.run", PREDICTED))),
            point("paddle.jit.dy2static.program_translator.StaticFunction.__call__", calling(_in_the_frames_way)),
        ),
        *points_of_packing,
        *optimizers.points(),
        *initial_weights.points(),
        *amp.points(),
    ]


def _pulse() -> None:
    """The outermost layer of a thread begins."""
    frame = top()
    if frame is not None:
        frame.plan.layer_begins(frame)


def _ended(layer: Any, result: Any) -> None:
    """A layer has run."""
    frame = top()
    if frame is not None:
        frame.plan.layer_ends(frame, layer, result)


def _layers() -> list[Point]:
    tracking = functools.partial(call_site.tracking, outermost=_pulse, ended=_ended)
    return [function_point(paddle.nn.Layer, "__call__", "paddle.nn.Layer.__call__", tracking)]


def _passing_on(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """A method in Python that moves values, in a run with a shadow stream."""
    result = original(*args, **kwargs)
    frame = top()
    if frame is not None:
        frame.plan.moved(original, args, kwargs, result)
    return result


OPS = WithEngine(_all)
LAYERS = Patcher(_layers)
_SHADOWED = ("paddle.Tensor.__getitem__", "paddle.Tensor.detach")  # in Python: a shadow stream has to pass through them, too
SHADOWS = Patcher(lambda: present(*(point(name, calling(_passing_on)) for name in _SHADOWED)))
