"""Ops without a bound: what can be said from both kernels alone. Nothing is ever called right here.

Both kernels are run again on operands in float64. Where they agree there, they compute the same formula, and float64 serves as the
oracle; where they do not, the formulas differ. How much error is rounding is estimated by a perturbation: what one eps in every
operand moves, times 10 (as in TTrace, arXiv 2506.09280, whose exact multiplier is not ours).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from ...verdicts import Judgement, Side, Verdict
from ..oracle.precision import KINDS, norm
from . import passes

Kernel = Callable[..., torch.Tensor]
AGREEMENT = 1e-12  # of the largest value: two float64 runs of one formula
TOLERANCE, BEYOND = 10.0, 1000.0  # times the perturbation's effect: unlike rounding; out of all proportion


class _Size(NamedTuple):
    """Frobenius norm and largest element."""

    norm: float
    largest: float


def fallback(
    paddle: torch.Tensor,
    torch_: torch.Tensor,
    *,
    torch_kernel: Kernel,
    paddle_kernel: Kernel | None,
    operands: Sequence[torch.Tensor],
    rng: np.random.Generator,
) -> Judgement:
    """Judge two results of an op that has no rounding bound.

    ``torch_kernel``, ``paddle_kernel``: the ops as functions of ``operands`` (torch tensors in, torch tensor out), also for other
    dtypes; None where Paddle's cannot be run again. The verdict is UNVERIFIED unless one of the others is shown.
    """
    if paddle.shape != torch_.shape or paddle.dtype != torch_.dtype:
        reason = f"paddle gives {list(paddle.shape)} {paddle.dtype}, torch {list(torch_.shape)} {torch_.dtype}"
        return Judgement(Verdict.SEMANTICS, hypothesis="shape" if paddle.shape != torch_.shape else "dtype", reason=reason)
    if paddle.numel() == 0 or paddle.dtype not in KINDS:
        return Judgement(Verdict.UNVERIFIED, reason="no rounding model", stats=passes.equal_stats(max(paddle.numel(), 1)))
    with np.errstate(all="ignore"):
        stats = passes.differ(paddle, torch_).stats
    if torch.equal(paddle, torch_):
        return Judgement(Verdict.UNVERIFIED, reason="no bound for this op; both results are equal bit for bit", stats=stats)
    try:
        runs = _Runs.of(paddle.dtype, torch_kernel, paddle_kernel, operands, rng)
    except Exception as error:
        reason = f"no bound, and no float64 run: {type(error).__name__}: {error}"
        return Judgement(Verdict.UNVERIFIED, reason=reason[:200], stats=stats)
    found = _special(paddle, torch_, runs.torch) or runs.formulas(_size(paddle.double() - torch_.double()))
    found = found or (runs.alone(paddle, torch_) if paddle.dtype == torch.float64 else runs.sides(paddle, torch_))
    verdict, side, reason = found or (Verdict.UNVERIFIED, Side.NONE, "no bound for this op; nothing beyond rounding was seen")
    stats.update(oracle=None if paddle.dtype == torch.float64 else "float64", sampled=paddle.numel())
    return Judgement(verdict, side, reason=reason, stats=stats)


Found = tuple[Verdict, Side, str]


class _Runs(NamedTuple):
    """The float64 runs: torch's, Paddle's (or None), and what one eps (of the judged dtype, of float64) in the operands moves."""

    torch: torch.Tensor
    paddle: torch.Tensor | None
    moved: _Size
    moved_wide: _Size

    @classmethod
    def of(
        cls, dtype: torch.dtype, torch_kernel: Kernel, paddle_kernel: Kernel | None, operands: Sequence[torch.Tensor], rng: Any
    ) -> _Runs:
        wide = [t.detach().double() if t.is_floating_point() else t for t in operands]
        signs = [torch.from_numpy(rng.choice((-1.0, 1.0), tuple(t.shape))).to(t.device) for t in wide]

        def perturbed(size: float) -> torch.Tensor:
            return torch_kernel(*(t * (1 + size * s) if t.is_floating_point() else t for t, s in zip(wide, signs))).detach()

        exact = torch_kernel(*wide).detach()
        unit = KINDS[dtype].format.unit
        # In float64 itself the displacement is all rounding: a larger step is taken and its effect scaled down.
        step = max(2 * unit, 2.0**-30)
        moved = _size(perturbed(step) - exact)
        scaled = [_Size(moved.norm * size / step, moved.largest * size / step) for size in (2 * unit, 2.0**-52)]
        other = None if paddle_kernel is None else paddle_kernel(*wide).detach()
        return cls(exact, other, *scaled)

    def formulas(self, seen: _Size) -> Found | None:
        """SEMANTICS where the two float64 runs differ by more than rounding, and by enough to matter for the difference seen."""
        if self.paddle is None or self.paddle.dtype != torch.float64 or self.paddle.shape != self.torch.shape:
            return None
        apart = _size(self.paddle - self.torch)
        limit = max(AGREEMENT * _size(self.torch).largest, TOLERANCE * self.moved_wide.largest)
        if apart.largest <= limit or apart.largest <= TOLERANCE * self.moved.largest or apart.norm < 0.1 * seen.norm:
            return None
        text = f"the formulas differ: both run in float64, they are {apart.largest:.3g} apart, {limit:.3g} would be rounding"
        return Verdict.SEMANTICS, Side.NONE, text

    def sides(self, paddle: torch.Tensor, torch_: torch.Tensor) -> Found | None:
        """Each side against float64."""
        unit = KINDS[paddle.dtype].format.unit
        whole = _size(self.torch)
        limit = _Size(max(self.moved.norm, unit * whole.norm), max(self.moved.largest, unit * whole.largest))
        found = []
        for side, result in ((Side.PADDLE, paddle), (Side.TORCH, torch_)):
            apart = result.double() - self.torch
            error, beyond = _size(apart), int((apart.abs() > TOLERANCE * limit.largest).sum())
            ratio, peak = error.norm / (limit.norm or math.ulp(0)), error.largest / (limit.largest or math.ulp(0))
            if peak > TOLERANCE * TOLERANCE and beyond <= 0.01 * apart.numel():
                found.append((Verdict.LOCAL_WRONG, side, peak))
            elif ratio > BEYOND:
                found.append((Verdict.WRONG, side, ratio))
            elif ratio > TOLERANCE:
                found.append((Verdict.LOW_ACCURACY, side, ratio))
        return self._worst(found)

    def _worst(self, found: list[tuple[Verdict, Side, float]]) -> Found | None:
        if not found:
            return None
        verdict = max((v for v, *_ in found), key=lambda v: v.severity)
        guilty = [(side, ratio) for v, side, ratio in found if v is verdict]
        whose = "" if self.paddle is not None else " (of torch's formula: Paddle's could not be run in float64)"
        text = f"error {guilty[0][1]:.3g} times what one eps in the operands moves, against float64{whose}"
        return verdict, guilty[0][0] if len(guilty) == 1 else Side.BOTH, text

    def alone(self, paddle: torch.Tensor, torch_: torch.Tensor) -> Found | None:
        """float64 results, without anything above them: only the difference."""
        apart = _size(paddle - torch_)
        floor = KINDS[torch.float64].format.unit * _size(torch_).norm
        if apart.norm <= TOLERANCE * max(self.moved.norm, floor):
            return None
        ratio = apart.norm / max(self.moved.norm, floor)
        return Verdict.LOW_ACCURACY, Side.NONE, f"the results differ by {ratio:.3g} times what one eps in the operands moves"


def _size(tensor: torch.Tensor) -> _Size:
    clean = tensor.detach().nan_to_num(0.0, 0.0, 0.0).double().cpu().numpy()
    return _Size(float(norm(clean)), float(np.abs(clean).max(initial=0.0)))


def _special(paddle: torch.Tensor, torch_: torch.Tensor, exact: torch.Tensor) -> Found | None:
    """NONFINITE where one side alone has NaN or Inf and float64 stands with the other."""
    largest = KINDS[paddle.dtype].format.largest
    fine = torch.isfinite(exact) & (exact.abs() < 0.99 * largest)
    wrong = [(side, bool((fine & ~torch.isfinite(t)).any())) for side, t in ((Side.PADDLE, paddle), (Side.TORCH, torch_))]
    lost = [(side, bool((exact.isnan() & torch.isfinite(t)).any())) for side, t in ((Side.PADDLE, paddle), (Side.TORCH, torch_))]
    guilty = [side for (side, bad), (_, hidden) in zip(wrong, lost) if bad or hidden]
    if not guilty:
        return None
    text = "NaN or Inf where the float64 run has none, or the other way round"
    return Verdict.NONFINITE, guilty[0] if len(guilty) == 1 else Side.BOTH, text
