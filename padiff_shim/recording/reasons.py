"""Why two runs differ where they differ first, as far as arithmetic on what was recorded tells."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..runlog.events import CLIPPED, IN_STEP, LOSS, STATE
from ..runlog.optimizer_settings import BEGINS, CLIP_WAYS, CLIP_WORDS
from ..text import joined, many, shown, tr
from . import pages
from .alignment import by_figures, elements, lie_alike, same_elements
from .call_origins import ARGUMENTS, other_arguments
from .call_reasons import (
    CALLS,
    DTYPE,
    MASK,
    digests,
    of_average,
    of_call,
    of_constants,
    of_graph_end,
    of_labels,
    of_lone_call,
    of_multiplied,
    of_smoothing,
    of_statistics,
    other_argument,
    other_calls,
    other_dtypes,
    scaled,
    updates_apart,
)
from .difference import Difference, DifferenceReason, TensorRow
from .rank_causes import EXCHANGED, PART, SCALE, WEIGHTS
from .rounding import Rounding, explained
from .settings import ALONE, SettingDifference
from .switches import SwitchDifference
from .tensors import GRADIENTS, NORM as NORM_NOTE, ROW_KINDS, STATISTICS_OF_BOTH, WEIGHT, Array, is_weight, linear, multiple, wide

RATE, DECAY, EPSILON, BETA, NOT_LOADED, UPDATE, RANDOM, NORM, CONSTANT = (
    "learning rate", "weight decay", "epsilon", "beta", "optimizer state", "update", "random numbers", "norm", "constant"
)  # fmt: skip
NOT_CLEARED, NOT_TRAINED, CLIPPING, SKIPPED = "not cleared", "not trained", "clipping", "skipped step"
OPTIMIZER, SETTING, TIED = "optimizer", "optimizer setting", "tied weight"
BATCH, BATCHES, ORDER_OF_SAMPLES, ORDER_OF_BATCHES, ROUNDING, SETTINGS = (
    "batch size", "other batches", "order of samples", "order of batches", "rounding", "settings"
)  # fmt: skip
_SETTINGS = 2  # that a headline names
_FITS = 1e-2  # relative: an update that a rule explains
_HALF = 2.0**-7  # relative: what is rounded to half precision
_ZERO = 1e-6  # relative to the largest of a step: gradients that are zero but for rounding
_FACTOR = 1e-3  # relative: two tensors of which one is a multiple of the other
_COUNT = 10**7  # beyond, a number says nothing of how many are added up


class Updates:
    """The updates of two runs.

    Args:
        difference: with the rows of both.
    """

    def __init__(self, difference: Difference) -> None:
        self._ranks = len({step.rank for step in difference.steps}) > 1  # each is compared for itself
        self._rows: defaultdict[tuple[str, str], list[TensorRow]] = defaultdict(list)
        for row in difference.compared:
            self._rows[row.any.kind, self.name(row)].append(row)
        self._all = difference.rows
        first = difference.steps[0].step if difference.steps else 0
        begun = ([row for row in rows if row.any.step == first] for (kind, _), rows in self._rows.items() if kind == "parameter")
        self._begun = {id(rows[0]) for rows in begun if len(rows) > 1}

    def name(self, row: TensorRow) -> str:
        """What the rows of one parameter of one process share."""
        return f"{row.rank} {row.any.name}" if self._ranks else row.any.name

    def begins(self, row: TensorRow) -> bool:
        """Whether a row is of a parameter as the runs begin."""
        return id(row) in self._begun

    def gradient(self, row: TensorRow) -> TensorRow | None:
        """The row of a parameter's gradient as the update used it that made this row."""
        for kind in GRADIENTS:
            used = [known for known in self._rows[kind, self.name(row)] if known.any.step == row.any.step]
            if used:
                return used[-1]
        return None

    def same_states(self, row: TensorRow) -> bool:
        """Whether what the optimizer keeps for a parameter was recorded behind an update, and agrees."""
        states = [known for known in self._rows[STATE, self.name(row)] if known.any.step == row.any.step]
        return bool(states) and not any(known.differs for known in states)

    def count(self, row: TensorRow, side: str) -> int:
        """How many updates of a parameter a run has made in the step, by the gradients that they used."""
        used = (getattr(other, side) for other in self._all if other.any.kind == IN_STEP and other.any.step == row.any.step)
        return sum(tensor is not None and tensor.name == row.any.name for tensor in used)

    def gradients_before(self, row: TensorRow) -> list[TensorRow]:
        """The rows of a parameter's gradients in the step before."""
        rows = (known for kind in GRADIENTS for known in self._rows[kind, self.name(row)])
        return [known for known in rows if known.any.step == row.any.step - 1]


