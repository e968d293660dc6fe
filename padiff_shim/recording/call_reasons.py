"""What a call does otherwise in one of two runs, as far as its recorded values and what it reads tell."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..text import joined, shown, tr
from .alignment import lie_alike
from .call_origins import ARGUMENTS
from .difference import DifferenceReason, TensorRow
from .operands import Arranged, Concatenated, alike, arrangement_of, concatenation_of, masks, to_write
from .rank_causes import SCALE
from .tensors import Array, RecordedOperand, Tensor, multiple
from .whole_tensors import JoinedTensor, RankTensor

AXIS, MASK, ORDER_OF_ELEMENTS, ORDER_OF_OPERANDS, OPERAND, ARRANGED, ROWS, DTYPE, CALLS, AVERAGE = (
    "axis", "mask", "order of elements", "order of operands", "operand", "arrangement", "normalization", "dtype", "calls",
    "moving average",
)  # fmt: skip
GRAPH_END, LABELS = "graph ends", "labels"
CALL_KINDS = (AXIS, MASK, ORDER_OF_ELEMENTS, ORDER_OF_OPERANDS, OPERAND, ARRANGED, ROWS, DTYPE, CALLS, ARGUMENTS, SCALE)
_CLOSE = 1e-4  # relative to the largest element: rounding, and what calls before have made of it
_EQUAL = 1e-6  # relative: calls that agree
_NOTHING = 1e-20  # a probability that is none: that of a masked score is zero, or what a kernel's exp makes at its lower end
_HIDDEN = -1e4  # scores below it are masked
_SMOOTHED = 2e-3  # shares of labels, as losses in float32 tell them
_GATES = 4  # results before a call, two of which it may activate and multiply
_MOST = 4096  # slices whose order is looked for
_BRIEF = 80  # characters that a headline has room to tell to write
_NOTHING_WANTED = {"false", "none", "nchw", "ncl", "ncdhw", "explicit"}  # arguments that say nothing
_SPELLINGS = (  # of one call
    frozenset({"matmul", "linear", "mm", "bmm", "addmm"}),
    frozenset({"rnn", "lstm", "gru", "rnn_tanh", "rnn_relu"}),
)
_NUMBER = re.compile(r"-?\d*\.?\d+(?:e-?\d+)?")
_FLOATS = ("float16", "bfloat16", "float32", "float64")


def of_call(rows: Sequence[TensorRow], row: TensorRow) -> DifferenceReason | None:
    """The reason for what a call or a layer returns, if all that it is known to read agrees; None where nothing tells."""
    a, b = row.a, row.b
    if a is None or b is None or a.kind not in ("op", "layer"):
        return None
    if other := other_dtypes([row]):
        return other
    ways = _read(rows, a, b)
    others = _of_arrangements(rows, ways)
    arranged = others if others is not None and others.kind == ARRANGED else None
    reads = (
        _of_order_of_operands(rows, a, b, ways)
        or _of_operands(rows, a, b)
        or arranged
        or _of_gate(rows, a, b)
        or _of_layers(rows, a, b)
        or _of_attention(a, b, ways)
    )
    if reads is not None:
        return reads
    if a.kind == "op" and a.size == 1 and not a.layer and not {*a.names} & {*b.names}:
        return None  # a loss, which is computed in several ways
    arguments, sure = _of_arguments(rows, a, b)
    if sure:  # a number of each, and nothing else
        return arguments
    first, second = _float(a), _float(b)
    if first is not None and second is not None and lie_alike(first.shape, second.shape) and first.size == second.size > 1:
        for rule in (_of_axis, _of_factor, _of_mask, _of_order, _of_rows):
            if (reason := rule(first.reshape(second.shape), second)) is not None:
                return reason
    spelled = any(spellings.intersection(a.names) and spellings.intersection(b.names) for spellings in _SPELLINGS)
    if others is not None or a.kind != "op" or {*a.names} & {*b.names}:
        return others or arguments
    return None if spelled else other_calls(_api(a), _api(b))


def other_calls(a: str, b: str) -> DifferenceReason:
    """A call of each run in the other's place."""
    return DifferenceReason(CALLS, tr("a calls {a} here, b {b}", a=shown(a), b=shown(b)), {"a": a, "b": b})


def _api(call: Tensor) -> str:
    """The program's word for a call: Paddle's op for it may be one of several functions."""
    way = "" if call.reads is None else call.reads.arguments.get("pooling_type", "").strip("'")
    if way:
        return f"{way}_{call.name}"
    module, _, word = call.function.rpartition(".")
    return word if module.endswith("nn.functional") else call.name


def other_dtypes(rows: Sequence[TensorRow]) -> DifferenceReason | None:
    """The first result of a call that the runs compute in other dtypes of floats."""
    for row in rows:
        dtypes = [side.dtype for side in (row.a, row.b) if side is not None and side.kind in ("op", "layer")]
        if len({*dtypes}) == 2 and {*dtypes} <= {*_FLOATS}:
            numbers: dict[str, Any] = {"a": dtypes[0], "b": dtypes[1]}
            text = tr("a computes in {a}, b in {b}, from {row} on", **numbers, row=row.any.sentence(brief=True))
            return DifferenceReason(DTYPE, text, numbers)
    return None


def _float(tensor: Tensor) -> Array | None:
    values = tensor.values()
    return None if values is None or values.dtype.kind != "f" or np.isnan(values).any() else values.astype(np.float64)


