"""The ranks that a program starts, for the process of ``padiff-shim run``: told of the run before, asked what they found after."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import wrapt

from ..modes.options import CompareOptions, Options
from ..modes.settings import Setting
from ..records import account
from ..runs.command import command
from ..runs.run import Run
from ..scratch import Scratch
from . import notes
from .bootstrap import sitecustomize
from .inheriting import Inheritance, withdraw
from .notes import Note

if TYPE_CHECKING:
    from ..runs.compare_run import CompareRun

_LAUNCHER = "paddle.distributed.launch"


class Ranks:
    """The ranks of one run.

    Args:
        options, owed: of the mode. A comparison without ``log=`` gets a folder that lives as long as the run: all logs in one.
    """

    def __init__(self, options: Options, owed: dict[str, Setting]) -> None:
        self._scratch = Scratch()
        self._folder = str(self._scratch.path)
        self._options, self._owed = options, owed
        self._spawned = False
        if isinstance(options, CompareOptions) and options.log is None:
            object.__setattr__(options, "log", Path(self._folder, "log"))

    def export(self) -> None:
        """Have what this process starts come into the mode, if it is a rank."""
        atexit.register(self._scratch.close)  # logs in a folder that the user named stay
        Inheritance.of(self._options, self._owed, command(), self._folder).export()
        wrapt.register_post_import_hook(lambda _: self._look_out(), "paddle")

    def _look_out(self) -> None:
        sitecustomize.after(sitecustomize.SPAWN, "_get_subprocess_env_list", self._spawns)
        sitecustomize.after(sitecustomize.SPAWN, "_set_trainer_env", self._forked)

    def _spawns(self) -> None:
        self._spawned = True

    def _forked(self) -> None:
        """``spawn(start_method="fork")``: this is a rank, and a copy of the process of the run."""
        from ..modes.compare import rank

        withdraw()
        Note(rank(), os.getpid(), native="forked (start_method='fork'), and a mode steps aside in a fork").leave(self._folder)

    def gathered(self, own: Any) -> tuple[Any, list[str]]:
        """The run of all ranks, with ``own`` (None: there is none) if that counted something; and what is to be said of them."""
        left = notes.found(self._folder)
        there = [note for note in left if not note.native]
        merge = self._logged if isinstance(self._options, CompareOptions) else _counted
        return merge(own, there) if there else own, self._remarks(left, there)

    def _logged(self, own: CompareRun | None, there: list[Note]) -> CompareRun | None:
        from ..runs.compare_run import together

        paths = [Path(note.log) for note in there if note.log and os.path.isfile(note.log)]
        writer = own.recorder.log if own is not None else None
        if own is not None and writer is not None and writer.path.is_file():
            if own.counts.records or own.coverage()["float_calls"]:
                paths.insert(0, writer.path)
            else:
                writer.path.unlink()  # a launcher's, which computes nothing
        return together(paths[0].parent, paths) if paths else own

    def _remarks(self, left: list[Note], there: list[Note]) -> list[str]:
        told = [f"{_listed(there)} took part" + ("" if len(there) > 1 else ", alone")] if there else []
        for why in dict.fromkeys(note.native for note in left if note.native):
            told.append(f"{_listed([note for note in left if note.native == why])} ran on Paddle's kernels: {why}")
        ended = [note for note in there if note.counted is None]
        if ended and not isinstance(self._options, CompareOptions):  # of a comparison its log tells
            told.append(
                f"{_listed(ended)} did not come to an end: killed, or still running; what was counted on the way is added up"
            )
        if not left and (self._spawned or _launches()):
            told.append(
                "no rank took part: either none imported paddle, or their Python was started with -E, -I or -S, or without this "
                "process's environment, and they ran on Paddle's kernels"
            )
        return told


def _launches() -> bool:
    """Whether the program is Paddle's launcher (of which some modules come with ``import paddle``)."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name.startswith(_LAUNCHER)


def _listed(there: list[Note]) -> str:
    ranks = list(dict.fromkeys(note.rank for note in there))
    return f"rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"


def _counted(own: Run | None, there: list[Note]) -> Run | None:
    """Their counts, added up; of a rank that was killed what it had written on the way."""
    remarks, counted = [], []
    for note in there:
        found = note.counted
        if found is None and note.log:
            with contextlib.suppress(account.LogError):  # it was killed before it counted anything: its absence is told
                found = account.read(Path(note.log))
                remarks.append(account.unfinished(Path(note.log), found))
        counted += [] if found is None else [found]
    if own is not None and own.as_dict()["ops"]:
        counted.insert(0, own.as_dict())
    elif own is not None and own.file is not None:
        own.file.unlink(missing_ok=True)  # a launcher's, which computes nothing
    if not counted:
        return own
    total = Run(counted[0]["backend"], counted[0]["linear_layout"])
    for one in counted:
        total.add(one)
    for remark in filter(None, remarks):
        total.warn(remark)
    return total