def reason_of(
    difference: Difference, cause: Callable[[TensorRow], DifferenceReason | None] | None, switches: Sequence[SwitchDifference] = ()
) -> DifferenceReason | None:
    """The reason for the first difference that is more than rounding.

    Args:
        difference: of two runs.
        cause: tries arithmetic on parts of ranks; None where each process is compared with one.
        switches: the settings in which both runs differ and that change how kernels round.
    """
    inputs = _of_updates(difference) or _of_inputs(difference)
    if difference.first is None or (difference.origin is not None and inputs is None):
        return inputs
    updates = Updates(difference)
    rounding = explained(
        difference.rows,
        difference.inputs,
        lambda row, unseen: not updates.begins(row) and bool(difference.settings.of(row, unseen=unseen)),
        updates.name,
        updates.begins,
        same_rules=difference.settings.known and not difference.settings.differences,
        crossing=difference.frameworks[0] != difference.frameworks[1],
    )
    rest = rounding.rest
    comparable = inputs is None or inputs.kind == ORDER_OF_SAMPLES or (difference.origin is None and inputs.kind != SKIPPED)
    known = _of_row(updates, difference, rest, rounding, cause) if rest is not None and comparable else None
    reason = known if rest is not None else of_statistics(difference.rows) or of_constants(difference.rows)
    parts, numbers = ([], {}) if inputs is None else ([inputs.text], dict(inputs.numbers))
    if rounding.rows:
        words = {"begins": rounding.begins, "amplification": rounding.amplification, "largest": rounding.largest}
        numbers |= words
        if rest is None and reason is None:
            parts.append(
                tr(
                    "rounding explains all: {begins:.2g} at first, {largest:.2g} at most, times {amplification:.3g} in a call",
                    **words,
                )
            )
        elif rest is not None:
            numbers |= {"until": str(rest.any), "step": rest.any.step}
            parts.append(tr("rounding explains what differs before {rest}", rest=pages.described(rest)))
    elif rest is not None and not rest.differs:
        parts.append(tr("within the tolerances, and more than rounding: {rest}", rest=pages.described(rest)))
    elif rest is not None and comparable and inputs is not None:
        parts.append(tr("rounding does not explain {rest}", rest=pages.described(rest)))
    if rounding.rows and (reason is None or reason.kind != DTYPE) and (narrower := other_dtypes(difference.rows)) is not None:
        parts.append(narrower.text)
    if switches and (rounding.rows or (reason is None and rounding.incoming == 0)):
        numbers["settings"] = [switch.name for switch in switches]
        parts += [tr("{name}: {a} in a, {b} in b", name=tr(name), a=a, b=b) for name, a, b, _ in switches[:_SETTINGS]]
    if not parts:
        return reason
    placed = reason is None or (reason.kind in ROW_KINDS and ROW_KINDS[reason.kind].place)
    kind = inputs.kind if inputs is not None else reason.kind if reason and not (placed and rounding.rows) else ROUNDING
    parts += [] if reason is None else [reason.text]
    brief = [] if inputs is None else [inputs.brief or inputs.text]
    if reason is not None:
        brief.append(reason.brief or reason.text)
    elif rounding.rows:
        brief.append(
            tr("rounding explains all") if rest is None else tr("more than rounding from step {step} on", step=rest.any.step)
        )
    return DifferenceReason(
        kind, joined("; ", parts), {**numbers, **({} if reason is None else reason.numbers)}, joined("; ", brief or parts[:1])
    )


def _of_row(
    updates: Updates,
    difference: Difference,
    first: TensorRow,
    rounding: Rounding,
    cause: Callable[[TensorRow], DifferenceReason | None] | None,
) -> DifferenceReason | None:
    """The reason for a row that rounding does not explain."""
    settings = [] if updates.begins(first) else difference.settings.of(first, unseen=rounding.unseen)
    if settings:
        return _of_settings(updates, difference, first, settings)
    ends = _of_later_inputs(difference, first) or _of_counts(updates, difference, first)
    ends = of_graph_end(difference.rows, first) if ends is None and first.any.kind in GRADIENTS else ends
    if ends is not None or first.a is None or first.b is None:
        alike = difference.frameworks[0] == difference.frameworks[1]
        return ends or (_of_call(first) if first.any.kind in GRADIENTS or alike else None)
    updated = first.any.kind in ("parameter", STATE)
    if updated and not updates.begins(first):
        known = _of_update(updates, difference, first, rounding.rows) or of_average(difference.rows, first)
        return known or _of_statistics(difference, first) or _of_numbers(first, difference)
    known = None if cause is None else cause(first)
    if known is not None and known.kind != PART:
        return known
    if updated:
        return known or DifferenceReason(WEIGHTS, tr("the weights differ from the start"), {})
    if first.any.kind in GRADIENTS or (first.any.kind, first.any.name) == ("note", NORM_NOTE):
        known = _of_gradients(updates, difference, first) or known
        return known or of_smoothing(difference.rows, first) or _of_place(difference, first)
    if rounding.unseen:
        step = first.any.step - 1
        text = tr("the update of step {step} was not recorded, so it is not known whether rounding explains more", step=step)
        text = tr("{text} (record it with parameters=True, states=True)", text=text)
        return of_constants(difference.rows) or DifferenceReason(UPDATE, text, {"step": step})
    losses = of_labels(difference.rows, first) or of_smoothing(difference.rows, first)
    known = losses or _of_result(difference, first) or known
    return known or _of_place(difference, first)


