"""Two sequences of calls laid side by side."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

from .matching import Matching
from .trace import Node, Value


class Pair(NamedTuple):
    theirs: Node | None
    ours: Node | None


def fits(one: Value, other: Value) -> bool:
    return one.tensor.shape == other.tensor.shape and one.tensor.dtype == other.tensor.dtype


def _in_rows(value: Value, other: Value) -> bool:
    """The same, of rows of one length, however many axes they are laid out in."""
    alike = value.count == other.count and value.tensor.dtype == other.tensor.dtype
    return alike and value.tensor.shape[-1:] == other.tensor.shape[-1:]


def align(matching: Matching, theirs: Sequence[Node], ours: Sequence[Node]) -> list[Pair]:
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
            pairs.append(Pair(theirs[row], None))
            row += 1
        elif best[row][column] == best[row][column + 1]:
            pairs.append(Pair(None, ours[column]))
            column += 1
        else:
            pairs.append(Pair(theirs[row], ours[column]))
            row, column = row + 1, column + 1
    pairs += [*(Pair(node, None) for node in theirs[row:]), *(Pair(None, node) for node in ours[column:])]
    _uncross(matching, pairs)
    return _of_one_table(matching, pairs)


def _of_one_table(matching: Matching, pairs: list[Pair]) -> list[Pair]:
    """Calls that are left over, and look up one table, stand for each other wherever they stand.

    They go first where the first call is alone: of what stands before them only the indices count.
    """
    left = {place: pair.theirs for place, pair in enumerate(pairs) if pair.ours is None and _looks_up(pair.theirs)}
    gone: set[int] = set()
    for place, (mine, yours) in enumerate(pairs):
        if mine is not None or yours is None or not _looks_up(yours):
            continue
        other = next((at for at, node in left.items() if node and _shared(matching, node, yours)), None)
        if other is not None:
            pairs[min(place, other)] = Pair(left.pop(other), yours)
            gone.add(max(place, other))
    rest = [pair for place, pair in enumerate(pairs) if place not in gone]
    if not rest or None not in rest[0]:
        return rest
    return sorted(rest, key=lambda pair: not (_looks_up(pair.theirs) and _looks_up(pair.ours)))


def _looks_up(node: Node | None) -> bool:
    return node is not None and node.name == "embedding"


def _uncross(matching: Matching, pairs: list[Pair]) -> None:
    """Exchange partners of two pairs where that fits what was computed for them: branches in the other order, not weights."""
    for place, later in itertools.combinations(range(len(pairs)), 2):
        (mine, yours), (further, beside) = pairs[place], pairs[later]
        if mine is None or yours is None or further is None or beside is None:
            continue
        if len({*map(kind, (mine, yours, further, beside))}) > 1 or not (alike(mine, beside) and alike(further, yours)):
            continue
        straight, crossed = ((mine, yours), (further, beside)), ((mine, beside), (further, yours))
        fit, better = (sum(_shared(matching, *pair, computed=True) for pair in way) for way in (straight, crossed))
        if better > fit:
            pairs[place], pairs[later] = Pair(mine, beside), Pair(further, yours)


def _shared(matching: Matching, call: Node, other: Node, *, computed: bool = False) -> int:
    """How many of a call's operands another one is given, too; ``computed``: without what was there before."""
    operands = [operand for operand in other.operands if not computed or operand.value.node is not None]
    return sum(any(matching.same(own.value, operand.value) for own in call.operands) for operand in operands)


_PRODUCTS = frozenset({"mm", "addmm", "bmm", "baddbmm", "matmul", "linear", "addmv", "mv"})
_MASKED = frozenset({"masked_fill", "where"})
_LOOKUPS = frozenset({"embedding", "index", "index_select"})


def kind(node: Node) -> str:
    return kind_of(node.name)


def kind_of(name: str) -> str:
    """What ops of several names are alike."""
    if name in _MASKED:
        return "masked"
    if name in _LOOKUPS:
        return "rows of a table"
    return "product" if name in _PRODUCTS else name


def alike(one: Node, other: Node) -> bool:
    return len(one.results) == len(other.results) and all(map(fits, one.results, other.results))


def behind(value: Value, node: Node, among: Callable[[Value], bool] = lambda _: True) -> bool:
    """Whether a value is computed from a call's result; ``among``: by way of which values."""
    waiting, known = [value], set()
    while waiting:
        one = waiting.pop()
        if one.node is None or not among(one):
            continue
        if one.node is node:
            return True
        if one.node.index > node.index and one.node.index not in known:
            known.add(one.node.index)
            waiting += [operand.value for operand in one.node.operands]
    return False


def _likeness(matching: Matching, one: Node, other: Node) -> float:
    """How well two calls may stand for each other; at most 0 if they may not."""
    shared = _shared(matching, one, other)
    if kind(one) != kind(other):
        # Another op in the same place: what it is given and what follows must fit.
        fit = fits(one.result, other.result) or (_in_rows(one.result, other.result) and "product" not in (kind(one), kind(other)))
        return 1.0 + shared if fit and shared and not one.moves and not other.moves else -1.0
    return 4.0 + 2.0 * alike(one, other) + shared + (one.attributes == other.attributes)


def taken_for(matching: Matching, pair: Pair) -> tuple[Value, Value] | None:
    """The one value of the original's that the port's call is not given, and which of the original's it is given for it."""
    if pair.theirs is None or pair.ours is None:
        return None
    mine, yours = ([one.value for one in node.operands] for node in (pair.theirs, pair.ours))
    for value in list(mine):
        equal = next((other for other in yours if matching.same(value, other)), None)
        if equal is not None:
            mine.remove(value)
            yours.remove(equal)
    if not mine or len(mine) != len(yours):
        return None
    place = 0
    if len(mine) > 1:  # a layer that is taken for another one: its weight tells
        if any(one.node is not None for one in (*mine, *yours)):
            return None
        place = max(range(len(mine)), key=lambda at: mine[at].tensor.numel())
    partner = matching.of_second.get(yours[place])
    return None if partner is None else (mine[place], partner)
