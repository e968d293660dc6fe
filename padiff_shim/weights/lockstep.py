"""Two trees that are one: the same layers in the same order, by kind, name and shapes. Nothing has to be searched for there.

That is the common case, a port that was written after its original; it is what :class:`.matching.Matcher` would find, sooner.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from . import names
from .evidence import exact, name_in
from .pairing import SlotPair, pair_slots
from .tree import Node


@dataclass
class Steps:
    """The pairs of two such trees: layers with layers below, layers without, and weights."""

    scopes: list[tuple[Node, Node]] = field(default_factory=list)
    units: list[tuple[Node, Node]] = field(default_factory=list)
    slots: list[SlotPair] = field(default_factory=list)


def in_step(torch: Node, paddle: Node, ordered: bool) -> Steps | None:
    """The pairs of two trees that are one; None if they are not."""
    found = Steps()
    return found if _walk(torch, paddle, ordered, found) else None


def _walk(torch: Node, paddle: Node, ordered: bool, found: Steps) -> bool:
    ts, ps = torch.parts(), paddle.parts()
    if len(ts) != len(ps):
        return False
    words = [names.words(name_in(node, torch.path)) for node in ts]
    if len(set(words)) != len(words) or words != [names.words(name_in(node, paddle.path)) for node in ps]:
        return False  # which of them belong together is to be found out
    return all(_pair(mine, yours, ordered, found) for mine, yours in zip(ts, ps))


def _pair(torch: Node, paddle: Node, ordered: bool, found: Steps) -> bool:
    if torch.is_unit is not paddle.is_unit:
        return False
    if not torch.is_unit:
        found.scopes.append((torch, paddle))
        return _walk(torch, paddle, ordered, found)
    if torch.kind != paddle.kind or exact(torch) != exact(paddle):
        return False
    slots = pair_slots(torch, paddle, ordered)
    found.units.append((torch, paddle))
    found.slots += slots
    return len(slots) == len(torch.slots) == len(paddle.slots)
