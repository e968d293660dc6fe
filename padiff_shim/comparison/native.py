"""Paddle's own call inside of a compared one, and the size of what it gives."""

from __future__ import annotations

import math
from typing import Any

import paddle

from ..dispatch.call import Substitution
from ..dispatch.frames import paused


def native(sub: Substitution, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Paddle's own call."""
    if sub.python:
        with paused():  # what the function calls inside is part of this call
            return sub.original(*args, **kwargs)
    return sub.original(*args, **kwargs)


def elements(result: Any) -> int:
    """How many numbers a result holds; what is no tensor (None, a text) or holds no memory (an output not asked for) has none."""
    if isinstance(result, (list, tuple)):
        return sum(elements(item) for item in result)
    if not isinstance(result, paddle.Tensor) or not result._is_initialized():
        return 0
    return math.prod(result.shape)
