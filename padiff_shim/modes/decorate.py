"""A mode as a decorator: open while the code of a function, method, generator or coroutine runs, closed while it is suspended."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any

import wrapt

from ..errors import ArgumentError, described


def decorate(mode: Any, function: Callable[..., Any]) -> Any:
    """``function`` with ``mode`` (a context manager) open while its own code runs.

    Raises:
        ArgumentError: for a class, or something that is not callable.
    """
    if inspect.isclass(function) or not (callable(function) or isinstance(function, (classmethod, staticmethod))):
        raise ArgumentError(f"decorate a function or a method with a mode, not {described(function)}")
    return _Decorated(function, functools.partial(_DRIVERS[_kind(function)], mode))


class _BoundDecorated(wrapt.BoundFunctionWrapper):
    def __reduce_ex__(self, protocol: Any) -> Any:
        return getattr, (self._self_instance, self.__name__)


class _Decorated(wrapt.FunctionWrapper):
    """Pickled by its name, as a function is: ``paddle.distributed.spawn`` and other processes are given one."""

    __bound_function_wrapper__ = _BoundDecorated

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__qualname__


def _kind(function: Callable[..., Any]) -> str:
    function = getattr(function, "__func__", function)  # what a classmethod or staticmethod holds
    if inspect.isgeneratorfunction(function):
        return "generator"
    if inspect.isasyncgenfunction(function):
        return "async generator"
    return "coroutine" if inspect.iscoroutinefunction(function) else "function"


def _drive_function(mode: Any, wrapped: Any, _: Any, args: Any, kwargs: Any) -> Any:
    with mode:
        return wrapped(*args, **kwargs)


def _drive_generator(mode: Any, wrapped: Any, _: Any, args: Any, kwargs: Any) -> Generator[Any, Any, Any]:
    """Open while the generator's own code runs, closed while it is suspended."""
    generator = wrapped(*args, **kwargs)
    step: Callable[[], Any] = functools.partial(next, generator)
    while True:
        try:
            with mode:
                item = step()
        except StopIteration as end:
            return end.value
        try:
            sent = yield item
            step = functools.partial(generator.send, sent)
        except GeneratorExit:
            with mode:
                generator.close()
            raise
        except BaseException as error:
            step = functools.partial(generator.throw, error)


async def _drive_coroutine(mode: Any, wrapped: Any, _: Any, args: Any, kwargs: Any) -> Any:
    with mode:
        return await wrapped(*args, **kwargs)


async def _drive_async_generator(mode: Any, wrapped: Any, _: Any, args: Any, kwargs: Any) -> AsyncGenerator[Any, Any]:
    """As for a generator."""
    generator = wrapped(*args, **kwargs)
    step: Callable[[], Any] = generator.__anext__
    while True:
        try:
            with mode:
                item = await step()
        except StopAsyncIteration:
            return
        try:
            sent = yield item
            step = functools.partial(generator.asend, sent)
        except GeneratorExit:
            with mode:
                await generator.aclose()
            raise
        except BaseException as error:
            step = functools.partial(generator.athrow, error)


_DRIVERS: dict[str, Callable[..., Any]] = {
    "function": _drive_function,
    "generator": _drive_generator,
    "async generator": _drive_async_generator,
    "coroutine": _drive_coroutine,
}
