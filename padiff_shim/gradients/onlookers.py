"""Hooks on the results of one node that only look on, and stand aside where they would be in the way.

``paddle.grad`` does not run the node of an input that leads to no other one: a hook there sees a gradient that goes no further. And
Paddle ends it with an error where another result of that node has a hook.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..frameworks.versions import attribute, set_attribute
from . import clean
from .nodes import leads_to

_HOOKS = "_padiff_onlookers"  # attribute of Paddle tensors: those on all results of their node


class _Hook(NamedTuple):
    """A hook on one result."""

    result: weakref.ref[Any]
    called: tuple[Any, ...]  # a function, and its arguments
    number: int


def look_on(results: Mapping[int, Any], function: Callable[..., Any], *args: Any) -> None:
    """Have Paddle's engine call ``function(*args, position, gradient)`` for each of a node's results, by position."""
    hooks = []
    for position, result in results.items():
        called = (function, *args, position)
        hooks.append(_Hook(weakref.ref(result), called, clean.register_silent_hook(result, *called)))
    for result in results.values():
        set_attribute(result, _HOOKS, hooks)


@contextlib.contextmanager
def aside(inputs: Sequence[Any]) -> Iterator[None]:
    """Around a partial backward to ``inputs``."""
    ends = [tensor for tensor in inputs if attribute(tensor, _HOOKS)]
    ends = [end for end in ends if len(inputs) == 1 or not leads_to([end], [tensor for tensor in inputs if tensor is not end])]
    for end in ends:
        for hook in attribute(end, _HOOKS):
            clean.remove_grad_hook(end, hook.number)
    try:
        yield
    finally:
        for end in ends:
            hooks = attribute(end, _HOOKS)
            living = [(hook, hook.result()) for hook in hooks]
            hooks[:] = [
                hook._replace(number=clean.register_silent_hook(result, *hook.called))
                for hook, result in living
                if result is not None
            ]
