"""Why two runs differ where they differ first, as far as arithmetic on what was recorded tells."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..runlog.events import CLIPPED, IN_STEP, LOSS, STATE
from ..text import joined, shown, tr
from . import pages
from .difference import Difference, TensorRow
from .rank_causes import BACKWARD, BIAS, ORDER, PARTIAL_SUMS, SCALE, SHARES, RankCause
from .rounding import Rounding, explained
from .shards import JoinedTensor
from .switches import SwitchDifference
from .tensors import NORM as NORM_NOTE
from .tensors import WEIGHT, Array, Tensor

RATE, DECAY, NOT_LOADED, UPDATE, RANDOM, NORM, CONSTANT = (
    "learning rate", "weight decay", "optimizer state", "update", "random numbers", "norm", "constant"
)  # fmt: skip
BATCH, ORDER_OF_SAMPLES, ORDER_OF_BATCHES, ROUNDING, SETTINGS = (
    "batch size", "order of samples", "order of batches", "rounding", "settings"
)  # fmt: skip
_GRADIENTS = (CLIPPED, IN_STEP, "gradient")  # the last of them is what an update uses
_SETTINGS = 2  # that a headline names
_FITS = 1e-2  # relative: an update that a rule explains
_FACTOR = 1e-3  # relative: two tensors of which one is a multiple of the other


@dataclass(frozen=True)
class DifferenceReason:
    """Why two runs differ.

    Attributes:
        kind: a word, as ``"learning rate"`` or ``"partial sums"``.
        text: in a sentence.
        numbers: what was measured, by name.
    """

    kind: str
    text: str
    numbers: Mapping[str, Any]


def reason_of(
    difference: Difference, cause: Callable[[TensorRow], RankCause | None], switches: Sequence[SwitchDifference] = ()
) -> DifferenceReason | None:
    """The reason for the first difference that is more than rounding.

    Args:
        difference: of two runs.
        cause: tries arithmetic on parts of ranks.
        switches: the settings in which both runs differ and that change how kernels round.
    """
    inputs = _of_inputs(difference)
    if difference.first is None or (difference.origin is not None and inputs is None):
        return inputs
    rounding = explained(difference.rows, lambda row, rows: _same_update(difference, row, rows))
    rest = rounding.rest
    comparable = inputs is None or inputs.kind == ORDER_OF_SAMPLES or difference.origin is None
    reason = None if rest is None or not comparable else _of_row(difference, rest, rounding, cause)
    parts = [] if inputs is None else [inputs.text]
    numbers: dict[str, Any] = {} if inputs is None else dict(inputs.numbers)
    if rounding.rows:
        words = {"begins": rounding.begins, "amplification": rounding.amplification, "largest": rounding.largest}
        numbers |= words
        if rest is None:
            parts.append(
                tr(
                    "rounding explains all: {begins:.2g} where it begins, no call makes more than {amplification:.3g} times of "
                    "what it reads, {largest:.2g} at most",
                    **words,
                )
            )
        else:
            numbers |= {"until": str(rest.any), "step": rest.any.step}
            parts.append(tr("rounding explains what differs before {rest}", rest=pages.described(rest)))
    elif rest is not None and comparable and inputs is not None:
        parts.append(tr("rounding does not explain {rest}", rest=pages.described(rest)))
    if switches and (rounding.rows or (reason is None and rounding.incoming == 0)):
        numbers["settings"] = [switch.name for switch in switches]
        parts += [tr("{name}: {a} in a, {b} in b", name=name, a=a, b=b) for name, a, b, _ in switches[:_SETTINGS]]
    if not parts:
        return reason
    kind = inputs.kind if inputs is not None else (ROUNDING if rounding.rows else SETTINGS) if reason is None else reason.kind
    parts += [] if reason is None else [reason.text]
    return DifferenceReason(kind, joined("; ", parts), {**numbers, **({} if reason is None else reason.numbers)})


def _of_row(
    difference: Difference, first: TensorRow, rounding: Rounding, cause: Callable[[TensorRow], RankCause | None]
) -> DifferenceReason | None:
    """The reason for a row that rounding does not explain."""
    if first.a is None or first.b is None:
        return None
    if first.any.kind in ("parameter", STATE):
        return _of_update(difference, first, rounding.rows)
    known = cause(first)
    if known is not None:
        return DifferenceReason(known[0], rank_words(known), dict(known[1]))
    if first.any.kind in _GRADIENTS or (first.any.kind, first.any.name) == ("note", NORM_NOTE):
        return _of_gradients(difference, first)
    return _of_random(first) or _of_numbers(first)


def rank_words(cause: RankCause) -> str:
    """A cause of ranks' parts in words."""
    kind, numbers = cause
    return {
        PARTIAL_SUMS: tr("a sum over ranks is missing: each rank holds a part of it"),
        BIAS: tr("each rank adds the bias, so that it counts several times"),
        ORDER: tr("the ranks' shares stand in another order: {order}", order=numbers.get("order", "")),
        BACKWARD: tr("a sum over ranks is missing in the backward: each rank holds a part of the gradient"),
        SHARES: tr("gradients are not summed over the ranks that read other data"),
        SCALE: tr("gradients are {factor:.6g} times those of the other run", factor=numbers.get("factor", math.nan)),
    }.get(kind, str(kind))


