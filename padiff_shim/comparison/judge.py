"""The verdict on one case."""

from __future__ import annotations

import itertools

import numpy as np
import torch

from .. import numerics
from ..runs.compare_run import CompareRun
from ..verdicts import Judgement, Verdict
from .cases import Case, describe_tensor


class Judge:
    """Judges the cases of one mode. ``audit``: one in so many equal results is held against the oracle as well."""

    def __init__(self, run: CompareRun, *, audit: int, seed: int) -> None:
        self.run, self.audit = run, audit
        self._random = np.random.default_rng(seed)
        self._equals = itertools.count(1)

    def __call__(self, case: Case) -> Judgement:
        """The verdict on one tensor; an error of the verdict's own code becomes UNVERIFIED with its text."""
        changed = case.changed
        if changed is not None:
            return changed
        mine, theirs = case.mine, case.theirs
        if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
            ours, others = describe_tensor(mine), describe_tensor(theirs)
            return Judgement(Verdict.UNVERIFIED, reason=f"Paddle's result is {ours}, torch's {others}: nothing to compare")
        try:
            return self._judged(case, mine, theirs)
        except Exception as error:
            text = f"{type(error).__name__}: {str(error)[:200]}"
            self.run.warn(f"no verdict on a call of {case.subject.door.op.name!r}: {text}")
            return Judgement(Verdict.UNVERIFIED, reason=f"the verdict failed: {text}")

    def _judged(self, case: Case, mine: torch.Tensor, theirs: torch.Tensor) -> Judgement:
        same = torch.equal(mine, theirs)
        audit = self.audit > 0 and same and next(self._equals) % self.audit == 0
        if same and not audit:
            return numerics.equal(mine)
        quantity = case.quantity()
        if quantity is None:
            return numerics.fallback(mine, theirs, rng=self._random, audit=audit, **case.kernels())
        return numerics.judge(quantity, mine, theirs, rng=self._random, audit=audit, same=same)
