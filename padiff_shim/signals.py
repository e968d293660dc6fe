"""Errors that the handler of a signal raised: a timeout's, and the like.

They come between any two calls, also where an error is expected and answered (a call that Torch refuses, a verdict that fails).
There they would be taken for that one and be gone, with the alarm, and the program would run on. They are the program's, wherever
they fall.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import inspect
import signal
import threading
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any, TypeVar

# That of the module ``signal`` makes enumerations of numbers, which takes a hundred times as long.
_handler_of: Callable[[int], Any] = importlib.import_module("_signal").getsignal
_raise_in = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_ulong, ctypes.py_object)(("PyThreadState_SetAsyncExc", ctypes.pythonapi))
_Function = TypeVar("_Function", bound=Callable[..., Any])


def of_a_signal(error: BaseException) -> bool:
    """Whether the handler of a signal stands in the traceback. Only the main thread runs handlers."""
    if threading.current_thread() is not threading.main_thread():
        return False
    codes, place = set(_handlers()), error.__traceback__
    while place is not None:
        if place.tb_frame.f_code in codes or _handled(place.tb_frame):
            return True
        place = place.tb_next
    return False


def ends_program(error: BaseException) -> bool:
    """Whether ``error`` is to end what the program does: Ctrl-C and its like, and what the handler of a signal raised."""
    return not isinstance(error, Exception) or of_a_signal(error)


def let_pass(error: BaseException) -> None:
    """Raise ``error`` again if the handler of a signal raised it; to be asked first where errors are answered."""
    if of_a_signal(error):
        raise error


def raised_again(error: BaseException) -> object:
    """An object at whose end Python has ``error`` wait for the next call, or beginning of a function, in this thread."""
    again = type("_Again", (BaseException,), {"__new__": lambda _: error})  # Python is to be given a class
    return type("_Waiting", (), {"__del__": staticmethod(functools.partial(_raise_in, threading.get_ident(), again))})()


def in_its_try(function: _Function) -> _Function:
    """``function``, whose body is one ``try``, with its very beginning inside that ``try``.

    CPython runs handlers of signals where a function begins. From 3.11 on that is before its ``try``: an error that a handler
    raises there leaves the function unseen. So the first entry of its exception table is made to begin with its code.
    """
    code = function.__code__
    table: bytes = getattr(code, "co_exceptiontable", b"")
    if table:
        start, place = _read(table, 0)
        length, place = _read(table, place)
        function.__code__ = code.replace(co_exceptiontable=bytes([_FIRST, *_written(start + length)]) + table[place:])
    return function


# Numbers in an exception table have six bits a byte, the highest first; an entry's first byte is marked. An entry that begins
# with the code has the number 0 there.
_FIRST, _MORE = 0x80, 0x40


def _read(table: bytes, place: int) -> tuple[int, int]:
    """A number of an exception table, and where the next one begins."""
    number = table[place] & 63
    while table[place] & _MORE:
        place += 1
        number = number << 6 | table[place] & 63
    return number, place + 1


def _written(number: int) -> list[int]:
    digits = [number & 63]
    while number := number >> 6:
        digits.insert(0, number & 63 | _MORE)
    return digits


def _handled(frame: FrameType) -> bool:
    """Whether a frame is a handler's whose code is no signal's any more: it got a number, and the frame that it cut into."""
    code, values = frame.f_code, frame.f_locals
    arguments = [values.get(name) for name in code.co_varnames[: code.co_argcount]]
    if code.co_flags & inspect.CO_VARARGS:
        arguments += values.get(code.co_varnames[code.co_argcount + code.co_kwonlyargcount]) or ()
    if len(arguments) < 2 or arguments[-1] is None:
        return False
    return arguments[-1] is frame.f_back and isinstance(arguments[-2], int)


def _handlers() -> Iterator[CodeType]:
    """The code of the handlers that the program has set."""
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
