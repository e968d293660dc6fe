"""Errors that the handler of a signal raised: a timeout's, and the like.

They come between any two calls, also where an error is expected and answered (a call that Torch refuses, a verdict that fails).
There they would be taken for that one and be gone, with the alarm, and the program would run on. They are the program's, wherever
they fall.
"""

from __future__ import annotations

import importlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

# That of the module ``signal`` makes enumerations of numbers, which takes a hundred times as long.
_handler_of: Callable[[int], Any] = importlib.import_module("_signal").getsignal


def of_a_signal(error: BaseException) -> bool:
    """Whether the handler of a signal stands in the traceback. Only the main thread runs handlers."""
    if threading.current_thread() is not threading.main_thread():
        return False
    handlers = set(_handlers())
    place = error.__traceback__ if handlers else None
    while place is not None:
        if place.tb_frame.f_code in handlers:
            return True
        place = place.tb_next
    return False


def let_pass(error: BaseException) -> None:
    """Raise ``error`` again if the handler of a signal raised it; to be asked first where errors are answered."""
    if of_a_signal(error):
        raise error


def _handlers() -> Iterator[CodeType]:
    """The code of each handler that the program has set."""
    for number in range(1, signal.NSIG):
        handler = _handler_of(number)
        if handler is None or isinstance(handler, int):  # none, or the system's
            continue
        while hasattr(handler, "func"):  # functools.partial
            handler = handler.func
        handler = getattr(handler, "__func__", handler)
        code = getattr(handler, "__code__", None)
        if code is None:  # an object
            code = getattr(getattr(type(handler), "__call__", None), "__code__", None)  # noqa: B004
        if code is not None:
            yield code
