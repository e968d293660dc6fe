"""What a port does otherwise: two regions of calls behind wrong values are laid side by side, and the first difference named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import zip_longest
from typing import Any, NamedTuple

import torch

from ..dispatch.site import Site
from .matching import Matching, roots
from .trace import Node, Operand, Value

WINDOW = 40  # calls of each side that are laid side by side


class Cause(str, Enum):
    """Why two programs part."""

    ATTRIBUTE = "another attribute"
    SWAPPED = "operands swapped"
    CONSTANT = "another constant"
    WEIGHT = "another weight"
    OPERAND = "another operand"
    ORDER = "another arrangement"
    OTHER_OP = "another op"
    MISSING = "an op is missing"
    EXTRA = "an op too many"
    PLACE = "an op in another place"
    UNKNOWN = "other calls"
    OPTIMIZER = "another optimizer"
    SETTING = "another setting of the optimizer"
    RATE = "another learning rate"
    CLIPPING = "another clipping"
    CLEARED = "gradients are not cleared"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Difference:
    """The first place where the second program (the port) does otherwise than the first.

    ``ours`` is the port's call, ``theirs`` the original's; one of them is None where it has no counterpart. ``mend``: the port's
    call whose results have to be exchanged, and by what, for both to go on alike; None where there is no such call.
    """

    cause: Cause
    text: str
    theirs: Node | None
    ours: Node | None
    mend: tuple[Node, Sequence[torch.Tensor]] | None
    sites: tuple[Site, Site] | None = None  # where the elements are arranged, if that is what differs

    @property
    def backward(self) -> bool:
        """Whether it is in the backward."""
        return all(node.backward for node in (self.theirs, self.ours) if node is not None)


class _Pair(NamedTuple):
    theirs: Node | None
    ours: Node | None


def explain(matching: Matching, theirs: Sequence[Node], ours: Sequence[Node]) -> Difference | None:
    """The first difference of two regions (see :func:`.matching.guilty`); None if both are empty."""
    if not theirs and not ours:
        return None
    pairs = align(matching, theirs[:WINDOW], ours[:WINDOW])
    pairs = pairs[_first(matching, pairs, theirs, ours) :]
    cause, text, pair = _cause(matching, pairs)
    return Difference(cause, text, pair.theirs, pair.ours, _mend(matching, pairs), _sites(matching, cause, pair))


def _sites(matching: Matching, cause: Cause, pair: _Pair) -> tuple[Site, Site] | None:
    """The first steps on which both arrange an operand otherwise."""
    if cause is not Cause.ORDER or pair.theirs is None or pair.ours is None:
        return None
    for one, other in zip(pair.theirs.operands, pair.ours.operands):
        if one.tensor.shape != other.tensor.shape or not matching.in_order(one.value, one.tensor, other.tensor):
            steps = zip_longest(one.way, other.way)
            step, our = next(((a, b) for a, b in steps if not (a and b and a[:2] == b[:2])), (None, None))
            return (step.site if step else pair.theirs.site), (our.site if our else pair.ours.site)
    return None


def _mend(matching: Matching, pairs: Sequence[_Pair]) -> tuple[Node, Sequence[torch.Tensor]] | None:
    """Whose results to exchange: of the call that feeds a missing one, of one too many, or of the first pair."""
    first = pairs[0]
    following = next((pair for pair in pairs if pair.theirs and pair.ours and _exchangeable(pair.theirs, pair.ours)), None)
    if first.ours is None and first.theirs is not None and following is not None:
        # What only the missing call is given, may be given its result; what others are given as well stays.
        skipped = [one.value for one in first.theirs.operands if one.value in matching.of_first and len(one.value.readers) == 1]
        for one in following.ours.operands if following.ours else ():
            node = one.value.node
            if (
                node is not None
                and not node.view
                and matching.of_second.get(one.value) in skipped
                and _fits(one.value, first.theirs.result)
            ):
                return node, [first.theirs.result.tensor]
    if first.theirs is None and first.ours is not None:
        for one in first.ours.operands:
            if not first.ours.view and matching.good(one.value) and one.tensor.shape == first.ours.result.tensor.shape:
                return first.ours, [one.tensor]
    if following is None or following.ours is None or following.theirs is None:
        return None
    updated = following.theirs.updated if len(following.theirs.updated) == len(following.ours.updated) else []
    return following.ours, [value.tensor for value in (*following.theirs.results, *updated)]


def _exchangeable(one: Node, other: Node) -> bool:
    return _alike(one, other) and not other.view


def _fits(one: Value, other: Value) -> bool:
    return one.tensor.shape == other.tensor.shape and one.tensor.dtype == other.tensor.dtype


def _first(matching: Matching, pairs: list[_Pair], theirs: Sequence[Node], ours: Sequence[Node]) -> int:
    """Where the first of the regions' roots stands among the pairs."""
    origins = {*roots(theirs, lambda value: value in matching.of_first), *roots(ours, matching.good)}
    return next((place for place, pair in enumerate(pairs) if pair.theirs in origins or pair.ours in origins), 0)