def _of_axis(a: Array, b: Array) -> DifferenceReason | None:
    """Along which axis a softmax adds up to one."""
    axes = [
        [axis - values.ndim for axis in range(values.ndim) if values.min() >= 0 and np.allclose(values.sum(axis), 1.0, atol=1e-3)]
        for values in (a, b)
    ]
    if not all(axes) or {*axes[0]} & {*axes[1]}:
        return None
    text = tr("a adds up to one along axis {a}, b along axis {b}", a=axes[0][0], b=axes[1][0])
    return DifferenceReason(AXIS, text, {"a": axes[0][0], "b": axes[1][0]})


def _of_mask(a: Array, b: Array) -> DifferenceReason | None:
    """Which scores are masked: what is far below zero, or zero behind a softmax."""
    if a.ndim < 2:
        return None
    masks = []
    for values in (a, b):
        probabilities = values.min() >= 0 and np.allclose(values.sum(-1), 1.0, atol=1e-3)
        masks.append(values < _NOTHING if probabilities else values < _HIDDEN)
    hidden = [int(mask.sum()) for mask in masks]
    if not any(hidden) or np.array_equal(masks[0], masks[1]):
        return None
    words = [_mask_words(mask) for mask in masks]
    return DifferenceReason(MASK, tr("the mask hides {a} in a, {b} in b", a=words[0], b=words[1]), {"a": hidden[0], "b": hidden[1]})


def _of_factor(a: Array, b: Array) -> DifferenceReason | None:
    """One factor between the scores that neither run masks."""
    seen = (a > _HIDDEN) & (b > _HIDDEN)
    factor = None if seen.all() or not seen.any() else multiple(a[seen], b[seen], _CLOSE)
    if factor is None or abs(factor - 1) <= _CLOSE:
        return None
    return scaled(factor)


def scaled(factor: float) -> DifferenceReason:
    """One factor between two results."""
    return DifferenceReason(SCALE, tr("a's values are {factor:.6g} times b's", factor=factor), {"factor": factor})


def _from_diagonal(diagonal: int | None) -> str:
    return tr("nothing") if diagonal is None else tr("what lies from diagonal {diagonal} on", diagonal=diagonal)


def _mask_words(mask: Array) -> str:
    """What a mask hides: all from a diagonal on, or so many elements."""
    between = np.arange(mask.shape[-1]) - np.arange(mask.shape[-2])[:, None]
    hidden = between[mask.reshape(-1, *mask.shape[-2:]).all(0)]
    if hidden.size and np.array_equal(mask, np.broadcast_to(between >= hidden.min(), mask.shape)):
        return _from_diagonal(int(hidden.min()))
    return tr("{count:,} of {all:,} elements", count=int(mask.sum()), all=mask.size) if mask.any() else tr("nothing")


def _of_order(a: Array, b: Array) -> DifferenceReason | None:
    """Slices along an axis that stand in another order."""
    size = _CLOSE * float(np.abs(b).max(initial=0.0))
    for axis in range(a.ndim - 1, -1, -1):
        count = a.shape[axis]
        if not 1 < count <= _MOST:
            continue
        rows = [np.moveaxis(values, axis, 0).reshape(count, -1) for values in (a, b)]
        drawn = np.random.default_rng(0).standard_normal(rows[0].shape[1])
        orders = [np.argsort(side @ drawn, kind="stable") for side in rows]
        if np.abs(rows[0][orders[0]] - rows[1][orders[1]]).max() > size or np.ptp(rows[1], axis=0).max() <= size:
            continue
        order = np.empty(count, np.int64)
        order[orders[0]] = orders[1]
        if not count % 2:
            pairs = np.arange(count).reshape(2, -1).T.reshape(-1)
            for side, own, other in (("a", rows[0], rows[1]), ("b", rows[1], rows[0])):
                if np.abs(own - other[pairs]).max() <= size:
                    text = tr(
                        "the elements along axis {axis} stand in pairs in {side}, and in halves in the other run",
                        axis=axis - a.ndim,
                        side=side,
                    )
                    return DifferenceReason(ORDER_OF_ELEMENTS, text, {"axis": axis - a.ndim, "pairs": side})
        places = ", ".join(map(str, order[:16])) + ("..." if count > 16 else "")
        text = tr("a's elements along axis {axis} are b's in the order {order}", axis=axis - a.ndim, order=places)
        return DifferenceReason(ORDER_OF_ELEMENTS, text, {"axis": axis - a.ndim, "order": order.tolist()})
    return None


def _of_rows(a: Array, b: Array) -> DifferenceReason | None:
    """Each row by a factor of its own, as of a normalization that divides by something else."""
    rows = a.reshape(-1, a.shape[-1]), b.reshape(-1, b.shape[-1])
    squares = (rows[1] * rows[1]).sum(1)
    if rows[0].shape[1] < 4 or len(squares) < 2 or not squares.all():
        return None
    factors = (rows[0] * rows[1]).sum(1) / squares
    left = np.linalg.norm(rows[0] - factors[:, None] * rows[1])
    if (factors <= 0).any() or left > 1e-2 * np.linalg.norm(rows[0] - rows[1]):
        return None
    low, high = float(factors.min()), float(factors.max())
    if high - low <= _CLOSE * high:
        return scaled(high)
    words = tr("a's rows are b's times {low:.4g} to {high:.4g}", low=low, high=high)
    text = tr("{words}: a norm divides by something else, as with another epsilon", words=words)
    return DifferenceReason(ROWS, text, {"low": low, "high": high})


