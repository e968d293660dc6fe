"""By which rule a run updates a parameter: learning rate, decay, epsilon and betas, from what was recorded of a step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from ..runlog.events import CLIPPED, IN_STEP, LOSS, STATE
from .difference import Difference, TensorRow
from .tensors import Array, Tensor

GRADIENTS = (CLIPPED, IN_STEP, "gradient")  # the first of them that was recorded is what an update uses
_FITS = 1e-2  # relative: an update that a rule explains
_SAME = 1e-4  # relative: an update that another run's rule explains as well
_EXACT = 1e-6  # relative: an update that nothing explains better
_USUAL_BETAS = {"moment1": 0.9, "moment2": 0.999}
_USUAL_EPSILON = 1e-8  # elements below weigh less


@dataclass(frozen=True)
class UpdateRule:
    """What one run made of a parameter in a step, and the rule that explains it.

    Attributes:
        rate, decay, epsilon: of the optimizer; ``epsilon`` is 0 where its updates have none.
        left: how much of the update they leave, relative.
    """

    rate: float
    decay: float
    epsilon: float
    left: float
    _update: Array
    _old: Array
    _direction: Array
    _scale: Array

    @property
    def fits(self) -> bool:
        """Whether it explains the update."""
        return self.left < _FITS

    def explains(self, other: UpdateRule) -> bool:
        """Whether it is the rule of another run's update, too."""
        return self.remainder(other) <= max(_SAME, 3 * self.left, 3 * other.left)

    def remainder(self, other: UpdateRule) -> float:
        """How much of another run's update it leaves, relative."""
        update = self.rate * (other._direction / (other._scale + self.epsilon) + self.decay * other._old)
        return float(np.linalg.norm(update - other._update) / np.linalg.norm(other._update))


@dataclass(frozen=True)
class KeptState:
    """How a state comes from the one before and from the gradient.

    Attributes:
        beta: how much of the state before is in it; None where that was zero.
        decay: of the parameter, added to the gradient.
        begins: the state before was zero.
    """

    beta: float | None
    decay: float
    begins: bool


