"""Where in one run another begins that goes on from one of its checkpoints: by hashes of weights and of what is computed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .reading import Recorded, RecordedStep
from .tensors import WEIGHT, Tensor, numbered

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
    weights = _digests(tensor for tensor in start.inputs if tensor.tensor == WEIGHT)
    forward = _calls(start)
    current: dict[str, str] = {}
    with_weights: int | None = None
    for number, step in enumerate(whole.steps()):
        if number == 0:
            current = _digests(tensor for tensor in step.inputs if tensor.tensor == WEIGHT)
        common = current.keys() & weights.keys()  # buffers are not recorded behind each step of fingerprints
        here = bool(common) and all(current[name] == weights[name] for name in common)
        if here and with_weights is None:
            with_weights = step.step
        if forward and _calls(step) == forward:
            return step.step
        if number == 0 and here:
            return None
        current |= _digests(tensor for tensor in step.tensors if tensor.kind == "parameter")
    return with_weights


def _digests(tensors: Iterable[Tensor]) -> dict[str, str]:
    return {tensor.name: tensor.digest for tensor in tensors}


def _calls(step: RecordedStep) -> dict[Any, str]:
    """What a step's forward has computed: digests by kind, layer and name, and which of those it is."""
    forward = (tensor for tensor in step.tensors if tensor.kind in _FORWARD)
    known = numbered(forward, lambda tensor: (tensor.kind, tensor.layer, tensor.name, tensor.tensor))
    return {key: tensor.digest for key, tensor in known}
