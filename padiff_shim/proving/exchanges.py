"""Values that a port takes for one another: however many calls read them, that is one mistake."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from .causes import Difference
from .trace import Value

_SHOWN = 3  # lines beside the first


def told_once(differences: Sequence[Difference]) -> list[Difference]:
    """Those of which none takes the same value for the same one as an earlier one does, or the other way round.

    Two results that are exchanged (keys and values, a gate and what it gates) are read by two calls, and a wrong one by all its
    readers. The first of them says in which lines the others are.
    """
    kept: list[Difference] = []
    for difference in differences:
        place, turned = next(
            ((at, how) for at, one in enumerate(kept) if (how := _again(one, difference)) is not None), (-1, False)
        )
        if place < 0:
            kept.append(difference)
        else:
            kept[place] = _with_line(kept[place], difference, turned=turned)
    return kept


def _again(one: Difference, other: Difference) -> bool | None:
    """Whether both take one value for another: the same way (False), the other way round (True), or not (None)."""
    if one.taken is None or other.taken is None or one.backward is not other.backward:
        return None
    if all(map(_equal, one.taken, other.taken[::-1])):
        return True
    elsewhere = one.ours is not None and other.ours is not None and one.ours.site != other.ours.site
    return False if elsewhere and all(map(_equal, one.taken, other.taken)) else None  # one line's calls are counted


def _equal(one: Value, other: Value) -> bool:
    """Whether two values of one run hold the same elements; in which order, tells who reads them."""
    return one is other or (one.tensor.shape == other.tensor.shape and torch.equal(one.tensor, other.tensor))


def _with_line(kept: Difference, other: Difference, *, turned: bool) -> Difference:
    here, there = kept.ours, other.ours
    if here is None or there is None:
        return kept
    line = f" at line {there.site.line}" if there.site != here.site else ""
    said = (", and the other way round" if turned else ", also") + line
    known = said in kept.text or kept.text.count(" at line ") >= _SHOWN
    return kept if known else replace(kept, text=kept.text + said)