class Updates:
    """The updates of two runs.

    Args:
        difference: with the rows of both.
    """

    def __init__(self, difference: Difference) -> None:
        self._ranks = len({step.rank for step in difference.steps}) > 1  # each is compared for itself
        self._rows: defaultdict[tuple[str, str], list[TensorRow]] = defaultdict(list)
        for row in difference.compared:
            self._rows[row.any.kind, self.name(row)].append(row)
        self._first = difference.steps[0].step if difference.steps else 0

    def name(self, row: TensorRow) -> str:
        """What the rows of one parameter of one process share."""
        return f"{row.rank} {row.any.name}" if self._ranks else row.any.name

    def begins(self, row: TensorRow) -> bool:
        """Whether a row is of a parameter as the runs begin."""
        rows = [other for other in self._rows[row.any.kind, self.name(row)] if other.any.step == self._first]
        return row.any.kind == "parameter" and len(rows) > 1 and rows[0] is row

    def gradient(self, row: TensorRow) -> TensorRow | None:
        """The row of a parameter's gradient as the update used it that made this row."""
        for kind in GRADIENTS:
            used = [known for known in self._rows[kind, self.name(row)] if known.any.step == row.any.step]
            if used:
                return used[-1]
        return None

    def gradients_before(self, row: TensorRow) -> list[TensorRow]:
        """The rows of a parameter's gradients in the step before."""
        rows = (known for kind in GRADIENTS for known in self._rows[kind, self.name(row)])
        return [known for known in rows if known.any.step == row.any.step - 1]

    def contradicted(self, row: TensorRow) -> bool:
        """Whether rules that explain an update, as any do of a first step, explain the next one no more."""
        later = next((other for other in self._rows[row.any.kind, self.name(row)] if other.any.step > row.any.step), None)
        used = None if later is None else self.gradient(later)
        rules = [] if later is None or used is None else self.rules(later, used)
        return any(rule is not None and not rule.fits for rule in rules) and any(rule is not None and rule.fits for rule in rules)

    def starts(self, row: TensorRow) -> bool:
        """Whether a row is of the first step."""
        return row.any.step == self._first

    def same(self, row: TensorRow, rounded: set[int]) -> bool | None:
        """Whether both runs update a parameter by one rule, each by its own gradient; None where the rules are not known."""
        used = self.gradient(row)
        if used is None or (used.differs and id(used) not in rounded):
            return False
        a, b = self.rules(row, used)
        return a.explains(b) and b.explains(a) if a and b and a.fits and b.fits else None

    def rules(self, row: TensorRow, used: TensorRow) -> list[UpdateRule | None]:
        """By which rules both runs have updated a parameter, by the gradients of ``used``."""
        before = self._before(row)
        states = [other for other in self._rows[STATE, self.name(row)] if other.any.step == row.any.step]
        rules = list[UpdateRule | None]()
        for side in "ab":
            old, new, gradient = (None if known is None else wide(getattr(known, side)) for known in (before, row, used))
            own = {state.any.tensor: values for state in states if (values := wide(getattr(state, side))) is not None}
            held = {state.any.tensor: self.kept(state, used, side) for state in states if state.any.tensor in _USUAL_BETAS}
            betas = {
                name: _USUAL_BETAS[name] if state is None or state.beta is None else state.beta for name, state in held.items()
            }
            known = None if old is None or new is None or gradient is None else (old, new, gradient)
            if known is None or len({array.shape for array in known}) > 1:
                rules.append(None)
                continue
            steps = row.any.step + 1
            directions = _directions(known[2], own, betas, steps, first=self.starts(row))
            fitted = [rule for direction in directions if (rule := _fitted(known[0], known[1], *direction)) is not None]
            rules.append(min(fitted, key=lambda rule: rule.left, default=None))
        return rules

    def kept(self, row: TensorRow, used: TensorRow, side: str) -> KeptState | None:
        """What one run makes of a state and of the gradient of ``used``, and of a decay that it adds to the gradient."""
        parameters = [other for other in self._rows["parameter", self.name(row)] if other.any.step < row.any.step]
        starts = [other for other in self._rows["parameter", self.name(row)] if other.any.step == row.any.step]
        parameters += starts[:1] if len(starts) > 1 else []  # as the run begins
        before = self._before(row)
        state, gradient, old = (None if known is None else wide(getattr(known, side)) for known in (row, used, before))
        parameter = wide(getattr(parameters[-1], side)) if parameters else None
        if state is None or gradient is None or state.shape != gradient.shape:
            return None
        decay = 0.0
        if row.any.tensor == "moment2":
            first = next((other for other in self._rows[STATE, self.name(row)] if other.any.step == row.any.step), row)
            other = self.kept(first, used, side) if first.any.tensor == "moment1" else None
            decay = 0.0 if other is None else other.decay
            gradient = gradient**2 if parameter is None or not decay else (gradient + decay * parameter) ** 2
            parameter = None
        others = [array for array in (old, parameter) if array is not None and array.shape == state.shape and array.any()]
        columns = [gradient, *others]
        if not gradient.any() or state.size < len(columns) + 2:
            return None
        matrix = np.stack([column.reshape(-1) / np.linalg.norm(column) for column in columns], 1)
        fitted, *_ = np.linalg.lstsq(matrix, state.reshape(-1), rcond=None)
        if np.linalg.norm(matrix @ fitted - state.reshape(-1)) > _SAME * np.linalg.norm(state):
            return None
        shares = [float(value / np.linalg.norm(column)) for value, column in zip(fitted, columns)]
        if columns[-1] is parameter and abs(fitted[-1]) > _SAME * abs(fitted[0]):
            decay = shares[-1] / shares[0]
        begins = old is None or not old.any()
        beta = (None if row.any.tensor == "velocity" else 1 - shares[0]) if begins else shares[1]
        return KeptState(beta, decay, begins)

    def _before(self, row: TensorRow) -> TensorRow | None:
        """The row of the same tensor that comes before."""
        before = None
        for other in self._rows[row.any.kind, self.name(row)]:
            if other is row:
                break
            before = other if other.any.tensor == row.any.tensor else before
        return before


