"""What differs and is only rounding: how far it is, and how far two right kernels may be, in bounded memory."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..verdicts import Verdict

PLACES = 1000  # tensors of lines that are told apart; those beyond are not kept
_INNOCENT = frozenset((Verdict.EQUAL.value, Verdict.ROUNDING.value))


class Innocent:
    """Of each line's op and tensor the record with the largest difference among those that are EQUAL or ROUNDING."""

    def __init__(self) -> None:
        self._largest: dict[tuple[Any, ...], tuple[tuple[bool, float, float], Mapping[str, Any], str]] = {}

    def add(self, record: Mapping[str, Any], log: str) -> None:
        """Look at one record. Those of which nothing is known but that they are equal are passed over."""
        stats = record.get("stats") or {}
        if record["verdict"] not in _INNOCENT or not (stats.get("different") or stats.get("allowed")):
            return
        self.note((record.get("op"), record.get("tensor"), record.get("site")), stats, record, log)

    def note(self, key: tuple[Any, ...], stats: Mapping[str, Any], record: Mapping[str, Any], log: str) -> None:
        """A record with these figures, of which more than that is known."""
        allowed, known = stats.get("allowed"), self._largest.get(key)
        if allowed is None and known is not None and known[0][0]:  # of that one it is said how far it may be
            return
        size = (allowed is not None, _number(stats.get("max_abs")), _number(allowed))
        if known is None and len(self._largest) >= PLACES:
            return
        if known is None or size > known[0]:
            self._largest[key] = (size, record, log)

    def largest(self) -> list[tuple[Mapping[str, Any], str]]:
        """Records and their logs, the largest difference first; among equal ones what may differ most."""
        found = sorted(self._largest.values(), key=lambda entry: entry[0][1:], reverse=True)
        return [(record, log) for _, record, log in found]


def _number(value: Any) -> float:
    number = float(value or 0.0)  # a log's "inf" too
    return math.inf if math.isnan(number) else number
