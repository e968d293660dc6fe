"""Every door that is watched, and what stands behind it.

* the entries of the op table: :class:`.call.Substitution`;
* all other C functions of ``paddle._C_ops`` that compute with floats: counted as native, with the reason;
* the engine's entries, and ``Tensor.view`` of what torch laid out with strides.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType
from typing import Any

import paddle
from paddle.base import core

from . import autograd, site
from .bridge import TENSOR_TYPES
from .call import Substitution
from .cfunction import CFunctionPatch
from .dialect import hide_from_tracer
from .errors import InterceptionError, StayedNativeError
from .modes import top
from .patcher import AttributePatch, Patcher, Point
from .patches import _native
from .postponed import after_engine, engine
from .pyfunction import PyFunctionPatch
from .registry import ops

_FLOATS = frozenset({paddle.float16, paddle.bfloat16, paddle.float32, paddle.float64})
_GRADS = ("_grad", "_grad_")  # called by the engine in C++, not from Python


def _locate(target: str) -> CFunctionPatch | PyFunctionPatch | AttributePatch | None:
    """The patch for a dotted target, or None if this Paddle does not have it."""
    owner_path, _, name = target.rpartition(".")
    owner: Any = paddle
    for part in owner_path.split(".")[1:]:
        owner = getattr(owner, part, None)
    if owner is None or not hasattr(owner, name):
        return None
    if isinstance(owner, type):
        return AttributePatch(owner, name)
    found = getattr(owner, name)
    if isinstance(found, BuiltinFunctionType):
        return CFunctionPatch(found)
    if isinstance(found, FunctionType):
        return PyFunctionPatch(found)
    raise InterceptionError(f"cannot intercept {target}: it is a {type(found).__name__}")


def _entries() -> dict[str, Point]:
    """One point per entry of the op table that this Paddle has."""
    points: dict[str, Point] = {}
    for op in ops().values():
        for entry in op.entries:
            patch = _locate(entry.target)
            if patch is None:
                continue
            python = isinstance(patch, PyFunctionPatch)
            patch.set_hook(Substitution(op, entry, patch.original, python=python).hook())
            points[entry.target] = patch
    return points


def _is_float(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a tensor among the arguments (one level into lists) is a float tensor."""
    for value in (*args, *kwargs.values()):
        if type(value) in TENSOR_TYPES:
            if value.dtype in _FLOATS:
                return True
        elif type(value) in (list, tuple) and value and type(value[0]) in TENSOR_TYPES and value[0].dtype in _FLOATS:
            return True
    return False


def _counting(name: str, path: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """The hook of a C function without reference: counts."""
    reason = _native.reason(name.rstrip("_")) if name not in _native.NATIVE else _native.NATIVE[name]
    exact = reason in (_native.OPTIMIZER, _native.COMMUNICATION)

    def hook(*args: Any, **kwargs: Any) -> Any:
        frame = top()
        if frame is None or not (name == "run_program" or _is_float(args, kwargs)):
            return original(*args, **kwargs)
        result = original(*args, **kwargs)
        if name == "run_program":
            frame.run.warn("a compiled program (to_static) ran: the ops inside it are not seen")
        if frame.compare is not None:
            frame.compare.other(name, reason, original, args, kwargs, result)
            return result
        frame.tally.native[name, reason] += 1
        if frame.strict and not exact:
            raise StayedNativeError(f"strict mode: op {name!r} ({path}) stays native: {reason}")
        return result

    return hook


def _others(taken: dict[str, Point]) -> list[Point]:
    """The remaining C functions: those that compute with floats are counted."""
    points: list[Point] = []
    clean = {name: CFunctionPatch(getattr(paddle._C_ops, name)).original for name in autograd.SKELETON}
    autograd.use_clean(**clean)
    # Not by __name__: that of paddle._C_ops says something else once paddle is imported.
    for place, module in (("paddle._C_ops", paddle._C_ops), ("paddle._legacy_C_ops", paddle._legacy_C_ops)):
        for name in dir(module):
            function = getattr(module, name)
            path = f"{place}.{name}"
            if not isinstance(function, BuiltinFunctionType) or path in taken or name.endswith(_GRADS):
                continue
            if name not in _native.EXACT:
                patch = CFunctionPatch(function)
                patch.set_hook(_counting(name, path, patch.original))
                points.append(patch)
    return points


def _translating(original: Callable[..., Any]) -> Callable[..., Any]:
    """Paddle's engine wraps an error of a hook in OSError; give back the error that Paddle itself raises for it."""
    mark = f"{autograd.ModifiedInPlace.__name__}: "

    def hook(*args: Any, **kwargs: Any) -> Any:
        with engine():
            frame = top()
            try:
                return original(*args, **kwargs)
            except OSError as error:
                _, found, text = str(error).partition(mark)
                if not found:
                    raise
                raise RuntimeError(text.partition("\n\nAt:")[0]) from None
            finally:
                if frame is not None and frame.compare is not None:
                    after_engine(frame.compare.waiting.settle)

    return hook


def _engine() -> list[Point]:
    points: list[Point] = []
    for name in ("run_backward", "run_partial_grad"):
        patch = CFunctionPatch(getattr(core.eager, name))
        patch.set_hook(_translating(patch.original))
        points.append(patch)
    return points


def _all() -> list[Point]:
    packages = (sys.modules[name] for name in ("torch", "numpy", "padiff_shim", "padiff_shim.patches"))
    hide_from_tracer(*(os.path.dirname(str(package.__file__)) + os.sep for package in packages))
    entries = _entries()
    return [*entries.values(), *_others(entries), *_engine()]


def _layers() -> list[Point]:
    patch = PyFunctionPatch(paddle.nn.Layer.__call__)
    patch.set_hook(site.tracking(patch.original))
    return [patch]


def _passing_on(original: Callable[..., Any]) -> Callable[..., Any]:
    """The hook of an exact op in a run with a shadow stream."""

    def hook(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        frame = top()
        if frame is not None and frame.compare is not None:
            frame.compare.carry_shadow(original, args, kwargs, result)
        return result

    return hook


def _exact() -> list[Point]:
    """Views, copies and selections: nothing is compared there, but a shadow stream has to pass through them."""
    points: list[Point] = []
    for name in sorted(_native.EXACT & set(dir(paddle._C_ops))):
        function = getattr(paddle._C_ops, name)
        asks = name.startswith(("get_", "enable_", "disable_"))  # no op: asks the framework something
        if isinstance(function, BuiltinFunctionType) and not name.endswith("_") and not asks:
            patch = CFunctionPatch(function)
            patch.set_hook(_passing_on(patch.original))
            points.append(patch)
    for name in ("__getitem__", "clone", "detach"):
        method = AttributePatch(paddle.Tensor, name)
        method.set_hook(functools.wraps(method.original)(_passing_on(getattr(paddle.Tensor, name))))
        points.append(method)
    return points


OPS = Patcher(_all)
LAYERS = Patcher(_layers)
SHADOWS = Patcher(_exact)
