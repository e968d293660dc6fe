"""Two kernels' results on one sample of outputs in units of the rounding bound, and the class of each side's errors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..language import logged
from ..verdicts import NEGLIGIBLE, Verdict
from .difference import TensorDifference
from .precision import Array, accumulation, confidence, norm, rms
from .quantity import Evaluation, Quantity, Staged, to_host


@dataclass
class Errors:
    """One kernel's errors on the sample, flattened.

    ``signed``: (y - oracle) / B(1), the unit bound; ``rho_max``, ``rho_rms`` (random part), ``spread`` (its 99 % quantile): of its
    size. ``prob``, ``det``: the largest error over the probabilistic and over the any-order bound. ``outside``: how many of the
    random part exceed the any-order bound. ``strange``: how many are NaN or Inf where the oracle is not, or the other way round.
    ``largest``: largest error.
    """

    y: Array
    signed: Array
    rho_max: float
    rho_rms: float
    spread: float
    prob: float
    det: float
    outside: int
    strange: int
    largest: float
    nan: int = 0
    inf: int = 0

    def stats(self) -> dict[str, Any]:
        """This side's part of a record's statistics."""
        return {
            "rho_max": float(self.rho_max),
            "rho_rms": float(self.rho_rms),
            "prob": float(self.prob),
            "det": float(self.det),
            "error_max": float(self.largest),
            "nan": self.nan,
            "inf": self.inf,
        }


@dataclass
class Trial:
    """The oracle on one sample, and both sides' errors against it. ``lead``: how many samples were guided."""

    quantity: Quantity
    staged: Staged
    lead: int
    oracle: Evaluation
    unit: Array
    probable: Array
    certain: Array
    random: slice
    paddle: Errors
    torch: Errors
    factors: tuple[float, float]

    @property
    def value(self) -> Array:
        """The oracle's values, flattened."""
        return self.oracle.value.reshape(-1)

    def side(self, name: str) -> Errors:
        """``"paddle"`` or ``"torch"``."""
        return self.paddle if name == "paddle" else self.torch

    def worst(self) -> int:
        """The flat place in the sample with the largest error over the probabilistic bound, of either side."""
        excess = np.maximum(np.abs(self.paddle.signed), np.abs(self.torch.signed)) * (self.unit / self.probable)
        place = int(excess.argmax())
        if math.isfinite(excess[place]):  # so are all of them
            return place
        return int(np.nan_to_num(excess, nan=0.0, posinf=0.0).argmax())

    def index(self, place: int) -> list[int]:
        """The place in the sample as an index into the judged tensor."""
        width = self.value.size // max(len(self.oracle.value), 1)
        sample, inner = divmod(place, width)
        grid = [int(axis[sample]) for axis in self.staged.where]
        axes = self.quantity.axes
        if not axes:
            return grid
        shape = self.quantity.shape
        inside = iter(np.unravel_index(inner, tuple(shape[a] for a in axes)))
        rows = dict(zip(axes, (int(i) for i in inside)))
        rest = iter(grid)
        return [rows[axis] if axis in rows else next(rest) for axis in range(len(shape))]


def factors(quantity: Quantity) -> tuple[float, float, float]:
    """(lambda, probabilistic, deterministic) accumulation factors: lambda sqrt(k) where that is less than k + 2, and k + 2."""
    count, certain = math.prod(quantity.shape), quantity.k + 2.0
    return confidence(count), accumulation(quantity.k, count), certain


