"""Named ways in which kernels differ, and the search for the one that explains an error.

The search is a matched filter: the kernel's error w, in units of the bound, is compared with the displacement d that the
hypothesis predicts. A name is given only if what is left after subtracting it fits the rounding bound, at the oracle's value and
at the hypothesis' own, and if so many outputs agree that it is no accident: correlation or the size of an error alone would name
causes that are not there. What rounding explains has no name: functions of single elements inside their bound, single sums inside
that of any order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch

from ..oracle.precision import Array, norm, rms, rounded
from ..oracle.staging import Evaluation, Hypothesis, Staged, in_turn
from .narrow import INSIDE, NARROWER, narrow_format
from .pieces import top_of
from .trial import Errors, Trial

EPSILONS = (0.0, 1e-12, 1e-8, 1e-7, 1e-6, 1e-5, 1e-3)
AMPLITUDE, STRENGTH = 0.15, 8.0
CHANCE = math.log(1e4)
LUCK = 0.25  # rounding units: an agreement closer than rounding allows is no stronger evidence
SCREEN, FEWEST = 8192, 16  # operand values, and samples, of which a large sample keeps hypotheses to try


def precision(dtype: torch.dtype, inputs: Iterable[str], parameters: Iterable[str] = ()) -> list[Hypothesis]:
    """Operands, or the result, rounded to a narrower format. ``parameters``: operands that may keep their precision (a bias)."""
    names, every = tuple(inputs), (*inputs, *parameters)

    def operands(form: str, truncate: bool = False) -> Callable[[Staged], Staged]:
        return lambda s: s.each(lambda a: rounded(a, form, truncate=truncate), _there(s, names))

    def with_parameters(form: str) -> Callable[[Staged], Staged | None]:
        def change(s: Staged) -> Staged | None:
            chosen = _there(s, every)
            return s.each(lambda a: rounded(a, form), chosen) if len(chosen) > len(_there(s, names)) else None

        return change

    def result(form: str) -> Callable[[Staged], Staged]:
        return lambda s: replace(s, post=lambda y: rounded(y, form))

    found = []
    for form in NARROWER[dtype]:
        found.append(Hypothesis(f"{form}-inputs", True, operands(form)))
        if parameters:
            found.append(Hypothesis(f"{form}-inputs-and-parameters", True, with_parameters(form)))
        if form == "tf32":
            found.append(Hypothesis("tf32-truncated-inputs", True, operands(form, truncate=True)))
        else:
            found.append(Hypothesis(f"{form}-output", True, result(form)))
    return found


def _there(staged: Staged, names: tuple[str, ...]) -> list[str]:
    return [name for name in names if name in staged.arrays]


def numbers(dtype: torch.dtype, *names: str) -> list[Hypothesis]:
    """Numbers of the call rounded to float32 on their way to a float64 kernel (or further, to a 16-bit one): each, and all at once.

    Two displacements of one size cannot be found one after the other, for each is noise beside the other.
    """
    if dtype not in (torch.float64, torch.float32):
        return []
    forms = ("float32",) if dtype == torch.float64 else ("fp16", "bf16")
    chosen = [(name,) for name in names] + ([names] if len(names) > 1 else [])
    found = [(some, form, "+".join(f"{name}->{form}" for name in some)) for some in chosen for form in forms]
    return [Hypothesis(name, True, _rounded_numbers(some, form)) for some, form, name in found]


def _rounded_numbers(names: tuple[str, ...], form: str) -> Callable[[Staged], Staged | None]:
    def change(staged: Staged) -> Staged | None:
        values = [staged.attrs.get(name) for name in names]
        given = [float(value) for value in values if isinstance(value, (int, float))]
        if len(given) < len(names):
            return None
        return staged.change(**{n: float(rounded(np.asarray(v), form)) for n, v in zip(names, given)})

    return change


def setting(name: str, **attrs: object) -> Hypothesis:
    """Other numbers in the same formula."""
    return Hypothesis(name, False, lambda s: s.change(**attrs))


def missing(operand: str, name: str) -> Hypothesis:
    """An optional operand that was not used."""
    return Hypothesis(name, False, lambda s: s.without(operand) if operand in s.arrays else None)


def dropped(names: Iterable[str], neutral: float = 0.0) -> list[Hypothesis]:
    """The first or the last element of what is summed over left out (masks and loops that are off by one)."""
    chosen = tuple(names)

    def drop(place: int) -> Callable[[Staged], Staged]:
        def blank(array: Array) -> Array:
            found = array.copy().reshape(len(array), -1)
            found[:, place] = neutral
            return found.reshape(array.shape)

        return lambda s: s.each(blank, _there(s, chosen)[:1])

    return [Hypothesis("first-element-dropped", False, drop(0)), Hypothesis("last-element-dropped", False, drop(-1))]


def epsilons(dtype: torch.dtype, given: float) -> list[Hypothesis]:
    """Another epsilon, epsilon outside the square root, epsilon through float32."""
    others = [setting(f"epsilon={value:g}", epsilon=value) for value in EPSILONS if value != given]
    return [*numbers(dtype, "epsilon"), *others, setting("epsilon-outside-sqrt", outside=True)]


class Explained(NamedTuple):
    """What explains an error: the name, whether it is one of precision, and others that fit as well.

    ``value``, ``found``: what the kernel would have computed on the sample but for its rounding, and the bound of that; None
    where it is not known. ``change``: the same for any sample; ``full``: for the whole tensor. ``exact``: the very order of
    summation.
    """

    name: str
    precision: bool
    alternatives: tuple[str, ...]
    value: Array | None = None
    found: Evaluation | None = None
    change: Callable[[Staged], Staged | None] | None = None
    exact: bool = False
    full: Callable[[], torch.Tensor | None] | None = None


class _Fit(NamedTuple):
    hypothesis: Hypothesis
    staged: Staged | None
    moved: Array
    value: Array
    found: Evaluation | None
    left: float


def explain(trial: Trial, errors: Errors, other: Errors) -> Explained | None:
    """The hypothesis, or two of them together, of which ``errors`` are the consequence."""
    if errors.prob <= 1 and trial.quantity.k <= 1:
        return None
    whole = narrow_format(trial, errors)
    if whole is not None:
        return Explained(whole, True, ())
    named = trial.quantity.named()
    first = _candidates(trial, _screened(trial, named, errors), trial.staged, trial.value, errors.signed)
    accepted = [fit for fit in first if _accepted(trial, errors, other, fit)]
    if accepted:
        return _explained(accepted)
    for fit in first[:2]:
        if fit.staged is None:
            continue
        # All of them again: beside a large first cause a small second one does not pass the screening.
        rest = [h for h in named if h.name != fit.hypothesis.name]
        second = _candidates(trial, rest, fit.staged, fit.value, errors.signed - fit.moved)
        for more in second[:2]:
            both = more._replace(moved=more.moved + fit.moved)
            if _accepted(trial, errors, other, both):
                name = f"{fit.hypothesis.name}+{more.hypothesis.name}"
                return Explained(
                    name,
                    fit.hypothesis.precision and more.hypothesis.precision,
                    (),
                    both.value,
                    both.found,
                    in_turn(fit.hypothesis, more.hypothesis),
                )
    return None


def _screened(trial: Trial, named: list[Hypothesis], errors: Errors) -> list[Hypothesis]:
    """Those hypotheses that a small part of a large sample does not rule out already.

    Half of the part are the largest errors, half random ones. A cause that explains the whole sample shows in its largest errors
    with an amplitude near 1; the part only has to tell it from nothing, so the limits are wide.
    """
    samples = len(trial.found.value)
    if trial.value.size != samples or samples * trial.quantity.per_sample <= SCREEN:
        return named
    count = max(SCREEN // (2 * trial.quantity.per_sample), FEWEST)
    largest = np.argsort(-np.abs(errors.signed))[: count // 2]
    part = np.unique(np.concatenate([largest, np.arange(samples)[trial.random][: count // 2]]))
    few = replace(trial, staged=trial.quantity.stage(tuple(axis[part] for axis in trial.staged.where)), unit=trial.unit[part])
    fits = _candidates(few, [h for h in named if h.full is None], few.staged, trial.value[part], errors.signed[part], 0.5, 3.0)
    kept = {fit.hypothesis.name for fit in fits}
    return [h for h in named if h.full is not None or h.name in kept]


def _explained(fits: list[_Fit]) -> Explained:
    close = [fit for fit in fits if fit.left <= 2.0 * fits[0].left + 0.1]
    best = close[0]
    if best.hypothesis.name.startswith("fp16"):
        # Both keep 11 bits and differ in range only, so either may fit better by accident: one of them has to be named always.
        twin = best.hypothesis.name.replace("fp16", "tf32", 1)
        best = next((fit for fit in close if fit.hypothesis.name == twin), best)
    others = tuple(fit.hypothesis.name for fit in close if fit is not best)
    own = best.hypothesis
    return Explained(own.name, own.precision, others, best.value, best.found, own.change, full=own.full)


def _candidates(
    trial: Trial,
    named: list[Hypothesis],
    staged: Staged,
    base: Array,
    error: Array,
    amplitude: float = AMPLITUDE,
    strength: float = STRENGTH,
) -> list[_Fit]:
    """Hypotheses whose displacement the error contains once (amplitude 1), best first."""
    found = []
    for hypothesis in named:
        changed, solved = None, None
        if hypothesis.full is not None:
            value = _gathered(trial, hypothesis)
        else:
            changed = hypothesis.change(staged) if hypothesis.change else None
            solved = None if changed is None else trial.quantity.solve(changed)
            value = None if solved is None else solved.value.reshape(-1)
        if value is None or value.shape != base.shape:
            continue
        if not math.isfinite(np.add.reduce(value)) and not np.isfinite(value[np.isfinite(base)]).all():
            continue
        moved = np.asarray((value - base) / trial.unit, np.float64)
        if not math.isfinite(np.add.reduce(moved)):
            moved = np.nan_to_num(moved)
        top = top_of(np.abs(moved))
        if top < 1.0:
            continue  # below the rounding: harmless, and not to be told apart
        direction = moved / top  # squares of displacements in float64 may be beyond its range
        alpha = float(np.dot(error / top, direction)) / float(np.dot(direction, direction))
        if abs(alpha - 1) < amplitude and abs(alpha) * float(norm(moved)) > strength * rms(error - alpha * moved):
            found.append(_Fit(hypothesis, changed, moved, value, solved, rms(error - moved)))
    return sorted(found, key=lambda fit: fit.left)


def _gathered(trial: Trial, hypothesis: Hypothesis) -> Array | None:
    return None if hypothesis.full is None else gathered(trial, hypothesis.full)


def gathered(trial: Trial, compute: Callable[[], torch.Tensor | None]) -> Array | None:
    """What a hypothesis about the whole tensor says of the sample's places."""
    full = compute()
    if full is None or tuple(full.shape) != trial.quantity.shape:
        return None
    taken = trial.quantity.result(full).gather(trial.staged.where)
    array = taken if isinstance(taken, np.ndarray) else taken.cpu().numpy()
    return array.astype(trial.quantity.kind.oracle).reshape(-1)


