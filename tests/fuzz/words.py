"""The words that drawing and kinds of lines share."""

from __future__ import annotations

from typing import Any

import numpy as np

FLOATS = ("float32", "float32", "float32", "float64", "float64", "float16", "bfloat16")


class Nothing(Exception):
    """No variable fits this kind of line."""


def broadcast(shape: list[int], other: list[int]) -> bool:
    return all(a == b or 1 in (a, b) for a, b in zip(shape[::-1], other[::-1]))


def dense(t: Any) -> bool:
    """Whether the first three elements in memory are its own, so that ``as_strided`` reads no foreign memory."""
    return t.is_contiguous() and int(np.prod(t.shape)) >= 3


def matrices(t: Any) -> bool:
    return t.ndim >= 2
