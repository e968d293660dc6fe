"""Which values and calls of two traces belong together, and which results of the port a mistake's mending exchanges."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import torch

from .agreement import FILLED, RoundingBound, floor_of
from .trace import Step, Trace, TraceCall, TraceOperand, Value, numbers

# ---- Which values of two traces are the same, up to rounding, whatever their layout.

_SOFTMAXES = ("_softmax", "_log_softmax")


class Matching:
    """The values of two traces that agree; ``tolerance`` returns the bound of a value of the first."""

    def __init__(self, first: Trace, second: Trace, tolerance: Callable[[Value], RoundingBound]) -> None:
        self._tolerance = tolerance
        self._same: dict[tuple[Value, Value], bool] = {}
        self.shuffled: dict[Value, Value] = {}  # of the second: the elements of a value of the first in another order
        self._of_weights = [made_of(trace, _is_weight, lambda node: node.name not in _READ) for trace in (first, second)]
        self.of_first: dict[Value, Value] = {}
        self.of_second: dict[Value, Value] = {}
        groups: dict[int, list[Value]] = defaultdict(list)
        for value in first.values():
            groups[value.count].append(value)
        sizes = {size: _Group(values, tolerance) for size, values in groups.items()}
        for value in second.values():
            if (
                value.node is not None
                and value.node.moves
                and (wrong := next((operand.value for operand in value.node.operands if operand.value in self.shuffled), None))
            ):
                self.shuffled[value] = self.shuffled[wrong]  # a part of it is wrong, though it has a partner
                continue
            group = sizes.get(value.count)
            partner = self._partner(value, group.near(value)) if group else None
            if partner is not None:
                self.shuffled.pop(value, None)
                self.of_second[value] = partner
                self.of_first.setdefault(partner, value)
        self._repeated(first, second)
        self._masked_alike(first, second)
        self._unchanged(first)
        self._weighed_alike(first, second)

    def _unchanged(self, first: Trace) -> None:
        """A result that equals its operand (a pooling to the same size) has the operand's partner."""
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
        forwards = [
            [value for value in trace.values() if value.node is None or not value.node.backward] for trace in (first, second)
        ]
        several = [[value for value in values if value.count > 1] for values in forwards]
        matched: list[dict[Value, Value]] = [self.of_first, self.of_second]
        for side in (1, 0):  # whose values are the same for all samples; those of the first that the second has not yet
            once: dict[int, list[Value]] = defaultdict(list)
            for value in several[1 - side]:
                if side or value not in self.of_second:
                    once[value.count].append(value)
            for value in [value for value in several[side] if value not in matched[side]]:
                row = _sample(value) if once else None
                for other in [] if row is None else once[len(row)]:
                    expected, actual = (other, value) if side else (value, other)
                    if _close(row, numbers(other.tensor), self._tolerance(expected)):
                        self._same[expected, actual] = True
                        self.of_second.setdefault(actual, expected)
                        self.of_first.setdefault(expected, actual)
                        break

    def _masked_alike(self, first: Trace, second: Trace) -> None:
        """Masks that leave the same places are the same, whatever fills the others, and whether for each sample or once for all."""
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
        """Scores with one softmax in the first trace are the same: masked by -1e9, by -inf, or added to either."""
        left = [value for value in second.values() if value.readers and value not in self.of_second]
        for node in first.nodes:
            if node.name not in _SOFTMAXES or node.backward or node.operands[0].value in self.of_first:
                continue
            scores, tolerance = node.operands[0], self._tolerance(node.result).least(floor_of(node.result.tensor.dtype))
            axis = node.attributes["dim"]
            axis = int(axis[0] if isinstance(axis, (list, tuple)) else axis)
            dim = axis - scores.tensor.dim() if axis >= 0 else axis
            wanted = torch.softmax(scores.tensor.detach(), dim)
            if _close(wanted.amin(dim), wanted.amax(dim), tolerance):
                continue  # equal numbers show nothing
            ordered = numbers(wanted).sort().values
            for other in left:
                if not _of_one_kind(other.tensor, scores.tensor, dim):
                    continue
                weights = torch.softmax(other.tensor.detach(), dim)
                in_place = other.tensor.shape != scores.tensor.shape or _close(numbers(wanted), numbers(weights), tolerance)
                if in_place and _close(ordered, numbers(weights).sort().values, tolerance):
                    self._same[scores.value, other] = True
                    self.of_second.setdefault(other, scores.value)
                    self.of_first.setdefault(scores.value, other)

    def _partner(self, value: Value, candidates: Iterable[Value]) -> Value | None:
        """The candidate with the same elements; of several the one of the same op, then the nearest in order."""
        partners = [candidate for candidate in candidates if self.same(candidate, value)]
        if value in self.shuffled and value.node is not None and value.node.moves:  # by a roll: it lies as that of its shape does
            partners = [partner for partner in partners if partner.tensor.shape == value.tensor.shape]
        if not partners:
            return None
        place, name = _place(value)
        return min(
            partners, key=lambda partner: (_place(partner)[1] != name, partner in self.of_first, abs(_place(partner)[0] - place))
        )

    def same(self, value: Value, other: Value) -> bool:
        """Whether a value of the first trace has the elements of a value of the second."""
        known = self._same.get((value, other))
        if known is None:
            known = self._same[value, other] = self._compare(value, other)
        return known

    def _compare(self, value: Value, other: Value) -> bool:
        if value.count != other.count:
            return False
        tolerance = self._tolerance(value)
        if not tolerance.end_alike(value, other):
            return False
        if _close(numbers(value.tensor), numbers(other.tensor), tolerance):
            return True
        # Values of one shape must agree in their places, too: else a flipped or shifted sequence would pass. What was there before
        # may lie transposed, as a Linear's square weight does.
        apart = value.node is other.node is None or value.tensor.shape != other.tensor.shape
        turned = (
            value.tensor.dim() == 2 and value.tensor.mT.shape == other.tensor.shape and (apart or self.may_lie_turned(value, other))
        )
        if turned and _close(numbers(value.tensor.mT), numbers(other.tensor), tolerance):
            return True
        if not _close(value.sorted, other.sorted, tolerance):
            return False
        if not apart:
            self.shuffled.setdefault(other, value)
        return apart

    def may_lie_turned(self, value: Value, other: Value) -> bool:
        """Whether these are square, and made of weights alone (scaled, normed) or their gradients: they may be transposed."""
        if value.node is None or other.node is None or value.tensor.dim() != 2 or value.tensor.shape[0] != value.tensor.shape[1]:
            return False
        return value.node.backward is other.node.backward is True or (
            value.node in self._of_weights[0] and other.node in self._of_weights[1]
        )

    def are_turned(self, original: TraceCall, port: TraceCall) -> bool:
        """Whether two calls compute of weights alone, and a square weight lies transposed in the second program."""
        if original not in self._of_weights[0] or port not in self._of_weights[1]:
            return False
        for operand, other in zip(original.operands, port.operands):
            if (
                operand.tensor.dim() != 2
                or operand.tensor.shape != other.tensor.shape
                or operand.tensor.shape[0] != operand.tensor.shape[1]
            ):
                continue
            if not self.in_order(operand.value, operand.tensor, other.tensor) and self.in_order(
                operand.value, operand.tensor.mT, other.tensor
            ):
                return True
        return False

    def in_order(self, value: Value, expected: torch.Tensor, actual: torch.Tensor) -> bool:
        """Whether two tensors, the first with a value's elements, agree in every place."""
        same_size = expected.numel() == actual.numel()
        return same_size and _close(numbers(expected), numbers(actual), self._tolerance(value))

    def is_matched(self, value: Value) -> bool:
        """Whether a value of the second trace has a partner in the first."""
        return value in self.of_second


