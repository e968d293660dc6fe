"""Ops without a rounding model of their own: the judge that serves any formula.

The formula runs in float64 on the same operands, and its bound is measured (:mod:`padiff_shim.numerics.oracle.measured`). The rest
is the verdict of every other op: guided sample, NaN and Inf, sides, causes. It is asked again with a better bound as long as it
accuses anyone, so that no kernel is accused because of a bound that happened to come out small, of a tie, or of a jump.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch

from ...signals import let_pass
from ...verdicts import PARTLY, Judgement, Side, Verdict
from ..oracle import noise
from ..oracle.measured import FIRST, Formula
from ..oracle.precision import KINDS, norm
from ..oracle.staging import Hypothesis
from ..oracle.together import Part
from . import equality, exact, jumps, passes, slices
from .alternatives import Alternative, explained
from .at_once import at_once
from .narrow import NARROWER
from .unproven import unproven_places
from .verdict import judge

Kernel = Callable[..., torch.Tensor]


class Variant(NamedTuple):
    """What a kernel may compute instead. ``precision``: the same with less precision. ``narrow``: to be run in the result's dtype,
    whose roundings are the point. ``wide``: of float64 results alone."""

    kernel: Kernel
    precision: bool = False
    narrow: bool = False
    wide: bool = False


RUNS = (FIRST, 10, 24)  # runs of the formula for a bound: at first, in doubt, and before anyone is accused
QUIET = (Verdict.EQUAL, Verdict.ROUNDING)
CLEARED = (*QUIET, Verdict.TIE)
AGREEMENT = 1e-12  # of the largest value: two float64 runs of one formula
ALIKE = 1e-2  # relative, and absolute: values of one formula in any dtype, told from those of another shape
UNPROVEN = "; an operand is NaN or infinite, and whether NaN comes of it depends on how a kernel compares, or skips zeros"
EXPLAINS = 0.1  # of a difference: less of it is not explained by formulas that differ


@np.errstate(all="ignore")  # of what leaves its range the verdict speaks
def fallback(
    paddle: torch.Tensor,
    torch_: torch.Tensor,
    *,
    torch_kernel: Kernel,
    paddle_kernel: Kernel | None,
    operands: Sequence[torch.Tensor],
    rng: np.random.Generator,
    audit: bool = False,
    variants: Mapping[str, Variant] | None = None,
    soon: bool = False,
) -> Judgement:
    """Judge two results of an op that has no rounding model.

    ``torch_kernel``, ``paddle_kernel``: the ops as functions of ``operands`` (torch tensors in, torch tensor out), also for other
    dtypes; None where Paddle's cannot be run again. Torch's may be a gradient, computed by ``torch.autograd``. ``audit``: equal
    results are held against float64 as well. ``variants``: what a kernel may compute instead, by name. ``soon``: what is rounding
    beyond doubt needs no more than that for its record.
    UNVERIFIED where the formula does not run in float64.
    """
    if paddle.shape != torch_.shape or paddle.dtype != torch_.dtype:
        return _another_kind(paddle, torch_, operands, variants or {})
    if paddle.is_complex():
        parts: dict[str, Any] = {"torch_kernel": _real(torch_kernel), "paddle_kernel": paddle_kernel and _real(paddle_kernel)}
        parts["variants"] = {name: one._replace(kernel=_real(one.kernel)) for name, one in (variants or {}).items()}
        results = torch.view_as_real(paddle.resolve_conj()), torch.view_as_real(torch_.resolve_conj())
        return fallback(*results, **parts, operands=operands, rng=rng, audit=audit, soon=soon)
    same = equality.same(paddle, torch_)
    if paddle.numel() == 0 or (same and not audit):
        return Judgement(Verdict.EQUAL, reason="bit for bit equal", stats=passes.equal_stats(max(paddle.numel(), 1)))
    seed, formula = int(rng.integers(2**31)), None
    try:
        if paddle.dtype not in KINDS:
            return exact.judge(paddle, torch_, torch_kernel, operands, seed)
        part = slices.cut(paddle, torch_, torch_kernel, operands, rng)
        if part is not None:
            smaller = _formula(torch_kernel, part.operands, part.paddle, seed, variants or {})
            judgement = _judged(smaller, part.paddle, part.torch, rng, audit, soon)
            if judgement.verdict in CLEARED:
                judgement.stats.update(passes.differ(paddle, torch_).stats)
                return judgement
        formula = _formula(torch_kernel, operands, paddle, seed, variants or {})
        judgement = _judged(formula, paddle, torch_, rng, audit, soon)
    except Exception as error:
        let_pass(error)
        if formula is not None and formula.finite():
            raise
        stats = passes.differ(paddle, torch_).stats if paddle.dtype in KINDS else passes.equal_stats(paddle.numel())
        without = "float64 run" if formula is None else "run beside NaN or infinities"  # such a matrix may have no factors
        reason = f"no bound, and no {without}: {type(error).__name__}: {error}"
        return Judgement(Verdict.UNVERIFIED, reason=reason[:200], stats=stats)
    open_to_doubt = judgement.verdict is Verdict.NONFINITE or (formula.mixed and judgement.verdict not in CLEARED)
    if open_to_doubt and not formula.finite():
        judgement = _proven(judgement, formula, paddle, torch_, partial(_judged, rng=rng, audit=audit, soon=soon))
        if judgement.verdict is Verdict.UNVERIFIED:
            return judgement
    if judgement.verdict not in CLEARED:
        judgement = _caused(judgement, formula, paddle, torch_, variants or {})
    if paddle_kernel is not None and judgement.verdict not in CLEARED and judgement.hypothesis is None:
        judgement = _formulas(judgement, formula, paddle, torch_, paddle_kernel)
    return judgement


def _another_kind(
    paddle: torch.Tensor, torch_: torch.Tensor, operands: Sequence[torch.Tensor], variants: Mapping[str, Variant]
) -> Judgement:
    """The verdict on results of two shapes or dtypes: Paddle's, where a known formula gives that shape and those values."""
    reason = f"paddle gives {list(paddle.shape)} {paddle.dtype}, torch {list(torch_.shape)} {torch_.dtype}"
    for name, variant in variants.items():
        try:
            other = variant.kernel(*operands).detach()
        except Exception as error:  # it is about other arguments than these
            let_pass(error)
            continue
        if other.shape == paddle.shape and torch.allclose(other.to(paddle.dtype), paddle, rtol=ALIKE, atol=ALIKE, equal_nan=True):
            return Judgement(Verdict.SEMANTICS, side=Side.PADDLE, hypothesis=name, reason=reason)
    return Judgement(Verdict.SEMANTICS, hypothesis="shape" if paddle.shape != torch_.shape else "dtype", reason=reason)


