"""Rounding beyond doubt, seen on the whole of small results: what :mod:`.fallback` says at its first look, in fewer steps."""

from __future__ import annotations

import numpy as np
import torch

from ...verdicts import Judgement, Verdict
from ..oracle.measured import Formula
from . import passes, trial
from .classes import classify, far_inside
from .trial import Trial
from .verdict import GATE, plain

LARGEST = 2**20  # elements: larger results are looked at in a sample


def at_once(formula: Formula, paddle: torch.Tensor, torch_: torch.Tensor) -> Judgement | None:
    """ROUNDING, as soon as a part of the bound is seen that allows the errors of both results; None where all of it does not.

    Of either side's errors nothing is said but the largest one.
    """
    if paddle.numel() > LARGEST:
        return None
    value = formula.host("value").reshape(-1)
    y = np.stack([side.detach().double().cpu().numpy().reshape(-1) for side in (paddle, torch_)])
    errors = np.abs(y - value).max(0)
    if not np.isfinite(np.add.reduce(errors)):
        return None
    for oracle, measured in formula.bounds():
        units = errors / oracle.bound(1.0)
        most = units.item(units.argmax())
        if most <= GATE:
            return _rounding(most, paddle, torch_)
        if measured:
            whole = trial.whole(formula, oracle, y)
            if (formula.averages and plain(whole)) or _rounds(whole, far=True):
                return _rounding(most, paddle, torch_)
    return _rounding(most, paddle, torch_) if _rounds(whole) else None


def _rounds(whole: Trial, *, far: bool = False) -> bool:
    """Whether both sides' errors are rounding; ``far``: however small the other side's are, so that more runs change nothing."""
    sides = (whole.paddle, whole.torch), (whole.torch, whole.paddle)
    return all(classify(whole, *pair) is Verdict.ROUNDING and (not far or far_inside(whole, pair[0])) for pair in sides)


def _rounding(most: float, paddle: torch.Tensor, torch_: torch.Tensor) -> Judgement:
    reason = f"neither is further than {most:.2g} rounding units from the oracle"
    return Judgement(Verdict.ROUNDING, reason=reason, stats=passes.differ(paddle, torch_).stats)
