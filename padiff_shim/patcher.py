"""Installs and undoes every redirection, counted for nesting.

The points are built once per process; entering a mode afterwards is one pointer write per point.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol


class Point(Protocol):
    """Something that can be redirected and restored exactly."""

    def install(self) -> None: ...

    def uninstall(self) -> None: ...


class AttributePatch:
    """An attribute of a class (an operator descriptor, a method), exchanged and put back as the very object."""

    def __init__(self, owner: type, name: str) -> None:
        self.owner, self.name = owner, name
        self.native = owner.__dict__[name]
        self.original: Callable[..., Any] = self.native
        self._hook: Any = None

    def set_hook(self, hook: Callable[..., Any]) -> None:
        """What the attribute is exchanged for."""
        self._hook = hook

    def install(self) -> None:
        """Exchange the attribute."""
        setattr(self.owner, self.name, self._hook)

    def uninstall(self) -> None:
        """Put the very object back."""
        setattr(self.owner, self.name, self.native)


class Patcher:
    """A group of points that is installed while at least one user holds it."""

    def __init__(self, build: Callable[[], Sequence[Point]]) -> None:
        self._build = build
        self._points: Sequence[Point] | None = None
        self._users = 0
        self._lock = threading.Lock()

    @property
    def installed(self) -> bool:
        """Whether the redirections are in place."""
        return self._users > 0

    def acquire(self) -> None:
        """Install for one more user."""
        with self._lock:
            if self._points is None:
                self._points = self._build()
            if self._users == 0:
                done: list[Point] = []
                try:
                    for point in self._points:
                        point.install()
                        done.append(point)
                except BaseException:
                    for point in reversed(done):
                        point.uninstall()
                    raise
            self._users += 1

    def release(self) -> None:
        """One user less; the last one restores everything."""
        with self._lock:
            self._users -= 1
            if self._users == 0:
                for point in reversed(self._points or ()):
                    point.uninstall()
