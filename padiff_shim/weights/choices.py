"""Weights whose layout neither names nor shapes tell: the ways in which they may lie, one of which a use of them decides."""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from . import names
from .layouts import Blocks, reordered
from .pairing import SlotPair, name_of
from .tree import Slot

_MOST = 96  # ways of one weight that are tried


class Way(NamedTuple):
    """One layout of a weight that holds several.

    Args:
        label: what it is called; equal in all layers of a model that lie so.
        rule: the transform that says it, as it is written in ``rules=``.
        pairs: makes its pairs.
        groups: in how many groups.
    """

    label: str
    rule: str
    pairs: Callable[[], list[SlotPair]]
    groups: int = 1


@dataclass(frozen=True)
class Choice:
    """A weight that holds several of the other side, or the same several in another order.

    Args:
        whole: the name of its layer, or of the weight itself, if a stack holds those of all experts.
        parts: the names of the other side's.
        side: the framework of the whole.
        ways: how it may lie, the first of which is the usual one.
        taken: the one that its use has decided; None as long as none has.
        reason: why it is not decided.
    """

    whole: str
    parts: tuple[str, ...]
    side: str
    ways: tuple[Way, ...]
    taken: Way | None = None
    reason: str = ""

    @property
    def is_open(self) -> bool:
        """Whether there are several ways, and none is taken."""
        return self.taken is None and len(self.ways) > 1

    @property
    def key(self) -> tuple[str, ...]:
        """Equal for the same weights of other layers."""
        return tuple(names.starred(name) for name in (self.whole, *self.parts))

    def pairs(self) -> list[SlotPair]:
        """The pairs of the way that was taken, or of the usual one."""
        way = self.taken or self.ways[0]
        note = f"{way.label}, by its use" if self.taken else way.label if len(self.ways) == 1 else f"{way.label}, undecided"
        return [replace(pair, note=note) for pair in way.pairs()]

    def told(self) -> str:
        """What its use has decided, and how a caller says it."""
        assert self.taken is not None
        rule = f"rules=[({names.starred(self.whole)!r}, {self.taken.rule})]"
        label = self.taken.label.removeprefix("fused: ")
        return f"{self.whole} holds {', '.join(self.parts)}: {label}, told by its use ({rule} says it)"

    def decided(self, label: str) -> Choice:
        """The same with that way taken."""
        return replace(self, taken=next(way for way in self.ways if way.label == label))


def fused(whole: str, parts: Sequence[str], letters: Sequence[str], slots: list[tuple[Slot, list[Slot]]], side: str) -> Choice:
    """The choice of a projection that holds the rows of several.

    Args:
        whole, parts: names of the layers.
        letters: what each part is called.
        slots: (of the whole, of each part) of the weight, the bias...
        side: the framework of the whole.
    """
    sizes = [part.shape[0] for part in slots[0][1]]

    def made(blocks: Blocks) -> list[SlotPair]:
        pairs = []
        for slot, others in slots:
            inside = [slot.at(*steps) for steps in blocks.steps(0, tuple(sizes))]
            own = [part.at(*blocks.own(0, size)) for part, size in zip(others, sizes)]
            pairs += [SlotPair(*((one, other) if side == "torch" else (other, one)), "fused") for one, other in zip(inside, own)]
        return pairs

    spoken = [names.starred(name) for name in parts]
    ways = []
    for blocks in itertools.islice(orders(len(sizes), math.gcd(*sizes)), _MOST):
        listed = ", ".join(repr(spoken[part]) for part in blocks.order)
        groups = f", groups={blocks.groups}" if blocks.groups > 1 else ""
        ways.append(Way(label_of(blocks, letters), f"split({listed}{groups})", functools.partial(made, blocks), blocks.groups))
    return Choice(whole, tuple(parts), side, tuple(ways))


