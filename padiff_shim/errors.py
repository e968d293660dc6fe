"""The errors that padiff_shim itself raises.

Errors of the user's program are never wrapped: inside a mode, Paddle's errors are raised unchanged.
"""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Iterable
from typing import Any

from .language import Sentence, joined, tr


class PadiffShimError(Exception):
    """Base class of the library's own errors, whose message is a sentence: one that is made, or what ``tr`` makes one of."""

    def __init__(self, message: str = "", /, **fields: object) -> None:
        super().__init__(message if isinstance(message, Sentence) else tr(message, **fields))


class BackendError(PadiffShimError, RuntimeError):
    """The reference backend is not usable (not installed, replaced by a proxy, wrong device)."""


class MissingFrameworkError(BackendError, ImportError):
    """paddle, torch or a library that only some functions need is not installed; the message holds the install line."""


class ArgumentError(PadiffShimError, ValueError, TypeError):
    """An argument, or an entry of a file, of a type or value that is not accepted; the message says what is."""


class UnknownNameError(ArgumentError):
    """A backend, op, family or option that does not exist; the message names the nearest ones."""


class FileError(PadiffShimError, OSError):
    """A file or folder cannot be read or written; the message names it and says why."""


class MissingFileError(FileError, FileNotFoundError):
    """A file or folder that should be read does not exist."""


class ModeError(PadiffShimError, RuntimeError, AttributeError):
    """A mode is closed where it has to be open, or an attribute belongs to its run."""


class InterceptionError(PadiffShimError, RuntimeError):
    """This Python or this Paddle cannot be patched safely."""


class StayedNativeError(PadiffShimError, RuntimeError):
    """Raised under ``strict=True`` by the first float op call that has to stay native."""


class TransferError(PadiffShimError, ValueError):
    """Weights cannot be copied from one model to the other; nothing was written. :attr:`mapping`: the incomplete match, or None."""

    def __init__(self, message: str, mapping: Any = None, /, **fields: object) -> None:
        super().__init__(message, **fields)
        self.mapping = mapping


class BisectionError(PadiffShimError, ValueError):
    """There is nothing to bisect: the target holds at both ends, at neither, or not reproducibly."""


class MismatchError(PadiffShimError, AssertionError):
    """Raised by compare mode with ``on_mismatch="raise"``; :attr:`record` holds the record of the call."""

    def __init__(self, message: str, record: dict[str, Any]) -> None:
        super().__init__(message)
        self.record = record


def optional(name: str, install: str) -> Any:
    """A library that only some functions need.

    Raises:
        MissingFrameworkError: it cannot be imported; the message holds ``install``.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingFrameworkError(
            "{name} cannot be imported ({error}). Install it: {command}", name=name, error=error, command=install
        ) from error


def toml(what: str) -> Any:
    """A reader of TOML: Python's own from 3.11 on, before that the package tomli. ``what`` is to be read, for the error.

    Raises:
        MissingFrameworkError: there is none.
    """
    try:
        return importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    except ImportError as error:
        raise MissingFrameworkError("{what}: reading TOML needs Python 3.11, or pip install tomli", what=what) from error


def unreadable(what: str, path: object, error: OSError) -> FileError:
    """The error for a file or folder that the operating system does not give."""
    kind = MissingFileError if isinstance(error, FileNotFoundError) else FileError
    return kind(tr("{what} {path} cannot be read: {error}", what=what, path=path, error=error.strerror or error))


FEW = 40  # names that an error lists one by one
OPS_LISTED = tr("docs/ops.md lists them.")


def unknown(kind: str, word: object, accepted: Iterable[str], listed: str = "", prefix: str = "") -> UnknownNameError:
    """The error for a name that is not in ``accepted``, with the nearest accepted names, and all of them if they are few.

    Args:
        listed: a sentence that says where many names are listed.
        prefix: the common beginning of all names, which does not count for nearness.
    """
    names = sorted(map(str, accepted))
    near = [prefix + name for name in nearest(str(word)[len(prefix) :], [name[len(prefix) :] for name in names])]
    hint = tr(" Did you mean {names}?", names=joined(" or ", map(repr, near))) if near else ""
    names = [name or "''" for name in names]
    if not names:
        choices = tr("There are no names.")
    elif len(names) <= FEW:
        choices = tr("Accepted: {names}.", names=", ".join(names))
    elif listed:
        choices = tr("Accepted are {count:,} names. {hint}", count=len(names), hint=listed)
    else:
        choices = tr("Accepted: {names}, and {more:,} more.", names=", ".join(names[:FEW]), more=len(names) - FEW)
    return UnknownNameError("unknown {kind} {word}.{hint} {choices}", kind=kind, word=described(word), hint=hint, choices=choices)


def nearest(word: str, names: Iterable[str]) -> list[str]:
    """At most three of ``names`` that are spelt much like ``word``, the nearest first; case does not matter."""
    folded: dict[str, str] = {}
    for name in names:
        folded.setdefault(name.casefold(), name)
    return [folded[near] for near in difflib.get_close_matches(word[:200].casefold(), list(folded), n=3, cutoff=0.5)]


def described(value: object) -> str:
    """A value in an error message: its ``repr`` if that is short and one line, its type otherwise (a model, an array)."""
    text = repr(value)
    if isinstance(value, (str, bytes)) and len(text) > 100:
        return tr("{text}... ({length:,} characters)", text=text[:100], length=len(value))
    if len(text) <= 100 and text.isprintable():
        return text
    kind = type(value).__name__
    return tr("an {type}", type=kind) if kind[:1].lower() in "aeiou" else tr("a {type}", type=kind)


def ended_with(error: BaseException) -> str:
    """The error with which a program ended, in a line; "" of an end that is no failure, as ``sys.exit(0)``.

    >>> ended_with(ValueError("a shape")), ended_with(KeyboardInterrupt()), ended_with(SystemExit(0))
    ('ValueError: a shape', 'KeyboardInterrupt', '')
    """
    if isinstance(error, SystemExit) and error.code in (None, 0):
        return ""
    line = str(error).strip().partition("\n")[0][:200]
    return f"{type(error).__name__}: {line}" if line else type(error).__name__
