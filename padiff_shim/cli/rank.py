"""The entry of a rank under ``padiff-shim run``: ``bootstrap/sitecustomize.py`` calls it after the rank has imported Paddle."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from multiprocessing import util
from typing import Any

from ..errors import PadiffShimError
from .main import UNUSABLE
from .program import leave_frames_out
from .ranks import Inheritance, Note, Observer, withdraw


def enter(data: Mapping[str, Any]) -> None:
    """Open the mode in this process until it ends; it prints nothing, but leaves a note for the process of the run.

    Processes that the rank starts run natively, as under a ``with`` statement in its program.
    """
    from ..modes.compare import rank

    withdraw()
    try:
        run, number = Inheritance.taken(data), rank()
    except PadiffShimError as error:
        print(f"padiff-shim: {error}", file=sys.stderr)
        raise SystemExit(UNUSABLE) from None
    note = Note(number, os.getpid())
    observer = Observer(lambda: _mode(run), lambda ended: _left(note, ended, run.notes))
    observer.begin()
    leave_frames_out()
    writer = getattr(getattr(observer.run, "recorder", None), "log", None)
    note.log = str((observer.run.file or "") if writer is None else writer.path)
    note.leave(run.notes)
    util.Finalize(None, observer.end, exitpriority=0)  # processes of multiprocessing may end without atexit


def _mode(run: Inheritance) -> Any:
    mode = run.opened()
    recorder = getattr(mode.run, "recorder", None)
    if recorder is not None:
        recorder.header["command"] = run.command
    else:
        mode.run.command = run.command
        if mode.run.file is None:  # for the process of the run, if this one is killed
            mode.run.keep_in(os.path.join(run.notes, "counted"))
    return mode


def _left(note: Note, run: Any, folder: str) -> None:
    note.counted = run.to_dict()
    note.leave(folder)
