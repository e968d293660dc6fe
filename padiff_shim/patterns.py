"""Patterns over names, with one meaning in modes, filters, planted faults and known differences."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any

from .errors import ArgumentError

_KNOWN = 100_000  # paths whose answer is remembered


class LayerFilter:
    """Glob patterns over layer paths: ``encoder.layers.*.linear1``. A match covers the layer and everything below it.

    ``*`` stands for one component (or a part of one), ``**`` for any number.

    Args:
        patterns: one or several.
        argument: what the caller calls them, for the error.

    Raises:
        ArgumentError: for anything but non-empty strings.
    """

    def __init__(self, patterns: str | Iterable[str], argument: str = "layers") -> None:
        globs = [patterns] if isinstance(patterns, str) else list(patterns) if isinstance(patterns, Iterable) else []
        if not globs or not all(isinstance(pattern, str) and pattern for pattern in globs):
            raise ArgumentError(
                "{argument}= takes glob patterns over layer paths such as 'encoder.layers.*', got {patterns}",
                argument=argument,
                patterns=repr(patterns),
            )
        self.patterns = {pattern: tuple(pattern.split(".")) for pattern in globs}
        self.unmatched = set(globs)
        self._known: dict[str, bool] = {}

    def accepts(self, path: str) -> bool:
        """Whether a layer of that path, or one above it, matches a pattern; ``""``, outside of any layer, matches none."""
        matches = self._known.get(path)
        if matches is None:
            parts = tuple(path.split(".")) if path else ()
            hits = {
                pattern
                for pattern, wanted in self.patterns.items()
                if any(_match(parts[:end], wanted) for end in range(1, len(parts) + 1))
            }
            self.unmatched -= hits
            matches = bool(hits)
            if len(self._known) < _KNOWN:
                self._known[path] = matches
        return matches


def _match(parts: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    if not wanted:
        return not parts
    if wanted[0] == "**":
        return any(_match(parts[skip:], wanted[1:]) for skip in range(len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], wanted[0]) and _match(parts[1:], wanted[1:])


def named(patterns: Iterable[str], name: Any) -> bool:
    """Whether a plain name (an op's, a tensor's, a dtype's) matches one of the glob patterns; None matches none."""
    return name is not None and any(fnmatchcase(str(name), pattern) for pattern in patterns)
