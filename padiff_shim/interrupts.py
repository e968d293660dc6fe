"""Ctrl-C, signals and errors at moments that cannot take them: steps run to their end, and errors wait."""

from __future__ import annotations

import collections
import ctypes
import functools
import importlib
import inspect
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from types import CodeType, FrameType
from typing import Any, TypeVar

from .errors import PadiffShimError

# ---- Errors that the handler of a signal raised: a timeout's, and the like.
#
# They come between any two calls, also where an error is expected and answered (a call that Torch refuses, a verdict that fails).
# There they would be taken for that one and be gone, with the alarm, and the program would run on. They are the program's,
# wherever they fall.

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
        number = start + length
        digits = [number & 63]
        while number := number >> 6:
            digits.insert(0, number & 63 | _MORE)
        function.__code__ = code.replace(co_exceptiontable=bytes([_FIRST, *digits]) + table[place:])
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


# ---- Steps that are made to their end, wherever a Ctrl-C or the signal of a timeout falls.
#
# Such an error may come between any two calls. What opens or closes a mode must not stay half done then: calls would go on to
# hooks of ours, or a mode would stay open, for the rest of the process. CPython looks for signals behind calls, where functions
# begin and where loops jump back; so an assignment in a ``finally`` cannot be missed, and neither can the first call of a C
# function there.


def finish(steps: list[Callable[[], Any]]) -> None:
    """Make all steps, taking each out of the list that is done; then raise the first error, Ctrl-C and its like before others.

    A step that an error ended is made once more, so each has to be one that may be made twice: an interrupt does not come again, an
    error of the step itself does, and is left standing.
    """
    errors: list[BaseException] = []
    failed = None
    while steps:
        try:
            while steps:
                steps[0]()
                del steps[0]
        except BaseException as error:
            errors.append(error)
            if steps and steps[0] is failed:
                del steps[0]
            elif steps:
                failed = steps[0]
    if errors:
        raise next((error for error in errors if not isinstance(error, Exception)), errors[0])


# ---- What must not happen inside a hook of Paddle's engine, and therefore waits until the engine has returned.
#
# An error that leaves a hook becomes an OSError, and Paddle 3.3.1 keeps gradients switched off afterwards; an op of the program
# must not be run again while a node is running. Each thread has its own engine call, so each keeps what waits to itself. A
# backward may start another one (recompute, a user's hook): then the outermost one ends the waiting.

_EXTERNAL = "(External) "  # what Paddle's engine makes of an error that leaves Python code inside of it begins with this
_INTERRUPTED = f"{_EXTERNAL}KeyboardInterrupt"


class _ThreadErrors(threading.local):
    """What waits in one thread."""

    def __init__(self) -> None:
        self.engines = 0  # engine calls that are running, one inside the other
        self.backward: object = None  # stands for the outermost of them, or the latest one
        self.prunes = False  # whether the innermost is a paddle.grad, which leaves out what leads to no input of it
        self.errors: list[BaseException] = []
        self.left: BaseException | None = None  # what left a hook, and which Paddle's engine does not keep
        self.tasks: collections.deque[Callable[[], None]] = collections.deque()


HERE = _ThreadErrors()


def postpone(error: BaseException) -> None:
    """Have ``error`` raised in this thread when its engine has returned, or by :func:`raise_postponed`."""
    HERE.errors.append(error)


@in_its_try
def call_silently(function: Callable[..., Any], *args: Any) -> Any:
    """``function(*args)`` in a hook of Paddle's engine: an error is raised when the engine has returned."""
    try:
        return function(*args)
    except BaseException as error:
        again = ended(error)
    again = None  # noqa: F841 - dropped where nothing but the end of the hook follows
    return None


def ended(error: BaseException) -> object:
    """A hook that must raise nothing was ended by ``error``: it is raised when the engine has returned.

    Where no engine call of ours ends what waits (a graph that outlived its mode), Python raises it at the next call after what this
    returns is dropped. The hook drops it as the last it does: its frame may live on, in the error's traceback.
    """
    if HERE.engines:
        postpone(error)
        return None
    return raised_again(error)


