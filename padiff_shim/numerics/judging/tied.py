"""The verdict on answers at ties (:mod:`padiff_shim.numerics.ties`), apart from that on all other elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from ...verdicts import Judgement, Side, Verdict
from ..oracle.elements import equal_in_value, first_place
from ..ties import ROUNDINGS, Allowed, TiedCall, Ties
from . import fallback, passes
from .classes import wrong_class

SIDES = (Side.PADDLE, Side.TORCH)


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
        return replace(rest, reason=f"{rest.reason}; beside it {ties.reason}")


def settle(
    ties: Ties,
    call: TiedCall,
    paddle: torch.Tensor,
    torch_: torch.Tensor,
    variants: Mapping[str, fallback.Variant],
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
    stats = passes.stats_of(paddle, torch_)
    if bool(refused.any()):
        judgement = _refused(call, allowed, (paddle, torch_), stats, variants)
    elif allowed.doubtful is not None and bool((unlike & allowed.doubtful).any()):
        text = (
            f"{_count(unlike & allowed.doubtful)} where an operand is NaN, or at a tie; what is allowed there was not to be settled"
        )
        judgement = Judgement(Verdict.UNVERIFIED, reason=text, stats=stats)
    elif bool(unlike.any()):
        judgement = _allowed(allowed, unlike, (paddle, torch_), stats)
    else:
        judgement = Judgement(Verdict.EQUAL, reason="equal at ties", stats=stats)
    return Settled(judgement, rest[0], rest[1])


def _count(mask: torch.Tensor) -> str:
    number, whole = int(mask.sum()), mask.numel()
    return f"{number} of {whole} element{'s' if whole > 1 else ''} differ{'' if number > 1 else 's'}"


def _allowed(allowed: Allowed, unlike: torch.Tensor, sides: Sequence[torch.Tensor], stats: dict[str, Any]) -> Judgement:
    place = first_place(unlike)
    seen = [f"{side[tuple(place)].item():g}" for side in sides]
    reason = f"{_count(unlike)} at a tie, where both choices are allowed: at {place} paddle {seen[0]}, torch {seen[1]}"
    return Judgement(Verdict.TIE, reason=reason, stats={**stats, "tied": int(unlike.sum()), "first_tied": place})


def _refused(
    call: TiedCall,
    allowed: Allowed,
    sides: Sequence[torch.Tensor],
    stats: dict[str, Any],
    variants: Mapping[str, fallback.Variant],
) -> Judgement:
    """WRONG, or what explains it: an answer that is none of those allowed at a tie."""
    guilty = [side for side, bad in zip(SIDES, allowed.refused) if bool(bad.any())]
    bad = allowed.refused[0] | allowed.refused[1]
    place, number = first_place(bad), int(bad.sum())
    values = [f"{tensor[tuple(place)].item():g}" for tensor in (*sides, allowed.own)]
    text = (
        f"at a tie {number} of {bad.numel()} answers are none of those allowed: at {place} paddle {values[0]}, torch {values[1]}, "
    )
    text += f"for instance {values[2]} would be"
    stats["first_bad"], stats["oracle"] = place, "float64"
    whose = guilty[0] if len(guilty) == 1 else Side.BOTH
    accused = sides[SIDES.index(guilty[0])]
    name = _named(call, allowed, accused, variants) if len(guilty) == 1 else None
    if name is not None:
        return Judgement(Verdict.SEMANTICS, whose, name, reason=f"{whose}: explained by {name}; {text}", stats=stats)
    if accused.is_floating_point() and not bool(accused[bad].isfinite().any()):
        return Judgement(Verdict.NONFINITE, whose, reason=f"{whose}: {text}", stats=stats)
    return Judgement(wrong_class(number, bad.numel()), whose, reason=f"{' and '.join(guilty)}: {text}", stats=stats)


def _named(call: TiedCall, allowed: Allowed, accused: torch.Tensor, variants: Mapping[str, fallback.Variant]) -> str | None:
    """The first of the other formulas that gives all of a side's answers at ties."""
    if not accused.is_floating_point():
        return None
    for name, variant in variants.items():
        value = fallback.value_of(variant, call.wide, accused.dtype)
        if value is None or value.shape != accused.shape:
            continue
        room = call.roundoff * ROUNDINGS * torch.maximum(value.abs(), accused.double().abs())
        if bool((((value - accused.double()).abs() <= room) | ~allowed.tied).all()):
            return name
    return None
