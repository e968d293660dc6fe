"""Calls of one program that have no counterpart where it is looked for: what is given otherwise, moved otherwise, or elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from .between import arranged, between, comparable, constant, takes_others
from .cause import Cause
from .matching import Matching
from .pairing import Pair, alike, behind, kind
from .trace import Node, Value
from .wording import from_elsewhere


def moved_otherwise(matching: Matching, alone: Node, pairs: Sequence[Pair]) -> tuple[Cause, str, Pair] | None:
    """Where both take elements out of one value by other calls, and it was arranged otherwise before."""
    for pair in pairs:
        other = pair.ours if pair.theirs is None else pair.theirs if pair.ours is None else None
        if other is None or not other.moves or (other is pair.theirs) is (alone is pairs[0].theirs):
            continue
        theirs, ours = (alone, other) if alone is pairs[0].theirs else (other, alone)
        for one, two in zip(theirs.operands[:1], ours.operands[:1]):
            same = one.value.node is not None and matching.same(one.value, two.value)
            if same and (one.tensor.shape != two.tensor.shape or not matching.in_order(one.value, one.tensor, two.tensor)):
                return (*arranged(one, two), Pair(theirs, ours))
    return None


def given_otherwise(matching: Matching, alone: Node, pairs: Sequence[Pair]) -> tuple[Cause, str, Pair] | None:
    """Where nothing is missing but what reads the result of a call of the original is given another one.

    Either it is given what stands in no trace, for Paddle's kernels computed it (whole numbers, tables of no operand), or what
    another call of that kind made, which is no operand of the missing one.
    """
    following = next((other for other in pairs if other.theirs and other.ours), None)
    if following is None or following.theirs is None or following.ours is None:
        return None
    for one, other in zip(following.theirs.operands, following.ours.operands):
        if one.value.node is None or not comparable(one, other) or matching.same(one.value, other.value):
            continue
        if not behind(one.value, alone):
            continue
        if other.value.node is None and not other.value.label:
            return (*constant(one, other), following)
        if other.value.node is None or not matching.good(other.value) or one.value.node is not alone:
            continue
        fed = any(matching.same(two.value, other.value) for two in alone.operands)
        if kind(other.value.node) == kind(alone) and not fed:
            if takes_others(matching, alone, other.value.node):
                return (*between(matching, alone, other.value.node), following)
            return Cause.OPERAND, from_elsewhere(one, other), following
    return None


def is_counterpart(pair: Pair, other: Pair) -> bool:
    """Whether ``other`` is the same call that stands alone on the other side: op, attributes, shape and weights."""
    alone, candidate = (pair.theirs, other.ours) if pair.ours is None else (pair.ours, other.theirs)
    if alone is None or candidate is None or (other.theirs and other.ours):
        return False
    same = kind(alone) == kind(candidate) and alone.attributes == candidate.attributes and alike(alone, candidate)
    return same and _weights(alone) == _weights(candidate)


def _weights(node: Node) -> list[tuple[int, ...]]:
    return [tuple(one.tensor.shape) for one in node.operands if one.value.node is None]


def missing(alone: Node, pairs: Sequence[Pair]) -> str:
    """Which calls are missing: one, with those of its line that go on with its result."""
    calls = [alone]
    for pair in pairs[1:]:
        node = pair.theirs
        if node is None or pair.ours is not None or node.moves or (node.site, node.layer) != (alone.site, alone.layer):
            continue
        if any(one.value.node in calls for one in node.operands):
            calls.append(node)
    where = ": no gradient goes back there" if alone.backward else ""
    return f"{', '.join(map(str, calls))} {'is' if len(calls) == 1 else 'are'} missing{where}"


def read_by_none(matching: Matching, pair: Pair, end: tuple[Value | None, Value | None]) -> Node | None:
    """The port's call at which a missing one is told that its calls do not read: the last; of a backward the one to go through."""
    theirs = pair.theirs
    if theirs is None or not theirs.backward:
        return end[1].node if end[1] is not None else None
    same = [
        ours.node
        for one, ours in matching.of_first.items()
        if one.node and ours.node and not one.node.backward and (one.node.site, one.node.layer) == (theirs.site, theirs.layer)
    ]
    return next((node for node in reversed(same) if not node.backward), pair.ours)
