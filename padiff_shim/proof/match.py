"""Which values and calls of two traces belong together, and values repaired behind a mistake."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch

from .tolerances import FILLED, RoundingBound, floor_of
from .trace import Trace, TraceCall, TraceOperand, Value, numbers

# ---- Which values of two traces are the same, up to rounding, whatever their layout.

_SOFTMAXES = ("_softmax", "_log_softmax")


class Matching:
    """The values of two traces that agree; ``tolerance`` is asked for values of the first."""

    def __init__(self, first: Trace, second: Trace, tolerance: Callable[[Value], RoundingBound]) -> None:
        self._tolerance = tolerance
        self._same: dict[tuple[Value, Value], bool] = {}
        self._shuffled: set[Value] = set()  # values of the second trace with the elements of one of the first in another order
        self._weighed: set[Value] = set()  # scores of the first that are the same as a softmax weighs them
        self._of_weights = _of_weights(first), _of_weights(second)
        self.of_first: dict[Value, Value] = {}
        self.of_second: dict[Value, Value] = {}
        groups: dict[int, list[Value]] = defaultdict(list)
        for value in first.values():
            groups[value.count].append(value)
        sizes = {size: _Group(values, tolerance) for size, values in groups.items()}
        for value in second.values():
            if value.node is not None and value.node.moves and any(one.value in self._shuffled for one in value.node.operands):
                self._shuffled.add(value)  # a part of what lies in another order is not right, though it is found elsewhere
                continue
            group = sizes.get(value.count)
            partner = self._partner(value, group.near(value)) if group else None
            if partner is not None:
                self._shuffled.discard(value)
            if partner is not None:
                self.of_second[value] = partner
                self.of_first.setdefault(partner, value)
        self._repeated(first, second)
        self._masked_alike(first, second)
        self._unchanged(first)
        self._weighed_alike(first, second)

    def _unchanged(self, first: Trace) -> None:
        """What a call of the first trace gives back as it was (a pooling to the size that it is given) is where its operand is."""
        for node in first.nodes:
            if node.backward or len(node.results) != 1 or node.result in self.of_first:
                continue
            result, tolerance = node.result, self._tolerance(node.result)
            for value in (operand.value for operand in node.operands if operand.value in self.of_first):
                alike = value.count == result.count and tolerance.end_alike(value, result)
                if alike and _close(numbers(value.tensor), numbers(result.tensor), tolerance):
                    self.of_first[result] = self.of_first[value]
                    break

    def _repeated(self, first: Trace, second: Trace) -> None:
        """What one program makes for each sample of a batch, and the other once for all (angles of positions), is the same."""
        sizes: dict[int, list[Value]] = defaultdict(list)
        for value in filter(_of_several, first.values()):
            sizes[value.count].append(value)
        for yours in [value for value in second.values() if _of_several(value) and value not in self.of_second]:
            row = _sample(yours)
            for mine in [] if row is None else sizes[row.numel()]:
                if self._same_row(mine, row, numbers(mine.tensor)):
                    self._same[mine, yours], self.of_second[yours] = True, mine
                    self.of_first.setdefault(mine, yours)
                    break
        left: dict[int, list[Value]] = defaultdict(list)
        for value in second.values():
            if _of_several(value) and value not in self.of_second:
                left[value.count].append(value)
        for mine in [value for value in first.values() if _of_several(value) and value not in self.of_first]:
            row = _sample(mine) if left else None
            for yours in [] if row is None else left[row.numel()]:
                if self._same_row(mine, row, numbers(yours.tensor)):
                    self._same[mine, yours], self.of_first[mine] = True, yours
                    self.of_second.setdefault(yours, mine)
                    break

    def _same_row(self, value: Value, row: torch.Tensor, others: torch.Tensor) -> bool:
        return _close(numbers(row), others, self._tolerance(value))

    def _masked_alike(self, first: Trace, second: Trace) -> None:
        """Masks that leave the same places are the same, whatever they are filled with, and for each sample or once for all."""
        masks: dict[tuple[int, bytes], list[Value]] = defaultdict(list)
        for value in first.values():
            for places in _kept(value):
                masks[places].append(value)
        for value in second.values() if masks else ():
            for mask in next((masks[places] for places in _kept(value) if places in masks), []):
                self._same[mask, value] = True
                self.of_second.setdefault(value, mask)
                self.of_first.setdefault(mask, value)

    def _weighed_alike(self, first: Trace, second: Trace) -> None:
        """Scores of which a softmax of the first trace makes the same are the same: masked by -1e9, by -inf, or added to either."""
        left = [value for value in second.values() if value.readers and value not in self.of_second]
        for node in first.nodes:
            if node.name not in _SOFTMAXES or node.backward or node.operands[0].value in self.of_first:
                continue
            given, tolerance = node.operands[0], self._tolerance(node.result).least(floor_of(node.result.tensor.dtype))
            dim = _from_the_end(node.attributes["dim"], given.tensor)
            wanted = torch.softmax(given.tensor.detach(), dim)
            if _close(wanted.amin(dim), wanted.amax(dim), tolerance):
                continue  # of what is all one number nothing is told
            ordered = numbers(wanted).sort().values
            for other in left:
                if not _of_one_kind(other.tensor, given.tensor, dim):
                    continue
                weights = torch.softmax(other.tensor.detach(), dim)
                in_place = other.tensor.shape != given.tensor.shape or _close(numbers(wanted), numbers(weights), tolerance)
                if in_place and _close(ordered, numbers(weights).sort().values, tolerance):
                    self._same[given.value, other] = True
                    self._weighed.add(given.value)
                    self.of_second.setdefault(other, given.value)
                    self.of_first.setdefault(given.value, other)

    def _partner(self, value: Value, candidates: Iterable[Value]) -> Value | None:
        """The candidate with the same elements; among several one of the same op, then the nearest in order."""
        found = [candidate for candidate in candidates if self.same(candidate, value)]
        if not found:
            return None
        place, name = _place(value)
        return min(found, key=lambda one: (_place(one)[1] != name, one in self.of_first, abs(_place(one)[0] - place)))

    def same(self, one: Value, other: Value) -> bool:
        """Whether a value of the first trace has the elements of one of the second."""
        known = self._same.get((one, other))
        if known is None:
            known = self._same[one, other] = self._compare(one, other)
        return known

    def _compare(self, one: Value, other: Value) -> bool:
        tolerance = self._tolerance(one)
        if one.count != other.count or not tolerance.end_alike(one, other):
            return False
        if _close(numbers(one.tensor), numbers(other.tensor), tolerance):
            return True
        # Of one shape they must agree in their places, too: else a flipped or shifted sequence would pass. What was there before
        # may lie transposed, as a Linear's square weight does.
        apart = one.node is other.node is None or one.tensor.shape != other.tensor.shape
        turned = one.tensor.dim() == 2 and one.tensor.mT.shape == other.tensor.shape and (apart or self.may_lie_turned(one, other))
        if turned and _close(numbers(one.tensor.mT), numbers(other.tensor), tolerance):
            return True
        if not _close(one.sorted, other.sorted, tolerance):
            return False
        if not apart:
            self._shuffled.add(other)
        return apart

    def may_lie_turned(self, one: Value, other: Value) -> bool:
        """Whether these are square and made of weights alone (scaled, normed), or on the way back to such: in either's layout."""
        if one.node is None or other.node is None or one.tensor.dim() != 2 or one.tensor.shape[0] != one.tensor.shape[1]:
            return False
        return one.node.backward is other.node.backward is True or (
            one.node in self._of_weights[0] and other.node in self._of_weights[1]
        )

    def are_turned(self, theirs: TraceCall, ours: TraceCall) -> bool:
        """Whether two calls compute of weights alone, and are given a square one that lies transposed in the second program."""
        if theirs not in self._of_weights[0] or ours not in self._of_weights[1]:
            return False
        for one, other in zip(theirs.operands, ours.operands):
            if one.tensor.dim() != 2 or one.tensor.shape != other.tensor.shape or one.tensor.shape[0] != one.tensor.shape[1]:
                continue
            if not self.in_order(one.value, one.tensor, other.tensor) and self.in_order(one.value, one.tensor.mT, other.tensor):
                return True
        return False

    def in_order(self, value: Value, mine: torch.Tensor, yours: torch.Tensor) -> bool:
        """Whether two tensors of one shape, the first with a value's elements, agree in every place."""
        return _close(numbers(mine), numbers(yours), self._tolerance(value))

    def in_one_order(self, mine: TraceOperand, yours: TraceOperand) -> bool:
        """Whether two operands, of whatever shapes, hold one value's elements row by row; scores as a softmax weighs them."""
        if not self.same(mine.value, yours.value) or mine.tensor.numel() != yours.tensor.numel():
            return False
        if self.in_order(mine.value, mine.tensor, yours.tensor):
            return True
        if mine.value not in self._weighed:
            return False
        one, other = (torch.softmax(numbers(given.tensor).reshape(-1, mine.tensor.shape[-1]), 1) for given in (mine, yours))
        return _close(one.reshape(-1), other.reshape(-1), RoundingBound(floor_of(mine.tensor.dtype)))

    def good(self, value: Value) -> bool:
        """Whether a value of the second trace is one of the first."""
        return value in self.of_second