def _accepted(trial: Trial, errors: Errors, other: Errors, fit: _Fit) -> bool:
    """What is left is rounding: inside the probabilistic bound at both values, and small beside the error."""
    left = np.nan_to_num(np.abs(errors.y - fit.value))
    bound = trial.probable
    if fit.found is not None:
        there = fit.found.bound(trial.factors[0]).reshape(-1)
        # Where the hypothesis moves the value far (a clipped softmax), rounding is that of the value it has there.
        room = np.maximum(bound, np.abs(fit.moved) * trial.unit / 4)
        bound = np.where(np.isfinite(there), np.minimum(room, there), bound)
    inside = float(np.mean(left <= bound))
    rest = np.nan_to_num(np.asarray(left / trial.unit, np.float64))
    size, unexplained = rms(errors.signed), rms(rest)
    if inside < INSIDE or unexplained > max(size / 4, 4 * other.rho_rms, 1.0) or unexplained >= size:
        return False
    if errors.det <= 1 and different(fit.moved) < 2:
        return False
    return evidence(fit.moved, max(unexplained, LUCK) / size) >= CHANCE


def evidence(moved: Array, left: float) -> float:
    """-log of the chance that a displacement agrees so well by accident: about ``left`` for each output that is not a repetition.

    Three equal outputs are one: among two dozen hypotheses one will agree to a tenth with a single number.
    """
    return different(moved) * -math.log(max(left, 1e-30))


def different(moved: Array) -> int:
    """How many outputs are displaced by a unit or more; copies count once."""
    return int(np.unique(moved[np.abs(moved) >= 1.0]).size)