def _proven(
    judged: Judgement, formula: Formula, paddle: torch.Tensor, torch_: torch.Tensor, judge_again: Callable[..., Judgement]
) -> Judgement:
    """The verdict on what remains where the formula proves nothing of operands that are NaN or infinite; else UNVERIFIED."""
    unproven = unproven_places(formula, paddle, torch_)
    if not bool((unproven[0] | unproven[1]).any()):
        return judged
    value = formula.value.to(paddle.dtype)
    rest = judge_again(formula, *(torch.where(places, value, side) for places, side in zip(unproven, (paddle, torch_))))
    if rest.verdict not in CLEARED:
        return rest
    return Judgement(Verdict.UNVERIFIED, reason=judged.reason + UNPROVEN, stats=judged.stats)


def _caused(
    judged: Judgement, formula: Formula, paddle: torch.Tensor, torch_: torch.Tensor, variants: Mapping[str, Variant]
) -> Judgement:
    """The judgement with the name of a variant that gives the whole tensor, if there is one."""
    proven = explained(judged, formula, paddle, torch_, _alternatives(formula, variants, judged.hypothesis))
    if proven is not None:
        return proven
    if judged.hypothesis in variants and PARTLY not in judged.modifiers:  # the sample fits it, and some element does not
        return replace(judged, modifiers=(*judged.modifiers, PARTLY))
    return judged


