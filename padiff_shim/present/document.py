"""A result as a tree: a headline, then parts (paragraphs, notes, tables, findings...). Three renderers write it.

A text is never read as markup, and each renderer makes it safe to print. Builders of documents pass every sentence through
:func:`padiff_shim.text.tr`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple

from ..tested import untested
from ..text import shown, tr

Tone = Literal["", "good", "bad", "warning", "open", "soft", "strong"]
TEXT, MARKDOWN, PAGE = "text", "markdown", "page"  # the renderers
MARKS = {"good": "✓", "bad": "✗", "open": "–", "warning": "–"}


class Most(NamedTuple):
    """How many rows a renderer shows."""

    text: int
    markdown: int
    page: int


class Share(NamedTuple):
    """A part of a whole, for a bar: ``kind`` is one of the style's ``p-...``, ``label`` is for the legend."""

    kind: str
    size: float
    label: str = ""
    figure: str = ""


class Word(NamedTuple):
    """Part of a line of code; ``marked``: it differs from the line beside it."""

    text: str
    marked: bool = False


@dataclass(frozen=True)
class Cell:
    """A cell of a table that is more than a text.

    ``lines``: below each other. ``link``: a file beside the page that it names. ``shade``: from 0 to 1, how strong the page's
    colour of ``tone`` is behind it. ``depth``: how far the page indents it. ``bar``: parts of a whole that the page draws before
    the text.
    """

    lines: Sequence[str]
    tone: Tone = ""
    shade: float | None = None
    depth: int = 0
    bar: Sequence[Share] = ()
    link: str = ""


Row = Sequence[str | Cell]


class Column(NamedTuple):
    """A column of a table.

    Attributes:
        head: its title.
        leave: the column with the largest number is the first that is left out on a narrow terminal, or where Markdown would have
            more than :data:`SIX`; on a phone a page without cards leaves out all from :data:`NARROW` on. 0: never.
        right: figures.
        markdown: ``"own"``, ``"under"`` (below the column to its left) or ``"absent"``.
        short: words that a page shows in one line with those beside them.
        fold: words that a terminal may fold.
    """

    head: str
    leave: int = 0
    right: bool = False
    markdown: Literal["own", "under", "absent"] = "own"
    short: bool = False
    fold: bool = False


NARROW, SIX = 3, 6


def figures(*heads: str, leave: Sequence[int] = ()) -> list[Column]:
    """Columns of numbers; ``leave``: as of :class:`Column`, one a head."""
    return [Column(head, order, right=True) for head, order in zip(heads, leave or [0] * len(heads))]


class Part:
    """Part of a document."""


@dataclass(frozen=True)
class Only(Part):
    """Blocks that some renderers show and others do not."""

    renderers: Sequence[str]
    parts: Sequence[Part]


@dataclass(frozen=True)
class Facts(Part):
    """Short lines below the headline: what ran, on which versions."""

    lines: Sequence[str]


def setting_label(name: str) -> str:
    """The name of a setting in a table for readers."""
    return tr("operating system") if name == "system" else tr(name)


def version_words(environment: Mapping[str, Any]) -> str:
    """``"paddle 3.3.1, torch 2.13.0, cpu"``."""
    versions = [f"{name} {shown(environment[name])}" for name in ("paddle", "torch", "numpy", "python") if environment.get(name)]
    device = [shown(environment["device"])] if environment.get("device") else []
    return ", ".join([*versions, *device]) or tr("versions unknown")


def untested_words(environment: Mapping[str, Any]) -> list[str]:
    """A line for each version that the tests were not run on."""
    return [
        tr(
            "Not tested on {name} {version}; the nearest tested: {nearest}. padiff-shim doctor tries this installation",
            name=name,
            version=shown(version),
            nearest=", ".join(nearest),
        )
        for name, version, nearest in untested(environment)
    ]


def loaded_versions() -> dict[str, str]:
    """Of the frameworks that this process has imported."""
    modules = ((name, sys.modules.get(name)) for name in ("paddle", "torch", "numpy"))
    return {name: str(getattr(module, "__version__", "?")) for name, module in modules if module is not None}


@dataclass(frozen=True)
class Paragraph(Part):
    """A sentence or more."""

    text: str
    tone: Tone = ""


@dataclass(frozen=True)
class Notes(Part):
    """Remarks; ``warning``: what to look at before anything else."""

    texts: Sequence[str]
    warning: bool = False


class ListItem(NamedTuple):
    """A line of a list: ``name: text``."""

    text: str
    name: str = ""
    tone: Tone = ""


@dataclass(frozen=True)
class Items(Part):
    """A list; ``marks``: each is marked as good, bad or open."""

    items: Sequence[ListItem]
    marks: bool = False


@dataclass(frozen=True)
class Code(Part):
    """Lines as they are."""

    lines: Sequence[str]


