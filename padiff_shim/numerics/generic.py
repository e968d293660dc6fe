"""The judge for ops without a rounding model: it serves any formula."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch

from ..interrupts import let_pass
from ..language import logged
from ..verdicts import PARTLY, Judgement, Side, Verdict
from . import difference, noise, sampling, special_cases
from .hypotheses import NARROWER, Alternative, explained
from .measured import FIRST, Formula, JointResult
from .precision import KINDS, first_place, norm
from .quantity import Hypothesis
from .special_cases import in_parts, unproven_places
from .verdict import forms, judge

# The formula runs in float64 on the same operands, and its bound is measured (:mod:`.measured`). The rest is the verdict of every
# other op: guided sample, NaN and Inf, sides, causes. As long as the verdict accuses a side, it is repeated with a better bound: so
# no kernel is accused because a bound came out small by chance, because of a tie, or of a jump.

Kernel = Callable[..., torch.Tensor]


class Variant(NamedTuple):
    """What a kernel may compute instead. ``precision``: the same with less precision. ``narrow``: to be run in the result's dtype,
    whose roundings are the point. ``wide``: of float64 results alone."""

    kernel: Kernel
    precision: bool = False
    narrow: bool = False
    wide: bool = False


IN_FLOAT32 = "->float32"  # ends the names of variants that round numbers of the call, and nothing else
RUNS = (FIRST, 10, 24)  # runs of the formula for a bound: at first, in doubt, and before anyone is accused
QUIET = (Verdict.EQUAL, Verdict.ROUNDING)
CLEARED = (*QUIET, Verdict.TIE)
AGREEMENT = 1e-12  # of the largest value: two float64 runs of one formula
ALIKE = 1e-2  # relative, and absolute: how near values of one formula are, in any dtype
UNPROVEN = logged("; an operand is NaN or infinite, and whether NaN comes of it depends on how a kernel compares, or skips zeros")
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
) -> Judgement:
    """Judge two results of an op that has no rounding model.

    ``torch_kernel``, ``paddle_kernel``: the ops as functions of ``operands`` (torch tensors in, torch tensor out), also for other
    dtypes; None where Paddle's cannot be run again. Torch's may be a gradient, computed by ``torch.autograd``. ``audit``: equal
    results are held against float64 as well. ``variants``: what a kernel may compute instead, by name.
    UNVERIFIED where the formula does not run in float64.
    """
    if paddle.shape != torch_.shape or paddle.dtype != torch_.dtype:
        return _another_kind(paddle, torch_, operands, variants or {})
    if paddle.is_complex():
        parts: dict[str, Any] = {"torch_kernel": _real(torch_kernel), "paddle_kernel": paddle_kernel and _real(paddle_kernel)}
        parts["variants"] = {name: variant._replace(kernel=_real(variant.kernel)) for name, variant in (variants or {}).items()}
        return fallback(in_parts(paddle), in_parts(torch_), **parts, operands=operands, rng=rng, audit=audit)
    same = difference.same(paddle, torch_)
    if paddle.numel() == 0 or (same and not audit):
        return Judgement(Verdict.EQUAL, reason=logged("bit for bit equal"), stats=difference.equal_stats(max(paddle.numel(), 1)))
    seed, formula = int(rng.integers(2**31)), None
    try:
        if paddle.dtype not in KINDS:
            return special_cases.judge_exact(paddle, torch_, torch_kernel, operands, seed)
        part = sampling.cut(paddle, torch_, torch_kernel, operands, rng)
        if part is not None:
            smaller = _formula(torch_kernel, part.operands, part.paddle, seed, variants or {})
            judgement = _judged(smaller, part.paddle, part.torch, rng, audit)
            if judgement.verdict in CLEARED:
                judgement.stats.update(difference.differ(paddle, torch_).stats)
                return judgement
        formula = _formula(torch_kernel, operands, paddle, seed, variants or {})
        judgement = _judged(formula, paddle, torch_, rng, audit)
    except Exception as error:
        let_pass(error)
        if formula is not None and formula.finite():
            raise
        stats = difference.differ(paddle, torch_).stats if paddle.dtype in KINDS else difference.equal_stats(paddle.numel())
        without = (
            logged("float64 run") if formula is None else logged("run beside NaN or infinities")
        )  # such a matrix may have no factors
        reason = logged("no bound, and no {without}: {name}: {error}", without=without, name=type(error).__name__, error=error)
        return Judgement(Verdict.UNVERIFIED, reason=reason[:200], stats=stats)
    open_to_doubt = judgement.verdict is Verdict.NONFINITE or (formula.mixed and judgement.verdict not in CLEARED)
    if open_to_doubt and not formula.finite():
        judgement = _proven(judgement, formula, paddle, torch_, partial(_judged, rng=rng, audit=audit))
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
    reason = forms(paddle, torch_)
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
        other = Formula.of(kernel, formula.inputs, formula.dtype, formula.seed)
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
    formula.named = about(formula, hypotheses, variants)
    formula.special = about(formula, _without_number, variants)
    roundings = [variant for name, variant in variants.items() if all(part.endswith(IN_FLOAT32) for part in name.split("+"))]
    formula.of_rounded_numbers = [partial(value_of, variant, formula.inputs, torch.float64) for variant in roundings]
    return formula


def about(
    formula: Formula, question: Callable[[Formula, Mapping[str, Variant]], list[Hypothesis]], variants: Mapping[str, Variant]
) -> Callable[[], list[Hypothesis]]:
    """``question`` of a formula, for a field of that formula.

    A formula that held itself would keep the call's tensors until Python's collector runs: some hundred objects for each backward
    of an attention.
    """
    reference = weakref.ref(formula)

    def ask() -> list[Hypothesis]:
        live = reference()
        return [] if live is None else question(live, variants)

    return ask


def hypotheses(formula: Formula, variants: Mapping[str, Variant]) -> list[Hypothesis]:
    """What may explain a difference: other formulas, and narrower formats."""
    # Operands, or the result, in a narrower format
    named = []
    for form in NARROWER[formula.dtype]:
        named.append(Hypothesis(f"{form}-inputs", True, full=partial(formula.narrowed, form)))
        if form == "tf32":
            named.append(Hypothesis("tf32-truncated-inputs", True, full=partial(formula.narrowed, form, truncate=True)))
        else:
            named.append(Hypothesis(f"{form}-output", True, full=partial(formula.narrowed_result, form)))
    return [*_variants(formula, variants), *named]


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
        Hypothesis(name, variant.precision, full=partial(value_of, variant, formula.inputs, formula.dtype))
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

    return [
        Hypothesis(hypothesis.name, hypothesis.precision, full=partial(value, hypothesis.full))
        for hypothesis in _variants(formula, variants)
        if hypothesis.full
    ]


def _real(kernel: Kernel) -> Kernel:
    if isinstance(kernel, JointResult):
        return JointResult(kernel.together, kernel.index, in_parts)
    return lambda *tensors: in_parts(kernel(*tensors))


def _judged(formula: Formula, paddle: torch.Tensor, torch_: torch.Tensor, rng: np.random.Generator, audit: bool) -> Judgement:
    judgement = _patiently(formula, paddle, torch_, rng, audit)
    if judgement.verdict.severity > Verdict.LOCAL_SUSPECT.severity or formula.kernel.smooth:
        return judgement  # beyond the bounds, which hold all jumps
    settled = settle_steps(formula, paddle, torch_, judgement)
    return settled if judgement.verdict in QUIET or settled.verdict is Verdict.TIE else judgement


def _patiently(formula: Formula, paddle: torch.Tensor, torch_: torch.Tensor, rng: np.random.Generator, audit: bool) -> Judgement:
    """The verdict, with a better bound as long as it is not harmless."""
    judgement = None
    for runs in RUNS:
        formula.probe(runs)
        if runs == RUNS[-1]:
            formula.rounds_numbers()
            formula.jumps(runs)
        sides = _settled(formula, paddle, torch_)
        judgement = judge(formula, *sides, rng=rng, audit=audit, hypotheses=runs == RUNS[-1])
        if judgement.verdict in QUIET:
            break
    assert judgement is not None
    if formula.dtype == torch.float64 and judgement.verdict not in QUIET:
        reason = logged("{reason}; the oracle is Torch's formula in float64, other steps where it has any", reason=judgement.reason)
        judgement = replace(judgement, reason=reason)
    return judgement


def _settled(formula: Formula, paddle: torch.Tensor, torch_: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Both results, with what no rounding can settle taken out of the question: there the oracle's value stands for both."""
    unstable = formula.unstable
    if not unstable.any():
        return paddle, torch_
    value = formula.value.to(paddle.dtype)
    return torch.where(unstable, value, paddle), torch.where(unstable, value, torch_)


