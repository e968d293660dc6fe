"""Delta debugging: a smallest part of a set that still does what the whole does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

One = TypeVar("One")


def ddmin(items: Sequence[One], does: Callable[[Sequence[One]], bool]) -> list[One]:
    """A part of ``items`` that does it, and of which no single item can be left out (Zeller and Hildebrandt, 2002).

    Args:
        items: all of them together do it, none of them does not.
        does: asked of parts, in the order of ``items``; the same answer for the same part.
    """
    kept, parts = list(items), 2
    while len(kept) > 1:
        chunks = _divided(kept, parts)
        smaller = next((chunk for chunk in chunks if does(chunk)), None)
        if smaller is not None:
            kept, parts = smaller, 2
            continue
        rests = [[item for item in kept if item not in chunk] for chunk in chunks] if parts > 2 else []
        larger = next((rest for rest in rests if does(rest)), None)
        if larger is not None:
            kept, parts = larger, parts - 1
        elif parts < len(kept):
            parts = min(len(kept), 2 * parts)
        else:
            break
    return kept


def _divided(items: Sequence[One], parts: int) -> list[list[One]]:
    """Parts of nearly equal length."""
    ends = [round(len(items) * place / parts) for place in range(parts + 1)]
    return [list(items[begin:end]) for begin, end in zip(ends, ends[1:]) if end > begin]