_READ = frozenset({"index", "index_select", "embedding", "gather", "take"})  # what is read out lies as the indices say


def _of_weights(trace: Trace) -> set[TraceCall]:
    """The calls that compute from what was there before, inputs aside."""
    found: set[TraceCall] = set()
    for node in trace.nodes:
        sources = [one.value for one in node.operands]
        if node.name not in _READ and all(_is_weight(one) if one.node is None else one.node in found for one in sources):
            found.add(node)
    return found


def _is_weight(value: Value) -> bool:
    """Whether what was there before may be a weight, or one's copy, which has no name: no input, and no constant that was made."""
    return value.tensor.is_floating_point() and not value.label.startswith("input ") and "(" not in value.label


def _of_several(value: Value) -> bool:
    """Whether a value is of several numbers, and none of the backward's."""
    return value.count > 1 and (value.node is None or not value.node.backward)


def _sample(value: Value) -> torch.Tensor | None:
    """The first sample of a value that is the same for all samples; else None."""
    tensor = value.tensor
    if tensor.dim() < 2 or len(tensor) < 2 or not bool((tensor[0] == tensor[-1]).all()):
        return None
    return tensor[:1] if bool((tensor == tensor[:1]).all()) else None


def _kept(value: Value) -> list[tuple[int, bytes]]:
    """The places that a mask leaves, of all samples and, where these are alike, of one, with the length of a row; else nothing.

    A mask holds zeros, in every row, and in other places numbers so far below that no softmax sees them.
    """
    least, greatest = value.ends[:2]
    if greatest != 0.0 or not least <= -FILLED or value.tensor.dim() < 2:
        return []
    left = value.tensor == 0.0
    if not bool((left | (value.tensor <= -FILLED)).all() and left.any(-1).all()):
        return []
    row = left[:1] if bool((left == left[:1]).all()) else left
    return [(left.shape[-1], places.cpu().numpy().tobytes()) for places in dict.fromkeys((left, row))]


