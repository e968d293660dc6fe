"""What a port does otherwise: two regions of calls behind wrong values are laid side by side, and the first difference named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import zip_longest
from typing import Any

import torch

from ..dispatch.site import Site
from .matching import Matching, roots
from .mending import Mend, in_its_place, leads_to, mended
from .pairing import Pair, align, alike, behind, kind, taken_for
from .trace import Node, Operand, Value
from .wording import extent, from_elsewhere, given, role, swapped

WINDOW = 40  # calls of each side that are laid side by side


class Cause(str, Enum):
    """Why two programs part."""

    ATTRIBUTE = "another attribute"
    SWAPPED = "operands swapped"
    CONSTANT = "another constant"
    WEIGHT = "another weight"
    OPERAND = "another operand"
    ORDER = "another arrangement"
    OTHER_OP = "another op"
    MISSING = "an op is missing"
    EXTRA = "an op too many"
    PLACE = "an op in another place"
    UNKNOWN = "other calls"
    OPTIMIZER = "another optimizer"
    SETTING = "another setting of the optimizer"
    RATE = "another learning rate"
    CLIPPING = "another clipping"
    CLEARED = "gradients are not cleared"

    def __str__(self) -> str:
        return self.value


_OTHERWISE_GIVEN = (Cause.OPERAND, Cause.WEIGHT, Cause.SWAPPED, Cause.CONSTANT)


@dataclass(frozen=True)
class Difference:
    """The first place where the second program (the port) does otherwise than the first.

    ``ours`` is the port's call, ``theirs`` the original's; one of them is None where it has no counterpart. ``mend``: the port's
    call whose results have to be exchanged, and by what, for both to go on alike; None where there is no such call.
    """

    cause: Cause
    text: str
    theirs: Node | None
    ours: Node | None
    mend: Mend | None
    sites: tuple[Site, Site] | None = None  # where the elements are arranged, if that is what differs
    taken: tuple[Value, Value] | None = None  # the original's value that a call should be given, and which of its it is given

    @property
    def backward(self) -> bool:
        """Whether it is in the backward."""
        return all(node.backward for node in (self.theirs, self.ours) if node is not None)


def explain(matching: Matching, theirs: Sequence[Node], ours: Sequence[Node]) -> Difference | None:
    """The first difference of two regions (see :func:`.matching.guilty`); None if both are empty."""
    if not theirs and not ours:
        return None
    pairs = _from_the_first(matching, align(matching, theirs[:WINDOW], ours[:WINDOW]), theirs, ours)
    cause, text, pair = _cause(matching, pairs)
    taken = taken_for(matching, pair) if cause in _OTHERWISE_GIVEN else None
    return Difference(cause, text, pair.theirs, pair.ours, mended(matching, pairs), _sites(matching, cause, pair), taken)


def _sites(matching: Matching, cause: Cause, pair: Pair) -> tuple[Site, Site] | None:
    """The first steps on which both arrange an operand otherwise."""
    if cause is not Cause.ORDER or pair.theirs is None or pair.ours is None:
        return None
    for one, other in zip(pair.theirs.operands, pair.ours.operands):
        if one.tensor.shape != other.tensor.shape or not matching.in_order(one.value, one.tensor, other.tensor):
            steps = zip_longest(one.way, other.way)
            step, our = next(((a, b) for a, b in steps if not (a and b and a[:2] == b[:2])), (None, None))
            return (step.site if step else pair.theirs.site), (our.site if our else pair.ours.site)
    return None


def _from_the_first(matching: Matching, pairs: list[Pair], theirs: Sequence[Node], ours: Sequence[Node]) -> list[Pair]:
    """The pairs from the first of the regions' roots on; but from another one that is covered when that is mended."""
    origins = {*roots(theirs, lambda value: value in matching.of_first), *roots(ours, matching.good)}
    places = [place for place, pair in enumerate(pairs) if pair.theirs in origins or pair.ours in origins] or [0]
    first = pairs[places[0]]
    others = [pair for pair in map(pairs.__getitem__, places[1:]) if pair.theirs and pair.ours and not pair.ours.view]
    others = [pair for pair in others if not leads_to(matching, first, pair)]
    mend = mended(matching, pairs[places[0] :]) if others else None
    wrong = [one.value for one in mend[0].operands if not matching.good(one.value)] if mend else []
    for pair in others:
        if any(behind(value, pair.ours, lambda one: not matching.good(one)) for value in wrong):  # type: ignore[arg-type]
            return pairs[pairs.index(pair) :]
    return pairs[places[0] :]


