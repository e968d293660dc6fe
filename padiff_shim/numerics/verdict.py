"""The verdict on two kernels' results for one tensor: who is right, and if not, why."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from ..language import logged
from ..verdicts import NEGLIGIBLE, PARTLY, Judgement, Side, Verdict
from . import difference as difference_module, sampling, special_cases, trial
from .difference import TensorDifference
from .hypotheses import Confirmation, Explained, explain, order, readable, treatment
from .precision import WIDE
from .quantity import Quantity
from .trial import Errors, Trial, classify, explained_whole, small, sound

# Up to this many unit bounds on a guided sample no explanation is looked for. What a fault moves by one unit or more shows in the
# difference of the two kernels, hence in the guided sample, unless the rounding happens to cancel it there.
GATE = 1.0
INSIDE = 0.25  # of the probabilistic bound: sums of 64 terms and more are moved further by every named cause
FIRST, SECOND = (24576, 8, 16), (98304, 16, 64)  # operand values to read, fewest and most samples of each sort


def judge(
    quantity: Quantity,
    paddle: torch.Tensor,
    torch_: torch.Tensor,
    *,
    rng: np.random.Generator,
    audit: bool = False,
    hypotheses: bool = True,
    same: bool | None = None,
) -> Judgement:
    """Judge both kernels' results for ``quantity``.

    ``paddle``, ``torch_``: torch tensors of the judged shape and dtype. ``rng``: draws the random part of the sample. ``audit``:
    results that are equal are held against the oracle as well. ``hypotheses``: look for the cause of what is not
    rounding. ``same``: whether they are bit for bit equal, if that is known.
    """
    if paddle.shape != torch_.shape or paddle.dtype != torch_.dtype or torch_.shape != quantity.shape:
        wanted = (quantity.shape, quantity.dtype)
        wrong = [side for side, t in ((Side.PADDLE, paddle), (Side.TORCH, torch_)) if (tuple(t.shape), t.dtype) != wanted]
        what = "shape" if paddle.shape != torch_.shape else "dtype"
        return Judgement(Verdict.SEMANTICS, Side.of(wrong), what, reason=forms(paddle, torch_), stats={"count": paddle.numel()})
    if same is None:
        same = difference_module.same(paddle, torch_)
    if paddle.numel() == 0 or (same and not audit):
        return equal(paddle)
    with np.errstate(all="ignore"):
        if same:
            difference = difference_module.no_difference(torch_)
        else:
            relative = quantity.relatively and not _whole_grid(quantity, FIRST)
            difference = difference_module.differ(paddle, torch_, relative=relative)
        # Blind: there is no place to look at first, or every one is looked at.
        scales = [] if same or _whole_grid(quantity, FIRST) else quantity.scale(torch_)
        if quantity.kind.oracle is np.longdouble and not WIDE:
            reason = logged("long double is no wider than double on this platform: nothing to judge float64 by")
            return Judgement(Verdict.UNVERIFIED, reason=reason, stats=difference.stats)
        if not difference.finite:
            judgement = special_cases.judge_nonfinite(quantity, paddle, torch_, difference.stats, rng)
            if judgement is not None:
                return _treated(judgement, quantity, paddle, torch_, difference, scales, rng) if hypotheses else judgement
        look = (quantity, paddle, torch_, difference, scales, rng)
        first = _sampled(*look, FIRST)
        if plain(first) or _far_inside(first):
            return _rounding(first, difference, same)
        if hypotheses and _small(first):
            return _weigh(first, difference, (paddle, torch_), same, hypotheses)
        full = first if _whole_grid(quantity, FIRST) else _sampled(*look, SECOND)
        if _far_inside(full):
            return _rounding(full, difference, same)
        return _weigh(full, difference, (paddle, torch_), same, hypotheses)


def equal(tensor: torch.Tensor) -> Judgement:
    """The verdict on results that are equal bit for bit."""
    return Judgement(Verdict.EQUAL, reason=logged("bit for bit equal"), stats=difference_module.equal_stats(max(tensor.numel(), 1)))


def _treated(judged: Judgement, quantity: Quantity, paddle: torch.Tensor, torch_: torch.Tensor, *look: Any) -> Judgement:
    """NONFINITE with the name of what explains it. Every NaN and Inf is looked at, or there is no name."""
    if judged.side not in (Side.PADDLE, Side.TORCH) or not quantity.special():
        return judged
    bad = ~(torch.isfinite(paddle) & torch.isfinite(torch_))
    rows = sampling.holding(bad, quantity)
    if not readable(rows, quantity.per_sample):
        return judged
    difference, scales, rng = look
    count = max(SECOND[0] // (2 * quantity.per_sample), SECOND[1])
    places = np.concatenate([rows, sampling.guided(difference, quantity, scales, count)])
    where, lead = sampling.positions(np.unique(places), quantity, count, rng)
    sample = trial.run(quantity, where, lead, paddle, torch_)
    own, other = (sample.paddle, sample.torch) if judged.side is Side.PADDLE else (sample.torch, sample.paddle)
    special = treatment(sample, own, other)
    if special is None:
        return judged
    return replace(
        judged,
        hypothesis=special.name,
        reason=logged("{side}: explained by {name}; {reason}", side=judged.side, name=special.name, reason=judged.reason),
    )


def forms(paddle: torch.Tensor, torch_: torch.Tensor) -> str:
    """The reason that names both sides' shapes and dtypes."""
    return logged(
        "paddle gives {shape} {dtype}, torch {shape2} {dtype2}",
        shape=list(paddle.shape),
        dtype=paddle.dtype,
        shape2=list(torch_.shape),
        dtype2=torch_.dtype,
    )


