"""One product with several weights in one matrix, where the other program has a product for each: other sums in the backward.

In a port no value of such a product is one of the original's, except the gradient of what it reads, so no call shows that it is an
origin: the layouts of the weights do. In an original the gradient of what the port's products read shows it.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from ...text import tr
from ...weights.mapping import Mapping as Weights
from ...weights.pairing import Pair
from ...weights.tree import TRANSPOSED
from .. import agreement
from ..programs import RunOutcome
from .calls import CallRecorder, OpCall, ValueId
from .changes import MOVES, Candidate, Change
from .followed_runs import CallPlace, LinkedCapture, NumberedCapture, call_number
from .formulation import GROUPING, Formulation
from .origins import OriginGroup, labels_read

_PRODUCTS = {"linear": ("F.linear", "weight"), "matmul": ("paddle.matmul", "y")}  # how they are called, with which weight
_MOST_JOINED = 3  # products in one, of which every order is tried


class FusedRows(NamedTuple):
    """Rows of a matrix [out, in] that are several weights: in so many groups, each with a block of every weight.

    Attributes:
        groups: the number of groups.
        sizes: of each weight's block in a group, in the order of the rows.
    """

    groups: int
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, pairs: Sequence[Pair]) -> FusedRows | None:
        """The blocks of a matrix of Paddle's; None if other steps lead to its parts."""
        parts = []
        for pair in pairs:
            slot, steps = pair.paddle_slot, pair.paddle_slot.steps
            if slot.weight is None:
                return None
            axis = 0 if slot.layout == TRANSPOSED else len(slot.weight.shape) - 1  # Paddle's matrices are [in, out]
            kinds = [(step.kind, step.axis - axis) for step in steps]
            if kinds == [("narrow", 0)]:
                parts.append((1, slot.weight.shape[-1], *steps[0].numbers))
            elif kinds == [("unflatten", 0), ("narrow", 1)]:
                parts.append((*steps[0].numbers, *steps[1].numbers))
            else:
                return None
        (groups, rows), *others = {part[:2] for part in parts}
        parts.sort(key=lambda part: part[2])
        starts, stops = tuple(part[2] for part in parts), tuple(part[3] for part in parts)
        whole = (0, *stops) == (*starts, rows)
        sizes = tuple(stop - start for start, stop in zip(starts, stops))
        return cls(groups, sizes) if whole and not others and len(parts) > 1 else None

    def part(self, name: str, place: int) -> str:
        """A weight's part of a matrix [in, out] or of a bias."""
        equal = len(set(self.sizes)) == 1  # then of any width, since layers of one line may have several
        taken = f"chunk({len(self.sizes)}, -1)[{place}]" if equal else f"split({list(self.sizes)}, -1)[{place}]"
        if self.groups == 1:
            return f"{name}.{taken}"
        return f"paddle.unflatten({name}, -1, [{self.groups}, {sum(self.sizes)}]).{taken}.flatten(-2)"

    def products(self, *, bias: bool) -> list[str]:
        """A product for each weight."""
        names = ("w", "b") if bias else ("w",)
        parts = [[self.part(name, place) for name in names] for place in range(len(self.sizes))]
        return [f"F.linear({', '.join(['x', *words])})" for words in parts]

    def joined(self, *, bias: bool) -> str:
        """The result of the one product."""
        products = self.products(bias=bias)
        if self.groups == 1:
            return f"paddle.concat([{', '.join(products)}], -1)"
        parts = [f"paddle.unflatten({text}, -1, [{self.groups}, {size}])" for text, size in zip(products, self.sizes)]
        return f"paddle.concat([{', '.join(parts)}], -1).flatten(-2)"


class FusedProduct(NamedTuple):
    """A line of the port that makes one product with several weights, or several that the original makes as one, each time it runs.

    Attributes:
        weights: the names of the matrices, and of their biases, in the port.
        times: the numbers of its products, for each change that may be written.
        changes: what may be written.
        groups: its gradients that differ.
    """

    weights: set[str]
    times: list[set[int]]
    changes: list[Change]
    groups: list[OriginGroup]


