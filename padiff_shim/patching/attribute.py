"""Exchanges an attribute of a class: an operator's descriptor, a method."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from .patcher import ABSENT, Redirection


class AttributePatch(Redirection):
    """An attribute of a class (an operator descriptor, a method), exchanged and put back as the very object."""

    rests = sys.version_info < (3, 13)  # from there on each change uses up one of a class's version tags

    def __init__(self, owner: type, name: str, path: str = "") -> None:
        self.owner, self.name, self.path = owner, name, path or f"{owner.__qualname__}.{name}"
        self.native = owner.__dict__[name]
        self.original: Callable[..., Any] = self.native

    def set_hook(self, hook: Callable[..., Any]) -> None:
        """What the attribute is exchanged for: it looks like the native one to whoever asks for its name, text or signature."""
        for attribute in ("__module__", "__name__", "__qualname__", "__doc__", "__objclass__", "__text_signature__"):
            if hasattr(self.native, attribute):
                setattr(hook, attribute, getattr(self.native, attribute))
        hook.__wrapped__ = self.native  # type: ignore[attr-defined]
        self.hooked = hook

    def read(self) -> Any:
        """The object in the class."""
        return self.owner.__dict__.get(self.name, ABSENT)

    def ours(self) -> bool:
        """As for any redirection, without the detours."""
        return self.owner.__dict__.get(self.name, ABSENT) is self.hooked

    def write(self, state: Any) -> None:
        """Exchange the object in the class."""
        setattr(self.owner, self.name, state)


class InheritedPatch(AttributePatch):
    """A method that a class inherits from C: ours is put before it, and taken away again."""

    def __init__(self, owner: type, name: str, path: str) -> None:
        self.owner, self.name, self.path, self.native = owner, name, path, ABSENT

    def write(self, state: Any) -> None:
        """Exchange the object in the class."""
        if state is ABSENT:
            delattr(self.owner, self.name)
        else:
            setattr(self.owner, self.name, state)
