"""What a backward keeps for one thread."""

from __future__ import annotations

import threading
import weakref
from typing import Any

import torch

from ..frameworks.memory import HALVES, autocast_off, to_paddle
from ..frameworks.versions import attribute, grad_node, set_attribute
from . import clean


class _Local(threading.local):
    """What belongs to one thread."""

    def __init__(self) -> None:
        self.session: Any = None  # the backward that is running, see :mod:`.backward`
        self.around: list[Any] = []  # what torch's engine has finished of leaves in the backwards around it, the outermost first
        self.turn: Any = None  # the call of torch's engine that is running
        self.floats: dict[tuple[torch.dtype, torch.device], tuple[Any, Any]] = {}  # what sentinels are made of and pass on


LOCAL = _Local()


class turn:
    """Torch's engine runs over twins inside; ``name`` tells this call from those within it."""

    __slots__ = ("_name", "_outer")

    def __init__(self, name: Any) -> None:
        self._name = name

    def __enter__(self) -> None:
        self._outer, LOCAL.turn = LOCAL.turn, self._name

    def __exit__(self, *_: object) -> None:
        if LOCAL.turn is self._name:  # else an error left it open, and it was put right: see intercept/engine.py
            LOCAL.turn = self._outer


_tinies: dict[int, weakref.ref[Any]] = {}  # what the sentinels of all threads are made of


def floats(side: torch.Tensor) -> tuple[Any, Any]:
    """One float that wants a gradient, and one for hooks to return; the engine refuses one on another device than that of ``side``.

    Two, because the engine writes what a hook returns.
    """
    key = side.dtype, side.device
    pair = LOCAL.floats.get(key)
    if pair is None:
        tiny = to_paddle(torch.zeros(1, dtype=side.dtype))  # on the CPU: a copy of it launches no kernel
        passed = to_paddle(torch.zeros(1, dtype=side.dtype, device=side.device))
        tiny.stop_gradient = False
        pair = LOCAL.floats[key] = tiny, passed
        name = id(tiny)
        _tinies[name] = weakref.ref(tiny, lambda gone: _tinies.pop(name, None) if _tinies.get(name) is gone else None)
    return pair


_PLACE = "_padiff_place"  # attribute of these floats


def place(tiny: Any) -> int:
    """The address of the node that is behind all sentinels of a float: it lives as long as the float does."""
    known: int | None = attribute(tiny, _PLACE)
    if known is None:
        known = grad_node(tiny).node_ptr()
        set_attribute(tiny, _PLACE, known)
    return known


def copied(one: Any, dtype: torch.dtype) -> Any:
    """A copy of one of these floats. Its node, where it has one, leads to that float alone, and saves nothing that is freed."""
    if dtype in HALVES:  # on the CPU, where it is, autocast makes float32 of them, with a node more
        with autocast_off():
            return clean.assign(one)
    return clean.assign(one)


def tinies() -> list[Any]:
    """What the sentinels that live are made of, those of other threads too."""
    return [tiny for tiny in (reference() for reference in list(_tinies.values())) if tiny is not None]
