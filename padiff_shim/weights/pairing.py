"""Which weights of two paired layers belong together, and how each of them lies."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any

from . import names
from .layouts import AS_IS, FLAT, TRANSPOSED
from .rules import Cast
from .tree import Node, Slot

ORDER = "paired by order"
BY_RULE, BY_MAP, AS_DESCRIBED = "by rule", "by layer_map", "as its description says"


@dataclass(frozen=True)
class SlotPair:
    """Two slots with one canonical shape.

    Args:
        note: what a reader should know.
        undecided: whether nothing tells if a square matrix has to be transposed.
        doubted: whether others would have fitted as well, and only the order of construction has decided.
        turnable: whether it is a square matrix of layers of unknown type, which was taken as it is.
        rule: a function that makes the Paddle side's values, if a model describes its weights so.
        cast: whether values may be rounded on the way.
    """

    torch: Slot
    paddle: Slot
    note: str = ""
    undecided: bool = False
    doubted: bool = False
    turnable: bool = False
    rule: Callable[[Any], Any] | None = None
    cast: Cast | None = None

    @property
    def is_said(self) -> bool:
        """Whether the caller, or a description, says that they belong together."""
        return self.note in (BY_RULE, BY_MAP, AS_DESCRIBED)

    def slot(self, framework: str) -> Slot:
        return self.torch if framework == "torch" else self.paddle


def name_of(slot: Slot) -> str:
    """The name of a slot's weight; "" if it is absent."""
    return slot.weight.name if slot.weight else ""


def pair_slots(torch: Node, paddle: Node, ordered: bool = True, note: str = "") -> list[SlotPair]:
    """The weights of two units: by role, the rest by shape and what their names tell, then in order of construction.

    Of the last nothing is said unless the order is known, or there is no choice.
    """
    if _straight(torch.slots, paddle.slots):
        return [SlotPair(mine, yours, note) for mine, yours in zip(torch.slots, paddle.slots)]
    left = _Left(list(torch.slots), list(paddle.slots), torch.kind or paddle.kind, note)
    found = left.by_role()
    for words in (names.plain, names.telling):
        found += left.by_words(words, ordered)
    found += left.by_order(ordered)
    # What only stands for an absent weight needs no partner.
    absent = [SlotPair(Slot(one.role, None, one.shape, fill=one.neutral), one) for one in left.ps if one.neutral is not None]
    return found + absent


@dataclass
class _Left:
    """The weights of two units that have no partner yet."""

    ts: list[Slot]
    ps: list[Slot]
    kind: str
    note: str

    def _take(self, pair: SlotPair, mine: Slot, yours: Slot) -> SlotPair:
        self.ts.remove(mine)
        self.ps.remove(yours)
        return pair

    def _fitting(self, mine: Slot, by_role: bool) -> list[tuple[Slot, SlotPair]]:
        pairs = ((yours, fit(mine, yours, self.kind, self.note)) for yours in self.ps if _may(mine, yours, by_role))
        return [(yours, pair) for yours, pair in pairs if pair is not None]

    def by_role(self) -> list[SlotPair]:
        found = []
        for mine in list(self.ts):
            fitting = self._fitting(mine, True)
            found += [self._take(pair, mine, yours) for yours, pair in fitting[:1]]
        return found

    def by_words(self, words: Callable[[str], Hashable], ordered: bool) -> list[SlotPair]:
        """Those whose names have the same words, as many on either side."""
        groups: tuple[dict[Hashable, list[Slot]], dict[Hashable, list[Slot]]] = ({}, {})
        for slots, group in zip((self.ts, self.ps), groups):
            for slot in slots:
                group.setdefault(words(slot.role), []).append(slot)
        found = []
        for key, mine in groups[0].items():
            yours = groups[1].get(key, [])
            if not key or len(mine) != len(yours) or (len(mine) > 1 and not ordered):
                continue
            pairs = [fit(one, other, self.kind, self.note) if _may(one, other, False) else None for one, other in zip(mine, yours)]
            if all(pairs):
                order = len(mine) > 1 and any(_numbers(one) != _numbers(other) for one, other in zip(mine, yours))
                found += [
                    self._take(_by_order(pair) if order else pair, one, other)
                    for pair, one, other in zip(pairs, mine, yours)
                    if pair
                ]
        return found

    def by_order(self, ordered: bool) -> list[SlotPair]:
        choices = [[yours for yours, _ in self._fitting(mine, False)] for mine in self.ts]
        found = []
        for mine, choice in zip(list(self.ts), choices):
            fitting = self._fitting(mine, False)
            if len(fitting) == 1 or (fitting and ordered):
                yours, pair = fitting[0]
                several = len(choice) > 1 or sum(any(one is yours for one in other) for other in choices) > 1
                found.append(self._take(_by_order(pair) if several else pair, mine, yours))
        return found


