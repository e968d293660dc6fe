"""Text that came from elsewhere (a log, a program's names) as text that a terminal, a page or a script can be given."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Sequence
from html import escape
from typing import Any

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