def align(matching: Matching, theirs: Sequence[Node], ours: Sequence[Node]) -> list[_Pair]:
    """Both sequences in order, partners side by side: global alignment (Needleman and Wunsch, 1970) by names and operands."""
    rows, columns = len(theirs), len(ours)
    best = [[0.0] * (columns + 1) for _ in range(rows + 1)]
    for row in range(rows - 1, -1, -1):
        for column in range(columns - 1, -1, -1):
            together = best[row + 1][column + 1] + _likeness(matching, theirs[row], ours[column])
            best[row][column] = max(together, best[row + 1][column], best[row][column + 1])
    pairs, row, column = [], 0, 0
    while row < rows and column < columns:
        if best[row][column] == best[row + 1][column]:
            pairs.append(_Pair(theirs[row], None))
            row += 1
        elif best[row][column] == best[row][column + 1]:
            pairs.append(_Pair(None, ours[column]))
            column += 1
        else:
            pairs.append(_Pair(theirs[row], ours[column]))
            row, column = row + 1, column + 1
    return [*pairs, *(_Pair(node, None) for node in theirs[row:]), *(_Pair(None, node) for node in ours[column:])]


_PRODUCTS = frozenset({"mm", "addmm", "bmm", "baddbmm", "matmul", "linear", "addmv", "mv"})


def _kind(node: Node) -> str:
    return "product" if node.name in _PRODUCTS else node.name


def _alike(one: Node, other: Node) -> bool:
    return len(one.results) == len(other.results) and all(map(_fits, one.results, other.results))


def _likeness(matching: Matching, one: Node, other: Node) -> float:
    """How well two calls may stand for each other; at most 0 if they may not."""
    shared = sum(any(matching.same(mine.value, yours.value) for mine in one.operands) for yours in other.operands)
    if _kind(one) != _kind(other):
        # Another op in the same place: what it is given and what follows must fit.
        return 1.0 + shared if _fits(one.result, other.result) and shared and not one.moves and not other.moves else -1.0
    return 4.0 + 2.0 * _alike(one, other) + shared + (one.attributes == other.attributes)


def _cause(matching: Matching, pairs: Sequence[_Pair]) -> tuple[Cause, str, _Pair]:
    pair = pairs[0]
    if pair.theirs and pair.ours:
        return (*_between(matching, pair.theirs, pair.ours), pair)
    alone = pair.theirs or pair.ours
    assert alone is not None
    elsewhere = next((other for other in pairs[1:] if _counterpart(pair, other)), None)
    following = next((other for other in pairs if other.theirs and other.ours), pair)
    both = _Pair(pair.theirs or following.theirs, pair.ours or following.ours)
    if elsewhere is not None:
        return (
            Cause.PLACE,
            f"{alone.name} stands in another place",
            _Pair(pair.theirs or elsewhere.theirs, pair.ours or elsewhere.ours),
        )
    if pair.ours is None:
        return Cause.MISSING, f"{alone} is missing", both
    return Cause.EXTRA, f"{alone} is too much", both


def _counterpart(pair: _Pair, other: _Pair) -> bool:
    """Whether ``other`` is the same call that stands alone on the other side: op, attributes, shape and weights."""
    alone, candidate = (pair.theirs, other.ours) if pair.ours is None else (pair.ours, other.theirs)
    if alone is None or candidate is None or (other.theirs and other.ours):
        return False
    same = _kind(alone) == _kind(candidate) and alone.attributes == candidate.attributes and _alike(alone, candidate)
    return same and _weights(alone) == _weights(candidate)


