"""What a call gives: one tensor, or several in a tuple or a list, which may hold lists in turn (states of a recurrent layer)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..dispatch.door import Door
from ..gradients.saved import flat
from ..table.op import Op


def of_paddle(door: Door, result: Any) -> list[Any]:
    """What is compared of what Paddle's function gave."""
    return [result[0]] if door.entry.returns_list else flat(result if isinstance(result, (list, tuple)) else (result,))


def nested(result: Any) -> bool:
    """Whether a result is a list inside of the list of results."""
    return isinstance(result, (list, tuple)) and any(isinstance(item, (list, tuple)) for item in result)


def each(result: Any, function: Callable[[int, Any], Any]) -> Any:
    """The same containers around ``function(position, result)``."""
    position = -1

    def exchanged(one: Any) -> Any:
        nonlocal position
        if isinstance(one, (list, tuple)):
            return type(one)([exchanged(item) for item in one])
        position += 1
        return function(position, one)

    return exchanged(result)


def name_of(op: Op, position: int) -> str:
    """The name of a result in records: as the op declares it, else ``out``, and ``out[1]`` for further ones."""
    if position < len(op.results):
        return op.results[position]
    return f"out[{position}]" if position else "out"