def _sampled(
    quantity: Quantity,
    paddle: torch.Tensor,
    torch_: torch.Tensor,
    difference: TensorDifference,
    scales: list[Any] | None,
    rng: np.random.Generator,
    size: tuple[int, int, int],
) -> Trial:
    count, blind = _count(quantity, size), _whole_grid(quantity, size) or not difference.stats["different"]
    first = np.empty(0, np.int64) if blind else sampling.guided(difference, quantity, scales, count)
    where, lead = sampling.positions(first, quantity, count, rng)
    return trial.run(quantity, where, lead, paddle, torch_)


def _count(quantity: Quantity, size: tuple[int, int, int]) -> int:
    """How many samples of each sort are taken."""
    budget, fewest, most = size
    if 4 * quantity.per_sample >= budget:
        fewest = 2
    if quantity.kind.oracle is np.longdouble:
        budget //= 2  # many times slower than float64
    if quantity.grid != quantity.shape:
        fewest, most = fewest // 4, most // 2  # a sample is a whole row here
    elif quantity.per_sample == 1:
        most *= 4
    return min(max(budget // (2 * quantity.per_sample), fewest), most)


def _whole_grid(quantity: Quantity, size: tuple[int, int, int]) -> bool:
    """Whether every output is looked at."""
    return math.prod(quantity.grid) <= 2 * _count(quantity, size)


def plain(sample: Trial) -> bool:
    """Rounding beyond doubt, see ``GATE``."""
    sides = (sample.paddle, sample.torch)
    if any(e.strange for e in sides):
        return False
    if all(e.prob <= 1.0 and e.rho_max <= GATE for e in sides):
        return True
    return sample.quantity.averages and _small(sample)


def _far_inside(sample: Trial) -> bool:
    """Sums that are off by more than a unit, but by far less than a named cause would move them: they need none."""
    if not sample.quantity.plain or max(sample.paddle.prob, sample.torch.prob) > INSIDE:
        return False
    sides = ((sample.paddle, sample.torch), (sample.torch, sample.paddle))
    return all(classify(sample, own, other) is Verdict.ROUNDING for own, other in sides)


def _small(sample: Trial) -> bool:
    """See :func:`padiff_shim.numerics.trial.small`."""
    return small(sample.paddle) and small(sample.torch)


def _rounding(sample: Trial, difference: TensorDifference, same: bool) -> Judgement:
    p, t = sample.paddle, sample.torch
    reason = logged(
        "largest errors {rho_max:.2g} (paddle) and {rho_max2:.2g} (torch) rounding units", rho_max=p.rho_max, rho_max2=t.rho_max
    )
    verdict = Verdict.EQUAL if same else Verdict.ROUNDING
    modifiers = trial.modifiers_of(sample, difference, verdict)
    return Judgement(verdict, modifiers=modifiers, reason=reason, stats=trial.statistics_of(sample, difference))


def _weigh(
    sample: Trial, difference: TensorDifference, results: tuple[torch.Tensor, torch.Tensor], same: bool, hypotheses: bool
) -> Judgement:
    """Each side's own verdict; the worse one is reported, with the side or sides that have it."""
    sides = {}
    for name, other in (("paddle", "torch"), ("torch", "paddle")):
        sides[name] = _side_verdict(sample, sample.side(name), sample.side(other), hypotheses)
        if same:
            sides["torch"] = sides["paddle"]
            break
    verdict = max((v for v, _ in sides.values()), key=lambda v: v.severity)
    if verdict is Verdict.ROUNDING:
        return _rounding(sample, difference, same)
    guilty = [name for name, (v, _) in sides.items() if v is verdict]
    causes = {name: cause for name, (_, cause) in sides.items() if cause is not None}
    explained = causes[guilty[0]] if all(name in causes for name in guilty) else None
    worst = max((sample.side(name) for name in guilty), key=lambda e: e.prob)
    stats = trial.statistics_of(sample, difference)
    excess = np.abs(worst.signed) * sample.unit > sample.probable
    stats["first_bad"] = sample.index(int(np.argmax(excess if excess.any() else np.abs(worst.signed))))
    modifiers = trial.modifiers_of(sample, difference, verdict)
    confirm: Callable[[], bool] | None = None
    if explained is not None:
        if not _whole(sample, sides, verdict):
            modifiers += (PARTLY,)
        elif NEGLIGIBLE not in modifiers:  # else what is not negligible is among the largest differences
            confirm = Confirmation(sample.quantity, *results, causes, np.random.default_rng(0))
    return Judgement(
        verdict,
        Side.of([Side(name) for name in guilty]),
        explained.name if explained else None,
        explained.alternatives if explained else (),
        modifiers,
        trial.reason(verdict, guilty, worst, explained.name if explained else "") + trial.beside(sides, verdict),
        stats,
        confirm,
    )


def _whole(sample: Trial, sides: dict[str, tuple[Verdict, Explained | None]], verdict: Verdict) -> bool:
    """The named causes leave nothing but rounding on either side."""
    for name, (own, explained) in sides.items():
        if own is not verdict:
            if own is not Verdict.ROUNDING or not sound(sample, sample.side(name)):
                return False
        elif explained is None:
            return False
        elif explained.value is not None:
            other = sample.side("torch" if name == "paddle" else "paddle")
            if not explained_whole(sample, sample.side(name), other, explained.value, explained.evaluation):
                return False
    return True


def _side_verdict(sample: Trial, own: Errors, other: Errors, hypotheses: bool) -> tuple[Verdict, Explained | None]:
    if own.strange:
        return Verdict.NONFINITE, None
    if own.rho_max <= GATE and own.prob <= 1:
        return Verdict.ROUNDING, None
    explained = (explain(sample, own, other) or treatment(sample, own, other)) if hypotheses else None
    if explained is not None:
        return (Verdict.PRECISION_MODE if explained.precision else Verdict.SEMANTICS), explained
    verdict = classify(sample, own, other)
    if hypotheses and verdict is not Verdict.ROUNDING and own.det <= 1 and (ordered := order(sample, own)) is not None:
        return min(verdict, Verdict.LOW_ACCURACY, key=lambda v: v.severity), ordered
    return verdict, None
