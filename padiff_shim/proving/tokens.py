"""Two lines or calls laid side by side: which of their words differ, beyond how either framework spells the same."""

from __future__ import annotations

import difflib
import html
import re

from ..text import shown

_WORD = re.compile(r"\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\w+|\s+|.")
# Spellings of one thing.
_ALIKE = {"paddle": "torch", "pf": "f", "tf": "f", "pnn": "nn", "tnn": "nn", "axis": "dim", "epsilon": "eps", "keepdims": "keepdim"}
_ALIKE |= {"concat": "cat", "input": "x", "transpose": "permute"}


def marked(one: str, other: str) -> tuple[str, str]:
    """Both as HTML, with the words that the other has not marked; nothing is marked where there is no other."""
    lines = [_WORD.findall(shown(line, 2000)) for line in (one, other)]
    if not all(lines):
        return _written(lines[0], []), _written(lines[1], [])
    keys = [[_key(word) for word in words] for words in lines]
    changed: tuple[list[int], list[int]] = ([], [])
    for kind, first, last, begin, end in difflib.SequenceMatcher(None, keys[0], keys[1], autojunk=False).get_opcodes():
        if kind != "equal":
            changed[0].extend(range(first, last))
            changed[1].extend(range(begin, end))
    return _written(lines[0], changed[0]), _written(lines[1], changed[1])


def marked_calls(one: str, other: str) -> tuple[str, str]:
    """The same of two calls; of two ops the names alone."""
    names = [call.partition("(")[0] for call in (one, other)]
    if not all(names) or names[0] == names[1]:
        return marked(one, other)
    first, second = (_written([name, call[len(name) :]], [0]) for name, call in zip(names, (one, other)))
    return first, second


def _key(word: str) -> str:
    plain = word.casefold()
    return _ALIKE.get(plain, " " if plain.isspace() else plain)


def _written(words: list[str], places: list[int]) -> str:
    """Neighbours under one mark; white space alone is never marked."""
    chosen = set(places)
    parts: list[tuple[bool, str]] = []
    for place, word in enumerate(words):
        inside = place in chosen and not word.isspace()
        between = word.isspace() and {place - 1, place + 1} <= chosen
        flag = inside or between
        if parts and parts[-1][0] == flag:
            parts[-1] = (flag, parts[-1][1] + word)
        else:
            parts.append((flag, word))
    return "".join(f"<mark>{html.escape(text)}</mark>" if flag else html.escape(text) for flag, text in parts)