def _of_statistics(difference: Difference, first: TensorRow) -> DifferenceReason | None:
    """Why running statistics differ: the momentum, as calls tell it, or as what the layer returns leaves it alone."""
    layer, _, name = first.any.name.rpartition(".")
    if name not in STATISTICS_OF_BOTH:
        return None
    returned = [row for row in difference.compared if row.any.kind == "layer" and row.any.layer == layer]
    known = of_statistics(difference.rows, layer)
    if known is not None or not returned or any(row.differs for row in returned):
        return known
    text = tr("running statistics of {layer} differ, what it returns does not: another momentum", layer=shown(layer))
    brief = tr("another momentum of {layer}", layer=shown(layer))
    return DifferenceReason(ARGUMENTS, tr("{text} (Paddle's is 1 minus Torch's)", text=text), {"layer": layer}, brief)


def _of_result(difference: Difference, first: TensorRow) -> DifferenceReason | None:
    """The reason for what a call or a layer returns."""
    same_framework = difference.frameworks[0] == difference.frameworks[1]
    calls = _of_random(difference, first) or (_of_call(first) if same_framework else None)
    if calls is not None:
        return calls
    own = of_average(difference.rows, first) if first.any.kind == "note" else of_call(difference.rows, first)
    masked = own if own is not None and own.kind == MASK else None  # one that a run lacks is none of the call that adds it
    arguments = own if own is not None and own.kind == ARGUMENTS else None
    return masked or of_lone_call(difference.rows, first) or arguments or _of_numbers(first, difference) or own


def _of_place(difference: Difference, first: TensorRow) -> DifferenceReason | None:
    """What the kind of the first difference says of it; of a layer, where calls were not recorded, behind which one it lies."""
    kind, left = first.any.kind, difference.left_out["parameter"] + difference.left_out[IN_STEP]
    if left and first.any.step and kind in ("op", "layer", LOSS):
        text = tr(
            "{weights} of the steps before had no partner, and may be the reason",
            weights=many(left, "weight or gradient", "weights or gradients"),
        )
        return DifferenceReason(kind, text, {"left": left})
    if kind in ("layer", "note", LOSS) and not any(row.any.kind == "op" for row in difference.rows):
        return _of_layers(difference, first)
    if kind == IN_STEP and not any(row.any.kind == "gradient" for row in difference.rows):
        kind, step = "gradient", first.any.step
        text = tr("the forward agrees, gradients that the update uses do not: record both with --around {step}", step=step)
        return DifferenceReason(kind, text, {"step": step})
    words = ROW_KINDS[kind]
    return DifferenceReason(kind, tr(words.place), {}, tr(words.brief) if words.brief else "") if words.place else None


def _of_layers(difference: Difference, first: TensorRow) -> DifferenceReason:
    """Between which layers' results a difference begins: the calls there were not recorded."""
    rows = [row for row in difference.compared if (row.rank, row.any.step, row.any.kind) == (first.rank, first.any.step, "layer")]
    before = [row.any.layer or row.any.name for row in rows if row.any.index < first.any.index]
    last, here = before[-1] if before else "", first.any.layer or first.any.name
    behind, layer = shown(last) or tr("the model's input"), shown(here) or tr("loss")
    words = {"behind": behind, "layer": layer, "step": first.any.step}
    text = tr("{behind} is the same, {layer} is not: it, or a call between them, computes something else", **words)
    around, _, own = last.rpartition(".")
    words["behind"] = shown(own) if around and here.startswith(f"{around}.") else behind
    brief = tr("it begins between {behind} and {layer}: record both with --around {step}", **words)
    text = tr("{text}: calls are not recorded (record both with --around {step})", text=text, step=first.any.step)
    return DifferenceReason(first.any.kind, text, {"behind": last, "layer": here, "step": first.any.step}, brief)


def _of_inputs(difference: Difference) -> DifferenceReason | None:
    """How the batches of both runs differ."""
    if difference.micro_batches[0] != difference.micro_batches[1]:
        return _of_batches(*difference.micro_batches)
    origin = difference.origin
    if origin is None or origin.any.tensor == WEIGHT:
        return None if origin is None else _of_weights(difference, origin)
    sides = [side for side in (origin.a, origin.b) if side is not None]
    if all(side.size == 1 and side.sample for side in sides):
        a, b = (side.sample[0] for side in sides)
        return DifferenceReason(ARGUMENTS, tr("it is {a} in a, {b} in b", a=a, b=b), {origin.any.tensor: [a, b]})
    samples = [side.rows for side in sides]
    reordered = (samples[0] != samples[-1] and sorted(samples[0]) == sorted(samples[-1])) or same_elements(sides[:1], sides[1:])
    if reordered and not pages.is_table(difference, origin):
        text = tr("another order of the samples in a batch")
        text = text if any(samples) else tr("{order}, or of values in them: fingerprints do not tell which", order=text)
        return DifferenceReason(ORDER_OF_SAMPLES, text, {})
    if (ordered := _of_steps(difference, origin)) is not None:
        return ordered
    shapes = [side.shape for side in sides]
    if len(shapes) == 2 and shapes[0][1:] == shapes[1][1:] and shapes[0] != shapes[1]:
        text = tr("another batch size: {a} in a, {b} in b", a=shapes[0][0], b=shapes[1][0])
        return DifferenceReason(BATCH, text, {"a": shapes[0][0], "b": shapes[1][0]})
    return None