def _of_inputs(difference: Difference) -> DifferenceReason | None:
    """How the batches of both runs differ."""
    if difference.micro_batches[0] != difference.micro_batches[1]:
        a, b = difference.micro_batches
        return DifferenceReason(BATCH, tr("another batch size: a step has {a} of them in a, {b} in b", a=a, b=b), {"a": a, "b": b})
    origin = difference.origin
    if origin is None or origin.any.tensor == WEIGHT:
        return None
    samples = [side.rows for side in (origin.a, origin.b) if side is not None]
    if samples[0] != samples[-1] and sorted(samples[0]) == sorted(samples[-1]):
        return DifferenceReason(ORDER_OF_SAMPLES, tr("another order of the samples in a batch"), {})
    if pages.reordered(difference, origin):
        return DifferenceReason(ORDER_OF_BATCHES, tr("another order of batches"), {})
    shapes = [side.shape for side in (origin.a, origin.b) if side is not None]
    if len(shapes) == 2 and shapes[0][1:] == shapes[1][1:] and shapes[0] != shapes[1]:
        text = tr("another batch size: {a} in a, {b} in b", a=shapes[0][0], b=shapes[1][0])
        return DifferenceReason(BATCH, text, {"a": shapes[0][0], "b": shapes[1][0]})
    return None


def _of_random(first: TensorRow) -> DifferenceReason | None:
    """Where the first result that differs is one of dropout: the generators stand elsewhere."""
    tensor = first.any
    draws = any(side is not None and side.reads is not None and side.reads.draws for side in (first.a, first.b))
    if not (draws or "dropout" in tensor.name.lower()):
        return None
    where = shown(f"{tensor.name} {tensor.layer}".strip())
    text = tr("other random numbers, from {where} at step {step}", where=where, step=tensor.step)
    return DifferenceReason(RANDOM, text, {"layer": tensor.layer, "step": tensor.step})


def _of_numbers(first: TensorRow) -> DifferenceReason | None:
    """One factor, or one number that is added, between two results."""
    factor, (a, b) = _factor(first), (_wide(first.a), _wide(first.b))
    if factor is not None and abs(factor - 1) > _FACTOR:
        return DifferenceReason(SCALE, tr("a's values are {factor:.6g} times b's", factor=factor), {"factor": factor})
    if a is None or b is None or a.shape != b.shape or a.size < 2:
        return None
    more = float(np.mean(a - b))
    if more and np.abs(a - b - more).max() <= _FITS * abs(more):
        return DifferenceReason(CONSTANT, tr("a's values are b's plus {more:.4g}", more=more), {"more": more})
    return None


def _of_gradients(difference: Difference, first: TensorRow) -> DifferenceReason | None:
    """One factor between all gradients of the step, or a norm that differs between ranks."""
    kind, step = first.any.kind, first.any.step
    if kind == "note":
        whole = [row for row in difference.compared if row.any.kind == IN_STEP and row.any.step == step]
        if not whole or any(row.differs for row in whole) or not any(isinstance(side, JoinedTensor) for side in (first.a, first.b)):
            return None
        return DifferenceReason(NORM, tr("the norm is not summed over ranks: each clips by its own"), {"step": step})
    rows = [row for row in difference.differing if row.any.kind == kind and row.any.step == step]
    factors = [_factor(row) for row in rows]
    if not factors or None in factors:
        return None
    factor = float(np.median([known for known in factors if known is not None]))
    if any(known is None or abs(known / factor - 1) > _FACTOR for known in factors):
        return None
    if kind == CLIPPED:
        text = tr("gradients are equal before clipping, and clipped to {factor:.4g} times the norm", factor=factor)
    else:
        text = tr("the forward is equal, and all gradients are {factor:.4g} times b's: the loss is scaled otherwise", factor=factor)
    return DifferenceReason(SCALE, text, {"factor": factor})


