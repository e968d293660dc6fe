"""Calls that stand in another place together: layers that are called in another order are one mistake, not one of each call."""

from __future__ import annotations

from collections.abc import Sequence

from ..dispatch.site import Site
from .causes import Cause, Difference
from .pairing import kind
from .trace import Node, Trace

Found = Sequence[tuple[str, Difference]]  # each with the part of the run in which it shows


def told_once(found: Found, theirs: Trace, ours: Trace) -> tuple[list[tuple[str, Difference]], bool]:
    """Of calls that stand elsewhere as one run, the outermost: in the layer that calls the others; and whether there are such."""
    kept: list[tuple[str, Difference]] = []
    runs = False
    for part, difference in found:
        place = next((at for at, (_, one) in enumerate(kept) if _one_run(one, difference, theirs, ours)), None)
        if place is None:
            kept.append((part, difference))
            continue
        runs = runs or _line(difference) != _line(kept[place][1])
        if _depth(difference) < _depth(kept[place][1]):
            kept[place] = kept[place][0], difference
    return kept, runs


def _line(difference: Difference) -> Site | None:
    return difference.ours.site if difference.ours else None


def _one_run(one: Difference, other: Difference, theirs: Trace, ours: Trace) -> bool:
    """Whether from the one to the other the port makes the calls that the original makes from there on, so that all were moved."""
    if one.cause is not Cause.PLACE or other.cause is not Cause.PLACE:
        return False
    if one.theirs is None or one.ours is None or other.ours is None:
        return False
    mine = _calls(ours.nodes[one.ours.index : other.ours.index + 1])
    return bool(mine) and mine == _calls(theirs.nodes[one.theirs.index :])[: len(mine)]


def _calls(nodes: Sequence[Node]) -> list[str]:
    return [kind(node) for node in nodes if not node.moves]


def _depth(difference: Difference) -> int:
    return difference.ours.layer.count(".") if difference.ours and difference.ours.layer else -1
