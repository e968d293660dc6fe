"""A run of the original with one rounding error more in the result of every call that computes; nothing of it is written down."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import CodeType
from typing import Any

import torch

from ..frameworks.surroundings import LooksOn
from .capture import tensors_in
from .operators import is_passive
from .tolerances import rounded


class Nudged(LooksOn):
    """Within it results of Torch's kernels are moved by up to one unit roundoff, the same in each run."""

    def __init__(self, names: Mapping[int, str], layer: Callable[[], str], until: CodeType | None = None) -> None:
        super().__init__()
        self._nudge = rounded(torch.Generator().manual_seed(0))

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        first = next(iter(tensors_in(result)), None)
        if first is not None and first.is_floating_point() and not is_passive(function):
            self._nudge(first)
        return result
