"""Installs and undoes every redirection, counted for nesting.

The points are built once per process; entering a mode afterwards is one pointer write per point. A place is in one of three states:
Paddle's own, ours, or somebody else's. Ours is only ever written over Paddle's own, and Paddle's own only over ours, so that what a
user or another tool put there is called, stays, and is reported.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol

ABSENT = object()


class Point(Protocol):
    """A place that can be redirected and restored exactly."""

    path: str
    cheap: bool  # few enough, and likely enough to be changed, that each opening and closing looks at it
    rests: bool  # may be taken away for a while between two calls: see Patcher.rest

    def install(self) -> bool:
        """Redirect it; False if somebody else's is there, which is left."""

    def uninstall(self) -> bool:
        """Restore it; False if somebody else's is there, which is left."""

    def ours(self) -> bool:
        """Whether calls come to our hook now."""

    def found(self) -> str:
        """What is there now, in words."""


class Redirection:
    """A place whose state can be read and written: what :class:`Point` asks for, on top of that."""

    path: str
    cheap = rests = True
    together: Callable[[Sequence[Any]], Any] | None = None  # how many of its kind are switched in one go
    native: Any  # the state that Paddle made
    hooked: Any = ABSENT  # ours

    def read(self) -> Any:
        """The state that the place is in."""
        raise NotImplementedError

    def write(self, state: Any) -> None:
        """Put it into this state."""
        raise NotImplementedError

    def is_state(self, now: Any, state: Any) -> bool:
        """Whether two states are the same."""
        return now is state

    def describe(self, state: Any) -> str:
        """A state of somebody else's, in words."""
        return describe(state)

    @property
    def installed(self) -> bool:
        """Whether the place is in another state than Paddle's own."""
        return not self.is_state(self.read(), self.native)

    def ours(self) -> bool:
        """Whether calls come to our hook now."""
        return self.is_state(self.read(), self.hooked)

    def install(self) -> bool:
        """Redirect it; False if somebody else's is there, which is left."""
        now = self.read()
        if self.is_state(now, self.native):
            self.write(self.hooked)
            return True
        return self.is_state(now, self.hooked)  # somebody put our own hook back, after it was saved in a mode

    def uninstall(self) -> bool:
        """Restore it; False if somebody else's is there, which is left."""
        now = self.read()
        if self.is_state(now, self.hooked):
            self.write(self.native)
            return True
        return self.is_state(now, self.native)

    def found(self) -> str:
        """What is there now, in words."""
        now = self.read()
        if self.is_state(now, self.native):
            return "Paddle's own again, put back while a mode was open"
        return self.describe(now)


def describe(value: Any) -> str:
    """A function or whatever stands in its place, by name."""
    if value is ABSENT:
        return "deleted"
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    if name is None:
        return f"an object of type {type(value).__name__}"
    module = getattr(value, "__module__", None)
    return f"{module}.{name}" if module else str(name)


class Awaited:
    """A place where somebody else's function was found before Paddle's own was ever seen: it is looked at again at each opening."""

    cheap = rests = True

    def __init__(self, path: str, look: Callable[[], Redirection | None], describe_now: Callable[[], str]) -> None:
        self.path, self._look, self._describe_now = path, look, describe_now
        self._patch: Redirection | None = None

    def install(self) -> bool:
        """Redirect it if it is Paddle's own by now."""
        self._patch = self._patch or self._look()
        return self._patch is not None and self._patch.install()

    def uninstall(self) -> bool:
        """Restore it if it was redirected."""
        return self._patch is None or self._patch.uninstall()

    def ours(self) -> bool:
        """Whether calls come to our hook now."""
        return self._patch is not None and self._patch.ours()

    def found(self) -> str:
        """What is there now, in words."""
        return self._describe_now() if self._patch is None else self._patch.found()


