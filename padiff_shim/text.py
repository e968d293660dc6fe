"""Text that came from elsewhere (a log, a program's names) as text that a terminal, a page or a script can be given."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Any

PIPED = 200  # columns of a table that goes into a file or another program, which folds lines itself or not at all
LONGEST = 300  # characters of one name or place that a report shows
SENTENCE = 2000  # of one sentence


def escaped(text: str) -> str:
    """``text`` with everything that is not printable written as an escape: control characters, which a terminal would obey,
    marks that turn the direction of writing, and halves of surrogate pairs, which no encoding takes."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode("ascii") for sign in text)


def many(number: int, noun: str) -> str:
    """``number`` with a noun: ``"1 call"``, ``"2,000 calls"``."""
    return f"{number:,} {noun}{'s' if number != 1 else ''}"


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
