"""Several results of one call: in a tuple or a list, which may hold lists in turn (the states of a recurrent layer)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any


def flat(results: Any) -> list[Any]:
    """All results, one or several, in order; what is no container is one."""
    if not isinstance(results, (list, tuple)):
        return [results]
    return [one for item in results for one in (item if isinstance(item, (list, tuple)) else (item,))]


def each(results: Any, function: Callable[[int, Any], Any]) -> Any:
    """The same containers around ``function(position, result)``."""
    positions = itertools.count()

    def exchanged(one: Any) -> Any:
        if isinstance(one, (list, tuple)):
            return type(one)([exchanged(item) for item in one])
        return function(next(positions), one)

    return exchanged(results)


def nested(results: Any) -> bool:
    """Whether a result is a container inside of the container of results."""
    return isinstance(results, (list, tuple)) and any(isinstance(item, (list, tuple)) for item in results)
