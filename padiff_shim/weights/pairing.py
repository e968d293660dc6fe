"""Which weights of two paired layers belong together, and how each of them lies.

Also weights that hold several of the other side: fused projections, and stacks of experts.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import is_
from typing import Any, NamedTuple

from torch import Tensor, as_tensor, from_numpy

from ..errors import ArgumentError
from ..text import logged, marked, tr
from . import tree
from .reading import view
from .rules import Array, Cast, Moves, adjoint, is_affine
from .tree import (
    AS_IS,
    FLAT,
    OTHER,
    TRANSPOSED,
    Blocks,
    LayerNode,
    Shape,
    Slot,
    WeightSide,
    canonical,
    grouped,
    in_words,
    permute,
    reordered,
    select,
    take,
    unflatten,
)

ORDER = logged("paired by order")
SQUARE = "square"
BY_RULE, BY_MAP, AS_DESCRIBED = logged("by rule"), logged("by layer_map"), logged("as its description says")


def name_of(slot: Slot) -> str:
    """The name of a slot's weight; "" if it is absent."""
    return slot.weight.name if slot.weight else ""


@dataclass(frozen=True)
class Pair:
    """A weight of the Torch module, or a part of it, and its partner in the Paddle layer.

    Args:
        torch_slot, paddle_slot: the places of the weight in both models.
        note: a remark for the reader.
        rule: a function of the caller that makes the values of one side from the other's, or None.
        rule_from: the side whose values are the function's argument.
        moves: how the function moves elements, if it does nothing else to them.
        cast: set if values may be rounded on the way.
        undecided: why nothing tells whether a square matrix has to be transposed; "" if something does.
        doubted: whether another weight would fit as well, so that only the order of construction decides.
        turnable: whether it is a square matrix of which a layer of unknown type does not say how it lies.
        lies: of a Linear's matrix in a state dict, the layout that its shape shows, or :data:`SQUARE`, which shows none.
    """

    torch_slot: Slot
    paddle_slot: Slot
    note: str = ""
    rule: Callable[[Any], Any] | None = None
    rule_from: str = "torch"
    moves: Moves | None = None
    cast: Cast | None = None
    undecided: str = ""
    doubted: bool = False
    turnable: bool = False
    lies: str = ""

    @classmethod
    def of(cls, side: str, own: Slot, other: Slot, note: str = "") -> Pair:
        """The pair of a slot of that side and one of the other."""
        return cls(own, other, note) if side == "torch" else cls(other, own, note)

    @property
    def is_explicit(self) -> bool:
        """Whether the caller, or a description, says that the slots belong together."""
        return self.note in (BY_RULE, BY_MAP, AS_DESCRIBED)

    @property
    def slots(self) -> tuple[Slot, Slot]:
        return self.torch_slot, self.paddle_slot

    def slot(self, framework: str) -> Slot:
        return self.torch_slot if framework == "torch" else self.paddle_slot

    def name(self, framework: str) -> str:
        """The name on one side; "" if that side has no such weight."""
        return name_of(self.slot(framework))

    @property
    def torch(self) -> str:
        """The name in the Torch module's ``state_dict``."""
        return self.name("torch")

    @property
    def paddle(self) -> str:
        """The name in the Paddle layer's ``state_dict``."""
        return self.name("paddle")

    def shape(self, framework: str) -> Shape | None:
        """The stored shape of the whole weight on one side; None if that side has no such weight."""
        weight = self.slot(framework).weight
        return weight.shape if weight else None

    @property
    def transform(self) -> str:
        """The transformation on the way, in words; "" for a plain copy."""
        if self.rule is not None:
            return marked("by rule")
        if self.torch_slot.weight is None or self.paddle_slot.weight is None:
            return marked("absent")
        ends = dict.fromkeys(in_words(self.slot(side)) for side in (self.rule_from, OTHER[self.rule_from]))
        words = [" to ".join(filter(None, ends))] if any(ends) else []
        layouts = {self.torch_slot.layout, self.paddle_slot.layout}
        if "transposed" in layouts and len(layouts) > 1:
            words.append(marked("transposed"))
        elif self.torch_slot.steps == self.paddle_slot.steps and self.shape("torch") != self.shape("paddle"):
            words.append(marked("reshaped"))
        return ", ".join(words)

    @property
    def is_exact(self) -> bool:
        """Whether each side's whole weight holds the elements of the other's, rearranged."""
        whole = self.torch_slot.whole and self.paddle_slot.whole
        return whole and (self.rule is None or (self.moves is not None and self.moves.inverse is not None))

    @functools.cached_property
    def has_gradient(self) -> bool:
        """Whether the gradients of both sides can be compared: they cannot if a function on the way is no affine map."""
        shape = self.shape(self.rule_from)
        return self.rule is None or self.moves is not None or (shape is not None and is_affine(self.rule, shape))

    def in_common(self, framework: str, values: Array, *, gradient: bool = False) -> Array | None:
        """Values or a gradient of one side's weight in the layout in which both sides are compared; None if there is none.

        Without a function this is the canonical layout of the pair. With a function f of the caller, w' = f(w), values are compared
        as f(w) and w', and gradients as g and J^T g', where J is the Jacobian of f: for one loss, g = J^T g'. If f only moves
        elements, both are rearrangements, exact to the last bit.
        """
        if self.rule is None:
            laid_out: Array = canonical(self.slot(framework), values)
            return laid_out
        is_source = framework == self.rule_from
        if self.moves is not None:
            return self.moves.of(values) if is_source else values
        if not gradient:
            return as_tensor(self.rule(from_numpy(values.copy()))).numpy() if is_source else values
        if not self.has_gradient:
            return None
        return values if is_source else adjoint(self.rule, self.shape(self.rule_from) or (), values)

    def values(self, side: WeightSide) -> Tensor:
        """The present values of one side, in the layout in which both are compared.

        Raises:
            ArgumentError: the side belongs to another model.
        """
        slot = self.slot(side.framework)
        weight = slot.weight
        assert weight is not None
        now = side.weights.get(weight.name)
        if now is None or now.shape != weight.shape:
            raise ArgumentError(
                "the mapping was made for another {framework} model: {name} {shape}",
                framework=side.framework.title(),
                name=repr(weight.name),
                shape=list(weight.shape),
            )
        values = view(side.tensors[weight.name])
        if self.rule is None:
            return canonical(slot, values).cpu()
        return (as_tensor(self.rule(values.clone())) if self.rule_from == side.framework else values).cpu()

    def to_dict(self) -> dict[str, Any]:
        """The pair as plain data."""
        shapes = {side: self.shape(side) for side in ("torch", "paddle")}
        return {
            "torch": self.torch or None,
            "paddle": self.paddle or None,
            **{f"{side}_shape": None if shape is None else list(shape) for side, shape in shapes.items()},
            "transform": self.transform,
            "note": self.note,
        }

    def noted(self, note: str) -> Pair:
        """The pair with a further note."""
        return replace(self, note="; ".join(filter(None, (self.note, note)))) if note not in self.note else self


