"""Leaf twins: where torch's graph begins, and how their gradients come to Paddle.

A leaf twin belongs to a parameter or another leaf, or to a tensor that Paddle's own nodes computed (a *frontier*). Its gradient is
handed to Paddle at a *door*: a tensor with an edge to the leaf's accumulation (never the leaf itself: ``Layer.to`` leaves the old
dtype there, and the door keeps its edge if ``stop_gradient`` is set later). A door is one float wide, since Paddle's engine copies
the gradients that it is started with; a hook exchanges that float for the gradient itself.
"""

from __future__ import annotations

import functools
import itertools
import threading
import weakref
from typing import Any

import torch

from ..frameworks.memory import as_operand
from ..frameworks.versions import attribute, set_attribute
from . import clean
from .local import LOCAL, copied, floats

LEAF, COPY = "_padiff_leaf", "_padiff_copy"  # attributes of Paddle tensors


class Leaf:
    """The leaf twins of one Paddle tensor: the present one, and those that older graphs still hold.

    Threads share it: each change is one step, and two threads that make a twin at once get one each.
    """

    __slots__ = ("all", "apart", "now", "spared")

    def __init__(self) -> None:
        self.now: tuple[Any, Any] = None, None  # what tells whether the present twin is valid, and that twin
        self.all: list[weakref.ref[Any]] = []
        self.apart = False  # the present one has memory of its own: Torch has no negative strides
        self.spared = False  # a Linear weight's: torch's graph begins at the weight as it lies, and not at a copy

    def __deepcopy__(self, memo: Any) -> Leaf:
        return Leaf()

    def __reduce__(self) -> Any:
        return Leaf, ()


_frontiers: dict[int, weakref.ref[Any]] = {}  # twins of what Paddle's own nodes computed; a WeakSet is not for threads


def frontiers() -> list[torch.Tensor]:
    """The leaf twins that live of tensors that Paddle's own nodes computed."""
    return [side for side in (reference() for reference in list(_frontiers.values())) if side is not None]


def frontiers_live() -> bool:
    """Whether any of them does."""
    return bool(_frontiers)


def _frontier(side: torch.Tensor) -> None:
    key = id(side)
    _frontiers[key] = weakref.ref(side, lambda gone: _frontiers.pop(key, None) if _frontiers.get(key) is gone else None)


def leaf(tensor: Any) -> torch.Tensor:
    """The leaf twin of a tensor that is not on the tape; made once per value of it."""
    held = attribute(tensor, LEAF) or held_by(tensor, LEAF)
    # With its shape and strides: ``tensor.data = tensor.data.t()`` changes neither memory nor version.
    pointer = tensor.data_ptr()
    strides = tensor.strides if pointer else None  # a tensor without memory may have none, and ends the process when it is asked
    key = (pointer, tensor._inplace_version(), tensor.is_leaf, tensor.shape, strides)
    known, side = held.now
    if known != key or (held.apart and not torch.equal(side.detach(), as_operand(tensor))):  # a write that Paddle does not count
        side = _begin(tensor, as_operand(tensor), held, transposed=False)
        held.now = key, side
        held.apart = side.data_ptr() != pointer
    return side


def weight_leaf(tensor: Any, valid: torch.Tensor) -> torch.Tensor:
    """The [out, in] copy of a Linear weight, which is a leaf, as a leaf; ``valid``: that copy, up to date."""
    held = held_by(tensor, COPY)
    key = (valid.data_ptr(), valid.shape, valid.dtype)
    known, side = held.now
    if known != key:
        side = _begin(tensor, valid.detach(), held, transposed=True)
        held.now = key, side
    return side


def lies_in_graph(tensor: Any) -> bool:
    """Whether torch's graph begins at this Linear weight as it lies."""
    held = attribute(tensor, COPY)
    return held is not None and held.spared


def begin_as_it_lies(tensor: Any) -> bool:
    """From now on torch's graph begins at this Linear weight as it lies; False while a graph still begins at a copy of it.

    For gradients at one leaf are added up in torch's order, and those at two in another.
    """
    held = held_by(tensor, COPY)
    key, side = held.now
    present = weakref.ref(side) if side is not None else lambda: None
    held.now = None, None
    del side  # a graph that holds it keeps it
    if any(reference() is not None for reference in list(held.all)):
        held.now = (key, present()) if present() is not None else (None, None)
        return False
    held.spared = True
    return True


def is_linear_weight(tensor: Any) -> bool:
    """Whether it was the weight of a Linear that wants its gradient."""
    held = attribute(tensor, COPY)
    return held is not None and (held.spared or held.now[1] is not None)


_making = threading.Lock()


def held_by(tensor: Any, name: str) -> Leaf:
    """What a Paddle tensor keeps of its leaf twins."""
    held = attribute(tensor, name)
    if held is None:
        with _making:  # two threads that meet a parameter at once find one and the same
            held = attribute(tensor, name)
            if held is None:
                held = Leaf()
                set_attribute(tensor, name, held)
    return held


_numbers = itertools.count(1)


class Place:
    """Where the gradient of a leaf twin goes (its attribute ``_place``)."""

    __slots__ = ("door", "freed", "frontier", "number", "transposed")

    def __init__(self, door: Any, *, frontier: bool, transposed: bool) -> None:
        self.door, self.frontier, self.transposed = door, frontier, transposed
        self.number = next(_numbers)  # the higher the later it was made
        self.freed: Any = None  # a frontier's: the backward without ``retain_graph`` that was here


def _begin(tensor: Any, side: torch.Tensor, held: Leaf, *, transposed: bool) -> torch.Tensor:
    """Make ``side`` a leaf of torch's graph whose gradient goes to ``tensor``."""
    side = side.requires_grad_()
    side._place = Place(_door(tensor, side), frontier=not tensor.is_leaf, transposed=transposed)
    if not tensor.is_leaf:
        _frontier(side)
    held.all.append(weakref.ref(side, held.all.remove))
    return side


def numbered(side: torch.Tensor) -> int:
    """The higher the later it was made; 0 where a leaf of torch's graph stands for no tensor of Paddle's."""
    place = getattr(side, "_place", None)
    return 0 if place is None else place.number


def _door(tensor: Any, side: torch.Tensor) -> Any:
    door = clean.alias(tensor)
    # What a hook hands back without elements is dropped by Paddle's engine, which is then started with it.
    if 0 not in tensor.shape:
        copied(floats(side)[1], side.dtype)._share_underline_tensor_to(door)
        clean.register_grad_hook(door, functools.partial(_exchanged, id(side)))
    return door


def _exchanged(key: int, one: Any) -> Any:
    """Hook of a door: the gradient in place of the float that Paddle's engine was started with."""
    return LOCAL.session.given.pop(key)


def deliver(side: torch.Tensor, grad: Any, roots: list[Any], grads: list[Any]) -> None:
    """Have Paddle's engine, started at ``roots`` with ``grads``, take a gradient to the tensor of a leaf twin.

    ``grad``: a Paddle tensor whose memory nobody else holds; the leaf's ``grad`` becomes that very memory.
    """
    roots.append(side._place.door)
    if side.numel():
        LOCAL.session.given[id(side)] = grad
        grads.append(floats(side)[1])
    else:
        grads.append(grad)