def exchanged(slots: Sequence[SlotPair]) -> Choice | None:
    """The choice of a layer (or weight) of one shape on both sides that holds gate and up, called so in another order on each.

    Returns:
        None if the names do not say that.
    """
    places = [tuple(_place_of(name_of(slot)) for slot in (pair.torch, pair.paddle)) for pair in slots]
    orders_ = [tuple(word for word in names.words(names.leaf(place)) if word in ("gate", "up")) for place in places[0]]
    if sorted(orders_[0]) != ["gate", "up"] or orders_[0] != orders_[1][::-1]:
        return None
    own, other = ", ".join(orders_[0]), ", ".join(orders_[1])
    ways = [Way("gate and up in one order", f"gate_up({own!r}, {own!r})", lambda: list(slots))]
    for axis in (0,) if len(slots[0].torch.shape) < 3 else (1, 2):  # of a stack of experts
        if all(_halves(pair, axis) for pair in slots):
            words, ends = (f" along {axis}", f", axis={axis})") if axis else ("", ")")
            made = functools.partial(_exchanged, slots, axis)
            ways.append(Way(f"gate and up exchanged{words}", f"gate_up({own!r}, {other!r}{ends}", made))
    return Choice(places[0][1], (places[0][0],), "paddle", tuple(ways))


def _place_of(name: str) -> str:
    """The name of a layer's weight or bias as that of the layer; of a bare weight as it is."""
    return names.parent(name) if names.leaf(name) in ("weight", "bias") else name.removesuffix("_bias")


def _halves(pair: SlotPair, axis: int) -> bool:
    return pair.torch.shape == pair.paddle.shape and axis < len(pair.torch.shape) and pair.torch.shape[axis] % 2 == 0


def _exchanged(slots: Sequence[SlotPair], axis: int) -> list[SlotPair]:
    return [
        replace(pair, torch=pair.torch.at(*mine), paddle=pair.paddle.at(*yours), turnable=False)
        for pair in slots
        for mine, yours in reordered(Blocks(), Blocks(order=(1, 0)), axis, pair.torch.shape[axis])
    ]


def by_place(slots: Sequence[SlotPair]) -> dict[tuple[str, str], list[SlotPair]]:
    """Pairs of whole weights by the layers (or bare weights) that they are of."""
    groups: dict[tuple[str, str], list[SlotPair]] = {}
    for pair in slots:
        if pair.torch.weight and pair.paddle.weight and not (pair.torch.steps or pair.paddle.steps):
            groups.setdefault((_place_of(name_of(pair.torch)), _place_of(name_of(pair.paddle))), []).append(pair)
    return groups


def orders(parts: int, common: int) -> Iterator[Blocks]:
    """The orders and groups in which so many parts may lie, usual ones first; ``common``: what divides the rows of each."""
    orders = list(itertools.permutations(range(parts)))
    groups = [number for number in range(1, common + 1) if common % number == 0]
    for order in orders:
        for number in groups if order == orders[0] else [1]:
            yield Blocks(order=order, groups=number)
    for order in orders[1:]:
        for number in groups[1:]:
            yield Blocks(order=order, groups=number)


def label_of(blocks: Blocks, letters: Sequence[str]) -> str:
    order = ", ".join(letters[part] for part in blocks.order)
    return f"fused: rows of {order}" + (f" in each of {blocks.groups} groups" if blocks.groups > 1 else "")


def undecided(choices: Sequence[Choice]) -> str:
    """The message for layouts that nothing decides: what they may be, and what to write."""
    lines = []
    for choice in {choice.key: choice for choice in reversed(choices)}.values():
        ways = choice.ways[:1] + _other(choice)
        labels = " or ".join(way.label.removeprefix("fused: ") for way in ways)
        more = f" (or {len(choice.ways) - len(ways)} other ways)" if len(choice.ways) > len(ways) else ""
        rules = " or ".join(f"rules=[({names.starred(choice.whole)!r}, {way.rule})]" for way in ways)
        lines.append(
            f"nothing tells how {choice.whole} holds {', '.join(choice.parts)}: {labels}{more}; {choice.reason}. Say {rules}"
        )
    return "\n".join(reversed(lines))


def _other(choice: Choice) -> tuple[Way, ...]:
    """The commonest way beside the usual one, as a message names it: by groups for q, k and v, else in another order."""
    by_groups = tuple(way for way in choice.ways if way.groups > 1)
    if len(choice.parts) == 3 and by_groups:
        ends = [re.sub(r"\d+( groups|\))$", r"N\1", text) for text in by_groups[0][:2]]
        return (by_groups[0]._replace(label=f"{ends[0]} (N: the number of key-value heads)", rule=ends[1]),)
    return (tuple(way for way in choice.ways[1:] if way not in by_groups) or choice.ways[1:])[:1]