def _formulas(
    judgement: Judgement, formula: Formula, paddle: torch.Tensor, torch_: torch.Tensor, paddle_kernel: Kernel
) -> Judgement:
    """SEMANTICS where Paddle's own kernel differs in float64, too, and by enough to explain the difference that was seen."""
    try:
        other = paddle_kernel(*formula.inputs).detach()
    except Exception as error:
        let_pass(error)
        return judgement  # it has no kernel for float64
    if other.dtype != torch.float64 or tuple(other.shape) != formula.shape:
        return judgement
    apart = (other - formula.value).masked_fill(formula.unstable, 0.0)
    seen = (paddle.double() - torch_.double()).masked_fill(formula.unstable, 0.0)
    size, whole, limit = _norm(apart), _norm(seen), AGREEMENT * float(formula.value.nan_to_num(0.0, 0.0, 0.0).abs().max())
    if float(apart.nan_to_num(0.0, 0.0, 0.0).abs().max()) <= limit or size < EXPLAINS * whole:
        return judgement
    text = logged(
        "the formulas differ: both run in float64, they are {size:.3g} apart; {reason}", size=size, reason=judgement.reason
    )
    return replace(judgement, verdict=Verdict.SEMANTICS, reason=text)


def _norm(tensor: torch.Tensor) -> float:
    return float(norm(tensor.detach().nan_to_num(0.0, 0.0, 0.0).double().cpu().numpy()))


