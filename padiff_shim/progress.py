"""A line or a bar while a result takes its time, on a terminal or below a notebook's cell; none into a pipe."""

from __future__ import annotations

import io
import sys
import threading
import uuid
from collections.abc import Callable
from contextlib import ContextDecorator

from rich.console import Console, RenderableType
from rich.file_proxy import FileProxy
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.spinner import Spinner

from . import notebook
from .language import tr

PATIENCE = 2.0  # seconds before it is shown
_PERIOD = 0.5  # seconds between two drawings in a notebook
_shown = threading.Lock()  # one line at a time: a wait inside of another one shows none


class NotebookLine:
    """A line below the running cell, drawn twice a second until it is stopped; then it is gone.

    Args:
        drawn: returns what to show, text or something of rich.
    """

    def __init__(self, drawn: Callable[[], RenderableType]) -> None:
        self._drawn, self._name = drawn, uuid.uuid4().hex
        self._ended, self._thread = threading.Event(), threading.Thread(target=self._go_on, daemon=True)

    def start(self) -> None:
        """Show it."""
        self._show(self._text(), update=False)
        self._thread.start()

    def stop(self) -> None:
        """Remove it. A line that was not started stays so."""
        if self._thread.ident is not None:
            self._ended.set()
            self._thread.join()
            self._show("", update=True)

    def _go_on(self) -> None:
        while not self._ended.wait(_PERIOD):
            self._show(self._text(), update=True)

    def _text(self) -> str:
        buffer = io.StringIO()
        Console(file=buffer, width=notebook.WIDTH, color_system=None, force_jupyter=False).print(self._drawn())
        return buffer.getvalue().rstrip()

    def _show(self, text: str, *, update: bool) -> None:
        notebook.display(text, self._name, update=update)


class Waiting(ContextDecorator):
    """``with Waiting("reading runs/monday"):`` shows these words after two seconds, on standard error if that is a terminal,
    or below the cell of a notebook.

    Also a decorator. Text that the program prints meanwhile stands above the line.

    Args:
        what: the words, which are translated.
        console: another place than standard error.
        patience: seconds before they are shown.
    """

    def __init__(self, what: str, *, console: Console | None = None, patience: float = PATIENCE) -> None:
        self._what, self._console, self._patience = what, console, patience
        self._timer: threading.Timer | None = None
        self._line: Live | NotebookLine | None = None

    def _recreate_cm(self) -> Waiting:  # each call of a decorated function waits by itself
        return Waiting(self._what, console=self._console, patience=self._patience)

    def _show(self) -> None:
        if self._line is not None:
            self._line.start()

    def __enter__(self) -> Waiting:
        console = self._console or Console(stderr=True)
        inside = self._console is None and notebook.running()
        drawn_upon = isinstance(sys.stdout, FileProxy) or isinstance(sys.stderr, FileProxy)  # by a bar: two draw over each other
        shows = inside or (console.is_terminal and not console.is_dumb_terminal and not drawn_upon)
        if shows and _shown.acquire(blocking=False):
            # Standard output that goes to another place than the terminal must not be drawn on it.
            redirect = sys.stdout is not None and not sys.stdout.closed and sys.stdout.isatty()
            spinner = Spinner("dots", text=str(tr(self._what)))
            self._line = (
                NotebookLine(lambda: spinner)
                if inside
                else Live(spinner, console=console, refresh_per_second=12.5, transient=True, redirect_stdout=redirect)
            )
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


class Bar:
    """A bar on standard error, if that is a terminal, or in a notebook: how much is done, and what is being done.

    Args:
        text: the words before it.
        total: all there is to do; None: not known yet.
        completed: how much of it is done already.
        wanted: False shows no bar.
        remaining: show an estimate of the time that remains.
    """

    def __init__(
        self, text: str, total: int | None = None, completed: int = 0, *, wanted: bool = True, remaining: bool = False
    ) -> None:
        console = Console(stderr=True)
        shows = wanted and console.is_terminal and not console.is_dumb_terminal
        columns = [BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), *([TimeRemainingColumn()] if remaining else [])]
        self._progress = Progress(
            TextColumn(str(text)), *columns, TextColumn("{task.description}"), console=console, transient=True, disable=not shows
        )
        self._task = self._progress.add_task("", total=total, completed=completed)
        self._line = NotebookLine(self._progress.get_renderable) if wanted and notebook.running() else None

    def __enter__(self) -> Bar:
        self._progress.start()
        if self._line is not None:
            self._line.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._line is not None:
            self._line.stop()
        self._progress.stop()

    def describe(self, text: str) -> None:
        """Show these words behind the bar."""
        self._progress.update(self._task, description=str(text))

    def advance(self) -> None:
        """One more is done."""
        self._progress.update(self._task, advance=1)

    def reach(self, completed: int, total: int) -> None:
        """So much is done, of so much."""
        self._progress.update(self._task, completed=completed, total=total)
