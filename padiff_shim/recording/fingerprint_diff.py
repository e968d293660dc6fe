"""Comparing two recordings of fingerprints: steps as arrays, so that long runs take seconds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..measure.distance import Distance
from ..runlog.events import LOSS, NAMED
from ..text import many, tr
from .alignment import align
from .difference import Difference, EqualWithin, ExpectedPartners, StepDifference, TensorRow
from .fingerprints import FIGURES
from .reading import FingerprintRow, Recorded, side_by_side
from .tensors import INPUT, WEIGHT, Array, Tensor, parameter_name

_NORM, _MEAN, _LARGEST, _PROJECTION = range(len(FIGURES))
_SUMS = 1e-5  # relative: sums of the same float32 numbers in another order


class _Pairs(NamedTuple):
    """Which tensors of two steps belong together, for steps with the same tensors."""

    first: Array  # places in a's step
    second: Array  # places in b's step
    sides: tuple[list[Tensor], list[Tensor]]  # all of both, as in the first such step
    tensors: list[tuple[Tensor, Tensor]]
    alone: list[tuple[Tensor | None, Tensor | None]]
    comparable: Array  # whether equal hashes can be expected: the same dtype, shape and layout
    kinds: Array


def compare_fingerprints(
    a: Recorded, b: Recorded, difference: Difference, tolerances: EqualWithin
) -> Iterator[tuple[StepDifference, list[TensorRow]]]:
    """All steps that two processes both have, in order, with what differs."""
    difference.fingerprints = True
    known: dict[tuple[Any, Any], _Pairs] = {}
    partners = ExpectedPartners(crossing=tolerances.crossing)
    ends, common, only = [-1, -1], 0, [0, 0]
    begin = difference.begins[1] if difference.begins else 0
    for first, second in side_by_side(a.rows(), b.rows(), begin):
        for side, row in enumerate((first, second)):
            if row is not None:
                ends[side] = row.step
        if first is None or second is None:
            only[first is None] += 1
            continue
        common += 1
        key = first.numbers, second.numbers
        pairs = known.get(key)
        if pairs is None:
            pairs = known[key] = _paired(a, b, first, second, crossing=tolerances.crossing)
        partners.note(*pairs.sides)
        yield _compare_step(a.rank, first, second, pairs, difference, tolerances, partners, starts=common == 1)
    if common and (only[0] or only[1]):
        _note_lengths(a, b, ends, only, difference)
    if tolerances.crossing:
        difference.notes.append(
            tr(
                "weights that lie otherwise in the other framework are compared by their figures, which are alike within {sums:g} "
                "where they hold the same numbers",
                sums=_SUMS,
            )
        )
    first_step = next((step for step in difference.steps if step.first), None)
    if first_step is not None:
        around = first_step.step
        difference.notes.append(
            tr(
                "distances are estimates; values around step {around}: padiff-shim run --record DIR --around "
                "{around}, or record(dir, model, steps=range({first}, {last}))",
                around=around,
                first=max(0, around - 1),
                last=around + 2,
            )
        )


def _note_lengths(a: Recorded, b: Recorded, ends: Sequence[int], only: Sequence[int], difference: Difference) -> None:
    """Steps that one run has alone: behind the end of the other, or between its steps where they record every Nth."""
    for name, other, alone, here, there in (("a", "b", only[0], ends[0], ends[1]), ("b", "a", only[1], ends[1], ends[0])):
        if not alone:
            continue
        if here > there:
            difference.holes.append(
                tr(
                    "{name} goes on to step {here:,}, {other} ends with step {there:,}",
                    name=name,
                    here=here,
                    other=other,
                    there=there,
                )
            )
        if a.options.get("every") != b.options.get("every"):
            difference.notes.append(
                f"{many(alone, 'step')} of {name} alone: every={a.options.get('every')} against {b.options.get('every')}"
            )
        elif here <= there:
            difference.holes.append(tr("{other} lacks {steps} that {name} has", other=other, steps=many(alone, "step"), name=name))


def _key(tensor: Tensor, *, crossing: bool) -> tuple[Any, ...]:
    if tensor.kind in ("gradient", "parameter") or tensor.tensor == WEIGHT:
        return tensor.kind, parameter_name(tensor.name), tensor.tensor, tensor.call
    name = "" if crossing and tensor.layer else tensor.name
    return tensor.kind, tensor.layer, name, tensor.tensor, tensor.call


def _paired(a: Recorded, b: Recorded, first: FingerprintRow, second: FingerprintRow, *, crossing: bool) -> _Pairs:
    """By kind, name, layer and number of the call; tensors without a namesake by order, shape and figures."""
    sides = _described(a, first), _described(b, second)
    waiting = {_key(tensor, crossing=crossing): place for place, tensor in enumerate(sides[1])}
    places: list[tuple[int, int]] = []
    left: list[int] = []
    for place, tensor in enumerate(sides[0]):
        partner = waiting.get(_key(tensor, crossing=crossing))
        if partner is not None and sorted(tensor.shape) == sorted(sides[1][partner].shape):
            del waiting[_key(tensor, crossing=crossing)]
            places.append((place, partner))
        else:
            left.append(place)
    alone: list[tuple[Tensor | None, Tensor | None]] = []
    rest = sorted(waiting.values())
    for kind in dict.fromkeys(tensor.kind for tensor in (*sides[0], *sides[1])):
        for a_tensor, b_tensor in align(
            [sides[0][place] for place in left if sides[0][place].kind == kind],
            [sides[1][place] for place in rest if sides[1][place].kind == kind],
        ):
            if a_tensor is not None and b_tensor is not None:
                places.append((first.numbers.index(a_tensor.index), second.numbers.index(b_tensor.index)))
            else:
                alone.append((a_tensor, b_tensor))
    places.sort()
    tensors = [(sides[0][place], sides[1][partner]) for place, partner in places]
    comparable = [
        a_tensor.dtype == b_tensor.dtype and a_tensor.shape == b_tensor.shape and not (crossing and _may_lie_otherwise(a_tensor))
        for a_tensor, b_tensor in tensors
    ]
    return _Pairs(
        np.array([place for place, _ in places], np.int64), np.array([place for _, place in places], np.int64), sides, tensors,
        alone,
        np.array(comparable, bool), np.array([a_tensor.kind for a_tensor, _ in tensors]),
    )  # fmt: skip


def _described(recorded: Recorded, row: FingerprintRow) -> list[Tensor]:
    """The step's tensors, with the figures of this step."""
    return [
        replace(recorded.described[number], step=row.step, digest=f"{bits:016x}", figures=dict(zip(FIGURES, figures)))
        for number, bits, figures in zip(row.numbers, row.bits.tolist(), row.figures.tolist())
    ]


