"""A script or module run as Python itself would run it: ``python train.py ...``, ``python -m package.train ...``.

What the program can see is its own: ``__main__``, ``sys.argv``, ``sys.path[0]``, exit status, signals, ``atexit``, and tracebacks,
which begin in its own code. So nothing here catches what the program raises; it goes on to the interpreter, with our frames left
out when it is shown.
"""

from __future__ import annotations

import builtins
import functools
import os
import pkgutil
import runpy
import sys
import threading
import types
from collections.abc import Callable, Sequence
from importlib.machinery import SourceFileLoader
from typing import Any

from ..errors import MissingFileError, unreadable
from .tracebacks import tidy

_MAIN = "__main__"


def script(path: str, arguments: Sequence[str]) -> Callable[[], None]:
    """``python path arguments...``, ready to be called. A folder or an archive with a ``__main__`` in it will do as well.

    Raises:
        FileError: there is no such file, or it cannot be read.
    """
    if not os.path.exists(path):
        raise MissingFileError(f"the program {path} does not exist")
    if pkgutil.get_importer(path) is not None:

        def folder() -> None:
            _take_over([path, *arguments], os.path.join(os.getcwd(), path))
            _execute(functools.partial(_as_main, _MAIN, False))

        return folder
    try:
        with open(path, "rb") as file:
            source = file.read()
    except OSError as error:
        raise unreadable("the program", path, error) from None

    def program() -> None:
        name = os.path.join(os.getcwd(), path)
        main = _take_over([path, *arguments], os.path.dirname(os.path.realpath(path)))
        vars(main).update(__file__=name, __cached__=None, __loader__=SourceFileLoader(_MAIN, name))
        _execute(lambda: exec(compile(source, name, "exec", dont_inherit=True), vars(main)))

    return program


def module(name: str, arguments: Sequence[str]) -> Callable[[], None]:
    """``python -m name arguments...``, ready to be called."""

    def program() -> None:
        _take_over(["-m", *arguments], os.getcwd())
        _execute(functools.partial(_as_main, name, True))

    return program


def _as_main(name: str, alter_argv: bool) -> None:
    """What ``python -m`` calls itself."""
    runpy._run_module_as_main(name, alter_argv)  # type: ignore[attr-defined]


def _take_over(argv: list[str], folder: str) -> types.ModuleType:
    """An empty ``__main__``, ``sys.argv`` and ``sys.path[0]``, as the interpreter makes them."""
    main = types.ModuleType(_MAIN)
    vars(main).update(__builtins__=builtins, __package__=None, __loader__=None, __spec__=None)
    if sys.version_info < (3, 14):
        main.__annotations__ = {}
    sys.modules[_MAIN], sys.argv = main, argv
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = folder
    return main


def _execute(program: Callable[[], Any]) -> None:
    """Call ``program``; what it raises goes on, and is shown without the frames from here upwards. So is what its threads raise."""
    threading.excepthook = functools.partial(_show_of_thread, threading.excepthook)
    try:
        _begin(program)
    except SystemExit:
        raise
    except BaseException:
        sys.excepthook = functools.partial(_show, sys.excepthook)  # the program's own, if it has set one
        raise


def leave_frames_out() -> None:
    """From now on what nobody catches is shown without our frames, in every thread: where the program was not begun here."""
    sys.excepthook = functools.partial(_show, sys.excepthook)
    threading.excepthook = functools.partial(_show_of_thread, threading.excepthook)


def _begin(program: Callable[[], Any]) -> None:
    program()


def _show(hook: Callable[..., Any], kind: Any, error: BaseException, traceback: Any) -> None:
    error.__traceback__ = _below(traceback)
    tidy(error)
    sys.last_traceback = theirs = error.__traceback__
    hook(kind, error, theirs)


def _show_of_thread(hook: Callable[..., Any], raised: threading.ExceptHookArgs) -> None:
    if raised.exc_value is None:
        return hook(raised)
    tidy(raised.exc_value)
    theirs = raised.exc_type, raised.exc_value, raised.exc_value.__traceback__, raised.thread
    return hook(threading.ExceptHookArgs(theirs))


def _below(traceback: types.TracebackType | None) -> types.TracebackType | None:
    """The frames below those of this module; all of them if it has none."""
    ours, place = None, traceback
    while place is not None:
        if place.tb_frame.f_code.co_filename == __file__:
            ours = place
        place = place.tb_next
    return traceback if ours is None else ours.tb_next