def _of_later_inputs(difference: Difference, rest: TensorRow) -> DifferenceReason | None:
    """Data that are others in the step of the first row that rounding does not explain, and that are read before it."""
    if difference.origin is not None or rest.a is None or rest.apart is None:
        return None
    place, least = (rest.rank, rest.a.step), _FITS * rest.apart.relative  # nearer data are rounded otherwise
    for row in difference.inputs:
        if row.a is None or row.apart is None or (row.rank, row.a.step) != place or row.a.index > rest.a.index:
            continue
        if row.differs and row.a.tensor != WEIGHT and row.apart.relative > least and difference.sender(row) is None:
            reason = _of_steps(difference, row) or DifferenceReason(BATCHES, "", {})
            if reason.kind == pages.TABLE:
                return reason
            whole, brief = pages.inputs_differ(difference, row), tr("the inputs differ, from step {step} on", step=row.any.step)
            text, brief = (joined("; ", filter(None, (part, reason.text))) for part in (whole, brief))
            return replace(reason, text=text, brief=brief)
    return None


def _of_steps(difference: Difference, origin: TensorRow) -> DifferenceReason | None:
    """What the data of all steps tell: another order of batches, or a table that is no data."""
    if pages.is_table(difference, origin):
        text = tr("it is the same in all steps: a table of the program, as angles or a mask, and no data")
        numbers = {"tensor": origin.any.tensor, "site": origin.any.site}
        return DifferenceReason(
            pages.TABLE,
            text,
            numbers,
            tr("a table of the program, and no data, differs: {row}", row=origin.any.sentence(brief=True)),
        )
    if pages.reordered(difference, origin):
        return DifferenceReason(ORDER_OF_BATCHES, tr("another order of batches"), {})
    if ahead := pages.ahead(difference, origin):
        side, other = "ab" if ahead > 0 else "ba"
        text = tr("{side} reads each batch {steps} before {other}", side=side, steps=many(abs(ahead), "step"), other=other)
        return DifferenceReason(ORDER_OF_BATCHES, text, {"ahead": ahead})
    return None


def _of_batches(a: int, b: int) -> DifferenceReason:
    """Steps that make their updates of other numbers of batches."""
    text = tr("a step makes its update of {a} in a, of {b} in b", a=many(a, "batch", "batches"), b=b)
    return DifferenceReason(BATCH, text, {"a": a, "b": b})


def _of_weights(difference: Difference, origin: TensorRow) -> DifferenceReason | None:
    """A weight that the other run has under another name as it begins, or in more digits."""
    weights = [row.b for row in difference.inputs if row.differs and row.b and row.any.tensor == WEIGHT and row is not origin]
    same = (b for b in weights if origin.a and b.size == origin.a.size and by_figures(origin.a, b, turned=True).identical)
    side, dtype = _digits_alone(origin) if origin.apart is not None and origin.apart.relative <= _HALF else ("", "")
    if side:
        brief = tr("{side}'s weights have the digits of {dtype} alone", side=side, dtype=dtype)
        text = tr("{text}: they were saved or loaded in it", text=brief)
        return DifferenceReason(DTYPE, text, {"side": side, "dtype": dtype}, brief)
    if (b := next(same, None)) is None or origin.a is None:
        return None
    text = tr("weights are exchanged: {a} of a is {b} of b", a=shown(origin.a.name), b=shown(b.name))
    return DifferenceReason(EXCHANGED, text, {"a": origin.a.name, "b": b.name})


def _digits_alone(row: TensorRow) -> tuple[str, str]:
    """The run whose elements lie in a narrower dtype of floats, where the other's do not, and that dtype; empty words elsewhere."""
    sides = [side for side in (row.a, row.b) if side is not None]
    drawn = [np.array([side.figures.get("max_abs")] if (own := elements(side)) is None else own, np.float32) for side in sides]
    known = {"bfloat16": [not (values.view(np.uint32) & 0xFFFF).any() for values in drawn]}
    known["float16"] = [np.array_equal(values, values.astype(np.float16)) for values in drawn]
    return next((("ab"[fits.index(True)], dtype) for dtype, fits in known.items() if sorted(fits) == [False, True]), ("", ""))