@dataclass(frozen=True)
class Table(Part):
    """Rows under heads. A column in which nothing stands is left out, as is a part of a document without content.

    ``tones``: one a row. ``most``: how many rows each renderer shows; ``total``: how many there are, where ``rows`` are not all;
    ``hint``: where the others are. ``rank``: places of the rows in order of weight, for those that are shown; without it the first
    ones. ``others``: a row that stands for all rows from the given place on. ``cards``: on a phone each row is a card.
    """

    columns: Sequence[Column]
    rows: Sequence[Row]
    tones: Sequence[Tone] = ()
    most: Most | None = None
    total: int | None = None
    hint: str = ""
    rank: Sequence[int] = ()
    others: Callable[[int], Row] | None = None
    cards: bool = True
    kind: str = ""

    def shown(self, renderer: str) -> tuple[list[Row], list[Tone], int]:
        """Rows that a renderer shows, their tones, and how many are not shown."""
        most = len(self.rows) if self.most is None else getattr(self.most, renderer)
        order = sorted((self.rank or range(len(self.rows)))[:most])
        rows = [self.rows[place] for place in order]
        tones: list[Tone] = [self.tones[place] for place in order] if self.tones else [""] * len(rows)
        further = (self.total if self.total is not None else len(self.rows)) - len(rows)
        if further and self.others is not None:
            return [*rows, self.others(most)], [*tones, ""], 0
        return rows, tones, further

    def filled(self, rows: Sequence[Row]) -> list[int]:
        """Places of the columns in which anything stands."""
        return [place for place in range(len(self.columns)) if not rows or any(lines_of(row[place]) for row in rows)]


class Place(NamedTuple):
    """Where a finding is, on one side. ``title`` is the side's name on a page; ``around``: lines of source before and behind."""

    side: str
    title: str
    where: str
    source: Sequence[Word] = ()
    call: Sequence[Word] = ()
    around: tuple[Sequence[str], Sequence[str]] = ((), ())

    def line(self) -> str:
        """The place and its call."""
        call = "".join(word.text for word in self.call)
        return f"{self.where}{tr(': ')}{call}" if call else self.where

    def code(self) -> str:
        """The line of source."""
        return "".join(word.text for word in self.source)


class ListedFinding(NamedTuple):
    """What is wrong, its places, and what else is known, each with its word."""

    text: str
    places: Sequence[Place]
    details: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Findings(Part):
    """Findings, the most serious first."""

    findings: Sequence[ListedFinding]


@dataclass(frozen=True)
class Shares(Part):
    """Parts of a whole as a bar with a legend; drawn on pages alone."""

    parts: Sequence[Share]


class ChartPoint(NamedTuple):
    """A point of a chart; ``soft``: one that needs no look."""

    x: float
    y: float
    soft: bool = False


@dataclass(frozen=True)
class Scatter(Part):
    """Points on a logarithmic axis, from 0 to ``last`` across; drawn on pages alone."""

    points: Sequence[ChartPoint]
    last: int
    across: str
    up: str


class Curve(NamedTuple):
    """Values along an axis, None where there is none. ``kind``: of the style's ``p-...`` and ``c-...``, its colour."""

    name: str
    kind: str
    values: Sequence[float | None]


@dataclass(frozen=True)
class Curves(Part):
    """Curves over numbered places (layers, steps), with a legend; drawn on pages alone.

    ``ends``: below both ends. ``logarithmic``: values of 0 stand on the lowest line.
    """

    curves: Sequence[Curve]
    ends: tuple[str, str]
    across: str
    up: str
    logarithmic: bool = True


class HeatCell(NamedTuple):
    """A cell of a heat map: its line and column, its size (above 0, infinity is darkest), and its words."""

    line: int
    column: int
    value: float
    words: str


@dataclass(frozen=True)
class HeatChart(Part):
    """Sizes by line and column, the darker the larger, on a logarithmic scale; drawn on pages alone. ``ends``: below both ends."""

    lines: Sequence[str]
    columns: int
    cells: Sequence[HeatCell]
    ends: tuple[str, str]


@dataclass(frozen=True)
class Section(Part):
    """Blocks under a title. ``folded``: Markdown shows the title alone until it is opened."""

    title: str
    parts: Sequence[Part]
    note: str = ""
    folded: bool = False


@dataclass(frozen=True)
class Folded(Part):
    """Blocks that a click opens; a terminal does not show them."""

    title: str
    parts: Sequence[Part]


@dataclass(frozen=True)
class Document:
    """All that a result says.

    ``tone``: that of the badge in which pages show the verdict; ``verdict``: its word, where the headline does not begin with it
    (``"SAME: ..."``). ``title``: of the page's window; default the headline. ``contents``: the page begins with links to its
    sections.
    """

    headline: str
    parts: Sequence[Part]
    tone: Tone = ""
    title: str = ""
    contents: bool = False
    verdict: str = ""

    def badge(self) -> tuple[str, str]:
        """The word of the badge, "" for none, and the headline beside it."""
        if not self.tone or self.verdict:
            return self.verdict if self.tone else "", self.headline
        word, colon, rest = str(self.headline).partition(": ")
        return (word, rest) if colon else ("", self.headline)


def lines_of(cell: str | Cell) -> list[str]:
    """The lines of a cell that are not empty."""
    return list(filter(None, [cell] if isinstance(cell, str) else cell.lines))


def flattened(parts: Sequence[Part], renderer: str) -> Iterator[Part]:
    """The parts that a renderer shows: not those of others, and none in which nothing stands."""
    for part in parts:
        if isinstance(part, Only):
            yield from flattened(part.parts, renderer) if renderer in part.renderers else ()
        elif isinstance(part, (Section, Folded)):
            if any(flattened(part.parts, renderer)):
                yield part
        elif part.rows if isinstance(part, Table) else getattr(part, fields(part)[0].name):  # type: ignore[arg-type]
            yield part