def arrives(error: BaseException) -> bool:
    """Whether an error in a hook reaches the program as it is. Other errors of the program's own are what Paddle makes of them."""
    return ends_program(error) or isinstance(error, PadiffShimError)


@in_its_try
def call_in_hook(function: Callable[..., Any], *args: Any) -> Any:
    """``function(*args)`` in a hook of Paddle's engine. An error that :func:`arrives` replaces the engine's OSError."""
    try:
        return function(*args)
    except BaseException as error:
        _leaves(error)
        raise


def as_method(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same for a method of a class."""

    @in_its_try
    def method(*args: Any) -> Any:
        try:
            return function(*args)
        except BaseException as error:
            _leaves(error)
            raise

    return method


def _leaves(error: BaseException) -> None:
    if arrives(error):
        HERE.left = error


def engine_runs() -> bool:
    """Whether an engine call of this thread is running that will end what waits."""
    return HERE.engines > 0


def after_engine(task: Callable[[], None]) -> None:
    """Have ``task`` called here when the engine has returned, before the errors are raised. If :func:`engine_runs` only."""
    HERE.tasks.append(task)


def raise_postponed() -> None:
    """Raise what waits in this thread: the first error, with the others as its notes. Nothing while an engine is running here."""
    if HERE.errors and not HERE.engines:
        raise _taken()


class engine:
    """Around a call into Paddle's engine, ``with engine():``. What waits is raised at its end; an error takes the others along."""

    def __enter__(self) -> None:
        if not HERE.engines:
            HERE.backward, HERE.left = object(), None
        HERE.engines += 1

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        here = HERE
        if error is None and not here.tasks and not here.errors:  # nothing waits
            here.engines -= 1
            return
        try:
            _finish()
            if error is not None:
                _joined(error)
        finally:
            here.engines -= 1
        if error is None:
            raise_postponed()


def _joined(error: BaseException) -> None:
    """What left a hook, in place of what Paddle's engine made of it; what waits, beside an error that the engine ended with."""
    left, HERE.left = HERE.left, None
    if not isinstance(error, OSError) or not str(error).startswith(_EXTERNAL):
        left = None
    elif left is None and str(error).startswith(_INTERRUPTED):  # in a hook that the program set outside of all modes
        left = KeyboardInterrupt()
    if HERE.errors and HERE.engines == 1:
        waited = _taken()
        if left is None and isinstance(error, Exception) and ends_program(waited):
            raise waited from error  # Ctrl-C and its like come before everything
        _note(error if left is None else left, [waited])
    if left is not None:
        context = left.__context__
        try:
            raise left
        finally:
            left.__context__ = context  # not the OSError, which is the same error


def _finish() -> None:
    """The tasks that wait, if this is the outermost engine call; they may start engines of their own, and wait for those."""
    while HERE.tasks and HERE.engines == 1:
        try:
            HERE.tasks.popleft()()
        except BaseException as error:
            postpone(error)
            if ends_program(error):  # the other tasks are given up
                HERE.tasks.clear()


def _taken() -> BaseException:
    """The error to raise for all that wait: the first, but Ctrl-C and its like before it."""
    errors, HERE.errors = HERE.errors, []
    chosen = next(filter(ends_program, errors), errors[0])
    _note(chosen, [error for error in errors if error is not chosen])
    return chosen


def _note(error: BaseException, others: Sequence[BaseException]) -> None:
    """Attach other errors as notes (PEP 678): what catches ``error`` by its type still does, and no error is lost.

    By hand, because ``add_note`` is new in Python 3.11; what prints notes before that (the exceptiongroup backport) reads the same.
    """
    notes = getattr(error, "__notes__", [])
    for other in others:
        notes += [f"and then {type(other).__name__}: {other}", *getattr(other, "__notes__", ())]
    if notes:
        error.__notes__ = notes