def _of_operands(rows: Sequence[TensorRow], a: Tensor, b: Tensor) -> DifferenceReason | None:
    """A call that reads another result: those of both runs were made at places that do not belong together."""
    if a.reads is None or b.reads is None:
        return None
    made = [
        {bits: row for row in rows if (side := getattr(row, name)) is not None for bits in digests(side) if bits} for name in "ab"
    ]
    known = [
        [(row, side) for operand in tensor.reads.operands if (row := table.get(operand.digest)) and (side := getattr(row, name))]
        for tensor, table, name in zip((a, b), made, "ab")
        if tensor.reads is not None
    ]
    for row, operand_a in known[0]:
        for other, operand_b in known[1] if len(known[0]) == len(known[1]) else ():
            lone = all(row is not entry and operand_a.layer != tensor.layer for entry, tensor in known[1])
            lone = lone and all(other is not entry and operand_b.layer != tensor.layer for entry, tensor in known[0])
            if lone and operand_a.kind == operand_b.kind and operand_a.size == operand_b.size:
                return _reads_others(operand_a, operand_b)
    return None


def _reads_others(a: Tensor, b: Tensor) -> DifferenceReason:
    """Results of two places, of which each run has its call read another."""
    numbers = {"a": a.layer or a.name, "b": b.layer or b.name}
    text = tr("a reads {a}, b reads {b}", a=a.sentence(), b=b.sentence())
    brief = tr("a reads {a}, b reads {b}", a=shown(numbers["a"]), b=shown(numbers["b"]))
    return DifferenceReason(OPERAND, text, numbers, brief if numbers["a"] != numbers["b"] else "")


def of_lone_call(rows: Sequence[TensorRow], row: TensorRow) -> DifferenceReason | None:
    """A call of both runs that reads in one what the other's call reads behind one more call, perhaps of another rank; or another
    call in each. A layer is asked about what it returns."""
    a, b = row.a, row.b
    if a is None or b is None or not (row.any.kind == "layer" or {*a.names} & {*b.names}):
        return None
    reads = [{operand.digest for operand in side.reads.operands} if side.reads else digests(side) for side in (a, b)]
    before = [other for other in rows if other.any.kind in ("op", "layer") and other.any.step == row.any.step and other is not row]
    before = [other for other in before if other.any.index < row.any.index]
    calls = [other for other in before if other.any.kind == "op" and other.apart is None]
    unpaired = {side: [call for other in calls if (call := getattr(other, side))] for side in "ab"}
    lone = [  # other than what the call itself writes beside its result
        [call for call in unpaired[side] if call.call != own.call and digests(call) & known]
        for side, own, known in zip("ab", (a, b), reads)
    ]
    if len(lone[0]) == len(lone[1]) == 1 and not {*lone[0][0].names} & {*lone[1][0].names}:
        return other_calls(lone[0][0].name, lone[1][0].name)
    for place, side in enumerate("ab"):
        made = [other for other in before if other.apart is not None and digests(getattr(other, "ba"[place])) & reads[1 - place]]
        norms = [other.any.figures.get("norm", 0.0) for other in made]
        sources = set().union(*(digests(getattr(other, side)) for other in made))
        for call in lone[place] if norms and not lone[1 - place] else ():
            if call.reads is not None and sources.isdisjoint(operand.digest for operand in call.reads.operands):
                continue
            norm = call.figures.get("norm", 0.0)  # one that only moves its elements leaves it as it is
            if all(abs(norm - other) > _CLOSE * norm for other in norms):
                words = {"side": side, "call": call.sentence(brief=True), "other": "ba"[place]}
                text = tr("{side} calls {call} before it, {other} does not", **words)
                ranks = call.all_ranks if isinstance(call, RankTensor) else [row.rank]
                if row.rank not in ranks:
                    text = tr(
                        "{text}: rank {rank} receives what rank {sender} has made of it", text=text, rank=row.rank, sender=ranks[0]
                    )
                return DifferenceReason(CALLS, text, {"side": side, "call": call.name})
    for place, side in enumerate("ab" if row.any.kind == "layer" else ""):
        made = [other for other in before if other.apart and other.any.layer != row.any.layer]
        made = [other for other in made if digests(getattr(other, side)) == reads[place]]
        if made and digests(getattr(made[-1], "ba"[place])) != reads[1 - place]:
            words = {"side": side, "row": made[-1].any.sentence(brief=True), "other": "ba"[place]}
            return DifferenceReason(
                CALLS, tr("{side} returns {row} as it is, {other} does not", **words), {"side": side, "call": ""}
            )
    return None


