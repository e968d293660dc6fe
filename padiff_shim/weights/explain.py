"""Why a match is not complete, and which partners were near."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ..errors import nearest
from . import names
from .mapping import Mapping, Pair
from .tree import Shape, Side, Weight

_REMEDY = 'layer_map={"torch layer": "paddle layer"} says which layers belong together; rules=[("name", None)] leaves weights out.'
_LISTED = 12  # weights of one side that a message names


def incomplete(mapping: Mapping, src: Side, dst: Side) -> str:
    """The message for weights without partner: those of one name and other shapes together, then the others with what is near."""
    total = sum(map(len, mapping.left))
    lines = [f"{total} weight{'s have' if total > 1 else ' has'} no partner; nothing was written."]
    clashes = list(_clashes(mapping))
    if clashes:
        lines.append(f"Other shapes ({mapping.src.title()}, {mapping.dst.title()}):")
        lines += _listed([f"{_shown(mine, src)} and {_shown(yours, dst)}" for mine, yours in clashes])
    for place, (side, other) in enumerate(((src, dst), (dst, src))):
        left = [one for one in mapping.left[place] if not any(one in clash for clash in clashes)]
        free = [one for one in mapping.left[1 - place] if not any(one in clash for clash in clashes)]
        if left:
            lines.append(f"Only in the {side.framework.title()} model:")
            lines += _listed([f"{_shown(one, side)}{_near(one, free, side, other, mapping)}" for one in left])
    lines.append(_REMEDY)
    return "\n".join(lines)


def _listed(lines: list[str]) -> list[str]:
    more = [f"  and {len(lines) - _LISTED} more"] if len(lines) > _LISTED else []
    return [f"  {line}" for line in lines[:_LISTED]] + more


def _clashes(mapping: Mapping) -> Iterator[tuple[Weight, Weight]]:
    """Weights without partner in layers that belong together, of one role: their shapes do not fit."""
    layers = mapping.layers if mapping.src == "torch" else {yours: mine for mine, yours in mapping.layers.items()}
    free = {_place(one.name): one for one in mapping.left[1]}
    for one in mapping.left[0]:
        layer, what = _place(one.name)
        other = free.get((layers.get(layer, ""), what)) if layer in layers else None
        if other is not None:
            yield one, other


def _place(name: str) -> tuple[str, str]:
    """(layer, role) of a weight."""
    return names.parent(name), names.role(names.leaf(name))


def _shown(weight: Weight, side: Side) -> str:
    """Name and shape, and the shape in Torch's layout where that is another one."""
    shape = side.canonical.get(weight.name, weight.shape)
    return f"{weight.name} {_text(weight.shape)}" + (f" (in Torch's layout {_text(shape)})" if shape != weight.shape else "")


def _text(shape: Shape) -> str:
    return str(list(shape))


def _near(weight: Weight, free: list[Weight], side: Side, other: Side, mapping: Mapping) -> str:
    """What is known of the partner that a weight should have: a free one of its shape, its layer's, or one of a similar name."""
    size = sorted(weight.shape)
    fitting = [one for one in free if sorted(one.shape) == size or math.prod(one.shape) == math.prod(weight.shape)]
    if fitting:
        near = nearest(weight.name, [one.name for one in fitting]) or [one.name for one in fitting[:3]]
        return f": of this shape and free: {', '.join(near)}"
    layers = mapping.layers if side.framework == "torch" else {yours: mine for mine, yours in mapping.layers.items()}
    layer = names.parent(weight.name)
    if layer in layers and layer:
        return f": its layer's partner, {layers[layer]}, has no weight for it"
    near = nearest(weight.name, other.weights)
    known = {one.name for one in free}
    words = [f"{name} {_text(other.weights[name].shape)} ({'free' if name in known else 'taken'})" for name in near[:2]]
    return f": nearest in name: {', '.join(words)}" if words else ""


def undecided(pairs: list[Pair]) -> str:
    """The message for square matrices of which nothing tells how they lie."""
    listed = ", ".join(f"{pair.torch} {_text(pair.shape('torch') or ())}" for pair in pairs[:_LISTED])
    return (
        f"two state dicts know no types of layers, and nothing tells whether these square weights have to be transposed: {listed}. "
        "Give a module or layer on one side, or say it in rules=[(name, transpose)] or [(name, as_is)]; nothing was written"
    )
