"""Formulas that a kernel may compute instead: whether one of them gives the whole of a side's result, up to its own rounding.

The search of :mod:`.hypotheses` asks for the displacement that a cause makes, in units of the op's own bound. That finds another
constant. A formula that means the same and rounds worse (1 + erf for erfc, a square that leaves the range) displaces nothing:
its own bound has to be measured, and every element has to lie in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch

from ...signals import let_pass
from ...verdicts import Judgement, Side, Verdict
from ..oracle.measured import Formula
from ..oracle.precision import Array
from . import special, trial


class Alternative(NamedTuple):
    """``measure``: the formula of the same operands with its bound; it raises where it is about other arguments than these."""

    name: str
    precision: bool
    measure: Callable[[], Formula]


def explained(
    judged: Judgement, formula: Formula, paddle: torch.Tensor, torch_: torch.Tensor, alternatives: Iterable[Alternative]
) -> Judgement | None:
    """The judgement with the name of an alternative that gives all of a side's result, where that is not rounding; None without.

    Where neither side's is, each needs one; if they differ, that of the side which was judged the worse is given.
    """
    results = {Side.PADDLE: paddle, Side.TORCH: torch_}
    odd = {side: result for side, result in results.items() if not fits(formula, result)}
    if not odd and judged.side in results:  # inside of the bound, and much worse than the other one
        odd = {judged.side: results[judged.side]}
    causes = _causes(odd, formula.shape, alternatives)
    if not odd or len(causes) < len(odd):
        return None
    side = judged.side if judged.side in causes else next(iter(odd))
    cause = causes[side]
    others = [f"; beside it {also}: {other.name}" for also, other in causes.items() if other is not cause]
    if len(odd) == 2 and not others:
        side = Side.BOTH
    verdict = judged.verdict
    if verdict is not Verdict.NONFINITE:
        verdict = Verdict.PRECISION_MODE if cause.precision else Verdict.SEMANTICS
    reason = f"{side}: all of it is what {cause.name} gives{''.join(others)}; {judged.reason}"
    return replace(judged, verdict=verdict, side=side, hypothesis=cause.name, alternatives=(), modifiers=(), reason=reason)


def _causes(
    odd: Mapping[Side, torch.Tensor], shape: tuple[int, ...], alternatives: Iterable[Alternative]
) -> dict[Side, Alternative]:
    """The first alternative for each side's result."""
    causes: dict[Side, Alternative] = {}
    for other in alternatives:
        if len(causes) == len(odd):
            break
        try:
            measured = other.measure()
        except Exception as error:  # it is about other arguments
            let_pass(error)
            continue
        if measured.shape == shape:
            causes.update({side: other for side, result in odd.items() if side not in causes and fits(measured, result)})
    return causes


def fits(formula: Formula, result: torch.Tensor) -> bool:
    """Whether every element of a result is the formula's up to its probabilistic bound; NaN and infinities alike.

    Where the formula has no digits left, as behind a number that has left the range, a result may be NaN or infinite.
    """
    evaluation = formula.everywhere()
    bound = evaluation.bound(trial.factors(formula)[1])
    y: Array = result.detach().double().cpu().numpy().reshape(-1)
    value, largest = evaluation.value, formula.kind.format.largest
    value = np.where(np.abs(value) == np.finfo(np.float64).max, np.copysign(largest, value), value)  # the largest that there is
    near = special.fits(y, value, bound, largest)
    lost = (bound > 0) & (bound >= np.abs(value))
    unknown = np.isfinite(value) & ~np.isfinite(bound)
    return bool((near | unknown | (lost & ~np.isfinite(y))).all())