def _directions(
    gradient: Array, states: Mapping[str, Array], betas: Mapping[str, float], steps: int, *, first: bool
) -> Iterator[tuple[Array, Array | None]]:
    """Of SGD, Momentum and Adam, where what they keep is known, with what it is divided by; Adam's first step is known without."""
    yield gradient, None
    if "velocity" in states:
        yield states["velocity"], None
    if {"moment1", "moment2"} <= states.keys():
        first_moment, second = (states[name] / (1 - betas[name] ** steps) for name in ("moment1", "moment2"))
        yield first_moment, np.sqrt(np.maximum(second, 0))
    elif first:
        yield gradient, np.abs(gradient)


def _fitted(old: Array, new: Array, direction: Array, scale: Array | None) -> UpdateRule | None:
    """The rate, decay and epsilon that explain most of an update along a direction."""
    known = np.abs(direction) > 0
    made, old, direction = (old - new)[known], old[known], direction[known]
    scale = np.ones_like(made) if scale is None else scale[known]
    adaptive = bool((scale != 1).any())
    size = float(np.linalg.norm(made))
    if not size or made.size < 5 or not (scale > 0).all():
        return None
    weights = 1 / (scale + _USUAL_EPSILON) if adaptive else scale
    # Of made * (scale + epsilon) = rate * direction + rate * decay * old * (scale + epsilon), which is linear in products of these.
    columns = [direction * weights, old * scale * weights]
    columns += [-made * weights, old * weights] if adaptive else []
    rules = list[UpdateRule]()
    for chosen in ((0,), (0, 1), range(len(columns))):
        sizes = [float(np.linalg.norm(columns[place])) or 1.0 for place in chosen]
        matrix = np.stack([columns[place] / norm for place, norm in zip(chosen, sizes)], 1)
        fitted, *_ = np.linalg.lstsq(matrix, made * scale * weights, rcond=None)
        rate, decay, epsilon = (*(float(value) / norm for value, norm in zip(fitted, sizes)), 0.0, 0.0)[:3]
        if abs(rate) * float(np.linalg.norm(direction / scale)) > _SAME * size:  # decay alone is no update
            rule = UpdateRule(rate, decay / rate, max(epsilon, 0.0), 0.0, made, old, direction, scale)
            rules.append(replace(rule, left=rule.remainder(rule)))
    least = min((rule.left for rule in rules), default=0.0)
    return next((rule for rule in rules if rule.left <= 3 * least + _EXACT), None)  # of several the one with the fewest numbers


def multiple(values: Array, of: Array, within: float) -> float | None:
    """By which ``values`` are ``of``; None where they are no multiple of it within this, relative."""
    square = float(np.vdot(of, of))
    factor = float(np.vdot(values, of)) / square if square else 0.0
    return factor if factor and np.linalg.norm(values - factor * of) <= within * np.linalg.norm(values) else None


def wide(tensor: Tensor | None) -> Array | None:
    """Values in float64; None where they are not known, or not all finite numbers."""
    values = None if tensor is None or tensor.kind == LOSS else tensor.values()
    known = None if values is None or np.iscomplexobj(values) else values.astype(np.float64)
    return None if known is None or not np.isfinite(known).all() else known


def linear(tensor: Tensor | None) -> Array | None:
    """Values in float64, or figures of a fingerprint that add up as the values do: mean and projection."""
    values = wide(tensor)
    if values is None and tensor is not None and {"mean", "projection"} <= tensor.figures.keys():
        values = np.array([tensor.figures["mean"] * tensor.size, tensor.figures["projection"]])
    return values
