"""Post hooks that Paddle holds are held here, too: Paddle drops them without the GIL, and must never be the last to do so.

A node dies wherever its last reference goes: in an in-place op that gives its tensor a new node, in an engine that clears up, in
the destructor of another node. Paddle runs all this without the GIL, and a Python object that dies there ends the process. Each
new hook therefore looks at a few of the others and lets those go that nobody else holds any more; so does the end of a backward,
and for what outlives its mode Python's own collections (not while a mode is open).

A hook keeps what was made before it: the nodes of a graph die one behind the other, the newest first. So do looks go through all
hooks, again and again from the newest to the oldest: one turn lets a whole graph go, however deep it is.
"""

from __future__ import annotations

import _thread
import gc
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

_Hooks = deque[Callable[..., Any]]
_turn: _Hooks = deque()  # at which this turn has not looked yet; both in the order in which they were made
_next: _Hooks = deque()  # for the next one: those that were alive, and new ones
_LOOKS = 4  # at hooks for each new one: what is dead is let go after at most half as many calls as there are hooks
_OURS = 2  # references to a hook that nobody else holds: the name below and the argument of getrefcount


def hold(hook: Callable[..., Any]) -> Callable[..., Any]:
    """``hook``, to be registered with a node."""
    if _collected in gc.callbacks:
        gc.callbacks.remove(_collected)
    _looked_at(_LOOKS)
    _next.append(hook)
    return hook


def mode_closed() -> None:
    """From now on it is Python's collections that look, until there is a new hook."""
    if _count() and _collected not in gc.callbacks:
        gc.callbacks.append(_collected)


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


def _collected(phase: str, about: dict[str, int]) -> None:
    """Python's collector begins, and has run; one that looks at everything is seldom.

    Python prints what leaves this, and goes on. So a Ctrl-C that falls in here comes again, a moment later.
    """
    try:
        _looked_at(64) if about["generation"] < 2 else let_go()
        if phase == "stop" and not _count():
            gc.callbacks.remove(_collected)
    except KeyboardInterrupt:
        later = threading.Timer(0.001, _thread.interrupt_main)
        later.daemon = True
        later.start()
