"""Two kernels' results on one sample of outputs, in units of the rounding bound."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..oracle.precision import Array, accumulation, confidence, rms
from ..oracle.staging import Evaluation, Quantity, Staged, to_host


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
    found: Evaluation
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
        return self.found.value.reshape(-1)

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
        width = self.value.size // max(len(self.found.value), 1)
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
    found = quantity.solve(staged)
    value = found.value.reshape(-1)
    y = np.empty((2, value.size), quantity.kind.oracle)
    for side, one in enumerate(to_host([quantity.result(tensor).gather(where) for tensor in (paddle, torch_)])):
        y[side] = one.reshape(-1)
    start = lead * (value.size // max(len(found.value), 1))
    random = slice(start if start < value.size else 0, None)
    return _beside(quantity, staged, lead, found, random, y)


def whole(quantity: Quantity, oracle: Evaluation, y: Array) -> Trial:
    """The oracle at every output, and both results, of shape (2, outputs)."""
    return _beside(quantity, Staged({}, {}, ()), 0, oracle, slice(0, None), y)


def _beside(quantity: Quantity, staged: Staged, lead: int, oracle: Evaluation, random: slice, y: Array) -> Trial:
    """Both sides' errors beside the oracle."""
    _, probable, certain = factors(quantity)
    bounds = oracle.bound(1.0).reshape(-1), oracle.bound(probable).reshape(-1), oracle.bound(certain).reshape(-1)
    sides = _errors(y, oracle.value.reshape(-1), bounds, random, quantity.kind.format.largest)
    return Trial(quantity, staged, lead, oracle, *bounds, random, sides[0], sides[1], (probable, certain))


def errors(y: Array, value: Array, bounds: tuple[Array, Array, Array], found: Trial) -> Errors:
    """One side's errors on the sample of ``found`` against other values, in units of other bounds."""
    return _errors(np.stack([y, y]), value, bounds, found.random, found.quantity.kind.format.largest)[0]


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
