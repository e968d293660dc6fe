"""Why a match is not complete, and which partners were near."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ..errors import nearest
from .mapping import Mapping, Pair
from .tree import Weight

_LISTED = 12  # weights of one side that a message names


def incomplete(mapping: Mapping, weights: tuple[Iterable[Weight], Iterable[Weight]]) -> str:
    """The message for weights without partner.

    Args:
        mapping: the match.
        weights: all weights of the source, and of the target.
    """
    total = sum(map(len, mapping.left))
    lines = [f"{total} weight{'s have' if total > 1 else ' has'} no partner; nothing was written."]
    known = [list(side) for side in weights]
    for place, framework in enumerate((mapping.src, mapping.dst)):
        left = mapping.left[place]
        if left:
            lines.append(f"In the {framework.title()} model:")
            lines += [
                f"  {one.name} {list(one.shape)}{_near(one, mapping.left[1 - place], known[1 - place])}" for one in left[:_LISTED]
            ]
            if len(left) > _LISTED:
                lines.append(f"  and {len(left) - _LISTED} more")
    lines.append(
        'layer_map={"torch layer": "paddle layer"} says which layers belong together, rules=[("name", None)] leaves weights out.'
    )
    return "\n".join(lines)


def _near(weight: Weight, left: list[Weight], every: list[Weight]) -> str:
    """The nearest candidates of a weight: free ones of its shape, or else those of a similar name."""
    size = sorted(weight.shape)
    fitting = [one for one in left if sorted(one.shape) == size or math.prod(one.shape) == math.prod(weight.shape)]
    if fitting:
        near = nearest(weight.name, [one.name for one in fitting]) or [one.name for one in fitting[:3]]
        return f": free and of its shape: {', '.join(near)}"
    for group, word in ((left, "free"), (every, "taken")):
        near = nearest(weight.name, [one.name for one in group])
        if near:
            shapes = {one.name: list(one.shape) for one in group}
            return f": nearest: {', '.join(f'{name} {shapes[name]} ({word})' for name in near[:2])}"
    return ""


def undecided(pairs: list[Pair]) -> str:
    """The message for square matrices of which nothing tells how they lie."""
    names = ", ".join(f"{pair.torch} {list(pair.shape('torch') or ())}" for pair in pairs[:_LISTED])
    return (
        f"two state dicts know no types of layers, and nothing tells whether these square weights have to be transposed: {names}. "
        "Give a module or layer on one side, or say it in rules=[(name, transpose)] or [(name, as_is)]; nothing was written"
    )
