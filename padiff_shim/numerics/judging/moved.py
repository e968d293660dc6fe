"""Ops that move or choose values: what comes out is bit for bit what went in, and gradients are sums of what arrives.

Nothing is rounded forward, so an element that differs is wrong on one side. A gradient is linear in the incoming one with the
factors 0, 1, -1 and shares of 1: the formula of its magnitude is the magnitude of its sums, that of ones counts their terms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ...verdicts import Judgement, Side, Verdict
from ..oracle import noise
from ..oracle.elements import equal_in_value, first_place
from ..oracle.measured import Formula
from ..oracle.precision import KINDS
from ..oracle.together import Part
from . import fallback, passes
from .classes import wrong_class
from .verdict import judge

Kernel = Callable[..., torch.Tensor]


def results(
    paddle: torch.Tensor,
    torch_: torch.Tensor,
    kernel: Kernel,
    operands: Sequence[torch.Tensor],
    variants: Mapping[str, fallback.Variant],
) -> Judgement:
    """Judge two results of one shape and dtype. ``variants``: what a kernel may do instead, by name."""
    stats = passes.stats_of(paddle, torch_)
    value, wide = kernel(*operands).to(paddle.dtype), noise.exact(kernel, [noise.wide(tensor) for tensor in operands])
    # Once in the result's own dtype and once in float64, which is rounded: of casts and limits each may be the exact one.
    rights = value, wide.to(paddle.dtype)
    strays = [~(equal_in_value(side, rights[0]) | equal_in_value(side, rights[1])) for side in (paddle, torch_)]
    bad = strays[0] | strays[1]
    if not bool(bad.any()):
        unlike = int((~equal_in_value(paddle, torch_)).sum())
        reason = "both sides round to a nearest number" if unlike else "equal in value"
        return Judgement(Verdict.ROUNDING if unlike else Verdict.EQUAL, reason=reason, stats=stats)
    guilty = [side for side, places in zip((Side.PADDLE, Side.TORCH), strays) if bool(places.any())]
    whose = guilty[0] if len(guilty) == 1 else Side.BOTH
    accused = paddle if whose is not Side.TORCH else torch_
    place, number = first_place(bad), int(bad.sum())
    seen = [f"{tensor[tuple(place)].item():g}" for tensor in (paddle, torch_, value)]
    stats["first_bad"], stats["oracle"] = place, "float64"
    text = f"{number} of {bad.numel()} values are not those that are moved here: at {place} paddle {seen[0]}, torch {seen[1]}, "
    text += f"right {seen[2]}"
    strange = accused.dtype in KINDS and bool((accused.isfinite() != value.isfinite())[bad].all())
    if whose is not Side.BOTH and (name := _named(accused, bad, operands, variants)) is not None:
        verdict = Verdict.NONFINITE if strange else Verdict.PRECISION_MODE if variants[name].precision else Verdict.SEMANTICS
        return Judgement(verdict, whose, name, reason=f"{whose}: explained by {name}; {text}", stats=stats)
    verdict = Verdict.NONFINITE if strange else wrong_class(number, bad.numel())
    return Judgement(verdict, whose, reason=f"{' and '.join(guilty)}: {text}", stats=stats)


def _named(
    accused: torch.Tensor, bad: torch.Tensor, operands: Sequence[torch.Tensor], variants: Mapping[str, fallback.Variant]
) -> str | None:
    """The first variant whose very values one side has."""
    wide = [noise.wide(tensor) for tensor in operands]
    for name, variant in variants.items():
        value = fallback.value_of(variant, wide, accused.dtype)
        if value is None or value.shape != accused.shape:
            continue
        if bool((equal_in_value(accused, value.to(accused.dtype)) | ~bad).all()):
            return name
    return None


@dataclass
class Sums(Formula):
    """The gradient of such an op: what is measured of other formulas is known of it."""

    def probe(self, runs: int) -> None:
        """Nothing is left to measure."""

    def jumps(self, runs: int) -> None:
        """Ties were settled before."""

    @classmethod
    def over(cls, kernel: Kernel, operands: Sequence[torch.Tensor], movable: int, dtype: torch.dtype) -> Sums:
        """The sums that a gradient is. ``movable``: how many of the operands are the call's own, and no incoming gradients."""
        part = Part.alone(kernel, operands)
        value, own, grads = part.exact().double(), part.together.wide[:movable], part.together.wide[movable:]
        size = noise.exact(kernel, [*own, *(grad.abs() for grad in grads)]).abs().double()
        terms = noise.exact(kernel, [*own, *map(torch.ones_like, grads)]).abs().nan_to_num(1.0, 1.0, 1.0)
        sums = cls(tuple(value.shape), dtype, 1, {}, kernel=part, given=part.together.wide, value=value)
        sums.k = max(1, math.ceil(float(terms.max()))) if terms.numel() else 1
        unit = max(KINDS[dtype].unit, KINDS[dtype].output)
        size = torch.maximum(size, value.abs()).nan_to_num(0.0, 0.0, 0.0)
        sums._moves = {"step": size * unit, "sums": size * unit * math.sqrt(sums.k)}
        return sums


@np.errstate(all="ignore")
def gradients(
    paddle: torch.Tensor,
    torch_: torch.Tensor,
    kernel: Kernel,
    operands: Sequence[torch.Tensor],
    movable: int,
    variants: Mapping[str, fallback.Variant],
    *,
    rng: np.random.Generator,
    audit: bool = False,
) -> Judgement:
    """Judge two gradients of one shape and dtype."""
    formula = Sums.over(kernel, operands, movable, paddle.dtype)
    formula.named = lambda: fallback.hypotheses(formula, variants)
    return judge(formula, paddle, torch_, rng=rng, audit=audit)