def _of_updates(difference: Difference) -> DifferenceReason | None:
    """One run makes fewer updates of the same data: it has skipped a step, or accumulates gradients."""
    if (side := difference.one_sided.get(IN_STEP)) and difference.first is not None:
        other = "ba"["ab".index(side)]
        return DifferenceReason(SKIPPED, tr("{other} makes no update at all, {side} does", side=side, other=other), {"side": other})
    steps = [step for step in difference.steps if step.rank == difference.steps[0].rank]
    fewer = list(updates_apart([*(step.data for step in steps), *difference.data_behind]))
    fewer = [entry for entry in fewer if entry[0] < len(steps)]
    if not fewer or difference.first is None or difference.first.any.step < steps[fewer[0][0]].step:
        return None
    place, side, count = fewer[0]
    updates = any(getattr(row, side) and row.any.kind == IN_STEP and row.any.step == steps[place].step for row in difference.rows)
    recorded = any(row.any.kind == IN_STEP for row in difference.rows)
    if (
        place == 0
        and (updates or not recorded)
        and (len(fewer) > 1 or len(steps) == 1)
        and {entry[1:] for entry in fewer} == {(side, count)}
    ):
        return _of_batches(*((count, 1) if side == "a" else (1, count)))
    other, step = "ba"["ab".index(side)], steps[place].step
    text = tr("{side} makes no update in step {step}, {other} does: a step was skipped", side=side, step=step, other=other)
    return DifferenceReason(SKIPPED, text, {"side": side, "step": step})


def _of_call(first: TensorRow) -> DifferenceReason | None:
    """What sets a call apart from its partner in the other run: its name, its arguments, or what it reads; or a lone gradient."""
    if first.any.kind in GRADIENTS and (first.a is None or first.b is None):
        side = "a" if first.a is None else "b"
        return DifferenceReason(NOT_TRAINED, tr("{side} has no gradient of it: it is not trained there", side=side), {"side": side})
    if first.any.kind != "op":
        return None
    if first.a is None or first.b is None:
        side, other = "ba" if first.a is None else "ab"
        text = tr("{side} calls {name} here, {other} does not", side=side, name=shown(first.any.name), other=other)
        return DifferenceReason(CALLS, text, {"side": side})
    if first.a.name != first.b.name:
        return other_calls(first.a.name, first.b.name)
    reads = first.a.reads, first.b.reads
    if reads[0] is None or reads[1] is None:
        return None
    arguments = other_arguments(reads[0], reads[1])
    known = [other_argument(*argument) for argument in arguments]
    numbers = {name: values for reason in known for name, values in reason.numbers.items()}
    return DifferenceReason(ARGUMENTS, joined("; ", [reason.text for reason in known]), numbers) if known else None


def _of_random(difference: Difference, first: TensorRow) -> DifferenceReason | None:
    """Where the first result that differs is one of dropout, or reads one that one run alone has: generators stand elsewhere."""
    sides_of_first = [side for side in (first.a, first.b) if side is not None]
    read = {operand.digest for side in sides_of_first if side.reads for operand in side.reads.operands}
    read |= set().union(*(digests(side) for side in sides_of_first if side.kind == "layer"))  # that it may return as they are
    drawing = []
    before = (row for row in difference.rows if row.apart is None and row.any.step == first.any.step)
    for row in (first, *(row for row in before if row.any.index < first.any.index)):
        tensor = row.any
        sides = [side for side in (row.a, row.b) if side is not None and (row is first or read & digests(tensor))]
        if any((side.reads and side.reads.draws) or "dropout" in side.name.lower() for side in sides):
            drawing.append(tensor)
    if not drawing:
        return None
    tensor = drawing[0]
    where = shown(f"{tensor.name} {tensor.layer}".strip())
    text = tr("other random numbers, from {where} at step {step}", where=where, step=tensor.step)
    alone = next((row for row in difference.rows if row.any is tensor and row.apart is None), None)
    if alone is not None:
        side = "a" if alone.b is None else "b"
        text = tr("{side} alone draws random numbers, in {where} at step {step}", side=side, where=where, step=tensor.step)
    return DifferenceReason(RANDOM, text, {"layer": tensor.layer, "step": tensor.step})


def _of_numbers(first: TensorRow, difference: Difference) -> DifferenceReason | None:
    """One factor, or one number that is added, between two results; of a single number, a factor that a count explains, or that
    gradients have, too."""
    first = _scaled_alike(first, difference.rows)
    factor, (a, b) = factor_of(first), (wide(first.a), wide(first.b))
    telling = first.any.size > 1 and a is not None  # two figures of a fingerprint may have one factor by chance
    if factor is not None and abs(factor - 1) > _FACTOR and (telling or counted(factor)):
        return of_multiplied(first, factor) or scaled(factor)
    if factor is not None and first.any.size == 1 and abs(factor - 1) > _ZERO:
        return _of_samples(first, difference, factor)
    if a is None or b is None or a.shape != b.shape or a.size < 2:
        return None
    more = float(np.mean(a - b))
    if more and np.abs(a - b - more).max() <= _FITS * abs(more):
        return DifferenceReason(CONSTANT, tr("a's values are b's plus {more:.4g}", more=more), {"more": more})
    return None


