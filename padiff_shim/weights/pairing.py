"""Which weights of two paired layers belong together, and how each of them lies."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .tree import AS_IS, FLAT, TRANSPOSED, Node, Slot

OPEN = "square, of unknown type: taken"


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


def pair_slots(torch: Node, paddle: Node, note: str = "") -> list[SlotPair]:
    """The weights of two units: by role, and the rest by shape in order of construction."""
    ts, ps, found = list(torch.slots), list(paddle.slots), []
    for by_role in (True, False):
        for mine in list(ts):
            for yours in list(ps):
                pair = fit(mine, yours, torch.kind or paddle.kind, note) if _may(mine, yours, by_role) else None
                if pair is not None:
                    found.append(pair)
                    ts.remove(mine)
                    ps.remove(yours)
                    break
    return found


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
    ways = [(mine, yours) for mine in torch.readings() for yours in paddle.readings() if mine.shape == yours.shape]
    if not ways:
        return None
    usual = (AS_IS, TRANSPOSED) if kind == "linear" else (AS_IS, AS_IS)
    if torch.settled != paddle.settled:
        ways.sort(key=lambda way: _unusual(torch, way[0], usual[0]) + _unusual(paddle, way[1], usual[1]))
    else:
        ways.sort(key=lambda way: (way[0].layout != way[1].layout, FLAT in (way[0].layout, way[1].layout)))
    mine, yours = ways[0]
    square = len(mine.shape) == 2 and mine.shape[0] == mine.shape[1]
    open_both = not torch.settled and not paddle.settled
    if square and open_both:
        undecided = not torch.typed and not paddle.typed
        return SlotPair(mine, yours, _both(note, f"{OPEN} as it is"), undecided)
    return SlotPair(mine, yours, _both(note, _said(torch, paddle, mine, yours)))


def _unusual(slot: Slot, reading: Slot, usual: str) -> int:
    return 0 if slot.settled or reading.layout == usual or len(slot.shape) != 2 else 1


def _said(torch: Slot, paddle: Slot, mine: Slot, yours: Slot) -> str:
    """What a reader should know of layouts that were found by the shapes alone."""
    if (torch.settled and paddle.settled) or mine.layout == yours.layout == AS_IS or not (torch.typed and paddle.typed):
        return ""
    return "layout found by the shapes" if TRANSPOSED in (mine.layout, yours.layout) else ""


def _both(*notes: str) -> str:
    return "; ".join(filter(None, notes))
