"""What one run of a model gave."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .capture import Onlooker
from .updates import Update


@dataclass
class Outcome:
    """What one run (or step) gave, as arrays: outputs and loss by path; outputs of layers, gradients and statistics by name.

    ``dtypes``: of the outputs, by path, for no array is of bfloat16. ``unlike``: statistics that were not kept, for Paddle's kernel
    wrote them, which defines them otherwise. Of a step of a training also the ``weights`` behind it, and what is told of its
    ``update``; of a side that follows gradients also those of layers' outputs (None where a call's has none) and of inputs.
    """

    outputs: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    dtypes: dict[str, str] = field(default_factory=dict)
    layers: dict[str, list[np.ndarray[Any, Any]]] = field(default_factory=dict)
    gradients: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    statistics: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    unlike: bool = False
    capture: Onlooker | None = None
    weights: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    update: Update | None = None
    of_layers: dict[str, list[np.ndarray[Any, Any] | None]] = field(default_factory=dict)
    of_inputs: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
