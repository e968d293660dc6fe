"""What a verdict says of itself: statistics, modifiers, one sentence."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...verdicts import NEGLIGIBLE, Verdict
from ..oracle.precision import norm
from . import trial
from .classes import negligible
from .passes import Difference
from .trial import Errors, Trial


def stats(found: Trial, difference: Difference) -> dict[str, Any]:
    quantity, worst = found.quantity, found.worst()
    kappa = np.asarray(found.unit / (quantity.kind.format.unit * np.abs(found.value)), np.float64)  # an array of its own
    kappa = kappa if math.isfinite(np.add.reduce(kappa)) else kappa[np.isfinite(kappa)]
    middle = kappa.size // 2
    if kappa.size:
        kappa.partition(middle)
    return {
        **difference.stats,
        "first_bad": None,
        "k": quantity.k,
        "lambda": trial.factors(quantity)[0],
        "oracle": "longdouble" if quantity.kind.oracle is np.longdouble else "float64",
        "sampled": int(found.value.size),
        "kappa": kappa.item(middle) if kappa.size else math.inf,
        "bound": float(found.probable[worst]),
        "allowed": _allowed(found),
        "error": float(max(abs(e.signed[worst]) for e in (found.paddle, found.torch)) * found.unit[worst]),
        "paddle": found.paddle.stats(),
        "torch": found.torch.stats(),
    }


def _allowed(found: Trial) -> float:
    """How far two right kernels may lie apart, at most; where the oracle itself is not finite they may not."""
    bound = found.probable
    if not math.isfinite(largest := float(bound[bound.argmax()])):
        bound = bound[np.isfinite(found.value)]
        largest = float(bound.max()) if bound.size else 0.0
    return 2.0 * largest


def modifiers(found: Trial, difference: Difference, verdict: Verdict) -> tuple[str, ...]:
    """See :class:`padiff_shim.verdicts.Judgement`."""
    names = []
    bound, value = found.probable[found.random], found.value[found.random]
    if not math.isfinite(np.add.reduce(value)):
        value = np.where(np.isfinite(value), value, 0.0)
    if norm(bound) > 0.1 * norm(value):
        names.append("ill_conditioned")
    if verdict not in (Verdict.EQUAL, Verdict.ROUNDING) and negligible(found, difference.rms):
        names.append(NEGLIGIBLE)
    return tuple(names)


def beside(sides: dict[str, tuple[Verdict, Any]], verdict: Verdict) -> str:
    """What is to be said of the other side, where that is not rounding either but less serious."""
    for name, (other, explained) in sides.items():
        if other not in (verdict, Verdict.ROUNDING):
            return f"; beside it {name}: {other}" + (f" ({explained.name})" if explained else "")
    return ""


def reason(verdict: Verdict, guilty: list[str], worst: Errors, name: str) -> str:
    who = " and ".join(guilty)
    bounds = f"{worst.prob:.2g} of the probabilistic and {worst.det:.2g} of the any-order bound"
    size = f"error {worst.rho_max:.3g} rounding units, {bounds}"
    if name:
        return f"{who}: explained by {name}; {size}"
    said = {
        Verdict.NONFINITE: "NaN or Inf where the oracle has none, or the other way round",
        Verdict.WRONG: "no order of summation explains it",
        Verdict.LOCAL_WRONG: "single elements that rounding does not explain",
        Verdict.LOW_ACCURACY: "possible rounding, but far worse than the other side or the sqrt(k) model",
        Verdict.LOCAL_SUSPECT: "within the bounds, but single elements stand far out",
    }
    return f"{who}: {said[verdict]}; {size}"