class Patcher:
    """A group of points that is installed while at least one user holds it; one that comes or goes twice counts once."""

    def __init__(self, build: Callable[[], Sequence[Point]]) -> None:
        self._build = build
        self._points: Sequence[Point] | None = None
        self._groups: list[Any] = []  # points that are switched together
        self._others: list[Point] = []
        self._cheap: list[Point] = []
        self._users: dict[Hashable, None] = {}
        self._looked_at: Sequence[Point] = ()  # the cheap ones, and those that were somebody else's at the opening
        self._lock = threading.RLock()  # which tells whose it is: see release_unless_busy
        self._resting = False  # what may rest is away, though there is a user

    @property
    def installed(self) -> bool:
        """Whether the redirections are in place."""
        return bool(self._users)

    @property
    def resting(self) -> bool:
        """See :meth:`rest`."""
        return self._resting

    def acquire(self, user: Hashable) -> list[str]:
        """Install for one more user; a remark on each place that is somebody else's. An error leaves everything as it was."""
        with self._lock:
            try:
                if self._points is None:
                    points = self._build()
                    kinds: list[Any] = [getattr(point, "together", None) for point in points]
                    self._groups = [
                        kind([point for point, own in zip(points, kinds) if own is kind]) for kind in set(kinds) - {None}
                    ]
                    self._others = [point for point, kind in zip(points, kinds) if kind is None]
                    self._cheap = [point for point in points if point.cheap]
                    self._points = points
                first = not self._users
                others = self._install() if first else []
                self._wake()
                remarks = [remark(point) for point in others] if first else self._remarks()
            except BaseException:
                if not self._users:
                    self._restore()
                raise
            self._users[user] = None
            return remarks

    def release(self, user: Hashable) -> list[str]:
        """One user less; the last one restores everything that is not somebody else's. A Ctrl-C is raised when that is done.

        Returns:
            A remark on each place that is somebody else's.
        """
        with self._lock:
            return self._release(user)

    def release_unless_busy(self, user: Hashable) -> bool:
        """The same from a destructor, which may run in the middle of anything: False, and nothing done, while the lock is held."""
        if self._lock._is_owned():  # type: ignore[attr-defined]
            return False
        try:
            if not self._lock.acquire(blocking=False):
                return False
            self._release(user)
        finally:
            if self._lock._is_owned():  # type: ignore[attr-defined]  # a Ctrl-C may come before it is known
                self._lock.release()
        return True

    def rest(self) -> None:
        """The only user needs nothing for a while: calls go to Paddle's own functions until :meth:`wake`, or the next user.

        With several users nothing happens.
        """
        with self._lock:
            if len(self._users) == 1 and not self._resting:
                self._resting = True
                for point in reversed(self._points or ()):
                    if point.rests:
                        point.uninstall()

    def wake(self) -> None:
        """Calls come to our hooks again."""
        with self._lock:
            self._wake()

    def _wake(self, points: Sequence[Point] | None = None) -> None:
        """Install what rests, or what of these rests; what somebody else did there meanwhile is looked at as ever."""
        if self._resting:
            points = self._points or () if points is None else points
            others = [point for point in points if point.rests and not point.install()]
            self._looked_at = [*self._looked_at, *(point for point in others if point not in self._looked_at)]
            self._resting = False

    def _release(self, user: Hashable) -> list[str]:
        if user not in self._users:
            return []
        remarks: list[str] = []
        try:
            if self._resting and len(self._users) == 1:  # the others are away already
                self._wake(self._looked_at)
            self._wake()
            remarks += self._remarks()
        finally:
            try:
                if len(self._users) == 1:
                    remarks += self._restore()
            except BaseException:
                self._restore()  # to the end
                raise
            finally:
                del self._users[user]
        return list(dict.fromkeys(remarks))

    def _install(self) -> list[Point]:
        others = [point for group in self._groups for point in group.install()]
        others += [point for point in self._others if not point.install()]
        self._looked_at = [*self._cheap, *(point for point in others if not point.cheap)]
        return others

    def _restore(self) -> list[str]:
        """Everything is Paddle's own again that is not somebody else's; may be begun anew."""
        left = [point for point in reversed(self._others) if not point.uninstall()]
        left += [point for group in self._groups for point in group.uninstall()]
        return [remark(point) for point in left if not point.cheap]

    def _remarks(self) -> list[str]:
        return [remark(point) for point in self._looked_at if not point.ours()]


def remark(point: Point) -> str:
    """What a run says of a place that is somebody else's."""
    return (
        f"{point.path} was changed by somebody else: it is {point.found()}. Calls go there, and it is left as it is; what it "
        "passes on to a function that was saved outside of a mode runs natively and is not seen"
    )
