"""Whether both models begin with weights of one distribution: a training from scratch depends on it, and a proof copies them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..text import listed
from ..weights.mapping import Mapping
from .arrays import Array
from .sides import Side
from .values import as_array

_FEWEST = 32  # numbers whose spread says something
_SURE = 6.0  # standard errors
_WRITE = "paddle.nn.initializer.KaimingUniform(negative_slope=math.sqrt(5), nonlinearity='leaky_relu')"


def drawn_otherwise(original: Side, port: Side, mapping: Mapping) -> list[str]:
    """A note on weights that Torch has drawn as it does by default, and the port from another distribution; none if there are none.

    Torch draws those of linear layers and convolutions evenly between ``-1 / sqrt(n)`` and ``1 / sqrt(n)``, of n inputs.
    """
    weights, others = original.parameters(), port.parameters()
    rows = []
    for pair in mapping:
        names = pair.name("torch"), pair.name("paddle")
        if pair.rule is not None or names[0] not in weights or names[1] not in others:
            continue
        expected, actual = as_array(weights[names[0]]), as_array(others[names[1]])
        if _by_default(original.layers.get(names[0].rpartition(".")[0]), names[0], expected) and _unlike(expected, actual):
            rows.append(f"{names[1]} spreads by {actual.std():.2g}, in the original by {expected.std():.2g}")
    if not rows:
        return []
    return [f"initial weights are drawn otherwise, which matters to a training from scratch: {listed(rows)} (Torch's are {_WRITE})"]


def _by_default(module: Any, name: str, values: Array) -> bool:
    """Whether these are numbers as Torch draws them for such a layer's weight."""
    if not name.endswith("weight") or values.ndim < 2 or values.size < _FEWEST or type(module).__name__ not in _LAYERS:
        return False
    bound = 1.0 / math.sqrt(values[0].size)
    spread = float(values.std())
    return bool(np.abs(values).max() <= bound * (1 + 1e-6)) and abs(spread * math.sqrt(3) / bound - 1) <= _SURE * _error(values)


_LAYERS = frozenset({"Linear", "Conv1d", "Conv2d", "Conv3d"})


def _unlike(expected: Array, actual: Array) -> bool:
    ratio = float(actual.std()) / float(expected.std())
    return abs(ratio - 1) > _SURE * math.hypot(_error(expected), _error(actual)) + 0.1


def _error(values: Array) -> float:
    """The relative standard error of a standard deviation, at most that of normal numbers."""
    return 1.0 / math.sqrt(2 * values.size)