def pair_slots(torch: LayerNode, paddle: LayerNode, ordered: bool = True, note: str = "") -> list[Pair]:
    """The pairs of the weights of two units: by role, then by shape and the words of their names, then in order of construction.

    The order of construction pairs nothing unless it is known, or there is no choice.
    """
    left = _Left(list(torch.slots), list(paddle.slots), torch.kind or paddle.kind, note)
    pairs = left.by_role()
    for words in (tree.plain, tree.telling_words):
        pairs += left.by_words(words, ordered)
    pairs += left.by_order(ordered)
    pairs += left.but_for_ones()
    # A weight that only stands for an absent one needs no partner.
    absent = [Pair(Slot(slot.role, None, slot.shape, fill=slot.neutral), slot) for slot in left.ps if slot.neutral is not None]
    return pairs + absent


@dataclass
class _Left:
    """The weights of two units that have no partner yet."""

    ts: list[Slot]
    ps: list[Slot]
    kind: str
    note: str

    def _take(self, pair: Pair, torch_slot: Slot, paddle_slot: Slot) -> Pair:
        self.ts.remove(torch_slot)
        self.ps.remove(paddle_slot)
        return pair

    def _fitting(self, torch_slot: Slot, by_role: bool) -> list[tuple[Slot, Pair]]:
        pairs = (
            (paddle_slot, fit(torch_slot, paddle_slot, self.kind, self.note))
            for paddle_slot in self.ps
            if _may(torch_slot, paddle_slot, by_role)
        )
        return [(paddle_slot, pair) for paddle_slot, pair in pairs if pair is not None]

    def by_role(self) -> list[Pair]:
        pairs = []
        for torch_slot in list(self.ts):
            fitting = self._fitting(torch_slot, True)
            pairs += [self._take(pair, torch_slot, paddle_slot) for paddle_slot, pair in fitting[:1]]
        return pairs

    def but_for_ones(self) -> list[Pair]:
        """Weights of one role and of shapes that differ in axes of one alone."""
        pairs = []
        for torch_slot in list(self.ts):
            fitting = ((slot, alike_but_for_ones(torch_slot, slot)) for slot in self.ps if slot.role == torch_slot.role)
            pairs += [self._take(pair, torch_slot, slot) for slot, pair in fitting if pair is not None][:1]
        return pairs

    def by_words(self, words: Callable[[str], Hashable], ordered: bool) -> list[Pair]:
        """Weights whose names have the same words, if there are as many on either side."""
        groups, partners = (grouped(slots, lambda slot: words(slot.role)) for slots in (self.ts, self.ps))
        paired = []
        for key, torch_slots in groups.items():
            paddle_slots = partners.get(key, [])
            if not key or len(torch_slots) != len(paddle_slots) or (len(torch_slots) > 1 and not ordered):
                continue
            pairs = [
                fit(torch_slot, paddle_slot, self.kind, self.note) if _may(torch_slot, paddle_slot, False) else None
                for torch_slot, paddle_slot in zip(torch_slots, paddle_slots)
            ]
            if all(pairs):
                order = len(torch_slots) > 1 and any(
                    _numbers(torch_slot) != _numbers(paddle_slot) for torch_slot, paddle_slot in zip(torch_slots, paddle_slots)
                )
                paired += [
                    self._take(_by_order(pair) if order else pair, torch_slot, paddle_slot)
                    for pair, torch_slot, paddle_slot in zip(pairs, torch_slots, paddle_slots)
                    if pair
                ]
        return paired

    def by_order(self, ordered: bool) -> list[Pair]:
        choices = [[paddle_slot for paddle_slot, _ in self._fitting(torch_slot, False)] for torch_slot in self.ts]
        pairs = []
        for torch_slot, choice in zip(list(self.ts), choices):
            fitting = self._fitting(torch_slot, False)
            if len(fitting) == 1 or (fitting and ordered):
                paddle_slot, pair = fitting[0]
                several = (
                    len(choice) > 1 or sum(any(candidate is paddle_slot for candidate in candidates) for candidates in choices) > 1
                )
                pairs.append(self._take(_by_order(pair) if several else pair, torch_slot, paddle_slot))
        return pairs


