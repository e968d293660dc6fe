"""What must not happen inside a hook of Paddle's engine, and therefore waits until the engine has returned.

An error that leaves a hook becomes an OSError, and Paddle 3.3.1 keeps gradients switched off afterwards; an op of the program must
not be run again while a node is running. Each thread has its own engine call, so each keeps what waits to itself. A backward may
start another one (recompute, a user's hook): then the outermost one ends the waiting.
"""

from __future__ import annotations

import collections
import threading
from collections.abc import Callable, Sequence
from typing import Any

_INTERRUPTED = "(External) KeyboardInterrupt"  # what Paddle makes of Ctrl-C that falls into Python code inside of its engine


class _Here(threading.local):
    """What waits in one thread."""

    def __init__(self) -> None:
        self.engines = 0  # engine calls that are running, one inside the other
        self.backward: object = None  # stands for the outermost of them, or the latest one
        self.errors: list[BaseException] = []
        self.tasks: collections.deque[Callable[[], None]] = collections.deque()


HERE = _Here()


def postpone(error: BaseException) -> None:
    """Have ``error`` raised in this thread when its engine has returned, or by :func:`raise_postponed`."""
    HERE.errors.append(error)


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
            HERE.backward = object()
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
    """What waits, beside an error with which the engine has ended."""
    if isinstance(error, OSError) and str(error).startswith(_INTERRUPTED):
        postpone(KeyboardInterrupt())
    if HERE.errors and HERE.engines == 1:
        waited = _taken()
        if isinstance(error, Exception) and not isinstance(waited, Exception):
            raise waited from error  # Ctrl-C comes before everything
        _note(error, [waited])


def _finish() -> None:
    """The tasks that wait, if this is the outermost engine call; they may start engines of their own, and wait for those."""
    while HERE.tasks and HERE.engines == 1:
        try:
            HERE.tasks.popleft()()
        except Exception as error:
            postpone(error)
        except BaseException as stop:  # Ctrl-C: what is left is given up
            postpone(stop)
            HERE.tasks.clear()


def _taken() -> BaseException:
    """The error to raise for all that wait: the first, but Ctrl-C and its like before it."""
    errors, HERE.errors = HERE.errors, []
    chosen = next((error for error in errors if not isinstance(error, Exception)), errors[0])
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
