"""Hooks during a comparison: a program's saved-tensor hooks, and post hooks that must outlive Paddle's engine."""

from __future__ import annotations

import functools
import gc
import hashlib
import sys
import threading
from collections import deque
from collections.abc import Callable, Generator
from typing import Any

import torch

from ..frameworks.memory import TENSOR_TYPES, stream_of, to_torch
from ..interrupts import ends_program, let_pass, raised_again

# ---- A program's saved-tensor hooks: where Paddle's backward reads other bits than what was saved, its kernel is not to blame.
#
# ``paddle.autograd.saved_tensors_hooks``, and with it recompute without reentry, hands each tensor that a node keeps to ``pack``
# and
# asks ``unpack`` for it in the backward. A pair may round (to float16, to eight bits), and a recomputed block may come out
# otherwise.

ALTERED = "what Paddle's backward read is not what was saved: saved_tensors_hooks, or a recomputed block, gave other bits"
Pair = tuple[Callable[[Any], Any], Callable[[Any], Any]]


class Passage:
    """One tensor on its way through a pair of hooks. ``altered``: it came back with other bits."""

    __slots__ = ("altered", "bits")

    def __init__(self, bits: bytes) -> None:
        self.bits, self.altered = bits, False


class _Packed:
    """What Paddle keeps: what the program's hook gave, and the passage; None where nobody gathers."""

    __slots__ = ("kept", "passage")

    def __init__(self, packed: Any, passage: Passage | None) -> None:
        self.kept, self.passage = packed, passage


class _PackedHere(threading.local):
    """What was packed in this thread since somebody began to gather; None where nobody does."""

    def __init__(self) -> None:
        self.passages: list[Passage] | None = None


HERE = _PackedHere()


def gather() -> list[Passage] | None:
    """Begin to gather what is packed from here on; gives what :func:`gathered` puts back."""
    outer, HERE.passages = HERE.passages, []
    return outer


def gathered(outer: list[Passage] | None) -> list[Passage]:
    """What was packed since :func:`gather`."""
    passages, HERE.passages = HERE.passages, outer
    return passages or []


def watched(pack: Callable[[Any], Any], unpack: Callable[[Any], Any]) -> Pair:
    """A pair of hooks that does the same, and notes what comes back with other bits."""

    def packing(tensor: Any) -> _Packed:
        outer, HERE.passages = HERE.passages, None  # the hook's own calls are no part of the one whose operand this is
        passage = None if outer is None else Passage(_bits(tensor))
        try:
            packed = pack(tensor)
        finally:
            HERE.passages = outer
        if outer is not None and passage is not None:
            outer.append(passage)
        return _Packed(packed, passage)

    def unpacking(packed: _Packed) -> Any:
        tensor, passage = unpack(packed.kept), packed.passage
        if passage is not None and not passage.altered:
            passage.altered = _bits(tensor) != passage.bits
        return tensor

    return packing, unpacking


def _bits(tensor: Any) -> bytes:
    """What tells a tensor from another one: dtype, layout and values. Paddle reads what is unpacked as what was saved lay."""
    if type(tensor) not in TENSOR_TYPES or not tensor._is_initialized():
        return b""
    try:
        side = to_torch(tensor).detach()
        with stream_of(side.device):
            memory = side.contiguous().view(-1).view(torch.uint8).cpu().numpy()
    except Exception as error:  # what Torch has no twin for is not watched: comparing must never break the program
        let_pass(error)
        return b""
    digest = hashlib.blake2b(memory, digest_size=16)
    digest.update(repr((tensor.dtype, tensor.shape, tensor.strides)).encode())
    return digest.digest()


# ---- Post hooks that Paddle holds are held here, too: Paddle drops them without the GIL, and must never be the last to do so.
#
# A node dies wherever its last reference goes: in an in-place op that gives its tensor a new node, in an engine that clears up,
# in
# the destructor of another node. Paddle runs all this without the GIL, and a Python object that dies there ends the process. Each
# new hook therefore looks at a few of the others and lets those go that nobody else holds any more; so does the end of a
# backward,
# and for what outlives its mode Python's own collections (not while a mode is open).
#
# Python prints what leaves a callback of its collector, and goes on. The handlers of signals run where the next Python function
# begins: were that the callback, a Ctrl-C or a timeout that comes while the collector walks would be lost. So the callback is no
# function. It is made of what is written in C, up to a generator that goes on within its ``try``, and does nothing when a
# collection
# ends. A signal that comes in that generator comes once more when it has left.

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
    let_any_go = False
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
            let_any_go = True
    return let_any_go


def _before_collections() -> Generator[object, Any, None]:
    """Goes on whenever Python's collector begins. One that somebody asked for looks at everything; Python's own are frequent."""
    error = None
    while True:
        try:
            waiting, error = [raised_again(error)] if error is not None and ends_program(error) else [None], None
            yield waiting.pop()
            if gc.isenabled() and gc.get_count()[0] > gc.get_threshold()[0]:
                _looked_at(64)
            else:
                let_go()
            if not _count() and gc.callbacks[-1] is _CALLBACK:  # elsewhere the collector would leave out the next one
                gc.callbacks.pop()
        except GeneratorExit:
            return
        except BaseException as raised:
            error = raised


_resumed = _before_collections()
next(_resumed)


class _Collection:
    """Its attributes are the phases of a collection."""

    start = property(_resumed.send)
    stop = None


_CALLBACK = functools.partial(getattr, _Collection())  # the collector passes a phase, and details: here getattr's default