def _scaled_alike(first: TensorRow, rows: Sequence[TensorRow]) -> TensorRow:
    """A row, for a call whose result a call that one run alone has multiplies by a number with that one's result."""
    scaled_rows = []
    for row in rows if first.any.kind == "op" else ():
        own = first.a if row.b is None else first.b
        read = row.any.reads is not None and own is not None and digests(own) & {entry.digest for entry in row.any.reads.operands}
        if row.apart is None and read and factor_of(replace(row, a=row.any, b=own)) is not None:
            scaled_rows.append(replace(first, a=row.a or first.a, b=row.b or first.b))
    return scaled_rows[0] if len(scaled_rows) == 1 else first


def _of_samples(first: TensorRow, difference: Difference, factor: float) -> DifferenceReason | None:
    """A loss and its gradients by one factor, as of means over other numbers of the tokens or labels that calls read."""
    step = [row for row in (*difference.inputs, *difference.rows) if row.any.step == first.any.step]
    gradients = [row for row in step if row.any.kind in (IN_STEP, "gradient") and row.differs]
    if not any(known is not None and abs(known / factor - 1) <= _FITS**2 for known in map(factor_of, gradients)):
        return None
    reads = [row.any.reads.operands for row in step if row.any.reads is not None]
    entries: list[Any] = [*itertools.chain(*reads), *(row.any for row in step)]
    for count in sorted({math.prod(entry.shape) for entry in entries if entry.dtype.startswith("int")}):
        fewer = count * min(factor, 1 / factor)  # what is divided by less is larger
        if round(fewer) > 0 and abs(fewer - round(fewer)) <= _FITS**2:
            counts = (count, round(fewer)) if factor < 1 else (round(fewer), count)
            words = {"factor": factor, "a": counts[0], "b": counts[1]}
            brief = tr("a's values are {factor:.6g} times b's, as of means over {a} in a, {b} in b", **words)
            text = tr("{text}: so are gradients (ignore_index, a mask, or another length)", text=brief)
            return DifferenceReason(SCALE, text, words, brief)
    return scaled(factor)


def counted(factor: float) -> bool:
    """Whether a factor is a whole number, or one over it."""
    whole = max(abs(factor), 1 / abs(factor)) if factor else math.inf
    return whole < _COUNT and abs(whole - round(whole)) <= _FACTOR * whole


def _of_gradients(updates: Updates, difference: Difference, first: TensorRow) -> DifferenceReason | None:
    """One factor between all gradients of the step, those of a step before in one run, or a norm that differs between ranks."""
    kind, step = first.any.kind, first.any.step
    if kind == "note":
        whole = [row for row in difference.compared if row.any.kind == IN_STEP and row.any.step == step]
        alone = all((header.get("ranks") or 1) == 1 for header in difference.headers)
        if not whole or any(row.differs for row in whole):
            return None
        return _of_groups(difference, first) if alone else _of_norm(first, whole)
    rows = [row for row in difference.differing if row.any.kind == kind and row.any.step == step]
    norms = [max(side.figures.get("norm", 0.0) for side in (row.a, row.b) if side is not None) for row in rows]
    least = _ZERO * max(norms, default=0.0)
    rows = [row for row, norm in zip(rows, norms) if norm >= least]
    crossing = difference.frameworks[0] != difference.frameworks[1]
    if side := _not_cleared(updates, [row for row in rows if not crossing or len(row.any.shape) == 1]):
        text = tr("the gradients of the step before were not cleared in {side}", side=side)
        return DifferenceReason(NOT_CLEARED, text, {"side": side, "step": step})
    if len(rows) == 1 and kind != CLIPPED and (tied := _of_tied(difference, first)):
        return tied
    factors = [factor_of(row) for row in rows]
    known = [factor for factor in factors if factor is not None]
    if not known:
        return None
    factor = float(np.median(known))
    # Of fingerprints of two frameworks, whose weights may lie transposed, the norms of the others have to say so.
    likely = [_factor_of_norms(row) if own is None and crossing else own for row, own in zip(rows, factors)]
    if abs(factor - 1) <= _FACTOR or any(own is None or abs(own / factor - 1) > _FACTOR for own in likely):
        return None
    backward = [row.differs for row in difference.compared if row.any.kind == "gradient" and row.any.step == step]
    brief = tr("gradients are {factor:.4g} times b's", factor=factor)
    if kind == CLIPPED:
        text = brief = tr("clipped to {factor:.4g} times the norm: gradients are equal before", factor=factor)
    elif kind == IN_STEP and backward and not any(backward):
        text = tr("gradients are {factor:.4g} times b's: {why}", why=tr(ROW_KINDS[IN_STEP].place), factor=factor)
    else:
        a, b = difference.micro_batches
        why = tr("the loss is scaled otherwise, the forward is equal")
        if a != b and abs(factor - a / b) <= _FACTOR * factor:
            brief = why = tr("{side} does not divide the loss by its {count} batches", side="a" if a > b else "b", count=max(a, b))
        text = tr("gradients are {factor:.4g} times b's: {why}", factor=factor, why=why)
    return DifferenceReason(SCALE, text, {"factor": factor}, brief)


