"""Kernels that treat NaN, infinities or denormal numbers in a way of their own, and orders of summation.

A vector loop and the scalar loop over what is left at its end may treat them differently, and how many elements a vector holds
depends on the processor. So each output may be right or be what the hypothesis makes of it, and every one has to be either.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...verdicts import Verdict
from ..oracle.precision import Array
from ..oracle.staging import Hypothesis
from .classes import classify, sound
from .hypotheses import CHANCE, Explained, evidence, gathered
from .nonfinite import classes
from .trial import Errors, Trial, errors

LAST = 1.0  # units: of a sum whose order is known no error is left, of a mean the rounding of the division
FEW = 8.0  # unit roundoffs
LIMIT = 1 << 21  # operand values that are read for one answer


class Treatment(NamedTuple):
    """The names of what was found, and whether all of it is a loss of precision."""

    name: str
    precision: bool


def treatment(found: Trial, own: Errors, other: Errors) -> Treatment | None:
    """What explains the outputs of one side that are not right; None if anything else is wrong, on either side.

    Every sampled output has to be right or of a value that a hypothesis of ``quantity.special`` gives, and what is left has to be
    rounding.
    """
    if not (named := found.quantity.special()):
        return None
    top = found.quantity.kind.format.largest
    value, bounds = found.value, [found.unit, found.probable, found.certain]
    right = fits(own.y, value, found.probable, top)
    if right.all() or not fits(other.y, value, found.probable, top).all() or not sound(found, other):
        return None
    used = []
    for hypothesis in named:
        given = _given(found, hypothesis)
        if given is None:
            continue
        theirs, theirs_bounds = given
        here = ~right & fits(own.y, theirs, theirs_bounds[1], top)
        if here.any():
            used.append(hypothesis)
            right |= here
            value, *bounds = (np.where(here, new, old) for new, old in zip((theirs, *theirs_bounds), (value, *bounds)))
    if not used or not right.all():
        return None
    left = errors(own.y, value, (bounds[0], bounds[1], bounds[2]), found)
    if classify(found, left, other) is not Verdict.ROUNDING:
        return None
    return Treatment("+".join(dict.fromkeys(h.name for h in used)), all(h.precision for h in used))


def _given(found: Trial, hypothesis: Hypothesis) -> tuple[Array, list[Array]] | None:
    """What a hypothesis gives for the samples, and its bounds; None if it says nothing of them."""
    if hypothesis.full is not None:
        values = gathered(found, hypothesis.full)
        if values is None:
            return None
        least = np.where(np.isfinite(found.value), 0.0, FEW * found.quantity.kind.unit * np.abs(values))  # where there is no bound
        return values, [np.fmax(bound, least) for bound in (found.unit, found.probable, found.certain)]
    changed = hypothesis.change(found.staged) if hypothesis.change else None
    if changed is None:
        return None
    there = found.quantity.solve(changed)
    return there.value.reshape(-1), [there.bound(f).reshape(-1) for f in (1.0, *found.factors)]


def fits(y: Array, value: Array, bound: Array, top: float) -> Array:
    """Where a result is this value up to rounding: NaN and infinities alike, finite ones within the bound."""
    alike = classes(y, top) == classes(value, top)
    near = np.abs(np.abs(value) / top - 1) < 0.01  # there rounding decides between the largest number and infinity
    finite = np.isfinite(y) & np.isfinite(value)
    inside = np.abs(np.where(finite, y, 0.0) - np.where(finite, value, 0.0)) <= np.where(np.isnan(bound), 0.0, bound)
    return np.where(near, np.isfinite(y) | alike, alike & (inside | ~finite))


def readable(positions: Array, per_sample: int) -> bool:
    """Whether so many samples may be read whole: what was not looked at has no name."""
    return math.prod((positions.size, per_sample)) <= LIMIT


def order(found: Trial, own: Errors) -> Explained | None:
    """The order of summation that gives one side's very errors: less than the last roundings of the result is left."""
    for hypothesis in found.quantity.orders():
        changed = hypothesis.change(found.staged) if hypothesis.change else None
        if changed is None:
            continue
        value = found.quantity.solve(changed).value.reshape(-1)
        moved, left = _displaced(found, own, value)
        share = math.sqrt(float(np.dot(left, left)) / (float(np.dot(moved, moved)) or 1.0))
        if ordered(found, own, value) and evidence(moved, share) >= CHANCE:
            return Explained(hypothesis.name, True, (), change=hypothesis.change, exact=True)
    return None


def ordered(found: Trial, own: Errors, value: Array) -> bool:
    """Whether nothing but the last roundings of the result distinguish one side from these sums."""
    return float(_displaced(found, own, value)[1].max()) <= LAST


def _displaced(found: Trial, own: Errors, value: Array) -> tuple[Array, Array]:
    """How far these sums are from the oracle's, and what they leave of one side's errors, in units of the bound."""
    moved = np.nan_to_num(np.asarray((value - found.value) / found.unit, np.float64))
    return moved, np.abs(own.signed - moved)
