"""Looking on at the layers of a model: which one is running, and what each returns."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from ..trees import copied, is_tensor
from . import following
from .outcome import Outcome
from .values import leaves


@contextlib.contextmanager
def listening(
    layers: list[tuple[str, Any]],
    places: tuple[str, str],
    stack: list[str],
    keeping: Callable[[], bool],
    outcome: Outcome,
    follows: bool,
) -> Iterator[None]:
    """Within it the path of the running layer is the last in ``stack``, and what layers return is kept.

    Args:
        layers: (path, layer) of a model of ours: hooks are put there without a handle for each.
        places: where a layer holds what is called before and after its forward.
        stack: paths of the layers that are running.
        keeping: whether results are wanted now.
        outcome: which gets them.
        follows: whether it gets their gradients, too.
    """
    names, hook = {id(layer): name for name, layer in layers}, object()

    def enter(layer: Any, _: Any) -> None:
        stack.append(names.get(id(layer), stack[-1] if stack else ""))  # a copy that a forward made runs in what made it

    def leave(layer: Any, _: Any, output: Any) -> None:
        if stack:
            stack.pop()
        name = names.get(id(layer))
        if name is None or not keeping():
            return
        first = output if is_tensor(output) else next((one for _, one in leaves(output)), None)
        if first is not None:
            outcome.layers.setdefault(name, []).append(copied(first))  # it may be written to later
            if follows:
                following.follow(first, outcome.of_layers.setdefault(name, []))

    held = [(getattr(layer, places[0]), getattr(layer, places[1])) for _, layer in layers]
    for before, after in held:
        before[hook], after[hook] = enter, leave
    try:
        yield
    finally:
        for before, after in held:
            before.pop(hook, None)
            after.pop(hook, None)
