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
    return _number(error) > 0


def number_of(error: BaseException) -> int:
    """The signal whose handler raised ``error``; 0 if none did. Python's own handler of Ctrl-C stands in no traceback."""
    default = signal.SIGINT if isinstance(error, KeyboardInterrupt) and _in_main_thread() else 0
    return _number(error) or default


def _number(error: BaseException) -> int:
    numbers = {code: number for number, code in _handlers()} if _in_main_thread() else {}
    place = error.__traceback__ if numbers else None
    while place is not None:
        if place.tb_frame.f_code in numbers:
            return numbers[place.tb_frame.f_code]
        place = place.tb_next
    return 0


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def let_pass(error: BaseException) -> None:
    """Raise ``error`` again if the handler of a signal raised it; to be asked first where errors are answered."""
    if of_a_signal(error):
        raise error


def _handlers() -> Iterator[tuple[int, CodeType]]:
    """The signals for which the program has set a handler, and its code."""
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
            yield number, code