def _from_the_end(dim: Any, tensor: torch.Tensor) -> int:
    """An axis, or the only one of a list, as a negative number."""
    one = int(dim[0] if isinstance(dim, (list, tuple)) else dim)
    return one - tensor.dim() if one >= 0 else one


def _of_one_kind(one: torch.Tensor, other: torch.Tensor, dim: int) -> bool:
    """Whether two tensors have as many elements of one dtype, in rows of one length."""
    alike = one.dtype == other.dtype and one.numel() == other.numel() and one.dim() >= -dim
    return alike and one.shape[dim] == other.shape[dim]


class _Group:
    """Values of one size; which of them end like another is asked of all at once."""

    def __init__(self, values: list[Value], tolerance: Callable[[Value], RoundingBound]) -> None:
        self._values = values
        self._ends = torch.tensor([value.ends[:2] for value in values], dtype=torch.float64)
        limits = torch.tensor([tolerance(value) for value in values], dtype=torch.float64)
        self._tolerance = RoundingBound(*limits[:, None, :].unbind(-1))  # a column for all values

    def near(self, value: Value) -> list[Value]:
        """Those whose least and greatest element are the value's, up to rounding."""
        near = self._tolerance.holds(self._ends, torch.tensor(value.ends[:2], dtype=torch.float64)).all(1)
        return [self._values[place] for place in near.nonzero().flatten().tolist()]


