"""Judging two kernels' results against a higher-precision oracle and the op's own rounding bound. Never imports Paddle."""

from . import ties_and_moves
from .difference import equal_but_nan, far_apart, same
from .generic import fallback
from .ties_and_moves import settle
from .verdict import equal, judge

__all__ = [
    "equal",
    "equal_but_nan",
    "fallback",
    "far_apart",
    "judge",
    "same",
    "settle",
    "ties_and_moves",
]
