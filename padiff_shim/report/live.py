"""A line on the terminal while a long run goes on."""

from __future__ import annotations

import io
import math
import shutil
import sys
import threading
import time
import weakref
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from .. import notebook
from ..present.text import STYLES
from ..progress import NotebookLine
from ..runlog.counts import Counts
from ..text import many, shown
from ..verdicts import Verdict
from .compare import tone

PERIOD = 0.25  # seconds between two drawings
PATIENCE = 2.0  # seconds before the first one: short runs show nothing
_ERASE = "\r\x1b[2K"


class Live:
    """One status line on standard error, at most four times a second.

    What the program prints meanwhile stays whole: before it, the line is erased, and it is drawn again only when the program's
    output stands at the beginning of a line (so a progress bar of the program's own is left alone). For this the ``write`` of the
    streams that lie on the terminal is shadowed on the stream objects until :meth:`stop`; the text goes through unchanged.
    """

    def __init__(self, out: TextIO, watched: tuple[TextIO, ...], clock: Callable[[], float] = time.monotonic) -> None:
        self._out, self._clock = out, clock
        self._next = clock() + PATIENCE
        self._lock = threading.RLock()
        self._shown, self._fresh, self._stopped = False, True, False
        self._write = out.write
        self._restore: list[Callable[[], None]] = []
        for stream in watched:
            self._watch(stream)
        self._final = weakref.finalize(self, _undo, self._restore)

    @classmethod
    def on_terminal(cls) -> Live | LiveInNotebook | None:
        """A line on standard error or below a notebook's cell; None if there is neither, or a terminal that erases no line."""
        if notebook.running():
            return LiveInNotebook()
        if not _is_terminal(sys.stderr) or Console(file=sys.stderr).is_dumb_terminal:
            return None
        return cls(sys.stderr, tuple({id(stream): stream for stream in (sys.stdout, sys.stderr) if _is_terminal(stream)}.values()))

    def _watch(self, stream: TextIO) -> None:
        original, me = stream.write, weakref.ref(self)

        def write(text: str) -> int:
            live = me()
            if live is not None:
                live.hide()
                if text:
                    live._fresh = text.endswith("\n")
            return original(text)

        try:
            stream.write = write  # type: ignore[method-assign]
        except AttributeError:  # a stream that takes no attributes: better no line than a torn one
            self._stopped = True
        else:
            self._restore.append(lambda: _unwatch(stream, write))

    def show(self, counts: Counts, record: Mapping[str, Any]) -> None:
        """Draw the line if it is time."""
        now = self._clock()
        if now < self._next or self._stopped:
            return
        with self._lock:
            self._next = now + PERIOD
            if self._fresh:
                # Back to the first column: what writes to the terminal past Python's streams begins on this line, not behind it.
                self._draw(_ERASE + line(counts, record) + "\r")
                self._shown = True

    def hide(self) -> None:
        """Erase the line."""
        if self._shown:
            with self._lock:
                self._shown = False
                self._draw(_ERASE)

    def _draw(self, text: str) -> None:
        try:
            self._write(text)
            self._out.flush()
        except (OSError, ValueError):  # the terminal is gone, or the stream was closed
            self._stopped = True

    def stop(self) -> None:
        """Erase the line for good and give the streams back."""
        self.hide()
        self._stopped = True
        self._final()


def _unwatch(stream: Any, write: Any) -> None:
    if vars(stream).get("write") is write:
        del stream.write


def _undo(restore: list[Callable[[], None]]) -> None:
    while restore:
        restore.pop()()


def _is_terminal(stream: Any) -> bool:
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):
        return False


class LiveInNotebook:
    """The same below a notebook's cell.

    Args:
        clock: the seconds of now.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._next, self._text = clock, clock() + PATIENCE, Text()
        self._line: NotebookLine | None = None

    def show(self, counts: Counts, record: Mapping[str, Any]) -> None:
        """Say how far the run is, if it is time."""
        if self._clock() >= self._next:
            self._next, self._text = self._clock() + PERIOD, words(counts, record)
            if self._line is None:
                self._line = NotebookLine(lambda: self._text)
                self._line.start()

    def stop(self) -> None:
        """Remove it for good."""
        self._next = math.inf
        if self._line is not None:
            self._line.stop()


def words(counts: Counts, record: Mapping[str, Any]) -> Text:
    """Records, verdicts and the running layer."""
    text = Text(f"padiff_shim: {many(counts.records, 'record')}")
    for name, number in counts.verdicts(everything=False).items():
        text.append("  ").append(f"{name} {number:,}", style=STYLES[tone(Verdict(name))])
    for why, number in counts.apart().items():
        text.append("  ").append(f"{why} {number:,}", style="dim")
    text.append(f"  {shown(record.get('layer') or record.get('op'))}", style="dim")
    return text


def line(counts: Counts, record: Mapping[str, Any]) -> str:
    """The same in the terminal's width, as text with ANSI colours."""
    text = words(counts, record)
    buffer = io.StringIO()
    width = max(20, shutil.get_terminal_size((80, 24)).columns - 1)
    text.truncate(width, overflow="ellipsis")
    Console(file=buffer, width=width, force_terminal=True, color_system="standard", force_jupyter=False).print(text, end="")
    return buffer.getvalue()