def _alternatives(formula: Formula, variants: Mapping[str, Variant], first: str | None) -> list[Alternative]:
    """Other formulas of the same operands, each with a bound of its own; ``first``: the one to begin with."""

    def measure(kernel: Kernel) -> Formula:
        other = Formula.of(kernel, formula.given, formula.dtype, formula.seed)
        other.probe(RUNS[-1])
        other.jumps(RUNS[-1])
        return other

    chosen = _of_dtype(variants, formula.dtype)
    chosen.sort(key=lambda pair: pair[0] != first)
    alternatives = [Alternative(name, variant.precision, partial(measure, variant.kernel)) for name, variant in chosen]
    on_the_way = [Alternative("range", True, formula.without_squares)] if formula.finite() else []
    return [*alternatives, *on_the_way]


def _formula(
    kernel: Kernel, operands: Sequence[torch.Tensor], result: torch.Tensor, seed: int, variants: Mapping[str, Variant]
) -> Formula:
    """The measured quantity for a result of this shape and dtype."""
    formula = Formula.of(kernel, operands, result.dtype, seed)
    if formula.shape != tuple(result.shape):
        raise ValueError(f"its shape is {list(formula.shape)} there")
    formula.named = lambda: hypotheses(formula, variants)
    formula.special = lambda: _without_number(formula, variants)
    return formula


def hypotheses(formula: Formula, variants: Mapping[str, Variant]) -> list[Hypothesis]:
    """What may explain a difference: other formulas, and narrower formats."""
    return [*_variants(formula, variants), *_narrower(formula)]


def value_of(variant: Variant, operands: Sequence[torch.Tensor], dtype: torch.dtype) -> torch.Tensor | None:
    """What another formula gives in float64 (``narrow``: in ``dtype``) for wide operands; None where it is about others."""
    if variant.wide and dtype != torch.float64:
        return None
    try:
        if variant.narrow:
            return variant.kernel(*(t.to(dtype) if t.is_floating_point() else t for t in operands)).detach().double()
        return noise.exact(variant.kernel, operands).double()
    except Exception as error:  # it is about other arguments than these
        let_pass(error)
        return None


def _variants(formula: Formula, variants: Mapping[str, Variant]) -> list[Hypothesis]:
    """Other formulas, on the same operands."""
    return [
        Hypothesis(name, variant.precision, full=partial(value_of, variant, formula.given, formula.dtype))
        for name, variant in _of_dtype(variants, formula.dtype)
    ]


def _of_dtype(variants: Mapping[str, Variant], dtype: torch.dtype) -> list[tuple[str, Variant]]:
    """Those that results of a dtype may show."""
    return [(name, variant) for name, variant in variants.items() if dtype == torch.float64 or not variant.wide]


def _without_number(formula: Formula, variants: Mapping[str, Variant]) -> list[Hypothesis]:
    """Other formulas where they or the formula give NaN or infinities; everywhere else the formula's own value."""

    def value(full: Callable[[], torch.Tensor | None]) -> torch.Tensor | None:
        other = full()
        if other is None or other.shape != formula.value.shape:
            return None
        return torch.where(other.isfinite() & formula.value.isfinite(), formula.value, other)

    return [Hypothesis(one.name, one.precision, full=partial(value, one.full)) for one in _variants(formula, variants) if one.full]


