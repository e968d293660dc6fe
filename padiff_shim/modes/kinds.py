"""The kinds of values that options have: how each is checked, and how it is read where there is only text.

Text comes from the environment, the command line and ``setup.cfg``. What cannot be read stays text, so that the check names it: one
message for one mistake, wherever it was made.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from typing import Any

from .. import arguments
from ..comparison.sampling import fraction, in_steps, positive
from ..errors import ArgumentError, described
from ..patterns import LayerFilter

_TRUE, _FALSE = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


@dataclass(frozen=True)
class Kind:
    """One kind of value.

    ``check``: (name, value) -> the value as it is used; raises ArgumentError. ``read``: text -> value, or the text itself.
    ``metavar``: what stands for it in ``--help``. ``unset``: what else than a value it may be: None. ``words``: all there are, if
    they can be listed. ``several``: a list; on the command line the option may be given again. ``textual``: can be text at all.
    """

    check: Callable[[str, Any], Any]
    read: Callable[[str], Any] = str
    metavar: str = ""
    unset: bool = False
    words: tuple[str, ...] = ()
    several: bool = False
    textual: bool = True

    def checked(self, name: str, value: Any) -> Any:
        """``value``, as it is used.

        Raises:
            ArgumentError: it is not accepted; the message says what is.
        """
        return None if self.unset and value is None else self.check(name, value)

    def from_text(self, text: str) -> Any:
        """What ``text`` means; ``none`` and nothing at all mean that the option is not set, where that is possible."""
        if self.unset and text.strip().lower() in ("", "none"):
            return None
        return self.read(text.strip())


def _flag(text: str) -> Any:
    return text.lower() in _TRUE if text.lower() in (*_TRUE, *_FALSE) else text


def _number(text: str) -> Any:
    return int(text) if re.fullmatch(r"[+-]?\d+", text) else text


def _list(text: str) -> Any:
    return [word.strip() for word in re.split(r"[,\n]", text) if word.strip()]


def _numbers(text: str) -> Any:
    """``"3"``, ``"10:20"``, ``"10:20:2"``, ``"5:"``, ``"0,4,8"``."""
    if re.fullmatch(r"\d*(:\d*){1,2}", text):
        return slice(*(int(part) if part else None for part in text.split(":")))
    if re.fullmatch(r"\d+(\s*,\s*\d+)+", text):
        return [int(part) for part in text.split(",")]
    return _number(text)


def _members(text: str) -> Any:
    """As :func:`_numbers`, for what can be asked whether a number is in it."""
    found = _numbers(text)
    if not isinstance(found, slice):
        return found
    return range(found.start or 0, 2**31 if found.stop is None else found.stop, found.step or 1)


def _share(text: str) -> Any:
    return float(text) if re.fullmatch(r"\d*\.\d+|\d+\.?", text) else text


def _steps(name: str, value: Any) -> Any:
    in_steps(value)
    return value


def _budget(name: str, value: Any) -> Any:
    fraction(value)
    return value


def _layers(name: str, value: Any) -> Any:
    return list(LayerFilter(value, name).patterns)


def _ranks(name: str, value: Any) -> Any:
    if isinstance(value, Container) and not isinstance(value, (str, bytes)):
        return value
    if isinstance(value, bool) or not isinstance(value, int):
        raise ArgumentError(f"{name}= is the number of a process, a range or a set of them, got {described(value)}")
    return value


def word(accepted: Iterable[str]) -> Kind:
    """One of some words."""
    words = tuple(map(str, accepted))
    return Kind(lambda name, value: arguments.one_of(name, value, words), metavar="WORD", words=words)


def whole(least: int = 0) -> Kind:
    """A whole number."""
    return Kind(lambda name, value: arguments.whole(name, value, least), _number, "N")


def function(of: str) -> Kind:
    """Something to call, or None."""
    return Kind(lambda name, value: arguments.function(name, value, of), unset=True, textual=False)


FLAG = Kind(arguments.flag, _flag)
MAYBE = Kind(arguments.flag, _flag, unset=True)  # None: decided by the other options
NAMES = Kind(arguments.names, _list, "NAME", several=True)
MAYBE_NAMES = Kind(arguments.names, _list, "NAME", unset=True, several=True)
LAYERS = Kind(_layers, _list, "PATTERN", unset=True, several=True)
PATH = Kind(arguments.path, metavar="PATH", unset=True)
COUNT = Kind(positive, _number, "N", unset=True)
STEPS = Kind(_steps, _numbers, "STEPS", unset=True)
RANKS = Kind(_ranks, _members, "RANKS", unset=True)
BUDGET = Kind(_budget, _share, "SHARE", unset=True)
ANYTHING = Kind(lambda name, value: value, metavar="WORD")  # checked where it is used
