"""The run of a reference mode: what it counted. Strings and numbers only; no framework, no tensors."""

from __future__ import annotations

import os
import shlex
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import notebook
from ..errors import FileError
from ..files import try_folder
from ..present.annotations import Finding
from ..present.document import Document, version_words
from ..present.result import Presented
from ..report import reference
from ..runlog import reference_log
from ..runlog.compare_logs import absolute
from ..runlog.counts import ClockPlace, LayoutCost, Tallies, Tally, spent
from ..runlog.reader import LogError
from ..runlog.writer import now
from ..text import SENTENCE, shown, tr

_EVERY = 0.1  # seconds between two writings of the counts so far
_SHARE = 0.01  # of a run's time that they may take
_WRITING = threading.Lock()  # for writing a log
_OPENING = threading.Lock()  # for opening or closing a mode; not a field, since a run is pickled


@dataclass(repr=False)
class Run(Presented):
    """The result of a mode: how many calls ran on which kernel, and why.

    True in a condition if every float call ran on the backend's kernels. ``print(run)`` shows a table. The counters go on while the
    mode is open and while gradients flow through its calls.

    Attributes:
        backend: whose kernels answer, ``"torch"``.
        linear_layout: how weights of Linear are laid out for them.
        environment: versions and the device, by name.
        warnings: remarks that the user should see.
        layout_cost: number, bytes and seconds of the copies of Linear weights.
        command: what the process was started with.
        rank: of the process, 0 if it is the only one.
        folder: where the run is written when the mode closes; None: nowhere.
        profiles: layer, line and time of every call are measured.
        seconds: how long the mode was open.
        processes: how many other processes were added up in this run.

    >>> import paddle, padiff_shim
    >>> with padiff_shim.reference("torch") as run:
    ...     _ = paddle.exp(paddle.zeros([2]))
    >>> run.substituted, run.native
    ({'exp': 1}, {})
    """

    backend: str
    linear_layout: str
    environment: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    layout_cost: LayoutCost = field(default_factory=LayoutCost)
    command: str = ""
    rank: int = 0
    folder: str | os.PathLike[str] | None = None
    profiles: bool = False
    seconds: float = 0.0
    processes: int = 0
    _tallies: Tallies = field(default_factory=Tallies, repr=False)

    def __post_init__(self) -> None:
        self._openings: dict[object, None] = {}
        self._opened, self._unwritten, self._due, self._walked = 0.0, False, 0.0, False
        self._process = os.getpid()
        self._log: Path | None = None
        self._started = now()
        if self.folder is not None:
            self.keep_in(self.folder)

    def keep_in(self, folder: str | os.PathLike[str]) -> None:
        """Write the run into ``folder`` when the mode closes; a relative path is one of the working directory of now."""
        self._log = reference_log.new_path(absolute(folder), self.rank)

    def opened(self, ticket: object) -> None:
        """The mode was opened (once more)."""
        with _OPENING:
            if not self._openings:
                self._opened = time.perf_counter()
            self._openings[ticket] = None
        self.on_the_way()

    def ended_by(self, error: BaseException) -> None:
        """The program ended with ``error``, or left the mode with it: what a reference run counted is true of what ran."""

    def on_the_way(self, *, backward: bool = False) -> None:
        """Write the counts so far, now and then: the process may be killed before the mode closes.

        ``backward``: one has ended. After the first one the counts are written at once.
        """
        first = backward and not self._walked
        if self._log is None or os.getpid() != self._process or (time.perf_counter() < self._due and not first):
            return
        if not _WRITING.acquire(blocking=False):  # another thread is writing
            return
        begun = time.perf_counter()
        try:
            if self._openings:  # else it was closed meanwhile, and all is written
                reference_log.write(self._log, self.to_dict(), self.rank, self._started, ended=False)
        except LogError:
            pass  # the user is warned when the mode opens and when it closes
        finally:
            self._walked |= backward
            self._due = begun + max(_EVERY, (time.perf_counter() - begun) / _SHARE)
            _WRITING.release()

    def closed(self, ticket: object) -> None:
        """The mode was closed; when no opening remains, the log is written. May be called twice."""
        with _OPENING:
            if ticket in self._openings:
                if len(self._openings) == 1:
                    self.seconds, self._unwritten = self.seconds + time.perf_counter() - self._opened, True
                del self._openings[ticket]
        if self._unwritten and self._log is not None and os.getpid() == self._process:
            try:
                with _WRITING:
                    reference_log.write(self._log, self.to_dict(), self.rank, self._started, ended=True)
            except LogError as error:
                self._unwritten = False
                self._warn_of_log(error, 4)
        self._unwritten = False

    def try_log(self) -> None:
        """Warn before a long training, rather than after it, if the log cannot be written."""
        if self._log is not None:
            try:
                try_folder(self._log.parent, "the log ")
            except FileError as error:
                self._warn_of_log(error, 6)

    def _warn_of_log(self, error: FileError, stacklevel: int) -> None:
        self.warn(str(error))
        warnings.warn(str(error), RuntimeWarning, stacklevel=stacklevel)

    @property
    def file(self) -> Path | None:
        """The file that the run is written to when the mode closes; None without ``folder``."""
        return self._log

    def tally(self) -> Tally:
        """This thread's counters."""
        return self._tallies.here()

    def warn(self, message: str) -> None:
        """Add a remark that the user should see once."""
        if message not in self.warnings:
            self.warnings.append(message)

    def add(self, data: Mapping[str, Any]) -> None:
        """Add the counts of another process, its :meth:`to_dict`, and its remarks."""
        self._tallies.keep(reference_log.counters(data))
        profile = data.get("profile") or {}
        self.layout_cost.add(data.get("layout_cost") or {})
        self.environment = {**(data.get("environment") or {}), **self.environment}
        self.command = self.command or data.get("command") or ""
        self.profiles = self.profiles or bool(profile)
        self.seconds += spent(profile)
        self.processes += profile.get("processes") or 1
        for remark in data.get("warnings") or ():
            self.warn(remark)

    @property
    def substituted(self) -> dict[str, int]:
        """Op name -> forward calls that ran on the reference kernel."""
        return dict(self._tallies.total("substituted"))

    @property
    def backward(self) -> dict[str, int]:
        """Op name -> backward calls that ran on the reference kernel."""
        return dict(self._tallies.total("backward"))

    @property
    def native(self) -> dict[str, dict[str, int]]:
        """Op name -> {reason: calls that stayed on Paddle's kernel}."""
        return grouped(self._tallies.total("native"))

    @property
    def without_kernel(self) -> dict[str, dict[str, int]]:
        """Op name -> {dtype: calls without a kernel of this Paddle on the device}; most of them are :attr:`substituted`.

        Ops that move, choose or draw values and have no Torch formula ran on Paddle's kernel in float32.
        """
        return grouped(self._tallies.total("lacking"))

    @property
    def optimizers(self) -> dict[str, dict[str, int]]:
        """Optimizer or clipper -> {whose definition was computed with Torch, ``"paddle"`` or ``"torch"``: updates}."""
        return grouped(self._tallies.total("definitions"))

    def to_dict(self) -> dict[str, Any]:
        """All counts, as JSON-ready data.

        ``{"backend", "linear_layout", "environment", "command", "layout_cost", "warnings",
        "optimizers": {name: {definition: updates}},
        "ops": {op: {"substituted": calls, "backward": calls, "native": {reason: calls}, "integers": calls,
        "without_kernel": {dtype: calls}}},
        "lines": [{"op", "reason", "layer", "site", "calls"}], "profile": None or {"seconds", "threads", "processes",
        "places": [{"part", "op", "layer", "site", "calls", "seconds"}]}}``

        ``integers``: substituted calls with an integer result, where there are any; they are no float calls, nor are native ones of
        integers or without elements. ``without_kernel``, where there are any: see :attr:`without_kernel`. ``lines``: where calls
        stayed native; the first 256 calls of each op and reason are looked at (all with ``profile=True``). Times are in seconds.
        """
        substituted, backward, native = self.substituted, self.backward, self.native
        integers = self._tallies.total("integers")
        without_kernel = self.without_kernel
        names = sorted({*substituted, *backward, *native, *without_kernel})
        return {
            "backend": self.backend,
            "linear_layout": self.linear_layout,
            "environment": dict(self.environment),
            "command": self.command,
            "layout_cost": vars(self.layout_cost).copy(),
            "warnings": list(self.warnings),
            "optimizers": self.optimizers,
            "ops": {
                name: {
                    "substituted": substituted.get(name, 0),
                    "backward": backward.get(name, 0),
                    "native": native.get(name, {}),
                    **({"integers": integers[name]} if integers[name] else {}),
                    **({"without_kernel": without_kernel[name]} if name in without_kernel else {}),
                }
                for name in names
            },
            "lines": [
                {"op": op, "reason": reason, "layer": layer, "site": shown(site, SENTENCE), "calls": calls}
                for (op, reason, layer, site), calls in self._tallies.total("lines").most_common()
            ],
            "profile": self._profile(),
        }

    def _profile(self) -> dict[str, Any] | None:
        """Calls and times of all places, the longest first."""
        clocks = self._tallies.clocks()
        if not (self.profiles or clocks):
            return None
        seconds: Counter[ClockPlace] = Counter()
        calls: Counter[ClockPlace] = Counter()
        for clock in clocks:
            seconds.update(dict(clock.seconds))  # copies: other threads count on
            calls.update(dict(clock.calls))
        open_for = time.perf_counter() - self._opened if self._openings else 0.0
        return {
            "seconds": round(self.seconds + open_for, 6),
            "threads": len(clocks),
            "processes": max(1, self.processes),
            "places": [
                {**place._asdict(), "site": shown(place.site, SENTENCE), "calls": calls[place], "seconds": round(spent, 9)}
                for place, spent in seconds.most_common()
            ],
        }

    def __bool__(self) -> bool:
        return bool(reference.ReferenceFigures(self.to_dict()))

    @property
    def answer(self) -> str:
        """How much ran on the reference's kernels, and what did not."""
        return reference.ReferenceFigures(self.to_dict()).headline()

    def _shorter(self) -> Iterator[str]:
        return reference.ReferenceFigures(self.to_dict()).shorter()

    @property
    def findings(self) -> list[Finding]:
        """What stayed on Paddle's kernels, the commonest calls of an op and reason first."""
        return reference.ReferenceFigures(self.to_dict()).findings()

    def _versions(self) -> str:
        versions = version_words(self.environment)
        return tr("Paddle's calls on {backend}'s kernels ({versions})", backend=shown(self.backend), versions=versions)

    def content(self) -> Document:
        """Coverage, where the time went, what stayed native, layers, lines and ops."""
        return reference.document(reference.ReferenceFigures(self.to_dict()))


def grouped(counts: Mapping[tuple[str, str], int]) -> dict[str, dict[str, int]]:
    """Counts of pairs by the first and then the second of each."""
    groups: dict[str, dict[str, int]] = {}
    for (first, second), count in counts.items():
        groups.setdefault(first, {})[second] = count
    return groups


def command() -> str:
    """The command line of this process, quoted for a shell; "" in an interactive session and in a notebook."""
    if not getattr(sys, "argv", None) or not sys.argv[0] or notebook.running():
        return ""
    started = getattr(sys, "orig_argv", None) or [sys.executable or "python", *sys.argv]
    return shlex.join([os.path.basename(started[0]), *started[1:]])
