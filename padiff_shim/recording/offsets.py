"""Where in one run another begins that goes on from one of its checkpoints: by hashes of weights and of what is computed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .reading import Recorded, RecordedStep
from .tensors import WEIGHT, Tensor, numbered, parameter_name

_NORM = 1e-6  # relative: that of a step's weights in two frameworks; an update changes it more
_FORWARD = frozenset({"op", "layer", "loss"})


def first_step(recorded: Recorded) -> int:
    """The number of the first step that was recorded."""
    return next((step.step for step in recorded.steps()), 0)


def begins_at(whole: Recorded, later: Recorded) -> int | None:
    """The step of ``whole`` with whose weights, and if possible with whose forward, ``later`` begins; None where none is known.

    A run that begins as ``whole`` does begins nowhere else.
    """
    start = next(later.steps(), None)
    if start is None:
        return None
    crossing = whole.framework != later.framework
    weights = _named(tensor for tensor in start.inputs if tensor.tensor == WEIGHT)
    forward = {} if crossing else _calls(start)
    current: dict[str, Tensor] = {}
    with_weights: int | None = None
    for number, step in enumerate(whole.steps()):
        if number == 0:
            current = _named(tensor for tensor in step.inputs if tensor.tensor == WEIGHT)
        common = current.keys() & weights.keys()  # buffers are not recorded behind each step of fingerprints
        here = bool(common) and all(_same(current[name], weights[name], crossing=crossing) for name in common)
        if here and with_weights is None:
            with_weights = step.step
        if forward and _calls(step) == forward:
            return step.step
        if number == 0 and here:
            return None
        current |= _named(tensor for tensor in step.tensors if tensor.kind == "parameter")
    return with_weights


def _named(tensors: Iterable[Tensor]) -> dict[str, Tensor]:
    return {parameter_name(tensor.name): tensor for tensor in tensors}


def _same(a: Tensor, b: Tensor, *, crossing: bool) -> bool:
    """Whether two weights have the same bits; between frameworks, which round otherwise and lay them otherwise, the same norm."""
    norms = [tensor.figures.get("norm", 0.0) for tensor in (a, b)]
    return a.digest == b.digest or (crossing and a.size == b.size and abs(norms[0] - norms[1]) <= _NORM * norms[0])


def _calls(step: RecordedStep) -> dict[Any, str]:
    """What a step's forward has computed: digests by kind, layer and name, and which of those it is."""
    forward = (tensor for tensor in step.tensors if tensor.kind in _FORWARD)
    known = numbered(forward, lambda tensor: (tensor.kind, tensor.layer, tensor.name, tensor.tensor))
    return {key: tensor.digest for key, tensor in known}