def _weights(node: Node) -> list[tuple[int, ...]]:
    return [tuple(one.tensor.shape) for one in node.operands if one.value.node is None]


def _between(matching: Matching, theirs: Node, ours: Node) -> tuple[Cause, str]:
    """What differs between two calls that stand for each other."""
    if _kind(theirs) != _kind(ours):
        return Cause.OTHER_OP, f"{ours} in place of {theirs}"
    for one, other in zip(theirs.operands, ours.operands):
        if _is_index(one) and _is_index(other) and not matching.same(one.value, other.value):
            return _constant(one, other)
    others = [
        f"{name}={_shown(ours.attributes.get(name))} against {_shown(theirs.attributes.get(name))}"
        for name in sorted({*theirs.attributes, *ours.attributes})
        if not _equal(theirs.attributes.get(name), ours.attributes.get(name))
    ]
    if others and theirs.name == ours.name:
        return Cause.ATTRIBUTE, ", ".join(others)
    mine, yours = theirs.operands, ours.operands
    for one, other in zip(mine, yours):
        if matching.same(one.value, other.value):
            continue
        another = next((two for two in mine if two is not one and matching.same(two.value, other.value)), None)
        if another is not None:
            return Cause.SWAPPED, f"{_role(other)} is what the original has as {_role(another)}"
        if other.value.node is None or one.value.node is None:
            return _constant(one, other)
        if matching.good(other.value):
            return Cause.OPERAND, f"{_role(other)} comes from {_whence(other.value)}, in the original from {_whence(one.value)}"
    if len(mine) != len(yours):
        missing = {one.name for one in mine} ^ {one.name for one in yours}
        return Cause.OPERAND, f"{len(yours)} operands against {len(mine)}" + (f" ({', '.join(sorted(missing))})" if missing else "")
    for one, other in zip(mine, yours):
        if one.tensor.shape != other.tensor.shape or not matching.in_order(one.value, one.tensor, other.tensor):
            return _arranged(one, other)
    return Cause.UNKNOWN, f"{ours} gives other values than {theirs}"


def _is_index(operand: Operand) -> bool:
    """Indices, lengths, masks: what is wrong in them explains more than an attribute."""
    return operand.value.node is None and not operand.tensor.is_floating_point()


_ROLES = {"self": "the first operand", "other": "the second operand", "mat2": "the second operand", "mat1": "the first operand"}


def _role(operand: Operand) -> str:
    return _ROLES.get(operand.name, operand.name)


def _arranged(one: Operand, other: Operand) -> tuple[Cause, str]:
    """The same elements in another order."""
    if one.value.node is None and other.value.node is None and one.tensor.shape == other.tensor.shape:
        return _constant(one, other)
    ours, theirs = (", ".join(map(str, operand.way)) or str(list(operand.tensor.shape)) for operand in (other, one))
    return Cause.ORDER, f"{_role(other)} is arranged by {ours}, in the original by {theirs}"


def _constant(one: Operand, other: Operand) -> tuple[Cause, str]:
    label = other.value.label or one.value.label
    kind = Cause.WEIGHT if other.value.label and one.value.label and "(" not in label else Cause.CONSTANT
    where = f" ({label})" if label else ""
    if one.tensor.shape != other.tensor.shape:
        return kind, f"{_role(other)}{where} is {_range(other.value)} against {_range(one.value)}"
    apart = (one.tensor != other.tensor).nonzero()
    first = tuple(apart[0].tolist()) if len(apart) else ()
    mine, yours = (f"{operand.tensor[first].item():g}" for operand in (one, other))
    place = f"[{', '.join(map(str, first))}]"
    return (
        kind,
        f"{_role(other)}{where} holds {yours} at {place} against {mine} ({len(apart)} of {one.tensor.numel()} elements differ)",
    )


def _range(value: Value) -> str:
    elements = value.sorted
    return f"{list(value.tensor.shape)}" + (
        f" from {elements[0].item():.4g} to {elements[-1].item():.4g}" if elements.numel() else ""
    )


def _whence(value: Value) -> str:
    return value.label if value.node is None else f"{value.node.name} (line {value.node.site.line})"


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else repr(value)


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, (int, float)) and isinstance(other, (int, float)):
        return abs(one - other) <= 1e-7 * max(abs(one), abs(other)) or one == other
    return bool(one == other)
