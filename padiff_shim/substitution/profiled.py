"""Reference mode that notes of each call its layer, its line and its time (``reference(profile=True)``)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..dispatch import frames, site
from ..dispatch.door import Door
from ..dispatch.frames import Frame
from ..dispatch.plan import Unlisted
from ..records.clock import ENGINES, MOVES, NATIVE, OPTIMIZER, REFERENCE, Clock, Place
from ..records.tally import rounds
from ..table.reasons import StayNative
from .plan import Substituting


@contextmanager
def _measured(frame: Frame, part: str, op: str) -> Iterator[None]:
    """What runs inside is a call; one that raises (a call that has to stay native) took time and is none."""
    clock = _clock(frame)
    clock.begin(Place(part, op, site.layer_path(), site.call_site()))
    done = False
    try:
        yield
        done = True
    finally:
        clock.end(counts=done)


def _clock(frame: Frame) -> Clock:
    if frame.tally.clock is None:
        frame.tally.clock = Clock()
    return frame.tally.clock


class Profiled(Substituting):
    """The plan of reference mode with a clock in it. No call takes the short way past the plan."""

    tracks_layers, hurries, looks = True, False, math.inf

    def call(self, door: Door, frame: Frame, values: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Torch's kernel."""
        with _measured(frame, REFERENCE, door.op.name):
            return super().call(door, frame, values, args, kwargs)

    def native(self, door: Door, frame: Frame, why: StayNative, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Paddle's kernel; where nothing is rounded it is no float call."""
        with _measured(frame, NATIVE if rounds(why.reason) else MOVES, door.op.name):
            return super().native(door, frame, why, args, kwargs)

    def unlisted(self, other: Unlisted, frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The same for an op without reference."""
        with _measured(frame, NATIVE if rounds(other.reason.text) else MOVES, other.name):
            return super().unlisted(other, frame, args, kwargs)

    def update(self, other: Unlisted, frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An optimizer's update."""
        with _measured(frame, OPTIMIZER, other.name.rstrip("_")):
            return super().update(other, frame, args, kwargs)

    def optimizing(
        self, part: str, original: Callable[..., Any], frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """A step's parts: what its updates leave of the time."""
        if part == "Optimizer.step":  # none is made as the last one
            return original(*args, **kwargs)
        kind, _, function = part.partition(".")
        with _measured(frame, OPTIMIZER, function if kind == "utils" else kind):
            return super().optimizing(part, original, frame, args, kwargs)

    def exact(self, name: str, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What moves values. It is asked without a frame, and measured inside of the calls of a mode alone."""
        frame = frames.below()
        if frame is None:
            return super().exact(name, original, args, kwargs)
        with _measured(frame, MOVES, name):
            return super().exact(name, original, args, kwargs)

    def backward_begins(self, frame: Frame) -> None:
        """Both engines; the nodes of calls take the time over (:meth:`Clock.passing`)."""
        _clock(frame).begin(ENGINES)

    def backward_ends(self, frame: Frame) -> None:
        """Whatever call had it last."""
        _clock(frame).end()
        super().backward_ends(frame)
