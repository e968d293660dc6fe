"""Ops that move or choose values, bit for bit, and answers at ties."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch

from ..language import logged
from ..verdicts import Judgement, Side, Verdict
from . import difference, generic, noise
from .measured import Formula, JointResult
from .precision import KINDS, equal_in_value, first_place
from .ties import ROUNDINGS, Allowed, TiedCall, Ties
from .trial import wrong_class
from .verdict import judge

# ---- Ops that move or choose values: the result holds bits of the operands, and gradients are sums of the incoming ones.
#
# Nothing is rounded forward, so an element that differs is wrong on one side. A gradient is linear in the incoming one with the
# factors 0, 1, -1 and shares of 1: the formula of its magnitude is the magnitude of its sums, that of ones counts their terms.

SIDES = (Side.PADDLE, Side.TORCH)
Kernel = Callable[..., torch.Tensor]


def results(
    paddle: torch.Tensor,
    torch_: torch.Tensor,
    kernel: Kernel,
    operands: Sequence[torch.Tensor],
    variants: Mapping[str, generic.Variant],
) -> Judgement:
    """Judge two results of one shape and dtype. ``variants``: what a kernel may do instead, by name."""
    stats = difference.stats_of(paddle, torch_)
    value, wide = kernel(*operands).to(paddle.dtype), noise.exact(kernel, [noise.wide(tensor) for tensor in operands])
    # Once in the result's own dtype and once in float64, which is rounded: of casts and limits each may be the exact one.
    rights = value, wide.to(paddle.dtype)
    strays = [~(equal_in_value(side, rights[0]) | equal_in_value(side, rights[1])) for side in (paddle, torch_)]
    bad = strays[0] | strays[1]
    if not bool(bad.any()):
        unlike = int((~equal_in_value(paddle, torch_)).sum())
        reason = logged("both sides round to a nearest number") if unlike else logged("equal in value")
        return Judgement(Verdict.ROUNDING if unlike else Verdict.EQUAL, reason=reason, stats=stats)
    guilty = [side for side, places in zip(SIDES, strays) if bool(places.any())]
    whose = Side.of(guilty)
    accused = paddle if whose is not Side.TORCH else torch_
    place, number = first_place(bad), int(bad.sum())
    seen = [f"{tensor[tuple(place)].item():g}" for tensor in (paddle, torch_, value)]
    stats["first_bad"], stats["oracle"] = place, "float64"
    text = logged(
        "{number} of {all} values are not those that are moved here: at {place} paddle {paddle}, torch {torch}, right {right}",
        number=number,
        all=bad.numel(),
        place=place,
        paddle=seen[0],
        torch=seen[1],
        right=seen[2],
    )
    strange = accused.dtype in KINDS and bool((accused.isfinite() != value.isfinite())[bad].all())
    wide = [noise.wide(tensor) for tensor in operands]
    name = _giving(variants, wide, accused, lambda value: equal_in_value(accused, value.to(accused.dtype)) | ~bad)
    if whose is not Side.BOTH and name is not None:
        verdict = Verdict.NONFINITE if strange else Verdict.PRECISION_MODE if variants[name].precision else Verdict.SEMANTICS
        return _explained(verdict, whose, name, text, stats)
    verdict = Verdict.NONFINITE if strange else wrong_class(number, bad.numel())
    return Judgement(verdict, whose, reason=f"{' and '.join(guilty)}: {text}", stats=stats)


def _explained(verdict: Verdict, whose: Side, name: str, text: str, stats: dict[str, Any]) -> Judgement:
    reason = logged("{whose}: explained by {name}; {text}", whose=whose, name=name, text=text)
    return Judgement(verdict, whose, name, reason=reason, stats=stats)


def _giving(
    variants: Mapping[str, generic.Variant],
    operands: Sequence[torch.Tensor],
    accused: torch.Tensor,
    agrees: Callable[[torch.Tensor], torch.Tensor],
) -> str | None:
    """The first variant whose value of the wide operands one side has: ``agrees`` says where."""
    for name, variant in variants.items():
        value = generic.value_of(variant, operands, accused.dtype)
        if value is not None and value.shape == accused.shape and bool(agrees(value).all()):
            return name
    return None


@dataclass
class Sums(Formula):
    """The gradient of such an op: what is measured of other generic is known of it."""

    def probe(self, runs: int) -> None:
        """Nothing is left to measure."""

    def jumps(self, runs: int) -> None:
        """Ties were settled before."""

    @classmethod
    def over(cls, kernel: Kernel, operands: Sequence[torch.Tensor], movable: int, dtype: torch.dtype) -> Sums:
        """The sums that a gradient is. ``movable``: how many of the operands are the call's own, and no incoming gradients."""
        part = JointResult.alone(kernel, operands)
        value, own, grads = part.exact().double(), part.together.wide[:movable], part.together.wide[movable:]
        size = noise.exact(kernel, [*own, *(grad.abs() for grad in grads)]).abs().double()
        terms = noise.exact(kernel, [*own, *map(torch.ones_like, grads)]).abs().nan_to_num(1.0, 1.0, 1.0)
        sums = cls(tuple(value.shape), dtype, 1, {}, kernel=part, inputs=part.together.wide, value=value)
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
    variants: Mapping[str, generic.Variant],
    *,
    rng: np.random.Generator,
    audit: bool = False,
) -> Judgement:
    """Judge two gradients of one shape and dtype."""
    formula = Sums.over(kernel, operands, movable, paddle.dtype)
    formula.named = generic.about(formula, generic.hypotheses, variants)
    return judge(formula, paddle, torch_, rng=rng, audit=audit)