def _by_order(pair: Pair) -> Pair:
    return replace(pair, note="; ".join(filter(None, (pair.note, ORDER))), doubted=True)


def _numbers(slot: Slot) -> list[str]:
    return sorted(word for word in tree.words_of(slot.role) if word.isdigit())


_NAMED = re.compile(r"weight|bias|running_(mean|var)|(weight|bias)_(ih|hh|hr)_l\d+(_reverse)?|magnitude of axis \d|spectral [uv]")


def _may(torch: Slot, paddle: Slot, by_role: bool) -> bool:
    """Whether two roles may pair: different roles that both frameworks have do not, for a bias is no weight."""
    if torch.role == paddle.role:
        return True
    return not by_role and not (_NAMED.fullmatch(torch.role) and _NAMED.fullmatch(paddle.role))


def fit(torch: Slot, paddle: Slot, kind: str, note: str = "") -> Pair | None:
    """The two slots in layouts with one canonical shape; None if there are none.

    Where a layout is open, the usual one of the partner's kind of layer is tried first.
    """
    ways = [
        (torch_reading, paddle_reading)
        for torch_reading in torch.readings()
        for paddle_reading in paddle.readings()
        if torch_reading.shape == paddle_reading.shape
        and _plausible(torch, torch_reading, paddle_reading)
        and _plausible(paddle, paddle_reading, torch_reading)
    ]
    if not ways:
        return None
    usual = (torch.linear or AS_IS, paddle.linear or TRANSPOSED) if kind == "linear" else (AS_IS, AS_IS)
    if torch.settled != paddle.settled:
        ways.sort(key=lambda way: _unusual(torch, way[0], usual[0]) + _unusual(paddle, way[1], usual[1]))
    else:
        ways.sort(key=lambda way: (FLAT in (way[0].layout, way[1].layout), way[0].layout != way[1].layout))
    torch_reading, paddle_reading = ways[0]
    open_ = _is_square(torch_reading) and not (torch.settled and paddle.settled)
    undecided = tr("two state dicts know no types of layers") if open_ and not (torch.typed or paddle.typed) else ""
    notes = "; ".join(filter(None, (note, _remark(torch, paddle, torch_reading, paddle_reading))))
    lies = ""
    if kind == "linear" and torch.typed != paddle.typed and len(torch_reading.shape) == 2:
        untyped = paddle_reading if torch.typed else torch_reading
        assert untyped.weight is not None
        lies = SQUARE if len(set(untyped.weight.shape)) == 1 else untyped.layout
    return Pair(torch_reading, paddle_reading, notes, undecided=undecided, turnable=open_, lies=lies)


