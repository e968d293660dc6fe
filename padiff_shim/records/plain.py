"""Records of which there is nothing to say beside their figures: nearly all are, and few are ever read in memory again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .encoding import PLAIN_FIELDS, Written, plain_line


class Plain(Mapping[str, Any]):
    """The record of a tensor that is EQUAL or only rounding, without a name, a modifier or a hypothesis.

    It becomes a table when somebody looks at it. ``counted``: its fields that count calls and steps; ``written``: the others that
    were known before the verdict; ``index``: what the recorder gives it.
    """

    __slots__ = ("_table", "counted", "index", "reason", "stats", "verdict", "written")

    def __init__(self, counted: Mapping[str, Any], written: Written, verdict: str, reason: str, stats: dict[str, Any]) -> None:
        self.counted, self.written, self.verdict, self.reason, self.stats = counted, written, verdict, reason, stats
        self.index = 0
        self._table: dict[str, Any] | None = None

    @property
    def table(self) -> dict[str, Any]:
        """All fields, in the order of every record."""
        if self._table is None:
            said = {"verdict": self.verdict, **PLAIN_FIELDS, "alternatives": [], "modifiers": [], "reason": self.reason}
            self._table = {**self.counted, **self.written.fields, **said, "stats": self.stats, "index": self.index}
        return self._table

    def line(self) -> bytes | None:
        """One line of the log; None where that has to be written as any record's."""
        return plain_line(self.index, self.counted, self.written, self.verdict, self.reason, self.stats)

    def __getitem__(self, name: str) -> Any:
        return self.table[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.table)

    def __len__(self) -> int:
        return len(self.table)
