"""One projection on one side that holds what several hold on the other: q, k and v, or gate and up."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from . import names
from .choices import Choice, fused
from .tree import OTHER, Node, Slot

# The parts of a fused projection, in order, by the words that its name may have. Longer names first.
_FUSED = (
    (("q", "k", "v"), ("qkv", "attn", "in", "pack", "q")),
    (("k", "v"), ("kv", "k")),
    (("gate", "up"), ("gate",)),
)


class Fused(NamedTuple):
    """A projection, its parts on the other side, what they are called, and the framework of the whole."""

    whole: Node
    parts: list[Node]
    letters: tuple[str, ...]
    side: str

    def choice(self) -> Choice:
        """The ways in which it may hold them."""
        whole = _linear(self.whole, self.side)
        parts = [_linear(part, OTHER[self.side]) for part in self.parts]
        slots = [(whole[role], [part[role] for part in parts]) for role in parts[0]]
        return fused(self.whole.path, [part.path for part in self.parts], self.letters, slots, self.side)


def candidates(ts: list[Node], ps: list[Node]) -> Iterator[Fused]:
    """What shapes and names allow in one way only, or in order."""
    for side, mine, other in (("torch", ts, ps), ("paddle", ps, ts)):
        for letters, wanted in _FUSED:
            wholes = [node for node in mine if _is_fused(node, side, letters, wanted)]
            sets = list(_siblings([node for node in other if node.is_unit], OTHER[side], letters)) if wholes else []
            fitting = [whole for whole in wholes if any(_adds_up(whole, parts, side) for parts in sets)]
            sets = [parts for parts in sets if any(_adds_up(whole, parts, side) for whole in wholes)]
            if len(fitting) == len(sets) and all(_adds_up(whole, parts, side) for whole, parts in zip(fitting, sets)):
                yield from (Fused(whole, parts, letters, side) for whole, parts in zip(fitting, sets))


def _siblings(nodes: list[Node], side: str, letters: tuple[str, ...]) -> Iterator[list[Node]]:
    """One layer for each letter, of one parent."""
    for parent in dict.fromkeys(names.parent(node.path) for node in nodes):
        inside = [node for node in nodes if names.parent(node.path) == parent and _linear(node, side)]
        called = [[node for node in inside if letter in _own(node)] for letter in letters]
        if all(len(alone) == 1 for alone in called) and len({id(alone[0]) for alone in called}) == len(letters):
            yield [alone[0] for alone in called]


def _own(node: Node) -> tuple[str, ...]:
    return names.words(names.leaf(node.path))


def _linear(node: Node, side: str) -> dict[str, Slot]:
    """The weights of a layer by role, [out, in]; nothing if its type is the user's own. A state dict's lie as those of a Linear."""
    slots: dict[str, Slot] = {}
    for slot in node.slots:
        if slot.settled:
            slots[slot.role] = slot
        elif not slot.typed and len(slot.shape) == 2:
            slots[slot.role] = slot.readings()[side == "paddle"]._replace(settled=True)
        else:
            return {}
    return slots


def _is_fused(node: Node, side: str, letters: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    """Whether a layer's own name may be that of a fused projection."""
    if not node.is_unit or not node.slots or not _linear(node, side) or any(slot.steps for slot in node.slots):
        return False
    words = _own(node)
    return any(word in wanted for word in words) and {word for word in words if word in letters} in (set(), set(letters))


def _adds_up(whole: Node, parts: list[Node], side: str) -> bool:
    """Whether the rows of the parts are those of the whole."""
    slots, others = _linear(whole, side), [_linear(part, OTHER[side]) for part in parts]
    if any(set(other) != set(slots) for other in others):
        return False
    for role, slot in slots.items():
        shapes = [other[role].shape for other in others]
        if len({shape[1:] for shape in shapes} | {slot.shape[1:]}) != 1 or sum(shape[0] for shape in shapes) != slot.shape[0]:
            return False
    return True