def _place(value: Value) -> tuple[int, str]:
    return (-1, value.label) if value.node is None else (value.node.index, value.node.name)


def _close(expected: torch.Tensor, actual: torch.Tensor, tolerance: RoundingBound) -> bool:
    most = float((expected - actual).abs_().max()) if len(expected) else 0.0
    if math.isfinite(most) and math.isinf(tolerance.limit):
        return most <= tolerance.usual
    return bool(tolerance.holds(expected, actual).all())


def guilty(ends: Iterable[Value], good: Callable[[Value], bool]) -> list[TraceCall]:
    """The calls between good values and wrong ones ``ends``, in order."""
    region: dict[int, TraceCall] = {}
    waiting = [value.node for value in ends if value.node is not None and not good(value)]
    while waiting:
        node = waiting.pop()
        if node is None or node.index in region:
            continue
        region[node.index] = node
        waiting += [one.value.node for one in node.operands if one.value.node is not None and not good(one.value)]
    return [region[index] for index in sorted(region)]


def roots(region: Iterable[TraceCall], good: Callable[[Value], bool]) -> list[TraceCall]:
    """The nodes of a region whose operands are good, or no call's results."""
    return [node for node in region if all(good(one.value) or one.value.node is None for one in node.operands)]


# ---- Two sequences of calls laid side by side.


class CallPair(NamedTuple):
    theirs: TraceCall | None
    ours: TraceCall | None


def fits(one: Value, other: Value) -> bool:
    return one.tensor.shape == other.tensor.shape and one.tensor.dtype == other.tensor.dtype


def _in_rows(value: Value, other: Value) -> bool:
    """The same, of rows of one length, however many axes they are laid out in."""
    alike = value.count == other.count and value.tensor.dtype == other.tensor.dtype
    return alike and value.tensor.shape[-1:] == other.tensor.shape[-1:]


def align(matching: Matching, theirs: Sequence[TraceCall], ours: Sequence[TraceCall]) -> list[CallPair]:
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
            pairs.append(CallPair(theirs[row], None))
            row += 1
        elif best[row][column] == best[row][column + 1]:
            pairs.append(CallPair(None, ours[column]))
            column += 1
        else:
            pairs.append(CallPair(theirs[row], ours[column]))
            row, column = row + 1, column + 1
    pairs += [*(CallPair(node, None) for node in theirs[row:]), *(CallPair(None, node) for node in ours[column:])]
    _uncross(matching, pairs)
    return _of_one_table(matching, pairs)


def _of_one_table(matching: Matching, pairs: list[CallPair]) -> list[CallPair]:
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
            pairs[min(place, other)] = CallPair(left.pop(other), yours)
            gone.add(max(place, other))
    rest = [pair for place, pair in enumerate(pairs) if place not in gone]
    if not rest or None not in rest[0]:
        return rest
    return sorted(rest, key=lambda pair: not (_looks_up(pair.theirs) and _looks_up(pair.ours)))


def _looks_up(node: TraceCall | None) -> bool:
    return node is not None and node.name == "embedding"


def _uncross(matching: Matching, pairs: list[CallPair]) -> None:
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
            pairs[place], pairs[later] = CallPair(mine, beside), CallPair(further, yours)


def _shared(matching: Matching, call: TraceCall, other: TraceCall, *, computed: bool = False) -> int:
    """How many of a call's operands another one is given, too; ``computed``: without what was there before."""
    operands = [operand for operand in other.operands if not computed or operand.value.node is not None]
    return sum(any(matching.same(own.value, operand.value) for own in call.operands) for operand in operands)


_PRODUCTS = frozenset({"mm", "addmm", "bmm", "baddbmm", "matmul", "linear", "addmv", "mv"})
_MASKED = frozenset({"masked_fill", "where"})
_LOOKUPS = frozenset({"embedding", "index", "index_select"})


def kind(node: TraceCall) -> str:
    return kind_of(node.name)


def kind_of(name: str) -> str:
    """What ops of several names are alike."""
    if name in _MASKED:
        return "masked"
    if name in _LOOKUPS:
        return "rows of a table"
    return "product" if name in _PRODUCTS else name


def alike(one: TraceCall, other: TraceCall) -> bool:
    return len(one.results) == len(other.results) and all(map(fits, one.results, other.results))