def _factor(row: TensorRow) -> float | None:
    """By which a's values are b's; None where they are no multiple of them."""
    a, b = _wide(row.a), _wide(row.b)
    if a is None or b is None:
        return None
    for turned in (b, b.T) if b.ndim == 2 else (b,):
        if a.shape == turned.shape:
            square = float(np.vdot(turned, turned))
            factor = float(np.vdot(a, turned)) / square if square else math.nan
            if np.linalg.norm(a - factor * turned) <= _FACTOR * np.linalg.norm(a):
                return factor
    return None


# ---- Updates


@dataclass(frozen=True)
class _Update:
    """What one run did with a parameter in a step: its values before and behind it, its gradient, and the optimizer's states."""

    old: Array
    new: Array
    gradient: Array
    states: Mapping[str, Array]
    step: int

    def fitted(self, *, first: bool) -> tuple[float, float, float] | None:
        """The learning rate, the decay, and how much of the update they leave, by the direction that explains most of it."""
        made = self.new - self.old
        size = float(np.linalg.norm(made))
        best: tuple[float, float, float] | None = None
        for direction in self._directions(first=first) if size else ():
            known = np.abs(direction) > 0
            matrix = np.stack([direction[known], self.old[known]], 1)
            if len(matrix) < 3:
                continue
            (rate, decay), *_ = np.linalg.lstsq(matrix, -made[known], rcond=None)
            left = float(np.linalg.norm(matrix @ [rate, decay] + made[known])) / size
            if rate and (best is None or left < best[2]):
                best = float(rate), float(decay / rate), left
        return best

    def _directions(self, *, first: bool) -> Iterator[Array]:
        """Of SGD, Momentum and Adam, where what they keep is known; Adam's first step is known without."""
        yield self.gradient
        if "velocity" in self.states:
            yield self.states["velocity"]
        if {"moment1", "moment2"} <= self.states.keys():
            first_moment, second = self.states["moment1"], self.states["moment2"]
            count = self.step + 1  # corrected as with the usual betas
            corrected = math.sqrt(1 - 0.999**count) / (1 - 0.9**count)
            yield np.where(second > 0, corrected * first_moment / np.sqrt(np.maximum(second, 1e-38)), 0)
        elif first:
            yield np.sign(self.gradient)


def _fits(difference: Difference, row: TensorRow, used: TensorRow) -> list[tuple[float, float, float] | None]:
    """By which rates and decays both runs have updated a parameter."""
    sides = [_update(difference, row, used, side) for side in "ab"]
    return [None if update is None else update.fitted(first=_starts(difference, row)) for update in sides]


def _starts(difference: Difference, row: TensorRow) -> bool:
    """Whether a row is of the first step."""
    return row.any.step == (difference.steps[0].step if difference.steps else 0)


def _same_update(difference: Difference, row: TensorRow, rounded: set[int]) -> bool:
    """Whether both runs update a parameter with one rate and decay, each by its own gradient."""
    used = _last(difference, row.any.name, row.any.step, _GRADIENTS) if row.any.kind == "parameter" else None
    if used is None or (used.differs and id(used) not in rounded):
        return False
    a, b = _fits(difference, row, used)
    if a is None or b is None or max(a[2], b[2]) > _FITS:
        return False
    return abs(a[0] / b[0] - 1) <= _FACTOR and abs(a[1] - b[1]) <= _FITS * max(abs(a[1]), abs(b[1]), 1.0)


