"""A mode that can be opened and closed, in any order, nested, from several threads."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

from ..dispatch import frames
from ..errors import ModeError
from ..finishing import finish
from ..runs.run import Run
from ..text import many
from .decorate import decorate
from .environment import prepare


class Mode:
    """A mode that can be opened: ``with mode as run:``, ``@mode``, or ``mode.start()`` / ``mode.stop()``.

    It may be opened again, nested and from several threads; all openings count into the same :attr:`run`. A mode that is dropped
    without ever having been opened warns of it: nothing ran inside it.
    """

    _used = True  # opened once, or decorating something; until all is set up, nothing is to be said

    def __init__(self, run: Run, enabled: frozenset[str], layers: Any, plan: Any, *, strict: bool, all_threads: bool) -> None:
        self.run = run
        self._enabled, self._layers, self._plan, self._strict, self._all_threads = enabled, layers, plan, strict, all_threads
        self._tracks_layers = layers is not None or plan.tracks_layers
        self._frames: list[frames.Frame] = []
        self._used = False

    _door = "reference"  # by which function of ours it is opened

    def __repr__(self) -> str:
        number = len(self._frames)
        state = f"open ({many(number, 'time')})"
        how = f"not open: use `with padiff_shim.{self._door}({self.run.backend!r}) as run:`, or call start()"
        return f"<padiff_shim.{type(self).__name__} {state if number else how}>"

    def __getattr__(self, name: str) -> Any:
        run = self.__dict__.get("run")
        if run is None or name.startswith("_") or not (hasattr(type(run), name) or name in vars(run)):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        never = "" if self._used else ", and the mode was never opened: nothing was counted"
        opening = f"`with padiff_shim.{self._door}({run.backend!r}) as run:`"
        raise ModeError(f"{name!r} belongs to the run, not to the mode{never}. {opening} gives the run, and mode.run holds it")

    def __del__(self) -> None:
        if not self._used:
            door = f"padiff_shim.{self._door}({self.run.backend!r})"
            warnings.warn(f"a mode of {door} was never opened: use `with {door} as run:`", RuntimeWarning, stacklevel=2)

    def start(self) -> Run:
        """Open the mode here; returns the run that counts."""
        self._used = True
        self.run.environment.update(prepare())
        from ..frameworks.surroundings import put_aside

        frame = frames.Frame(
            self.run,
            self._enabled,
            strict=self._strict,
            linear_layout=self.run.linear_layout,
            layers=self._layers,
            plan=self._plan,
        )
        try:
            with put_aside():
                self._open(frame)
        except BaseException:
            finish(self._steps(frame))
            raise
        return self.run

    def _open(self, frame: frames.Frame) -> None:
        """Everything that :meth:`_steps` undoes."""
        from ..intercept import amp, doors

        self._say(doors.OPS.acquire(frame.ticket))
        self._say(amp.entered_before(frame))
        if self._tracks_layers:
            self._say(doors.LAYERS.acquire(frame.ticket))
        self._frames.append(frame)
        self.run.opened(frame.ticket)
        self._mark_sole()
        frames.push(frame, all_threads=self._all_threads)

    def stop(self) -> None:
        """Close the latest opening of this mode. A Ctrl-C is raised when it is closed."""
        self.__exit__()

    def __exit__(self, *_: object) -> None:
        # Not by way of another method, at whose beginning a Ctrl-C may come, too.
        steps: list[Callable[[], Any]] | None = None
        try:
            steps = self._closing()
            finish(steps)
        except ModeError:
            raise
        except BaseException:
            finish(self._closing() if steps is None else steps)
            raise

    def _closing(self) -> list[Callable[[], Any]]:
        frame = frames.innermost_of(self._frames) or (self._frames[-1] if self._frames else None)
        if frame is None:
            raise ModeError("this mode is not open")
        return self._steps(frame)

    def _steps(self, frame: frames.Frame) -> list[Callable[[], Any]]:
        """What closes an opening, also one that was not opened wholly; each step may be made twice."""
        from ..intercept import doors

        return [
            functools.partial(frames.remove, frame),
            functools.partial(self._forget, frame),
            lambda: self._say(doors.LAYERS.release(frame.ticket)),
            self._say_unmatched,
            lambda: self._say(doors.OPS.release(frame.ticket)),
            functools.partial(self.run.closed, frame.ticket),
        ]

    def _forget(self, frame: frames.Frame) -> None:
        self._frames = [other for other in self._frames if other is not frame]
        self._mark_sole()

    def _say_unmatched(self) -> None:
        if self._layers is not None:
            self._say([f"layers={pattern!r} matched no layer that ran" for pattern in sorted(self._layers.unmatched)])

    def _say(self, remarks: list[str]) -> None:
        for remark in remarks:
            self.run.warn(remark)

    def _mark_sole(self) -> None:
        for frame in self._frames:
            frame.sole = len(self._frames) == 1 and not self._all_threads
            frame.idle = frame.idle and frame.sole

    def __enter__(self) -> Run:
        return self.start()

    def __call__(self, function: Callable[..., Any]) -> Any:
        """Decorate a function, method, generator function or coroutine function: the mode is open while its code runs."""
        self._used = True
        return decorate(self, function)
