"""What is compared of what a call gives, and what it is called."""

from __future__ import annotations

from typing import Any

from ..dispatch.containers import flat
from ..dispatch.door import Door
from ..table.op import Op


def of_paddle(door: Door, result: Any) -> list[Any]:
    """What is compared of what Paddle's function gave."""
    return [result[0]] if door.entry.returns_list else flat(result)


def name_of(op: Op, position: int) -> str:
    """The name of a result in records: as the op declares it, else ``out``, and ``out[1]`` for further ones."""
    if position < len(op.results):
        return op.results[position]
    return f"out[{position}]" if position else "out"


def first_judged(op: Op) -> int:
    """The place of the first result that is compared."""
    return next((place for place, name in enumerate(op.results) if name not in op.unjudged), 0)
