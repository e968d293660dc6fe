"""The pairs that the caller names: ``layer_map``, and the rules that split, join or reshape weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping as Dict, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import is_
from typing import Any, NamedTuple

from ..errors import ArgumentError, described, unknown
from ..text import joined, logged, tr
from . import tree
from .layer_matching import Matcher
from .pairing import BY_MAP, BY_RULE, Pair, fit, name_of, turned
from .reading import view
from .rules import Parts, Reordered, Rules, Stack, captured, filled
from .tree import Blocks, Slot, WeightSide, permute, reordered, select, take


def by_parts(rules: Rules, torch_side: WeightSide, paddle_side: WeightSide) -> list[Pair]:
    """The pairs that ``split``, ``concat``, ``unstack`` and ``stack`` ask for."""
    pairs: list[Pair] = []
    for rule in rules.rules:
        transform = rule.transform
        if not isinstance(transform, (Parts, Stack)):
            continue
        for whole, other in ((torch_side, paddle_side), (paddle_side, torch_side)):
            for name in list(whole.weights):
                for values, ending in _spoken(rule.pattern, name):
                    weight = _Whole(name, whole, other, values, ending)
                    pairs += weight.stacked(transform) if isinstance(transform, Stack) else weight.parts(transform)
                    rule.applied.append(name)
    return pairs


def _spoken(pattern: str, name: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """(values of its wildcards, ending of the parts' names) if a pattern is the name of a weight, or of its layer."""
    for spoken, ending in ((name, ""), (tree.parent(name), tree.last_name(name))):
        values = captured(pattern, spoken) if spoken else None
        if values is not None:
            yield values, ending
            return


@dataclass(frozen=True)
class _Whole:
    """A weight that holds several of the other side, by a rule of the caller's.

    Args:
        name: the weight's name.
        whole, other: its side, and the side of its parts.
        values: the values of the wildcards in the rule's pattern.
        ending: if the pattern is the name of the weight's layer, the name of the weight in it.
    """

    name: str
    whole: WeightSide
    other: WeightSide
    values: tuple[str, ...]
    ending: str

    def parts(self, parts: Parts) -> list[Pair]:
        whole, first = self.whole.weights[self.name], self.other.weights.get(filled(parts.names[0], self.values, "rules"))
        if first is not None and len(whole.shape) == len(first.shape) + 1 and parts.axis == 0 and parts.groups == 1:
            return self.stacked(Stack(parts.names))  # one of each expert
        slot = _slot(self.whole, self.name)
        others = [self._part(filled(name, self.values, "rules")) for name in parts.names]
        return self._pairs(slot, parts, others)

    def stacked(self, stack: Stack) -> list[Pair]:
        slot = _slot(self.whole, self.name, stacked=True)
        patterns = [filled(name, self.values, "rules") for name in stack.names]
        inner = stack.inner
        count = len(patterns) if not isinstance(inner, Parts) and len(patterns) > 1 else slot.shape[0] if slot.shape else 0
        if not count or slot.shape[0] != count:
            raise self._refused(tr("it is {shape}, a stack of {count} weights", shape=list(slot.shape), count=count or tr("no")))
        pairs: list[Pair] = []
        for number in range(count):
            spoken = patterns if isinstance(inner, Parts) else [patterns[number % len(patterns)]]
            others = [self._part(name.replace("{}", str(number))) for name in spoken]
            matrix = self._oriented(slot.at(select(0, number)), others, stack)
            if isinstance(inner, Reordered):
                ends = (matrix, others[0]) if self.whole.framework == "torch" else (others[0], matrix)
                pairs += reordered_pairs(*ends, inner, self._refused)
            else:
                pairs += self._pairs(matrix, inner, others)
        return pairs

    def _part(self, name: str) -> Slot:
        """The slot of a part, by its own name or its layer's."""
        if name in self.other.weights:
            return _slot(self.other, name)
        ending = self.ending or ("bias" if self.name.endswith("bias") else "weight")
        return _slot(self.other, name, tree.joined(name, ending))

    def _oriented(self, slot: Slot, others: list[Slot], stack: Stack) -> Slot:
        """One matrix of a stack in Torch's layout, [out, in]."""
        if len(slot.shape) != 2:
            return slot
        turned = slot.at(permute(1, 0))
        fitting = [way for way in (slot, turned) if _holds(way, others)]
        if stack.transposed is not None:
            return turned if stack.transposed else slot
        if len(fitting) == 2:
            raise self._refused(
                tr(
                    "its matrices {shape} may be [out, in] or [in, out]; say transposed=False or transposed=True",
                    shape=list(slot.shape),
                )
            )
        return fitting[0] if fitting else slot

    def _shares(self, slot: Slot, parts: Parts, others: list[Slot]) -> Iterator[tuple[Slot, Slot]]:
        """(share of the weight, part) of each part."""
        if parts.axis >= len(slot.shape) or any(len(part.shape) != len(slot.shape) for part in others):
            shapes = ", ".join(f"{name_of(part)!r} is {list(part.shape)}" for part in others)
            raise self._refused(
                tr("{shapes}: no part of {shape} along {axis}", shapes=shapes, shape=list(slot.shape), axis=parts.axis)
            )
        sizes = tuple(part.shape[parts.axis] for part in others)
        rows = slot.shape[parts.axis]
        if sum(sizes) != rows:
            raise self._refused(tr("it has {rows} rows, its parts have {sizes} together", rows=rows, sizes=sum(sizes)))
        if any(size % parts.groups for size in sizes):
            raise self._refused(
                tr("{sizes} rows cannot be divided into {groups} groups", sizes=joined(", ", map(str, sizes)), groups=parts.groups)
            )
        return Blocks(groups=parts.groups).split(slot, others, parts.axis)

    def _pairs(self, slot: Slot, parts: Parts | None, others: list[Slot]) -> list[Pair]:
        pairs = []
        for share, part in self._shares(slot, parts, others) if parts else zip([slot], others):
            if share.shape != part.shape:
                raise self._refused(
                    tr(
                        "{part} is {shape} where {whole} is its share",
                        part=repr(name_of(part)),
                        shape=list(part.shape),
                        whole=list(share.shape),
                    )
                )
            pairs.append(Pair.of(self.whole.framework, share, part, BY_RULE))
        return pairs

    def _refused(self, reason: str) -> ArgumentError:
        return ArgumentError("rule for {name}: {reason}", name=repr(self.name), reason=reason)


def _holds(slot: Slot, others: list[Slot]) -> bool:
    """Whether a matrix may hold others, one below the other."""
    shapes = [part.shape for part in others]
    return all(len(shape) == 2 and shape[1:] == slot.shape[1:] for shape in shapes) and sum(s[0] for s in shapes) == slot.shape[0]


def reordered_pairs(
    torch: Slot, paddle: Slot, order: Reordered, refused: Callable[[str], Exception], note: str = BY_RULE
) -> list[Pair]:
    """The pairs of the blocks of two weights that hold the same blocks, each in its own order.

    Raises the error that ``refused`` makes of a reason if they do not.
    """
    if torch.shape != paddle.shape or order.axis >= len(torch.shape):
        raise refused(
            tr(
                "{torch} and {paddle} do not hold the same blocks along {axis}",
                torch=list(torch.shape),
                paddle=list(paddle.shape),
                axis=order.axis,
            )
        )
    ways = reordered(order.torch, order.paddle, order.axis, torch.shape[order.axis])
    if not ways:
        raise refused(tr("{shape} rows cannot be divided into such blocks", shape=torch.shape[order.axis]))
    return [Pair(torch.at(*torch_steps), paddle.at(*paddle_steps), note) for torch_steps, paddle_steps in ways]


def _slot(side: WeightSide, *spoken: str, stacked: bool = False) -> Slot:
    """Take the slot of a weight out of a tree, by the first of some names that it has.

    Matrices of unknown layers lie as their framework's Linear does; stacked ones as they are.
    """
    taken = next((taken for name in spoken if (taken := take(side, partial(_is_called, name)))), None)
    if taken is None:
        raise unknown(tr("weight of the {framework} model", framework=side.framework.title()), spoken[0], side.weights)
    node, slot = taken[0]
    return slot._replace(settled=True) if stacked or node.kind else slot.as_linear()


def _is_called(name: str, slot: Slot) -> bool:
    return slot.weight is not None and slot.weight.name == name


class Used(NamedTuple):
    """Weights that both programs use alike; ``turned``: whether one holds the other transposed, None if unknown."""

    torch: str
    paddle: str
    turned: bool | None = None


BY_USE = logged("paired by its use")


def by_use(used: Sequence[Used], torch_side: WeightSide, paddle_side: WeightSide) -> list[Pair]:
    """The pairs of these weights, as far as they fit."""
    pairs = []
    for use in used:
        torch_holder, paddle_holder = _holder(torch_side, use.torch), _holder(paddle_side, use.paddle)
        if torch_holder is None or paddle_holder is None:
            continue
        (torch, kind), (paddle, other) = torch_holder, paddle_holder
        known = len(torch.shape) == 2 and use.turned is not None
        pair = turned(torch, paddle, bool(use.turned)) if known else fit(torch, paddle, kind or other)
        if pair is not None:
            pairs.append(replace(pair, note=BY_USE))
            take(torch_side, partial(is_, torch))
            take(paddle_side, partial(is_, paddle))
    return pairs


def _holder(side: WeightSide, name: str) -> tuple[Slot, str] | None:
    """The slot of a whole weight, and the kind of its layer."""
    for node in side.root.walk():
        for slot in node.slots:
            if slot.weight is not None and slot.weight.name == name and not slot.steps:
                return slot, node.kind
    return None


def pinned(matcher: Matcher, layer_map: Any, rules: Rules, torch_side: WeightSide, paddle_side: WeightSide) -> None:
    """Match the layers and weights of ``layer_map``, the deepest layers first, and take them out of the trees."""
    pins = sorted(_pins(layer_map, torch_side, paddle_side), key=lambda pin: -pin[0].count("."))
    tnodes, pnodes = torch_side.nodes, paddle_side.nodes
    for torch_name, paddle_name in pins:
        if torch_name in tnodes and paddle_name in pnodes:
            torch_node, paddle_node = tnodes[torch_name], pnodes[paddle_name]
            torch_left, paddle_left = matcher.pair(torch_node, paddle_node, BY_MAP, trusted=True)
            matcher.left[0].extend(torch_left)
            matcher.left[1].extend(paddle_left)
            torch_node.taken = paddle_node.taken = True
            continue
        torch_slot, paddle_slot = _slot(torch_side, torch_name), _slot(paddle_side, paddle_name)
        pair = fit(torch_slot, paddle_slot, "", BY_MAP)
        if pair is None and callable(rules.changing(torch_name, paddle_name)):
            pair = Pair(torch_slot, paddle_slot, BY_MAP)
        if pair is None:
            raise ArgumentError(
                "layer_map: {torch_name} {shape} and {paddle_name} {paddle_shape} differ in shape",
                torch_name=repr(torch_name),
                shape=list(torch_slot.shape),
                paddle_name=repr(paddle_name),
                paddle_shape=list(paddle_slot.shape),
            )
        matcher.slots.append(pair)


def _pins(layer_map: Any, torch_side: WeightSide, paddle_side: WeightSide) -> Iterator[tuple[str, str]]:
    """(Torch name, Paddle name) of all entries of ``layer_map``, with patterns resolved."""
    if not isinstance(layer_map, Dict):
        raise ArgumentError("layer_map= is a dict of layers, Torch's -> Paddle's, got {layer_map}", layer_map=described(layer_map))
    known = [sorted({*side.nodes, *side.weights}) for side in (torch_side, paddle_side)]
    for torch_pattern, paddle_pattern in layer_map.items():
        torch_pattern, paddle_pattern = _layer_name(torch_pattern, torch_side), _layer_name(paddle_pattern, paddle_side)
        captures = [(name, captured(torch_pattern, name)) for name in known[0]]
        matches = [(name, values) for name, values in captures if values is not None]
        if not matches:
            raise unknown(tr("layer of the {framework} model in layer_map", framework="Torch"), torch_pattern, known[0])
        for name, values in matches:
            other = filled(paddle_pattern, values, "layer_map")
            if other not in known[1]:
                raise unknown(tr("layer of the {framework} model in layer_map", framework="Paddle"), other, known[1])
            yield name, other


def _layer_name(layer: Any, side: WeightSide) -> str:
    """The name of a layer, from its name or the layer itself."""
    if isinstance(layer, str):
        return layer
    for name, known_layer in side.objects.items():
        if known_layer is layer:
            return name
    raise ArgumentError(
        "layer_map= takes names of layers, or layers of the {framework} model, got {layer}",
        framework=side.framework.title(),
        layer=described(layer),
    )


def by_changes(rules: Rules, src: WeightSide, sources: list[Slot], targets: list[Slot], layers: Dict[str, str]) -> list[Pair]:
    """Pairs of weights that found no partner, where a rule makes the shape of exactly one target.

    Among several the one of the same name or layer is taken; ``layers``: which layers belong together.
    """

    def fits(source: Slot, target: Slot) -> bool:
        pair = Pair.of(src.framework, source, target)
        change = rules.changing(pair.torch, pair.paddle)
        if not callable(change):
            return False
        try:
            made = change(view(src.tensors[name_of(source)]).clone())
        except Exception:  # it may be meant for other weights that its pattern covers
            return False
        return target.weight is not None and tuple(getattr(made, "shape", ())) == target.weight.shape

    def is_near(source: Slot, target: Slot) -> bool:
        pair = Pair.of(src.framework, source, target)
        names = pair.torch, pair.paddle
        (torch_layer, torch_role), (paddle_layer, paddle_role) = map(tree.place_of, names)
        in_layers = layers.get(torch_layer) == paddle_layer and torch_role == paddle_role
        return in_layers or tree.words_of(names[0]) == tree.words_of(names[1])

    pairs = []
    for slot in sources:
        fitting = [target for target in targets if fits(slot, target)]
        near = [target for target in fitting if is_near(slot, target)] or fitting
        if not near and callable(rules.changing(name_of(slot), name_of(slot))):  # its values say why they do not fit
            near = [target for target in targets if name_of(target) == name_of(slot)]
        if len(near) == 1:
            targets.remove(near[0])
            pairs.append(Pair.of(src.framework, slot, near[0]))
    return pairs
