"""Redirects a plain Python function *in place* (the counterpart of :mod:`.cfunction`).

The function's code object is exchanged for one that calls the hook, so that references taken earlier
(``from paddle.nn.functional import linear``) are intercepted too; undoing puts the very code object back.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

from .errors import InterceptionError


def _redirect(*args: Any, **kwargs: Any) -> Any:
    hook: Any = "hook"  # this constant is exchanged for the hook itself
    return hook(*args, **kwargs)


class PyFunctionPatch:
    """One Python function that can be redirected to a hook and back; ``original`` always runs the native code."""

    def __init__(self, function: FunctionType) -> None:
        if function.__closure__:
            raise InterceptionError(f"cannot intercept {function.__qualname__}: it is a closure")
        self.function = function
        self._native = function.__code__
        self.original: Callable[..., Any] = FunctionType(
            function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
        )
        self.original.__kwdefaults__ = function.__kwdefaults__
        self._hooked: CodeType | None = None

    def set_hook(self, hook: Callable[..., Any]) -> None:
        """What calls are redirected to after :meth:`install`."""
        code = _redirect.__code__
        constants = tuple(hook if constant == "hook" else constant for constant in code.co_consts)
        native = self._native
        self._hooked = code.replace(
            co_consts=constants,
            co_name=native.co_name,
            co_filename=native.co_filename,
            co_firstlineno=native.co_firstlineno,
        )

    @property
    def installed(self) -> bool:
        """Whether calls go to the hook now."""
        return self.function.__code__ is not self._native

    def install(self) -> None:
        """Redirect every call of the function to the hook."""
        assert self._hooked is not None
        self.function.__code__ = self._hooked

    def uninstall(self) -> None:
        """Put the very code object back."""
        self.function.__code__ = self._native
