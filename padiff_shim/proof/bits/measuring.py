"""How far the spellings of a formulation are apart, in bits."""

from __future__ import annotations

import itertools

from ...measure.distance import Distance, distance, worst_of
from ...table.formulation import BOTH, FORWARD, GRADIENT, Formulation
from .spelling import Bits, drawn, on_paddle


def ran(formulation: Formulation, dtype: str, *, place: int = 0) -> list[Bits]:
    """Each spelling on one sample, in Paddle on Torch's kernels."""
    arrays = drawn(formulation, place)
    return [on_paddle(spelling.paddle, arrays, dtype) for spelling in formulation.spellings]


def apart(first: Bits, other: Bits, dtype: str) -> tuple[Distance, Distance]:
    """How far results and gradients of two spellings are apart; gradients are in ``dtype``."""
    results = zip(first.results, other.results, zip(first.dtypes, other.dtypes))
    gradients = [(first.gradients[name], other.gradients[name]) for name in first.gradients]
    returned = [distance(one_side, its, (dtype, dtype)) for one_side, its in gradients if one_side is not None and its is not None]
    return worst_of(distance(*pair) for pair in results), worst_of(returned)


def which_differ(spelled: list[Bits]) -> str:
    """Which bits differ between any two of several spellings: forward, gradient, both, or "" for none."""
    pairs = list(itertools.combinations(spelled, 2))
    forward = any(bits.forward_differs(other) for bits, other in pairs)
    gradient = any(bits.gradient_differs(other) for bits, other in pairs)
    return BOTH if forward and gradient else FORWARD if forward else GRADIENT if gradient else ""
