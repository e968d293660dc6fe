"""The words of a verdict: its classes, the sides that it can name, and its fields. No framework, no tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from .language import marked


class PlainWord(str, Enum):
    """A word of a closed set, shown as it is."""

    def __str__(self) -> str:
        return str(self.value)


class Verdict(PlainWord):
    """The verdict on two kernels' results for one tensor, from harmless to serious. :data:`MEANING` explains each.

    Attributes:
        severity: 0 (``EQUAL``) to 10 (``WRONG``).

    Example:
        >>> from padiff_shim import Verdict
        >>> Verdict("ROUNDING").severity
        1
        >>> max(Verdict, key=lambda verdict: verdict.severity)
        <Verdict.WRONG: 'WRONG'>
    """

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
        self.severity = len(type(self).__members__)


MEANING = {
    Verdict.EQUAL: marked("the same numbers (0.0 counts as -0.0); one in N is audited against the oracle, for both may be wrong"),
    Verdict.ROUNDING: marked("both within the rounding that dtype and length of summation explain"),
    Verdict.TIE: marked("elements stand at a tie, a kink or a step, and differ: both choices are allowed there"),
    Verdict.UNVERIFIED: marked("no verdict: no bound, a random op, or a gradient that could not be observed"),
    Verdict.LOW_ACCURACY: marked("possible rounding, but much worse than the other side or than predicted"),
    Verdict.LOCAL_SUSPECT: marked("within the bounds, but single elements stand far out"),
    Verdict.PRECISION_MODE: marked("explained by a lower precision inside the kernel, which is named"),
    Verdict.SEMANTICS: marked("explained by another formula (epsilon, axis, bias...), which is named"),
    Verdict.NONFINITE: marked("NaN or Inf where the oracle has none, or the other way round"),
    Verdict.LOCAL_WRONG: marked("single elements that no order of summation explains"),
    Verdict.WRONG: marked("no order of summation explains it"),
}
# Clean pairs of kernels never get one of these (tests/comparison/test_faults.py, benchmarks/verdict.md).
HARD = frozenset({Verdict.PRECISION_MODE, Verdict.SEMANTICS, Verdict.NONFINITE, Verdict.LOCAL_WRONG, Verdict.WRONG})


# Modifiers that more than people read.
NEGLIGIBLE, PARTLY, SCREENED, STEP, NO_KERNEL = "negligible", "partly", "screened", "step", "no-native-kernel"
ACCEPTED, REFUSED = "accepted", "refused"


class Side(PlainWord):
    """Whose kernel a verdict is about: Paddle's, Torch's, both, or neither.

    Example:
        >>> from padiff_shim import Side
        >>> Side("paddle")
        <Side.PADDLE: 'paddle'>
    """

    PADDLE = "paddle"
    TORCH = "torch"
    BOTH = "both"
    NONE = "none"

    @classmethod
    def of(cls, guilty: Sequence[Side]) -> Side:
        """The side that a verdict names, of those that are guilty."""
        return cls.BOTH if len(guilty) > 1 else guilty[0] if guilty else cls.NONE


@dataclass
class Judgement:
    """The judgement of one tensor.

    Attributes:
        verdict: its class.
        side: whose kernel it is about.
        hypothesis: the name of the cause that explains the error (``"tf32-inputs"``, ``"epsilon=1e-05"``), or None.
        alternatives: names of other causes that fit as well.
        modifiers: ``"ill_conditioned"``: the bound itself exceeds a tenth of the value. ``"negligible"``: outside the bound in
            single elements, but rounding beside the tensor as a whole. ``"partly"``: ``hypothesis`` leaves an error, on either
            side, that is not rounding. ``"screened"``: no oracle was asked, because such a difference was ROUNDING at this place
            before. ``"step"``: a step function whose operands differ on both sides, as a shadow stream shows.
            ``"accepted"``, ``"refused"``: the comparator of the user's own has spoken. ``"no-native-kernel"``: Paddle has none in
            this dtype on the device, and its kernel in float32, rounded, stands in.
        reason: one sentence for people.
        stats: plain numbers, see docs/log.md.
        confirm: compares the formula of ``hypothesis`` with the whole tensor, before the difference counts as a known one; None
            where that would say no more than the sample.
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
        """Whether class, reason and figures are all there is, but for the modifier of screening."""
        if self.side is not Side.NONE or self.hypothesis or self.verdict is Verdict.TIE:
            return False
        return "different" in self.stats if not self.modifiers else self.modifiers == (SCREENED,)


APART = ("known", "negligible", "muted")  # how a record can be set apart


def apart(record: Mapping[str, Any]) -> str:
    """Why a record is counted apart, after all others: ``"muted"``, ``"known"`` or ``"negligible"``; ``""`` for the others.

    A known difference, or one that is rounding beside the tensor as a whole, does no harm to a program's result.
    """
    if record.get("muted"):
        return "muted"
    if record.get("quirk"):
        return "known"
    return "negligible" if NEGLIGIBLE in (record.get("modifiers") or ()) else ""
