"""A difference of two recordings as a document: where they part, how the difference goes on along the run, and every row."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, Protocol

from ..present import document as doc
from ..text import SENTENCE, many, shown, tr
from .alignment import TensorDistance
from .folder import WEIGHT, Tensor

ROWS = doc.Most(12, 12, 1000)
DOTS = 4000


class RowView(Protocol):
    """A row of a difference."""

    rank: int
    a: Tensor | None
    b: Tensor | None
    apart: TensorDistance | None

    @property
    def any(self) -> Tensor: ...


class DifferenceView(Protocol):
    """A difference, as far as a document shows it."""

    a: str
    b: str
    surroundings: list[tuple[str, Any, Any]]
    notes: list[str]
    frameworks: tuple[str, str]
    met: bool

    @property
    def rows(self) -> list[Any]: ...
    @property
    def inputs(self) -> list[Any]: ...
    @property
    def origin(self) -> Any: ...
    @property
    def compared(self) -> list[Any]: ...
    @property
    def differing(self) -> list[Any]: ...
    @property
    def first(self) -> Any: ...
    @property
    def headline(self) -> str: ...


def headline(difference: DifferenceView) -> str:
    """The answer in one line."""
    if not difference.compared:
        return tr("NOT COMPARABLE: no tensor of one recording belongs to one of the other")
    if difference.first is None and not difference.met:
        return tr("NOT COMPARABLE: all compared tensors are equal, but the last results have no partner")
    if difference.first is None:
        return tr("SAME: {tensors} compared, none differs", tensors=many(len(difference.compared), "tensor"))
    number = tr("{count:,} of {all:,} differ", count=len(difference.differing), all=len(difference.rows))
    first = described(difference.first)
    if not difference.origin:
        return tr("DIFFERENT: {number}, the first at {first}", number=number, first=first)
    origin = _origin(difference)
    return tr("DIFFERENT: {origin}; of what was computed {number}, the first at {first}", origin=origin, number=number, first=first)


def _origin(difference: DifferenceView) -> str:
    """How both runs differ in what they were given: the weights at the start, or the data from a step and batch on."""
    origin, weights = difference.origin, [row for row in difference.inputs if row.any.tensor == WEIGHT]
    if origin.any.tensor == WEIGHT:
        number = sum(row.differs for row in weights)
        return tr(
            "the weights differ from the start, {number:,} of {all:,}, the first {name}",
            number=number,
            all=len(weights),
            name=shown(origin.any.name),
        )
    place = _place(origin)
    batches = [row for row in difference.inputs if _place(row) == place]
    words = {
        "step": origin.any.step,
        "batch": batches.index(origin) + 1,
        "tensor": shown(origin.any, SENTENCE),
        "reordered": _reordered(batches),
    }
    if weights:
        return tr("only the inputs differ, from step {step}, batch {batch} on ({tensor}{reordered})", **words)
    return tr("the inputs differ, from step {step}, batch {batch} on ({tensor}{reordered})", **words)


def _place(row: RowView) -> Any:
    tensor = row.any
    return row.rank, tensor.name, tensor.tensor, tensor.layer, tensor.site


def _reordered(batches: list[Any]) -> str:
    """Whether both runs got the same samples, in another order."""
    samples = [Counter(sample for row in batches for sample in getattr(row, side).rows) for side in "ab"]
    if samples[0] != samples[1] or not all(tensor.rows for row in batches for tensor in (row.a, row.b)):
        return ""
    return tr("; the same {samples} in another order", samples=many(sum(samples[0].values()), "sample"))


def remarks(difference: DifferenceView) -> list[str]:
    """Notes on the inputs."""
    differing = [row for row in difference.inputs if row.differs]
    if difference.inputs and not differing:
        data = sum(row.any.tensor != WEIGHT for row in difference.inputs)
        weights = len(difference.inputs) - data
        counts = [*([many(weights, "weight")] if weights else []), *([many(data, "input")] if data else [])]
        return [tr("both runs were given the same: {inputs}", inputs=" and ".join(counts))]
    if difference.origin is None or difference.origin.any.tensor == WEIGHT:
        return []
    notes = [tr("whether the program itself differs behind that input is not known: give both runs the same inputs")]
    if not any(row.any.tensor == WEIGHT for row in difference.inputs):
        notes.append(tr("the weights at the start were not compared: record(folder, model) in one framework notes them"))
    return notes


def described(row: RowView) -> str:
    """A row in words: what, where, how far."""
    place = [tr("rank {rank}", rank=row.rank)] if row.rank else []
    place += [tr("step {step}", step=row.any.step)] if row.any.step else []
    what = ", ".join([*place, shown(row.any, SENTENCE)])
    return f"{what}: {_only(row) if row.apart is None else size(row.apart, row)}"


def _only(row: RowView) -> str:
    return tr("only in {side}", side="a" if row.b is None else "b")


def size(apart: TensorDistance, row: RowView) -> str:
    """How far two tensors are apart, in words."""
    if apart.how == "shape":
        return tr("shapes {a} and {b}", a=list(row.a.shape) if row.a else "", b=list(row.b.shape) if row.b else "")
    if row.a is not None and row.b is not None and row.a.dtype != row.b.dtype and not apart.different:
        return tr("equal values in other dtypes, {a} and {b}", a=row.a.dtype, b=row.b.dtype)
    if apart.how == "figures":
        return tr("figures {relative:.2g} apart, relative (no values were recorded)", relative=apart.relative)
    if not apart.different and apart.layout:
        return tr("the same values, a {layout}", layout=apart.layout)
    if not apart.different:
        return tr("equal in a sample of {elements}, but not all bits", elements=apart.elements)
    return tr(
        "max {largest:.3g}, relative {relative:.2g}{ulps}, {different:,} of {elements:,} elements{sample}{layout}",
        largest=apart.max_abs,
        relative=apart.relative,
        ulps="" if apart.ulp is None else tr(", {ulps} ULP", ulps=_number(apart.ulp)),
        different=apart.different,
        elements=apart.elements,
        sample=tr(" (of a sample)") if apart.how == "sample" else "",
        layout=tr(", a {layout}", layout=apart.layout) if apart.layout else "",
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if math.isfinite(value) and value < 1e6 else f"{value:.2g}"


def difference_document(difference: DifferenceView) -> doc.Document:
    """All of a difference."""
    differing, first = difference.differing, difference.first
    sides = zip("ab", (difference.a, difference.b), difference.frameworks)
    facts = [
        tr("{side}: {folder} ({framework})", side=side, folder=folder, framework=framework) for side, folder, framework in sides
    ]
    ends = [] if first is None else [(side, tensor) for side, tensor in (("a", first.a), ("b", first.b)) if tensor]
    columns = [
        doc.Column(tr("what")),
        doc.Column(tr("layer"), 4, markdown="under"),
        doc.Column("a"),
        doc.Column("b", 3),
        *doc.figures(tr("max"), tr("mean"), tr("relative"), tr("ULP"), leave=(0, 6, 2, 5)),
    ]
    table = doc.Table(columns, [_cells(row) for row in differing[: ROWS.page]], most=ROWS, total=len(differing))
    words = tr("max, mean: absolute differences; relative: norm of the difference by that of b; ULP: in units of the last place.")
    worst = max((row for row in differing if _relative(row)), key=_relative, default=None)
    far = "" if worst is None or worst in differing[: ROWS.text] else tr("largest relative difference: {row}", row=described(worst))
    around = [(shown(name), shown(in_a), shown(in_b)) for name, in_a, in_b in difference.surroundings]
    return doc.Document(
        difference.headline,
        [
            doc.Facts([*facts, *(tr("first in {side}: {tensor}", side=side, tensor=tensor) for side, tensor in ends)]),
            _along(difference),
            doc.Section(
                tr("{count:,} of {all:,} differ", count=len(differing), all=len(difference.rows)),
                [table, doc.Only((doc.MARKDOWN, doc.PAGE), [doc.Paragraph(words if differing else "")])],
            ),
            doc.Only((doc.TEXT,), [doc.Paragraph(far)]),
            doc.Section(
                tr("What differs around the runs"),
                [doc.Table([doc.Column(tr("what")), doc.Column("a"), doc.Column("b")], around)],
                folded=True,
            ),
            doc.Notes([*remarks(difference), *difference.notes]),
        ],
        "good" if difference.headline.startswith("SAME") else "bad",
        title=tr("padiff_shim: difference of two runs"),
    )


def _cells(row: RowView) -> doc.Row:
    tensor = row.any
    rank = f"[{row.rank}] " if row.rank else ""
    kind = "" if tensor.kind == "op" else f"{tensor.kind} "
    what = tensor.name if tensor.tensor in ("", "out") else f"{tensor.name} {tensor.tensor}"
    step = tr(" (step {step})", step=tensor.step) if tensor.step else ""
    places = ["-" if side is None else side.site or side.name for side in (row.a, row.b)]
    return doc.Cell([shown(f"{rank}{kind}{what}{step}")], "strong"), shown(tensor.layer), *map(shown, places), *_figures(row)


def _figures(row: RowView) -> list[str]:
    apart = row.apart
    if apart is None:
        return [_only(row), "", "", ""]
    if apart.how == "shape":
        return [tr("shape"), "", "", ""]
    known = [f"{value:.2g}" if not math.isnan(value) else "?" for value in (apart.max_abs, apart.mean_abs, apart.relative)]
    return [*known, "" if apart.ulp is None else _number(apart.ulp)]


def _along(difference: DifferenceView) -> doc.Part:
    """Relative differences by the place in the run."""
    placed = [(place, row) for place, row in enumerate(difference.rows) if _relative(row)]
    every = -(-len(placed) // DOTS)
    points = [doc.ChartPoint(place, _relative(row), not row.differs) for place, row in placed[:: every or 1]]
    note = tr("Norm of the difference by the tensor's own. Equal tensors are not drawn.")
    if every > 1:
        note += " " + tr("One in {every} is drawn.", every=every)
    chart = doc.Scatter(points, len(difference.rows) - 1, tr("tensor (its place in the run)"), tr("relative difference"))
    return doc.Only((doc.PAGE,), [doc.Section(tr("Along the run"), [chart], note)])


def _relative(row: RowView) -> float:
    relative = 0.0 if row.apart is None else row.apart.relative
    return relative if math.isfinite(relative) else 0.0