def run(quantity: Quantity, where: tuple[Array, ...], lead: int, paddle: torch.Tensor, torch_: torch.Tensor) -> Trial:
    """Ask the oracle at these samples."""
    staged = quantity.stage(where)
    oracle = quantity.solve(staged)
    value = oracle.value.reshape(-1)
    y = np.empty((2, value.size), quantity.kind.oracle)
    for side, values in enumerate(to_host([quantity.result(tensor).gather(where) for tensor in (paddle, torch_)])):
        y[side] = values.reshape(-1)
    start = lead * (value.size // max(len(oracle.value), 1))
    random = slice(start if start < value.size else 0, None)
    _, probable, certain = factors(quantity)
    bounds = oracle.bound(1.0).reshape(-1), oracle.bound(probable).reshape(-1), oracle.bound(certain).reshape(-1)
    sides = _errors(y, value, bounds, random, quantity.kind.format.largest)
    return Trial(quantity, staged, lead, oracle, *bounds, random, sides[0], sides[1], (probable, certain))


def errors(y: Array, value: Array, bounds: tuple[Array, Array, Array], sample: Trial) -> Errors:
    """One side's errors on this sample against other values, in units of other bounds."""
    return _errors(np.stack([y, y]), value, bounds, sample.random, sample.quantity.kind.format.largest)[0]


def _errors(y: Array, value: Array, bounds: tuple[Array, Array, Array], random: slice, top: float) -> list[Errors]:
    """Both sides at once: ``y`` is of shape (2, sample)."""
    unit, probable, certain = bounds
    error = y - value
    signed = error / unit
    strange: Sequence[int] = (0, 0)
    if not math.isfinite(np.add.reduce(signed, None)):
        odd = (np.isfinite(y) != np.isfinite(value)) & ~(np.abs(value) >= 0.99 * top)
        strange = np.count_nonzero(odd | (np.isfinite(y) & ~np.isfinite(value)), axis=1).tolist()
        error = np.where(np.isfinite(error), error, 0.0)
        signed = np.nan_to_num(error / unit, nan=0.0, posinf=1e300, neginf=-1e300)
        probable, certain = (np.where(np.isfinite(b), b, np.inf) for b in (probable, certain))
    absolute, signed = np.abs(error, error), np.asarray(signed, np.float64)
    size, likely, beyond = np.abs(signed), absolute / probable, absolute / certain
    columns = y, signed, size, likely, beyond, absolute
    return [_side(random, strange[side], *(column[side] for column in columns)) for side in (0, 1)]


def _side(
    random: slice, strange: int, y: Array, signed: Array, size: Array, likely: Array, beyond: Array, absolute: Array
) -> Errors:
    """The figures of one side. (``array.item(array.argmax())`` is the largest, in a fraction of the time of ``array.max()``.)"""
    part, certain = size[random], beyond.item(beyond.argmax())
    order = max(int(0.99 * part.size) - 1, 0)
    sorted_there = part.copy()
    sorted_there.partition(order)
    return Errors(
        y,
        signed,
        size.item(size.argmax()),
        rms(part),
        sorted_there.item(order),
        likely.item(likely.argmax()),
        certain,
        0 if certain <= 1 else int(np.count_nonzero(beyond[random] > 1)),
        strange,
        absolute.item(absolute.argmax()),
    )


# ---- The class of one side's errors by their size alone, before and after a cause was named.

# Sums of many terms pass up to 4 units while the typical error is below this part of a unit: their clean maxima reach 3, every
# rounding of operands or results moves all outputs by far more, and one output that is off by more than 4 units is in the guided
# sample. What stays hidden are single outputs that are off by 1 to 4 units, which no statistic can tell from rounding.
TYPICAL = 0.5
WORSE = 8.0  # this many times the other side's rms is no longer the same kind of rounding
# Fewer different errors than this say nothing about the two sides' rms, or of one that stands out; twice as many say enough.
FEW = 6
# Below this part of the probabilistic bound an error is nobody's fault, however small the other side's is: for functions of rows,
# whose outputs share the errors of the row's statistics, and for functions of single elements, where outputs of one kernel differ
# by as much as two kernels do; FAR_INSIDE is that of sums.
FAR_INSIDE, FAR_INSIDE_ROWS, FAR_INSIDE_SINGLE = 0.02, 0.1, 0.5
ALONE = 8.0  # this many times the rest's 99 % quantile is a single element standing out


def small(errors: Errors) -> bool:
    """Nothing stands out and the typical error is far below a unit."""
    return not errors.strange and errors.prob <= 1.0 and errors.rho_max <= ALONE * TYPICAL and errors.rho_rms <= TYPICAL


def negligible(sample: Trial, size_of_all: float) -> bool:
    """Both sides' errors would be plain rounding if no bound were below one unit roundoff of the tensor's root mean square.

    In units of ``max(B1, u rms)`` no error is above 4, the typical one is at most 1/2, and none exceeds both its probabilistic
    bound and ``u rms``. ``size_of_all``: that root mean square.
    """
    floor = sample.quantity.kind.format.unit * size_of_all
    for errors in (sample.paddle, sample.torch):
        size = np.abs(errors.signed) * sample.unit
        units = np.asarray(size / np.maximum(sample.unit, floor), np.float64)
        typical = units[sample.random]
        if errors.strange or not units.max() <= ALONE * TYPICAL or not rms(typical) <= TYPICAL:
            return False
        if (size > np.maximum(sample.probable, floor)).any():
            return False
    return True


def wrong_class(outside: int, count: int) -> Verdict:
    """What is said of so many wrong elements of ``count``: single ones are a class of their own."""
    return Verdict.LOCAL_WRONG if outside <= max(0.01 * count, 1.0 if count >= 8 else 0.0) else Verdict.WRONG


def classify(sample: Trial, own: Errors, other: Errors) -> Verdict:
    """What the size of one side's errors says of them, beside the other side's."""
    if own.strange:
        return Verdict.NONFINITE
    count = len(own.signed[sample.random])
    if own.det > 1:
        return wrong_class(own.outside, count)
    alone = own.rho_max > ALONE * max(own.spread, 0.5)
    if own.prob > 1 or _much_worse(sample, own, other):
        return Verdict.LOCAL_WRONG if alone and own.prob > 1 else Verdict.LOW_ACCURACY
    return Verdict.LOCAL_SUSPECT if alone and own.signed.size >= FEW else Verdict.ROUNDING


def sound(sample: Trial, errors: Errors) -> bool:
    """One side taken alone: rounding, and of a size that a good kernel's has. The other side may be no measure for it."""
    return classify(sample, errors, errors) is Verdict.ROUNDING and errors.rho_rms <= 8 * WORSE * TYPICAL


def _much_worse(sample: Trial, own: Errors, other: Errors) -> bool:
    """Another kind of rounding than the other side's, as far as this many outputs can tell."""
    if not sample.quantity.impartial:
        return False
    # Errors that are nobody's fault, however small the other side's are
    quantity = sample.quantity
    rows = quantity.grid != quantity.shape
    if own.prob < (FAR_INSIDE_SINGLE if quantity.k <= 1 else FAR_INSIDE_ROWS if rows else FAR_INSIDE):
        return False
    if own.rho_rms <= WORSE * max(other.rho_rms, 0.05):
        return False
    count = np.unique(own.signed[sample.random]).size  # equal operands round alike: their outputs are one
    count = min(count, len(sample.oracle.value))  # and so is a row
    return count >= 2 * FEW or (count >= FEW and own.rho_rms > 1.5 * WORSE * max(other.rho_rms, 0.05))


def explained_whole(sample: Trial, own: Errors, other: Errors, value: Array, evaluation: Evaluation | None) -> bool:
    """What a hypothesis leaves of one side's errors is rounding."""
    bounds = sample.unit, sample.probable, sample.certain
    if evaluation is not None:  # in units of the bounds that hold there
        there = [evaluation.bound(factor).reshape(-1) for factor in (1.0, *sample.factors)]
        bounds = tuple(np.where(np.isfinite(new), new, old) for new, old in zip(there, bounds))  # type: ignore[assignment]
    return classify(sample, errors(own.y, value, bounds, sample), other) is Verdict.ROUNDING


# ---- The text of a verdict: statistics, modifiers, one sentence.


def statistics_of(sample: Trial, difference: TensorDifference) -> dict[str, Any]:
    quantity, worst = sample.quantity, sample.worst()
    kappa = np.asarray(sample.unit / (quantity.kind.format.unit * np.abs(sample.value)), np.float64)  # an array of its own
    kappa = kappa if math.isfinite(np.add.reduce(kappa)) else kappa[np.isfinite(kappa)]
    middle = kappa.size // 2
    if kappa.size:
        kappa.partition(middle)
    # How far two right kernels may lie apart, at most; where the oracle itself is not finite they may not
    bound = sample.probable
    if not math.isfinite(largest := float(bound[bound.argmax()])):
        bound = bound[np.isfinite(sample.value)]
        largest = float(bound.max()) if bound.size else 0.0
    return {
        **difference.stats,
        "first_bad": None,
        "k": quantity.k,
        "lambda": factors(quantity)[0],
        "oracle": "longdouble" if quantity.kind.oracle is np.longdouble else "float64",
        "sampled": int(sample.value.size),
        "kappa": kappa.item(middle) if kappa.size else math.inf,
        "bound": float(sample.probable[worst]),
        "allowed": 2.0 * largest,
        "error": float(max(abs(e.signed[worst]) for e in (sample.paddle, sample.torch)) * sample.unit[worst]),
        "paddle": sample.paddle.stats(),
        "torch": sample.torch.stats(),
    }


def modifiers_of(sample: Trial, difference: TensorDifference, verdict: Verdict) -> tuple[str, ...]:
    """See :class:`padiff_shim.verdicts.Judgement`."""
    names = []
    bound, value = sample.probable[sample.random], sample.value[sample.random]
    if not math.isfinite(np.add.reduce(value)):
        value = np.where(np.isfinite(value), value, 0.0)
    if norm(bound) > 0.1 * norm(value):
        names.append("ill_conditioned")
    if verdict not in (Verdict.EQUAL, Verdict.ROUNDING) and negligible(sample, difference.rms):
        names.append(NEGLIGIBLE)
    return tuple(names)


def beside(sides: dict[str, tuple[Verdict, Any]], verdict: Verdict) -> str:
    """What is to be said of the other side, where that is not rounding either but less serious."""
    for name, (other, explained) in sides.items():
        if other not in (verdict, Verdict.ROUNDING):
            return logged("; beside it {name}: {other}", name=name, other=other) + (f" ({explained.name})" if explained else "")
    return ""


def reason(verdict: Verdict, guilty: list[str], worst: Errors, name: str) -> str:
    who = " and ".join(guilty)
    bounds = logged("{prob:.2g} of the probabilistic and {det:.2g} of the any-order bound", prob=worst.prob, det=worst.det)
    size = logged("error {rho_max:.3g} rounding units, {bounds}", rho_max=worst.rho_max, bounds=bounds)
    if name:
        return logged("{who}: explained by {name}; {size}", who=who, name=name, size=size)
    words = {
        Verdict.NONFINITE: logged("NaN or Inf where the oracle has none, or the other way round"),
        Verdict.WRONG: logged("no order of summation explains it"),
        Verdict.LOCAL_WRONG: logged("single elements that rounding does not explain"),
        Verdict.LOW_ACCURACY: logged("possible rounding, but far worse than the other side or the sqrt(k) model"),
        Verdict.LOCAL_SUSPECT: logged("within the bounds, but single elements stand far out"),
    }
    return f"{who}: {words[verdict]}; {size}"