_READ = frozenset({"index", "index_select", "embedding", "gather", "take"})  # their elements lie as the indices say


def made_of(trace: Trace, holds: Callable[[Value], bool], among: Callable[[TraceCall], bool]) -> set[TraceCall]:
    """The calls, ``among`` some, that compute from nothing but what was there before and ``holds``."""
    calls: set[TraceCall] = set()
    for node in trace.nodes:
        sources = [operand.value for operand in node.operands]
        if among(node) and all(holds(source) if source.node is None else source.node in calls for source in sources):
            calls.add(node)
    return calls


def _is_weight(value: Value) -> bool:
    """Whether what was there before may be a weight, or its nameless copy: no input, and no constant that a call made."""
    return value.tensor.is_floating_point() and not value.label.startswith("input ") and "(" not in value.label


def _sample(value: Value) -> torch.Tensor | None:
    """The numbers of the first sample of a value that is the same for all samples; else None."""
    tensor = value.tensor
    if tensor.dim() < 2 or len(tensor) < 2 or not bool((tensor[0] == tensor[-1]).all()):
        return None
    return numbers(tensor[:1]) if bool((tensor == tensor[:1]).all()) else None


def _kept(value: Value) -> list[tuple[int, bytes]]:
    """The places that a mask leaves, of all samples and, where these are alike, of one, with the length of a row; else nothing.

    A mask holds zeros, in every row, and elsewhere numbers so far below that no softmax sees them.
    """
    least, greatest = value.ends[:2]
    if greatest != 0.0 or not least <= -FILLED or value.tensor.dim() < 2 or value.tensor.is_complex():
        return []
    left = value.tensor == 0.0
    if not bool((left | (value.tensor <= -FILLED)).all() and left.any(-1).all()):
        return []
    row = left[:1] if bool((left == left[:1]).all()) else left
    return [(left.shape[-1], places.cpu().numpy().tobytes()) for places in dict.fromkeys((left, row))]