def _of_groups(difference: Difference, first: TensorRow) -> DifferenceReason | None:
    """Norms of groups of parameters, by each of which one run clips, as Paddle does, and that together are the other's."""
    step = [row for row in difference.rows if (row.any.kind, row.any.name, row.any.step) == ("note", NORM_NOTE, first.any.step)]
    sides = [[norm.item() for row in step if (norm := linear(getattr(row, side))) is not None] for side in "ab"]
    for side, own, other in (("a", *sides), ("b", *sides[::-1])):
        if len(own) > len(other) == 1 and abs(math.hypot(*own) - other[0]) <= _FACTOR * other[0]:
            text = tr("{side} clips {count} groups of parameters, each by its own norm", side=side, count=len(own))
            return DifferenceReason(NORM, text, {"step": first.any.step, "side": side, "groups": len(own)})
    return None


def _of_norm(first: TensorRow, gradients: Sequence[TensorRow]) -> DifferenceReason | None:
    """A norm that ranks make of gradients that agree: each of its own, or with those that all ranks hold counted for each."""
    held = [row.any.parts_known for row in gradients]
    counts = [len(parts) if parts[0].size == row.any.size else 1 for row, parts in zip(gradients, held)]
    squares = [row.any.figures.get("norm", math.nan) ** 2 for row in gradients]
    ranks = [sum(part.figures.get("norm", math.nan) ** 2 for part in parts) for parts in zip(*held)]
    norm, total = linear(first.any), sum(count * square for count, square in zip(counts, squares))
    for twice, known, text in (
        (False, ranks, tr("the norm is not summed over ranks: each clips by its own")),
        (True, [total], tr("the norm counts what all ranks hold once for each of them")),
    ):
        if norm is not None and any(abs(norm.item() - math.sqrt(square)) <= _FACTOR * norm.item() for square in known):
            return DifferenceReason(NORM, text, {"step": first.any.step, "twice": twice})
    return None


def _of_tied(difference: Difference, first: TensorRow) -> DifferenceReason | None:
    """The one gradient that differs, of a weight that several calls read: a part of it is missing in one run."""
    alike = (row for row in difference.rows if row.any.kind == first.any.kind and row.any.step == first.any.step)
    own = next((row for row in alike if row.apart is None and row.any.size == first.any.size), None)
    if own is not None:
        side, other = "ba" if own.a is None else "ab"
        text = tr(
            "{side} has {own}, where {other} reads {name} once more: it is tied in {other} alone",
            side=side,
            own=shown(own.any.name),
            other=other,
            name=shown(first.any.name),
        )
        return DifferenceReason(TIED, text, {"side": side, "own": own.any.name})
    names = {first.any.name}
    weights = (row for row in (*difference.inputs, *difference.rows) if row.any.name in names and is_weight(row.any))
    sides = (side for row in weights for side in (row.a, row.b) if side is not None and side.tensor in ("", WEIGHT))
    bits = set[str]().union(*map(digests, sides))
    calls = [
        row.any for row in difference.rows
        if row.any.step == first.any.step and row.any.reads is not None
        and bits.intersection(operand.digest for operand in row.any.reads.operands)
    ]  # fmt: skip
    calls = [call for call in calls if call.kind == "op"]
    norms = [side.figures.get("norm", 0.0) for side in (first.a, first.b) if side is not None]
    if len(calls) < 2 or len(norms) < 2:
        return None
    values = [wide(side) for side in (first.a, first.b)]
    zeros = [np.inf if array is None else np.count_nonzero(array == 0) for array in values]
    side = "ab"[int(norms[0] > norms[1] if zeros[0] == zeros[1] else zeros[1] > zeros[0])]
    words = joined(", ", [call.sentence(brief=True) for call in calls[:_SETTINGS]])
    text = tr(
        "{side} lacks a part of the gradient of {name}, which is read by {calls}",
        side=side,
        name=shown(first.any.name),
        calls=words,
    )
    brief = tr("{side} lacks a part of the gradient of {name}", side=side, name=shown(first.any.name))
    return DifferenceReason(TIED, tr("{text}: one of them is detached there", text=text), {"side": side}, brief)


def _not_cleared(updates: Updates, rows: Sequence[TensorRow]) -> str:
    """The run in which gradients are the other run's plus its own of the step before; "" if they are not."""
    values = [(row, linear(row.a), linear(row.b)) for row in rows]
    sides = list("ab")
    pairs = [(row, a, b) for row, a, b in values if a is not None and b is not None and a.shape == b.shape]
    for row, a, b in pairs:
        before = updates.gradients_before(row)
        sides = [side for side in sides if any(_are(a - b if side == "a" else b - a, linear(getattr(old, side))) for old in before)]
    return "".join(sides[:1]) if pairs else ""


