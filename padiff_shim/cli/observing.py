"""A mode around a whole program: open as soon as the program has imported Paddle, closed when it ends, however it ends.

Not before Paddle is there: what a program writes into ``os.environ`` first (devices, threads, flags) has to count as without us.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

import wrapt

from ..errors import PadiffShimError
from .main import UNUSABLE


class Observer:
    """Opens what ``make`` makes, and hands its run to ``report`` at the end, or None if it was never opened.

    The end comes after the program's threads and those of its ``atexit`` callbacks that it registered after ``import paddle``,
    and before Paddle takes itself down. A forked child reports nothing.
    """

    def __init__(self, make: Callable[[], Any], report: Callable[[Any], None]) -> None:
        self._make, self._report, self._process = make, report, os.getpid()
        self._mode: Any = None
        self._ended = False

    @property
    def run(self) -> Any:
        """That of the mode, which is open."""
        return self._mode.run

    def watch(self) -> None:
        """Begin to look out for Paddle."""
        atexit.register(self.end)  # where Paddle never came
        wrapt.register_post_import_hook(lambda _: self.begin(), "paddle")

    def begin(self) -> None:
        """Open the mode. Where that cannot be, the process ends, with a line that says why.

        Raises:
            SystemExit: it cannot be opened.
        """
        try:
            self._mode = self._make()
            self._mode.start()
        except PadiffShimError as error:
            self._mode, self._ended = None, True
            self._say(error)
            raise SystemExit(UNUSABLE) from None
        atexit.register(self.end)

    def end(self) -> None:
        """The program is over. A second call does nothing."""
        if self._ended or os.getpid() != self._process:
            return
        self._ended = True
        for stream in (sys.stdout, sys.stderr):
            if stream is not None and not stream.closed:
                stream.flush()
        for step in (self._close, lambda: self._report(None if self._mode is None else self._mode.run)):
            try:
                step()
            except PadiffShimError as error:
                self._say(error)
            except Exception:  # whatever it is: the program's exit status is not ours to change
                traceback.print_exc()
        if getattr(sys, "last_type", None) is KeyboardInterrupt:
            _ended_by_interrupt()

    def _close(self) -> None:
        if self._mode is not None:
            self._mode.stop()

    def _say(self, error: PadiffShimError) -> None:
        print(f"padiff-shim: {error}", file=sys.stderr)


def _ended_by_interrupt() -> None:
    """Have the interpreter end by SIGINT, as it would: it forgets that Ctrl-C ended the program as soon as a text is executed (for
    a dataclass that a report imports), and is told again by a text that Ctrl-C ends."""
    with contextlib.suppress(KeyboardInterrupt):
        exec("raise KeyboardInterrupt")
