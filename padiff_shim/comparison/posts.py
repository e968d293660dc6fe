"""Post hooks that Paddle holds are held here, too: Paddle drops them without the GIL, and must never be the last to do so.

A node dies wherever its last reference goes: in an in-place op that gives its tensor a new node, in an engine that clears up, in
the destructor of another node. Paddle runs all this without the GIL, and a Python object that dies there ends the process. Each
new hook therefore looks at a few of the others and lets those go that nobody else holds any more; so does the end of a backward,
and for what outlives its mode Python's own collections (not while a mode is open).

Python prints what leaves a callback of its collector, and goes on: a Ctrl-C or a timeout that arrives during a collection would be
lost, because the handlers of signals run where the next Python function begins, which is the callback. So the callback is no
function. It is made of what is written in C, up to a generator that goes on within its ``try``; that signal comes again when the
collection is over.

A hook keeps what was made before it: the nodes of a graph die one behind the other, the newest first. So do looks go through all
hooks, again and again from the newest to the oldest: one turn lets a whole graph go, however deep it is.
"""

from __future__ import annotations

import _thread
import functools
import gc
import signal
import sys
from collections import deque
from collections.abc import Callable, Generator
from typing import Any

from ..signals import number_of

_Hooks = deque[Callable[..., Any]]
_turn: _Hooks = deque()  # at which this turn has not looked yet; both in the order in which they were made
_next: _Hooks = deque()  # for the next one: those that were alive, and new ones
_LOOKS = 4  # at hooks for each new one: what is dead is let go after at most half as many calls as there are hooks
_OURS = 2  # references to a hook that nobody else holds: the name below and the argument of getrefcount


def hold(hook: Callable[..., Any]) -> Callable[..., Any]:
    """``hook``, to be registered with a node."""
    if _CALLBACK in gc.callbacks:
        gc.callbacks.remove(_CALLBACK)
    _looked_at(_LOOKS)
    _next.append(hook)
    return hook


def mode_closed() -> None:
    """From now on it is Python's collections that look, until there is a new hook."""
    if _count() and _CALLBACK not in gc.callbacks:
        gc.callbacks.append(_CALLBACK)


def let_go() -> None:
    """Let go of all hooks whose nodes have died; what they kept alive may have held more nodes."""
    while _looked_at(_count()):
        pass


def _count() -> int:
    return len(_turn) + len(_next)


def _looked_at(count: int) -> bool:
    """Look at the next ``count``; whether any was let go."""
    global _turn, _next
    found = False
    for _ in range(min(count, _count())):
        if not _turn:
            _turn, _next = _next, _turn
        try:
            hook = _turn.pop()
        except IndexError:  # another thread took it
            break
        if sys.getrefcount(hook) > _OURS:
            _next.appendleft(hook)
        else:
            found = True
    return found


def _after_collections() -> Generator[object, Any, None]:
    """Goes on whenever Python's collector has run; one that looks at everything is seldom."""
    full, error = _full_collections(), None
    while True:
        try:
            number, error = number_of(error) if error is not None else 0, None
            yield _comes_again(number) if number else None
            before, full = full, _full_collections()
            _looked_at(64) if full == before else let_go()
            if not _count():
                gc.callbacks.remove(_CALLBACK)
        except GeneratorExit:
            return
        except BaseException as raised:
            error = raised


def _full_collections() -> int:
    return gc.get_stats()[2]["collections"]


_trip: Callable[[Any], None] = _thread.interrupt_main if sys.version_info >= (3, 10) else signal.raise_signal


def _comes_again(number: int) -> object:
    """An object whose end is as if a signal came. The collector drops what its callback returns; no Python code runs in between."""
    return type("_Signal", (), {"__del__": staticmethod(functools.partial(_trip, number))})()


_resumed = _after_collections()
next(_resumed)


class _Collection:
    """Its attributes are the phases of a collection."""

    start = None
    stop = property(_resumed.send)


_CALLBACK = functools.partial(getattr, _Collection())  # the collector passes a phase, and details: here getattr's default
