"""The two questions about weights: which belong together, and, once that is known, take them over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import TransferError
from . import explain
from .explicit import Used, by_parts, by_rule, by_use, name_of, pinned, take
from .layers import Correspondence
from .mapping import Mapping, Pair
from .matching import Matcher
from .pairing import SlotPair
from .rules import Rules
from .sides import OTHER, read_both
from .tree import Side, Weight
from .values import prepared
from .writing import write_all


def transfer_weights(src: Any, dst: Any, *, layer_map: Any = None, rules: Any = None) -> Mapping:
    """Take all weights and buffers of a Torch module to a Paddle layer, or the other way round.

    Partners are found by the trees of layers, their types, shapes, names and order of construction; each kind of layer is copied
    as both frameworks lay it out (the transposed weight of a Linear, the fused projections of an attention...). Every value is made
    and checked before the first one is written, and if writing fails, what was written is taken back.

    Args:
        src: a ``torch.nn.Module``, ``paddle.nn.Layer``, state dict (tensors of either framework, or arrays) or path of one
            (``.pdparams``, ``.pt``, ``.pth``, ``.bin``, ``.safetensors``).
        dst: a module, layer or state dict of the other framework. Its tensors stay the same objects, with their dtypes and devices.
        layer_map: {name, pattern or object of a layer of the Torch module: the same of the Paddle layer}; names of single weights
            are accepted, too. ``*`` stands for one component of a name, and for the same one on the other side.
        rules: pairs ``(pattern, transform)`` and functions, see :mod:`padiff_shim.weights.rules`.

    Returns:
        The :class:`Mapping`, which prints itself as a table.

    Raises:
        TransferError: a weight has no partner, or its values do not fit; nothing was written.
        ArgumentError: an argument that is not accepted; the message says what is.
        FileError: a file that cannot be read, or holds more than plain data.
    """
    sides = read_both(src, dst, writes=True)
    mapping = _match(*sides, layer_map, rules)
    if not mapping:
        raise TransferError(explain.incomplete(mapping, *sides), mapping)
    undecided = [pair for pair in mapping.pairs if pair.undecided]
    if undecided:
        raise TransferError(explain.undecided(undecided), mapping)
    write_all(prepared(mapping, *sides))
    return mapping


def carry(mapping: Mapping, src: Any, dst: Any) -> None:
    """Take all values across between the two models of a complete match, in either direction; or between the trees it was found by.

    Raises:
        TransferError: values do not fit; nothing was written.
    """
    write_all(prepared(mapping, *read_both(src, dst, writes=True)))


def match(src: Any, dst: Any, *, layer_map: Any = None, rules: Any = None, used: Sequence[Used] = ()) -> Mapping:
    """Which weights and layers of two models belong together; nothing is written, and nothing has to be complete.

    Arguments as for :func:`transfer_weights`; ``dst`` may be a path as well. What found no partner is in ``unmatched_src`` and
    ``unmatched_dst``, and makes the mapping false. ``used``: weights that belong together by their use in a program.
    """
    return _match(*read_both(src, dst), layer_map, rules, used)


def _match(src: Side, dst: Side, layer_map: Any, given: Any, used: Sequence[Used] = ()) -> Mapping:
    """The mapping of two trees, which are used up."""
    torch_side, paddle_side = (src, dst) if src.framework == "torch" else (dst, src)
    rules = Rules(given)
    rules.check([*torch_side.weights, *paddle_side.weights])
    for side in (src, dst):
        side.root.number()
    growing = Correspondence(torch_side, paddle_side)
    weights = {side.framework: side.weights for side in (src, dst)}
    out = {name for side in (src, dst) for name in side.weights if rules.left_out(name)}
    for side in (src, dst) if out else ():
        take(side, lambda slot: slot.weight is not None and slot.weight.name in out)
    matcher = Matcher(src.ordered and dst.ordered)
    matcher.slots += by_parts(rules, torch_side, paddle_side)
    matcher.slots += by_use(used, torch_side, paddle_side)
    pinned(matcher, layer_map, torch_side, paddle_side)
    matcher.match(torch_side.root, paddle_side.root)
    matcher.slots += by_rule(matcher, rules)
    known = [*matcher.scopes, *((unit.torch, unit.paddle) for unit in matcher.units)]
    layers = growing.complete(known, [(name_of(pair.torch), name_of(pair.paddle)) for pair in matcher.slots])
    matcher.slots += _extras(growing)
    pairs = [_pair(slots, rules) for slots in matcher.slots]
    order = {name: place for place, name in enumerate(weights[src.framework])}
    pairs.sort(key=lambda pair: (order.get(pair.name(src.framework), len(order)), pair.slot(src.framework).section or (0, 0, 0)))
    left = {side.framework: _left(weights[side.framework], pairs, side.framework, out) for side in (src, dst)}
    mapping = Mapping(src.framework, pairs, layers, (left[src.framework], left[dst.framework]))
    _say_ties(mapping, weights)
    mapping.notes += _padding(layers, paddle_side)
    if out:
        mapping.notes.append(f"left out by rules: {', '.join(sorted(out))}")
    return mapping


def _pair(slots: SlotPair, rules: Rules) -> Pair:
    rule = rules.transform(name_of(slots.torch), name_of(slots.paddle))
    free = rule is None
    pair = Pair(slots.torch, slots.paddle, slots.note, rule, slots.undecided and free, slots.doubted, slots.turnable and free)
    if slots.torch.weight and slots.paddle.weight and slots.torch.weight.dtype != slots.paddle.weight.dtype:
        pair = pair.noted(f"{slots.torch.weight.dtype} and {slots.paddle.weight.dtype}")
    return pair


def _extras(growing: Correspondence) -> list[SlotPair]:
    """Pairs of the buffers that may lack a partner: those of one role and shape in two layers."""
    found = []
    for mine, yours in growing.of.items():
        for slot in mine.extras:
            other = next((one for one in yours.extras if (one.role, one.shape) == (slot.role, slot.shape)), None)
            if other is not None:
                found.append(SlotPair(slot, other))
    return found


def _left(weights: dict[str, Weight], pairs: list[Pair], framework: str, out: set[str]) -> list[Weight]:
    """The weights that are not, or not wholly, in a pair, and neither tied to one that is, nor optional."""
    covered: dict[Any, int] = {}
    for pair in pairs:
        slot = pair.slot(framework)
        if slot.weight is not None:
            size = slot.weight.shape and _size(slot.weight) if slot.section is None else slot.size
            covered[slot.weight.key] = covered.get(slot.weight.key, 0) + int(size or 1)
    return [
        weight
        for name, weight in weights.items()
        if name not in out and not weight.optional and (weight.key not in covered or covered[weight.key] < _size(weight))
    ]


def _size(weight: Weight) -> int:
    size = 1
    for axis in weight.shape:
        size *= axis
    return size


def _say_ties(mapping: Mapping, weights: dict[str, dict[str, Weight]]) -> None:
    """Say where one side shares a weight and the other does not: they part in training."""
    for framework in ("torch", "paddle"):
        other = OTHER[framework]
        groups: dict[Any, list[str]] = {}
        for name, weight in weights[framework].items():
            groups.setdefault(weight.key, []).append(name)
        for tied in (names for names in groups.values() if len(names) > 1):
            partners = {
                slot.weight.key: slot.weight.name
                for slot, mine in ((pair.slot(other), pair.slot(framework)) for pair in mapping.pairs)
                if slot.weight and mine.weight and mine.weight.name in tied and mine.section is None
            }
            if len(partners) > 1:
                mapping.notes.append(
                    f"{' and '.join(tied)} are one tensor in {framework.title()}, but "
                    f"{' and '.join(partners.values())} are several in {other.title()}: they part in training"
                )


def _padding(layers: dict[str, str], paddle_side: Side) -> list[str]:
    """Paddle's embeddings whose padding row counts as zeros whatever it holds; Torch reads what is there."""
    found = []
    for name in layers.values():
        row = getattr(paddle_side.objects.get(name), "_padding_idx", None)
        if row is not None and row != -1:
            found.append(f"{name}: Paddle reads row {row} as zeros (padding_idx), Torch reads what it holds")
    return found