def _are(values: Array, other: Array | None) -> bool:
    """Whether two arrays are the same but for rounding."""
    if other is None or values.shape != other.shape:
        return False
    return float(np.linalg.norm(values - other)) <= _FITS * float(np.linalg.norm(other))


def factor_of(row: TensorRow) -> float | None:
    """By which a's values are b's; None where they are no multiple of them."""
    a, b = linear(row.a), linear(row.b)
    if a is None or b is None:
        return None
    a = a.reshape(b.shape) if a.size == b.size and lie_alike(a.shape, b.shape) else a
    ways = [multiple(a, turned, _FACTOR) for turned in ((b, b.T) if b.ndim == 2 else (b,)) if a.shape == turned.shape]
    factor = next((factor for factor in ways if factor is not None), None)
    if factor is not None and wide(row.a) is None and not counted(factor) and np.any(np.abs(a - factor * b) > _FACTOR * np.abs(a)):
        return None  # of two figures each has to say so
    return factor


def _factor_of_norms(row: TensorRow) -> float | None:
    """The same of a fingerprint, by its norm alone."""
    norms = [side.figures.get("norm") for side in (row.a, row.b) if side is not None and wide(side) is None]
    return norms[0] / norms[1] if len(norms) == 2 and norms[0] and norms[1] else None


# ---- Updates


def _of_counts(updates: Updates, difference: Difference, first: TensorRow) -> DifferenceReason | None:
    """A parameter that one run updates more often in a step, in that of the first difference or before."""
    for row in difference.rows:
        if row.any.kind == IN_STEP and row.any.step <= first.any.step and (row.a is None or row.b is None):
            a, b = (updates.count(row, side) for side in "ab")
            if a and b and a != b:
                text = tr("a makes {updates} in step {step}, b {other}", updates=many(a, "update"), step=row.any.step, other=b)
                return DifferenceReason(UPDATE, text, {"a": a, "b": b, "step": row.any.step})
    return None


def _of_update(updates: Updates, difference: Difference, first: TensorRow, rounded: set[int]) -> DifferenceReason | None:
    """Gradients are equal, the update is not; ``rounded``: rows that rounding explains."""
    used = updates.gradient(first)
    if used is None or (used.differs and id(used) not in rounded):
        return None
    optimizers = difference.settings.optimizers(first)
    if len({*optimizers}) > 1:
        text = tr("gradients are equal, updates are not: {a} in a, {b} in b", a=shown(optimizers[0]), b=shown(optimizers[1]))
        return DifferenceReason(OPTIMIZER, text, {"optimizer": optimizers})
    if first.any.kind == STATE:
        state = first.any.tensor or STATE
        text = tr("gradients are equal, and {state} is not: the optimizer began with another one", state=state)
        return DifferenceReason(UPDATE, text, {"state": state})
    if updates.same_states(first):
        text = tr("gradients and the optimizer's states are equal, updates are not: both optimizers compute otherwise")
        return DifferenceReason(OPTIMIZER, text, {})
    text = tr("gradients are equal, updates are not: the optimizer began with another state, or computes otherwise")
    return DifferenceReason(UPDATE, text, {})


# Torch's words for settings -> the kind of reason.
_SETTING_KINDS = {
    "lr": RATE, "weight_decay": DECAY, "decoupled": DECAY, "eps": EPSILON, "beta1": BETA, "beta2": BETA, "momentum": BETA,
    BEGINS: NOT_LOADED, **dict.fromkeys(CLIP_WORDS, CLIPPING), "optimizer": OPTIMIZER, ALONE: OPTIMIZER,
}  # fmt: skip


def _of_settings(
    updates: Updates, difference: Difference, first: TensorRow, settings: Sequence[SettingDifference]
) -> DifferenceReason:
    """Optimizers whose settings differ."""
    weightiest, frameworks = settings[0], difference.frameworks
    same_rank = [known for known in settings if known.rank == weightiest.rank]
    why, brief = (
        joined("; ", [known.sentence(frameworks, brief=short) for known in same_rank[:_SETTINGS]]) for short in (False, True)
    )
    used = updates.gradient(first)
    text = tr("{why}: gradients are equal, updates are not", why=why) if used is not None and not used.differs else why
    sides = {"side": "ab"[weightiest.a is None]} if None in (weightiest.a, weightiest.b) else {}
    a, b = (value[1] if weightiest.word == CLIP_WAYS else value for value in (weightiest.a, weightiest.b))
    numbers = {"a": a, "b": b, "write": weightiest.write(frameworks), "since": weightiest.step, **sides}
    return DifferenceReason(_SETTING_KINDS.get(weightiest.word, SETTING), text, numbers, brief)
