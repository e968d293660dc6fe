"""What the reports ask of a run: they know no run, so that none of them can ask more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from ..runlog.counts import Counts, GroupCounts, LineFinding
from ..runlog.replicas import Replicas


class Record(Protocol):
    """One record of a run."""

    def to_dict(self) -> Mapping[str, Any]:
        """The record as in the log (docs/log.md)."""


class Records(Protocol):
    """The records of a run, in order."""

    def __len__(self) -> int: ...

    def records(self) -> Iterator[Mapping[str, Any]]:
        """They as in the log, not to be changed."""


class Compared(Protocol):
    """A run of compare mode."""

    @property
    def header(self) -> Mapping[str, Any]:
        """The run's first record."""

    @property
    def calls(self) -> Records:
        """The judged tensors, in order; the place of one here is what ``run.calls[place]`` takes."""

    @property
    def warnings(self) -> Sequence[str]:
        """What to look at before a kernel is blamed."""

    def coverage(self) -> Mapping[str, Any]:
        """How much was compared."""

    @property
    def counts(self) -> Counts:
        """The counters."""

    @property
    def replicas(self) -> Replicas | None:
        """Where the ranks of a distributed run part; None for one process."""

    def by_line(self) -> list[LineFinding]:
        """What there is to look at, the most serious first."""

    def first_divergence(self) -> Record | None:
        """The earliest record that stands out."""

    def by_op(self) -> Mapping[str, GroupCounts]:
        """Op -> its counts."""

    def by_layer(self) -> Mapping[str, GroupCounts]:
        """Layer -> its counts."""
