"""The ranks of a program under ``padiff-shim run``: what they inherit, how each enters the mode, and the notes that they leave."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import wrapt

from .. import __version__
from ..errors import ArgumentError, PadiffShimError
from ..files import Scratch, replace
from ..modes.options import MODES, RUN, CompareOptions, ModeOptions, Setting, as_data, from_data, textual
from ..runlog import reference_log
from ..runlog.reader import LogError
from ..runs.run import Run, command
from ..text import tr
from . import program
from .bootstrap import sitecustomize
from .main import UNUSABLE
from .recorded import RecordOptions

if TYPE_CHECKING:
    from ..runs.compare_run import CompareRun


@dataclass
class Note:
    """The note of one rank for the process of ``padiff-shim run``: a small file in a folder that lives as long as the run.

    Attributes:
        rank, pid: the rank and its process.
        log: the file of its log, or "".
        counted: the counts of its run (``run.to_dict()``) after its end; None before.
        native: why the rank is not in the mode; "" if it is.
    """

    rank: int
    pid: int
    log: str = ""
    counted: dict[str, Any] | None = None
    native: str = ""

    def leave(self, folder: str) -> None:
        """Write the note in place of the rank's earlier one: wholly, or not at all."""
        os.makedirs(folder, mode=0o700, exist_ok=True)
        replace(os.path.join(folder, f"{self.pid}.json"), json.dumps(asdict(self)))


def read_notes(folder: str) -> list[Note]:
    """All notes, by rank."""
    notes = [Note(**json.loads(path.read_text(encoding="utf-8"))) for path in Path(folder).glob("[0-9]*.json")]
    return sorted(notes, key=lambda note: (note.rank, note.pid))


RECORD = "record"  # the mode of a recording
_FOLDER = os.path.dirname(os.path.abspath(sitecustomize.__file__))
_PACKAGE = __name__.partition(".")[0]


@dataclass(frozen=True)
class Inheritance:
    """A run, for its ranks: ``padiff-shim run`` writes it into the environment, and ``bootstrap/sitecustomize.py`` reads it.

    Attributes:
        mode, options, owed: the mode with its options, and those that come from settings, whatever a rank's working folder is.
        command: the command line of the run, for the header of a log.
        notes: the folder for the ranks' notes.
        inside: the values that make the process of the run itself a rank; [] if it is none.
        version, root, package, module: version, place and name of this library, and the module where ranks enter.
    """

    mode: str
    options: dict[str, Any]
    owed: dict[str, list[Any]]
    command: str
    notes: str
    inside: list[str]
    version: str = __version__
    root: str = str(Path(__file__).resolve().parents[2])
    package: str = _PACKAGE
    module: str = __name__

    @classmethod
    def of(cls, options: ModeOptions | RecordOptions, owed: Mapping[str, Setting], command: str, notes: str) -> Inheritance:
        """The run with these options of a mode, or of a recording."""
        if isinstance(options, RecordOptions):
            return cls(RECORD, {**asdict(options), "inside": True}, {}, command, notes, sitecustomize.rank())
        mode = next(name for name, kind in MODES.items() if type(options) is kind)
        values = {name: as_data(getattr(options, name)) for name in textual(MODES[mode])}
        settings = {name: [as_data(setting.value), setting.origin] for name, setting in owed.items()}
        return cls(mode, values, settings, command, notes, sitecustomize.rank())

    def export(self) -> None:
        """Write the run into this process's environment, for the processes that it starts."""
        withdraw()
        os.environ[RUN] = json.dumps(asdict(self))
        os.environ["PYTHONPATH"] = os.pathsep.join([_FOLDER, *filter(None, [os.environ.get("PYTHONPATH")])])

    @classmethod
    def taken(cls, data: Mapping[str, Any]) -> Inheritance:
        """The run that another process has exported.

        Raises:
            ArgumentError: that process has another version of this library.
        """
        if data.get("version") != __version__ or set(data) != {field.name for field in fields(cls)}:
            raise ArgumentError(
                "the run is one of padiff_shim {other}, and this rank has {version}",
                other=data.get("version"),
                version=__version__,
            )
        return cls(**data)

    def opened(self) -> Any:
        """The mode; imports Torch."""
        if self.mode == RECORD:
            return RecordOptions(**self.options).opened()
        from ..modes.opening import opened

        options = MODES[self.mode](**{name: from_data(value) for name, value in self.options.items()})
        return opened(options, {name: Setting(from_data(value), origin) for name, (value, origin) in self.owed.items()})


