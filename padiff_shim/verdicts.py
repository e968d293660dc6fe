"""The words of a verdict: which classes there are, which side they can name, and what comes with them. No framework, no tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Verdict(str, Enum):
    """What is said of two kernels' results for one tensor, from harmless to serious (:attr:`severity`)."""

    EQUAL = "EQUAL"
    ROUNDING = "ROUNDING"
    TIE = "TIE"
    UNVERIFIED = "UNVERIFIED"
    LOW_ACCURACY = "LOW_ACCURACY"
    LOCAL_SUSPECT = "LOCAL_SUSPECT"
    PRECISION_MODE = "PRECISION_MODE"
    SEMANTICS = "SEMANTICS"
    NONFINITE = "NONFINITE"
    LOCAL_WRONG = "LOCAL_WRONG"
    WRONG = "WRONG"

    def __init__(self, word: str) -> None:
        self.severity = len(type(self).__members__)  # 0 (``EQUAL``) to 10 (``WRONG``)

    def __str__(self) -> str:
        return self.value


MEANING = {
    Verdict.EQUAL: "bit for bit the same; one in N is audited against the oracle, for equal is not yet right",
    Verdict.ROUNDING: "both within the rounding that dtype and length of summation explain",
    Verdict.TIE: "elements stand at a tie, a kink or a step, and differ: both choices are allowed there",
    Verdict.UNVERIFIED: "no verdict: no bound, a random op, or a gradient that could not be observed",
    Verdict.LOW_ACCURACY: "possible rounding, but much worse than the other side or than predicted",
    Verdict.LOCAL_SUSPECT: "within the bounds, but single elements stand far out",
    Verdict.PRECISION_MODE: "explained by a lower precision inside the kernel, which is named",
    Verdict.SEMANTICS: "explained by another formula (epsilon, axis, bias...), which is named",
    Verdict.NONFINITE: "NaN or Inf where the oracle has none, or the other way round",
    Verdict.LOCAL_WRONG: "single elements that no order of summation explains",
    Verdict.WRONG: "no order of summation explains it",
}
# Clean pairs of kernels never get one of these (tests/comparison/test_faults.py, benchmarks/verdict.md).
HARD = frozenset({Verdict.PRECISION_MODE, Verdict.SEMANTICS, Verdict.NONFINITE, Verdict.LOCAL_WRONG, Verdict.WRONG})


# Modifiers that more than people read.
NEGLIGIBLE, PARTLY, SCREENED, STEP, NO_KERNEL = "negligible", "partly", "screened", "step", "no-native-kernel"


class Side(str, Enum):
    """Whose kernel a verdict speaks of."""

    PADDLE = "paddle"
    TORCH = "torch"
    BOTH = "both"
    NONE = "none"

    def __str__(self) -> str:
        return self.value


@dataclass
class Judgement:
    """One judged tensor.

    ``hypothesis``: the name of what explains the error (``"tf32-inputs"``, ``"eps=1e-5"``), ``alternatives`` others that fit as
    well. ``modifiers``: ``"ill_conditioned"`` (the bound itself exceeds a tenth of the value) and ``"negligible"`` (componentwise
    outside the bound, but rounding beside the tensor as a whole) and ``"partly"`` (beside what ``hypothesis`` explains an error is
    left, on either side, that is not rounding) and ``"screened"`` (no oracle was asked: the difference is one that was ROUNDING at
    this place before) and ``"step"`` (a step function whose operands differ on both sides, where a shadow stream says so) and
    ``"no-native-kernel"`` (Paddle has none in this dtype on the device: its kernel in float32 stands for it, rounded).
    ``reason``: one sentence for people. ``stats``: plain numbers, see docs/log.md.
    ``confirm``: holds what ``hypothesis`` says against the whole tensor and not a sample alone; None where that would say no more.
    It is asked before the difference is taken for a known one.
    """

    verdict: Verdict
    side: Side = Side.NONE
    hypothesis: str | None = None
    alternatives: tuple[str, ...] = ()
    modifiers: tuple[str, ...] = ()
    reason: str = ""
    stats: dict[str, Any] = field(default_factory=dict)
    confirm: Callable[[], bool] | None = None

    @property
    def plain(self) -> bool:
        """Nothing is to be said beside the class, the reason and the figures, or that it was screened."""
        if self.side is not Side.NONE or self.hypothesis or self.verdict is Verdict.TIE:
            return False
        return "different" in self.stats if not self.modifiers else self.modifiers == (SCREENED,)


APART = ("known", "negligible", "muted")  # how a record can be set apart


def apart(record: Mapping[str, Any]) -> str:
    """Why a record is counted apart and comes after all others: ``"muted"``, ``"known"``, ``"negligible"``; ``""`` for the others.

    A difference that is known, or that is rounding beside the tensor as a whole, is not what a program's result suffers from.
    """
    if record.get("muted"):
        return "muted"
    if record.get("quirk"):
        return "known"
    return "negligible" if NEGLIGIBLE in (record.get("modifiers") or ()) else ""
