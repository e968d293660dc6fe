"""Which of a grad node's gradients belongs to which operand of the call that made it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from ..dispatch.door import Door
from ..frameworks.versions import NODE_HOOKS, grad_node
from ..table.signature import parse
from .subject import Subject

Pairs = Sequence[tuple[int, int]]  # (slot of the node, operand)


class Seats:
    """The operands whose gradients a node shows.

    ``slots``: slot -> operand, where that is known; else it follows from how many gradients the node has: it has one for each of
    ``tensors``, the operands that are tensors, or for each parameter. ``needs``: the operands that want one.
    """

    __slots__ = ("_count", "_door", "_known", "_needs", "_slots", "_tensors")

    def __init__(
        self,
        door: Door,
        needs: Sequence[int],
        *,
        tensors: Sequence[int] = (),
        count: int = 0,
        slots: Mapping[int, int] | None = None,
    ) -> None:
        self._door, self._needs, self._tensors, self._count, self._slots = door, needs, tensors, count, slots
        self._known: dict[int, Pairs | None] = {}

    def of(self, count: int) -> Pairs | None:
        """Of a node with ``count`` gradients; None where that cannot be said."""
        found = self._known.get(count, _UNASKED)
        if found is _UNASKED:
            slots = self._slots if self._slots is not None else self._by_count(count)
            found = None if slots is None else [(slot, operand) for slot, operand in slots.items() if operand in self._needs]
            self._known[count] = found
        return found

    def _by_count(self, count: int) -> Mapping[int, int] | None:
        door, tensors = self._door, self._tensors
        if count > self._count and not door.python:  # optional tensors that the op does not have: as the door's parameters stand
            seats = {name: seat for seat, (aliases, _) in enumerate(parse(door.entry.params)) for name in aliases}
            known = all(door.names[index] in seats for index in tensors)
            return {seats[door.names[index]]: index for index in tensors} if known else None
        if count == self._count:  # numbers were made tensors, absent ones have a place
            return {index: index for index in tensors}
        return dict(enumerate(tensors)) if count == len(tensors) else None


_UNASKED: Any = object()


def watched(subject: Subject, shown: Mapping[int, Any], *, nested: bool) -> list[tuple[Any, Seats, bool]]:
    """The nodes to hook, the seats of each, and whether it is the last to run; none: no way. ``nested``: see :mod:`.watch`."""
    door, place = subject.door, subject.place
    if not NODE_HOOKS or nested or door.op.operands or door.entry.pairs is not None:
        return []
    node = grad_node(next(iter(shown.values())))
    if node is None:
        return []
    if door.python and door.transposed is None:
        slots = _slots(subject, node, shown)
        return [] if slots is None else [(node, Seats(door, subject.inputs.needs, slots=slots), True)]
    if place.seats is None:  # what follows is alike in all calls of the place
        needs = subject.inputs.needs
        tensors = [index for index, side in enumerate(subject.operands) if isinstance(side, torch.Tensor)]
        place.seats = [Seats(door, needs, tensors=tensors, count=len(subject.operands))]
        if door.transposed is not None and len(tensors) > 2:
            # A Linear with bias is two nodes in Paddle: a product, and the bias added to it.
            bias = tensors[-1]
            place.seats.append(Seats(door, needs, slots={1: bias}))
            if any(index in needs for index in tensors[:-1]):
                place.seats.append(Seats(door, needs, tensors=tensors[:-1], count=len(subject.operands)))
    whole, *parts = place.seats
    if not parts or node.name() != "AddGradNode":
        return [(node, whole, True)]
    if len(parts) == 1:
        return [(node, parts[0], True)]
    subject.asks_ahead = True
    return [(node, parts[0], False), (node.next_functions[0], parts[1], True)]


def _slots(subject: Subject, node: Any, shown: Mapping[int, Any]) -> dict[int, int] | None:
    """Slot of the node -> operand, if a Python function made this one node alone: then it leads straight to the operands' nodes."""
    if any(grad_node(one) is not node for one in list(shown.values())[1:]):
        return None
    owners = {index: grad_node(subject.inputs.paddle[index]) for index in subject.inputs.needs}
    found: dict[int, int] = {}
    for slot, following in enumerate(node.next_functions):
        if following is None:
            continue
        owned = [index for index, owner in owners.items() if owner is following]
        if len(owned) != 1 or owned[0] in found.values():
            return None
        found[slot] = owned[0]
    return found if len(found) == len(owners) else None