def without_ones(shape: Shape) -> Shape:
    """A shape without its axes of one."""
    return tuple(size for size in shape if size != 1)


def alike_but_for_ones(torch: Slot, paddle: Slot) -> Pair | None:
    """The pair of two slots whose shapes differ in axes of one alone: of a Linear and a 1x1 convolution; None of others."""
    if without_ones(torch.shape) != without_ones(paddle.shape) or torch.weight is None or paddle.weight is None:
        return None
    if len(torch.shape) > len(paddle.shape):
        return Pair(torch, _with_ones(paddle, torch.shape))
    return Pair(_with_ones(torch, paddle.shape), paddle)


def _with_ones(slot: Slot, shape: Shape) -> Slot:
    """A slot in a shape with other axes of one: each axis takes those behind it, the first also those in front."""
    if slot.shape == shape:
        return slot
    sizes = without_ones(shape)
    if not sizes:  # a number
        return slot._replace(layout=FLAT, shape=(1,)).at(unflatten(0, *shape))
    for axis in reversed(range(len(slot.shape))):
        slot = slot.at(select(axis, 0)) if slot.shape[axis] == 1 else slot
    begins = [0, *[place for place, size in enumerate(shape) if size != 1][1:], len(shape)]
    for axis in reversed(range(len(sizes))):
        slot = slot.at(unflatten(axis, *shape[begins[axis] : begins[axis + 1]]))
    return slot


def turned(torch: Slot, paddle: Slot, transposed: bool) -> Pair | None:
    """The pair of two matrices, one of which holds the other transposed, or not; None if the shapes do not allow it."""
    for torch_reading in torch.readings():
        for paddle_reading in paddle.readings():
            layouts = torch_reading.layout, paddle_reading.layout
            fits = torch_reading.shape == paddle_reading.shape and FLAT not in layouts
            if fits and (layouts[0] != layouts[1]) is transposed:
                return Pair(torch_reading, paddle_reading)
    return None


def _plausible(slot: Slot, reading: Slot, other: Slot) -> bool:
    """Whether a slot may be read so: a matrix of unknown layout is a vector only if its partner is known to be one."""
    if slot.settled or reading.layout != FLAT:
        return True
    return max(slot.shape, default=1) == slot.size or (other.settled and len(other.shape) == 1)


def _is_square(slot: Slot) -> bool:
    return len(slot.shape) == 2 and slot.shape[0] == slot.shape[1]


def _unusual(slot: Slot, reading: Slot, usual: str) -> int:
    return 0 if slot.settled or reading.layout == usual or len(slot.shape) != 2 else 1


def _remark(torch: Slot, paddle: Slot, torch_reading: Slot, paddle_reading: Slot) -> str:
    """A remark on matrices whose layout no type tells; none on those of a state dict, whose layers count as ordinary ones."""
    if (torch.settled and paddle.settled) or len(torch_reading.shape) != 2 or not (torch.typed and paddle.typed):
        return ""
    if not _is_square(torch_reading):
        return tr("layout found by the shapes") if TRANSPOSED in (torch_reading.layout, paddle_reading.layout) else ""
    return tr(
        "square, of unknown type: taken as it is"
        if torch_reading.layout == paddle_reading.layout
        else "square, of unknown type: taken as a Linear holds it"
    )


# Weights whose layout neither names nor shapes tell: the possible ways, one of which their use decides.

_MOST = 96  # ways of one weight that are tried


class Way(NamedTuple):
    """One layout of a weight that holds several.

    Args:
        label: its name; equal for all layers of a model with this layout.
        rule: its transform, as it is written in ``rules=``.
        pairs: makes its pairs.
        groups: the number of groups.
    """

    label: str
    rule: str
    pairs: Callable[[], list[Pair]]
    groups: int = 1


