"""How far the spellings of a formulation are apart, in bits."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..table.formulation import BOTH, FORWARD, GRADIENT, Formulation
from .spelling import Array, Bits, drawn, on_paddle

_PRECISION = {"float16": (10, -14), "bfloat16": (7, -126), "float32": (23, -126), "float64": (52, -1022)}  # digits, least exponent


class BitDistance(NamedTuple):
    """How far two tensors, or several pairs of them, are apart.

    Attributes:
        ulp: the largest difference, in units in the last place of the tensor's largest element.
        share: of the elements whose bits differ, from 0 to 1. Where ``ulp`` is 0, they are zeros of another sign.
    """

    ulp: float
    share: float


def distance(array: Array, other: Array, dtype: str) -> BitDistance:
    """How far two arrays of one shape are apart, whose values are finite numbers of a float ``dtype``."""
    digits, least = _PRECISION[dtype]
    top = max(np.abs(array).max(initial=0.0), np.abs(other).max(initial=0.0))
    unit = math.ldexp(1.0, max(math.frexp(top)[1] - 1, least) - digits)
    difference = np.abs(array.astype(np.float64) - other.astype(np.float64)).max(initial=0.0)
    differ = (array != other) | (np.signbit(array) != np.signbit(other))
    return BitDistance(float(difference / unit), float(differ.mean()) if differ.size else 0.0)


def largest(pairs: Sequence[tuple[Array | None, Array | None, str]]) -> BitDistance:
    """The largest of the distances of several pairs, each with its dtype."""
    distances = [distance(array, other, dtype) for array, other, dtype in pairs if array is not None and other is not None]
    return BitDistance(max((each.ulp for each in distances), default=0.0), max((each.share for each in distances), default=0.0))


def ran(formulation: Formulation, dtype: str, *, place: int = 0) -> list[Bits]:
    """Each spelling on one sample, in Paddle on Torch's kernels."""
    arrays = drawn(formulation, place)
    return [on_paddle(spelling.paddle, arrays, dtype) for spelling in formulation.spellings]


def apart(first: Bits, other: Bits, dtype: str) -> tuple[BitDistance, BitDistance]:
    """How far results and gradients of two spellings are apart; gradients are in ``dtype``."""
    results = list(zip(first.results, other.results, first.dtypes))
    return largest(results), largest([(first.gradients[name], other.gradients[name], dtype) for name in first.gradients])


def which_differ(spelled: list[Bits]) -> str:
    """Which bits differ between any two of several spellings: forward, gradient, both, or "" for none."""
    pairs = list(itertools.combinations(spelled, 2))
    forward = any(bits.forward_differs(other) for bits, other in pairs)
    gradient = any(bits.gradient_differs(other) for bits, other in pairs)
    return BOTH if forward and gradient else FORWARD if forward else GRADIENT if gradient else ""