def fused_products(
    mapping: Weights,
    parameters: Mapping[str, Any],
    recorder: CallRecorder,
    places: Sequence[CallPlace],
    outcomes: tuple[RunOutcome, RunOutcome],
) -> list[FusedProduct]:
    """Those whose gradients differ between runs of the original and of the port."""
    rows: dict[str, list[tuple[Pair, Any, Any]]] = defaultdict(list)  # by the port's name of one that is whole on either side
    parts = set[str]()  # of weights of the original's
    for pair, (_, expected, actual) in zip(mapping, agreement.gradients(mapping, *outcomes)):
        if (pair.paddle_slot.steps and pair.torch_slot.whole) or (pair.torch_slot.steps and pair.paddle_slot.whole):
            rows[pair.paddle].append((pair, expected, actual))
            parts.update([pair.paddle] if pair.torch_slot.steps else ())
    by_value = {recorder.value(parameters[name]).number: name for name in rows if name in parameters}
    candidates: dict[Any, dict[str, list[Candidate]]] = defaultdict(lambda: defaultdict(list))
    products: dict[Any, FusedProduct] = {}
    read_by = [{by_value[value.number] for _, value in call.inputs if value.number in by_value} for call in recorder.calls]
    held = {name: blocks for name, pairs in rows.items() if (blocks := FusedRows.of([pair for pair, _, _ in pairs])) is not None}
    separate = (candidate for number in range(len(read_by)) for candidate in _separate(recorder, number, by_value, held))
    joined = joined_products(recorder.calls, [number for number, names in enumerate(read_by) if parts & names])
    for candidate in itertools.chain(separate, joined):
        site, numbers = places[candidate.calls[0]].site, {number for number in candidate.calls if read_by[number]}
        product = products.setdefault(site, FusedProduct(set(), [], [], []))
        candidates[site][candidate.formulation.spellings[0]].append(candidate)
        if numbers not in product.times:
            product.times.append(numbers)
            for number, name in [(each, name) for each in sorted(numbers) for name in sorted(read_by[each])]:
                product.weights.add(name)
                if any(expected is not None and not np.array_equal(expected, actual) for _, expected, actual in rows[name]):
                    product.groups.extend(_gradient(rows[name], number, outcomes))
    for site, product in products.items():
        for same in candidates[site].values():
            if len(same) == len(product.times):
                product.changes.append(Change(same[0].formulation, tuple(same)))
    return [product for product in products.values() if product.groups]


def _separate(
    recorder: CallRecorder, number: int, by_value: Mapping[int, str], held: Mapping[str, FusedRows]
) -> Iterator[Candidate]:
    """A product for each weight in the place of what takes one with all apart, and of the product alone."""
    calls = recorder.calls
    read = dict(calls[number].inputs)
    blocks = held.get(by_value.get(read["weight"].number, "")) if calls[number].op == "linear" and "weight" in read else None
    if blocks is None:
        return
    bias = "bias" in read and read["bias"].number in by_value
    operands: dict[str, ValueId | float] = {"x": read["x"], "w": read["weight"], **({"b": read["bias"]} if bias else {})}
    (whole,) = calls[number].outputs
    parts, moving = _parts(recorder, whole, blocks)
    sides = [recorder.memory(part) for part in parts]
    rows = list(recorder.memory(read["x"]).shape[:-1])
    if all(_in_memory(side)[: len(rows)] == rows for side in sides):
        for place in range(max((side.ndim - len(rows) for side in sides), default=0)):
            texts = [_arranged(text, side, len(rows), place) for text, side in zip(blocks.products(bias=bias), sides)]
            yield Candidate(_formulation(f"[{', '.join(texts)}]"), (number, *moving), operands, parts)
    yield Candidate(_formulation(blocks.joined(bias=bias)), (number,), operands, (whole,))


def _parts(recorder: CallRecorder, whole: ValueId, blocks: FusedRows) -> tuple[tuple[ValueId, ...], list[int]]:
    """The values that take a product apart into those with each weight, and the calls that make them; none of one that is read
    otherwise."""
    starts = [sum(blocks.sizes[:place]) for place in range(len(blocks.sizes))]
    parts, moving, waiting = dict[int, ValueId](), list[int](), [whole]
    begin, count = recorder.memory(whole).data_ptr(), recorder.memory(whole).size
    while waiting:
        value = waiting.pop()
        for number, call in enumerate(recorder.calls):
            if all(value != held for _, held in call.inputs):
                continue
            moving.append(number)
            for made in call.outputs:
                side = recorder.memory(made)
                at = (side.data_ptr() - begin) // side.element_size()
                of_part = at in starts and side.size * sum(blocks.sizes) == count * blocks.sizes[starts.index(at)]
                if call.op not in MOVES or (not of_part and (side.size, at) != (count, 0)) or (of_part and at in parts):
                    return (), []
                parts.update({at: made} if of_part else {})
                waiting += [] if of_part else [made]
    return tuple(parts[at] for at in starts if len(parts) == len(starts)), sorted(moving)


