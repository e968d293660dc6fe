"""A mode around a whole program: open as soon as the program has imported Paddle, closed when it ends, however it ends.

Not before Paddle is there: what a program writes into ``os.environ`` first (devices, threads, flags) has to count as without us.
"""

from __future__ import annotations

import atexit
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any

import wrapt

from ..errors import PadiffShimError
from .main import UNUSABLE


class Observer:
    """Opens what ``make`` makes, and hands its run to ``report`` at the end.

    The end comes after the program's threads and those of its ``atexit`` callbacks that it registered after ``import paddle``,
    and before Paddle takes itself down. A forked child reports nothing.
    """

    def __init__(self, make: Callable[[], Any], report: Callable[[Any], None], *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._make, self._report, self._process = make, report, os.getpid()
        self._mode: Any = None

    def watch(self) -> None:
        """Begin to look out for Paddle."""
        atexit.register(self._never)
        wrapt.register_post_import_hook(self._imported, "paddle")

    def _imported(self, _: Any) -> None:
        try:
            self._mode = self._make()
            self._mode.start()
        except PadiffShimError as error:
            self._mode = None
            self._say(error)
            raise SystemExit(UNUSABLE) from None
        atexit.register(self._end)

    def _never(self) -> None:
        if not self._quiet and "paddle" not in sys.modules and os.getpid() == self._process:
            print("padiff-shim: the program did not import paddle: nothing was observed", file=sys.stderr)

    def _end(self) -> None:
        """The program is over."""
        if os.getpid() != self._process:
            return
        for stream in (sys.stdout, sys.stderr):
            if stream is not None and not stream.closed:
                stream.flush()
        for step in (self._mode.stop, lambda: self._report(self._mode.run)):
            try:
                step()
            except PadiffShimError as error:
                self._say(error)
            except Exception:  # whatever it is: the program's exit status is not ours to change
                traceback.print_exc()

    def _say(self, error: PadiffShimError) -> None:
        print(f"padiff-shim: {error}", file=sys.stderr)
