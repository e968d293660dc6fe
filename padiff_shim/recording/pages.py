"""A difference of two recordings as a document: where they part, how the difference goes on along the run, and every row."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..measure.difference import figures_of, in_words, ulp_text
from ..measure.distance import Distance
from ..present import document as doc
from ..present.annotations import Finding, places_of
from ..runlog.events import LOSS, STATE
from ..text import SENTENCE, code_line, joined, many, marked, shown, tr
from .alignment import same_elements
from .call_origins import ARGUMENTS, CALL, LAYOUT, RANDOM, CallOrigin
from .report import report_parts
from .tensors import GRADIENTS, ROW_KINDS, WEIGHT

if TYPE_CHECKING:
    from .difference import Difference, HeatMap, StepDifference, TensorRow

ROWS = doc.Most(12, 12, 1000)
ORIGINS = 5  # that are shown
DOTS = 4000
STEPS = doc.Most(12, 12, 500)
LAYERS_DRAWN = 60
REASONS = 3  # that a headline names
TABLE, SCALE = "table", "scale"  # kinds of reasons
NO_VALUES = marked("its values were not recorded")


def headline(difference: Difference) -> str:
    """The answer in one line."""
    counts = difference.counts
    if not counts.differing and difference.values_missing:
        return tr(
            "NOT COMPARABLE: record values: a recording has none of {tensors} split over ranks, the first {first}",
            tensors=many(difference.values_missing, "tensor"),
            first=shown(next(tensor for tensor, reason in difference.not_joined if reason == NO_VALUES), SENTENCE),
        )
    text = _with_beginning(difference, _answer(difference))
    if not difference.not_joined:
        return text
    return tr("{answer}; {not_paired}", answer=text, not_paired=_not_paired(difference.not_joined))


def _with_beginning(difference: Difference, text: str) -> str:
    """An answer, and where one run begins in the other."""
    if difference.begins is None:
        return text
    side, step = difference.begins
    return tr("{answer}; {side} begins at step {step} of {other}", answer=text, side=side, step=step, other="ab"[side == "a"])


def shorter(difference: Difference) -> Iterator[str]:
    """The same for a headline: why the runs differ, or where first, and of how many tensors."""
    counts, first, reason = difference.counts, difference.first, difference.reason
    if not counts.differing or first is None:
        if difference.values_missing:
            yield tr("NOT COMPARABLE: values of {tensors} were not recorded", tensors=many(difference.values_missing, "tensor"))
        elif not counts.compared:
            yield tr("NOT COMPARABLE: no tensor of one recording belongs to one of the other")
        else:
            if difference.holes:
                tensors, hole = many(counts.compared, "tensor"), difference.holes[0]
                yield tr("INCOMPLETE: none of {tensors} differs; {hole}", tensors=tensors, hole=hole)
            equal = _equal(difference, brief=True)
            yield _with_beginning(difference, equal if reason is None else joined("; ", (equal, reason.brief or reason.text)))
            yield equal
        return
    word = "INCOMPLETE" if difference.holes else "DIFFERENT"
    number = tr("{count:,} of {all:,} differ", count=counts.differing, all=counts.rows)
    origin = [inputs_differ(difference, difference.origin)] if difference.origin else []
    data = [tr("the inputs differ, from step {step} on", step=difference.origin.any.step)] if difference.origin else []
    data = [] if reason is not None and reason.kind == TABLE else data
    reasons = [] if reason is None else [reason.brief or reason.text]
    rank = [tr("rank {rank}", rank=first.rank)] if first.rank else []
    step = [tr("step {step}", step=first.any.step)] if first.any.step else []
    place = tr("first {row}", row=joined(", ", [*rank, *step, first.any.sentence(brief=True)]))
    has_place = reason is not None and not origin and "until" not in reason.numbers
    placed = [[*reasons, *_forward_equal(difference), place], [*reasons, place]] if has_place else []
    ways = [[number, place], [number]]
    if origin or reasons:  # the last of them is cut where it is too long
        last = [*data, number] if data else reasons
        ways = [*placed, [*origin, *reasons, number], [*origin, *reasons], [*data, *reasons], origin, last]
    for parts in filter(None, ways):
        yield joined("", (f"{word}: ", joined("; ", parts)))


def first_and_origins(difference: Difference) -> list[Finding]:
    """The first difference and the places where bits part, at the lines of b, or of a."""
    first = difference.first
    answer = []
    if first is not None:
        places, tensor = _lines(first), first.b or first.a
        where = "" if places or tensor is None else str(tensor)
        what, numbers = described(first), _numbers(first)
        answer = [Finding("DIFFERENT", "error", headline(difference), places, what=what, where=where, numbers=numbers)]
    for origin in difference.call_origins.held[:ORIGINS]:
        text = tr(_BEGINS[origin.kind], row=described(origin.row))
        answer.append(Finding(f"bits part: {origin.kind}", "warning", text, _lines(origin.row), numbers=_numbers(origin.row)))
    return answer


def _numbers(row: TensorRow) -> dict[str, float]:
    return {} if row.apart is None else figures_of(row.apart)


def _lines(row: TensorRow) -> list[tuple[str, int]]:
    return [place for tensor in (row.b, row.a) if tensor is not None for place in places_of(tensor.site, tensor.file, tensor.line)]


def _not_paired(not_joined: Sequence[tuple[str, str]]) -> str:
    """How many tensors of ranks have no partner, by reason."""
    reasons = Counter(reason for _, reason in not_joined).most_common(REASONS)
    return tr(
        "not paired: {tensors} ({reasons})",
        tensors=many(len(not_joined), "tensor"),
        reasons=joined("; ", [tr("{count:,}: {reason}", count=count, reason=reason) for reason, count in reasons]),
    )


def _answer(difference: Difference) -> str:
    """The answer, without what has no partner."""
    if not difference.counts.compared:
        text = tr("NOT COMPARABLE: no tensor of one recording belongs to one of the other")
        return joined("", (text, " (", difference.holes[0], ")")) if difference.holes else text
    if not difference.counts.differing or difference.first is None:
        return _equal(difference, brief=False)
    if difference.ranks_lost:
        return tr(
            "INCOMPLETE: {hole}; as far as both go {differing}; what the missing ranks hold may be the reason",
            hole=difference.holes[0],
            differing=_differing(difference, difference.first),
        )
    if difference.holes:
        return tr(
            "INCOMPLETE: a recording is not whole ({hole}); as far as both go DIFFERENT: {differing}",
            hole=difference.holes[0],
            differing=_differing(difference, difference.first),
        )
    return tr("DIFFERENT: {differing}", differing=_differing(difference, difference.first))


def _equal(difference: Difference, *, brief: bool) -> str:
    """The answer where nothing that was compared differs; ``brief``: without names."""
    compared = many(difference.counts.compared, "tensor")
    if not difference.met and not difference.holes:
        return tr("NOT COMPARABLE: all compared tensors are equal, but the last results have no partner")
    if difference.holes:
        text = tr("INCOMPLETE: {tensors} compared, none differs, but a recording is not whole", tensors=compared)
        return text if brief else joined("", (text, " (", difference.holes[0], ")"))
    same = tr("SAME: {tensors} compared, none differs", tensors=compared)
    alone, left = _alone(difference), _unrecorded(difference)
    if brief:
        same = tr("{same}; some have no partner", same=same) if alone or difference.not_joined else same
        return tr("{same}; not all was recorded", same=same) if left else same
    if difference.reason is not None:  # other batches, of which both runs make the same
        same = joined("; ", (same, difference.reason.text))
    same = tr("{same}; in one recording alone, and not compared: {kinds}", same=same, kinds=alone) if alone else same
    return tr("{same}; not recorded: {kinds}", same=same, kinds=joined(", ", left)) if left else same


def _differing(difference: Difference, row: TensorRow) -> str:
    """How many tensors differ, and which is the first."""
    counts = difference.counts
    number = tr("{count:,} of {all:,} differ", count=counts.differing, all=counts.rows)
    first = described(row)
    text = tr("{number}, the first at {first}", number=number, first=first)
    if difference.origin:
        origin, reason = inputs_differ(difference, difference.origin), difference.reason
        origin = origin if reason is None else tr("{origin}; {reason}", origin=origin, reason=reason.text)
        return tr("{origin}; of what was computed {differing}", origin=origin, differing=text)
    if difference.reason is None:
        return text
    if "until" in difference.reason.numbers:  # it has a place of its own
        return tr("{reason}; {number}", reason=difference.reason.text, number=text)
    why = joined("; ", [difference.reason.text, *_forward_equal(difference)])
    words = {"reason": why, "place": _row_place(row), "number": number, "far": _row_size(row)}
    return tr("{reason}, first at {place}; {number}: {far}", **words)


def _forward_equal(difference: Difference) -> Iterator[str]:
    """That a forward agrees behind which a gradient differs, where the reason does not say it."""
    first, reason = difference.first, difference.reason
    if first is None or reason is None or first.any.kind not in GRADIENTS[1:] or reason.kind in (*ROW_KINDS, SCALE):
        return
    kinds = {row.any.kind for row in difference.compared if row.any.step == first.any.step}
    if kinds & {"op", "layer", LOSS}:
        yield tr("the forward agrees")


def _alone(difference: Difference) -> str:
    """What one recording alone has of the kinds that go by the name of a parameter, and what kinds it alone has."""
    kinds = [f"{tr(kind)} ({side})" for kind, side in difference.one_sided.items()]
    return ", ".join(kinds + [f"{many(len(names), kind)} ({side})" for (kind, side), names in difference.unpaired.items()])


def _unrecorded(difference: Difference) -> list[str]:
    """What a training computes and neither recording has."""
    if not difference.settings.known:
        return []
    kinds = {kind for step in difference.steps for kind in step.kinds}
    left = [tr(word) for word, own in _TRAINED.items() if kinds.isdisjoint(own)]
    return [*left, tr("what is computed outside of layers, as an average of weights")] if difference.fingerprints else left


# What a training computes, in words -> the kinds that show it.
_TRAINED = {marked("gradients"): GRADIENTS, marked("parameters"): ("parameter",), marked("optimizer states"): (STATE, "parameter")}


def inputs_differ(difference: Difference, origin: TensorRow) -> str:
    """How both runs differ in what they were given: the weights at the start, or the data from a step and batch on."""
    if origin.any.tensor == WEIGHT:
        weights = [row for row in difference.inputs if row.any.tensor == WEIGHT]
        number = sum(row.differs for row in weights)
        return tr(
            "the weights differ from the start, {number:,} of {all:,}, the first {name}",
            number=number,
            all=len(weights),
            name=shown(origin.any.name),
        )
    if is_table(difference, origin):
        return tr("{tensor} differs", tensor=shown(origin.any, SENTENCE))
    batches = _batches(difference, origin)
    samples = reordered(difference, origin)
    words = {
        "step": origin.any.step,
        "batch": batches.index(origin),
        "tensor": shown(origin.any, SENTENCE),
        "reordered": tr("; the same {samples} in another order", samples=many(samples, "sample")) if samples else "",
    }
    return tr("the inputs differ, from step {step}, batch {batch} on ({tensor}{reordered})", **words)


def _place(row: TensorRow) -> Any:
    tensor = row.any
    return row.rank, tensor.name, tensor.tensor, tensor.layer, tensor.site


def _batches(difference: Difference, origin: TensorRow) -> list[Any]:
    """What a call has read in all steps."""
    return [row for row in difference.inputs if _place(row) == _place(origin)]


def is_table(difference: Difference, origin: TensorRow) -> bool:
    """Whether what a call has read is one tensor in all steps, and other data are others in each."""
    digests: dict[Any, set[str]] = {}
    for row in difference.inputs:
        if row.any.tensor != WEIGHT:
            digests.setdefault(_place(row), set()).add(row.any.digest)
    return len(digests[_place(origin)]) == 1 < max(map(len, digests.values()))


def ahead(difference: Difference, origin: TensorRow) -> int:
    """By how many steps a reads the same batches before b; less than 0: behind it; 0 where it reads others."""
    sides = [[getattr(row, side).digest for row in _batches(difference, origin)] for side in "ab"]
    for steps in range(1, len(sides[0]) - 1):
        for sign, (first, second) in ((1, sides), (-1, sides[::-1])):
            if first[:-steps] == second[steps:]:
                return sign * steps
    return 0


def reordered(difference: Difference, origin: TensorRow) -> int:
    """How many samples a call has read in all steps, if both runs gave it the same ones in another order; else 0."""
    batches = _batches(difference, origin)
    if difference.fingerprints and same_elements([row.a for row in batches], [row.b for row in batches]):
        return sum(row.a.shape[0] if row.a.shape else 1 for row in batches)
    samples = [Counter(sample for row in batches for sample in getattr(row, side).rows) for side in "ab"]
    if samples[0] != samples[1] or not all(tensor.rows for row in batches for tensor in (row.a, row.b)):
        return 0
    return sum(samples[0].values())


def remarks(difference: Difference) -> list[str]:
    """Notes on the inputs."""
    differing = [row for row in difference.inputs if row.differs]
    if difference.inputs and not differing:
        by_figures = sum(row.apart is not None and row.apart.how == "figures" for row in difference.inputs)
        data = sum(row.any.tensor != WEIGHT for row in difference.inputs)
        weights = len(difference.inputs) - data - by_figures
        counts = [*([many(weights, "weight")] if weights else []), *([many(data, "input")] if data else [])]
        same = [tr("both runs were given the same: {inputs}", inputs=joined(" and ", counts))] if counts else []
        slices = tr(
            "{weights} begin with the same extremes and norms as in the other run; in which order the elements lie is not known",
            weights=many(by_figures, "weight"),
        )
        return same + ([slices] if by_figures else [])
    if difference.origin is None or difference.origin.any.tensor == WEIGHT:
        return []
    notes = [tr("whether the program itself differs behind that input is not known: give both runs the same inputs")]
    if not any(row.any.tensor == WEIGHT for row in difference.inputs):
        notes.append(tr("the weights at the start were not compared: record(folder, model) in one framework notes them"))
    return notes


def described(row: TensorRow) -> str:
    """A row in words: what, where, how far."""
    return joined("", (_row_place(row), tr(": "), _row_size(row)))


def _row_place(row: TensorRow) -> str:
    """What and where."""
    place = [tr("rank {rank}", rank=row.rank)] if row.rank else []
    place += [tr("step {step}", step=row.any.step)] if row.any.step else []
    return joined(", ", [*place, row.any.sentence()])


def _row_size(row: TensorRow) -> str:
    """How far."""
    made = (" (", row.joined, ")") if row.joined else ()
    return joined("", (_only(row) if row.apart is None else size(row.apart, row), *made))


def _only(row: TensorRow) -> str:
    return tr("only in {side}", side="a" if row.b is None else "b")


def size(apart: Distance, row: TensorRow) -> str:
    """How far two tensors are apart, in words."""
    if apart.how == "shape":
        return tr("shapes {a} and {b}", a=list(row.a.shape) if row.a else "", b=list(row.b.shape) if row.b else "")
    if row.a is not None and row.b is not None and row.a.dtype != row.b.dtype and not apart.different:
        return tr("equal values in other dtypes, {a} and {b}", a=row.a.dtype, b=row.b.dtype)
    if apart.how == "fingerprint":
        return tr(
            "less than 1e-07 apart, relative (by fingerprints)"
            if apart.relative < 1e-7
            else "about {relative:.2g} apart, relative (by fingerprints)",
            relative=apart.relative,
        )
    if apart.how == "figures":
        return tr("figures {relative:.2g} apart, relative (no values were recorded)", relative=apart.relative)
    if not apart.different and apart.layout:
        return tr("the same values, a {layout}", layout=apart.layout)
    if apart.max_abs == 0 and apart.different:
        return in_words(apart)
    if not apart.different:
        return tr("equal in a sample of {elements}, but not all bits", elements=apart.elements)
    return tr(
        "max {largest:.3g}, relative {relative:.2g}{ulps}, {different:,} of {elements:,} elements{sample}{layout}",
        largest=apart.max_abs,
        relative=apart.relative,
        ulps="" if apart.ulp is None else tr(", {ulps} ULP", ulps=ulp_text(apart.ulp)),
        different=apart.different,
        elements=apart.elements,
        sample=tr(" (of a sample)") if apart.how == "sample" else "",
        layout=tr(", a {layout}", layout=apart.layout) if apart.layout else "",
    )


def difference_document(difference: Difference) -> doc.Document:
    """All of a difference."""
    counts, differing, first = difference.counts, difference.differing, difference.first
    sides = zip("ab", (difference.a, difference.b), difference.frameworks)
    facts = [
        tr("{side}: {folder} ({framework})", side=side, folder=folder, framework=framework) for side, folder, framework in sides
    ]
    ends = [] if first is None else [(side, tensor) for side, tensor in (("a", first.a), ("b", first.b)) if tensor]
    ends = [] if len(ends) > 1 and str(ends[0][1]) == str(ends[1][1]) else ends  # then the answer has said it
    columns = [
        doc.Column(tr("what")),
        doc.Column(tr("layer"), 4, markdown="under"),
        doc.Column("a"),
        doc.Column("b", 3),
        *doc.figures(tr("max"), tr("mean"), tr("relative"), tr("ULP"), leave=(0, 6, 2, 5)),
    ]
    table = doc.Table(columns, [_cells(row) for row in differing[: ROWS.page]], most=ROWS, total=counts.differing)
    words = tr(
        "max, mean: absolute differences; relative: norm of the difference by that of b; ULP: the largest difference, in units "
        "in the last place of b's largest element."
    )
    worst = max((row for row in differing if _relative(row)), key=_relative, default=None)
    far = "" if worst is None or worst in differing[: ROWS.text] else tr("largest relative difference: {row}", row=described(worst))
    not_joined = [(shown(tensor, SENTENCE), reason) for tensor, reason in difference.not_joined[: ROWS.page]]
    others = [(f"optimizer.{known.word}", *known.values) for known in difference.settings.differences]
    around = [(tr(shown(name)), shown(in_a), shown(in_b)) for name, in_a, in_b in (*difference.surroundings, *others)]
    return doc.Document(
        difference.answer,
        [
            doc.Facts([*facts, *(tr("first in {side}: {tensor}", side=side, tensor=tensor) for side, tensor in ends)]),
            *(report_parts(difference) if difference.reported else ()),
            *_begins(difference),
            *_steps(difference),
            doc.Only((doc.PAGE,), [*_heat(difference.heat), _along(difference)]),
            doc.Section(
                tr("{count:,} of {all:,} differ", count=counts.differing, all=counts.rows),
                [table, doc.Only((doc.MARKDOWN, doc.PAGE), [doc.Paragraph(words if differing else "")])],
            ),
            doc.Only((doc.TEXT,), [doc.Paragraph(far)]),
            doc.Section(
                tr("Not paired"),
                [
                    doc.Table(
                        [doc.Column(tr("what")), doc.Column(tr("why"))], not_joined, most=ROWS, total=len(difference.not_joined)
                    )
                ],
                folded=True,
            ),
            doc.Section(
                tr("Versions and settings that differ"),
                [doc.Table([doc.Column(tr("what")), doc.Column("a"), doc.Column("b")], around)],
                folded=True,
            ),
            doc.Notes([*remarks(difference), *difference.holes, *difference.notes]),
        ],
        "bad" if counts.differing else "good" if difference else "open",
        title=tr("padiff_shim: difference of two runs"),
    )


def _begins(difference: Difference) -> Iterator[doc.Part]:
    """The calls that read equal bits and make other ones."""
    origins = difference.call_origins
    if not origins.held:
        return
    others = []
    further = origins.count - min(ORIGINS, len(origins.held))
    if further:
        others.append(tr("not shown: {places} more where bits part", places=many(further, "place")))
    if origins.carried:
        others.append(
            tr(
                "{results} differ only because what they read differs already",
                results=many(origins.carried, "result"),
            )
        )
    findings = doc.Findings([_begin(origin) for origin in origins.held[:ORIGINS]])
    yield doc.Section(tr("Where the bits part"), [findings, doc.Notes(others)])


# Kinds of origins -> what happens there.
_BEGINS = {
    CALL: marked("{row}: equal operands, another result"),
    LAYOUT: marked("{row}: equal operands in another memory layout, another result"),
    ARGUMENTS: marked("{row}: equal operands, other arguments"),
    RANDOM: marked("{row}: its random numbers differ"),
}


def _begin(origin: CallOrigin) -> doc.ListedFinding:
    row = origin.row
    places = [
        doc.Place(side, side, code_line(tensor.site, SENTENCE) if tensor.site else shown(tensor.name))
        for side, tensor in (("a", row.a), ("b", row.b))
        if tensor is not None
    ]
    details = [(tr("kernel"), origin.kernel)] if origin.kernel else []
    details += [(tr("known"), detail) for detail in origin.details]
    details += [
        (tr("cause?"), tr("{name}: {a} in a, {b} in b ({why})", name=tr(shown(name)), a=shown(a), b=shown(b), why=why))
        for name, a, b, why in origin.switches
    ]
    return doc.ListedFinding(tr(_BEGINS[origin.kind], row=described(row)), places, details)


def _steps(difference: Difference) -> Iterator[doc.Part]:
    """The losses and differences over the steps of a run of several."""
    steps = difference.steps
    if len(steps) < 2:
        return
    with_losses = any(loss is not None for step in steps for loss in step.losses)
    kinds = [kind for kind, known in ROW_KINDS.items() if known.column and any(kind in step.kinds for step in steps)]
    heads = [*([tr("loss a"), tr("loss b")] if with_losses else []), *(tr(ROW_KINDS[kind].column) for kind in kinds), tr("largest")]
    columns = doc.figures(tr("step"), *heads, leave=range(len(heads) + 1))
    chosen = _chosen(steps, STEPS.text)
    listed = list(range(len(steps))) if len(steps) <= STEPS.page else chosen
    rows = [_step_row(steps[place], kinds, with_losses) for place in listed]
    rank = sorted(range(len(listed)), key=lambda at: listed[at] not in chosen)
    every = -(-len(steps) // DOTS)
    charts = [
        doc.Scatter([doc.ChartPoint(place, y) for place, y in sizes if 0 < y < math.inf], steps[-1].step, tr("step"), name)
        for name, sizes in (
            (tr("largest relative difference"), [(step.step, step.largest) for step in steps[::every]]),
            (tr("difference of the loss"), [(step.step, step.loss_distance) for step in steps[::every]]),
        )
    ]
    table = doc.Table([*columns, doc.Column(tr("first that differs"))], rows, most=STEPS, rank=rank, total=len(steps))
    yield doc.Section(tr("Over the steps"), [doc.Only((doc.PAGE,), charts), table])


def _chosen(steps: Sequence[StepDifference], most: int) -> list[int]:
    """Places of the first step, those around the first that differs, some between, and the last."""
    if len(steps) <= most:
        return list(range(len(steps)))
    first = next((place for place, step in enumerate(steps) if step.first), len(steps) - 1)
    around = [0, first - 1, first, first + 1, len(steps) - 1]
    rest = most - len(around)
    spread = [first + (len(steps) - 1 - first) * part // (rest + 1) for part in range(1, rest + 1)]
    return sorted({place for place in (*around, *spread) if 0 <= place < len(steps)})


def _step_row(step: StepDifference, kinds: Sequence[str], with_losses: bool) -> doc.Row:
    losses = ["" if loss is None else f"{loss:.7g}" for loss in step.losses] if with_losses else []
    counts = [step.kinds.get(kind, (0, 0)) for kind in kinds]
    equal = [f"{same:,}/{compared:,}" if compared else "" for same, compared in counts]
    number = f"[{step.rank}] {step.step}" if step.rank else str(step.step)
    return (number, *losses, *equal, f"{step.largest:.2g}" if step.largest else "", shown(step.first, SENTENCE))


def _heat(heat: HeatMap) -> Iterator[doc.Part]:
    """The largest differences by layer and step, the darker the larger."""
    values = [value for row in heat.layers.values() for value in row.values() if 0 < value < math.inf]
    if not values or heat.columns < 2:
        return
    layers = list(heat.layers)[:LAYERS_DRAWN]
    cells = [
        doc.HeatCell(line, column, value, tr("step {step:,}: {value:.2g}", step=column * heat.width, value=value))
        for line, layer in enumerate(layers)
        for column, value in heat.layers[layer].items()
    ]
    names = [shown(layer) or tr("(the model)") for layer in layers]
    note = tr(
        "Relative differences of layers' outputs from {low:.1g} (light) to {high:.1g} (dark).", low=min(values), high=max(values)
    )
    if len(heat.layers) > len(layers):
        note += " " + tr("Not drawn: {layers}.", layers=many(len(heat.layers) - len(layers), "more layer"))
    ends = ("0", f"{heat.columns * heat.width - 1:,}")
    yield doc.Section(tr("By layer and step"), [doc.HeatChart(names, heat.columns, cells, ends)], note)


def _cells(row: TensorRow) -> doc.Row:
    tensor = row.any
    rank = f"[{row.rank}] " if row.rank else ""
    kind = f"{tr(word)} " if (word := ROW_KINDS[tensor.kind].word) else ""
    name = tr("loss") if tensor.kind == LOSS else tensor.name
    what = name if tensor.tensor in ("", "out") else f"{name} {tensor.tensor}"
    step = tr(" (step {step})", step=tensor.step) if tensor.step else ""
    places = ["-" if side is None else side.site or side.name for side in (row.a, row.b)]
    return doc.Cell([shown(f"{rank}{kind}{what}{step}")], "strong"), shown(tensor.layer), *map(code_line, places), *_figures(row)


def _figures(row: TensorRow) -> list[str]:
    apart = row.apart
    if apart is None:
        return [_only(row), "", "", ""]
    if apart.how == "shape":
        return [tr("shape"), "", "", ""]
    known = [f"{value:.2g}" if not math.isnan(value) else "?" for value in (apart.max_abs, apart.mean_abs, apart.relative)]
    return [*known, "" if apart.ulp is None else ulp_text(apart.ulp)]


def _along(difference: Difference) -> doc.Part:
    """Relative differences by the place in the run."""
    placed = [(place, row) for place, row in enumerate(difference.rows) if _relative(row)]
    every = -(-len(placed) // DOTS)
    points = [doc.ChartPoint(place, _relative(row), not row.differs) for place, row in placed[:: every or 1]]
    note = tr("Norm of the difference by the tensor's own. Equal tensors are not drawn.")
    if every > 1:
        note += " " + tr("One in {every} is drawn.", every=every)
    chart = doc.Scatter(points, len(difference.rows) - 1, tr("tensor (its place in the run)"), tr("relative difference"))
    return doc.Section(tr("Along the run"), [chart], note)


def _relative(row: TensorRow) -> float:
    relative = 0.0 if row.apart is None else row.apart.relative
    return relative if math.isfinite(relative) else 0.0