@dataclass(frozen=True)
class Choice:
    """A weight that holds several of the other side, or the same several in another order.

    Args:
        whole: the name of its layer, or of the weight itself, if a stack holds those of all experts.
        parts: the names of the other side's layers.
        side: the framework of the whole.
        ways: the possible layouts, the usual one first.
        taken: the layout that its use has decided; None as long as none has.
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
        """A key that is equal for the same weights of other layers."""
        return tuple(tree.starred(name) for name in (self.whole, *self.parts))

    def pairs(self) -> list[Pair]:
        """The pairs of the decided way, or of the usual one."""
        way = self.taken or self.ways[0]
        note = way.label
        if self.taken:
            note = logged("{label}, by its use", label=way.label)
        elif len(self.ways) > 1:
            note = logged("{label}, undecided", label=way.label)
        return [replace(pair, note=note) for pair in way.pairs()]

    def decision(self) -> str:
        """The layout that its use has decided, and the rule that says it."""
        assert self.taken is not None
        rule = f"rules=[({tree.starred(self.whole)!r}, {self.taken.rule})]"
        label = self.taken.label.removeprefix("fused: ")
        return f"{self.whole} holds {', '.join(self.parts)}: {label}, as its use shows ({rule} says it)"

    def decided(self, label: str) -> Choice:
        """The same choice with that way taken."""
        return replace(self, taken=next(way for way in self.ways if way.label == label))


def fused(whole: str, parts: Sequence[str], letters: Sequence[str], slots: list[tuple[Slot, list[Slot]]], side: str) -> Choice:
    """The choice of a projection that holds the rows of several.

    Args:
        whole, parts: names of the layers.
        letters: the name of each part.
        slots: (slot of the whole, slots of the parts) of the weight, the bias...
        side: the framework of the whole.
    """
    sizes = [part.shape[0] for part in slots[0][1]]

    def made(blocks: Blocks) -> list[Pair]:
        shares = [share for slot, others in slots for share in blocks.split(slot, others)]
        return [Pair.of(side, share, part, "fused") for share, part in shares]

    spoken = [tree.starred(name) for name in parts]
    ways = []
    for blocks in itertools.islice(orders(len(sizes), math.gcd(*sizes)), _MOST):
        listed = ", ".join(repr(spoken[part]) for part in blocks.order)
        groups = f", groups={blocks.groups}" if blocks.groups > 1 else ""
        ways.append(Way(label_of(blocks, letters), f"split({listed}{groups})", functools.partial(made, blocks), blocks.groups))
    return Choice(whole, tuple(parts), side, tuple(ways))


def exchanged(slots: Sequence[Pair]) -> Choice | None:
    """The choice of a layer (or weight) of one shape on both sides that holds gate and up, named in another order on each side.

    Returns:
        None if the names do not say so.
    """
    places = [(_place_of(pair.torch), _place_of(pair.paddle)) for pair in slots]
    orders_ = [tuple(word for word in tree.words_of(tree.last_name(place)) if word in ("gate", "up")) for place in places[0]]
    if sorted(orders_[0]) != ["gate", "up"] or orders_[0] != orders_[1][::-1]:
        return None
    own, other = ", ".join(orders_[0]), ", ".join(orders_[1])
    ways = [Way("gate and up in one order", f"gate_up({own!r}, {own!r})", lambda: list(slots))]
    for axis in (0,) if len(slots[0].torch_slot.shape) < 3 else (1, 2):  # of a stack of experts
        shapes = [(pair.torch_slot.shape, pair.paddle_slot.shape) for pair in slots]
        if all(shape == other and axis < len(shape) and shape[axis] % 2 == 0 for shape, other in shapes):
            words, ends = (f" along {axis}", f", axis={axis})") if axis else ("", ")")
            made = functools.partial(_exchanged, slots, axis)
            ways.append(Way(f"gate and up exchanged{words}", f"gate_up({own!r}, {other!r}{ends}", made))
    return Choice(places[0][1], (places[0][0],), "paddle", tuple(ways))


def _place_of(name: str) -> str:
    """The name of a weight's or bias's layer; of a bare weight its own name."""
    return tree.parent(name) if tree.last_name(name) in ("weight", "bias") else name.removesuffix("_bias")


def _exchanged(slots: Sequence[Pair], axis: int) -> list[Pair]:
    return [
        replace(pair, torch_slot=pair.torch_slot.at(*torch_steps), paddle_slot=pair.paddle_slot.at(*paddle_steps), turnable=False)
        for pair in slots
        for torch_steps, paddle_steps in reordered(Blocks(), Blocks(order=(1, 0)), axis, pair.torch_slot.shape[axis])
    ]


def by_place(slots: Sequence[Pair]) -> dict[tuple[str, str], list[Pair]]:
    """Pairs of whole weights by their layers (or bare weights)."""
    whole = (pair for pair in slots if all(slot.weight and not slot.steps for slot in pair.slots))
    return grouped(whole, lambda pair: (_place_of(pair.torch), _place_of(pair.paddle)))


def orders(parts: int, common: int) -> Iterator[Blocks]:
    """The possible orders and groups of so many parts, the usual ones first; ``common``: common divisor of the parts' rows."""
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
    if blocks.groups > 1:
        return logged("fused: rows of {order} in each of {groups} groups", order=order, groups=blocks.groups)
    return logged("fused: rows of {order}", order=order)


