"""How far a value of a float64 run may lie from another program's, for rounding alone to explain it: measured, never set."""

from __future__ import annotations

from typing import Any

import torch

from .trace import Trace, Value

SLACK = 64.0  # how many times the effect of one rounding error per call counts as rounding


class Tolerances:
    """How far a float64 value of the original moves if each call's result is changed by about one unit roundoff."""

    def __init__(self, moved: Trace) -> None:
        self._moved = moved
        self._known: dict[Value, float] = {}

    def __call__(self, value: Value) -> float:
        found = self._known.get(value)
        if found is None:
            found = self._known[value] = self._tolerance(value)
        return found

    def _tolerance(self, value: Value) -> float:
        scale = _scale(value)
        floor = 1e-13 * scale if value.tensor.dtype in (torch.float64, torch.complex128) else _unit(value.tensor) * 8 * scale
        if value.node is None:
            return floor
        twin = self._twin(value)
        return floor if twin is None else floor + SLACK * _distance(value, twin)

    def _twin(self, value: Value) -> Value | None:
        node = value.node
        assert node is not None
        if node.index >= len(self._moved.nodes) or self._moved.nodes[node.index].name != node.name:
            return None  # the rounding errors changed a decision
        return self._moved.nodes[node.index].values[node.values.index(value)]


def _unit(tensor: torch.Tensor) -> float:
    return float(torch.finfo(tensor.dtype).eps) if tensor.is_floating_point() else 0.0


def _scale(value: Value) -> float:
    finite = value.sorted[torch.isfinite(value.sorted)]
    return float(finite.abs().max()) if finite.numel() else 0.0


def _distance(one: Value, other: Value) -> float:
    if one.tensor.shape != other.tensor.shape or one.tensor.is_complex():
        return 0.0
    apart = (one.tensor.detach().to(torch.float64) - other.tensor.detach().to(torch.float64)).abs()
    apart = apart[torch.isfinite(apart)]
    return float(apart.max()) if apart.numel() else 0.0


def rounded(generator: torch.Generator) -> Any:
    """Changes a tensor's elements by up to one unit roundoff each."""

    def touch(tensor: torch.Tensor) -> None:
        noise = torch.rand(tensor.shape, dtype=torch.float64, generator=generator).sub_(0.5).mul_(2.0 * _unit(tensor)).add_(1.0)
        tensor.mul_(noise.to(tensor.dtype))

    return touch