def of_labels(rows: Sequence[TensorRow], first: TensorRow) -> DifferenceReason | None:
    """Whole numbers that calls behind all that agrees read in both runs, as labels of a loss, and that are others in each, or on a
    rank of one."""
    if first.a is None or first.b is None:
        return None
    before = [row for row in rows if row.apart is not None and row.any.index < first.any.index]
    read: list[dict[str, tuple[RecordedOperand, Tensor, int]]] = []
    for side, own in (("a", first.a), ("b", first.b)):
        calls = [call for row in rows if (call := getattr(row, side)) is not None and call.step == own.step and call.reads]
        reads = [
            (operand, call, rank) for call in calls for rank, part in _by_rank(call)
            for operand in (part.reads.operands if part.reads is not None else ()) if operand.dtype.startswith("int")
        ]  # fmt: skip
        made = set[str]().union(*map(digests, calls))
        made -= {operand.digest for operand, call, _ in reads if operand.digest in digests(call)}  # a call leaves it as it is
        last = max((getattr(row, side).index for row in before), default=-1)
        operands = [known for known in reads if last < known[1].index <= own.index and known[0].digest not in made]
        read.append({known[0].digest: known for known in reversed(operands)})
    for side, known, other in (("a", read[0], read[1]), ("b", read[1], read[0])):
        odd = [entry for bits, entry in known.items() if bits not in other]
        ranks = {rank for _, _, rank in known.values()}
        if len(ranks) > len(odd) == len(other) == 1:
            words = {"side": side, "rank": odd[0][2], "call": odd[0][1].sentence(brief=True)}
            return DifferenceReason(
                LABELS, tr("other labels on rank {rank} of {side}: {call} reads others than on other ranks", **words), words
            )
    if not len(read[0]) == len(read[1]) == 1:
        return None
    ((a, call_of_a, _),), ((b, call_of_b, _),) = (known.values() for known in read)
    if a.digest == b.digest or a.dtype != b.dtype or not math.prod(a.shape) == math.prod(b.shape) > 1:
        return None
    words = {"a": call_of_a.sentence(brief=True), "b": call_of_b.sentence(brief=True)}
    text = tr("other labels or positions: {a} of a and {b} of b read other whole numbers", **words)
    return DifferenceReason(LABELS, text, words, tr("other labels or positions are read"))


def _by_rank(call: Tensor) -> Iterator[tuple[int, Tensor]]:
    """What ranks have of a call's result."""
    whole = call.whole if isinstance(call, JoinedTensor) and call.whole is not None else call
    return zip(whole.all_ranks if isinstance(whole, RankTensor) else [0], whole.parts_known)


def of_smoothing(rows: Sequence[TensorRow], first: TensorRow) -> DifferenceReason | None:
    """By how much the losses smooth their labels; where one is composed of several calls, by what it is of the other's logits, and
    by the numbers that its calls multiply by."""
    step = [row for row in rows if row.any.step == first.any.step]
    until = next((place for place, row in enumerate(step) if row is first), len(step))
    for place, row in enumerate(step[: until + 1]):  # a loss behind what differs first tells nothing
        shares = [_smoothing(side) for side in (row.a, row.b)]
        losses = [_float(side) for side in (row.a, row.b) if side is not None and side.size == 1]
        if shares == [None, None] or len(losses) < 2 or losses[0] is None or losses[1] is None:
            continue
        known, total = int(shares[0] is None), 1.0
        if shares[1 - known] is None:
            returned = [side for other in step[:place] if other.any.kind == "layer" and (side := (other.a, other.b)[known])]
            logits = _float(returned[-1]) if returned else None
            share, entropies = shares[known] or 0.0, [float(loss.reshape(())) for loss in losses if loss is not None]
            if logits is None or not logits.ndim or share >= 1:
                continue
            shifted = logits - logits.max(-1, keepdims=True)
            uniform = float((np.log(np.exp(shifted).sum(-1)) - shifted.mean(-1)).mean())
            plain = (entropies[known] - share * uniform) / (1 - share)
            calls = [call.reads for other in step if (call := (other.a, other.b)[1 - known]) is not None and call.reads is not None]
            numbers = {abs(float(text)) for reads in calls for text in reads.arguments.values() if _NUMBER.fullmatch(text)}
            own = entropies[1 - known]
            # Its share, and what both parts add up to.
            ways = [((own - plain) / (uniform - plain), 1.0)] if uniform != plain else []
            if uniform:
                other = (own - (1 - share) * plain) / uniform
                ways.append((other, 1 - share + other))
            by_calls = [way for way in ways if any(abs(way[0] - number) <= _SMOOTHED for number in numbers)]
            shares[1 - known], total = next(iter([*by_calls, *ways]), (None, 1.0))
        a, b = shares
        if a is not None and b is not None and abs(a - b) > _SMOOTHED and -_SMOOTHED < min(a, b) <= max(a, b) < 1:
            text = tr("labels are smoothed by {a:.3g} in a, by {b:.3g} in b", a=a, b=b)
            if total != 1:
                text = tr("{text}, where the parts of a loss add up to {total:.3g}", text=text, total=total)
            return DifferenceReason(ARGUMENTS, text, {"label_smoothing": [a, b]})
    return None


def _smoothing(call: Tensor | None) -> float | None:
    share = call.reads.arguments.get("label_smoothing", "") if call is not None and call.reads is not None else ""
    return float(share) if share else None


def digests(tensor: Tensor) -> set[str]:
    """Those of its bits on each rank."""
    return {part.digest for part in tensor.parts_known}


Made = Arranged | Concatenated | None  # how an operand was made; None where it is not known
OperandPair = tuple[str, Made, Made]  # its name, and how both runs have made it


def _read(rows: Sequence[TensorRow], a: Tensor, b: Tensor) -> list[OperandPair]:
    """What two calls have read, one operand of both after the other, as far as it is known how it was made."""
    if a.reads is None or b.reads is None:
        return []
    known: list[list[tuple[RecordedOperand, Made]]] = []
    differing = [pair for pair in zip(a.reads.operands, b.reads.operands) if pair[0].digest != pair[1].digest]
    for place, (side, tensor) in enumerate((("a", a), ("b", b))):
        entries = [entry for row in rows if (entry := getattr(row, side)) is not None and entry.kind == "op"]
        # One of several ranks reads its part.
        results = [entry.parts_known[0] for entry in entries if entry.step == tensor.step and entry.index < tensor.index]
        operands = [pair[place] for pair in differing]
        known.append([(operand, arrangement_of(operand, results) or concatenation_of(operand, results)) for operand in operands])
    return [
        (first.name if second.name.startswith("argument ") else second.name, way, other)
        for (first, way), (second, other) in zip(*known)
    ]


