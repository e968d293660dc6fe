"""What :func:`padiff_shim.diff` answers."""

from __future__ import annotations

import math
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..writing import write
from . import pages
from .measure import Apart
from .reading import Tensor


@dataclass(frozen=True)
class Row:
    """A tensor of one recording and what belongs to it in the other; one is None where nothing does.

    ``apart``: how far they are apart, None without partner. ``differs``: whether that counts as a difference.
    """

    rank: int
    a: Tensor | None
    b: Tensor | None
    apart: Apart | None
    differs: bool

    @property
    def any(self) -> Tensor:
        """The one, or the other."""
        found = self.a or self.b
        assert found is not None
        return found

    def as_dict(self) -> dict[str, Any]:
        """In plain types (JSON)."""
        one = self.any
        places = {side: None if tensor is None else f"{tensor}" for side, tensor in (("a", self.a), ("b", self.b))}
        told = None if self.apart is None else {name: _plain(value) for name, value in asdict(self.apart).items()}
        return {
            "rank": self.rank,
            "kind": one.kind,
            "name": one.name,
            "tensor": one.tensor,
            "layer": one.layer,
            "step": one.step,
            **places,
            "indices": [None if tensor is None else tensor.index for tensor in (self.a, self.b)],
            "apart": told,
            "differs": self.differs,
        }


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


@dataclass
class Difference:
    """How two recordings differ. True in a condition if nothing differs.

    That is: something was compared, every pair is equal (or within ``atol`` and ``rtol``), and nothing is without a partner.
    Between recordings of two frameworks calls without a partner are no difference, for each divides its work into calls of its own;
    there the last results must be among the pairs.

    Args:
        a, b: folders.
        rows: everything that was computed, in the order of the runs.
        surroundings: (name, value in a, value in b) of versions, devices and switches that differ.
        notes: what a reader should know.
        frameworks: those of both.
        met: whether the last results of both were compared with each other.
        inputs: what both runs were given, weights at the start and data: the pairs.
    """

    a: str
    b: str
    rows: list[Row] = field(default_factory=list)
    surroundings: list[tuple[str, Any, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    frameworks: tuple[str, str] = ("paddle", "paddle")
    met: bool = True
    inputs: list[Row] = field(default_factory=list)

    @property
    def compared(self) -> list[Row]:
        """The rows with both sides."""
        return [row for row in self.rows if row.apart is not None]

    @property
    def differing(self) -> list[Row]:
        """The rows that differ, in order."""
        return [row for row in self.rows if row.differs]

    @property
    def first(self) -> Row | None:
        """The first row that differs."""
        return next(iter(self.differing), None)

    @property
    def origin(self) -> Row | None:
        """The first input that differs, where nothing differs before it: what the runs were given is what sets them apart."""
        return next((row for row in self.inputs if row.differs and self._precedes(row)), None)

    def _precedes(self, data: Row) -> bool:
        """Whether no result differs before this input, in the order of the run that it is an input of."""
        assert data.a is not None
        others = (row for row in self.differing if row.rank == data.rank)
        return all(row.a is None or row.a.index > data.a.index for row in others)

    def __bool__(self) -> bool:
        return bool(self.compared) and self.met and self.first is None

    @property
    def headline(self) -> str:
        """The answer in one line."""
        return pages.headline(self)

    def as_dict(self) -> dict[str, Any]:
        """All of it in plain types (JSON)."""
        return {
            "same": bool(self),
            "headline": self.headline,
            "a": self.a,
            "b": self.b,
            "frameworks": list(self.frameworks),
            "compared": len(self.compared),
            "differing": len(self.differing),
            "first": None if self.first is None else self.first.as_dict(),
            "origin": None if self.origin is None else self.origin.as_dict(),
            "inputs": [row.as_dict() for row in self.inputs],
            "surroundings": [list(one) for one in self.surroundings],
            "notes": list(self.notes),
            "rows": [row.as_dict() for row in self.rows],
        }

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write it as one self-contained page; returns its path. Raises FileError."""
        from .webpage import html

        return write(path, html(self), "the page ")

    def to_markdown(self) -> str:
        """For an issue or a pull request."""
        return pages.markdown(self)

    def text(self, width: int | None = None, *, colour: bool = False) -> str:
        """For a terminal, ``width`` columns wide (default: its own); with ``colour`` as ANSI sequences."""
        return pages.text(self, width, colour=colour)

    def __str__(self) -> str:
        return self.text()
