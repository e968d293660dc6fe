"""A document for a terminal: sentences fold between words, tables leave columns out before a word is broken."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from ..text import PIPED, SENTENCE, columns, escaped, joined, shown, tr
from . import document
from .document import MARKS, TEXT, Cell, Column, Document, Row, flattened, lines_of

# Words of a sentence: Chinese is folded behind any sign, but no line begins with a comma or ends with an opening bracket.
_WIDE, _CLOSING, _OPENING = "\u2e80-\u9fff\uf900-\ufaff\uff01-\uff60", "，。；：、！？）》」』”’", "（《「『“‘"
_WORDS = re.compile(f"[{_OPENING}]*(?:[{_WIDE}]|[^ {_WIDE}{_OPENING}]+)[{_CLOSING}]*|[{_OPENING}]+")
# Where a word that is longer than a line may be folded: behind these, but never before a line's number.
_PIECES = re.compile(r"[^/\\]+:\d+\S*$|[^/\\.,;|=_-]*(?:[/\\.,;|=_-]+|$)")
STYLES = {"good": "green", "bad": "red", "warning": "yellow", "open": "cyan", "soft": "dim", "strong": "bold", "": ""}
_FOLDED = 22  # columns that a foldable column has at least


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
            force_jupyter=False,  # there rich would display the text, and return none
            color_system="standard" if colour else None,
            highlight=False,
            legacy_windows=False,
        )

    def say(self, text: str, style: str = "", *, indent: int = 0, hang: int = 0) -> None:
        """A sentence: on one line where the output is no terminal, else folded between words.

        ``hang``: how much deeper than ``indent`` further lines lie.
        """
        text = str(text)
        lines = [" " * indent + text] if self.width >= PIPED else folded(text, self.width, indent, hang)
        for line in lines:
            self._console.print(Text(line, style=style), soft_wrap=True)

    def table(self, table: document.Table, title: str = "") -> None:
        """Rows under each other; as paragraphs where even the columns that are never left out do not fit."""
        rows, tones, further = table.shown(TEXT)
        if title:
            self.say(title, "italic")
        styles = [STYLES[tone] for tone in tones]
        places = table.filled(rows)
        while (
            widths := self._widths([table.columns[place] for place in places], [[row[place] for place in places] for row in rows])
        ) is None:
            leaving = max(places, key=lambda place: table.columns[place].leave, default=None)
            if leaving is None or not table.columns[leaving].leave:
                break
            places.remove(leaving)
        if widths is None:
            self._paragraphs(table.columns, rows, styles)
        else:
            self._console.print(_grid(table.columns, rows, dict(zip(places, widths)), styles))
        if further:
            more = tr("and {count:,} more", count=further)
            self.say(joined(": ", (more, table.hint)) if table.hint else more)

    def _widths(self, heads: Sequence[Column], rows: Sequence[Row]) -> list[int] | None:
        """How wide each column is, if the table has room without breaking a word; those that may be folded share what is free.
        A head may be folded in every column."""
        least, widths = [], []
        for place, head in enumerate(heads):
            lines = [line for row in rows for line in _lines(row[place])]
            words = [word for line in lines for word in _WORDS.findall(line)] if head.fold else lines
            wide = max(map(cell_len, lines), default=0)
            longest = max(map(cell_len, [*words, *_WORDS.findall(shown(head.head))]), default=0)
            if len(shown(head.head)) < cell_len(shown(head.head)):  # Chinese could be folded behind each sign
                longest = max(longest, (cell_len(shown(head.head)) + 1) // 2)
            least.append(max(longest, min(wide, _FOLDED)) if head.fold else longest)
            widths.append(max(wide, cell_len(shown(head.head))))
        spare = self.width - sum(least) - 3 * len(heads) - 1
        if spare < 0:
            return None
        for place, width in enumerate(widths):
            more = min(width - least[place], spare)
            least[place] += more
            spare -= more
        return least

    def _paragraphs(self, heads: Sequence[Column], rows: Sequence[Row], styles: Sequence[str]) -> None:
        for row, style in zip(rows, styles):
            words = [
                (shown(column.head), ", ".join(_lines(cell)), _tone(cell)) for column, cell in zip(heads, row) if lines_of(cell)
            ]
            if words:
                _, first, tone = words[0]
                self.say(first, style or STYLES[tone] or STYLES["strong"], indent=2, hang=2)
                parts = (f"{head}{tr(': ')}{cell}" if head else cell for head, cell, _ in words[1:])
                self.say(joined("; ", parts), indent=4)

    def text(self) -> str:
        """All of it."""
        return "\n".join(line.rstrip() for line in self._buffer.getvalue().rstrip().splitlines())


def _lines(cell: str | Cell) -> list[str]:
    return [shown(line, SENTENCE) for line in lines_of(cell)]


def _tone(cell: str | Cell) -> str:
    return "" if isinstance(cell, str) else cell.tone


def _grid(heads: Sequence[Column], rows: Sequence[Row], widths: Mapping[int, int], styles: Sequence[str]) -> Grid:
    grid = Grid()
    for place, width in widths.items():
        head = "\n".join(folded(shown(heads[place].head), width))
        grid.add_column(Text(head), justify="right" if heads[place].right else "left", width=width)
    for row, style in zip(rows, styles):
        cells = (
            Text("\n".join(part for line in _lines(row[place]) for part in folded(line, width)), style=STYLES[_tone(row[place])])
            for place, width in widths.items()
        )
        grid.add_row(*cells, style=style or None)
    return grid


def folded(text: str, width: int, indent: int = 0, hang: int = 0) -> list[str]:
    """``text`` in lines of at most ``width`` columns, folded between words; all but the first lie ``hang`` deeper than ``indent``.

    A word that is longer than a line is folded behind ``/``, ``.``, ``_`` and the like, so that a path ends with its whole
    ``name.py:12``; within such a piece only where that alone is longer than a line.
    """
    first, others = width - indent, width - indent - hang
    lines, begin, end, room = [], 0, 0, first
    for word in _WORDS.finditer(text):
        at = word.start()
        for piece in _pieces(word[0], min(first, others)):
            if end > begin and cell_len(text[begin : at + len(piece)]) > room:
                lines.append(text[begin:end])
                begin, room = at, others
            at = end = at + len(piece)
    lines.append(text[begin:end])
    return [" " * (indent + (hang if place else 0)) + line.rstrip() for place, line in enumerate(lines)]


def _pieces(word: str, width: int) -> list[str]:
    if cell_len(word) <= width:
        return [word]
    pieces: list[str] = []
    for piece in filter(None, _PIECES.findall(word)):
        if pieces and cell_len(pieces[-1] + piece) <= width:
            pieces[-1] += piece
        else:
            pieces += [piece] if cell_len(piece) <= width else chop_cells(piece, width)
    return pieces


def render(made: Document, width: int | None = None, *, colour: bool = False) -> str:
    """The document as text, ``width`` columns wide (default: the terminal's); with ``colour`` as ANSI sequences.

    Tables keep to the width. So do sentences on a terminal; where the output is none, each stays one line.
    """
    screen = Screen(width, colour=colour)
    screen.say(shown(made.headline, SENTENCE), f"bold {STYLES[made.tone]}".strip())
    _write(made.parts, screen)
    return screen.text()


def _write(parts: Iterable[document.Part], screen: Screen) -> None:
    for block in flattened(list(parts), TEXT):
        if type(block) in _WRITERS:
            _WRITERS[type(block)](block, screen)


def _facts(block: document.Facts, screen: Screen) -> None:
    for line in block.lines:
        screen.say(shown(line, SENTENCE), hang=3)


def _notes(block: document.Notes, screen: Screen) -> None:
    for text in block.texts:
        line = shown(text, SENTENCE)
        if block.warning:
            screen.say(tr("warning: {text}", text=line), "bold yellow")
        else:
            screen.say(tr("note: {text}", text=line))


def _items(block: document.Items, screen: Screen) -> None:
    for item in block.items:
        mark = f"{MARKS[item.tone]} " if block.marks else ""
        name = f"{shown(item.name)}{tr(': ')}" if item.name else ""
        screen.say(f"{mark}{name}{shown(item.text, SENTENCE)}", STYLES[item.tone], indent=2, hang=2)


def _code(block: document.Code, screen: Screen) -> None:
    for line in block.lines:
        text = escaped(line.expandtabs(4).rstrip())
        screen.say(text.lstrip(), indent=2 + len(text) - len(text.lstrip()), hang=2)


def _findings(block: document.Findings, screen: Screen) -> None:
    for number, finding in enumerate(block.findings, 1):
        screen.say(f"{number}. {shown(finding.text, SENTENCE)}", "bold", hang=3)
        words = [shown(place.side) for place in finding.places]
        wide = max(map(cell_len, words), default=0)
        for side, place in zip(words, finding.places):
            screen.say(f"{set_cell_size(side, wide)} {shown(place.line(), SENTENCE)}", indent=5, hang=2)
            if place.source:
                screen.say(shown(place.code(), SENTENCE), "dim", indent=12, hang=2)
        for word, text in finding.details:
            label = shown(word)
            screen.say(f"{set_cell_size(label, max(wide, cell_len(label)))} {shown(text, SENTENCE)}", indent=5, hang=2)


def _section(block: document.Section, screen: Screen) -> None:
    title = shown(block.title, SENTENCE)
    parts = list(flattened(block.parts, TEXT))
    screen.say(title, "italic")
    if block.note:
        screen.say(shown(block.note, SENTENCE))
    _write(parts, screen)


_WRITERS: dict[type, Callable[[Any, Screen], None]] = {
    document.Facts: _facts,
    document.Paragraph: lambda block, screen: screen.say(shown(block.text, SENTENCE), STYLES[block.tone]),
    document.Notes: _notes,
    document.Items: _items,
    document.Code: _code,
    document.Table: lambda block, screen: screen.table(block),
    document.Findings: _findings,
    document.Section: _section,
}