def _of_update(difference: Difference, first: TensorRow, rounded: set[int]) -> DifferenceReason | None:
    """Gradients are equal, the update is not; ``rounded``: rows that rounding explains."""
    used = _last(difference, first.any.name, first.any.step, _GRADIENTS)
    if used is None or (used.differs and id(used) not in rounded):
        return None
    if first.any.kind == STATE:
        return _of_state(first, used)
    starts = _starts(difference, first)
    fits = _fits(difference, first, used)
    if fits[0] is not None and fits[1] is not None:
        good = [fit is not None and fit[2] < _FITS for fit in fits]
        (rate, decay, _), (other_rate, other_decay, _) = fits[0], fits[1]
        if all(good) and abs(rate / other_rate - 1) > _FACTOR:
            text = tr("gradients are equal, the updates are not: learning rate {a:.4g} in a, {b:.4g} in b", a=rate, b=other_rate)
            return DifferenceReason(RATE, text, {"a": rate, "b": other_rate})
        if all(good) and abs(decay - other_decay) > _FITS * max(abs(decay), abs(other_decay)):
            least = _FACTOR * max(abs(decay), abs(other_decay))
            a, b = (known if abs(known) > least else 0.0 for known in (decay, other_decay))
            text = tr("gradients are equal, the updates are not: weight decay {a:.3g} in a, {b:.3g} in b", a=a, b=b)
            return DifferenceReason(DECAY, text, {"a": a, "b": b})
        if good[0] != good[1] and starts:
            side = "ab"[good[1]]
            text = tr(
                "weights and gradients are equal, and {side}'s update is that of a first step: {lost}", side=side, lost=_lost()
            )
            return DifferenceReason(NOT_LOADED, text, {"side": side})
    text = tr("gradients are equal, the updates are not: another learning rate, decay or state of the optimizer")
    return DifferenceReason(UPDATE, text, {})


def _lost() -> str:
    return str(tr("the optimizer's state was not loaded"))


def _of_state(first: TensorRow, used: TensorRow) -> DifferenceReason:
    """A state that begins at zero in one run is a multiple of its first gradient, or of that squared."""
    state, zero = first.any.tensor or STATE, list[bool]()
    for tensor, gradient in ((first.a, used.a), (first.b, used.b)):
        values, made = _wide(tensor), _wide(gradient)
        made = None if made is None else made**2 if state == "moment2" else made
        zero.append(values is not None and made is not None and values.shape == made.shape and _multiple(values, made))
    if zero[0] != zero[1]:
        side = "ab"[zero[1]]
        text = tr(
            "weights and gradients are equal, and {state} begins at zero in {side}: {lost}", state=state, side=side, lost=_lost()
        )
        return DifferenceReason(NOT_LOADED, text, {"side": side, "state": state})
    text = tr("gradients are equal, and {state} is not: the optimizer began with another one", state=state)
    return DifferenceReason(UPDATE, text, {"state": state})


def _multiple(values: Array, of: Array) -> bool:
    square = float(np.vdot(of, of))
    factor = float(np.vdot(values, of)) / square if square else 0.0
    return bool(factor) and bool(np.linalg.norm(values - factor * of) <= _FACTOR * np.linalg.norm(values))


def _last(difference: Difference, name: str, step: int, kinds: Sequence[str]) -> TensorRow | None:
    """The row of a parameter's gradient as its update used it."""
    for kind in kinds:
        for row in difference.compared:
            if row.any.kind == kind and row.any.name == name and row.any.step == step:
                return row
    return None


def _update(difference: Difference, first: TensorRow, used: TensorRow, side: str) -> _Update | None:
    old = None
    states: dict[str, Array] = {}
    for row in difference.compared:
        tensor = getattr(row, side)
        if row is first:
            break
        if row.any.kind == "parameter" and row.any.name == first.any.name:
            old = tensor
        if row.any.kind == STATE and row.any.name == first.any.name and row.any.step == first.any.step:
            values = _wide(tensor)
            states |= {} if values is None else {row.any.tensor: values}
    arrays = [_wide(tensor) for tensor in (old, getattr(first, side), getattr(used, side))]
    known = [array for array in arrays if array is not None]
    if len(known) < len(arrays) or any(array.shape != known[0].shape for array in known):
        return None
    return _Update(known[0], known[1], known[2], states, first.any.step)


def _wide(tensor: Tensor | None) -> Array | None:
    """Values in float64; None where they are not known, or not all finite numbers."""
    values = None if tensor is None or tensor.kind == LOSS else tensor.values()
    wide = None if values is None or np.iscomplexobj(values) else values.astype(np.float64)
    return None if wide is None or not np.isfinite(wide).all() else wide