def _of_one_kind(tensor: torch.Tensor, other: torch.Tensor, dim: int) -> bool:
    """Whether two tensors have as many elements of one dtype, in rows of one length."""
    alike = tensor.dtype == other.dtype and tensor.numel() == other.numel() and tensor.dim() >= -dim
    return alike and tensor.shape[dim] == other.shape[dim]


class _Group:
    """Values of one size, whose least and greatest elements are compared at once."""

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


def wrong_calls(ends: Iterable[Value], good: Callable[[Value], bool]) -> list[TraceCall]:
    """The calls between good values and the wrong values ``ends``, in order."""
    region: dict[int, TraceCall] = {}
    waiting = [value.node for value in ends if value.node is not None and not good(value)]
    while waiting:
        node = waiting.pop()
        if node is None or node.index in region:
            continue
        region[node.index] = node
        waiting += [operand.value.node for operand in node.operands if operand.value.node is not None and not good(operand.value)]
    return [region[index] for index in sorted(region)]


def roots(region: Iterable[TraceCall], good: Callable[[Value], bool]) -> list[TraceCall]:
    """The calls of a region whose operands are good, or no call's results."""
    return [node for node in region if all(good(operand.value) or operand.value.node is None for operand in node.operands)]


# ---- Two sequences of calls laid side by side.


class CallPair(NamedTuple):
    original: TraceCall | None
    port: TraceCall | None


def same_numbers(tensor: torch.Tensor, result: torch.Tensor) -> bool:
    same_kind = tensor.is_complex() == result.is_complex() and tensor.numel() == result.numel()
    return same_kind and torch.allclose(numbers(tensor), numbers(result), 1e-9, 1e-12, equal_nan=True)


def laid_as(value: Value, tensor: torch.Tensor) -> TraceOperand:
    """A value as a result has it, with the steps of the program that lay it out so, if some are known."""
    for way in ((), *reversed(value.ways)):
        laid = laid_by(value.tensor, way)
        if laid is not None and laid.shape == tensor.shape and torch.equal(laid.detach(), tensor):
            return TraceOperand("", value, laid, way)
    return TraceOperand("", value, tensor, ())


def laid_by(tensor: torch.Tensor | None, way: Sequence[Step]) -> torch.Tensor | None:
    """A value's elements, laid out by some steps; None if they do not fit."""
    try:
        for step in way if tensor is not None else ():
            tensor = step.applied(tensor)
    except (RuntimeError, ValueError, IndexError):
        return None
    return tensor


def same_shape(value: Value, other: Value) -> bool:
    return value.tensor.shape == other.tensor.shape and value.tensor.dtype == other.tensor.dtype


def _in_rows(value: Value, other: Value) -> bool:
    """The same of rows of one length, however many axes they have."""
    alike = value.count == other.count and value.tensor.dtype == other.tensor.dtype
    return alike and value.tensor.shape[-1:] == other.tensor.shape[-1:]


