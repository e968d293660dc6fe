"""The class of one side's errors by their size alone, before and after a cause was found for them."""

from __future__ import annotations

import numpy as np

from ...verdicts import Verdict
from ..oracle.apriori import FAR_INSIDE
from ..oracle.precision import Array
from ..oracle.precision import rms as rms_of
from ..oracle.staging import Evaluation
from . import trial
from .trial import Errors, Trial

# Sums of many terms pass up to 4 units while the typical error is below this part of a unit: their clean maxima reach 3, every
# rounding of operands or results moves all outputs by far more, and one output that is off by more than 4 units is in the guided
# sample. What stays hidden are single outputs that are off by 1 to 4 units, which no statistic can tell from rounding.
TYPICAL = 0.5
WORSE = 8.0  # this many times the other side's rms is no longer the same kind of rounding
FEW = 6  # fewer different errors than this say nothing about the two sides' rms, twice as many say enough
# Below this part of the probabilistic bound an error is nobody's fault, however small the other side's is: for functions of rows,
# whose outputs share the errors of the row's statistics, and for functions of single elements, where outputs of one kernel differ
# by as much as two kernels do; of sums see FAR_INSIDE.
FAR_INSIDE_ROWS, FAR_INSIDE_SINGLE = 0.1, 0.5
ALONE = 8.0  # this many times the rest's 99 % quantile is a single element standing out


def small(errors: Errors) -> bool:
    """Nothing stands out and the typical error is far below a unit."""
    return not errors.strange and errors.prob <= 1.0 and errors.rho_max <= ALONE * TYPICAL and errors.rho_rms <= TYPICAL


def negligible(found: Trial, rms: float) -> bool:
    """Both sides' errors would be plain rounding if no bound were below one unit roundoff of the tensor's root mean square.

    In units of ``max(B1, u rms)`` no error is above 4, the typical one is at most 1/2, and none exceeds both its probabilistic
    bound and ``u rms``.
    """
    floor = found.quantity.kind.format.unit * rms
    for errors in (found.paddle, found.torch):
        size = np.abs(errors.signed) * found.unit
        units = np.asarray(size / np.maximum(found.unit, floor), np.float64)
        typical = units[found.random]
        if errors.strange or not units.max() <= ALONE * TYPICAL or not rms_of(typical) <= TYPICAL:
            return False
        if (size > np.maximum(found.probable, floor)).any():
            return False
    return True


def wrong_class(outside: int, count: int) -> Verdict:
    """What is said of so many wrong elements of ``count``: single ones are a class of their own."""
    return Verdict.LOCAL_WRONG if outside <= max(0.01 * count, 1.0 if count >= 8 else 0.0) else Verdict.WRONG


def classify(found: Trial, own: Errors, other: Errors) -> Verdict:
    """What the size of one side's errors says of them, beside the other side's."""
    if own.strange:
        return Verdict.NONFINITE
    count = len(own.signed[found.random])
    if own.det > 1:
        return wrong_class(own.outside, count)
    alone = own.rho_max > ALONE * max(own.spread, 0.5)
    if own.prob > 1 or _much_worse(found, own, other):
        return Verdict.LOCAL_WRONG if alone and own.prob > 1 else Verdict.LOW_ACCURACY
    return Verdict.LOCAL_SUSPECT if alone else Verdict.ROUNDING


def sound(found: Trial, errors: Errors) -> bool:
    """One side taken alone: rounding, and of a size that a good kernel's has. The other side may be no measure for it."""
    return classify(found, errors, errors) is Verdict.ROUNDING and errors.rho_rms <= 8 * WORSE * TYPICAL


def far_inside(sample: Trial, own: Errors) -> bool:
    """Errors that are nobody's fault, however small the other side's are."""
    quantity = sample.quantity
    rows = quantity.grid != quantity.shape
    return own.prob < (FAR_INSIDE_SINGLE if quantity.k <= 1 else FAR_INSIDE_ROWS if rows else FAR_INSIDE)


def _much_worse(found: Trial, own: Errors, other: Errors) -> bool:
    """Another kind of rounding than the other side's, as far as this many outputs can tell."""
    if not found.quantity.impartial:
        return False
    if far_inside(found, own):
        return False
    if own.rho_rms <= WORSE * max(other.rho_rms, 0.05):
        return False
    count = np.unique(own.signed[found.random]).size  # equal operands round alike: their outputs are one
    count = min(count, len(found.found.value))  # and so is a row
    return count >= 2 * FEW or (count >= FEW and own.rho_rms > 1.5 * WORSE * max(other.rho_rms, 0.05))


def remainder(found: Trial, own: Errors, value: Array, evaluation: Evaluation | None) -> Errors:
    """One side's errors against what a hypothesis says that its kernel computes, in units of the bounds that hold there."""
    bounds = found.unit, found.probable, found.certain
    if evaluation is not None:
        there = [evaluation.bound(factor).reshape(-1) for factor in (1.0, *found.factors)]
        bounds = tuple(np.where(np.isfinite(new), new, old) for new, old in zip(there, bounds))  # type: ignore[assignment]
    return trial.errors(own.y, value, bounds, found)


def explained_whole(found: Trial, own: Errors, other: Errors, value: Array, evaluation: Evaluation | None) -> bool:
    """What a hypothesis leaves of one side's errors is rounding."""
    left = remainder(found, own, value, evaluation)
    return classify(found, left, other) is Verdict.ROUNDING