# ---- Steps of a formula that declares no ties: differences that a move too small to be a rounding can make.
#
# Where the results of two such moves differ, the operands stand at a tie. A side's answer is allowed if one of these moves gives
# it, at all such places at once. Any other answer is UNVERIFIED: nobody is accused.

MOVES = 8
MOVE = 2.0**-46  # of operands and results: numbers of float32 that are not equal are further apart
FAR, LEAST = 64.0, 2.0**-28  # unit roundoffs, and part of a result: what is nearer needs no step, and such moves alone give less
SHARE = 0.25  # of a difference: a step that explains it is no smaller


def settle_steps(formula: Formula, paddle: torch.Tensor, torch_: torch.Tensor, judgement: Judgement) -> Judgement:
    """A verdict of rounding: as TIE where a step lies between the two sides, UNVERIFIED where one is what no such move gives."""
    roundoff = max(formula.kind.unit, formula.kind.output)
    sides = paddle.double(), torch_.double()
    apart, size = (sides[0] - sides[1]).abs(), torch.maximum(sides[0].abs(), sides[1].abs())
    if paddle.dtype == torch.float64:  # where moves are no smaller than roundings: sums that cancel are no steps
        size = size.maximum(size.nan_to_num(0.0, 0.0, 0.0).max())
    far = (apart > max(FAR * roundoff, LEAST) * size + FAR * formula.kind.tiny) & apart.isfinite()
    if not bool(far.any()):
        return judgement
    values = [formula.value, *_moved(formula), *(value for side in sides for value in _towards(formula, side))]
    tied = far & torch.stack([(value - formula.value).abs() > SHARE * apart for value in values]).any(0)
    if not bool(tied.any()):
        return judgement
    number, place = int(tied.sum()), first_place(tied)
    text = logged("{number} of {numel} elements differ at a tie", number=number, numel=tied.numel())

    def reached(side: torch.Tensor) -> bool:
        return any(bool((((side - value).abs() <= FAR * roundoff * value.abs()) | ~tied).all()) for value in values)

    if not all(map(reached, sides)):
        return replace(
            judgement, verdict=Verdict.UNVERIFIED, reason=logged("{text}; what is allowed there was not to be settled", text=text)
        )
    seen = [f"{side[tuple(place)].item():g}" for side in sides]
    reason = logged(
        "{text}, where both choices are allowed: at {place} paddle {seen}, torch {seen2}",
        text=text,
        place=place,
        seen=seen[0],
        seen2=seen[1],
    )
    stats = {name: figure for name, figure in judgement.stats.items() if name != "allowed"}  # no tolerance is meant for a step
    return Judgement(Verdict.TIE, reason=reason, stats={**stats, "tied": number, "first_tied": place})


def _moved(formula: Formula) -> Iterator[torch.Tensor]:
    """The formula's values as its steps are moved by next to nothing, and operands of 0 to either side."""
    sizes = [noise.MoveSize(MOVE, unit=formula.kind.unit)] * MOVES
    if any(bool((tensor == 0).any()) for tensor in formula.inputs if tensor.is_floating_point()):
        sizes += [noise.MoveSize(0.0, zeros=2 * formula.kind.tiny, unit=formula.kind.unit)] * MOVES
    for run, size in enumerate(sizes):
        yield formula.kernel.moved(size, formula.seed + 104729 * run, apart=formula.apart)[0].double()


def _towards(formula: Formula, side: torch.Tensor) -> Iterator[torch.Tensor]:
    """The values as an operand that lies as they do is moved to where they are more like one side's."""
    kernel, operands = formula.kernel, list(formula.inputs)
    alike = [place for place, tensor in enumerate(operands) if tensor.is_floating_point() and tensor.shape == formula.value.shape]
    for place in alike:
        operand = operands[place]
        size = torch.where(operand == 0, 2 * formula.kind.tiny, MOVE * operand.abs())
        for step in (size * (side - formula.value).sign(), size * (formula.value - side).sign()):
            yield noise.exact(kernel, [*operands[:place], operand + step, *operands[place + 1 :]]).double()