def undecided(choices: Sequence[Choice]) -> str:
    """The message for layouts that nothing decides: the possible ones, and what to write."""
    lines = []
    for choice in {choice.key: choice for choice in reversed(choices)}.values():
        ways = choice.ways[:1] + _other(choice)
        labels = " or ".join(way.label.removeprefix("fused: ") for way in ways)
        more = f" (or {len(choice.ways) - len(ways)} other ways)" if len(choice.ways) > len(ways) else ""
        rules = " or ".join(f"rules=[({tree.starred(choice.whole)!r}, {way.rule})]" for way in ways)
        makers = ", ".join(sorted({way.rule.partition("(")[0] for way in ways}))
        lines.append(
            tr(
                "nothing tells how {whole} holds {parts}: {labels}{more}; {reason}. Say {rules}, with "
                "from padiff_shim.weights import {makers}",
                whole=choice.whole,
                parts=", ".join(choice.parts),
                labels=labels,
                more=more,
                reason=choice.reason,
                rules=rules,
                makers=makers,
            )
        )
    return "\n".join(reversed(lines))


def _other(choice: Choice) -> tuple[Way, ...]:
    """The commonest way beside the usual one, as a message names it: by groups for q, k and v, else in another order."""
    by_groups = tuple(way for way in choice.ways if way.groups > 1)
    if len(choice.parts) == 3 and by_groups:
        ends = [re.sub(r"\d+( groups|\))$", r"N\1", text) for text in by_groups[0][:2]]
        return (by_groups[0]._replace(label=f"{ends[0]} (N: the number of key-value heads)", rule=ends[1]),)
    return (tuple(way for way in choice.ways[1:] if way not in by_groups) or choice.ways[1:])[:1]


# Fused projections: one on one side that holds several of the other: q, k and v, or gate and up.

# The parts of a fused projection, in order, by the words that its name may have. Longer names first.
_FUSED = (
    (("q", "k", "v"), ("qkv", "attn", "in", "pack", "q")),
    (("k", "v"), ("kv", "k")),
    (("gate", "up"), ("gate",)),
)


class Fused(NamedTuple):
    """A projection, its parts on the other side, their names, and the framework of the whole."""

    whole: LayerNode
    parts: list[LayerNode]
    letters: tuple[str, ...]
    side: str

    def choice(self) -> Choice:
        """The ways in which the whole may hold the parts."""
        whole = _linear(self.whole, self.side)
        parts = [_linear(part, OTHER[self.side]) for part in self.parts]
        slots = [(whole[role], [part[role] for part in parts]) for role in parts[0]]
        return fused(self.whole.path, [part.path for part in self.parts], self.letters, slots, self.side)


def candidates(ts: list[LayerNode], ps: list[LayerNode]) -> Iterator[Fused]:
    """The fused projections among layers, as far as shapes and names pair them in one way only, or in order."""
    for side, nodes, other in (("torch", ts, ps), ("paddle", ps, ts)):
        for letters, wanted in _FUSED:
            wholes = [node for node in nodes if _is_fused(node, side, letters, wanted)]
            sets = list(_siblings([node for node in other if node.is_unit], OTHER[side], letters)) if wholes else []
            fitting = [whole for whole in wholes if any(_adds_up(whole, parts, side) for parts in sets)]
            sets = [parts for parts in sets if any(_adds_up(whole, parts, side) for whole in wholes)]
            if len(fitting) == len(sets) and all(_adds_up(whole, parts, side) for whole, parts in zip(fitting, sets)):
                yield from (Fused(whole, parts, letters, side) for whole, parts in zip(fitting, sets))


