"""What a call does otherwise in one of two runs, as far as its recorded values and what it reads tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..text import shown, tr
from .call_origins import ARGUMENTS
from .difference import DifferenceReason, TensorRow
from .rank_causes import SCALE
from .tensors import Array, Tensor, multiple

AXIS, MASK, ORDER_OF_ELEMENTS, OPERAND, ROWS, DTYPE, CALLS, AVERAGE = (
    "axis", "mask", "order of elements", "operand", "normalization", "dtype", "calls", "moving average"
)  # fmt: skip
_CLOSE = 1e-4  # relative to the largest element: rounding, and what calls before have made of it
_NOTHING = 1e-20  # a probability that is none: that of a masked score is zero, or what a kernel's exp makes at its lower end
_HIDDEN = -1e4  # scores below it are masked
_MOST = 4096  # slices whose order is looked for
_FLOATS = ("float16", "bfloat16", "float32", "float64")


def of_call(rows: Sequence[TensorRow], row: TensorRow) -> DifferenceReason | None:
    """The reason for what a call or a layer returns, if all that it is known to read agrees; None where nothing tells."""
    a, b = row.a, row.b
    if a is None or b is None or a.kind not in ("op", "layer"):
        return None
    if other := other_dtypes([row]):
        return other
    reads = _of_operands(rows, a, b) or _of_layers(rows, a, b)
    if reads is not None:
        return reads
    arguments = _of_arguments(a, b)
    if arguments is not None and arguments.brief:  # a number of each, and nothing else
        return arguments
    values = _float(a), _float(b)
    if values[0] is not None and values[1] is not None and values[0].shape == values[1].shape and values[0].size > 1:
        for rule in (_of_axis, _of_factor, _of_mask, _of_order, _of_rows):
            if (reason := rule(*values)) is not None:  # type: ignore[arg-type]
                return reason
    if a.kind == "op" and not {*a.names} & {*b.names}:
        text = tr("a calls {a} here, b {b}", a=shown(a.name), b=shown(b.name))
        return DifferenceReason(CALLS, text, {"a": a.name, "b": b.name})
    return arguments


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
    return DifferenceReason(SCALE, tr("a's values are {factor:.6g} times b's", factor=factor), {"factor": factor})


def _mask_words(mask: Array) -> str:
    """What a mask hides: all from a diagonal on, or so many elements."""
    between = np.arange(mask.shape[-1]) - np.arange(mask.shape[-2])[:, None]
    hidden = between[mask.reshape(-1, *mask.shape[-2:]).all(0)]
    if hidden.size and np.array_equal(mask, np.broadcast_to(between >= hidden.min(), mask.shape)):
        return tr("what lies from diagonal {diagonal} on", diagonal=int(hidden.min()))
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
    words = tr("a's rows are b's times {low:.4g} to {high:.4g}", low=low, high=high)
    text = tr("{words}: a norm divides by something else, as with another epsilon", words=words)
    return DifferenceReason(ROWS, text, {"low": low, "high": high})


def _of_operands(rows: Sequence[TensorRow], a: Tensor, b: Tensor) -> DifferenceReason | None:
    """A call that reads another result: those of both runs were made at places that do not belong together."""
    if a.reads is None or b.reads is None:
        return None
    made = [{side.digest: row for row in rows if (side := getattr(row, name)) is not None and side.digest} for name in "ab"]
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
                text = tr("a reads {a}, b reads {b}", a=operand_a.sentence(), b=operand_b.sentence())
                numbers = {"a": operand_a.layer or operand_a.name, "b": operand_b.layer or operand_b.name}
                brief = tr("a reads {a}, b reads {b}", a=shown(numbers["a"]), b=shown(numbers["b"]))
                return DifferenceReason(OPERAND, text, numbers, brief)
    return None


def _of_layers(rows: Sequence[TensorRow], a: Tensor, b: Tensor) -> DifferenceReason | None:
    """A call in one layer of those that both runs have, where the other run calls another of them."""
    layers = [{side.layer for row in rows if (side := getattr(row, name)) is not None} for name in "ab"]
    if a.layer == b.layer or not {a.layer, b.layer} - {""} <= layers[0] & layers[1] or "" in (a.layer, b.layer):
        return None
    text = tr("a calls layer {a} here, b layer {b}", a=shown(a.layer), b=shown(b.layer))
    return DifferenceReason(OPERAND, text, {"a": a.layer, "b": b.layer})


def _of_arguments(a: Tensor, b: Tensor) -> DifferenceReason | None:
    """What one call of two frameworks is given, and the other is not, of calls that read the same."""
    if a.reads is None or b.reads is None:
        return None
    sides = [{name: value for name, value in reads.arguments.items() if value[:1] != "["} for reads in (a.reads, b.reads)]
    others = [{_plain(value) for value in side.values()} for side in sides]
    alone = [
        {name: value for name, value in side.items() if _plain(value) not in known and _telling(value)}
        for side, known in zip(sides, others[::-1])
    ]
    floats = [{name: value for name, value in side.items() if "." in value or "e-" in value} for side in alone]
    alone = floats if all(floats) else alone
    if not any(alone):
        return None
    if all(len(side) == 1 for side in alone):
        ((name, value),), ((other, others_value),) = (list(side.items()) for side in alone)
        name = other if name.startswith("argument ") else name
        text = tr("{name} is {a} in a, {b} in b", name=shown(name), a=shown(value), b=shown(others_value))
        return DifferenceReason(ARGUMENTS, text, {name: [value, others_value]}, text if all(floats) else "")
    words = [", ".join(f"{shown(name)}={shown(value)}" for name, value in side.items()) or tr("none of these") for side in alone]
    text = tr("other arguments of {call}: {a} in a, {b} in b", call=shown(a.name), a=words[0], b=words[1])
    return DifferenceReason(ARGUMENTS, text, {"a": alone[0], "b": alone[1]})


def _plain(value: str) -> str:
    """An argument, alike for both frameworks' ways to write it."""
    try:
        return f"{float(value):g}"
    except ValueError:
        return value.strip("'\"").lower()


def _telling(value: str) -> bool:
    """Whether an argument is none of those that mean that nothing is wanted."""
    return _plain(value) not in ("false", "none", "0", "", "nchw", "ncl", "ncdhw")


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
    common = {digest for digest in runs[0] if max(known[digest] for known in runs) == 1 and digest in runs[1]}
    data = [(step[0] & common, step[1] & common) for step in data]  # without constants, which each run makes in its own way
    for side, own, others in (("a", 0, 1), ("b", 1, 0)):
        place = 0
        for number, step in enumerate(data):
            union, count = frozenset[str](), 0
            while place + count < len(data) and union < step[own] and data[place + count][others]:
                union, count = union | data[place + count][others], count + 1
            if not union or union != step[own]:
                break
            if count > 1:
                yield number, side, count
            place += count
