"""What the caller knows better: which layers belong together, and how weights have to be changed on the way.

A rule is a pair ``(pattern, transform)`` over the names of weights on either side (``*`` stands for one component of a name, ``**``
for any number, and a pattern covers what lies below it), or a function ``(torch name, paddle name) -> transform or None``, where
None leaves the pair to the other rules. A transform is

- ``None`` (in a pair): leave the weight out, on this side and, if it has a partner, on the other;
- a function: the source's tensor, as a Torch tensor in the source's own layout, to what the target shall hold;
- :func:`cast`: as usual, and the values may be rounded to the target's dtype;
- :func:`split` or :func:`concat`: the weight holds several weights of the other side.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import ArgumentError, described, nearest

Transform = Callable[[Any], Any]


@dataclass(frozen=True)
class Parts:
    """One weight on one side that holds ``names`` on the other, along ``axis``."""

    names: tuple[str, ...]
    axis: int


@dataclass(frozen=True)
class Cast:
    """Values may be rounded to the target's dtype."""


def split(*names: str, axis: int = 0) -> Parts:
    """A rule's transform: the source's weight holds these weights of the target, one after the other.

    Args:
        names: full names; a ``*`` in one stands for what the same ``*`` of the rule's pattern stood for.
        axis: the axis along which they lie, in Torch's layout: 0 is the output features of a Linear on either side.

    Raises:
        ArgumentError: fewer than two names, or an axis that is no whole number from 0 on.
    """
    if len(names) < 2 or not all(isinstance(name, str) and name for name in names):
        raise ArgumentError(f"split and concat take two or more names of weights, got {described(names)}")
    if not isinstance(axis, int) or isinstance(axis, bool) or axis < 0:
        raise ArgumentError(f"axis= is a whole number from 0 on, got {described(axis)}")
    return Parts(names, axis)


def concat(*names: str, axis: int = 0) -> Parts:
    """A rule's transform: the target's weight holds these weights of the source, one after the other; see :func:`split`."""
    return split(*names, axis=axis)


def cast() -> Cast:
    """A rule's transform: the values may be rounded to the target's dtype (float32 into bfloat16)."""
    return Cast()


def transpose(value: Any) -> Any:
    """A rule's transform: the matrix turned, whatever the type of its layer says."""
    return value.t()


def as_is(value: Any) -> Any:
    """A rule's transform: the values as they lie, whatever the type of the layer says."""
    return value


class Rules:
    """The rules of one match, checked."""

    def __init__(self, given: Any) -> None:
        self.pairs: list[tuple[str, Any]] = []
        self.functions: list[Callable[[str, str], Any]] = []
        for rule in _listed(given):
            if isinstance(rule, tuple) and len(rule) == 2 and isinstance(rule[0], str) and rule[0]:
                if not (rule[1] is None or isinstance(rule[1], (Parts, Cast)) or callable(rule[1])):
                    raise ArgumentError(f"the transform of rule {rule[0]!r} is a function, None, or what split, concat or cast "
                                        f"give; got {described(rule[1])}")  # fmt: skip
                self.pairs.append(rule)
            elif callable(rule):
                self.functions.append(rule)
            else:
                raise ArgumentError(f"rules= takes pairs (pattern, transform) and functions of two names, got {described(rule)}")

    def check(self, names: Sequence[str]) -> None:
        """Raise ArgumentError for a pattern that no weight has: it is misspelt."""
        for pattern, _ in self.pairs:
            if not any(covers(pattern, name) for name in names):
                near = nearest(pattern, names)
                hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ""
                raise ArgumentError(f"rule {pattern!r} matches no weight on either side{hint}")

    def left_out(self, name: str) -> bool:
        """Whether a weight is to be left out."""
        return any(transform is None and covers(pattern, name) for pattern, transform in self.pairs)

    def parts(self) -> Iterator[tuple[str, Parts]]:
        """(pattern, what it holds) of every weight that holds several."""
        return ((pattern, transform) for pattern, transform in self.pairs if isinstance(transform, Parts))

    def transform(self, torch: str, paddle: str) -> Transform | Cast | None:
        """The transform of a pair; the first rule that speaks of it counts."""
        for pattern, transform in self.pairs:
            if not (transform is None or isinstance(transform, Parts)) and (covers(pattern, torch) or covers(pattern, paddle)):
                return transform
        for function in self.functions:
            found = function(torch, paddle)
            if found is not None:
                if not (isinstance(found, Cast) or callable(found)):
                    raise ArgumentError(
                        f"a rule gave {described(found)} for {torch!r} and {paddle!r}; it gives a function, cast() or None"
                    )
                return found
        return None


def _listed(given: Any) -> list[Any]:
    if given is None:
        return []
    if isinstance(given, Mapping):
        return list(given.items())
    if isinstance(given, (str, bytes)) or not isinstance(given, Sequence):
        raise ArgumentError(f"rules= is a list of rules, got {described(given)}")
    if len(given) == 2 and isinstance(given[0], str):
        raise ArgumentError("rules= is a list of rules; a single rule stands in a list, too: [(pattern, transform)]")
    return list(given)


def _expression(pattern: str) -> str:
    """A pattern as a regular expression with a group for each wildcard."""
    words = re.split(r"(\*\*|\*)", pattern)
    return "".join({"**": "(.*)", "*": r"([^.]*)"}.get(word, re.escape(word)) for word in words)


def covers(pattern: str, name: str) -> bool:
    """Whether a pattern is that of a name, or of a layer above it."""
    return re.fullmatch(rf"{_expression(pattern)}(\..*)?", name) is not None


def captured(pattern: str, name: str) -> tuple[str, ...] | None:
    """What the wildcards of a pattern stand for in exactly this name; None if it is another name."""
    found = re.fullmatch(_expression(pattern), name)
    return found.groups() if found else None


def filled(pattern: str, values: tuple[str, ...], argument: str) -> str:
    """A pattern with its wildcards replaced in order.

    Raises:
        ArgumentError: it has more wildcards than there are values.
    """
    left = iter(values)
    try:
        return re.sub(r"\*\*|\*", lambda _: next(left), pattern)
    except (StopIteration, RuntimeError):
        raise ArgumentError(f"{argument}: {pattern!r} has more wildcards than the pattern that it belongs to") from None