def _of_order_of_operands(rows: Sequence[TensorRow], a: Tensor, b: Tensor, ways: Sequence[OperandPair]) -> DifferenceReason | None:
    """Results that both runs have, and read in another order: concatenated, or as operands."""
    both = [(first, second) for _, first, second in ways if first is not None and second is not None]
    read = [[pair[place] for pair in both] for place in (0, 1)]
    places = {id(side.parts_known[0]): place for place, row in enumerate(rows) for side in (row.a, row.b) if side is not None}
    makers = [[way.sources if isinstance(way, Concatenated) else (way.source,) for way in side] for side in read]
    orders = [[places[id(source)] for sources in side for source in sources] for side in makers]
    if len(orders[0]) < 2 or orders[0] == orders[1] or sorted(orders[0]) != sorted(orders[1]):
        return None
    own = int(_is_port(b, a))
    sources = [[source for sources in side for source in sources] for side in makers]
    there = [orders[own].index(place) for place in orders[1 - own]]
    way = read[own][0] if len(read[own]) == 1 else None
    to_have = (own, way, there) if isinstance(way, Concatenated) else None
    return _other_order((a, b)[own], sources[0], sources[1], to_have)


def _other_order(
    call: Tensor, a: Sequence[Tensor], b: Sequence[Tensor], to_have: tuple[int, Concatenated, Sequence[int]] | None = None
) -> DifferenceReason:
    """``a``, ``b``: what the runs read; ``to_have``: which of them is to concatenate it, how, and in which order."""
    layers = len({source.layer or source.name for source in a}) == len(a)  # else no layer makes them
    names = [[shown(source.layer or source.name) if layers else source.sentence(brief=True) for source in side] for side in (a, b)]
    words, where = [joined(", ", side) for side in names], call.sentence(brief=True)
    text, write = tr("operands in another order: {a} in a, {b} in b, at {call}", a=words[0], b=words[1], call=where), ""
    if to_have is not None:
        own, way, order = to_have
        write = way.words([names[own][place] for place in order])
        text = tr("{text} (write {write})", text=text, write=write)
    brief = tr("operands in another order, at {call}", call=where)
    return DifferenceReason(ORDER_OF_OPERANDS, text, {"a": names[0], "b": names[1], "write": write}, brief)


def _of_gate(rows: Sequence[TensorRow], a: Tensor, b: Tensor) -> DifferenceReason | None:
    """A fused product of an activated gate and another result, of which the runs exchange the two."""
    made = _float(a), _float(b)
    if "swiglu" not in {*a.names, *b.names} or made[0] is None or made[1] is None or made[0].size != made[1].size:
        return None
    before = [(row, row.a, row.b) for row in rows if row.a and row.b and row.any.kind == "op" and row.a.step == a.step]
    before = [known for known in before if known[1].index < a.index and known[2].shape == b.shape]
    before = [known for known in before if known[0].apart is not None and known[0].apart.relative <= _CLOSE]
    for gate, other in itertools.permutations(before[-_GATES:], 2):
        x, y = _float(gate[2]), _float(other[2])
        if x is None or y is None:
            continue
        exchanged, right = _activated(y, x).reshape(made[0].shape), _activated(x, y).reshape(made[1].shape)
        if multiple(made[0], exchanged, _CLOSE) and multiple(made[1], right, _CLOSE):
            return _other_order((a, b)[_is_port(b, a)], [other[1], gate[1]], [gate[2], other[2]])
    return None


def _activated(gate: Array, other: Array) -> Array:
    """A gate, as a SwiGLU activates it, times another result."""
    return np.asarray(gate * (1 + np.tanh(gate / 2)) / 2 * other)


def _of_arrangements(rows: Sequence[TensorRow], ways: Sequence[OperandPair]) -> DifferenceReason | None:
    """A call that reads another part of a result, or one that was reshaped otherwise, as heads are."""
    for name, a, b in ways:
        if not isinstance(a, Arranged) or not isinstance(b, Arranged) or alike(a.values, b.values):
            continue
        if a.values.shape == b.values.shape and multiple(a.values, b.values, _CLOSE):  # scaled before the call, or behind it
            continue
        makers = [_maker(rows, side, way.source) for side, way in (("a", a), ("b", b))]
        wholes = [None if whole is None else whole.values() for whole in (makers[0].a, makers[1].b)]
        same = makers[0] is makers[1] or (wholes[0] is not None and wholes[1] is not None and alike(wholes[0], wholes[1]))
        if same and a.values.size != b.values.size:
            b = _as_on_first_rank(b, a.values)
            a = _as_on_first_rank(a, b.values)
            if a.values.shape != b.values.shape or alike(a.values, b.values):
                continue
        if any(row.apart is not None and not row.apart.relative <= _CLOSE for row in makers):
            continue
        if makers[0] is not makers[1] and a.source.layer != b.source.layer:
            return _reads_others(a.source, b.source)
        if makers[0] is not makers[1]:
            texts = {side: f"{shown(way.source.name)}{way.words()}" for side, way in (("a", a), ("b", b))}
            return DifferenceReason(OPERAND, tr("{name} is {a} in a, {b} in b", name=shown(name), **texts), texts)
        numbers: dict[str, Any] = {"a": a.words(), "b": b.words()}
        if numbers["a"] == numbers["b"]:
            continue
        texts = {side: word.lstrip(".") or tr("as it lies") for side, word in numbers.items()}
        text = tr("{name}, of {row}, is {a} in a, {b} in b", name=shown(name), row=makers[0].any.sentence(brief=True), **texts)
        numbers["write"] = to_write(b, a.values) if _is_port(b.source, a.source) else to_write(a, b.values)
        if not numbers["write"]:
            return DifferenceReason(ARRANGED, text, numbers)
        brief, write = tr("{name} is arranged otherwise", name=shown(name)), numbers["write"].lstrip(".")
        text = tr("{text} (write {write})", text=text, write=write)
        brief = tr("{text} (write {write})", text=brief, write=write) if len(write) <= _BRIEF else brief
        return DifferenceReason(ARRANGED, text, numbers, brief)
    return None


