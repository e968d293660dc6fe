"""A tensor as it lay in memory, from a file that somebody else may have written; it goes into the scripts of ``repro``, too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def strided_view(flat: np.ndarray, shape: Sequence[Any], strides: Sequence[Any]) -> np.ndarray:
    """``flat`` (one-dimensional) as an array of this shape and these strides, in elements.

    Raises:
        ValueError: the view would reach beyond the array, which NumPy does not check.
    """
    lengths = [*shape, *strides]
    if flat.ndim != 1 or flat.dtype.kind not in "fiub" or len(shape) != len(strides) or len(shape) > 32:
        raise ValueError(f"no layout of numbers: {flat.dtype} {flat.shape} as {shape} with strides {strides}")
    if not all(type(length) is int and 0 <= length < 2**62 for length in lengths):
        raise ValueError(f"shape {shape} and strides {strides} are not whole numbers from 0 on")
    last = sum((size - 1) * stride for size, stride in zip(shape, strides))
    if 0 not in shape and last >= flat.size:
        raise ValueError(f"shape {shape} with strides {strides} reaches beyond the {flat.size} numbers that were saved")
    return np.lib.stride_tricks.as_strided(flat, shape, [stride * flat.itemsize for stride in strides])