def withdraw() -> None:
    """Remove an exported run from this process's environment: later processes start natively."""
    os.environ.pop(RUN, None)
    path = os.environ.get("PYTHONPATH")
    if path is not None:
        rest = [place for place in path.split(os.pathsep) if place != _FOLDER]
        os.environ["PYTHONPATH"] = os.pathsep.join(rest)
        if not rest:
            del os.environ["PYTHONPATH"]


class Observer:
    """A mode around a whole program: opens ``make()`` after the import of Paddle (or of ``framework``), and passes its run to
    ``report`` at the end.

    It opens no earlier, so that devices, threads and flags that the program writes into ``os.environ`` have their usual effect.
    It ends after the program's threads and the ``atexit`` callbacks that it registered after ``import paddle``, and before Paddle
    shuts down. A mode that never opened reports None; a forked child reports nothing.
    """

    def __init__(self, make: Callable[[], Any], report: Callable[[Any], None], framework: str = "paddle") -> None:
        self._make, self._report, self._process = make, report, os.getpid()
        self._framework = framework
        self._mode: Any = None
        self._ended = False

    @property
    def run(self) -> Any:
        """The run of the open mode."""
        return self._mode.run

    def watch(self) -> None:
        """Wait for the import of the framework."""
        atexit.register(self.end)  # if it is never imported
        wrapt.register_post_import_hook(lambda _: self.begin(), self._framework)

    def begin(self) -> None:
        """Open the mode. If that fails, the process ends with a line that says why.

        Raises:
            SystemExit: the mode cannot be opened.
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
        """Close the mode and report. A second call does nothing."""
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
            except Exception:  # no error here may change the program's exit status
                traceback.print_exc()
        if getattr(sys, "last_type", None) is KeyboardInterrupt:
            # Let the interpreter end by SIGINT: it forgets that Ctrl-C ended the program as soon as source is executed (for a
            # dataclass that a report imports), and remembers it after source that Ctrl-C ends
            with contextlib.suppress(KeyboardInterrupt):
                exec("raise KeyboardInterrupt")

    def _close(self) -> None:
        if self._mode is not None:
            if (error := program.failure()) is not None:
                self.run.ended_by(error)
            self._mode.stop()

    def _say(self, error: PadiffShimError) -> None:
        print(f"padiff-shim: {error}", file=sys.stderr)


def watched(
    program: Callable[[], None],
    make: Callable[[], Any],
    report: Callable[[Any, list[str]], None],
    ranks: Ranks | None,
    framework: str = "paddle",
) -> Callable[[], int]:
    """A program within the mode that ``make`` gives, and the ranks that it starts.

    ``report`` gets the run at the end, and remarks on the ranks.
    """

    def ended(run: Any) -> None:
        report(*((run, []) if ranks is None else ranks.gathered(run)))

    def run() -> int:
        withdraw()  # of a run around this one
        if ranks is not None:
            ranks.export()
        Observer(make, ended, framework).watch()
        program()
        return 0

    return run


_LAUNCHER = "paddle.distributed.launch"


class Ranks:
    """The ranks of one run, in the process of ``padiff-shim run``: exports the run to them, and gathers their counts.

    Args:
        options, owed: the options of the mode, and those from settings. A comparison without ``log=`` gets a folder for all logs
            that lives as long as the run.
    """

    def __init__(self, options: ModeOptions | RecordOptions, owed: dict[str, Setting]) -> None:
        self._scratch = Scratch()
        self._folder = str(self._scratch.path)
        self._options, self._owed = options, owed
        self._spawned = False
        if isinstance(options, CompareOptions) and options.log is None:
            object.__setattr__(options, "log", Path(self._folder, "log"))

    def export(self) -> None:
        """Let the processes that this one starts enter the mode, if they are ranks."""
        atexit.register(self._scratch.close)  # logs in a folder that the user named stay
        Inheritance.of(self._options, self._owed, command(), self._folder).export()

        def look_out(_: Any) -> None:
            sitecustomize.after(sitecustomize.SPAWN, "_get_subprocess_env_list", self._spawns)
            sitecustomize.after(sitecustomize.SPAWN, "_set_trainer_env", self._forked)

        wrapt.register_post_import_hook(look_out, "paddle")

    def _spawns(self) -> None:
        self._spawned = True

    def _forked(self) -> None:
        """``spawn(start_method="fork")``: this is a rank, and a copy of the process of the run."""
        from ..modes.compare import rank

        withdraw()
        Note(rank(), os.getpid(), native="forked (start_method='fork'), and a mode steps aside in a fork").leave(self._folder)

    def gathered(self, own: Any) -> tuple[Any, list[str]]:
        """(The run of all ranks, with ``own`` if that counted something; remarks on the ranks)."""
        left = read_notes(self._folder)
        there = [note for note in left if not note.native]
        if isinstance(self._options, RecordOptions):
            return own, self._remarks(left, there)
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
        remarks = [tr("{ranks} took part" if len(there) > 1 else "{ranks} took part, alone", ranks=_listed(there))] if there else []
        for why in dict.fromkeys(note.native for note in left if note.native):
            remarks.append(
                tr(
                    "{listed} ran on Paddle's kernels: {why}",
                    listed=_listed([note for note in left if note.native == why]),
                    why=why,
                )
            )
        ended = [note for note in there if note.counted is None]
        if ended and not isinstance(self._options, (CompareOptions, RecordOptions)):  # the log of a comparison says so itself
            remarks.append(
                tr(
                    "{listed} did not come to an end: killed, or still running; what was counted on the way is added up",
                    listed=_listed(ended),
                )
            )
        main = getattr(sys.modules.get("__main__"), "__spec__", None)
        launches = main is not None and main.name.startswith(_LAUNCHER)  # of which some modules come with ``import paddle``
        if not left and (self._spawned or launches):
            remarks.append(
                tr(
                    "no rank took part: either none imported paddle, or their Python was started with -E, -I or -S, "
                    "or without this process's environment, and they ran on Paddle's kernels"
                )
            )
        return remarks


def _listed(there: list[Note]) -> str:
    ranks = list(dict.fromkeys(note.rank for note in there))
    return tr("ranks {ranks}" if len(ranks) > 1 else "rank {ranks}", ranks=", ".join(map(str, ranks)))


def _counted(own: Run | None, there: list[Note]) -> Run | None:
    """The counts of all ranks, added up; of a killed rank those that it had written before."""
    remarks, counted = [], []
    for note in there:
        counts = note.counted
        if counts is None and note.log:
            with contextlib.suppress(LogError):  # it was killed before it counted anything: its absence is told
                counts = reference_log.read(Path(note.log))
                remarks.append(reference_log.unfinished(Path(note.log), counts))
        counted += [] if counts is None else [counts]
    if own is not None and own.to_dict()["ops"]:
        counted.insert(0, own.to_dict())
    elif own is not None and own.file is not None:
        own.file.unlink(missing_ok=True)  # a launcher's, which computes nothing
    if not counted:
        return own
    total = Run(counted[0]["backend"], counted[0]["linear_layout"])
    for rank_counts in counted:
        total.add(rank_counts)
    for remark in filter(None, remarks):
        total.warn(remark)
    return total


# The entry of a rank: ``bootstrap/sitecustomize.py`` calls it after the rank has imported Paddle.


def enter(data: Mapping[str, Any]) -> None:
    """Open the mode in this process until it ends; it prints nothing, but leaves a note for the process of the run.

    Processes that the rank starts run natively, as under a ``with`` statement in its program.
    """
    from multiprocessing import util

    from ..modes.compare import rank

    withdraw()
    try:
        run, number = Inheritance.taken(data), rank()
    except PadiffShimError as error:
        print(f"padiff-shim: {error}", file=sys.stderr)
        raise SystemExit(UNUSABLE) from None
    note = Note(number, os.getpid())

    def left(ended: Any) -> None:
        note.counted = ended.to_dict()
        note.leave(run.notes)

    observer = Observer(lambda: _mode(run), left)
    observer.begin()
    program.leave_frames_out()
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
