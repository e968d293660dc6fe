"""What one program writes as one call, and the other as several in one line: that is one mistake."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .causes import Cause, Difference
from .trace import Key, Node

_BETWEEN = " in place of "


def told_as_one(differences: Sequence[Difference]) -> list[Difference]:
    """Those of which none is a call too many, or a missing one, that goes on with another op's result in its line."""
    kept: list[Difference] = []
    parts: list[dict[Cause, set[Key]]] = []  # of each kept one: the calls of its expression, the port's and the original's
    for difference in differences:
        alone = {Cause.EXTRA: difference.ours, Cause.MISSING: difference.theirs}.get(difference.cause)
        place = next((at for at, keys in enumerate(parts) if alone and _goes_on(alone, keys[difference.cause])), None)
        if place is not None and alone is not None:
            parts[place][difference.cause].add(alone.key)
            kept[place] = replace(kept[place], text=_with(kept[place], difference, alone))
        elif not any(_scales_what_stays(known, difference) for known in kept):
            kept.append(difference)
            parts.append(_expression(difference))
    return kept


def _scales_what_stays(known: Difference, difference: Difference) -> bool:
    """Whether a difference is that of a dropout's divisor, where its mask differs by the same share already."""
    if known.ours is None or difference.ours is None or (known.ours.name, difference.ours.name) != ("bernoulli", "div"):
        return False
    place = known.ours.site, known.ours.layer
    share = known.ours.attributes.get("p")
    return place == (difference.ours.site, difference.ours.layer) and share == difference.ours.attributes.get("other")


def _with(known: Difference, difference: Difference, alone: Node) -> str:
    """The text of a difference, and that of a call that goes on with it."""
    if known.cause is Cause.ATTRIBUTE:
        return f"{known.text}, and {difference.text}"
    before, _, behind = known.text.partition(_BETWEEN)
    return f"{before}, {alone}{_BETWEEN}{behind}" if difference.cause is Cause.EXTRA else f"{before}{_BETWEEN}{behind}, {alone}"


def _expression(difference: Difference) -> dict[Cause, set[Key]]:
    """The calls with which an expression begins that is written otherwise; none if the difference is of another kind."""
    both = difference.cause in (Cause.OTHER_OP, Cause.ATTRIBUTE) and difference.ours and difference.theirs
    return {
        Cause.EXTRA: {difference.ours.key} if both and difference.ours else set(),
        Cause.MISSING: {difference.theirs.key} if both and difference.theirs else set(),
    }


def _goes_on(node: Node, known: set[Key]) -> bool:
    """Whether a call is given the result of one of these, in its own line and layer."""
    made = [one.value.node.key for one in node.operands if one.value.node is not None]
    return any(key in known and (key.site, key.layer) == (node.site, node.layer) for key in made)