# ---- The verdict on answers at ties (:mod:`.ties`), apart from that on all other elements.


class Settled(NamedTuple):
    """What is said of the elements at ties, and both tensors for the verdict on the others: with the formula's answer there."""

    judgement: Judgement
    paddle: torch.Tensor
    torch: torch.Tensor

    def beside(self, rest: Judgement) -> Judgement:
        """The verdict on the whole tensor: the worse one, with what is to be said of the ties."""
        ties = self.judgement
        if ties.verdict is Verdict.EQUAL:
            return rest
        if ties.verdict.severity > rest.verdict.severity:
            return ties
        return replace(rest, reason=logged("{reason}; beside it {other}", reason=rest.reason, other=ties.reason))


def settle(
    ties: Ties,
    call: TiedCall,
    paddle: torch.Tensor,
    torch_: torch.Tensor,
    variants: Mapping[str, generic.Variant],
) -> Settled | None:
    """Hold both sides' answers at ties against what is allowed; None where no operand stands at a tie.

    ``variants``: what a kernel may compute instead, by name.
    """
    allowed = ties.allowed(call, paddle, torch_)
    if allowed is None:
        return None
    refused = allowed.refused[0] | allowed.refused[1]
    settled = allowed.tied | refused
    if not bool(settled.any()):
        return None
    own = allowed.own.to(paddle.dtype)
    rest = [torch.where(settled, own, side) for side in (paddle, torch_)]
    unlike = settled & ~equal_in_value(paddle, torch_)
    stats = difference.stats_of(paddle, torch_)
    if bool(refused.any()):
        judgement = _refused(call, allowed, (paddle, torch_), stats, variants)
    elif allowed.doubtful is not None and bool((unlike & allowed.doubtful).any()):
        text = logged(
            "{count} where an operand is NaN, or at a tie; what is allowed there was not to be settled",
            count=_count(unlike & allowed.doubtful),
        )
        judgement = Judgement(Verdict.UNVERIFIED, reason=text, stats=stats)
    elif bool(unlike.any()):
        sides = (paddle, torch_)
        place = first_place(unlike)
        seen = [f"{side[tuple(place)].item():g}" for side in sides]
        reason = logged(
            "{count} at a tie, where both choices are allowed: at {place} paddle {paddle}, torch {torch}",
            count=_count(unlike),
            place=place,
            paddle=seen[0],
            torch=seen[1],
        )
        judgement = Judgement(Verdict.TIE, reason=reason, stats={**stats, "tied": int(unlike.sum()), "first_tied": place})
    else:
        judgement = Judgement(Verdict.EQUAL, reason=logged("equal at ties"), stats=stats)
    return Settled(judgement, rest[0], rest[1])


def _count(mask: torch.Tensor) -> str:
    number, whole = int(mask.sum()), mask.numel()
    if number > 1:
        return logged("{number} of {whole} elements differ", number=number, whole=whole)
    return logged(
        "{number} of {whole} element differs" if whole == 1 else "{number} of {whole} elements differs", number=number, whole=whole
    )


def _refused(
    call: TiedCall,
    allowed: Allowed,
    sides: Sequence[torch.Tensor],
    stats: dict[str, Any],
    variants: Mapping[str, generic.Variant],
) -> Judgement:
    """WRONG, or the cause: an answer that is not among those allowed at a tie."""
    guilty = [side for side, bad in zip(SIDES, allowed.refused) if bool(bad.any())]
    bad = allowed.refused[0] | allowed.refused[1]
    place, number = first_place(bad), int(bad.sum())
    values = [f"{tensor[tuple(place)].item():g}" for tensor in (*sides, allowed.own)]
    text = logged(
        "at a tie {number} of {all} answers are none of those allowed: at {place} paddle {paddle}, torch {torch}, for instance "
        "{allowed} would be",
        number=number,
        all=bad.numel(),
        place=place,
        paddle=values[0],
        torch=values[1],
        allowed=values[2],
    )
    stats["first_bad"], stats["oracle"] = place, "float64"
    whose = Side.of(guilty)
    accused = sides[SIDES.index(guilty[0])]
    name = None
    if len(guilty) == 1 and accused.is_floating_point():

        def agrees(value: torch.Tensor) -> torch.Tensor:
            room = call.roundoff * ROUNDINGS * torch.maximum(value.abs(), accused.double().abs())
            return ((value - accused.double()).abs() <= room) | ~allowed.tied

        name = _giving(variants, call.wide, accused, agrees)
    if name is not None:
        return _explained(Verdict.SEMANTICS, whose, name, text, stats)
    if accused.is_floating_point() and not bool(accused[bad].isfinite().any()):
        return Judgement(Verdict.NONFINITE, whose, reason=f"{whose}: {text}", stats=stats)
    return Judgement(wrong_class(number, bad.numel()), whose, reason=f"{' and '.join(guilty)}: {text}", stats=stats)
