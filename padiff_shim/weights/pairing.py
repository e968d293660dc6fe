"""Which weights of two paired layers belong together, and how each of them lies."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .tree import AS_IS, FLAT, TRANSPOSED, Node, Slot


@dataclass(frozen=True)
class SlotPair:
    """Two slots with one canonical shape.

    Args:
        note: what a reader should know.
        undecided: whether nothing tells if a square matrix has to be transposed.
    """

    torch: Slot
    paddle: Slot
    note: str = ""
    undecided: bool = False


def pair_slots(torch: Node, paddle: Node, ordered: bool = True, note: str = "") -> list[SlotPair]:
    """The weights of two units: by role, and the rest by shape in order of construction, if that is known or there is no choice."""
    if _straight(torch.slots, paddle.slots):
        return [SlotPair(mine, yours, note) for mine, yours in zip(torch.slots, paddle.slots)]
    ts, ps, found = list(torch.slots), list(paddle.slots), []
    for by_role in (True, False):
        for mine in list(ts):
            fitting = []
            for yours in ps:
                pair = fit(mine, yours, torch.kind or paddle.kind, note) if _may(mine, yours, by_role) else None
                if pair is not None:
                    fitting.append((yours, pair))
            if len(fitting) == 1 or (fitting and (by_role or ordered)):
                found.append(fitting[0][1])
                ts.remove(mine)
                ps.remove(fitting[0][0])
    # What only stands for an absent weight needs no partner.
    absent = [SlotPair(Slot(one.role, None, one.shape, fill=one.neutral), one) for one in ps if one.neutral is not None]
    return found + absent


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
    undecided = _is_square(mine) and not (torch.settled or paddle.settled or torch.typed or paddle.typed)
    return SlotPair(mine, yours, "; ".join(filter(None, (note, _said(torch, paddle, mine, yours)))), undecided)


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