def align(matching: Matching, original: Sequence[TraceCall], port: Sequence[TraceCall]) -> list[CallPair]:
    """Both sequences in order, partners side by side: global alignment (Needleman and Wunsch, 1970) by names and operands.

    Gaps cost nothing, and among equal alignments the one that skips calls earliest counts, the original's first: so a missing or
    additional call comes before its followers. ``recording.alignment`` is another algorithm: it divides runs of 10^5 calls, charges
    gaps, and prefers pairs among equal alignments.
    """
    rows, columns = len(original), len(port)
    best = [[0.0] * (columns + 1) for _ in range(rows + 1)]
    for row in range(rows - 1, -1, -1):
        for column in range(columns - 1, -1, -1):
            together = best[row + 1][column + 1] + _likeness(matching, original[row], port[column])
            best[row][column] = max(together, best[row + 1][column], best[row][column + 1])
    pairs, row, column = [], 0, 0
    while row < rows and column < columns:
        if best[row][column] == best[row + 1][column]:
            pairs.append(CallPair(original[row], None))
            row += 1
        elif best[row][column] == best[row][column + 1]:
            pairs.append(CallPair(None, port[column]))
            column += 1
        else:
            pairs.append(CallPair(original[row], port[column]))
            row, column = row + 1, column + 1
    pairs += [*(CallPair(node, None) for node in original[row:]), *(CallPair(None, node) for node in port[column:])]
    _uncross(matching, pairs)
    return _tables_first(pairs)


def _tables_first(pairs: list[CallPair]) -> list[CallPair]:
    """Calls that look up one table come first where the first call is alone: of those in front of them only the indices count."""
    if not pairs or None not in pairs[0]:
        return pairs
    return sorted(pairs, key=lambda pair: not (_looks_up(pair.original) and _looks_up(pair.port)))


def _looks_up(node: TraceCall | None) -> bool:
    return node is not None and node.name == "embedding"


def _uncross(matching: Matching, pairs: list[CallPair]) -> None:
    """Exchange the partners of two pairs where that fits computed operands better: branches in the other order, not weights."""
    for place, later in itertools.combinations(range(len(pairs)), 2):
        (original, port), (further, beside) = pairs[place], pairs[later]
        if original is None or port is None or further is None or beside is None:
            continue
        if len({*map(kind, (original, port, further, beside))}) > 1 or not (
            same_results(original, beside) and same_results(further, port)
        ):
            continue
        straight, crossed = ((original, port), (further, beside)), ((original, beside), (further, port))
        fit, better = (sum(_shared(matching, *pair, computed=True) for pair in way) for way in (straight, crossed))
        if better > fit:
            pairs[place], pairs[later] = CallPair(original, beside), CallPair(further, port)


def _shared(matching: Matching, call: TraceCall, other: TraceCall, *, computed: bool = False) -> int:
    """How many of a call's operands another call reads, too; ``computed``: without what was there before."""
    operands = [operand for operand in other.operands if not computed or operand.value.node is not None]
    return sum(any(matching.same(own.value, operand.value) for own in call.operands) for operand in operands)


_PRODUCTS = frozenset({"mm", "addmm", "bmm", "baddbmm", "matmul", "linear", "addmv", "mv"})
_MASKED = frozenset({"masked_fill", "where"})
_LOOKUPS = frozenset({"embedding", "index", "index_select"})
_WRITES = frozenset({"fill", "copy", "index_put", "setitem"})


def kind(node: TraceCall) -> str:
    return kind_of(node.name)


def kind_of(name: str) -> str:
    """One word for ops that may stand for each other."""
    if name in _MASKED:
        return "masked"
    if name in _LOOKUPS:
        return "rows of a table"
    if name in _WRITES:
        return "written"
    return "product" if name in _PRODUCTS else name


def same_results(call: TraceCall, other: TraceCall) -> bool:
    return len(call.results) == len(other.results) and all(map(same_shape, call.results, other.results))


def depends_on(value: Value, node: TraceCall, among: Callable[[Value], bool] = lambda _: True) -> bool:
    """Whether a value is computed from a call's result; ``among``: by way of which values."""
    waiting, known = [value], set()
    while waiting:
        source = waiting.pop()
        if source.node is None or not among(source):
            continue
        if source.node is node:
            return True
        if source.node.index > node.index and source.node.index not in known:
            known.add(source.node.index)
            waiting += [operand.value for operand in source.node.operands]
    return False