def _as_on_first_rank(way: Arranged, part: Array) -> Arranged:
    """What the first of several ranks has of it, where these hold equal slices, of one of the shape of ``part``."""
    shapes = zip(way.values.shape, part.shape)
    split = [axis for axis, (whole, own) in enumerate(shapes) if whole != own] if way.values.ndim == part.ndim else []
    if len(split) != 1 or way.values.shape[split[0]] < part.shape[split[0]]:
        return way
    return way._replace(values=way.values.take(range(part.shape[split[0]]), split[0]))


def _maker(rows: Sequence[TensorRow], side: str, source: Tensor) -> TensorRow:
    """The row of what is read, or of which a rank has read its part."""
    return next(row for row in rows if (made := getattr(row, side)) is not None and made.parts_known[0] is source)


def _is_port(call: Tensor, other: Tensor) -> bool:
    return call.function.startswith("paddle") and other.function.startswith("torch")


_ATTENTION = frozenset({"scaled_dot_product_attention", "flash_attn", "flash_attention"})


def _of_attention(a: Tensor, b: Tensor, ways: Sequence[OperandPair]) -> DifferenceReason | None:
    """What two attentions of fused kernels hide, and how they scale, of the same query, key and value."""
    known = []
    for place, tensor in enumerate((a, b)):
        operands = [way[1 + place].values for way in ways[:3] if way[1 + place] is not None]  # type: ignore[union-attr]
        result = _float(tensor) if _ATTENTION.intersection(tensor.names) and len(operands) == 3 else None
        if result is None or any(values.ndim != 4 for values in (*operands, result)):
            return None
        turned = tensor.function.startswith("paddle")  # heads lie behind the length
        query, key, value, result = (np.swapaxes(values, 1, 2) if turned else values for values in (*operands, result))
        known.append(masks(query, key, value, result))
    length = a.shape[1] if a.function.startswith("paddle") else a.shape[2]
    hidden = [_hidden_words(way) for way in known]
    if hidden[0] != hidden[1] and any(known):
        text = tr("the mask hides {a} in a, {b} in b", a=hidden[0], b=hidden[1])
        numbers = {side: None if way is None else way[0] for side, way in zip("ab", known)}
        original = known[0 if _is_port(b, a) else 1]
        write = "" if original is None else _mask_to_write(original[0], length)
        text = tr("{text} (write {write})", text=text, write=write) if write else text
        return DifferenceReason(MASK, text, {**numbers, "write": write})
    if known[0] is not None and known[1] is not None and known[0][1] != known[1][1]:
        return scaled(known[0][1] / known[1][1])
    return None


def _hidden_words(way: tuple[int | None, float] | None) -> str:
    if way is None:
        return tr("what lies along no diagonal")
    return _from_diagonal(way[0])


def _mask_to_write(diagonal: int | None, length: int) -> str:
    """In Paddle."""
    if diagonal in (None, 1):
        return f"is_causal={diagonal == 1}"
    return f"attn_mask=paddle.tril(paddle.ones([{length}, {length}], 'bool'), {diagonal - 1})"


def _of_layers(rows: Sequence[TensorRow], a: Tensor, b: Tensor) -> DifferenceReason | None:
    """A call in one layer of those that both runs have, where the other run calls another of them."""
    layers = [{side.layer for row in rows if (side := getattr(row, name)) is not None} for name in "ab"]
    if a.layer == b.layer or not {a.layer, b.layer} - {""} <= layers[0] & layers[1] or "" in (a.layer, b.layer):
        return None
    text = tr("a calls layer {a} here, b layer {b}", a=shown(a.layer), b=shown(b.layer))
    return DifferenceReason(OPERAND, text, {"a": a.layer, "b": b.layer})


