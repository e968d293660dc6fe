"""Redirects a plain Python function *in place* (the counterpart of :mod:`.cfunction`).

The function's code object is exchanged for one that calls the hook, so that references taken earlier
(``from paddle.nn.functional import linear``) are intercepted too; undoing puts the very code object back. The new code has the
parameters of the old one: signature, defaults and the errors for wrong arguments are the function's own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

from ..errors import InterceptionError
from .patcher import Redirection

_HOOK = "_padiff_shim_hook"


def _source(code: CodeType) -> str:
    """A function with the parameters of ``code`` that passes all of them on to the constant ``_HOOK``."""
    count = code.co_argcount
    names = list(code.co_varnames[: count + code.co_kwonlyargcount])
    positional, keywords = names[:count], names[count:]
    rest = list(code.co_varnames[len(names) :])
    declared, passed = list(positional), list(positional)
    if code.co_posonlyargcount:
        declared.insert(code.co_posonlyargcount, "/")
    if code.co_flags & inspect.CO_VARARGS:
        star = f"*{rest.pop(0)}"
        declared.append(star)
        passed.append(star)
    elif keywords:
        declared.append("*")
    declared += keywords
    passed += [f"{name}={name}" for name in keywords]
    if code.co_flags & inspect.CO_VARKEYWORDS:
        declared.append(f"**{rest[0]}")
        passed.append(f"**{rest[0]}")
    # The hook is a constant of the code: nothing is looked up in the globals of Paddle's module.
    return f"def redirect({', '.join(declared)}):\n {_HOOK} = {_HOOK!r}\n return {_HOOK}({', '.join(passed)})\n"


def _redirecting(native: CodeType, hook: Callable[..., Any]) -> CodeType:
    """Code with the parameters, name and place of ``native`` that calls ``hook``."""
    compiled = compile(_source(native), native.co_filename, "exec")
    code = next(constant for constant in compiled.co_consts if isinstance(constant, CodeType))
    named: dict[str, Any] = {"co_qualname": native.co_qualname} if hasattr(native, "co_qualname") else {}  # new in 3.11
    return code.replace(
        co_consts=tuple(hook if constant == _HOOK else constant for constant in code.co_consts),
        co_name=native.co_name,
        co_filename=native.co_filename,
        co_firstlineno=native.co_firstlineno,
        **named,
    )


class PyFunctionPatch(Redirection):
    """One Python function that can be redirected to a hook and back; ``original`` always runs the native code."""

    def __init__(self, function: FunctionType, path: str = "") -> None:
        if function.__closure__:
            raise InterceptionError(f"cannot intercept {function.__qualname__}: it is a closure")
        self.function, self.path = function, path or f"{function.__module__}.{function.__qualname__}"
        self.native = function.__code__
        self.original: Callable[..., Any] = FunctionType(
            function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
        )
        self.original.__kwdefaults__ = function.__kwdefaults__

    def set_hook(self, hook: Callable[..., Any]) -> None:
        """What calls are redirected to after :meth:`install`."""
        self.hooked = _redirecting(self.native, hook)

    def read(self) -> CodeType:
        """The function's code."""
        return self.function.__code__

    def write(self, state: CodeType) -> None:
        """Exchange the function's code."""
        self.function.__code__ = state

    def ours(self) -> bool:
        """As for any redirection, without the detours."""
        return self.function.__code__ is self.hooked

    def install(self) -> bool:
        """As for any redirection, without the detours."""
        function = self.function
        now = function.__code__
        if now is self.native:
            function.__code__ = self.hooked
            return True
        return now is self.hooked

    def uninstall(self) -> bool:
        """As :meth:`install`."""
        function = self.function
        now = function.__code__
        if now is self.hooked:
            function.__code__ = self.native
            return True
        return now is self.native

    def describe(self, state: CodeType) -> str:
        """Somebody else's code, by its place."""
        return f"the code of {state.co_name} at {state.co_filename}:{state.co_firstlineno}"
