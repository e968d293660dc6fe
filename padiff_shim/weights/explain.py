"""Messages on weights without partner: why they have none, and which weights are near."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TypeVar

from ..errors import nearest
from ..text import many, tr
from . import tree
from .mapping import Mapping
from .pairing import Pair
from .tree import Shape, Weight, WeightSide

_Thing = TypeVar("_Thing")
REMEDY = tr(
    'layer_map={"torch layer": "paddle layer"} says which layers belong together; rules=[("name", None)] leaves weights out.'
)
_LISTED = 12  # weights of one side that a message names
_SPELT = 2000  # names that are looked through letter by letter for one that is spelt alike


def incomplete(mapping: Mapping, src: WeightSide, dst: WeightSide) -> str:
    """The message for weights without partner."""
    head = tr("{weights} without a partner; nothing was written.", weights=many(sum(map(len, mapping.left)), "weight"))
    return "\n".join(map(str, [head, *without_partner(mapping, src, dst), REMEDY]))


def without_partner(mapping: Mapping, src: WeightSide, dst: WeightSide, names: Collection[str] | None = None) -> list[str]:
    """Lines on weights without partner: pairs of one place with other shapes, then the others, each with the nearest weights.

    ``names``: only these weights, and those that clash with them.
    """
    clashes = list(_clashes(mapping))
    left = [[weight for weight in weights if names is None or weight.name in names] for weights in mapping.left]
    shown = [clash for clash in clashes if clash[0] in left[0] or clash[1] in left[1]]
    lines = []
    if shown:
        lines.append(tr("Other shapes ({src}, {dst}):", src=mapping.src.title(), dst=mapping.dst.title()))
        lines += _listed(shown, lambda clash: f"{_shown(clash[0], src)} and {_shown(clash[1], dst)}")
    clashing = {id(weight) for clash in clashes for weight in clash}
    for place, (side, other) in enumerate(((src, dst), (dst, src))):
        alone = [weight for weight in left[place] if id(weight) not in clashing]
        free = [weight for weight in mapping.left[1 - place] if id(weight) not in clashing]
        if alone:
            line = functools.partial(_alone, free=free, side=side, other=other, mapping=mapping)
            lines += [tr("Only in the {title} model:", title=side.framework.title()), *_listed(alone, line)]
    return lines


def in_one_line(lines: Iterable[str]) -> str:
    """The lines as one sentence."""
    text = ""
    for line in lines:
        text += ("; " if text and not text.endswith(":") else " " if text else "") + str(line).strip()
    return text


def _listed(things: Sequence[_Thing], line: Callable[[_Thing], str]) -> list[str]:
    """A line for each of the first things, and the number of the others."""
    more = [tr("  and {things} more", things=len(things) - _LISTED)] if len(things) > _LISTED else []
    return [f"  {line(thing)}" for thing in things[:_LISTED]] + more


def _clashes(mapping: Mapping) -> Iterator[tuple[Weight, Weight]]:
    """Weights without partner in layers that belong together, of one role: their shapes do not fit."""
    layers = mapping.layers_of(mapping.src)
    free = {tree.place_of(weight.name): weight for weight in mapping.left[1]}
    for weight in mapping.left[0]:
        layer, what = tree.place_of(weight.name)
        other = free.get((layers.get(layer, ""), what)) if layer in layers else None
        if other is not None:
            yield weight, other


def _shown(weight: Weight, side: WeightSide) -> str:
    """Name and shape, and the shape in Torch's layout if it differs."""
    shape = side.canonical.get(weight.name, weight.shape)
    return f"{weight.name} {_text(weight.shape)}" + (f" (in Torch's layout {_text(shape)})" if shape != weight.shape else "")


def _alone(weight: Weight, free: list[Weight], side: WeightSide, other: WeightSide, mapping: Mapping) -> str:
    return _shown(weight, side) + _near(weight, free, side, other, mapping)


def _text(shape: Shape) -> str:
    return str(list(shape))


def _near(weight: Weight, free: list[Weight], side: WeightSide, other: WeightSide, mapping: Mapping) -> str:
    """The likely partner of a weight: a free one of its shape, one in its layer's partner, or one of a similar name."""
    size = sorted(weight.shape)
    fitting = [
        candidate for candidate in free if sorted(candidate.shape) == size or math.prod(candidate.shape) == math.prod(weight.shape)
    ]
    if fitting:
        near = _nearest(weight.name, [candidate.name for candidate in fitting]) or [candidate.name for candidate in fitting[:3]]
        return tr(": of this shape and free: {near}", near=", ".join(near))
    layers = mapping.layers_of(side.framework)
    layer = tree.parent(weight.name)
    if layer in layers and layer:
        return tr(": its layer's partner, {layers}, has no weight for it", layers=layers[layer])
    near = _nearest(weight.name, list(other.weights))
    known = {candidate.name for candidate in free}
    words = [f"{name} {_text(other.weights[name].shape)} ({'free' if name in known else 'taken'})" for name in near[:2]]
    return tr(": nearest in name: {words}", words=", ".join(words)) if words else ""


def _nearest(name: str, among: list[str]) -> list[str]:
    """Names that are spelt much like this one; among very many names only those with the same last component."""
    if len(among) > _SPELT:
        among = [other for other in among if tree.last_name(other) == tree.last_name(name)]
    return nearest(name, among[:_SPELT])


def unpaired(name: str, mapping: Mapping, weights: dict[str, dict[str, Weight]]) -> str:
    """Why a rule was not applied to a weight, and which weights are free on the other side."""
    side = next(side for side in weights if name in weights[side])
    free = mapping.left[side == mapping.src]
    if any(name in (pair.torch, pair.paddle) for pair in mapping.pairs):
        return tr("its partner is absent, or an earlier rule says how it is made")
    listed = ", ".join(f"{weight.name} {_text(weight.shape)}" for weight in free[:_LISTED]) or "nothing"
    return tr(
        "{text} has no partner, and the rule does not tell which it is (free on the other side: "
        '{listed}); layer_map={{"torch weight": "paddle weight"}} does',
        text=_text(weights[side][name].shape),
        listed=listed,
    )


def undecided(mapping: Mapping, pairs: Sequence[Pair]) -> str:
    """The message for square matrices whose layout nothing tells."""
    others = {tree.starred(pair.name(mapping.src)) for pair in mapping if pair not in pairs}
    names = [pair.name(mapping.src) for pair in pairs]
    return tr(
        "nothing tells whether these square weights have to be transposed: {reason}.\n{listed}\n"
        "To copy them as they lie: from padiff_shim.weights import as_is; rules=[(name, as_is) for name in {names}]. "
        "To transpose them: transpose in its place. Nothing was written.",
        reason=pairs[0].undecided,
        listed="\n".join(_listed(pairs, lambda pair: f"{pair.name(mapping.src)} {_text(pair.shape(mapping.src) or ())}")),
        names=list(dict.fromkeys(name if tree.starred(name) in others else tree.starred(name) for name in names)),
    )