def _of_arguments(rows: Sequence[TensorRow], a: Tensor, b: Tensor) -> tuple[DifferenceReason | None, bool]:
    """What one call of two frameworks is given, and the other is not, of what agreeing calls lack; whether it is sure."""
    if a.reads is None or b.reads is None:
        return None, False
    agreeing = [row for row in rows if row.apart is not None and row.apart.relative <= _EQUAL and row.a and row.a.names == a.names]
    usual = [_meanings(row.a, row.b) for row in agreeing]
    sides = _meanings(a, b)
    for name in sides[0]:
        values = sides[0][name], sides[1].get(name, "[")
        spelled = name in ("axis", "dim") or any((known[0].get(name), known[1].get(name)) == values for known in usual)
        if not spelled and "[" not in (values[0][:1], values[1][:1]) and _plain(values[0]) != _plain(values[1]):
            return other_argument(name, *values), True
    sides = [
        {
            name: value
            for name, value in side.items()
            if value[:1] != "[" and all(known[place].get(name) != value for known in usual)
        }
        for place, side in enumerate(sides)
    ]
    others = [{_plain(value) for value in side.values()} for side in sides]
    alone = [
        {name: value for name, value in side.items() if _plain(value) not in known | {""}}
        for side, known in zip(sides, others[::-1])
    ]
    floats = [{name: value for name, value in side.items() if "." in value or "e-" in value} for side in alone]
    alone = floats if all(floats) else alone
    if not all(alone) or any(floats) != all(floats):  # what one framework names alone is its default
        return None, False
    if all(len(side) == 1 for side in alone):
        ((name, value),), ((other, others_value),) = (list(side.items()) for side in alone)
        name = other if name.startswith("argument ") else name
        return other_argument(name, value, others_value), all(floats)
    words = [", ".join(f"{shown(name)}={shown(value)}" for name, value in side.items()) or tr("none of these") for side in alone]
    text = tr("other arguments of {call}: {a} in a, {b} in b", call=shown(a.name), a=words[0], b=words[1])
    brief = tr("other arguments of {call}", call=shown(a.name))
    return DifferenceReason(ARGUMENTS, text, {"a": alone[0], "b": alone[1]}, brief), False


def other_argument(name: str, a: str, b: str) -> DifferenceReason:
    """An argument that a call is given otherwise in each run."""
    return DifferenceReason(ARGUMENTS, tr("{name} is {a} in a, {b} in b", name=shown(name), a=shown(a), b=shown(b)), {name: [a, b]})


def of_multiplied(row: TensorRow, factor: float) -> DifferenceReason | None:
    """The numbers by which runs multiply the same, as rates of a moving average, where a's values are ``factor`` times b's; or
    words in which a call of both differs."""
    reason, sure = (None, False) if row.a is None or row.b is None else _of_arguments((), row.a, row.b)
    if reason is None or not sure:
        return None
    a, b = next(iter(reason.numbers.values()))
    if not (_NUMBER.fullmatch(a) and _NUMBER.fullmatch(b)):  # words, as those of reduction=
        return reason
    return reason if float(a) and abs(factor * float(b) - float(a)) <= _CLOSE * abs(float(a)) else None


def of_graph_end(rows: Sequence[TensorRow], row: TensorRow) -> DifferenceReason | None:
    """The first call of a gradient's step behind which one run's graph ends, and the other's does not."""
    made: list[set[str]] = [set(), set()]  # digests of results to which gradients go back
    for call in rows:
        if call.any.kind != "op" or call.any.step != row.any.step or call.a is None or call.b is None:
            continue
        reads = [side.reads.operands if side.reads is not None else () for side in (call.a, call.b)]
        ends = [pair for pair in zip(*reads) if pair[0].graph != pair[1].graph]
        for pair in ends if len(reads[0]) == len(reads[1]) else ():
            place = int(pair[0].graph)
            if pair[place].digest in made[place]:
                call_there = (call.a, call.b)[place].sentence(brief=True)
                text = tr("in {side} no gradient goes back behind {call}", side="ab"[place], call=call_there)
                return DifferenceReason(GRAPH_END, text, {"side": "ab"[place], "operand": pair[place].name})
        for known, side, operands in zip(made, (call.a, call.b), reads):
            known.update([side.digest] if any(operand.graph for operand in operands) else ())
    return None


def _meanings(*calls: Tensor | None) -> list[dict[str, str]]:
    """The arguments of two calls, each meaning in one word: Torch's of a batch norm, and a matrix as it lies."""
    reads = [call.reads for call in calls if call is not None and call.reads is not None]
    known = [dict(read.arguments) for read in reads]
    alike = len({frozenset(operand.digest for operand in read.operands) for read in reads}) == 1
    for call, arguments in zip(filter(None, calls), known):
        if "embedding" in call.names:
            row = arguments.get("padding_idx", "-1")
            arguments["padding_idx"] = tr("none") if row == "-1" else tr("row {row}", row=row)
        if {"is_test", "momentum"} <= arguments.keys():
            arguments["training"] = str("True" not in (arguments.pop("is_test"), arguments.pop("use_global_stats", "")))
            arguments["momentum"] = f"{1 - float(arguments['momentum']):.6g}"
        for name in () if alike else ("transpose_x", "transpose_y", "transpose_weight"):  # others transpose before the call
            arguments.pop(name, None)
    return known if len(known) == len(calls) else [{}, {}]


def _plain(value: str) -> str:
    """An argument, alike for both frameworks' ways to write it; "" where it says nothing."""
    try:
        number = float(value)
    except ValueError:
        text = value.strip("'\"").lower()
        return "" if text in _NOTHING_WANTED else {"tanh": "true"}.get(text, text)
    return f"{number:g}" if number else ""


def of_average(rows: Sequence[TensorRow], row: TensorRow) -> DifferenceReason | None:
    """A value that is a moving average of a parameter: with which decay each run makes it."""
    a, b = (_decay(rows, row, side) for side in "ab")
    if a is None or b is None or abs(a - b) < 1e-3:
        return None
    text = tr("the moving average of weights has the decay {a:.4g} in a, {b:.4g} in b", a=a, b=b)
    if not (a and b):
        text = tr(
            "{side} has the weight itself, the other run its moving average (decay {decay:.4g})",
            side="b" if a else "a",
            decay=a or b,
        )
    return DifferenceReason(AVERAGE, text, {"a": a, "b": b})


