"""Screening: a difference like those that were judged ROUNDING at this very place before is ROUNDING again.

A verdict costs many times what the size of a difference costs. What is screened is marked so in its record and counted in the
coverage. A fault that makes the difference larger is judged at once; one that does not is judged when the place is judged again,
which happens every :data:`AGAIN` differing calls of it.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from ..numerics.judging import passes
from ..verdicts import SCREENED, Judgement, Verdict
from .describe import Spot

LEARNT = 3  # full verdicts, all of them ROUNDING, before a place is screened
AGAIN = 16  # one in so many is judged fully all the same
ROOM = 1.25  # times the largest difference that was judged fully


class Size(NamedTuple):
    """How far two results are apart, beside the size of Torch's: as a whole, and where it is most."""

    whole: float
    peak: float
    largest: float

    @classmethod
    def of(cls, mine: torch.Tensor, theirs: torch.Tensor) -> Size:
        """Of two tensors of one shape and a floating dtype; NaN where either holds one."""
        with np.errstate(all="ignore"):
            apart, largest, norm = passes.sizes(mine, theirs)
        norm = norm or 1.0
        return cls(apart / norm, largest / norm, largest)


@dataclass
class _Usual:
    """What was judged ROUNDING at one place."""

    verdicts: int = 0
    whole: float = 0.0
    peak: float = 0.0
    screened: int = 0


class Screening:
    """Whether the differences of one mode are those that are known of their spots, which hold what that is."""

    def __init__(self) -> None:
        self._turns = itertools.count()

    def passes(self, spot: Spot, size: Size) -> bool:
        """Whether a difference of this size need not be judged."""
        usual: _Usual | None = spot.usual
        if usual is None or usual.verdicts < LEARNT or usual.screened >= AGAIN - 1:
            return False
        if not (size.whole <= ROOM * usual.whole and size.peak <= ROOM * usual.peak):
            return False
        usual.screened += 1
        return True

    def judged(self, spot: Spot, size: Size, judgement: Judgement) -> None:
        """A difference was judged fully: what is not ROUNDING makes the spot unknown again."""
        if judgement.verdict is not Verdict.ROUNDING:
            spot.usual = None
            return
        usual: _Usual = spot.usual or _Usual()
        spot.usual = usual
        usual.verdicts += 1
        # The places of a program that repeats itself are judged again by turns, not all in one step.
        usual.screened = next(self._turns) % AGAIN if usual.verdicts == LEARNT else 0
        usual.whole, usual.peak = max(usual.whole, size.whole), max(usual.peak, size.peak)


def as_before(tensor: torch.Tensor, size: Size) -> Judgement:
    """The verdict on what passed."""
    stats = {"count": tensor.numel(), "max_abs": size.largest, "rel_fro": size.whole}
    return Judgement(Verdict.ROUNDING, modifiers=(SCREENED,), reason="a difference as before at this place", stats=stats)