def behind(value: Value, node: TraceCall, among: Callable[[Value], bool] = lambda _: True) -> bool:
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


def _likeness(matching: Matching, one: TraceCall, other: TraceCall) -> float:
    """How well two calls may stand for each other; at most 0 if they may not."""
    shared = _shared(matching, one, other)
    if kind(one) != kind(other):
        # Another op in the same place: what it is given and what follows must fit.
        fit = fits(one.result, other.result) or (_in_rows(one.result, other.result) and "product" not in (kind(one), kind(other)))
        return 1.0 + shared if fit and shared and not one.moves and not other.moves else -1.0
    return 4.0 + 2.0 * alike(one, other) + shared + (one.attributes == other.attributes)


def taken_for(matching: Matching, pair: CallPair) -> tuple[Value, Value] | None:
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


# ---- Whose results of the port are exchanged for the original's, so that both go on alike behind a mistake.

Mend = tuple[TraceCall, Sequence[torch.Tensor | None]]  # a call, and what its results shall hold; None: they stay


def mended(matching: Matching, pairs: Sequence[CallPair]) -> Mend | None:
    """Whose results to exchange: of the call that feeds a missing one, of one too many, or of the first pair."""
    first = pairs[0]
    both = [pair for pair in pairs if pair.theirs and pair.ours and _exchangeable(matching, pair)]
    # What only stands beside the difference may hold a mistake of its own, which the original's values would cover.
    following = next((pair for pair in both if leads_to(matching, first, pair)), both[0] if both else None)
    if first.ours is None and first.theirs is not None and following is not None:
        # What only the missing call is given, may be given its result; what others are given as well stays.
        skipped = [one.value for one in first.theirs.operands if one.value in matching.of_first and len(one.value.readers) == 1]
        for one in following.ours.operands if following.ours else ():
            node, partner = one.value.node, matching.of_second.get(one.value)
            if node is None or node.view or partner is None or partner not in skipped:
                continue
            wanted = _in_shape(first.theirs, one.value, partner)
            if wanted is not None:
                return node, [wanted]
        instead = in_its_place(matching, first.theirs, following, pairs)
        if instead is not None:
            return instead, [first.theirs.result.tensor]
    if first.theirs is None and first.ours is not None:
        for one in first.ours.operands:
            if not first.ours.view and matching.good(one.value) and one.tensor.shape == first.ours.result.tensor.shape:
                return _joined(matching, first.ours, pairs), [one.tensor]
    if following is None or following.ours is None or following.theirs is None:
        return None
    whole = with_bias(following.theirs, following.ours), with_bias(following.ours, following.theirs)
    if whole != (following.theirs, following.ours):
        return whole[1], [whole[0].result.tensor.reshape(whole[1].result.tensor.shape)]
    updated = following.theirs.updated if len(following.theirs.updated) == len(following.ours.updated) else []
    exchange = [exchanged(following, value.tensor) for value in (*following.theirs.results, *updated)]
    if matching.are_turned(following.theirs, following.ours) and not matching.same(following.theirs.result, following.ours.result):
        exchange = [one.mT if one is not None and one.dim() == 2 and one.shape[0] == one.shape[1] else one for one in exchange]
    if len(exchange) == 1 and exchange[0] is not None:
        exchange = [exchange[0].reshape(following.ours.result.tensor.shape)]
    return following.ours, exchange


def ended(end: tuple[Value | None, Value | None]) -> Mend | None:
    """Where nothing follows a difference: what the program gives, unless a call of its own reads that, too."""
    mine, yours = end
    if mine is None or yours is None or yours.node is None or yours.readers or yours.node.view or not fits(mine, yours):
        return None
    return yours.node, [mine.tensor if value is yours else None for value in yours.node.values]


def _in_shape(missing: TraceCall, value: Value, partner: Value) -> torch.Tensor | None:
    """What a missing call makes of a value, as the port's same value is shaped; None if it makes something of another extent.

    Scores are a product's result by heads in one stack on both sides, and only what reads them has a batch.
    """
    made = missing.result
    if fits(value, made):
        return made.tensor
    given = next((one for one in missing.operands if one.value is partner), None)
    if given is None or given.tensor.shape != made.tensor.shape or value.tensor.shape != partner.tensor.shape:
        return None
    if value.tensor.dtype != made.tensor.dtype or not torch.equal(given.tensor.reshape(-1), partner.tensor.reshape(-1)):
        return None
    return made.tensor.reshape(value.tensor.shape)


