"""What the caller has said belongs together: ``layer_map``, and the rules that split, join or reshape weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Mapping as Dict
from dataclasses import replace
from functools import partial
from operator import is_
from typing import Any, NamedTuple

from ..errors import ArgumentError, described, unknown
from . import names
from .matching import Matcher
from .pairing import SlotPair, fit, turned
from .rules import Parts, Rules, captured, filled
from .tree import Node, Side, Slot


def name_of(slot: Slot) -> str:
    """The name of a slot's weight; "" if it is absent."""
    return slot.weight.name if slot.weight else ""


def take(side: Side, wanted: Callable[[Slot], bool]) -> list[tuple[Node, Slot]]:
    """Take slots out of a tree."""
    found = []
    for node in side.root.walk():
        found += [(node, slot) for slot in (*node.slots, *node.extras) if wanted(slot)]
        node.slots = [slot for slot in node.slots if not wanted(slot)]
        node.extras = [slot for slot in node.extras if not wanted(slot)]
    return found


def by_parts(rules: Rules, torch_side: Side, paddle_side: Side) -> list[SlotPair]:
    """The pairs that ``split`` and ``concat`` ask for."""
    found: list[SlotPair] = []
    for pattern, parts in rules.parts():
        for whole, other in ((torch_side, paddle_side), (paddle_side, torch_side)):
            for name in list(whole.weights):
                values = captured(pattern, name)
                if values is not None:
                    found += _parted(name, parts, [filled(one, values, "rules") for one in parts.names], whole, other)
    return found


def _parted(name: str, parts: Parts, wanted: list[str], whole: Side, other: Side) -> list[SlotPair]:
    slot = _slot(whole, name)
    found, start = [], 0
    for one in wanted:
        part = _slot(other, one)
        if len(part.shape) != len(slot.shape) or parts.axis >= len(part.shape):
            raise ArgumentError(
                f"rule for {name!r}: {one!r} is {list(part.shape)} and no part of {list(slot.shape)} along {parts.axis}"
            )
        section = slot.part(parts.axis, start, start + part.shape[parts.axis])
        start += part.shape[parts.axis]
        mine, yours = (section, part) if whole.framework == "torch" else (part, section)
        pair = fit(mine, yours, "", "by rule")
        if pair is None:
            raise ArgumentError(f"rule for {name!r}: {one!r} is {list(part.shape)} where {list(section.shape)} is its share")
        found.append(pair)
    if start != slot.shape[parts.axis]:
        raise ArgumentError(f"rule for {name!r}: it has {slot.shape[parts.axis]} rows, its parts have {start} together")
    return found


def _slot(side: Side, name: str) -> Slot:
    """Take the slot of a weight out of a tree; matrices of unknown layers lie as their framework's Linear does."""
    found = take(side, lambda slot: slot.weight is not None and slot.weight.name == name)
    if not found:
        raise unknown(f"weight of the {side.framework.title()} model", name, side.weights)
    node, slot = found[0]
    if slot.settled:
        return slot
    turned = side.framework == "paddle" and len(slot.shape) == 2 and not slot.typed and node.kind == ""
    return (slot.readings()[1] if turned else slot)._replace(settled=True)


class Used(NamedTuple):
    """Weights of both models that their programs use alike; ``turned``: whether one holds the other transposed, if that shows."""

    torch: str
    paddle: str
    turned: bool | None = None


BY_USE = "paired by its use"


def by_use(used: Sequence[Used], torch_side: Side, paddle_side: Side) -> list[SlotPair]:
    """The pairs of these weights; what does not fit is left to the others."""
    found = []
    for one in used:
        mine, yours = _holder(torch_side, one.torch), _holder(paddle_side, one.paddle)
        if mine is None or yours is None:
            continue
        (torch, kind), (paddle, other) = mine, yours
        known = len(torch.shape) == 2 and one.turned is not None
        pair = turned(torch, paddle, bool(one.turned)) if known else fit(torch, paddle, kind or other)
        if pair is not None:
            found.append(replace(pair, note=BY_USE))
            take(torch_side, partial(is_, torch))
            take(paddle_side, partial(is_, paddle))
    return found


