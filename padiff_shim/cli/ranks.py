"""The ranks of a program under ``padiff-shim run``: what they inherit, how each enters its mode, what they leave for the run."""

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
from ..runs.compare_run import command
from ..runs.run import Run
from .bootstrap import sitecustomize
from .main import UNUSABLE
from .recorded import RecordOptions

if TYPE_CHECKING:
    from ..runs.compare_run import CompareRun


# ---- What ranks leave for the process of ``padiff-shim run``: one small file each, in a folder that lives as long as the
# run.


@dataclass
class Note:
    """One rank's word.

    Attributes:
        rank, pid: whose it is.
        log: the file of its log, or nothing.
        counted: what its run counted (``run.as_dict()``) when it had ended; None before.
        native: why the rank is not in the mode; nothing if it is.
    """

    rank: int
    pid: int
    log: str = ""
    counted: dict[str, Any] | None = None
    native: str = ""

    def leave(self, folder: str) -> None:
        """Write it, in place of what this rank has left before: whole, or not at all."""
        os.makedirs(folder, mode=0o700, exist_ok=True)
        replace(os.path.join(folder, f"{self.pid}.json"), json.dumps(asdict(self)))


def found(folder: str) -> list[Note]:
    """All notes, by rank."""
    notes = [Note(**json.loads(path.read_text(encoding="utf-8"))) for path in Path(folder).glob("[0-9]*.json")]
    return sorted(notes, key=lambda one: (one.rank, one.pid))


# ---- What a rank inherits of its run: ``padiff-shim run`` writes it into the environment, and
# read it (``bootstrap/sitecustomize.py``).

RECORD = "record"  # the mode of a recording
_FOLDER = os.path.dirname(os.path.abspath(sitecustomize.__file__))
_PACKAGE = __name__.partition(".")[0]


@dataclass(frozen=True)
class Inheritance:
    """A run, for its ranks.

    Attributes:
        mode, options, owed: the mode with its options, and what of them was taken from settings: in whichever folder a rank stands.
        command: what the run was started with, for the header of a log.
        notes: the folder where ranks leave word of themselves (:class:`Note`).
        inside: what makes the process of the run itself a rank; nothing if it is none.
        version, root, package, module: of this library, and where ranks enter.
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
    module: str = f"{__package__}.rank"

    @classmethod
    def of(cls, options: ModeOptions | RecordOptions, owed: Mapping[str, Setting], command: str, notes: str) -> Inheritance:
        """The run with these options of a mode, or of a recording."""
        if isinstance(options, RecordOptions):
            return cls(RECORD, {**asdict(options), "inside": True}, {}, command, notes, sitecustomize.rank())
        mode = next(name for name, kind in MODES.items() if type(options) is kind)
        held = {name: as_data(getattr(options, name)) for name in textual(MODES[mode])}
        settings = {name: [as_data(one.value), one.origin] for name, one in owed.items()}
        return cls(mode, held, settings, command, notes, sitecustomize.rank())

    def export(self) -> None:
        """Put it into this process's environment, for those that it starts."""
        withdraw()
        os.environ[RUN] = json.dumps(asdict(self))
        os.environ["PYTHONPATH"] = os.pathsep.join([_FOLDER, *filter(None, [os.environ.get("PYTHONPATH")])])

    @classmethod
    def taken(cls, data: Mapping[str, Any]) -> Inheritance:
        """What another process exported.

        Raises:
            ArgumentError: another version of this library did.
        """
        if data.get("version") != __version__ or set(data) != {one.name for one in fields(cls)}:
            raise ArgumentError(f"the run is one of padiff_shim {data.get('version')}, and this rank has {__version__}")
        return cls(**data)

    def opened(self) -> Any:
        """The mode; imports Torch."""
        if self.mode == RECORD:
            return RecordOptions(**self.options).opened()
        from ..modes.opening import opened

        options = MODES[self.mode](**{name: from_data(value) for name, value in self.options.items()})
        return opened(options, {name: Setting(from_data(value), origin) for name, (value, origin) in self.owed.items()})


def withdraw() -> None:
    """Take what a run exported out of this process's environment: what it starts from now on is started natively."""
    os.environ.pop(RUN, None)
    path = os.environ.get("PYTHONPATH")
    if path is not None:
        rest = [place for place in path.split(os.pathsep) if place != _FOLDER]
        os.environ["PYTHONPATH"] = os.pathsep.join(rest)
        if not rest:
            del os.environ["PYTHONPATH"]


# ---- A mode around a whole program: open as soon as the program has imported Paddle, closed when it ends, however it ends.
#
# Not before Paddle is there: what a program writes into ``os.environ`` first (devices, threads, flags) has to count as without
# us.


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


# ---- The ranks that a program starts, for the process of ``padiff-shim run``: told of the run before, asked what they found
# after.

_LAUNCHER = "paddle.distributed.launch"


class Ranks:
    """The ranks of one run.

    Args:
        options, owed: of the mode. A comparison without ``log=`` gets a folder that lives as long as the run: all logs in one.
    """

    def __init__(self, options: ModeOptions | RecordOptions, owed: dict[str, Setting]) -> None:
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
        left = found(self._folder)
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
        told = [f"{_listed(there)} took part" + ("" if len(there) > 1 else ", alone")] if there else []
        for why in dict.fromkeys(note.native for note in left if note.native):
            told.append(f"{_listed([note for note in left if note.native == why])} ran on Paddle's kernels: {why}")
        ended = [note for note in there if note.counted is None]
        if ended and not isinstance(self._options, (CompareOptions, RecordOptions)):  # of a comparison its log tells
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
            with contextlib.suppress(LogError):  # it was killed before it counted anything: its absence is told
                found = reference_log.read(Path(note.log))
                remarks.append(reference_log.unfinished(Path(note.log), found))
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
