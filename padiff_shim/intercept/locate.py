"""Finds Paddle's own function behind a dotted name, although a user may have put something else there.

What somebody else put into a place is theirs, and is never redirected. Where Paddle's own can still be reached, because the
replacement holds it to call it, that is redirected in place; where it cannot, the place is looked at again at each opening.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType, WrapperDescriptorType
from typing import Any

import paddle
from paddle.base import core

from ..errors import InterceptionError
from ..patching.functions import AttributePatch, CFunctionPatch, PyFunctionPatch, redirected
from ..patching.patcher import ABSENT, Awaited, Point, Redirection, describe

_PADDLE = os.path.dirname(os.path.abspath(paddle.__file__)) + os.sep
_DESCRIPTORS = (
    MethodDescriptorType,
    WrapperDescriptorType,
    type(vars(core.Generator)["get_state"]),
)  # the last: pybind11's methods
# Where `paddle._C_ops` has its functions from.
_C_OPS = tuple(ops for name in ("pir", "eager") if (ops := getattr(getattr(core, name, None), "ops", None)) is not None)


def _is_native(value: Any, name: str) -> bool:
    """Whether a Python function is Paddle's, code and all."""
    return type(value) is FunctionType and value.__name__ == name and value.__code__.co_filename.startswith(_PADDLE)


def c_function(module: Any, name: str) -> BuiltinFunctionType | None:
    """Paddle's C function of that name in a module of C functions, also where the name stands for something else now."""
    for place in (module, *(_C_OPS if module is paddle._C_ops else ())):
        function = getattr(place, name, None)
        if isinstance(function, BuiltinFunctionType) and function.__name__ == name and not redirected(function):
            return function
    return None


def _undecorated(function: FunctionType) -> FunctionType:
    """The function that does the work. Paddle 3 wraps many in decorators that rename arguments: closures, which call it."""
    while function.__closure__ and type(getattr(function, "__wrapped__", None)) is FunctionType:
        function = function.__wrapped__  # type: ignore[attr-defined]
    return function


def _objects(replacement: Any) -> list[Any]:
    """Every object that the collector lists, and of those that ``gc.freeze`` took off its lists what can still be reached."""
    objects = gc.get_objects()
    if not gc.get_freeze_count():
        return objects
    seen: dict[int, Any] = {}
    further = [sys.modules, replacement]
    while further:
        known = {id(value): value for value in gc.get_referents(*further) if gc.is_tracked(value)}
        further = [value for key, value in known.items() if key not in seen]
        seen.update(known)
    return objects + list(seen.values())


def python_function(owner: Any, name: str) -> FunctionType | None:
    """Paddle's Python function of that name in a module or class, also where somebody else's replacement alone holds it."""
    present_value = vars(owner).get(name)
    if _is_native(present_value, name):
        return _undecorated(present_value)
    is_method = isinstance(owner, type)
    module, qualified = (owner.__module__, f"{owner.__qualname__}.{name}") if is_method else (owner.__name__, name)
    functions = [value for value in _objects(present_value) if type(value) is FunctionType and value.__qualname__ == qualified]
    functions = [f for f in functions if _is_native(f, name) and f"{f.__module__}.".startswith(f"{module}.")]
    inner = {id(function): function for function in map(_undecorated, functions)}
    return next(iter(inner.values())) if len(inner) == 1 else None


def attribute(owner: type, name: str, path: str) -> AttributePatch | None:
    """The patch of a class attribute that is Paddle's own."""
    value = vars(owner).get(name)
    own = isinstance(value, _DESCRIPTORS) and value.__name__ == name
    return AttributePatch(owner, name, path) if own or _is_native(value, name) else None


def _locate(owner: Any, name: str, path: str) -> Redirection | None:
    if isinstance(owner, type) and (owner is paddle.Tensor or not _is_native(vars(owner).get(name), name)):
        return attribute(owner, name, path)
    built_in = None if isinstance(owner, type) else c_function(owner, name)
    if built_in is not None:
        return CFunctionPatch(built_in, path)
    function = python_function(owner, name)
    return PyFunctionPatch(function, path) if function is not None else None


def awaiting(path: str, look: Callable[[], Redirection | None], owner: Any, name: str) -> Point:
    """The redirection that ``look`` finds now, or one that goes on looking."""
    return look() or Awaited(path, look, lambda: describe(vars(owner).get(name, ABSENT)))


def function_point(owner: Any, name: str, path: str, hook: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Point:
    """The redirection of Paddle's Python function of that name, also where somebody else's replacement alone holds it.

    Args:
        hook: makes the hook of the native function.
    """

    def look() -> PyFunctionPatch | None:
        function = python_function(owner, name)
        if function is None:
            return None
        patch = PyFunctionPatch(function, path)
        patch.set_hook(hook(patch.original))
        return patch

    return awaiting(path, look, owner, name)


def holder(target: str) -> tuple[Any, str]:
    """Of a dotted target: who has it, and by what name; nobody (None) if this Paddle does not have it."""
    path, _, name = target.rpartition(".")
    owner: Any = paddle
    for part in path.split(".")[1:]:
        owner = getattr(owner, part, None)
    return (owner if hasattr(owner, name) else None), name


def point(target: str, hook: Callable[[Any], Callable[..., Any]]) -> Point | None:
    """The redirection of a dotted target; None if this Paddle does not have it.

    Args:
        hook: makes the hook for a patch once Paddle's own function is known (``patch.original``).

    Raises:
        InterceptionError: Paddle's own function is of a kind that cannot be redirected.
    """
    owner, name = holder(target)
    if owner is None:
        return None

    def look() -> Redirection | None:
        patch: Any = _locate(owner, name, target)
        if patch is not None:
            patch.set_hook(hook(patch))
        return patch

    return awaiting(target, look, owner, name)


def calling(function: Callable[..., Any]) -> Callable[[Any], Callable[..., Any]]:
    """For :func:`point`: hooks that call ``function`` with Paddle's own function and the arguments."""

    def made(patch: Any) -> Callable[..., Any]:
        original = patch.original
        return lambda *args, **kwargs: function(original, *args, **kwargs)

    return made


def present(*points: Point | None) -> list[Point]:
    """The points that this Paddle has."""
    return [point for point in points if point is not None]


def clean_c_op(name: str) -> Callable[..., Any]:
    """Paddle's own C function of that name in ``paddle._C_ops``, whatever is done to the name."""
    function = c_function(paddle._C_ops, name)
    if function is None:
        raise InterceptionError("paddle._C_ops.{name} was changed by somebody else, and Paddle's own is needed", name=name)
    return CFunctionPatch(function).original