def _holder(side: Side, name: str) -> tuple[Slot, str] | None:
    """The slot of a whole weight, and the kind of its layer."""
    for node in side.root.walk():
        for slot in node.slots:
            if slot.weight is not None and slot.weight.name == name and slot.section is None:
                return slot, node.kind
    return None


def pinned(matcher: Matcher, layer_map: Any, torch_side: Side, paddle_side: Side) -> None:
    """Match what the caller says belongs together, the deepest layers first, and take it out of the trees."""
    pins = sorted(_pins(layer_map, torch_side, paddle_side), key=lambda pin: -pin[0].count("."))
    tnodes, pnodes = torch_side.nodes, paddle_side.nodes
    for mine, yours in pins:
        if mine in tnodes and yours in pnodes:
            torch_node, paddle_node = tnodes[mine], pnodes[yours]
            ours, theirs = matcher.pair(torch_node, paddle_node, "by layer_map", trusted=True)
            matcher.left[0].extend(ours)
            matcher.left[1].extend(theirs)
            torch_node.taken = paddle_node.taken = True
            continue
        ours_, theirs_ = _slot(torch_side, mine), _slot(paddle_side, yours)
        pair = fit(ours_, theirs_, "", "by layer_map")
        if pair is None:
            raise ArgumentError(f"layer_map: {mine!r} {list(ours_.shape)} and {yours!r} {list(theirs_.shape)} differ in shape")
        matcher.slots.append(pair)


def _pins(layer_map: Any, torch_side: Side, paddle_side: Side) -> Iterator[tuple[str, str]]:
    """(Torch name, Paddle name) of everything in ``layer_map``, patterns resolved."""
    if layer_map is None:
        return
    if not isinstance(layer_map, Dict):
        raise ArgumentError(f"layer_map= is a dict of layers, Torch's -> Paddle's, got {described(layer_map)}")
    known = [sorted({*side.nodes, *side.weights}) for side in (torch_side, paddle_side)]
    for mine, yours in layer_map.items():
        mine, yours = _layer_name(mine, torch_side), _layer_name(yours, paddle_side)
        found = [(name, captured(mine, name)) for name in known[0]]
        matches = [(name, values) for name, values in found if values is not None]
        if not matches:
            raise unknown("layer of the Torch module in layer_map", mine, known[0])
        for name, values in matches:
            other = filled(yours, values, "layer_map")
            if other not in known[1]:
                raise unknown("layer of the Paddle model in layer_map", other, known[1])
            yield name, other


def _layer_name(layer: Any, side: Side) -> str:
    """The name of a layer that is given as a name or an object."""
    if isinstance(layer, str):
        return layer
    for name, held in side.objects.items():
        if held is layer:
            return name
    raise ArgumentError(
        f"layer_map= takes names of layers, or layers of the {side.framework.title()} model, got {described(layer)}"
    )


def by_rule(matcher: Matcher, rules: Rules) -> list[SlotPair]:
    """Pairs of what found no partner by shape, but whose values a function of the caller's changes."""
    ts, ps = ([slot for node in side for slot in node.slots if slot.weight] for side in matcher.left)
    paired = {name_of(pair.torch) for pair in matcher.slots}, {name_of(pair.paddle) for pair in matcher.slots}
    ts, ps = [s for s in ts if name_of(s) not in paired[0]], [s for s in ps if name_of(s) not in paired[1]]
    found = []
    for mine in ts:
        fitting = [yours for yours in ps if callable(rules.transform(name_of(mine), name_of(yours))) and mine.role == yours.role]
        same = [yours for yours in fitting if names.words(name_of(yours)) == names.words(name_of(mine))]
        sized = [yours for yours in fitting if yours.size == mine.size]
        if same or sized:
            chosen = (same or sized)[0]
            ps.remove(chosen)
            found.append(SlotPair(mine, chosen))
    return found
