"""Why a right port's gradients differ natively: which calls, in the forward and in the backward, carry the difference.

A step computes g(theta), the gradients, from the results y of its calls and from the gradients that each call's backward hands on.
To first order the difference of two runs is the sum over all calls of two parts: what the call's result is apart beyond its
operands, times how y moves the gradients, and what its backward's gradients are apart beyond what it was handed, times how those
move the gradients. With v the difference scaled to length 1, both inner products come from one directional derivative, for second
derivatives are symmetric (Pearlmutter, Fast exact multiplication by the Hessian, 1994): moved along v, a result's gradient changes
as <g, v> does with the result, and an operand's value as <g, v> does with the gradient that is handed to it. So two more runs in
float64, with weights and inputs moved along v to either side, give all of it, and no op needs a second derivative of its own.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import ArgumentError
from ..table.reasons import StayNative
from .calls import Array, Keeping, Kept, Key
from .carriers import NOWHERE, Rounding, Sum
from .findings import CarriedBy, GradientRow
from .natively import told
from .paddle_side import PaddleSide
from .plans import opened
from .sides import NotWider

STEP = 1e-9  # how far, in lengths of all weights: hardly a relu changes sides there, and float64 has digits left
Grads = dict[str, Array]


def gradient_carriers(ours: PaddleSide, of: str, *, training: bool) -> CarriedBy:
    """Run the port's step natively and on Torch's kernels, and tell which calls carry the difference of its gradients.

    Args:
        ours: the port.
        of: ``"gradients"``, or the name of one: of a parameter, or ``"input 0"``, ``"input tokens"`` of an input.
        training: as in a step of a training, the model's own output ``"loss"`` is the loss.

    Raises:
        ArgumentError: there is no gradient of that name.
        NotWider: the port does not run in float64.
    """
    substituted, mine = _run(ours, native=False, training=training)
    _check(mine, of)
    try:
        native, yours = _run(ours, native=True, training=training)
    except Exception as error:
        return CarriedBy([], 0.0, 0.0, of, failed=f"{NOWHERE} ({told(error)})")
    between = _between(mine, yours, of)
    length = float(np.sqrt(sum((one**2).sum() for one in between.values())))
    largest = max((float(np.abs(one).max(initial=0)) for one in between.values()), default=0.0)
    if not length:
        return CarriedBy([], 0.0, largest, of)
    sides = _to_either_side(ours, {name: one / length for name, one in between.items()}, training=training)
    sums: dict[tuple[str, str, str], Sum] = collections.defaultdict(Sum)
    for key, kept in substituted.items():
        other = native.get(key)
        if other is not None and all(key in moved for moved, _ in sides):
            _add(sums, key, kept, other, _Slope(*((moved[key], step) for moved, step in sides)))
    rows = [one.row(place[:2], length, place[2]) for place, one in sums.items() if one.along or one.own]
    rows.sort(key=lambda row: (-abs(row.own), -abs(row.share)))
    return CarriedBy(rows, float(sum(row.share for row in rows)), largest, of, list(_told(between, mine, length)))


def _run(ours: PaddleSide, *, native: bool, training: bool, **how: Any) -> tuple[dict[Key, Kept], Grads]:
    plan = Keeping(native=native, layer=ours.layer)
    found = ours.observed_back(opened(plan), training=training, **how)
    return plan.calls, found


def _check(mine: Grads, of: str) -> None:
    """Raise if there is no gradient of that name."""
    if of != "gradients" and of not in mine:
        raise ArgumentError(
            f'of= is "outputs", "gradients" or the name of one of them ({", ".join(list(mine)[:8])}...), got {of!r}'
        )


def _between(mine: Grads, yours: Grads, of: str) -> Grads:
    """How far the native gradients are apart from Torch's."""
    names = [name for name in mine if name in yours and mine[name].shape == yours[name].shape and of in ("gradients", name)]
    return {name: np.nan_to_num(np.subtract(yours[name], mine[name], dtype=np.float64)) for name in names}


