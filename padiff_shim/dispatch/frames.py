"""The stack of open modes, as each thread (and each asyncio task) sees it.

A mode belongs to the context that opened it: other threads see it only if it was opened with ``all_threads=True``. Frames are
removed by identity, so that modes may close in any order.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

from ..patterns import LayerFilter
from ..runlog.counts import CallCounter, Tally
from ..table.reasons import FORKED, Reason
from ..text import logged


class Frame:
    """One opened mode as one thread sees it; the hot path reads nothing else."""

    __slots__ = (
        "__weakref__",
        "aside",
        "eager",
        "enabled",
        "hooks",
        "idle",
        "layers",
        "linear_layout",
        "observes",
        "open",
        "plan",
        "quick",
        "run",
        "sole",
        "strict",
        "tally",
        "thread",
        "ticket",
    )

    def __init__(
        self,
        run: CallCounter,
        enabled: frozenset[str],
        *,
        plan: Any,
        strict: bool = False,
        linear_layout: str = "contiguous",
        eager: bool = False,
        layers: LayerFilter | None = None,
        observes: bool = False,
    ) -> None:
        self.run = run
        self.plan = plan  # what is done with calls: a plan.Plan
        self.quick: dict[
            Any, Callable[[Frame, tuple[Any, ...]], Any]
        ] = {}  # entry point -> what it tries first: see EntryPoint.hook
        self.enabled = enabled
        self.strict = strict
        self.linear_layout = linear_layout
        self.eager = eager  # functions of to_static run op by op
        self.layers = layers  # what layers= takes, or None
        self.open = True
        self.observes = observes  # looks on while the mode below it goes on, whichever was opened first
        self.sole = False  # whether this is the only opening of its mode, in one thread
        self.idle = False  # calls pass by, uncounted: the budget of a comparison is used up
        self.hooks: Any = None  # what takes the hooks away meanwhile (rest, wake), if anything
        self.aside: Reason | None = FORKED if forked else None  # every call runs natively, for this reason
        self.tally: Tally = run.tally()
        self.thread: int | None = threading.get_ident()  # which opens it; None: a warning named another thread
        self.ticket = object()  # with which the redirections are held, and which holds nothing of a run
        _frames.add(self)

    def twin(self) -> Frame:
        """The same mode for another thread."""
        return Frame(
            self.run,
            self.enabled,
            strict=self.strict,
            linear_layout=self.linear_layout,
            eager=self.eager,
            layers=self.layers,
            plan=self.plan,
        )


_STACK: ContextVar[tuple[Frame, ...]] = ContextVar("padiff_shim_modes", default=())
_shared: dict[Frame, dict[int, Frame]] = {}  # frames opened for all threads -> {thread id: twin}
_frames: weakref.WeakSet[Frame] = weakref.WeakSet()  # all that live, of any thread and task
_open: dict[int, weakref.ref[Frame]] = {}  # those that are open in a thread or task
_strangers: set[int] = set()  # threads that the open modes have already warned of: see passed_by
forked = False  # whether this process is a fork of one that imported this module


class _Pause(Frame):
    """A frame that hides the ones below it."""

    def __init__(self) -> None:
        self.open = self.observes = False


PAUSE = _Pause()

# For what hides the modes itself, and has to show them again whatever comes: functions in C, in whose stead no Ctrl-C comes.
standing: Callable[[], tuple[Frame, ...]] = _STACK.get
stand: Callable[[tuple[Frame, ...]], Any] = _STACK.set


def top() -> Frame | None:
    """The innermost open mode here, or None."""
    stack = _STACK.get()
    if stack:
        frame = stack[-1]
        if frame.open:
            return frame
        if frame is PAUSE:
            return None
        # It was closed from another context (a generator finalised elsewhere): it is dropped here too.
        _STACK.set(tuple(frame for frame in stack if frame.open or frame is PAUSE))
        return top()
    return _top_shared() if _shared else None


def below() -> Frame | None:
    """The innermost open mode here that does not look on itself: what an observer's calls are handed to."""
    for frame in reversed(_STACK.get()):
        if frame is PAUSE:
            return None
        if frame.open and not frame.observes:
            return frame
    return _top_shared() if _shared else None


def _top_shared() -> Frame | None:
    for frame, twins in reversed(list(_shared.items())):  # a list: another thread may open or close a mode meanwhile
        return twins.get(threading.get_ident()) or twins.setdefault(threading.get_ident(), frame.twin())
    return None


def push(frame: Frame, *, all_threads: bool) -> None:
    """Open ``frame`` here, below those that look on, and for the threads without a mode of their own if ``all_threads``."""
    stack = _STACK.get()
    place = len(stack)
    while not frame.observes and place and stack[place - 1].observes:
        place -= 1
    _STACK.set((*stack[:place], frame, *stack[place:]))
    _open[id(frame)] = weakref.ref(frame)
    _strangers.clear()
    if all_threads:
        _shared[frame] = {}


def passed_by() -> None:
    """A float op is about to run natively, for no mode is open here. Where one is in another thread, its run says so, once."""
    here = threading.get_ident()
    if here in _strangers or _STACK.get():
        return
    _strangers.add(here)
    for frame in [reference() for reference in list(_open.values())]:
        if frame is not None and frame.open and frame.thread not in (here, None):
            frame.thread = None  # one thread stands for all
            name = threading.current_thread().name
            frame.run.warn(
                logged(
                    "thread {name} ran natively: a mode is of the thread that opened it, unless all_threads=True (--all-threads)",
                    name=repr(name),
                )
            )


def innermost_of(frames: Sequence[Frame]) -> Frame | None:
    """The innermost of ``frames`` that was opened in this context."""
    return next((frame for frame in reversed(_STACK.get()) if frame in frames), None)


def remove(frame: Frame) -> None:
    """Close ``frame``, wherever in the stack it is; may be done twice."""
    frame.open = False
    _open.pop(id(frame), None)
    for twin in list(_shared.get(frame, {}).values()):
        twin.open = False
    for twin in _shared.pop(frame, {}).values():  # one that came meanwhile
        twin.open = False
    _STACK.set(tuple(other for other in _STACK.get() if other is not frame))


class paused:
    """No mode is open inside: what an intercepted Python function calls further down is not matched again."""

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        self._before = _STACK.get()
        try:
            _STACK.set((*self._before, PAUSE))
        except BaseException:  # a Ctrl-C behind it
            _STACK.set(self._before)
            raise

    def __exit__(self, *_: object) -> None:
        _STACK.set(self._before)


def _step_aside_in_child() -> None:
    global forked
    forked = True
    for frame in tuple(_frames):
        frame.aside = FORKED
        frame.quick = {}
    _shared.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_step_aside_in_child)