def _likeness(matching: Matching, call: TraceCall, other: TraceCall) -> float:
    """How well two calls may stand for each other; at most 0 if they may not."""
    shared = _shared(matching, call, other)
    if kind(call) != kind(other):
        # Another op in the same place: its operands and its result must fit.
        fit = same_shape(call.result, other.result) or (
            _in_rows(call.result, other.result) and "product" not in (kind(call), kind(other))
        )
        return 1.0 + shared if fit and shared and not call.moves and not other.moves else -1.0
    return 4.0 + 2.0 * same_results(call, other) + shared + (call.attributes == other.attributes)


def value_taken_for(matching: Matching, pair: CallPair) -> tuple[Value, Value] | None:
    """The one value of the original that the port's call does not read, and the value of the original that it reads instead."""
    if pair.original is None or pair.port is None:
        return None
    expected, actual = ([operand.value for operand in node.operands] for node in (pair.original, pair.port))
    for value in list(expected):
        equal = next((other for other in actual if matching.same(value, other)), None)
        if equal is not None:
            expected.remove(value)
            actual.remove(equal)
    if not expected or len(expected) != len(actual):
        return None
    place = 0
    if len(expected) > 1:  # a layer that is taken for another: its weight tells
        if any(value_.node is not None for value_ in (*expected, *actual)):
            return None
        place = max(range(len(expected)), key=lambda at: expected[at].tensor.numel())
    partner = matching.of_second.get(actual[place])
    return None if partner is None else (expected[place], partner)


# ---- The results of the port that are exchanged for the original's, so that both go on alike behind a mistake.

Mend = tuple[TraceCall, Sequence[torch.Tensor | None]]  # a call, and new elements for its results; None: they stay


def mend_for(matching: Matching, pairs: Sequence[CallPair]) -> Mend | None:
    """Whose results to exchange: of the call that feeds a missing call, of a call too many, or of the first pair."""
    first = pairs[0]
    both = [pair for pair in pairs if pair.original and pair.port and not pair.port.view]
    both = [pair for pair in both if pair.original and pair.port and same_results(pair.original, pair.port)]
    # A call beside the difference may be a mistake of its own, which the original's values would cover.
    following = next((pair for pair in both if leads_to(matching, first, pair)), both[0] if both else None)
    if first.port is None and first.original is not None and following is not None:
        # An operand that the missing call alone reads may hold its result; an operand of others stays.
        skipped = [
            operand.value
            for operand in first.original.operands
            if operand.value in matching.of_first and len(operand.value.readers) == 1
        ]
        for operand in following.port.operands if following.port else ():
            node, partner = operand.value.node, matching.of_second.get(operand.value)
            if node is None or node.view or partner is None or partner not in skipped:
                continue
            wanted = _in_shape(first.original, operand.value, partner)
            if wanted is not None:
                return node, [wanted]
        instead = call_in_its_place(matching, first.original, following, pairs)
        if instead is not None:
            return instead, [first.original.result.tensor]
    if first.original is None and first.port is not None:
        for operand in first.port.operands:
            if (
                not first.port.view
                and matching.is_matched(operand.value)
                and operand.tensor.shape == first.port.result.tensor.shape
            ):
                return _joined(matching, first.port, pairs), [operand.tensor]
    if following is None or following.port is None or following.original is None:
        return None
    whole = with_bias(following.original, following.port), with_bias(following.port, following.original)
    if whole != (following.original, following.port):
        return whole[1], [whole[0].result.tensor.reshape(whole[1].result.tensor.shape)]
    updated = following.original.updated if len(following.original.updated) == len(following.port.updated) else []
    exchange = [exchangeable_result(following, value.tensor) for value in (*following.original.results, *updated)]
    if matching.are_turned(following.original, following.port) and not matching.same(
        following.original.result, following.port.result
    ):
        exchange = [
            tensor.mT if tensor is not None and tensor.dim() == 2 and tensor.shape[0] == tensor.shape[1] else tensor
            for tensor in exchange
        ]
    return following.port, exchange


def mend_of_end(end: tuple[Value | None, Value | None]) -> Mend | None:
    """Where no call follows a difference: the program's result, unless a call of its own reads that, too."""
    expected, actual = end
    if (
        expected is None
        or actual is None
        or actual.node is None
        or actual.readers
        or actual.node.view
        or not same_shape(expected, actual)
    ):
        return None
    return actual.node, [expected.tensor if value is actual else None for value in actual.node.values]


