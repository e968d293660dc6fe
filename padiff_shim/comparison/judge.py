"""The verdict on one case."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import torch

from .. import numerics
from ..numerics.oracle.limits import Bound, Learnt
from ..runs.compare_run import CompareRun
from ..signals import let_pass
from ..verdicts import Judgement, Verdict
from .cases import OVERTAKEN, Case, describe_tensor
from .screening import PLACES, Screening, Size, as_before

# An a-priori bound costs some passes over memory: where it has failed so many times in a row, every eighth difference is
# held against it, and the others against the oracle at once.
TRIES, AGAIN = 3, 8


QUIET = (Verdict.EQUAL, Verdict.ROUNDING, Verdict.UNVERIFIED)


class Judge:
    """Judges the cases of one mode.

    ``audit``: one in so many results of a place that are equal, or nearly so, is held against the oracle as well.
    ``screening``: differences as before at their place are not judged again.
    """

    def __init__(self, run: CompareRun, *, audit: int, screening: bool, seed: int) -> None:
        self.run, self.audit = run, audit
        self._random = np.random.default_rng(seed)
        self._screening = Screening() if screening else None
        self._failed: dict[Any, int] = {}  # how often in a row an a-priori bound did not explain a difference of a place
        self._learnt: dict[Any, Learnt | None] = {}  # the a-priori bound of a place, where it explained a difference before
        self._until: dict[Any, int] = {}  # results of a place until the next audit
        self._turns = itertools.count(1)

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
        if numerics.same(mine, theirs):
            return self._weighed(case, same=True, audit=True) if self._audited(case.written()) else numerics.equal(mine)
        if self._screening is None or not mine.is_floating_point():
            return self._weighed(case, audit=self._audited(case.written()))
        key, size = case.written(), Size.of(mine, theirs)
        if self._screening.passes(key, size):
            return as_before(mine, size)
        judgement = self._weighed(case, audit=self._audited(key))
        self._screening.judged(key, size, judgement)
        return judgement

    def _weighed(self, case: Case, *, audit: bool, same: bool = False) -> Judgement:
        learns = not (same or audit)
        if learns and (found := self._harmless(case)) is not None:
            return found
        quantity = None if _nothing(case) else case.quantity()
        if quantity is None:
            return numerics.fallback(case.mine, case.theirs, rng=self._random, audit=audit, **case.kernels())
        if not learns:
            return numerics.judge(quantity, case.mine, case.theirs, rng=self._random, audit=audit, same=same)
        key = case.written()
        failed = self._failed.get(key, None if quantity.averages else 0)
        # A long sum's first difference at a place is held against the oracle, which says how far right kernels may be apart there.
        asks = _asks(failed)
        found = numerics.judge(quantity, case.mine, case.theirs, rng=self._random, same=same, apriori=asks)
        if len(self._failed) >= PLACES:
            self._failed.clear()
            self._learnt.clear()
        self._failed[key] = 0 if failed is None or "sampled" not in found.stats else failed + 1
        if asks and key not in self._learnt and "sampled" not in found.stats:
            self._learnt[key] = _learnt(case, quantity)
        return found

    def _harmless(self, case: Case) -> Judgement | None:
        """The verdict where the place's own a-priori bound says it: its quantity, of which that is a part, is not made again."""
        key = case.written()
        learnt = self._learnt.get(key)
        if learnt is None or not _asks(self._failed.get(key)):
            return None
        given = case.given()
        found = numerics.harmless(case.mine, case.theirs, learnt, given) if given is not None else None
        if found is not None:
            self._failed[key] = 0
        return found

    def _audited(self, key: Any) -> bool:
        """One in :attr:`audit` results of each place; where each one begins to count goes round."""
        if not self.audit:
            return False
        left = self._until.get(key)
        if left is None:
            if len(self._until) >= PLACES:
                self._until.clear()
            left = next(self._turns) % self.audit
        self._until[key] = left - 1 if left else self.audit - 1
        return not left


def _asks(failed: int | None) -> bool:
    """Whether a difference is held against the a-priori bound, after so many in a row that it did not explain."""
    return failed is not None and (failed < TRIES or not failed % AGAIN)


def _learnt(case: Case, quantity: Any) -> Learnt | None:
    """The a-priori bound of the case's place, for other tensors."""
    bound = quantity.harmless
    if not isinstance(bound, Bound) or not all(map(_constant, case.subject.attributes)):
        return None
    given = case.given()
    return None if given is None else bound.among(given)


def _constant(value: Any) -> bool:
    """An attribute that is told apart by its value in what a place is known by, and not only by its kind."""
    if isinstance(value, (list, tuple)):
        return all(map(_constant, value))
    return value is None or isinstance(value, (bool, int, float, str, torch.dtype))


def _nothing(case: Case) -> bool:
    """An operand has no elements: no model speaks of that, but the formula runs."""
    return 0 in [one.numel() for one in case.subject.operands if isinstance(one, torch.Tensor)]
