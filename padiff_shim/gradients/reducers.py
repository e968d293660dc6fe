"""What walks Paddle's graph without running it: the reducer of a data-parallel layer, which looks for parameters without gradient.

Paddle's graph ends at sentinels, and torch's begins there. So the walk is given a way on: a door of each leaf that torch's graph
leads to, beside the tensors that it begins at.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import paddle
import torch

from ..frameworks.memory import to_paddle
from . import clean
from .calls import Walk
from .leaves import deliver
from .local import tinies
from .nodes import leads_to_tape
from .session import Session
from .twins import alive, taped


def preparing(original: Callable[..., Any]) -> Callable[..., Any]:
    """``EagerReducer.prepare_for_backward``: what the forward of a data-parallel layer ends with."""

    @functools.wraps(original)
    def hook(reducer: Any, outputs: Sequence[Any]) -> Any:
        return original(reducer, [*outputs, *doors_behind(outputs)] if alive() else outputs)

    return hook


def doors_behind(outputs: Sequence[Any]) -> list[Any]:
    """Tensors from whose nodes Paddle's graph leads on to every leaf and frontier that a backward from ``outputs`` comes to."""
    found: dict[int, torch.Tensor] = {}
    roots, natives = [], []
    for tensor in outputs:
        record = None if tensor.stop_gradient else taped(tensor)
        if record is not None:
            roots.append(record.twin)
        elif not tensor.stop_gradient and leads_to_tape(tensor):
            natives.append(tensor)
    with Session(retain=True) as session:
        while roots or natives:
            fronts = []
            for side in Walk(roots).leaves:
                if hasattr(side, "_place") and id(side) not in found:
                    found[id(side)] = side
                    if side._place.frontier and leads_to_tape(side._place.door):
                        fronts.append(side)
            roots, natives = _below(natives, fronts, session), []
    return [side._place.door for side in found.values()]


def _below(natives: Sequence[Any], fronts: Sequence[torch.Tensor], session: Session) -> list[torch.Tensor]:
    """The twins that Paddle's own nodes lead to; to be seen only by running them, with gradients of zero."""
    starts, given = list(natives), [paddle.zeros(tensor.shape, tensor.dtype) for tensor in natives]
    for side in fronts:
        deliver(side, to_paddle(torch.zeros_like(side, memory_format=torch.contiguous_format).detach()), starts, given)
    if not starts:
        return []
    clean.run_partial_grad(starts, tinies(), given, True, False, True, True, [], *clean.NO_PATH)
    noted, session.noted = session.noted, []
    return [twin for twin, _ in noted]