def _cause(matching: Matching, pairs: Sequence[Pair]) -> tuple[Cause, str, Pair]:
    pair = pairs[0]
    if pair.theirs and pair.ours:
        return (*_between(matching, pair.theirs, pair.ours), pair)
    alone = pair.theirs or pair.ours
    assert alone is not None
    arranged = _moved_otherwise(matching, alone, pairs) if alone.moves else None
    if arranged is not None:
        return arranged
    given_otherwise = _given_otherwise(matching, alone, pairs) if pair.ours is None else None
    if given_otherwise is not None:
        return given_otherwise
    elsewhere = next((other for other in pairs[1:] if _counterpart(pair, other)), None)
    following = next((other for other in pairs if other.theirs and other.ours), pair)
    both = Pair(pair.theirs or following.theirs, pair.ours or following.ours)
    if elsewhere is not None:
        return (
            Cause.PLACE,
            f"{alone.name} stands in another place",
            Pair(pair.theirs or elsewhere.theirs, pair.ours or elsewhere.ours),
        )
    if pair.ours is None:
        instead = in_its_place(matching, alone, following, pairs)
        if instead is not None:
            return Cause.OTHER_OP, f"{instead} in place of {alone}", Pair(alone, instead)
        return Cause.MISSING, f"{alone} is missing", both
    return Cause.EXTRA, f"{alone} is too much", both


def _moved_otherwise(matching: Matching, alone: Node, pairs: Sequence[Pair]) -> tuple[Cause, str, Pair] | None:
    """Where both take elements out of one value by other calls, and it was arranged otherwise before."""
    for pair in pairs:
        other = pair.ours if pair.theirs is None else pair.theirs if pair.ours is None else None
        if other is None or not other.moves or (other is pair.theirs) is (alone is pairs[0].theirs):
            continue
        theirs, ours = (alone, other) if alone is pairs[0].theirs else (other, alone)
        for one, two in zip(theirs.operands[:1], ours.operands[:1]):
            same = one.value.node is not None and matching.same(one.value, two.value)
            if same and (one.tensor.shape != two.tensor.shape or not matching.in_order(one.value, one.tensor, two.tensor)):
                return (*_arranged(one, two), Pair(theirs, ours))
    return None


def _given_otherwise(matching: Matching, alone: Node, pairs: Sequence[Pair]) -> tuple[Cause, str, Pair] | None:
    """Where nothing is missing but what reads the result of a call of the original is given another one.

    Either it is given what stands in no trace, for Paddle's kernels computed it (whole numbers, tables of no operand), or what
    another call of that kind made, which is no operand of the missing one.
    """
    following = next((other for other in pairs if other.theirs and other.ours), None)
    if following is None or following.theirs is None or following.ours is None:
        return None
    for one, other in zip(following.theirs.operands, following.ours.operands):
        if one.value.node is None or not _comparable(one, other) or matching.same(one.value, other.value):
            continue
        if not behind(one.value, alone):
            continue
        if other.value.node is None and not other.value.label:
            return (*_constant(one, other), following)
        if other.value.node is None or not matching.good(other.value) or one.value.node is not alone:
            continue
        fed = any(matching.same(two.value, other.value) for two in alone.operands)
        if kind(other.value.node) == kind(alone) and not fed:
            return Cause.OPERAND, from_elsewhere(one, other), following
    return None


def _comparable(one: Operand, other: Operand) -> bool:
    """Whether two operands may be one: so many numbers of one kind."""
    return one.tensor.numel() == other.tensor.numel() and one.tensor.is_floating_point() == other.tensor.is_floating_point()


def _counterpart(pair: Pair, other: Pair) -> bool:
    """Whether ``other`` is the same call that stands alone on the other side: op, attributes, shape and weights."""
    alone, candidate = (pair.theirs, other.ours) if pair.ours is None else (pair.ours, other.theirs)
    if alone is None or candidate is None or (other.theirs and other.ours):
        return False
    same = kind(alone) == kind(candidate) and alone.attributes == candidate.attributes and alike(alone, candidate)
    return same and _weights(alone) == _weights(candidate)


def _weights(node: Node) -> list[tuple[int, ...]]:
    return [tuple(one.tensor.shape) for one in node.operands if one.value.node is None]


