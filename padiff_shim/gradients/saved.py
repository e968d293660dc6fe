"""What Torch's backward of a call reads: asked of Torch, not declared.

An in-place change of such a tensor between forward and backward has to raise, as it does in Paddle. Torch's graph holds the tensors
over memory that Paddle writes without Torch's version counter knowing, so each call keeps Paddle's own versions of what is read.
What is read depends on which operands want a gradient and which are numbers; it is learnt once for each such combination, by a run
of the formula whose graph is thrown away.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from ..dispatch.containers import flat
from ..frameworks.randomness import undrawn


class Reads(NamedTuple):
    """Positions of operands and of results whose memory a backward reads."""

    operands: frozenset[int]
    results: frozenset[int]


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def reads(known: dict[Any, Reads], attributes: Sequence[Any], sides: Sequence[Any], run: Callable[..., Any]) -> Reads:
    """What the backward of ``run(*sides)`` reads. ``known``: what was learnt for this op; gradients must be on."""
    kinds = [(side.requires_grad, side.ndim, side.dtype) if isinstance(side, torch.Tensor) else type(side) for side in sides]
    key = (*kinds, repr(attributes)) if attributes else tuple(kinds)
    found = known.get(key)
    if found is None:
        found = known[key] = _learnt(sides, run)
    return found


def _learnt(sides: Sequence[Any], run: Callable[..., Any]) -> Reads:
    kept: list[torch.Tensor] = []  # the tensors: of one that is freed, another could get the memory
    try:
        with undrawn(), torch.autograd.graph.saved_tensors_hooks(kept.append, _never):
            results = flat(run(*sides))
        memories = {_memory(tensor) for tensor in kept}
        return Reads(*(frozenset(_among(tensors, memories)) for tensors in (sides, results)))
    finally:
        kept.clear()  # the graph holds its hooks: with its own result among what they keep it would never die


def _among(tensors: Sequence[Any], memories: set[int]) -> list[int]:
    return [i for i, tensor in enumerate(tensors) if isinstance(tensor, torch.Tensor) and _memory(tensor) in memories]


def _never(packed: None) -> torch.Tensor:
    raise AssertionError("this graph is never walked")