def _siblings(nodes: list[LayerNode], side: str, letters: tuple[str, ...]) -> Iterator[list[LayerNode]]:
    """One layer for each letter, of one parent."""
    for parent in dict.fromkeys(tree.parent(node.path) for node in nodes):
        inside = [node for node in nodes if tree.parent(node.path) == parent and _linear(node, side)]
        called = [[node for node in inside if letter in node.words] for letter in letters]
        if all(len(alone) == 1 for alone in called) and len({id(alone[0]) for alone in called}) == len(letters):
            yield [alone[0] for alone in called]


def _linear(node: LayerNode, side: str) -> dict[str, Slot]:
    """The weights of a layer by role, [out, in]; {} if its type is the user's own. Those of a state dict lie as a Linear's."""
    slots: dict[str, Slot] = {}
    for slot in node.slots:
        if slot.settled:
            slots[slot.role] = slot
        elif not slot.typed and len(slot.shape) == 2:
            slots[slot.role] = slot.as_linear()
        else:
            return {}
    return slots


def _is_fused(node: LayerNode, side: str, letters: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    """Whether a layer's own name may be that of a fused projection."""
    if not node.is_unit or not node.slots or not _linear(node, side) or any(slot.steps for slot in node.slots):
        return False
    return any(word in wanted for word in node.words) and {*node.words} & {*letters} in (set(), set(letters))


def _adds_up(whole: LayerNode, parts: list[LayerNode], side: str) -> bool:
    """Whether the rows of the parts are those of the whole."""
    slots, others = _linear(whole, side), [_linear(part, OTHER[side]) for part in parts]
    if any(set(other) != set(slots) for other in others):
        return False
    for role, slot in slots.items():
        shapes = [other[role].shape for other in others]
        if len({shape[1:] for shape in shapes} | {slot.shape[1:]}) != 1 or sum(shape[0] for shape in shapes) != slot.shape[0]:
            return False
    return True


# Experts: one weight [experts, ...] on one side, a list of layers on the other.

_KINDS = (("weight", 3), ("bias", 2))  # roles of what is stacked, with its number of axes


@dataclass(frozen=True)
class _Experts:
    """The layers of one place in all experts, ``up_gate_proj`` of each."""

    path: str  # in an expert
    slots: dict[str, list[Slot]]  # by role, one of each expert

    @property
    def words(self) -> tuple[str, ...]:
        return _expert_words(tree.last_name(self.path))


@dataclass(frozen=True)
class _StackOfExperts:
    """Stacked weights of one place, and the layers of the experts that they hold."""

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
        parts = [tree.joined(self.list_path, str(number), experts.path) for experts in self.experts for number in (0, 1)]
        return Choice(self.name, tuple(parts), self.side, tuple(ways))

    def _rule(self, blocks: Blocks | None, ends: str) -> str:
        """The transform of ``rules=`` for a way."""
        spoken = [repr(tree.joined(tree.starred(self.list_path), "{}", experts.path)) for experts in self.experts]
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
        return _expert_words(tree.last_name(self.name))

    def _turns(self) -> tuple[bool, ...]:
        """Whether the matrices may be [in, out]."""
        slot = self.slots["weight"]
        shapes = [experts.slots["weight"][0].shape for experts in self.experts]
        wanted = (sum(shape[0] for shape in shapes), shapes[0][1])
        return tuple(turned for turned, shape in ((False, slot.shape[1:]), (True, slot.shape[:0:-1])) if shape == wanted)

    def _blocks(self) -> list[Blocks | None]:
        """The possible orders in each matrix; None if it holds a single one."""
        if len(self.experts) > 1:
            sizes = [experts.slots["weight"][0].shape[0] for experts in self.experts]
            return list(orders(len(sizes), math.gcd(*sizes)))
        if set(self.words) == {"gate", "up"} and self.words != self.experts[0].words:
            return [Blocks(), Blocks(order=(1, 0))]
        return [None]

    def _pairs(self, turned: bool, blocks: Blocks | None) -> list[Pair]:
        pairs = []
        for role, slot in self.slots.items():
            for number in range(slot.shape[0]):
                matrix = slot._replace(settled=True).at(
                    select(0, number), *((permute(1, 0),) if turned and role == "weight" else ())
                )
                others = [experts.slots[role][number] for experts in self.experts]
                pairs += [Pair.of(self.side, *both, "stacked") for both in self._inside(matrix, others, blocks)]
        return pairs

    def _inside(self, slot: Slot, others: list[Slot], blocks: Blocks | None) -> Iterator[tuple[Slot, Slot]]:
        if len(others) > 1 and blocks is not None:
            yield from blocks.split(slot, others)
        elif blocks is not None and blocks.order:
            for whole_steps, part_steps in reordered(Blocks(), blocks, 0, slot.shape[0]):
                yield slot.at(*whole_steps), others[0].at(*part_steps)
        else:
            yield slot, others[0]


def stacked(torch_side: WeightSide, paddle_side: WeightSide) -> list[Choice]:
    """The choices of all stacks of experts; their weights are taken out of the trees."""
    choices = []
    for whole, other in ((torch_side, paddle_side), (paddle_side, torch_side)):
        holders = [(node, stacks) for node in whole.root.walk() if (stacks := _stacks_of(node))]
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
    holders: list[tuple[LayerNode, dict[str, dict[str, Slot]]]], lists: list[LayerNode]
) -> Iterator[tuple[tuple[LayerNode, dict[str, dict[str, Slot]]], LayerNode]]:
    """Layers that hold stacks, and lists of as many experts: by name, else in order."""
    called = {tree.words_of(node.path): node for node in lists}
    for place, holder in enumerate(holders):
        count = next(iter(next(iter(holder[1].values())).values())).shape[0]
        node = called.get(tree.words_of(holder[0].path)) or (lists[place] if len(lists) == len(holders) else None)
        if node is not None and len(node.children) == count:
            yield holder, node


