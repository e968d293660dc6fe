"""What must not happen inside a hook of Paddle's engine, and therefore waits until the engine has returned.

An error that leaves a hook becomes an OSError, and Paddle 3.3.1 keeps gradients switched off afterwards; an op of the program must
not be run again while a node is running. Each thread has its own engine call, so each keeps what waits to itself. A backward may
start another one (recompute, a user's hook): then the outermost one ends the waiting.
"""

from __future__ import annotations

import collections
import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

from .errors import PadiffShimError
from .signals import ends_program, in_its_try, raised_again

_EXTERNAL = "(External) "  # what Paddle's engine makes of an error that leaves Python code inside of it begins with this
_INTERRUPTED = f"{_EXTERNAL}KeyboardInterrupt"


class _Here(threading.local):
    """What waits in one thread."""

    def __init__(self) -> None:
        self.engines = 0  # engine calls that are running, one inside the other
        self.backward: object = None  # stands for the outermost of them, or the latest one
        self.prunes = False  # whether the innermost is a paddle.grad, which leaves out what leads to no input of it
        self.errors: list[BaseException] = []
        self.left: BaseException | None = None  # what left a hook, and which Paddle's engine does not keep
        self.tasks: collections.deque[Callable[[], None]] = collections.deque()


HERE = _Here()


def postpone(error: BaseException) -> None:
    """Have ``error`` raised in this thread when its engine has returned, or by :func:`raise_postponed`."""
    HERE.errors.append(error)


def silent_hook(function: Callable[..., Any], *args: Any) -> Callable[..., Any]:
    """``function(*args, gradient)`` for Paddle's engine to call: an error is raised when the engine has returned."""
    return functools.partial(_silently, function, *args)


@in_its_try
def _silently(function: Callable[..., Any], *args: Any) -> Any:
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


def as_hook(function: Callable[..., Any], *args: Any) -> Callable[..., Any]:
    """``function(*args, ...)`` for Paddle's engine to call. An error that :func:`arrives` replaces the engine's OSError."""
    return functools.partial(_called, function, *args)


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


@in_its_try
def _called(function: Callable[..., Any], *args: Any) -> Any:
    try:
        return function(*args)
    except BaseException as error:
        _leaves(error)
        raise


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
            if ends_program(error):  # what is left is given up
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