def in_its_place(matching: Matching, missing: TraceCall, following: CallPair, pairs: Sequence[CallPair]) -> TraceCall | None:
    """The last of the port's calls that compute in another way what a missing one gives to the next call of the original."""
    if (
        following.theirs is None
        or following.ours is None
        or all(one.value is not missing.result for one in following.theirs.operands)
    ):
        return None
    alone = {pair.ours.index: pair.ours for pair in pairs if pair.theirs is None and pair.ours is not None}
    waiting = [one.value for one in following.ours.operands]
    while waiting:
        value = waiting.pop(0)
        if value.node is None or value.node.index not in alone or matching.good(value):
            continue
        if not value.node.view and not value.node.moves and value is value.node.result and fits(value, missing.result):
            return value.node
        waiting += [one.value for one in value.node.operands]
    return None


def leads_to(matching: Matching, first: CallPair, pair: CallPair) -> bool:
    """Whether a pair is the first one, or is given what was computed from it, in either program; by way of wrong values alone."""
    wrong = (lambda value: value not in matching.of_first), (lambda value: not matching.good(value))
    return first == pair or any(
        node is not None and source is not None and any(behind(one.value, source, among) for one in node.operands)
        for source, node, among in zip(first, pair, wrong)
    )


_BARE, BIASED = frozenset({"mm", "bmm"}), frozenset({"addmm", "baddbmm"})


def with_bias(product: TraceCall, other: TraceCall) -> TraceCall:
    """Of a product whose bias is added by a call of its own, and not in the other program: that call.

    Which of the two a linear layer makes, depends on how its operand lies in memory.
    """
    if product.name not in _BARE or other.name not in BIASED:
        return product
    for reader in product.result.readers:
        biases = [one for one in reader.operands if one.value.node is None and one.tensor.dim() == 1]
        if reader.name == "add" and biases and reader.layer == product.layer and _of_one_size(reader.result, other.result):
            return reader
    return product


def _of_one_size(one: Value, other: Value) -> bool:
    return one.tensor.numel() == other.tensor.numel() and one.tensor.dtype == other.tensor.dtype


def _joined(matching: Matching, first: TraceCall, pairs: Sequence[CallPair]) -> TraceCall:
    """Where what is computed from the result of a call too many meets what else is too many: both are one expression."""
    alone = []
    for pair in pairs:
        if pair.ours is None or pair.theirs is not None:
            break
        alone.append(pair.ours)
    inside, last = {first}, first
    for node in alone:
        made = [one.value.node for one in node.operands if one.value.node in alone and not matching.good(one.value)]
        if any(one in inside for one in made):
            inside.add(node)
            if any(one not in inside for one in made) and not node.view and alike(node, first):
                inside, last = {*alone[: alone.index(node) + 1]}, node
    return last


def exchanged(pair: CallPair, wanted: torch.Tensor) -> torch.Tensor | None:
    """Whole numbers of the original are places in what it was given: in another shape they may lie outside."""
    if wanted.is_floating_point():
        return wanted
    theirs, ours = (node.operands[:1] if node is not None else [] for node in pair)
    same = pair.theirs and pair.ours and pair.theirs.name == pair.ours.name and theirs and ours
    return wanted if same and theirs[0].tensor.shape == ours[0].tensor.shape else None


def _exchangeable(matching: Matching, pair: CallPair) -> bool:
    one, other = pair
    return one is not None and other is not None and not other.view and (alike(one, other) or _reshaped(matching, one, other))


def _reshaped(matching: Matching, one: TraceCall, other: TraceCall) -> bool:
    """Whether two calls of an op that gives as many elements as it takes are given one operand, in other shapes in one order."""
    if one.name != other.name or len(one.results) != 1 or len(other.results) != 1 or not _of_one_size(one.result, other.result):
        return False
    mine, yours = one.operands[0], other.operands[0]
    if mine.tensor.shape != one.result.tensor.shape or yours.tensor.shape != other.result.tensor.shape:
        return False
    return matching.in_one_order(mine, yours)
