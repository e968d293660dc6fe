"""Which values of two traces are the same, up to rounding, whatever their layout."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import torch

from .tolerances import FILLED, RoundingBound, floor_of
from .trace import Node, Operand, Trace, Value, numbers

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

    def are_turned(self, theirs: Node, ours: Node) -> bool:
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

    def in_one_order(self, mine: Operand, yours: Operand) -> bool:
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


def _of_weights(trace: Trace) -> set[Node]:
    """The calls that compute from what was there before, inputs aside."""
    found: set[Node] = set()
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


def guilty(ends: Iterable[Value], good: Callable[[Value], bool]) -> list[Node]:
    """The calls between good values and wrong ones ``ends``, in order."""
    region: dict[int, Node] = {}
    waiting = [value.node for value in ends if value.node is not None and not good(value)]
    while waiting:
        node = waiting.pop()
        if node is None or node.index in region:
            continue
        region[node.index] = node
        waiting += [one.value.node for one in node.operands if one.value.node is not None and not good(one.value)]
    return [region[index] for index in sorted(region)]


def roots(region: Iterable[Node], good: Callable[[Value], bool]) -> list[Node]:
    """The nodes of a region whose operands are good, or no call's results."""
    return [node for node in region if all(good(one.value) or one.value.node is None for one in node.operands)]
