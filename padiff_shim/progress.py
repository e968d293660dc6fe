"""A line on the terminal while something takes its time; none into a pipe."""

from __future__ import annotations

import sys
import threading
from contextlib import ContextDecorator

from rich.console import Console
from rich.file_proxy import FileProxy
from rich.live import Live
from rich.spinner import Spinner

PATIENCE = 2.0  # seconds before it is shown
_shown = threading.Lock()  # one line at a time: what is done inside of something else goes without


class Waiting(ContextDecorator):
    """``with Waiting("reading runs/monday"):`` shows these words on standard error, if that is a terminal, after two seconds.

    Also a decorator. What is printed meanwhile stands above the line; standard output stays where it leads.

    Args:
        what: is being done.
        console: another place.
        patience: in seconds.
    """

    def __init__(self, what: str, *, console: Console | None = None, patience: float = PATIENCE) -> None:
        self._what, self._console, self._patience = what, console, patience
        self._timer: threading.Timer | None = None
        self._line: Live | None = None

    def _recreate_cm(self) -> Waiting:  # each call of what is decorated waits by itself
        return Waiting(self._what, console=self._console, patience=self._patience)

    def _show(self) -> None:
        if self._line is not None:
            self._line.start()

    def __enter__(self) -> Waiting:
        console = self._console or Console(stderr=True)
        shows = console.is_terminal and not console.is_dumb_terminal and not _drawn_upon()
        if shows and _shown.acquire(blocking=False):
            # What goes to another place than the terminal must not be drawn on it.
            redirect = sys.stdout is not None and not sys.stdout.closed and sys.stdout.isatty()
            spinner = Spinner("dots", text=self._what)
            self._line = Live(spinner, console=console, refresh_per_second=12.5, transient=True, redirect_stdout=redirect)
            self._timer = threading.Timer(self._patience, self._show)
            self._timer.daemon = True
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None and self._line is not None:
            self._timer.cancel()
            self._timer.join()
            self._line.stop()
            self._timer = self._line = None
            _shown.release()


def _drawn_upon() -> bool:
    """Whether somebody's progress bar has the terminal: two would draw over each other."""
    return isinstance(sys.stdout, FileProxy) or isinstance(sys.stderr, FileProxy)
