"""Text that came from elsewhere (a log, a program's names) as text that a terminal, a page or a script can be given."""

from __future__ import annotations

from typing import Any

LONGEST = 300  # characters of one name or place that a report shows
SENTENCE = 2000  # of one sentence


def escaped(text: str) -> str:
    """``text`` with everything that is not printable written as an escape: control characters, which a terminal would obey,
    marks that turn the direction of writing, and halves of surrogate pairs, which no encoding takes."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode("ascii") for sign in text)


def shown(value: Any, most: int = LONGEST) -> str:
    """``value`` as one printable line: white space as single blanks, and what is longer than ``most`` cut, with its length."""
    text = str(value)
    if len(text) > most:
        return escaped(" ".join(text[:most].split())) + f"… ({len(text):,} characters)"
    return escaped(" ".join(text.split()))
