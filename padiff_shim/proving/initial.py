"""Whether both models begin with weights of one distribution: a training from scratch depends on it, and a proof copies them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..text import listed
from ..weights.mapping import Mapping
from .arrays import Array
from .sides import Side
from .values import in_place

_FEWEST, _MOST = 32, 1 << 14  # numbers whose spread says something, and how many are looked at
_SURE = 6.0  # standard errors
_LAYERS = frozenset({"Linear", "Conv1d", "Conv2d", "Conv3d"})
_WRITE = "paddle.nn.initializer.KaimingUniform(negative_slope=math.sqrt(5), nonlinearity='leaky_relu')"


def drawn_otherwise(original: Side, port: Side, mapping: Mapping) -> list[str]:
    """A note on weights that Torch has drawn as it does by default, and the port from another distribution; none if there are none.

    Torch draws those of linear layers and convolutions evenly between ``-1 / sqrt(n)`` and ``1 / sqrt(n)``, of n inputs.
    """
    weights, others, layers = original.parameters(), port.parameters(), original.layers
    rows = []
    for pair in mapping:
        name, partner = pair.name("torch"), pair.name("paddle")
        weight = weights.get(name)
        kind = type(layers.get(name.removesuffix(".weight"))).__name__
        if pair.rule is not None or weight is None or partner not in others or kind not in _LAYERS or weight.numel() < _FEWEST:
            continue
        expected, actual = _some(weight), _some(others[partner])
        if _is_torchs(expected, weight[0].numel()) and _unlike(expected, actual):
            rows.append(f"{partner} spreads by {actual.std():.2g}, in the original by {expected.std():.2g}")
    if not rows:
        return []
    return [f"initial weights are drawn otherwise, which matters to a training from scratch: {listed(rows)} (Torch's are {_WRITE})"]


def _some(weight: Any) -> Array:
    """The first numbers of a weight."""
    return in_place(weight).reshape(-1)[:_MOST].astype(np.float64)


def _is_torchs(values: Array, inputs: int) -> bool:
    """Whether these are numbers as Torch draws them for a layer with so many inputs."""
    bound = 1.0 / math.sqrt(inputs)
    even = abs(float(values.std()) * math.sqrt(3) / bound - 1) <= _SURE * _error(values)
    return even and bool(np.abs(values).max() <= bound * (1 + 1e-6))


def _unlike(expected: Array, actual: Array) -> bool:
    ratio = float(actual.std()) / float(expected.std())
    return abs(ratio - 1) > _SURE * math.hypot(_error(expected), _error(actual)) + 0.1


def _error(values: Array) -> float:
    """The relative standard error of a standard deviation, at most that of normal numbers."""
    return 1.0 / math.sqrt(2 * values.size)
