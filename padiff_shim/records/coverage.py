"""How much of a run was compared, and why the rest was not."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..verdicts import Verdict

_REASONS = 1000  # reasons for not checking
OTHERS = "other reasons"
NO_VERDICT = "compared, but no verdict could be given (UNVERIFIED)"
OTHER_NAMES = "(others)"
_COUNTED = ("float_calls", "checked_calls", "float_elements", "checked_elements", "screened", "exact_calls", "idle", "stretches")


def is_float(dtype: str | None) -> bool:
    """Whether a result of this dtype is rounded; an unknown one may be."""
    return not dtype or dtype.startswith(("float", "bfloat", "complex"))


@dataclass
class Coverage:
    """How many float calls (forward) and output elements got a verdict, and why others did not: {(op, reason): calls}."""

    float_calls: int = 0
    checked_calls: int = 0
    float_elements: int = 0
    checked_elements: int = 0
    screened: int = 0  # verdicts that stand on earlier ones of their place
    idle: int = 0  # stretches of the program in which the hooks stood idle, for a budget
    stretches: int = 0  # all of them, where some were idle
    exact_calls: int = 0  # of integers, or of no elements: they round nothing, and are no float calls
    unchecked: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, record: Mapping[str, Any]) -> None:
        """A record of a forward call; gradients and further results belong to the call that they are of."""
        call = not record.get("result")
        if not is_float(record.get("dtype")):
            self.exact_calls += call
            return
        count = (record.get("stats") or {}).get("count")
        elements = math.prod(record.get("shape") or ()) if count is None else int(count)
        if record["verdict"] == Verdict.UNVERIFIED.value:
            self.float_calls += call
            self.float_elements += elements
            self.skip(record["op"], NO_VERDICT, 1)
        else:
            self.checked(call, elements)

    def checked(self, call: bool, elements: int) -> None:
        """A result that got a verdict; ``call``: the first one of its call."""
        self.float_calls += call
        self.float_elements += elements
        self.checked_calls += call
        self.checked_elements += elements

    def native(self, op: str, reason: str, calls: int, elements: int) -> None:
        """Calls that were not compared."""
        self.float_calls += calls
        self.float_elements += elements
        self.skip(op, reason, calls)

    def skip(self, op: str, reason: str, calls: int) -> None:
        """Count a reason; beyond a thousand they are not told apart, and beyond two thousand neither are the ops."""
        key = (op, reason)
        if key not in self.unchecked and len(self.unchecked) >= _REASONS:
            key = (op, OTHERS)
            if key not in self.unchecked and len(self.unchecked) >= 2 * _REASONS:
                key = (OTHER_NAMES, OTHERS)
        self.unchecked[key] += calls

    def merge(self, other: Mapping[str, Any]) -> None:
        """Add what :meth:`as_dict` of another one gave."""
        for name in _COUNTED:
            setattr(self, name, getattr(self, name) + int(other.get(name) or 0))
        for op, reasons in (other.get("unchecked_ops") or {}).items():
            for reason, calls in reasons.items():
                self.skip(op, reason, int(calls))

    def as_dict(self) -> dict[str, Any]:
        """As in the log's ``"end"`` record, the commonest reasons first."""
        by_reason: Counter[str] = Counter()
        by_op: dict[str, dict[str, int]] = {}
        for (op, reason), calls in self.unchecked.most_common():
            by_reason[reason] += calls
            by_op.setdefault(op, {})[reason] = calls
        return {
            "float_calls": self.float_calls,
            "checked_calls": self.checked_calls,
            "float_elements": self.float_elements,
            "checked_elements": self.checked_elements,
            "unchecked": dict(by_reason.most_common()),
            "unchecked_ops": by_op,
            **{name: getattr(self, name) for name in ("screened", "exact_calls", "idle", "stretches") if getattr(self, name)},
        }