def _fitting(node: LayerNode, stacks: dict[str, dict[str, Slot]], experts: LayerNode, side: str) -> Iterator[_StackOfExperts]:
    """The stacks of a layer with the experts' layers that they hold, by names and shapes."""
    layers = list(_layers_of(experts))
    for leaf, slots in stacks.items():
        words = _expert_words(leaf)
        alone = [layer for layer in layers if sorted(layer.words) == sorted(words)]
        several = [next((layer for layer in layers if layer.words == (word,)), None) for word in words]
        for group in (alone[:1], several):
            if group and all(layer is not None and set(layer.slots) == set(slots) for layer in group):
                stack = _StackOfExperts(tree.joined(node.path, leaf), slots, tuple(filter(None, group)), experts.path, side)
                if stack._turns():
                    yield stack
                    break


def _stacks_of(node: LayerNode) -> dict[str, dict[str, Slot]]:
    """The stacks among a layer's own weights, if its class is the user's own: name -> role -> slot."""
    if node.kind not in ("", "list"):
        return {}
    whole = [slot for slot in node.slots if slot.weight is not None and not slot.steps and not slot.weight.buffer]
    stacks: dict[str, dict[str, Slot]] = {}
    for role, axes in _KINDS:
        for slot in whole:
            assert slot.weight is not None
            leaf = tree.last_name(slot.weight.name)
            place = leaf.removesuffix("_bias").removesuffix(".bias") if role == "bias" else leaf
            if len(slot.weight.shape) == axes and not slot.settled and (place in stacks) is (role == "bias"):
                stacks.setdefault(place, {})[role] = slot
    return stacks


def _layers_of(experts: LayerNode) -> Iterator[_Experts]:
    """The layers that all experts have alike."""
    children = [dict(_within(child)) for child in experts.children]
    for path, first in children[0].items():
        others = [child.get(path) for child in children]
        shapes = {role: slot.shape for role, slot in first.items()}
        if all(other is not None and {role: slot.shape for role, slot in other.items()} == shapes for other in others):
            yield _Experts(path, {role: [other[role] for other in others if other] for role in first})


def _within(expert: LayerNode) -> Iterator[tuple[str, dict[str, Slot]]]:
    for node in expert.walk():
        if node.slots and all(slot.settled and slot.weight is not None and not slot.steps for slot in node.slots):
            yield tree.relative(node.path, expert.path), {slot.role: slot for slot in node.slots}


def _numbered(node: LayerNode) -> bool:
    return bool(node.children) and all(tree.last_name(child.path) == str(number) for number, child in enumerate(node.children))


def _expert_words(leaf: str) -> tuple[str, ...]:
    """The words that distinguish a place in an expert from others, in order."""
    telling = tuple(word for word in tree.words_of(leaf) if word in tree.telling_words(leaf) or word.isdigit())
    return telling or tree.words_of(leaf)