def _to_either_side(ours: PaddleSide, along: Grads, *, training: bool) -> list[tuple[dict[Key, Kept], float]]:
    """The port's step in float64 with weights and inputs moved, and how far; first onwards, then back."""
    whole = float(np.sqrt(sum(float((one.numpy().astype(np.float64) ** 2).sum()) for one in ours.model.parameters())))
    step = STEP * (whole or 1.0)
    found = []
    for signed in (step, -step):
        moved = {name: signed * one for name, one in along.items()}
        try:
            found.append((_run(ours, native=False, training=training, wide=True, moved=moved)[0], step))
        except Exception as error:
            raise NotWider.of("paddle", error) from error
    return found


class _Slope:
    """How a call's operands, and the gradients of its results, change along the difference."""

    def __init__(self, onwards: tuple[Kept, float], back: tuple[Kept, float]) -> None:
        (self._plus, step), (self._minus, _) = onwards, back
        self._width = 2 * step

    def of_operand(self, place: int) -> Array:
        """Of the values of one operand."""
        return (self._plus.operand(place) - self._minus.operand(place)) / self._width

    def of_gradient(self, place: int) -> Array | None:
        """Of the gradient that one result is handed."""
        one, other = (kept.handed[place] if place < len(kept.handed) else None for kept in (self._plus, self._minus))
        return None if one is None or other is None else (one - other) / self._width


def _add(sums: Mapping[tuple[str, str, str], Sum], key: Key, kept: Kept, other: Kept, slope: _Slope) -> None:
    """What one call carries, in the forward and in the backward."""
    if not (kept.answered and other.answered) or kept.wanted != other.wanted:
        return
    try:
        exact, wide = other.torchs(double=True), kept.torchs(double=True)
        narrow = kept.torchs(double=False)
    except (StayNative, RuntimeError):  # a dtype that the formula asks for and that float64 does not go with
        return
    theirs = other.paddles()
    try:
        apart = kept.paddles() if not kept.door.entry.inplace else ([], [])
    except StayNative:
        apart = ([], [])
    count = dict.fromkeys(("forward", "backward"), 0)
    results = zip(other.made, exact[0], kept.made, wide[0], _padded(apart[0], len(kept.made)))
    for place, (yours, rightly, mine, right, native) in enumerate(results):
        tangent = slope.of_gradient(place)
        count["forward"] += _entered(sums[(*key[:2], "forward")], (yours, rightly), (mine, right), native, mine, tangent)
    gradients = zip(kept.wanted, theirs[1], exact[1], narrow[1], wide[1], _padded(apart[1], len(kept.wanted)))
    for at, yours_, rightly_, mine_, right_, native_ in gradients:
        if yours_ is not None and rightly_ is not None and mine_ is not None and right_ is not None:
            along = slope.of_operand(at)
            count["backward"] += _entered(sums[(*key[:2], "backward")], (yours_, rightly_), (mine_, right_), native_, mine_, along)
    for part, seen in count.items():
        sums[(*key[:2], part)].calls += bool(seen)


def _padded(found: Sequence[Array | None], length: int) -> Sequence[Array | None]:
    return found if len(found) == length else [None] * length


def _entered(
    known: Sum, ours: tuple[Array, Array], theirs: tuple[Array, Array], native: Array | None, mine: Array, along: Array | None
) -> bool:
    """Whether two results, each with its exact one, and what carries them on have one shape: then they are added."""
    if along is None or not along.any() or not all(one.shape == along.shape for one in (*ours, *theirs)):
        return False
    if not np.issubdtype(mine.dtype, np.floating):
        return False
    own = np.subtract(native, mine, dtype=np.float64) if native is not None and native.shape == mine.shape else None
    known.add(along, Rounding.between(*ours), Rounding.between(*theirs), own)
    return True


def _told(between: Grads, mine: Grads, length: float) -> Iterator[GradientRow]:
    """Each gradient's part of the difference, the largest first."""
    shares = {name: float((one**2).sum()) / length**2 for name, one in between.items()}
    for name in sorted(between, key=lambda name: -shares[name]):
        apart, largest = (float(np.abs(one).max(initial=0)) for one in (between[name], mine[name]))
        if apart:
            yield GradientRow(name, apart, apart / largest if largest else float("inf"), shares[name])
