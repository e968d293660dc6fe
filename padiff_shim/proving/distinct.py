"""Weights as they are made, all ones or zeros: taken for one another, or left out, they make no difference but in gradients."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch

from ..errors import TransferError
from ..weights.mapping import Mapping
from ..weights.transfer import carry
from .sides import Side

_SPREAD = 0.1
_FIRST = 16  # elements, of which most weights are told apart


@contextlib.contextmanager
def told_apart(theirs: Side, ours: Side, mapping: Mapping) -> Iterator[bool]:
    """Within it such weights, and equal ones, hold distinct values in the float64 models of both; False if there are none."""
    original, port = theirs.wide_model(), ours.wide_model()
    names = {pair.torch for pair in mapping if pair.torch and pair.paddle}
    named = {name: weight for name, weight in original.named_parameters() if name in names and weight.is_floating_point()}
    groups = [
        group
        for alike in _grouped(list(named.values()), _begins)
        for group in (_grouped(alike, _bytes) if len(alike) > 1 else [alike])
    ]
    equal = [weight for group in groups if len(group) > 1 or _is_plain(group[0]) for weight in group]
    if not equal:
        yield False
        return
    changed = {name for name, weight in named.items() if any(weight is other for other in equal)}
    generator, held = torch.Generator().manual_seed(0), [weight.detach().clone() for weight in equal]
    try:
        with torch.no_grad():
            for weight in equal:
                noise = torch.randn(weight.shape, dtype=torch.float64, generator=generator) * _SPREAD
                weight.add_(noise.to(weight.device, weight.dtype))
        try:
            carry(replace(mapping, pairs=[pair for pair in mapping if pair.torch in changed]), original, port)
            held.clear()
        except TransferError:  # a rule that goes the other way alone
            with torch.no_grad():  # what ran before reads these
                for weight, value in zip(equal, held):
                    weight.copy_(value)
            equal = []
        yield bool(equal)
    finally:
        theirs.forget_wide()
        ours.forget_wide()


def _grouped(weights: Sequence[torch.Tensor], key: Callable[[torch.Tensor], Hashable]) -> list[list[torch.Tensor]]:
    groups: dict[Hashable, list[torch.Tensor]] = {}
    for weight in weights:
        groups.setdefault(key(weight), []).append(weight)
    return list(groups.values())


def _begins(weight: torch.Tensor) -> Hashable:
    return tuple(weight.shape), tuple(weight.detach().flatten()[:_FIRST].tolist())


def _bytes(weight: torch.Tensor) -> Hashable:
    return hashlib.sha256(np.ascontiguousarray(weight.detach().cpu().numpy()).data).hexdigest()


def _is_plain(weight: torch.Tensor) -> bool:
    """Whether all elements are one number."""
    values = weight.detach().flatten()
    return len(values) > 0 and all(bool((part == values[0]).all()) for part in (values[:_FIRST], values))