def momenta(row: TensorRow) -> list[float]:
    """Torch's momentum of a batch norm in both runs, if they take over other shares of a batch into running statistics."""
    if row.any.reads is None or "momentum" not in row.any.reads.arguments:
        return []
    known = _meanings(row.a, row.b)
    rates = [float(side["momentum"]) for side in known if side.get("training") == "True" and "momentum" in side]
    return rates if len(rates) == len(known) > 1 and abs(rates[0] - rates[1]) > _CLOSE else []


def of_statistics(rows: Sequence[TensorRow], layer: str | None = None) -> DifferenceReason | None:
    """The momentum with which runs make running statistics otherwise, of a ``layer`` or of the first that does."""
    for norm in rows:
        if (layer is not None and norm.any.layer != layer) or not (rates := momenta(norm)):
            continue
        paddles = [side is not None and side.function.startswith("paddle") for side in (norm.a, norm.b)]
        words = [f"{1 - rate if own else rate:.6g}" for rate, own in zip(rates, paddles)]  # Paddle's is 1 minus Torch's
        reason = other_argument("momentum", *words)
        reason = replace(reason, numbers={**reason.numbers, "until": str(norm.any), "step": norm.any.step})
        if paddles[0] == paddles[1]:
            return reason
        write = f"momentum={1 - rates[paddles[0]]:.6g}"
        return replace(reason, text=tr("{text} (Paddle's is 1 minus Torch's: write {write})", text=reason.text, write=write))
    return None


def of_constants(rows: Sequence[TensorRow]) -> DifferenceReason | None:
    """What is computed behind an update, before layers run, with numbers that the other run has nowhere there: an average."""
    for step, group in itertools.groupby(rows, lambda row: row.any.step):
        begun = list(itertools.takewhile(lambda row: not row.any.layer, group))
        sides = [[entry.reads for row in begun if (entry := getattr(row, side)) is not None and entry.reads] for side in "ab"]
        numbers = [{_plain(value) for reads in side for value in reads.arguments.values()} for side in sides]
        for row in begun if step > rows[0].any.step else ():
            if row.apart is None or row.apart.relative <= _CLOSE or row.a is None or row.b is None:
                continue
            reason, sure = _of_arguments((), row.a, row.b)
            values = [_plain(value) for pair in reason.numbers.values() for value in pair] if reason is not None and sure else []
            if reason is not None and values and values[0] not in numbers[1] and values[1] not in numbers[0]:
                text = tr("{text}, at {row}", text=reason.text, row=row.any.sentence(brief=True))
                return replace(reason, text=text, numbers={**reason.numbers, "until": str(row.any), "step": step})
    return None


def _decay(rows: Sequence[TensorRow], row: TensorRow, side: str) -> float | None:
    """By which a run takes over the average of the step before; 0 where it is the weight itself; None where it is no average."""
    tensor = getattr(row, side)
    known = [entry for other in rows if (entry := getattr(other, side)) is not None and tensor and entry.index < tensor.index]
    before = [entry for entry in known if (entry.kind, entry.name, entry.tensor) == (tensor.kind, tensor.name, tensor.tensor)]
    weights = {entry.name: entry for entry in known if entry.kind == "parameter" and entry.shape == tensor.shape}
    begun = {entry.name: entry for entry in reversed(known) if entry.kind == "parameter"}
    now = None if tensor is None else _float(tensor)
    for name, weight in weights.items() if now is not None else ():
        value, start = _float(weight), _float(before[-1] if before else begun[name])
        if value is None or start is None or name == tensor.name:
            continue
        scale, gap, way = np.abs(value).max(initial=0.0), now - value, start - value
        if np.abs(gap).max(initial=0.0) <= 1e-6 * scale:
            return 0.0
        square = float(np.vdot(way, way))
        decay = float(np.vdot(gap, way)) / square if square else 0.0
        if 0 < decay < 1 and np.linalg.norm(gap - decay * way) <= 1e-2 * np.linalg.norm(gap):
            return decay
    return None


Data = Sequence[tuple[frozenset[str], frozenset[str]]]  # of each step, digests of what a and b are given


def updates_apart(data: Data) -> Iterator[tuple[int, str, int]]:
    """(place of a step, the run, so many steps of the other run it holds) where one run makes fewer updates of the same data."""
    runs = [Counter(digest for step in data for digest in step[run]) for run in (0, 1)]
    once = [{digest for digest, count in known.items() if count == 1} for known in runs]  # no constants
    common = once[0] & once[1]
    counts = [(len(step[0] & once[0]), len(step[1] & once[1])) for step in data]
    data = [(step[0] & common, step[1] & common) for step in data]  # without what each run makes in its own way
    for side, own, others in (("a", 0, 1), ("b", 1, 0)):
        place = 0
        for number, step in enumerate(data):
            union, count, read = frozenset[str](), 0, 0
            while place + count < len(data) and union < step[own] and counts[place + count][others]:
                union, read = union | data[place + count][others], read + counts[place + count][others]
                count += 1
            if not union or union != step[own]:
                break
            alike = all(entry[others] for entry in data[place : place + count]) or read == counts[number][own]
            if count > 1 and alike:  # else one run reads the other's data of another step
                yield number, side, count
            place += count
