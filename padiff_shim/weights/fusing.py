"""One projection on one side that holds what several hold on the other: q, k and v, or gate and up."""

from __future__ import annotations

from collections.abc import Iterator

from . import names
from .pairing import SlotPair, fit
from .tree import Node, Slot

# The parts of a fused projection, in order, by the words that its name may have. Longer names first.
_FUSED = (
    (("q", "k", "v"), ("qkv", "attn", "in", "pack", "q")),
    (("k", "v"), ("kv", "k")),
    (("gate", "up"), ("gate",)),
)


def candidates(ts: list[Node], ps: list[Node]) -> Iterator[tuple[Node, list[Node], str]]:
    """(whole, its parts on the other side, side of the whole): what shapes and names allow in one way only, or in order."""
    for side, mine, other in (("torch", ts, ps), ("paddle", ps, ts)):
        for letters, wanted in _FUSED:
            wholes = [node for node in mine if _is_fused(node, letters, wanted)]
            sets = list(_siblings([node for node in other if node.is_unit], letters)) if wholes else []
            fitting = [one for one in wholes if any(_adds_up(one, parts) for parts in sets)]
            sets = [parts for parts in sets if any(_adds_up(one, parts) for one in wholes)]
            if len(fitting) == len(sets) and all(map(_adds_up, fitting, sets)):
                yield from ((whole, parts, side) for whole, parts in zip(fitting, sets))


def _siblings(nodes: list[Node], letters: tuple[str, ...]) -> Iterator[list[Node]]:
    """One layer for each letter, of one parent."""
    for parent in dict.fromkeys(names.parent(node.path) for node in nodes):
        inside = [node for node in nodes if names.parent(node.path) == parent and all(slot.settled for slot in node.slots)]
        found = [[node for node in inside if letter in names.words(names.leaf(node.path))] for letter in letters]
        if all(len(one) == 1 for one in found) and len({id(one[0]) for one in found}) == len(letters):
            yield [one[0] for one in found]


def pairs(whole: Node, parts: list[Node], side: str) -> list[SlotPair]:
    """The sections of the whole's weights, each with the part's."""
    found, start = [], 0
    slots = {slot.role: slot for slot in whole.slots}
    for part in parts:
        rows = next(slot for slot in part.slots if slot.role == "weight").shape[0]
        for slot in part.slots:
            section = _settled(slots[slot.role]).part(0, start, start + rows)
            ours, theirs = (section, slot) if side == "torch" else (slot, section)
            pair = fit(ours, theirs, "linear", "fused")
            if pair is not None:
                found.append(pair)
        start += rows
    return found


def _settled(slot: Slot) -> Slot:
    return slot._replace(settled=True)


def _is_fused(node: Node, letters: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    """Whether a layer's own name may be that of a fused projection."""
    if not node.is_unit or not node.slots or not all(slot.settled and slot.section is None for slot in node.slots):
        return False
    words = names.words(names.leaf(node.path))
    return any(word in wanted for word in words) and tuple(w for w in words if w in letters) in ((), letters, ("gate", "up"))


def _adds_up(whole: Node, parts: list[Node]) -> bool:
    """Whether the rows of the parts are those of the whole."""
    if any({slot.role for slot in part.slots} != {slot.role for slot in whole.slots} for part in parts):
        return False
    for slot in whole.slots:
        shapes = [other.shape for part in parts for other in part.slots if other.role == slot.role]
        if len({shape[1:] for shape in shapes} | {slot.shape[1:]}) != 1 or sum(s[0] for s in shapes) != slot.shape[0]:
            return False
    return True