def _order(side: Any) -> list[int]:
    """The axes of a tensor as they lie in memory."""
    return sorted(range(side.ndim), key=lambda axis: -side.strides[axis])


def _in_memory(side: Any) -> list[int]:
    """How long they are."""
    return [side.shape[axis] for axis in _order(side)]


def _arranged(text: str, side: Any, rows: int, place: int) -> str:
    """A product in the arrangement of a part. ``place``: of the axis whose length follows from those of the others."""
    order, lengths = _order(side), _in_memory(side)[rows:]
    lengths[min(place, len(lengths) - 1)] = -1
    laid = f"paddle.unflatten({text}, -1, {lengths})" if len(lengths) > 1 else text
    moved = [order.index(axis) for axis in range(side.ndim)]
    return laid if moved == sorted(moved) else f"{laid}.transpose({moved})"


def _formulation(text: str) -> Formulation:
    why = tr("the gradients of one product with all weights are summed in another order than those of a product for each")
    return Formulation(GROUPING, str(tr("one product with several weights")), str(why), (text,))


def joined_products(calls: Sequence[OpCall], numbers: Iterable[int]) -> Iterator[Candidate]:
    """One product in the place of some calls and all that read the same value, as an original has it: in each order of weights."""
    readers: dict[tuple[str, ValueId, bool], list[int]] = defaultdict(list)
    for number, call in enumerate(calls):
        read = dict(call.inputs)
        if call.op in _PRODUCTS and {"x", _PRODUCTS[call.op][1]} <= read.keys() and not any(call.attributes.values()):
            readers[call.op, read["x"], "bias" in read].append(number)
    for (op, x, biased), products in readers.items():
        among = len(products) <= _MOST_JOINED and set(numbers).intersection(products)
        for order in itertools.permutations(range(len(products))) if among and len(products) > 1 else ():
            function, weight = _PRODUCTS[op]
            kinds = {"w": weight, "b": "bias"} if biased else {"w": weight}
            operands: dict[str, ValueId | float] = {"x": x}
            for name, kind in kinds.items():
                operands |= {f"{name}{at}": dict(calls[number].inputs)[kind] for at, number in enumerate(products)}
            words = ["x", *(f"paddle.concat([{', '.join(f'{name}{at}' for at in order)}], -1)" for name in kinds)]
            sizes = ", ".join(f"w{at}.shape[-1]" for at in order)
            formulation = _formulation(f"paddle.split({function}({', '.join(words)}), [{sizes}], -1)")
            results = tuple(calls[products[at]].outputs[0] for at in order)
            yield Candidate(formulation, tuple(products), operands, results)


def _gradient(rows: Sequence[tuple[Pair, Any, Any]], number: int, outcomes: tuple[RunOutcome, RunOutcome]) -> Iterator[OriginGroup]:
    """The gradient of a matrix of several weights, or of their biases, beside those of the original's."""
    original, port = (outcome.capture for outcome in outcomes)
    assert isinstance(original, LinkedCapture)
    assert isinstance(port, NumberedCapture)
    behind = [node for node in port.trace.nodes if node.backward and call_number(node) == number and node.results]
    names = {pair.torch for pair, _, _ in rows}
    forward = {original.sequence.get(call) for call in original.trace.nodes if not call.backward and names & labels_read(call)}
    gradient_calls = [call for call in original.trace.nodes if call.backward and original.sequence.get(call) in forward]
    arrays = [(row[1].ravel(), row[2].ravel()) for row in rows]
    expected, actual = (torch.from_numpy(np.concatenate(parts)) for parts in zip(*arrays))
    if behind and gradient_calls:
        yield OriginGroup((behind[-1].key, 0), actual, expected, behind, gradient_calls, ([], []), ([], []))
