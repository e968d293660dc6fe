"""Records of which there is nothing to say beside their figures: nearly all are, and few are ever read in memory again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .encoding import PLAIN_FIELDS, Written, plain_line


def tables(stats: Mapping[str, Any]) -> dict[str, Any]:
    """A record's own figures: those of tensors that are equal are made once and stand in many records."""
    return {name: dict(value) if isinstance(value, dict) else value for name, value in stats.items()}


class Plain(Mapping[str, Any]):
    """The record of a tensor that is EQUAL or only rounding, without a name or a hypothesis.

    It becomes a table when somebody looks at it. ``counted``: its fields that count calls and steps; ``written``: the others that
    were known before the verdict; ``modifiers``: none, or that it was screened; ``index``: what the recorder gives it.
    """

    __slots__ = ("_table", "counted", "index", "modifiers", "reason", "stats", "verdict", "written")

    def __init__(
        self,
        counted: Mapping[str, Any],
        written: Written,
        verdict: str,
        reason: str,
        stats: dict[str, Any],
        modifiers: Sequence[str] = (),
    ) -> None:
        self.counted, self.written, self.verdict, self.reason, self.stats = counted, written, verdict, reason, stats
        self.modifiers, self.index = modifiers, 0
        self._table: dict[str, Any] | None = None

    @property
    def table(self) -> dict[str, Any]:
        """All fields, in the order of every record."""
        if self._table is None:
            said = {"verdict": self.verdict, **PLAIN_FIELDS, "alternatives": [], "modifiers": [*self.modifiers]}
            last = {"reason": self.reason, "stats": tables(self.stats), "index": self.index}
            self._table = {**self.counted, **self.written.fields, **said, **last}
        return self._table

    def line(self) -> bytes | None:
        """One line of the log; None where that has to be written as any record's."""
        return plain_line(self.index, self.counted, self.written, self.verdict, self.reason, self.stats, self.modifiers)

    def __getitem__(self, name: str) -> Any:
        return self.table[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.table)

    def __len__(self) -> int:
        return len(self.table)
