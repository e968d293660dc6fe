"""What a run counted. Strings and numbers only; no framework, no tensors."""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..arguments import path as as_path
from ..errors import FileError
from ..files import try_folder, write
from ..present.document import Document
from ..present.result import Presented
from ..report import reference
from ..runlog import reading
from ..runlog.counts import ClockPlace, LayoutCost, Tallies, Tally, spent
from ..text import SENTENCE, shown

_EVERY = 0.1  # seconds between two writings of what is counted so far
_SHARE = 0.01  # of a run's time that they may take
_WRITING = threading.Lock()  # for whoever writes a log
_OPENING = threading.Lock()  # for whoever opens or closes a mode; a run is pickled


@dataclass
class Run(Presented):
    """The result of a mode: how many calls ran on which kernel, and why.

    ``print(run)`` shows a table, :meth:`to_html` and :meth:`to_markdown` write reports, :meth:`as_dict` gives plain data. The
    counters go on while the mode is open and while gradients flow through its calls.

    ``seconds``: how long the mode was open. ``profiles``: layer, line and time of every call are noted. ``folder``: where the run
    is kept when the mode closes. ``processes``: how many others were added up in it.
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
        if self.folder is not None:
            self.keep_in(self.folder)

    def keep_in(self, folder: str | os.PathLike[str]) -> None:
        """Keep the run in ``folder``, where it is now: the program may go elsewhere before the mode closes."""
        self._log = reading.path(reading.absolute(folder), self.rank)

    def opened(self, ticket: object) -> None:
        """The mode is open (once more)."""
        with _OPENING:
            if not self._openings:
                self._opened = time.perf_counter()
            self._openings[ticket] = None
        self.on_the_way()

    def on_the_way(self, *, backward: bool = False) -> None:
        """Keep what is counted so far, now and then: the process may be killed before the mode closes.

        ``backward``: one has ended. The first is kept at once, however soon it comes after what else was kept.
        """
        first = backward and not self._walked
        if self._log is None or os.getpid() != self._process or (time.perf_counter() < self._due and not first):
            return
        if not _WRITING.acquire(blocking=False):  # another thread is at it
            return
        begun = time.perf_counter()
        try:
            if self._openings:  # else it was closed meanwhile, and all is written
                reading.write(self._log, self.as_dict(), self.rank, ended=False)
        except reading.LogError:
            pass  # that there can be no log is said when the mode opens, and when it closes
        finally:
            self._walked |= backward
            self._due = begun + max(_EVERY, (time.perf_counter() - begun) / _SHARE)
            _WRITING.release()

    def closed(self, ticket: object) -> None:
        """One opening less; after the last one the log is written. May be called twice."""
        with _OPENING:
            if ticket in self._openings:
                if len(self._openings) == 1:
                    self.seconds, self._unwritten = self.seconds + time.perf_counter() - self._opened, True
                del self._openings[ticket]
        if self._unwritten and self._log is not None and os.getpid() == self._process:
            try:
                with _WRITING:
                    reading.write(self._log, self.as_dict(), self.rank, ended=True)
            except reading.LogError as error:
                self._unwritten = False
                self._warn_of_log(error, 4)
        self._unwritten = False

    def try_log(self) -> None:
        """Say before the hours of a training what else would be said after them: there can be no log."""
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
        """Where the run is kept when the mode closes; None without ``folder``."""
        return self._log

    def tally(self) -> Tally:
        """This thread's counters."""
        return self._tallies.here()

    def warn(self, message: str) -> None:
        """Keep a remark that the user should see once."""
        if message not in self.warnings:
            self.warnings.append(message)

    def add(self, data: Mapping[str, Any]) -> None:
        """Count what another process counted, as its :meth:`as_dict` says it; its remarks are kept, too."""
        self._tallies.keep(reading.counters(data))
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
        grouped: dict[str, dict[str, int]] = {}
        for (op, reason), calls in self._tallies.total("native").items():
            grouped.setdefault(op, {})[reason] = calls
        return grouped

    @property
    def without_kernel(self) -> dict[str, dict[str, int]]:
        """Op name -> {dtype: calls that this Paddle has no kernel for on the device}; most of them are :attr:`substituted`.

        Ops that move, choose or draw values, and have no Torch formula, ran on Paddle's kernel in float32.
        """
        grouped: dict[str, dict[str, int]] = {}
        for (op, dtype), calls in self._tallies.total("lacking").items():
            grouped.setdefault(op, {})[dtype] = calls
        return grouped

    @property
    def optimizers(self) -> dict[str, dict[str, int]]:
        """Optimizer or clipper -> {whose definition was computed with Torch, ``"paddle"`` or ``"torch"``: updates}."""
        grouped: dict[str, dict[str, int]] = {}
        for (name, definition), calls in self._tallies.total("definitions").items():
            grouped.setdefault(name, {})[definition] = calls
        return grouped

    def as_dict(self) -> dict[str, Any]:
        """Everything counted, as JSON-ready data.

        ``{"backend", "linear_layout", "environment", "command", "layout_cost", "warnings",
        "optimizers": {name: {definition: updates}},
        "ops": {op: {"substituted": calls, "backward": calls, "native": {reason: calls}, "integers": calls,
        "without_kernel": {dtype: calls}}},
        "lines": [{"op", "reason", "layer", "site", "calls"}], "profile": None or {"seconds", "threads", "processes",
        "places": [{"part", "op", "layer", "site", "calls", "seconds"}]}}``

        ``integers``: of the substituted calls those with an integer result, where there are any; they are no float calls, nor are
        native ones of integers or without elements. ``without_kernel``, where there are any: see :attr:`without_kernel`.
        ``lines``: where calls stayed native; of each op and reason the first 256 calls are looked at (all with ``profile=True``).
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

    def document(self) -> Document:
        """Coverage, where the time went, what stayed native, layers, lines and ops."""
        return reference.document(self)

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write one self-contained page, in a folder that is made if need be; returns its path.

        Raises:
            FileError: it cannot be written.
        """
        return write(as_path("path", path), self.page(), "the page ")

    def __repr__(self) -> str:
        calls, native = sum(self.substituted.values()), sum(self._tallies.total("native").values())
        return f"<padiff_shim.Run backend={self.backend!r} substituted={calls} native={native}>"
