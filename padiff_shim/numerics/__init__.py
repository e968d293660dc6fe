"""Judging two kernels' results against a higher-precision oracle and the op's own rounding bound. Never imports Paddle."""

from .judging import ties_and_moves
from .judging.difference import equal_but_nan, far_apart, same
from .judging.formulas import fallback
from .judging.ties_and_moves import settle
from .judging.verdict import equal, harmless, harmless_few, judge

__all__ = [
    "equal",
    "equal_but_nan",
    "fallback",
    "far_apart",
    "harmless",
    "harmless_few",
    "judge",
    "same",
    "settle",
    "ties_and_moves",
]
