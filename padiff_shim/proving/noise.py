"""One rounding error more at every call of a program: how far rounding travels in it."""

from __future__ import annotations

from typing import Any

import torch

from ..frameworks.surroundings import LooksOn
from .capture import tensors_in
from .operators import is_passive
from .tolerances import rounded


class Noise(LooksOn):
    """Within it each result of ``dtype`` of Torch's kernels is changed by up to one unit roundoff; nothing is written down."""

    def __init__(self, generator: torch.Generator, dtype: str) -> None:
        super().__init__()
        self._dtype = getattr(torch, dtype)
        self._touch = rounded(generator)

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        if not is_passive(function):
            for tensor in tensors_in(result if result is not None else args[:1]):
                if tensor.dtype is self._dtype:  # not the counters of steps
                    self._touch(tensor)
        return result
