"""The size of what Paddle's kernels give."""

from __future__ import annotations

import math
from typing import Any

import paddle


def elements(result: Any) -> int:
    """How many numbers a result holds; what is no tensor (None, a text) or holds no memory (an output not asked for) has none."""
    if isinstance(result, (list, tuple)):
        return sum(elements(item) for item in result)
    if not isinstance(result, paddle.Tensor) or not result._is_initialized():
        return 0
    return math.prod(result.shape)
