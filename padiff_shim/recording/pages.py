"""A difference of two recordings as text, as Markdown, and as one self-contained page."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

from ..report.still import box, opening, page, table, warnings
from ..report.still import text as still_text
from ..text import SENTENCE, Column, Screen, in_markdown, many, shown
from .alignment import TensorDistance
from .tensors import WEIGHT, Tensor

SHOWN = 12  # rows of a table
HEADS = ("what", "layer", "a", "b", "max", "mean", "relative", "ULP")
_MARKDOWN = ("what, layer", "a", "b", "max", "relative", "ULP")
FOOT = "max, mean: absolute differences; relative: norm of the difference by that of b; ULP: in units of the last place."
_LEFT = 4  # columns of words
_LEAVE = (0, 4, 0, 3, 0, 6, 2, 5)  # the order in which columns are left out where room is short


class RowView(Protocol):
    """A row of a difference."""

    rank: int
    a: Tensor | None
    b: Tensor | None
    apart: TensorDistance | None

    @property
    def any(self) -> Tensor: ...


class StepView(Protocol):
    """A step of a difference."""

    rank: int
    step: int
    losses: tuple[float | None, float | None]
    kinds: dict[str, tuple[int, int]]
    largest: float
    first: str


class CountsView(Protocol):
    """Numbers of rows."""

    rows: int
    compared: int
    differing: int


class HeatView(Protocol):
    """The largest differences by layer and column."""

    width: int
    layers: dict[str, dict[int, float]]

    @property
    def columns(self) -> int: ...


class DifferenceView(Protocol):
    """A difference, as far as it is shown."""

    a: str
    b: str
    surroundings: list[tuple[str, Any, Any]]
    notes: list[str]
    frameworks: tuple[str, str]
    met: bool
    holes: list[str]
    fingerprints: bool

    @property
    def steps(self) -> Sequence[StepView]: ...
    @property
    def counts(self) -> CountsView: ...
    @property
    def heat(self) -> HeatView: ...
    @property
    def rows(self) -> list[Any]: ...
    @property
    def inputs(self) -> list[Any]: ...
    @property
    def origin(self) -> Any: ...
    @property
    def differing(self) -> list[Any]: ...
    @property
    def first(self) -> Any: ...
    @property
    def headline(self) -> str: ...


def headline(page: DifferenceView) -> str:
    """The answer in one line."""
    counts = page.counts
    if not counts.compared:
        return "NOT COMPARABLE: no tensor of one recording belongs to one of the other"
    if not counts.differing and not page.met:
        return "NOT COMPARABLE: all compared tensors are equal, but the last results have no partner"
    if not counts.differing and page.holes:
        return f"INCOMPLETE: {counts.compared:,} tensors compared, none differs, but a recording is not whole ({page.holes[0]})"
    if not counts.differing or page.first is None:
        return f"SAME: {counts.compared:,} tensors compared, none differs"
    number, first = f"{counts.differing:,} of {counts.rows:,} differ", f"the first at {described(page.first)}"
    return f"DIFFERENT: {_origin(page)}; of what was computed {number}, {first}" if page.origin else f"DIFFERENT: {number}, {first}"


def _origin(page: DifferenceView) -> str:
    """How both runs differ in what they were given: the weights at the start, or the data from a step and batch on."""
    origin, weights = page.origin, [row for row in page.inputs if row.any.tensor == WEIGHT]
    if origin.any.tensor == WEIGHT:
        number = sum(row.differs for row in weights)
        return f"the weights differ from the start, {number:,} of {len(weights):,}, the first {origin.any.name}"
    place = _place(origin)
    batches = [row for row in page.inputs if _place(row) == place]
    step = f"step {origin.any.step}, batch {batches.index(origin) + 1}"
    only = "only the inputs differ" if weights else "the inputs differ"
    return f"{only}, from {step} on ({origin.any}{_reordered(batches)})"


def _place(row: RowView) -> Any:
    tensor = row.any
    return row.rank, tensor.name, tensor.tensor, tensor.layer, tensor.site


def _reordered(batches: list[Any]) -> str:
    """Whether both runs got the same samples, in another order."""
    samples = [Counter(sample for row in batches for sample in getattr(row, side).rows) for side in "ab"]
    whole = all(tensor.rows for row in batches for tensor in (row.a, row.b))
    return f"; the same {many(sum(samples[0].values()), 'sample')} in another order" if whole and samples[0] == samples[1] else ""


def remarks(page: DifferenceView) -> list[str]:
    """Notes on the inputs."""
    differing = [row for row in page.inputs if row.differs]
    if page.inputs and not differing:
        data = sum(row.any.tensor != WEIGHT for row in page.inputs)
        counts = ((len(page.inputs) - data, "weight"), (data, "input"))
        return [f"both runs were given the same: {' and '.join(many(*count) for count in counts if count[0])}"]
    if page.origin is None or page.origin.any.tensor == WEIGHT:
        return []
    notes = ["whether the program itself differs behind that input is not known: give both runs the same inputs"]
    if not any(row.any.tensor == WEIGHT for row in page.inputs):
        notes.append("the weights at the start were not compared: record(folder, model) in one framework notes them")
    return notes


def notes(page: DifferenceView) -> list[str]:
    """All notes: on inputs, on what the recordings lack, and on the comparison."""
    return [*remarks(page), *page.holes, *page.notes]


STEPS_SHOWN = 12  # rows of the table by step
_KINDS = (("op", "calls"), ("layer", "layers"), ("gradient", "gradients"), ("parameter", "parameters"))


def step_rows(page: DifferenceView) -> list[StepView]:
    """The steps to show of a run of several: the first, those around the first that differs, some between, and the last."""
    steps = page.steps
    if len(steps) < 2:
        return []
    if len(steps) <= STEPS_SHOWN:
        return list(steps)
    first = next((place for place, step in enumerate(steps) if step.first), len(steps) - 1)
    around = [0, first - 1, first, first + 1, len(steps) - 1]
    rest = STEPS_SHOWN - len(around)
    spread = [first + (len(steps) - 1 - first) * part // (rest + 1) for part in range(1, rest + 1)]
    return [steps[place] for place in sorted({place for place in (*around, *spread) if 0 <= place < len(steps)})]


def step_heads(page: DifferenceView) -> list[str]:
    """Heads of the table by step."""
    losses = ["loss a", "loss b"] if any(loss is not None for step in page.steps for loss in step.losses) else []
    present = {kind for step in page.steps for kind in step.kinds}
    return ["step", *losses, *(f"{name} equal" for kind, name in _KINDS if kind in present), "largest", "first that differs"]


def step_cells(heads: Sequence[str], step: StepView) -> list[str]:
    """A row of the table by step."""
    cells = [f"[{step.rank}] {step.step}" if step.rank else str(step.step)]
    for head in heads[1:-2]:
        if head.startswith("loss"):
            loss = step.losses[head == "loss b"]
            cells.append("" if loss is None else f"{loss:.7g}")
        else:
            kind = next(kind for kind, name in _KINDS if head == f"{name} equal")
            equal, compared = step.kinds.get(kind, (0, 0))
            cells.append(f"{equal:,}/{compared:,}" if compared else "")
    return [*cells, f"{step.largest:.2g}" if step.largest else "", step.first]


def described(row: RowView) -> str:
    """A row in words: what, where, how far."""
    rank = f"rank {row.rank}, " if row.rank else ""
    step = f"step {row.any.step}, " if row.any.step else ""
    if row.apart is None:
        return f"{rank}{step}{row.any}: only in {'a' if row.b is None else 'b'}"
    return f"{rank}{step}{row.any}: {size(row.apart, row)}"


def size(apart: TensorDistance, row: RowView) -> str:
    """How far two tensors are apart, in words."""
    if apart.how == "shape":
        return f"shapes {list(row.a.shape) if row.a else ''} and {list(row.b.shape) if row.b else ''}"
    if row.a is not None and row.b is not None and row.a.dtype != row.b.dtype and not apart.different:
        return f"equal values in other dtypes, {row.a.dtype} and {row.b.dtype}"
    if apart.how == "fingerprint":
        about = f"about {apart.relative:.2g}" if apart.relative >= 1e-7 else "less than 1e-07"
        return f"{about} apart, relative (by fingerprints)"
    if apart.how == "figures":
        return f"figures {apart.relative:.2g} apart, relative (no values were recorded)"
    ulps = "" if apart.ulp is None else f", {_number(apart.ulp)} ULP"
    layout = f", a {apart.layout}" if apart.layout else ""
    seen = " (of a sample)" if apart.how == "sample" else ""
    if not apart.different and apart.layout:
        return f"the same values, a {apart.layout}"
    if not apart.different:
        return f"equal in a sample of {apart.elements}, but not all bits"
    number = f"{apart.different:,} of {apart.elements:,} elements"
    return f"max {apart.max_abs:.3g}, relative {apart.relative:.2g}{ulps}, {number}{seen}{layout}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if math.isfinite(value) and value < 1e6 else f"{value:.2g}"


def cells(row: RowView) -> list[str]:
    """A row of a table, below :data:`HEADS`."""
    tensor = row.any
    what = tensor.name if tensor.tensor in ("", "out") else f"{tensor.name} {tensor.tensor}"
    kind = "" if tensor.kind in ("op", "loss") else f"{tensor.kind} "
    rank = f"[{row.rank}] " if row.rank else ""
    places = ["-" if side is None else side.site or side.name for side in (row.a, row.b)]
    return [f"{rank}{kind}{what}" + (f" (step {tensor.step})" if tensor.step else ""), tensor.layer, *places, *_figures(row)]


def _figures(row: RowView) -> list[str]:
    apart = row.apart
    if apart is None:
        return [f"only in {'a' if row.b is None else 'b'}", "", "", ""]
    if apart.how == "shape":
        return ["shape", "", "", ""]
    known = [f"{value:.2g}" if not math.isnan(value) else "?" for value in (apart.max_abs, apart.mean_abs, apart.relative)]
    return [*known, "" if apart.ulp is None else _number(apart.ulp)]


def _worst(page: DifferenceView) -> Any:
    """The row with the largest relative difference, if it is not among the first ones."""
    rows = [row for row in page.differing if row.apart is not None and not math.isnan(row.apart.relative)]
    worst = max(rows, key=lambda row: row.apart.relative, default=None)
    return None if worst in page.differing[:SHOWN] else worst


def sides(page: DifferenceView) -> list[str]:
    """Where both sides stand at the first difference."""
    first = page.first
    if first is None:
        return []
    return [f"first in {side}: {tensor}" for side, tensor in (("a", first.a), ("b", first.b)) if tensor is not None]


def text(page: DifferenceView, width: int | None = None, *, colour: bool = False) -> str:
    """For a terminal, ``width`` columns wide (default: its own); with ``colour`` as ANSI sequences."""
    screen = Screen(width, colour=colour)
    screen.say(shown(page.headline, SENTENCE), "bold green" if page.headline.startswith("SAME") else "bold red")
    for line in (f"a: {page.a} ({page.frameworks[0]})", f"b: {page.b} ({page.frameworks[1]})", *sides(page)):
        screen.say(shown(line, SENTENCE), hang=3)
    if page.surroundings:
        rows = [(shown(name), shown(in_a), shown(in_b)) for name, in_a, in_b in page.surroundings]
        screen.table((Column(""), Column("a"), Column("b")), rows, "what differs around the runs")
    if chosen := step_rows(page):
        heads = step_heads(page)
        headings = [
            Column(head, place if 0 < place < len(heads) - 1 else 0, right=place < len(heads) - 1)
            for place, head in enumerate(heads)
        ]
        title = "by step" if len(chosen) == len(page.steps) else f"by step, {len(chosen)} of {len(page.steps):,}"
        screen.table(headings, ([shown(cell) for cell in step_cells(heads, step)] for step in chosen), title)
    if page.differing:
        number = page.counts.differing
        title = f"{number:,} of {page.counts.rows:,} differ" + (f"; the first {SHOWN}" if number > SHOWN else "")
        columns = [Column(head, leave, right=place >= _LEFT) for place, (head, leave) in enumerate(zip(HEADS, _LEAVE))]
        screen.table(columns, ([shown(cell) for cell in cells(row)] for row in page.differing[:SHOWN]), title)
        worst = _worst(page)
        if worst is not None:
            screen.say(shown(f"largest relative difference: {described(worst)}", SENTENCE))
    for note in notes(page):
        screen.say(shown(f"note: {note}", SENTENCE))
    return screen.text()


def markdown(page: DifferenceView) -> str:
    """Headline, both sides of the first divergence, tables."""
    lines = [f"**{in_markdown(page.headline)}**", "", f"- a: {in_markdown(page.a)} ({page.frameworks[0]})"]
    lines += [f"- b: {in_markdown(page.b)} ({page.frameworks[1]})", *(f"- {in_markdown(side)}" for side in sides(page))]
    if chosen := step_rows(page):
        heads = step_heads(page)
        lines += ["", f"| {' | '.join(heads)} |", "| ---: " * (len(heads) - 1) + "| --- |"]
        lines += [f"| {' | '.join(map(in_markdown, step_cells(heads, step)))} |" for step in chosen]
    if page.differing:
        lines += ["", f"| {' | '.join(_MARKDOWN)} |", f"|{' --- |' * 3}{' ---: |' * 3}"]
        lines += [_row(row) for row in page.differing[:SHOWN]]
        if page.counts.differing > SHOWN:
            lines += ["", f"{page.counts.differing - SHOWN:,} more."]
        lines += ["", FOOT]
    if page.surroundings:
        lines += ["", "<details><summary>What differs around the runs</summary>", "", "| | a | b |", "| --- | --- | --- |"]
        lines += [f"| {in_markdown(name)} | {in_markdown(in_a)} | {in_markdown(in_b)} |" for name, in_a, in_b in page.surroundings]
        lines += ["", "</details>"]
    lines += [f"\n{in_markdown(note)}" for note in notes(page)]
    return "\n".join(lines) + "\n"


def _row(row: RowView) -> str:
    what, layer, in_a, in_b, largest, _, relative, ulps = map(in_markdown, cells(row))
    return f"| {' | '.join((what + (f'<br>{layer}' if layer else ''), in_a, in_b, largest, relative, ulps))} |"


# ---- The page

ROWS = 1000  # of the table; the page says how many there are
DOTS = 4000
_WIDE, _HIGH, _MARGIN, _BELOW, _ABOVE = 720, 260, 84, 44, 12


def difference_page(difference: DifferenceView) -> str:
    """The page as text."""
    lines = [
        f"{side}: {folder} ({framework})"
        for side, folder, framework in zip("ab", (difference.a, difference.b), difference.frameworks)
    ]
    parts = (
        opening(difference.headline, lines, sides(difference)),
        warnings(notes(difference)),
        _steps(difference),
        _heat(difference.heat),
        _along(difference),
        _rows(difference),
        _surroundings(difference),
    )
    return page("padiff_shim: difference of two runs", parts)


def _rows(difference: DifferenceView) -> str:
    differing = difference.differing
    if not differing:
        return ""
    left = difference.counts.differing - ROWS
    note = f"{difference.counts.differing:,} of {difference.counts.rows:,} tensors differ, in the order of the run. {FOOT}"
    note += f" {left:,} more are not shown." if left > 0 else ""
    rows = ([f"<b>{still_text(what)}</b>", *map(still_text, rest)] for what, *rest in map(cells, differing[:ROWS]))
    return box("What differs", note, table(HEADS, rows, 4))


def _surroundings(difference: DifferenceView) -> str:
    rows = [tuple(map(still_text, row)) for row in difference.surroundings]
    return box("What differs around the runs", "", table(("what", "a", "b"), rows, 0)) if rows else ""


_STEPS_LISTED = 500


def _steps(difference: DifferenceView) -> str:
    """Losses and differences over the steps, and a table of them."""
    steps = difference.steps
    if len(steps) < 2:
        return ""
    every = -(-len(steps) // DOTS)
    drawn = [(step.step, step.largest) for step in steps[::every] if 0 < step.largest < math.inf]
    chart = _chart(drawn, steps[-1].step or 1, "step", "largest relative difference")
    if any(None not in step.losses for step in steps):
        apart = [(step.step, abs(a - b)) for step in steps[::every] for a, b in [step.losses] if a is not None and b is not None]
        chart += _chart(
            [(step, size) for step, size in apart if 0 < size < math.inf], steps[-1].step or 1, "step", "difference of the loss"
        )
    listed = list(steps) if len(steps) <= _STEPS_LISTED else step_rows(difference)
    heads = step_heads(difference)
    rows = ([still_text(cell) for cell in step_cells(heads, step)] for step in listed)
    note = f"{len(steps):,} steps were compared; equal ones are not drawn." + (
        f" The table has {len(listed)} of them." if len(listed) < len(steps) else ""
    )
    return box("Over the steps", note, chart + table(heads, rows, len(heads)))


_LAYERS_DRAWN = 60


def _heat(heat: HeatView) -> str:
    """The largest differences by layer and step, the darker the larger."""
    values = [value for row in heat.layers.values() for value in row.values() if 0 < value < math.inf]
    if not values or heat.columns < 2:
        return ""
    low, high = math.log10(min(values)), math.log10(max(values))
    layers = list(heat.layers)[:_LAYERS_DRAWN]
    left, tall, wide = 200, 12, (_WIDE - 210) / heat.columns
    cells = []
    for line, layer in enumerate(layers):
        name = layer or "(the model)"
        cells.append(f'<text x="{left - 6}" y="{line * tall + 10}" text-anchor="end">{still_text(name[-30:])}</text>')
        for column, value in heat.layers[layer].items():
            share = 1.0 if not value < math.inf else 0.15 + 0.85 * (math.log10(value) - low) / ((high - low) or 1.0)
            cells.append(
                f'<rect class="dot" x="{left + column * wide:.1f}" y="{line * tall + 1}" width="{max(wide, 1):.1f}" '
                f'height="{tall - 2}" '
                f'opacity="{share:.2f}"><title>{still_text(name)}, step {column * heat.width:,}: {value:.2g}</title></rect>'
            )
    bottom = len(layers) * tall + 14
    ends = "".join(
        f'<text x="{left + share * (_WIDE - 210):.1f}" y="{bottom}" text-anchor="{anchor}">{step:,}</text>'
        for share, step, anchor in ((0.0, 0, "start"), (1.0, heat.columns * heat.width - 1, "end"))
    )
    shape = f'class="along" viewBox="0 0 {_WIDE} {bottom + 6}" role="img" aria-label="Differences by layer and step"'
    chart = f"<svg {shape}>{''.join(cells)}{ends}</svg>"
    more = f" {len(heat.layers) - len(layers):,} more layers are not drawn." if len(heat.layers) > len(layers) else ""
    note = f"Relative differences of layers' outputs from {10**low:.1g} (light) to {10**high:.1g} (dark), over the steps.{more}"
    return box("By layer and step", note, chart)


def _along(difference: DifferenceView) -> str:
    """Relative differences on a logarithmic axis, by the place in the run."""
    placed = [(place, row) for place, row in enumerate(difference.rows) if _relative(row) > 0]
    if not placed:
        return ""
    step = -(-len(placed) // DOTS)
    points = [(place, _relative(row), row.differs) for place, row in placed[::step]]
    chart = _chart(points, max(len(difference.rows) - 1, 1), "tensor (its place in the run)", "relative difference")
    every = f" One in {step} is drawn." if step > 1 else ""
    return box("Along the run", f"Norm of the difference by the tensor's own. Equal tensors are not drawn.{every}", chart)


def _chart(points: Sequence[tuple[Any, ...]], last: int, across_name: str, up_name: str) -> str:
    """Dots (place, size, and whether it counts as a difference), the size on a logarithmic axis."""
    if not points:
        return ""
    sizes = [math.log10(point[1]) for point in points]
    low, high = math.floor(min(sizes)), max(math.ceil(max(sizes)), math.floor(min(sizes)) + 1)

    def across(place: float) -> float:
        return _MARGIN + (_WIDE - _MARGIN - 10) * place / last

    def up(size: float) -> float:
        return _ABOVE + (_HIGH - _BELOW - _ABOVE) * (high - size) / (high - low)

    marks = range(low, high + 1, max(1, (high - low) // 3))
    lines = "".join(
        f'<line class="grid" x1="{_MARGIN}" x2="{_WIDE - 10}" y1="{up(mark):.1f}" y2="{up(mark):.1f}"/>'
        f'<text x="{_MARGIN - 6}" y="{up(mark) + 4:.1f}" text-anchor="end">1e{mark}</text>'
        for mark in marks
    )
    dots = "".join(
        f'<circle class="{"dot" if all(point[2:]) else "dot within"}" cx="{across(point[0]):.1f}" cy="{up(size):.1f}" r="3"/>'
        for point, size in zip(points, sizes)
    )
    ends = "".join(
        f'<text x="{across(place):.1f}" y="{_HIGH - _BELOW + 18}" text-anchor="{anchor}">{place:,}</text>'
        for place, anchor in ((0, "start"), (last, "end"))
    )
    names = (
        f'<text x="{(_WIDE + _MARGIN) / 2}" y="{_HIGH - 6}" text-anchor="middle">{across_name}</text>'
        f'<text transform="translate(12 {(_HIGH - _BELOW) / 2}) rotate(-90)" text-anchor="middle">{up_name}</text>'
    )
    shape = f'class="along" viewBox="0 0 {_WIDE} {_HIGH}" role="img" aria-label="{up_name} by {across_name}"'
    return f"<svg {shape}>{lines}{dots}{ends}{names}</svg>"


def _relative(row: RowView) -> float:
    relative = 0.0 if row.apart is None else row.apart.relative
    return relative if math.isfinite(relative) else 0.0