def _narrower(formula: Formula) -> list[Hypothesis]:
    """Operands, or the result, in a narrower format."""
    found = []
    for form in NARROWER[formula.dtype]:
        found.append(Hypothesis(f"{form}-inputs", True, full=partial(formula.narrowed, form)))
        if form == "tf32":
            found.append(Hypothesis("tf32-truncated-inputs", True, full=partial(formula.narrowed, form, truncate=True)))
        else:
            found.append(Hypothesis(f"{form}-output", True, full=partial(formula.narrowed_result, form)))
    return found


def _real(kernel: Kernel) -> Kernel:
    if isinstance(kernel, Part):
        return Part(kernel.together, kernel.index, _in_parts)
    return lambda *tensors: _in_parts(kernel(*tensors))


def _in_parts(tensor: torch.Tensor) -> torch.Tensor:
    return torch.view_as_real(tensor.resolve_conj())


def _judged(
    formula: Formula, paddle: torch.Tensor, torch_: torch.Tensor, rng: np.random.Generator, audit: bool, soon: bool
) -> Judgement:
    quick = at_once(formula, paddle, torch_) if soon and not audit else None
    judgement = quick or _patiently(formula, paddle, torch_, rng, audit)
    if judgement.verdict.severity > Verdict.LOCAL_SUSPECT.severity:
        return judgement  # beyond the bounds, which hold all jumps
    settled = jumps.settled(formula, paddle, torch_, judgement)
    return settled if judgement.verdict in QUIET or settled.verdict is Verdict.TIE else judgement


def _patiently(formula: Formula, paddle: torch.Tensor, torch_: torch.Tensor, rng: np.random.Generator, audit: bool) -> Judgement:
    """The verdict, with a better bound as long as it is not harmless."""
    found = None
    for runs in RUNS:
        formula.probe(runs)
        if runs == RUNS[-1]:
            formula.jumps(runs)
        sides = _settled(formula, paddle, torch_)
        found = judge(formula, *sides, rng=rng, audit=audit, hypotheses=runs == RUNS[-1])
        if found.verdict in QUIET:
            break
    assert found is not None
    if formula.dtype == torch.float64 and found.verdict not in QUIET:
        reason = f"{found.reason}; the oracle is Torch's formula in float64, other steps where it has any"
        found = replace(found, reason=reason)
    return found


def _settled(formula: Formula, paddle: torch.Tensor, torch_: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Both results, with what no rounding can settle taken out of the question: there the oracle's value stands for both."""
    unstable = formula.unstable
    if not unstable.any():
        return paddle, torch_
    value = formula.value.to(paddle.dtype)
    return torch.where(unstable, value, paddle), torch.where(unstable, value, torch_)


def _formulas(found: Judgement, formula: Formula, paddle: torch.Tensor, torch_: torch.Tensor, paddle_kernel: Kernel) -> Judgement:
    """SEMANTICS where Paddle's own kernel differs in float64, too, and by enough to explain the difference that was seen."""
    try:
        other = paddle_kernel(*formula.given).detach()
    except Exception as error:
        let_pass(error)
        return found  # it has no kernel for float64
    if other.dtype != torch.float64 or tuple(other.shape) != formula.shape:
        return found
    apart = (other - formula.value).masked_fill(formula.unstable, 0.0)
    seen = (paddle.double() - torch_.double()).masked_fill(formula.unstable, 0.0)
    size, whole, limit = _norm(apart), _norm(seen), AGREEMENT * float(formula.value.nan_to_num(0.0, 0.0, 0.0).abs().max())
    if float(apart.nan_to_num(0.0, 0.0, 0.0).abs().max()) <= limit or size < EXPLAINS * whole:
        return found
    text = f"the formulas differ: both run in float64, they are {size:.3g} apart; {found.reason}"
    return replace(found, verdict=Verdict.SEMANTICS, reason=text)


def _norm(tensor: torch.Tensor) -> float:
    return float(norm(tensor.detach().nan_to_num(0.0, 0.0, 0.0).double().cpu().numpy()))