def _by_order(pair: SlotPair) -> SlotPair:
    return replace(pair, note="; ".join(filter(None, (pair.note, ORDER))), doubted=True)


def _numbers(slot: Slot) -> list[str]:
    return sorted(word for word in names.words(slot.role) if word.isdigit())


def _straight(ts: list[Slot], ps: list[Slot]) -> bool:
    """Whether each slot's partner stands in its place: one role, one shape, and no doubt of how either lies."""
    roles = [slot.role for slot in ts]
    return (
        roles == [slot.role for slot in ps]
        and len(set(roles)) == len(roles)
        and all(mine.settled and yours.settled and mine.shape == yours.shape for mine, yours in zip(ts, ps))
    )


_NAMED = re.compile(r"weight|bias|running_(mean|var)|(weight|bias)_(ih|hh|hr)_l\d+(_reverse)?|magnitude of axis \d|spectral [uv]")


def _may(torch: Slot, paddle: Slot, by_role: bool) -> bool:
    """Roles that both frameworks know and that differ do not pair by shape: a bias is no weight."""
    if torch.role == paddle.role:
        return True
    return not by_role and not (_NAMED.fullmatch(torch.role) and _NAMED.fullmatch(paddle.role))


def fit(torch: Slot, paddle: Slot, kind: str, note: str = "") -> SlotPair | None:
    """The two slots in layouts with one canonical shape; None if there are none.

    Where a layout is open, the usual one of the partner's kind of layer is tried first.
    """
    ways = [
        (mine, yours)
        for mine in torch.readings()
        for yours in paddle.readings()
        if mine.shape == yours.shape and _plausible(torch, mine, yours) and _plausible(paddle, yours, mine)
    ]
    if not ways:
        return None
    usual = (AS_IS, TRANSPOSED) if kind == "linear" else (AS_IS, AS_IS)
    if torch.settled != paddle.settled:
        ways.sort(key=lambda way: _unusual(torch, way[0], usual[0]) + _unusual(paddle, way[1], usual[1]))
    else:
        ways.sort(key=lambda way: (FLAT in (way[0].layout, way[1].layout), way[0].layout != way[1].layout))
    mine, yours = ways[0]
    open_ = _is_square(mine) and not (torch.settled or paddle.settled)
    undecided = open_ and not (torch.typed or paddle.typed)
    said = "; ".join(filter(None, (note, _said(torch, paddle, mine, yours))))
    return SlotPair(mine, yours, said, undecided, turnable=open_)


def turned(torch: Slot, paddle: Slot, transposed: bool) -> SlotPair | None:
    """The two slots of matrices of which it is known whether one holds the other transposed; None if that cannot be."""
    for mine in torch.readings():
        for yours in paddle.readings():
            flat = FLAT in (mine.layout, yours.layout)
            if mine.shape == yours.shape and not flat and (mine.layout != yours.layout) is transposed:
                return SlotPair(mine, yours)
    return None


def _plausible(slot: Slot, reading: Slot, other: Slot) -> bool:
    """A matrix of unknown layout is no vector, unless its partner is known to be one."""
    if slot.settled or reading.layout != FLAT:
        return True
    return max(slot.shape, default=1) == slot.size or (other.settled and len(other.shape) == 1)


def _is_square(slot: Slot) -> bool:
    return len(slot.shape) == 2 and slot.shape[0] == slot.shape[1]


def _unusual(slot: Slot, reading: Slot, usual: str) -> int:
    return 0 if slot.settled or reading.layout == usual or len(slot.shape) != 2 else 1


def _said(torch: Slot, paddle: Slot, mine: Slot, yours: Slot) -> str:
    """What a reader should know of matrices whose layout no type tells; the layers of a state dict are taken for ordinary ones."""
    if (torch.settled and paddle.settled) or len(mine.shape) != 2 or not (torch.typed and paddle.typed):
        return ""
    if not _is_square(mine):
        return "layout found by the shapes" if TRANSPOSED in (mine.layout, yours.layout) else ""
    return f"square, of unknown type: taken as {'it is' if mine.layout == yours.layout else 'a Linear holds it'}"