def _may_lie_otherwise(tensor: Tensor) -> bool:
    return len(tensor.shape) > 1 and (tensor.kind in ("gradient", "parameter") or tensor.tensor == WEIGHT)


def _compare_step(
    rank: int,
    first: FingerprintRow,
    second: FingerprintRow,
    pairs: _Pairs,
    difference: Difference,
    tolerances: EqualWithin,
    partners: ExpectedPartners,
    *,
    starts: bool,
) -> tuple[StepDifference, list[TensorRow]]:
    bits = first.bits[pairs.first] == second.bits[pairs.second]
    figures = first.figures[pairs.first], second.figures[pairs.second]
    relative = _relative(*figures, comparable=pairs.comparable)
    equal = np.where(pairs.comparable, bits, bits | (relative <= _SUMS))
    relative = np.where(equal, 0.0, relative)
    differs = ~(equal | ((tolerances.rtol > 0) & (relative <= tolerances.rtol)))
    computed = pairs.kinds != INPUT
    step, rows = StepDifference(rank, first.step), list[TensorRow]()
    for kind in dict.fromkeys(pairs.kinds[computed].tolist()):
        of_kind = pairs.kinds == kind
        step.count(kind, int((of_kind & ~differs).sum()), int(of_kind.sum()))
    losses = np.flatnonzero(pairs.kinds == LOSS)
    if len(losses):
        step.losses = float(figures[0][losses[-1], _MEAN]), float(figures[1][losses[-1], _MEAN])
    step.largest = float(relative[computed].max(initial=0.0))
    for place in np.flatnonzero(pairs.kinds == "layer").tolist():
        if relative[place] > 0 or starts:
            difference.heat.add(pairs.tensors[place][0].layer, first.step, float(relative[place]))
    difference.counts.rows += int((computed & ~differs).sum())
    difference.counts.compared += int((computed & ~differs).sum())
    inputs = ~computed if starts else ~computed & differs
    for place in np.flatnonzero(differs | inputs).tolist():
        row = _row(rank, (first, second), pairs, place, float(relative[place]), differs=bool(differs[place]))
        if computed[place]:
            rows.append(row)
            step.first = step.first or str(row.any)
        else:
            difference.inputs.append(row)
    for a, b in pairs.alone:
        sides = [
            None if tensor is None else _at(tensor, fingerprints, fingerprints.numbers.index(tensor.index))
            for tensor, fingerprints in ((a, first), (b, second))
        ]
        lone = TensorRow(rank, sides[0], sides[1], None, partners.lacking(*sides))
        if lone.any.kind != INPUT and (lone.differs or lone.any.kind in NAMED):
            rows.append(lone)
            step.first = step.first or (str(lone.any) if lone.differs else "")
    return step, rows


def _relative(first: Array, second: Array, *, comparable: Array) -> Array:
    """The estimated norm of the difference by the norm of b; where elements may lie in another order, of norms and maxima alone."""
    with np.errstate(all="ignore"):
        gaps = np.abs(first - second)
        gaps[:, _MEAN] = 0.0
        gaps[~comparable, _PROJECTION] = 0.0
        scale = np.where(second[:, _NORM] > 0, second[:, _NORM], 1.0)
        relative = np.where(np.isnan(first) & np.isnan(second), 0.0, gaps).max(1) / scale
    return np.where(np.isnan(relative), np.inf, relative)


def _at(tensor: Tensor, row: FingerprintRow, at: int) -> Tensor:
    """A tensor as it was in a step, where its fingerprint has the place ``at``."""
    figures = dict(zip(FIGURES, row.figures[at].tolist()))
    index = row.step * 10**6 + at  # in the order of the run
    return replace(tensor, step=row.step, digest=f"{int(row.bits[at]):016x}", figures=figures, index=index)


def _row(
    rank: int, rows: tuple[FingerprintRow, FingerprintRow], pairs: _Pairs, place: int, relative: float, *, differs: bool
) -> TensorRow:
    at = int(pairs.first[place]), int(pairs.second[place])
    sides = [_at(tensor, row, number) for tensor, row, number in zip(pairs.tensors[place], rows, at)]
    distance = Distance(not differs, np.nan, np.nan, relative, None, sides[0].size, 0, "fingerprint")
    return TensorRow(rank, sides[0], sides[1], distance, differs)
