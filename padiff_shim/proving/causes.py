"""What a port does otherwise: two regions of calls behind wrong values are laid side by side, and the first difference named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from ..dispatch.site import Site
from .between import between
from .cause import Cause as Cause
from .matching import Matching, roots
from .mending import Mend, ended, in_its_place, leads_to, mended
from .pairing import Pair, align, behind, taken_for
from .trace import Key, Node, Value
from .unpaired import given_otherwise, is_counterpart, missing, moved_otherwise, read_by_none

WINDOW = 40  # calls of each side that are laid side by side


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
    effect: float | None = None  # how far outputs (or gradients) move by mending it; None: not measured
    setting: Key | None = None  # of attributes that many calls have alike: the port's call where that was seen first

    @property
    def backward(self) -> bool:
        """Whether it is in the backward."""
        return all(node.backward for node in (self.theirs, self.ours) if node is not None)


End = tuple[Value | None, Value | None]  # what the original makes in the end, and what the port makes for it


def explain(matching: Matching, theirs: Sequence[Node], ours: Sequence[Node], end: End = (None, None)) -> Difference | None:
    """The first difference of two regions (see :func:`.matching.guilty`) that lead to an end; None if both are empty."""
    if not theirs and not ours:
        return None
    pairs = _from_the_first(matching, align(matching, theirs[:WINDOW], ours[:WINDOW]), theirs, ours)
    cause, text, pair = _cause(matching, pairs)
    mend = mended(matching, pairs)
    if cause is Cause.MISSING and (pair.ours is None or pair.ours.backward):
        pair, mend = Pair(pair.theirs, read_by_none(matching, pair, end)), mend or ended(end)
    elif cause is Cause.EXTRA and mend is None and not (pair.ours and pair.ours.backward):
        mend = ended(end)
    taken = taken_for(matching, pair) if cause in _OTHERWISE_GIVEN else None
    return Difference(cause, text, pair.theirs, pair.ours, mend, _sites(matching, cause, pair), taken)


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
            return pairs[next(place for place in places[1:] if leads_to(matching, pairs[place], pair)) :]
    return pairs[places[0] :]


def _cause(matching: Matching, pairs: Sequence[Pair]) -> tuple[Cause, str, Pair]:
    pair = pairs[0]
    if pair.theirs and pair.ours:
        return (*between(matching, pair.theirs, pair.ours), pair)
    alone = pair.theirs or pair.ours
    assert alone is not None
    arranged = moved_otherwise(matching, alone, pairs) if alone.moves else None
    if arranged is not None:
        return arranged
    otherwise = given_otherwise(matching, alone, pairs) if pair.ours is None else None
    if otherwise is not None:
        return otherwise
    elsewhere = next((other for other in pairs[1:] if is_counterpart(pair, other)), None)
    beside = [other for other in pairs if other.theirs and other.ours]
    following = next((other for other in beside if leads_to(matching, pair, other)), beside[0] if beside else pair)
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
        return Cause.MISSING, missing(alone, pairs), both
    if (lookup := _same_lookup(matching, alone)) is not None:
        return (*between(matching, lookup, alone), Pair(lookup, alone))
    return Cause.EXTRA, f"{alone} is too much", both


def _same_lookup(matching: Matching, alone: Node) -> Node | None:
    """The original's call that looks up the table of a port's, too; of all rows in order it gives the table, and none misses it."""
    if alone.name != "embedding":
        return None
    tables = [operand.value for operand in alone.operands if operand.tensor.is_floating_point()]
    partners = [matching.of_second[table] for table in tables if table in matching.of_second]
    readers = [reader for partner in partners for reader in partner.readers]
    return next((reader for reader in readers if reader.name == alone.name and not reader.backward), None)
