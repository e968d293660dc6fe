"""Text for people: what came from elsewhere made safe to print, folded and laid out in columns."""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any, NamedTuple

from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.table import Table
from rich.text import Text

# ---- Text that came from elsewhere (a log, a program's names) as text that a terminal, a page or a script can be given.

PIPED = 200  # columns of a table that goes into a file or another program, which folds lines itself or not at all
LONGEST = 300  # characters of one name or place that a report shows
SENTENCE = 2000  # of one sentence
# A space of no width keeps `@name` from calling a user and `#12` from naming an issue; a backslash does neither.
_MARKDOWN = str.maketrans(
    {
        **{sign: f"\\{sign}" for sign in "\\|`*_[]~"},
        "<": "&lt;",
        ">": "&gt;",
        "&": "&amp;",
        "@": "@&#8203;",
        "#": "\\#&#8203;",
    }
)
_HYPHENS = re.compile(r"(\S*-\S+)")
_WHOLE = 24  # characters of a word that a page does not break
# A word's parts: behind / . _ and the like, but a line's number stays with the end of its file's name. base.js has the same.
_PARTS = re.compile(r"[^/\\_,;|=-]+\.\w+:\d+\S*$|[^/\\.,;|=_-]*(?:[/\\.,;|=_-]+|$)")


def escaped(text: str) -> str:
    """``text`` with everything that is not printable written as an escape: control characters, which a terminal would obey,
    marks that turn the direction of writing, and halves of surrogate pairs, which no encoding takes."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode("ascii") for sign in text)


def many(number: int, noun: str) -> str:
    """``number`` with a noun: ``"1 call"``, ``"2,000 calls"``."""
    return f"{number:,} {noun}{'s' if number != 1 else ''}"


def listed(texts: Sequence[object], most: int = 4, separator: str = ", ") -> str:
    """The first of several texts, and how many more there are: ``"a, b and 3 more"``."""
    more = len(texts) - most
    shorter = separator.join(map(str, texts[:most]))
    return f"{shorter}{separator.rstrip(', ')} and {more} more" if more > 0 else shorter


def columns() -> int:
    """Width of a table: the terminal's, at least 80, or what COLUMNS says; where the output is no terminal, a wide one."""
    try:
        terminal = sys.stdout.isatty()
    except (AttributeError, ValueError):  # no stream at all, or a closed one
        terminal = False
    if not terminal and not os.environ.get("COLUMNS", "").isdigit():
        return PIPED
    return max(80, shutil.get_terminal_size((PIPED, 24)).columns)


def shown(value: Any, most: int = LONGEST) -> str:
    """``value`` as one printable line: white space as single blanks, and what is longer than ``most`` cut, with its length."""
    text = str(value)
    if len(text) > most:
        return escaped(" ".join(text[:most].split())) + f"… ({len(text):,} characters)"
    return escaped(" ".join(text.split()))


def in_markdown(value: Any) -> str:
    """Text that stays within its cell of a table and is not read as markup."""
    return shown(value, SENTENCE).translate(_MARKDOWN)


def markup(text: str) -> str:
    """``text`` for a page: never read as markup, long words with places at which they may be broken. Browsers break words at a
    hyphen, in the middle of ``2e-06`` and ``--quiet``: those are kept together by the class ``keep``."""
    return "<wbr>".join(
        "".join(
            f'<span class="keep">{escape(one)}</span>' if at % 2 else escape(one) for at, one in enumerate(_HYPHENS.split(part))
        )
        for part in pieces(text)
    )


def pieces(text: str) -> list[str]:
    """``text`` in pieces between which a page may break it: long words alone, never before a line's number, and no piece too long
    for a narrow column."""
    found = [""]
    for word in re.findall(r"\s+|\S+", text):
        first, *others = [word] if len(word) <= _WHOLE else [one for part in _PARTS.findall(word) for one in _chopped(part)]
        found[-1] += first
        found += others
    return found


def _chopped(part: str) -> list[str]:
    """From the end: what a line's number stands behind is there."""
    cuts = range(len(part) % _WHOLE or _WHOLE, len(part), _WHOLE)
    return [part[start:end] for start, end in zip((0, *cuts), (*cuts, len(part)))] if part else []


# ---- Results as text in so many columns: sentences fold between words, tables leave columns out before a word is broken.

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
