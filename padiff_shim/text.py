"""Text for people: sentences in the reader's language, and what came from elsewhere made safe to print.

Every sentence that a user reads is written as ``tr("{count} of {total} differ", count=3, total=7)``, or is a noun that :func:`many`
counts, so that one catalogue can hold them all (:mod:`padiff_shim.language`).
"""

from __future__ import annotations

import math
import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from . import notebook
from .errors import unknown
from .language import (
    LANGUAGE_VARIABLE as LANGUAGE_VARIABLE,
    LANGUAGES as LANGUAGES,
    Sentence as Sentence,
    counted as counted,
    current as current,
    english as english,
    fields_of as fields_of,
    from_log as from_log,
    joined as joined,
    language,
    logged as logged,
    many as many,
    marked as marked,
    tr as tr,
    with_fields as with_fields,
)

PIPED = 200  # columns of a table that goes into a file or another program, which folds lines itself or not at all
LONGEST = 300  # characters of one name or place that a report shows
SENTENCE = 2000  # of one sentence
HUGE = 1e6  # ratios beyond are not written out


@contextmanager
def reader(lang: str | None) -> Iterator[None]:
    """Sentences are shown in a language meanwhile: ``"en"`` or ``"zh"``; None: as around it, by default as the environment says.

    Raises:
        UnknownNameError: another word.
    """
    if lang is not None and lang not in LANGUAGES:
        raise unknown("lang", lang, LANGUAGES)
    with language(lang or ""):
        yield


def capped(ratio: float, written: str) -> str:
    """``written``, or ``"> 10^6"`` where a finite ratio is larger: that far out its digits say no more. Logs and JSON have them."""
    return "> 10^6" if HUGE < ratio < math.inf else written


def listed(texts: Sequence[object], most: int = 4, separator: str = ", ") -> str:
    """The first of several texts, and how many more there are: ``"a, b and 3 more"``. ``separator``: a comma or a semicolon."""
    first = joined(separator, texts[:most])
    more = len(texts) - most
    if more <= 0:
        return first
    return (
        tr("{first}; and {more} more", first=first, more=more)
        if ";" in separator
        else tr("{first} and {more} more", first=first, more=more)
    )


def escaped(text: str) -> str:
    """``text`` with everything that is not printable written as an escape: control characters, which a terminal would obey,
    marks that turn the direction of writing, and halves of surrogate pairs, which no encoding takes."""
    text = str(text)
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode("ascii") for sign in text)


def shown(value: object, most: int = LONGEST) -> str:
    """``value`` as one printable line: white space as single blanks, and what is longer than ``most`` cut, with its length."""
    text = str(value)
    line = escaped(" ".join(text[:most].split()))
    return line if len(text) <= most else str(tr("{line}… ({length:,} characters)", line=line, length=len(text)))


_SITE = re.compile(r"(.+:\d+) in (\S+)")


def code_line(site: object, most: int = LONGEST) -> str:
    """A line of a program, ``"port.py:7 in forward"``, as one printable line; what is no line as :func:`shown` shows it."""
    text = shown(site, most)
    match = _SITE.fullmatch(text)
    return tr("{line} in {function}", line=match[1], function=match[2]) if match else text


def short_line(site: object) -> str:
    """A line of a program without its folder and function, ``"port.py:7"``."""
    return shown(site).partition(" in ")[0].rpartition("/")[2]


def columns() -> int:
    """Width of a table: the terminal's, at least 80, or what COLUMNS says; below a notebook's cell 100; else a wide one."""
    try:
        terminal = sys.stdout.isatty()
    except (AttributeError, ValueError):  # no stream at all, or a closed one
        terminal = False
    if not terminal and not os.environ.get("COLUMNS", "").isdigit():
        return notebook.WIDTH if notebook.running() else PIPED
    return max(80, shutil.get_terminal_size((PIPED, 24)).columns)
