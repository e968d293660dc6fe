"""Text for people: sentences in the reader's language, and what came from elsewhere made safe to print.

Every sentence that a user reads is written as ``tr("{count} of {total} differ", count=3, total=7)``, or is a noun that :func:`many`
counts, so that one catalogue can hold them all: ``pybabel extract -k tr -k many:2 -k many:2,3``. There is none yet besides the
English source.
"""

from __future__ import annotations

import gettext
import math
import os
import shutil
import sys
from collections.abc import Sequence

from . import notebook

PIPED = 200  # columns of a table that goes into a file or another program, which folds lines itself or not at all
LONGEST = 300  # characters of one name or place that a report shows
SENTENCE = 2000  # of one sentence
HUGE = 1e6  # ratios beyond are not written out
_CATALOGUE = gettext.NullTranslations()


def tr(message: str, /, **fields: object) -> str:
    """A sentence in the reader's language, with its fields: ``tr("{count:,} more", count=2000)`` is ``"2,000 more"``.

    Args:
        message: the English text, a literal, with the fields' names in braces; what stands in a field is not read again.
    """
    text = _CATALOGUE.gettext(message)
    return text.format(**fields) if fields else text


def many(number: int, noun: str, plural: str = "") -> str:
    """``number`` with a noun: ``"1 call"``, ``"2,000 calls"``; ``plural``: of nouns that do not take an s at their end alone."""
    return f"{number:,} {_CATALOGUE.ngettext(noun, plural or f'{noun}s', number)}"


def capped(ratio: float, written: str) -> str:
    """``written``, or ``"> 10^6"`` where a finite ratio is larger: that far out its digits say no more. Logs and JSON have them."""
    return "> 10^6" if HUGE < ratio < math.inf else written


def listed(texts: Sequence[object], most: int = 4, separator: str = ", ") -> str:
    """The first of several texts, and how many more there are: ``"a, b and 3 more"``."""
    first = separator.join(map(str, texts[:most]))
    more = len(texts) - most
    return tr("{first}{comma} and {more} more", first=first, comma=separator.rstrip(", "), more=more) if more > 0 else first


def escaped(text: str) -> str:
    """``text`` with everything that is not printable written as an escape: control characters, which a terminal would obey,
    marks that turn the direction of writing, and halves of surrogate pairs, which no encoding takes."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode("ascii") for sign in text)


def shown(value: object, most: int = LONGEST) -> str:
    """``value`` as one printable line: white space as single blanks, and what is longer than ``most`` cut, with its length."""
    text = str(value)
    line = escaped(" ".join(text[:most].split()))
    return line if len(text) <= most else tr("{line}… ({length:,} characters)", line=line, length=len(text))


def columns() -> int:
    """Width of a table: the terminal's, at least 80, or what COLUMNS says; below a notebook's cell 100; else a wide one."""
    try:
        terminal = sys.stdout.isatty()
    except (AttributeError, ValueError):  # no stream at all, or a closed one
        terminal = False
    if not terminal and not os.environ.get("COLUMNS", "").isdigit():
        return notebook.WIDTH if notebook.running() else PIPED
    return max(80, shutil.get_terminal_size((PIPED, 24)).columns)
