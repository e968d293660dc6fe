"""Experts: one weight [experts, ...] on one side, a list of layers on the other."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from operator import is_

from . import names
from .choices import Choice, Way, label_of, orders
from .layouts import Blocks, permute, reordered, select
from .pairing import SlotPair
from .tree import Node, Side, Slot, take

_KINDS = (("weight", 3), ("bias", 2))  # roles of what is stacked, with its number of axes


@dataclass(frozen=True)
class _Experts:
    """The layers of one place in all experts, ``up_gate_proj`` of each."""

    path: str  # in an expert
    slots: dict[str, list[Slot]]  # by role, one of each expert

    @property
    def words(self) -> tuple[str, ...]:
        return _words(names.leaf(self.path))


@dataclass(frozen=True)
class _StackOfExperts:
    """Stacked weights that stand for one place, and the layers of the experts that they hold."""

    name: str
    slots: dict[str, Slot]  # by role
    experts: tuple[_Experts, ...]
    list_path: str
    side: str

    def choice(self) -> Choice:
        """The ways in which they may hold them."""
        turns, ways = self._turns(), []
        for turned, blocks in itertools.product(turns, self._blocks()):
            words = ["stacked", *(["[in, out]"] if turned and len(turns) > 1 else []), *self._words_of(blocks)]
            ends = "" if len(turns) == 1 else f", transposed={turned}"
            ways.append(Way("; ".join(words), self._rule(blocks, ends), functools.partial(self._pairs, turned, blocks)))
        parts = [names.joined(self.list_path, str(number), experts.path) for experts in self.experts for number in (0, 1)]
        return Choice(self.name, tuple(parts), self.side, tuple(ways))

    def _rule(self, blocks: Blocks | None, ends: str) -> str:
        """What is to be written for a way."""
        spoken = [repr(names.joined(names.starred(self.list_path), "{}", experts.path)) for experts in self.experts]
        if blocks is None:
            return f"unstack({spoken[0]}{ends})"
        if len(spoken) > 1:
            inside = ", ".join(spoken[part] for part in blocks.order)
            return f"unstack(split({inside}{f', groups={blocks.groups}' if blocks.groups > 1 else ''}){ends})"
        own = ", ".join(self.words)
        other = ", ".join(reversed(self.words)) if blocks.order else own
        torch, paddle = (own, other) if self.side == "torch" else (other, own)
        return f"unstack({spoken[0]}{ends}, inner=gate_up({torch!r}, {paddle!r}))"

    def _words_of(self, blocks: Blocks | None) -> list[str]:
        if blocks is None:
            return []
        if len(self.experts) > 1:
            return [label_of(blocks, self.words)]
        return [f"gate and up {'exchanged' if blocks.order else 'in one order'}"]

    @property
    def words(self) -> tuple[str, ...]:
        return _words(names.leaf(self.name))

    def _turns(self) -> tuple[bool, ...]:
        """Whether the matrices may be [in, out]."""
        slot = self.slots["weight"]
        shapes = [experts.slots["weight"][0].shape for experts in self.experts]
        wanted = (sum(shape[0] for shape in shapes), shapes[0][1])
        return tuple(turned for turned, shape in ((False, slot.shape[1:]), (True, slot.shape[:0:-1])) if shape == wanted)

    def _blocks(self) -> list[Blocks | None]:
        """In which order the matrices may hold theirs; None: there is one of it."""
        if len(self.experts) > 1:
            sizes = [experts.slots["weight"][0].shape[0] for experts in self.experts]
            return list(orders(len(sizes), math.gcd(*sizes)))
        if set(self.words) == {"gate", "up"} and self.words != self.experts[0].words:
            return [Blocks(), Blocks(order=(1, 0))]
        return [None]

    def _pairs(self, turned: bool, blocks: Blocks | None) -> list[SlotPair]:
        pairs = []
        for role, slot in self.slots.items():
            for number in range(slot.shape[0]):
                one = slot._replace(settled=True).at(select(0, number), *((permute(1, 0),) if turned and role == "weight" else ()))
                for inside, other in self._inside(one, [experts.slots[role][number] for experts in self.experts], blocks):
                    pairs.append(SlotPair(*((inside, other) if self.side == "torch" else (other, inside)), "stacked"))
        return pairs

    def _inside(self, slot: Slot, others: list[Slot], blocks: Blocks | None) -> Iterator[tuple[Slot, Slot]]:
        if len(others) > 1 and blocks is not None:
            sizes = tuple(other.shape[0] for other in others)
            for steps, other, size in zip(blocks.steps(0, sizes), others, sizes):
                yield slot.at(*steps), other.at(*blocks.own(0, size))
        elif blocks is not None and blocks.order:
            for mine, yours in reordered(Blocks(), blocks, 0, slot.shape[0]):
                yield slot.at(*mine), others[0].at(*yours)
        else:
            yield slot, others[0]


def stacked(torch_side: Side, paddle_side: Side) -> list[Choice]:
    """The choices of all stacks, which are taken out of the trees."""
    choices = []
    for whole, other in ((torch_side, paddle_side), (paddle_side, torch_side)):
        holders = [(node, held) for node in whole.root.walk() if (held := _stacks_of(node))]
        lists = [node for node in other.root.walk() if node.kind == "list" and holders and _numbered(node)]
        for (node, stacks), experts in _paired(holders, lists):
            for stack in _fitting(node, stacks, experts, whole.framework):
                choices.append(stack.choice())
                for side, slots in (
                    (whole, list(stack.slots.values())),
                    (other, [slot for layers in stack.experts for same in layers.slots.values() for slot in same]),
                ):
                    for slot in slots:
                        take(side, partial(is_, slot))
    return choices


def _paired(
    holders: list[tuple[Node, dict[str, dict[str, Slot]]]], lists: list[Node]
) -> Iterator[tuple[tuple[Node, dict[str, dict[str, Slot]]], Node]]:
    """Layers that hold stacks and lists of as many: by name, else in order."""
    called = {names.words(node.path): node for node in lists}
    for place, holder in enumerate(holders):
        count = next(iter(next(iter(holder[1].values())).values())).shape[0]
        node = called.get(names.words(holder[0].path)) or (lists[place] if len(lists) == len(holders) else None)
        if node is not None and len(node.children) == count:
            yield holder, node


def _fitting(node: Node, stacks: dict[str, dict[str, Slot]], experts: Node, side: str) -> Iterator[_StackOfExperts]:
    """The stacks of a layer with the layers of experts that they hold, by names and shapes."""
    layers = list(_layers_of(experts))
    for leaf, slots in stacks.items():
        words = _words(leaf)
        alone = [layer for layer in layers if sorted(layer.words) == sorted(words)]
        several = [next((layer for layer in layers if layer.words == (word,)), None) for word in words]
        for group in (alone[:1], several):
            if group and all(layer is not None and set(layer.slots) == set(slots) for layer in group):
                stack = _StackOfExperts(names.joined(node.path, leaf), slots, tuple(filter(None, group)), experts.path, side)
                if stack._turns():
                    yield stack
                    break


def _stacks_of(node: Node) -> dict[str, dict[str, Slot]]:
    """The stacks that a layer of the user's own holds itself: name -> role -> slot."""
    if node.kind not in ("", "list"):
        return {}
    whole = [slot for slot in node.slots if slot.weight is not None and not slot.steps and not slot.weight.buffer]
    stacks: dict[str, dict[str, Slot]] = {}
    for role, axes in _KINDS:
        for slot in whole:
            assert slot.weight is not None
            leaf = names.leaf(slot.weight.name)
            place = leaf.removesuffix("_bias").removesuffix(".bias") if role == "bias" else leaf
            if len(slot.weight.shape) == axes and not slot.settled and (place in stacks) is (role == "bias"):
                stacks.setdefault(place, {})[role] = slot
    return stacks


def _layers_of(experts: Node) -> Iterator[_Experts]:
    """The layers that all experts have alike."""
    children = [dict(_within(child)) for child in experts.children]
    for path, first in children[0].items():
        others = [child.get(path) for child in children]
        shapes = {role: slot.shape for role, slot in first.items()}
        if all(other is not None and {role: slot.shape for role, slot in other.items()} == shapes for other in others):
            yield _Experts(path, {role: [other[role] for other in others if other] for role in first})


def _within(expert: Node) -> Iterator[tuple[str, dict[str, Slot]]]:
    for node in expert.walk():
        if node.slots and all(slot.settled and slot.weight is not None and not slot.steps for slot in node.slots):
            yield names.relative(node.path, expert.path), {slot.role: slot for slot in node.slots}


def _numbered(node: Node) -> bool:
    return bool(node.children) and all(names.leaf(child.path) == str(number) for number, child in enumerate(node.children))


def _words(leaf: str) -> tuple[str, ...]:
    """The words that tell a place in an expert from others, in order."""
    telling = tuple(word for word in names.words(leaf) if word in names.telling(leaf) or word.isdigit())
    return telling or names.words(leaf)