def _between(matching: Matching, theirs: Node, ours: Node) -> tuple[Cause, str]:
    """What differs between two calls that stand for each other."""
    if kind(theirs) != kind(ours):
        return Cause.OTHER_OP, f"{ours} in place of {theirs}"
    for one, other in zip(filter(_is_index, theirs.operands), filter(_is_index, ours.operands)):
        if not matching.same(one.value, other.value) and not _complementary(one, other):
            return _constant(_as_meant(one, other) if theirs.name != ours.name else one, other)
    if kind(theirs) == "masked" and theirs.name != ours.name:
        return Cause.OTHER_OP, f"{ours} in place of {theirs}"
    others = [
        f"{name}={_shown(ours.attributes.get(name))} against {_shown(theirs.attributes.get(name))}"
        for name in sorted({*theirs.attributes, *ours.attributes})
        if not _equal(theirs.attributes.get(name), ours.attributes.get(name))
    ]
    if others and theirs.name == ours.name:
        return Cause.ATTRIBUTE, ", ".join(others)
    mine, yours = theirs.operands, ours.operands
    for one, other in zip(mine, yours):
        if matching.same(one.value, other.value):
            continue
        another = next((two for two in mine if two is not one and matching.same(two.value, other.value)), None)
        if another is not None:
            return Cause.SWAPPED, swapped(mine, another, yours, other)
        named = all(two.node is not None or given(two) for two in (one.value, other.value))
        if named and matching.good(other.value):
            cause = Cause.WEIGHT if one.value.node is None is other.value.node else Cause.OPERAND
            return cause, from_elsewhere(one, other)
        if other.value.node is None or one.value.node is None:
            return _constant(one, other)
    if len(mine) != len(yours):
        missing = {one.name for one in mine} ^ {one.name for one in yours}
        return Cause.OPERAND, f"{len(yours)} operands against {len(mine)}" + (f" ({', '.join(sorted(missing))})" if missing else "")
    for one, other in zip(mine, yours):
        if one.tensor.shape != other.tensor.shape or not matching.in_order(one.value, one.tensor, other.tensor):
            return _arranged(one, other)
    return Cause.UNKNOWN, f"{ours} gives other values than {theirs}"


def _is_index(operand: Operand) -> bool:
    """Indices, lengths, masks: what is wrong in them explains more than an attribute."""
    return operand.value.node is None and not operand.tensor.is_floating_point()


def _complementary(one: Operand, other: Operand) -> bool:
    """Whether two masks say the same, the other way round."""
    masks = one.tensor.dtype is torch.bool is other.tensor.dtype
    return masks and one.tensor.numel() == other.tensor.numel() and bool((one.tensor.flatten() != other.tensor.flatten()).all())


def _as_meant(one: Operand, other: Operand) -> Operand:
    """A mask, or its complement if another op's is nearer to that: what is masked, or what is not."""
    if not (one.tensor.dtype is torch.bool is other.tensor.dtype):
        return one
    try:
        here, there = torch.broadcast_tensors(one.tensor, other.tensor)
    except RuntimeError:
        return one
    if 2 * int((here != there).sum()) <= here.numel():
        return one
    return Operand(one.name, Value(one.value.tensor.logical_not()), one.tensor.logical_not(), one.way)


def _arranged(one: Operand, other: Operand) -> tuple[Cause, str]:
    """The same elements in another order."""
    if one.value.node is None and other.value.node is None and one.tensor.shape == other.tensor.shape:
        return _constant(one, other)
    ours, theirs = (", ".join(map(str, operand.way)) or str(list(operand.tensor.shape)) for operand in (other, one))
    return Cause.ORDER, f"{role(other)} is arranged by {ours}, in the original by {theirs}"


def _constant(one: Operand, other: Operand) -> tuple[Cause, str]:
    label = other.value.label or one.value.label
    cause = Cause.WEIGHT if other.value.label and one.value.label and "(" not in label else Cause.CONSTANT
    where = f" ({label})" if label else ""
    try:
        here, there = torch.broadcast_tensors(one.tensor, other.tensor)
    except RuntimeError:
        return cause, f"{role(other)}{where} is {extent(other.value)} against {extent(one.value)}"
    apart = (here != there).nonzero()
    first = tuple(apart[0].tolist()) if len(apart) else (0,) * here.dim()
    mine, yours = (f"{tensor[first].item():g}" for tensor in (here, there))
    place = f"[{', '.join(map(str, first))}]"
    shuffled = len(apart) and _comparable(one, other) and torch.equal(one.value.sorted, other.value.sorted)
    order = "; they are the same in another order" if shuffled else ""
    differing = f"{len(apart)} of {here.numel()} elements differ{order}"
    return cause, f"{role(other)}{where} holds {yours} at {place} against {mine} ({differing})"


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else repr(value)


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, (int, float)) and isinstance(other, (int, float)):
        return abs(one - other) <= 1e-7 * max(abs(one), abs(other)) or one == other
    return bool(one == other)
