"""A line on the terminal while something takes its time; none into a pipe."""

from __future__ import annotations

import threading

from rich.console import Console

PATIENCE = 2.0  # seconds before it is shown


class Waiting:
    """``with Waiting("reading runs/monday"):`` shows these words on standard error, if that is a terminal, after two seconds.

    Args:
        what: is being done.
        console: another place.
        patience: in seconds.
    """

    def __init__(self, what: str, *, console: Console | None = None, patience: float = PATIENCE) -> None:
        console = console or Console(stderr=True)
        shows = console.is_terminal and not console.is_dumb_terminal
        self._status = console.status(what) if shows else None
        self._timer = threading.Timer(patience, self._show)
        self._timer.daemon = True

    def _show(self) -> None:
        if self._status is not None:
            self._status.start()

    def __enter__(self) -> Waiting:
        if self._status is not None:
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._timer.cancel()
            self._timer.join()
            self._status.stop()
