"""The verdict on one case."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from .. import numerics
from ..numerics.oracle.limits import Bound, Learnt
from ..runs.compare_run import CompareRun
from ..signals import let_pass
from ..verdicts import Judgement, Verdict
from .cases import OVERTAKEN, Case, describe_tensor
from .describe import UNKNOWN, Spot
from .screening import Screening, Size, as_before

# An a-priori bound costs some passes over memory: where it has failed so many times in a row, every eighth difference is
# held against it, and the others against the oracle at once.
TRIES, AGAIN = 3, 8


QUIET = (Verdict.EQUAL, Verdict.ROUNDING, Verdict.TIE, Verdict.UNVERIFIED)
ALIKE = "equal bit for bit, NaN at the same places"
Pair = tuple[torch.Tensor, torch.Tensor]  # Paddle's and Torch's


class Judge:
    """Judges the cases of one mode; what is learnt of a spot is kept with it.

    ``audit``: one in so many results of a spot that are equal, or nearly so, is held against the oracle as well.
    ``screening``: differences as before at their spot are not judged again.
    """

    def __init__(self, run: CompareRun, *, audit: int, screening: bool, seed: int) -> None:
        self.run, self.audit = run, audit
        self._random = np.random.default_rng(seed)
        self._screening = Screening() if screening else None
        self._turns = itertools.count(1)

    def __call__(self, case: Case) -> Judgement:
        """The verdict on one tensor; an error of the verdict's own code becomes UNVERIFIED with its text."""
        changed = case.changed
        if changed is not None:
            return changed
        mine, theirs = case.mine, case.theirs
        if mine.dtype != theirs.dtype:
            ours, others = describe_tensor(mine), describe_tensor(theirs)
            return Judgement(Verdict.UNVERIFIED, reason=f"Paddle's result is {ours}, torch's {others}: nothing to compare")
        try:
            if mine.shape != theirs.shape:
                return numerics.fallback(mine, theirs, rng=self._random, **case.kernels())
            judgement = self._judged(case, mine, theirs)
            if judgement.verdict not in QUIET and case.overtaken():
                return Judgement(Verdict.UNVERIFIED, reason=OVERTAKEN)
            return judgement
        except Exception as error:
            let_pass(error)
            text = f"{type(error).__name__}: {str(error)[:200]}"
            self.run.warn(f"no verdict on a call of {case.subject.door.op.name!r}: {text}")
            return Judgement(Verdict.UNVERIFIED, reason=f"the verdict failed: {text}")

    def _judged(self, case: Case, mine: torch.Tensor, theirs: torch.Tensor) -> Judgement:
        spot, sides = case.spot, (mine, theirs)
        if numerics.same(mine, theirs):
            if self._audited(spot):
                return self._weighed(case, sides, same=True, audit=True)
            spot.alike = alike = spot.alike or numerics.equal(mine)
            return alike
        if numerics.alike(mine, theirs):  # NaN is seldom what was meant: the oracle says whether it is right
            judgement = self._weighed(case, sides, audit=True)
            return judgement if judgement.verdict not in QUIET else replace(numerics.equal(mine), reason=ALIKE)
        if self._screening is None or not mine.is_floating_point():
            return self._weighed(case, sides, audit=self._audited(spot))
        size = Size.of(mine, theirs)
        if self._screening.passes(spot, size):
            return as_before(mine, size)
        judgement = self._weighed(case, sides, audit=self._audited(spot))
        self._screening.judged(spot, size, judgement)
        return judgement

    def _weighed(self, case: Case, sides: Pair, *, audit: bool, same: bool = False) -> Judgement:
        """The verdict on both sides' tensors; where the op's ties may tell them apart, those are judged by themselves."""
        ties = case.subject.door.op.ties
        if ties is None or same or not numerics.far_apart(*sides):
            judgement = self._rounded(case, sides, audit=audit, same=same)
            if ties is None or judgement.verdict in QUIET:
                return judgement
        kernels = case.kernels()
        settled = numerics.settle(ties, case.tied(kernels), *sides, kernels["variants"])
        if settled is None:
            return self._rounded(case, sides, audit=audit, same=same)
        return settled.beside(self._rounded(case, (settled.paddle, settled.torch), audit=False))

    def _rounded(self, case: Case, sides: Pair, *, audit: bool, same: bool = False) -> Judgement:
        """The verdict by what rounding may do."""
        spot, learns = case.spot, not (same or audit)
        if case.subject.door.op.exact and not sides[0].is_complex():
            return case.moved(sides, rng=self._random, audit=audit)
        if learns and (harmless := self._harmless(case, sides)) is not None:
            return harmless
        quantity = None if _nothing(case) else case.quantity()
        if quantity is None:
            # A spot's first difference is judged in full, which says how far right kernels may be apart there.
            soon, spot.failed = spot.failed is not None, 0
            return numerics.fallback(*sides, rng=self._random, audit=audit, soon=soon, **case.kernels())
        if not learns:
            return numerics.judge(quantity, *sides, rng=self._random, audit=audit, same=same)
        failed = spot.failed
        if failed is None and not quantity.averages:
            failed = 0
        # A long sum's first difference at a spot is held against the oracle, which says how far right kernels may be apart there.
        asks = _asks(failed)
        judgement = numerics.judge(quantity, *sides, rng=self._random, same=same, apriori=asks)
        spot.failed = 0 if failed is None or "sampled" not in judgement.stats else failed + 1
        if asks and spot.learnt is UNKNOWN and "sampled" not in judgement.stats:
            spot.learnt = _learnt(case, quantity)
        return judgement

    def _harmless(self, case: Case, sides: Pair) -> Judgement | None:
        """The verdict where the spot's own a-priori bound says it: its quantity, of which that is a part, is not made again."""
        spot = case.spot
        learnt = spot.learnt
        if learnt is UNKNOWN or learnt is None or not _asks(spot.failed):
            return None
        if not case.told:
            return None
        judgement: Judgement | None = None
        if learnt.few is not None:
            judgement = numerics.harmless_few(*sides, learnt.few, case.array)
        if judgement is None:
            judgement = numerics.harmless(*sides, learnt, case.given())
        if judgement is not None:
            spot.failed = 0
        return judgement

    def _audited(self, spot: Spot) -> bool:
        """One in :attr:`audit` results of each spot; where each one begins to count goes round."""
        if not self.audit:
            return False
        left = spot.audit
        if left is None:
            left = next(self._turns) % self.audit
        spot.audit = left - 1 if left else self.audit - 1
        return not left


def _asks(failed: int | None) -> bool:
    """Whether a difference is held against the a-priori bound, after so many in a row that it did not explain."""
    return failed is not None and (failed < TRIES or not failed % AGAIN)


def _learnt(case: Case, quantity: Any) -> Learnt | None:
    """The a-priori bound of the case's place, for other tensors."""
    bound = quantity.harmless
    if not isinstance(bound, Bound) or not all(map(_constant, case.subject.attributes)):
        return None
    return bound.among(case.given(), case.theirs) if case.told else None


def _constant(value: Any) -> bool:
    """An attribute that is told apart by its value in what a place is known by, and not only by its kind."""
    if isinstance(value, (list, tuple)):
        return all(map(_constant, value))
    return value is None or isinstance(value, (bool, int, float, str, torch.dtype))


def _nothing(case: Case) -> bool:
    """An operand has no elements: no model speaks of that, but the formula runs."""
    return 0 in [one.numel() for one in case.subject.operands if isinstance(one, torch.Tensor)]