def _in_shape(missing: TraceCall, value: Value, partner: Value) -> torch.Tensor | None:
    """A missing call's result in the shape of the port's same operand; None if it has another extent.

    Scores are a product's result by heads in one stack on both sides, and only their reader has a batch.
    """
    made = missing.result
    if same_shape(value, made):
        return made.tensor
    operand = next((operand_ for operand_ in missing.operands if operand_.value is partner), None)
    if operand is None or operand.tensor.shape != made.tensor.shape or value.tensor.shape != partner.tensor.shape:
        return None
    if value.tensor.dtype != made.tensor.dtype or not torch.equal(operand.tensor.reshape(-1), partner.tensor.reshape(-1)):
        return None
    return made.tensor.reshape(value.tensor.shape)


def call_in_its_place(matching: Matching, missing: TraceCall, following: CallPair, pairs: Sequence[CallPair]) -> TraceCall | None:
    """The last of the port's calls that compute in another way what a missing call gives to the next call of the original."""
    if (
        following.original is None
        or following.port is None
        or all(operand.value is not missing.result for operand in following.original.operands)
    ):
        return None
    alone = {pair.port.index: pair.port for pair in pairs if pair.original is None and pair.port is not None}
    waiting = [operand.value for operand in following.port.operands]
    while waiting:
        value = waiting.pop(0)
        if value.node is None or value.node.index not in alone or matching.is_matched(value):
            continue
        is_like = not value.node.view and (missing.moves or not value.node.moves)
        if is_like and value is value.node.result and same_shape(value, missing.result):
            return value.node
        waiting += [operand.value for operand in value.node.operands]
    return None


def leads_to(matching: Matching, first: CallPair, pair: CallPair) -> bool:
    """Whether a pair is the first pair, or computed from it in either program, by way of wrong values alone."""
    wrong = (lambda value: value not in matching.of_first), (lambda value: not matching.is_matched(value))
    return first == pair or any(
        node is not None and source is not None and any(depends_on(operand.value, source, among) for operand in node.operands)
        for source, node, among in zip(first, pair, wrong)
    )


_BARE, BIASED = frozenset({"mm", "bmm"}), frozenset({"addmm", "baddbmm"})


def with_bias(product: TraceCall, other: TraceCall) -> TraceCall:
    """The call that adds the bias of a product, if it is a call of its own, and not in the other program; else the product.

    Which of the two a linear layer makes, depends on how its operand lies in memory.
    """
    if product.name not in _BARE or other.name not in BIASED:
        return product
    for reader in product.result.readers:
        biases = [operand for operand in reader.operands if operand.value.node is None and operand.tensor.dim() == 1]
        made, wanted = reader.result.tensor, other.result.tensor
        alike = reader.layer == product.layer and made.numel() == wanted.numel() and made.dtype == wanted.dtype
        if reader.name == "add" and biases and alike:
            return reader
    return product


def _joined(matching: Matching, first: TraceCall, pairs: Sequence[CallPair]) -> TraceCall:
    """Where a call too many and calls that are too many beside it meet: both are one expression."""
    alone = []
    for pair in pairs:
        if pair.port is None or pair.original is not None:
            break
        alone.append(pair.port)
    inside, last = {first}, first
    for node in alone:
        made = [
            operand.value.node
            for operand in node.operands
            if operand.value.node in alone and not matching.is_matched(operand.value)
        ]
        if any(source in inside for source in made):
            inside.add(node)
            if any(source not in inside for source in made) and not node.view and same_results(node, first):
                inside, last = {*alone[: alone.index(node) + 1]}, node
    return last


def exchangeable_result(pair: CallPair, wanted: torch.Tensor) -> torch.Tensor | None:
    """The original's result for the port's call. Whole numbers are places in an operand: in another shape they may lie outside."""
    if wanted.is_floating_point():
        return wanted
    original, port = (node.operands[:1] if node is not None else [] for node in pair)
    same = pair.original and pair.port and pair.original.name == pair.port.name and original and port
    return wanted if same and original[0].tensor.shape == port[0].tensor.shape else None
