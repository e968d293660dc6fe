"""Results as text in so many columns: sentences fold between words, tables leave columns out before a word is broken."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .text import PIPED, columns

# Where a word that is longer than a line may be folded: behind these, but never before a line's number.
_PIECES = re.compile(r"[^/\\]+:\d+\S*$|[^/\\.,;|=_-]*(?:[/\\.,;|=_-]+|$)")
_HEAD_OF_PARAGRAPH = "bold"


class Column(NamedTuple):
    """A column. ``leave``: the column with the largest number is left out first where room is short; 0: never."""

    head: str
    leave: int = 0
    right: bool = False


class Screen:
    """Text that is being written.

    Args:
        width: in columns; default :func:`padiff_shim.text.columns`.
        colour: with ANSI sequences.
    """

    def __init__(self, width: int | None = None, *, colour: bool = False) -> None:
        self.width = width or columns()
        self._buffer = io.StringIO()
        self._console = Console(
            file=self._buffer,
            width=self.width,
            force_terminal=colour,
            color_system="standard" if colour else None,
            highlight=False,
            legacy_windows=False,
        )

    def say(self, text: str, style: str = "", *, indent: int = 0, hang: int = 0) -> None:
        """A sentence: on one line where the output is no terminal, else folded between words.

        ``hang``: how much deeper than ``indent`` further lines lie.
        """
        lines = [" " * indent + text] if self.width >= PIPED else folded(text, self.width, indent, hang)
        for line in lines:
            self._console.print(Text(line, style=style), soft_wrap=True)

    def table(
        self,
        heads: Sequence[Column],
        rows: Iterable[Sequence[str]],
        title: str = "",
        styles: Sequence[str] = (),
    ) -> None:
        """Rows under each other; as paragraphs where even the columns that are never left out do not fit.

        ``styles``: one a row. Columns in which nothing stands are left out.
        """
        listed = [tuple(row) for row in rows]
        kept = [place for place in range(len(heads)) if not listed or any(row[place] for row in listed)]
        styles = styles or [""] * len(listed)
        while not self.fits(made := _table([heads[place] for place in kept], [[row[p] for p in kept] for row in listed], styles)):
            leaving = max(kept, key=lambda place: heads[place].leave, default=None)
            if leaving is None or not heads[leaving].leave:
                return self._paragraphs(heads, listed, title, styles)
            kept.remove(leaving)
        if title:
            self.say(title, "italic")
        self._console.print(made)
        return None

    def fits(self, table: Table) -> bool:
        """Whether no word of it is broken and no line folded."""
        return Console(width=10_000).measure(table).maximum <= self.width

    def _paragraphs(self, heads: Sequence[Column], rows: Sequence[Sequence[str]], title: str, styles: Sequence[str]) -> None:
        if title:
            self.say(title, "italic")
        for row, style in zip(rows, styles):
            words = [(head.head, cell) for head, cell in zip(heads, row) if cell]
            if not words:
                continue
            self.say(words[0][1], style or _HEAD_OF_PARAGRAPH, indent=2, hang=2)
            self.say("; ".join(f"{head}: {cell}" if head else cell for head, cell in words[1:]), indent=4)

    def text(self) -> str:
        """All of it."""
        return "\n".join(line.rstrip() for line in self._buffer.getvalue().rstrip().splitlines())


def _table(heads: Sequence[Column], rows: Sequence[Sequence[str]], styles: Sequence[str]) -> Table:
    table = Table()
    for head in heads:
        table.add_column(head.head, justify="right" if head.right else "left", no_wrap=True)
    for row, style in zip(rows, styles):
        table.add_row(*map(Text, row), style=style or None)
    return table


def folded(text: str, width: int, indent: int = 0, hang: int = 0) -> list[str]:
    """``text`` in lines of at most ``width`` columns, folded between words; all but the first lie ``hang`` deeper than ``indent``.

    A word that is longer than a line is folded behind ``/``, ``.``, ``_`` and the like, so that a path ends with its whole
    ``name.py:12``; within such a piece only where that alone is longer than a line.
    """
    places = _spans(text, width - indent, width - indent - hang)
    return [" " * (indent + (hang if at else 0)) + text[start:end].rstrip() for at, (start, end) in enumerate(places)]


def folded_text(text: Text, width: int, indent: int = 0, hang: int = 0) -> list[Text]:
    """The same of a text with styles."""
    places = _spans(text.plain, width - indent, width - indent - hang)
    return [Text(" " * (indent + (hang if at else 0))).append_text(text[start:end]) for at, (start, end) in enumerate(places)]


def _spans(text: str, first: int, others: int) -> list[tuple[int, int]]:
    """Where lines of ``first`` columns, then ``others``, begin and end."""
    found, begin, end, room = [], 0, 0, first
    for word in re.finditer(r"[^ ]+", text):
        at = word.start()
        for piece in _pieces(word[0], min(first, others)):
            if end > begin and cell_len(text[begin : at + len(piece)]) > room:
                found.append((begin, end))
                begin, room = at, others
            at = end = at + len(piece)
    return [*found, (begin, end)]


def _pieces(word: str, width: int) -> list[str]:
    if cell_len(word) <= width:
        return [word]
    found: list[str] = []
    for piece in filter(None, _PIECES.findall(word)):
        if found and cell_len(found[-1] + piece) <= width:
            found[-1] += piece
        else:
            found += [piece] if cell_len(piece) <= width else chop_cells(piece, width)
    return found
