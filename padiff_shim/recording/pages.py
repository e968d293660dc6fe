"""A difference as text, Markdown and one self-contained page."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, Protocol

from ..report.still import box, opening, page, table, warnings
from ..report.still import text as still_text
from ..text import SENTENCE, Column, Screen, in_markdown, many, shown
from .alignment import TensorDistance
from .folder import WEIGHT, Tensor

# ---- A difference as text and as Markdown.

SHOWN = 12  # rows of a table
HEADS = ("what", "layer", "a", "b", "max", "mean", "relative", "ULP")
_MARKDOWN = ("what, layer", "a", "b", "max", "relative", "ULP")
FOOT = "max, mean: absolute differences; relative: norm of the difference by that of b; ULP: in units of the last place."
_LEFT = 4  # columns of words
_LEAVE = (0, 4, 0, 3, 0, 6, 2, 5)  # which of them is left out first where room is short


class Told(Protocol):
    """A row of a difference."""

    rank: int
    a: Tensor | None
    b: Tensor | None
    apart: TensorDistance | None

    @property
    def any(self) -> Tensor: ...


class Page(Protocol):
    """What a page is made of."""

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


def headline(page: Page) -> str:
    """The answer in one line."""
    if not page.compared:
        return "NOT COMPARABLE: no tensor of one recording belongs to one of the other"
    if page.first is None and not page.met:
        return "NOT COMPARABLE: what was compared is equal, but the last results found no partner"
    number = f"{len(page.compared):,} tensors"
    if page.first is None:
        return f"SAME: {number} compared, none differs"
    number, first = f"{len(page.differing):,} of {len(page.rows):,} differ", f"the first at {described(page.first)}"
    return f"DIFFERENT: {_origin(page)}; of what was computed {number}, {first}" if page.origin else f"DIFFERENT: {number}, {first}"


def _origin(page: Page) -> str:
    """What sets both runs apart from outside: the weights that they began with, or the data, from which step and batch on."""
    origin, weights = page.origin, [row for row in page.inputs if row.any.tensor == WEIGHT]
    if origin.any.tensor == WEIGHT:
        number = sum(row.differs for row in weights)
        return f"the weights differ from the start, {number:,} of {len(weights):,}, the first {origin.any.name}"
    place = _place(origin)
    batches = [row for row in page.inputs if _place(row) == place]
    step = f"step {origin.any.step}, batch {batches.index(origin) + 1}"
    only = "only the inputs differ" if weights else "the inputs differ"
    return f"{only}, from {step} on ({origin.any}{_reordered(batches)})"


def _place(row: Told) -> Any:
    tensor = row.any
    return row.rank, tensor.name, tensor.tensor, tensor.layer, tensor.site


def _reordered(batches: list[Any]) -> str:
    """Whether both runs were given the same samples, in another order."""
    mine, yours = (Counter(sample for row in batches for sample in getattr(row, side).rows) for side in "ab")
    whole = all(tensor.rows for row in batches for tensor in (row.a, row.b))
    return f"; the same {many(sum(mine.values()), 'sample')} in another order" if whole and mine == yours else ""


def remarks(page: Page) -> list[str]:
    """What is said of the inputs below the answer."""
    differing = [row for row in page.inputs if row.differs]
    if page.inputs and not differing:
        data = sum(row.any.tensor != WEIGHT for row in page.inputs)
        counts = ((len(page.inputs) - data, "weight"), (data, "input"))
        return [f"both runs were given the same: {' and '.join(many(*count) for count in counts if count[0])}"]
    if page.origin is None or page.origin.any.tensor == WEIGHT:
        return []
    notes = ["whether the program itself differs behind that input cannot be told: give both runs the same inputs"]
    if not any(row.any.tensor == WEIGHT for row in page.inputs):
        notes.append("the weights at the start were not compared: record(folder, model) in one framework notes them")
    return notes


def described(row: Told) -> str:
    """A row in words: what, where, how far."""
    rank = f"rank {row.rank}, " if row.rank else ""
    step = f"step {row.any.step}, " if row.any.step else ""
    if row.apart is None:
        return f"{rank}{step}{row.any}: only in {'a' if row.b is None else 'b'}"
    return f"{rank}{step}{row.any}: {size(row.apart, row)}"


def size(apart: TensorDistance, row: Told) -> str:
    """How far two tensors are apart, in words."""
    if apart.how == "shape":
        return f"shapes {list(row.a.shape) if row.a else ''} and {list(row.b.shape) if row.b else ''}"
    if row.a is not None and row.b is not None and row.a.dtype != row.b.dtype and not apart.different:
        return f"equal values in other dtypes, {row.a.dtype} and {row.b.dtype}"
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


def cells(row: Told) -> list[str]:
    """A row of a table, below :data:`HEADS`."""
    tensor = row.any
    what = tensor.name if tensor.tensor in ("", "out") else f"{tensor.name} {tensor.tensor}"
    kind = "" if tensor.kind == "op" else f"{tensor.kind} "
    rank = f"[{row.rank}] " if row.rank else ""
    places = ["-" if side is None else side.site or side.name for side in (row.a, row.b)]
    return [f"{rank}{kind}{what}" + (f" (step {tensor.step})" if tensor.step else ""), tensor.layer, *places, *_figures(row)]


def _figures(row: Told) -> list[str]:
    apart = row.apart
    if apart is None:
        return [f"only in {'a' if row.b is None else 'b'}", "", "", ""]
    if apart.how == "shape":
        return ["shape", "", "", ""]
    known = [f"{value:.2g}" if not math.isnan(value) else "?" for value in (apart.max_abs, apart.mean_abs, apart.relative)]
    return [*known, "" if apart.ulp is None else _number(apart.ulp)]


def _worst(page: Page) -> Any:
    """The row with the largest relative difference, where there is more than the first ones show."""
    rows = [row for row in page.differing if row.apart is not None and not math.isnan(row.apart.relative)]
    worst = max(rows, key=lambda row: row.apart.relative, default=None)
    return None if worst in page.differing[:SHOWN] else worst


def sides(page: Page) -> list[str]:
    """Where both sides stand at the first difference."""
    first = page.first
    if first is None:
        return []
    return [f"first in {side}: {tensor}" for side, tensor in (("a", first.a), ("b", first.b)) if tensor is not None]


def text(page: Page, width: int | None = None, *, colour: bool = False) -> str:
    """For a terminal, ``width`` columns wide (default: its own); with ``colour`` as ANSI sequences."""
    screen = Screen(width, colour=colour)
    screen.say(shown(page.headline, SENTENCE), "bold green" if page.headline.startswith("SAME") else "bold red")
    for line in (f"a: {page.a} ({page.frameworks[0]})", f"b: {page.b} ({page.frameworks[1]})", *sides(page)):
        screen.say(shown(line, SENTENCE), hang=3)
    if page.surroundings:
        rows = [(shown(name), shown(in_a), shown(in_b)) for name, in_a, in_b in page.surroundings]
        screen.table((Column(""), Column("a"), Column("b")), rows, "what differs around the runs")
    if page.differing:
        number = len(page.differing)
        title = f"{number:,} of {len(page.rows):,} differ" + (f"; the first {SHOWN}" if number > SHOWN else "")
        heads = [Column(head, leave, right=place >= _LEFT) for place, (head, leave) in enumerate(zip(HEADS, _LEAVE))]
        screen.table(heads, ([shown(cell) for cell in cells(row)] for row in page.differing[:SHOWN]), title)
        worst = _worst(page)
        if worst is not None:
            screen.say(shown(f"largest relative difference: {described(worst)}", SENTENCE))
    for note in [*remarks(page), *page.notes]:
        screen.say(shown(f"note: {note}", SENTENCE))
    return screen.text()


def markdown(page: Page) -> str:
    """Headline, both sides of the first divergence, tables."""
    lines = [f"**{in_markdown(page.headline)}**", "", f"- a: {in_markdown(page.a)} ({page.frameworks[0]})"]
    lines += [f"- b: {in_markdown(page.b)} ({page.frameworks[1]})", *(f"- {in_markdown(side)}" for side in sides(page))]
    if page.differing:
        lines += ["", f"| {' | '.join(_MARKDOWN)} |", f"|{' --- |' * 3}{' ---: |' * 3}"]
        lines += [_row(row) for row in page.differing[:SHOWN]]
        if len(page.differing) > SHOWN:
            lines += ["", f"{len(page.differing) - SHOWN:,} more."]
        lines += ["", FOOT]
    if page.surroundings:
        lines += ["", "<details><summary>What differs around the runs</summary>", "", "| | a | b |", "| --- | --- | --- |"]
        lines += [f"| {in_markdown(name)} | {in_markdown(in_a)} | {in_markdown(in_b)} |" for name, in_a, in_b in page.surroundings]
        lines += ["", "</details>"]
    lines += [f"\n{in_markdown(note)}" for note in [*remarks(page), *page.notes]]
    return "\n".join(lines) + "\n"


def _row(row: Told) -> str:
    what, layer, in_a, in_b, largest, _, relative, ulps = map(in_markdown, cells(row))
    return f"| {' | '.join((what + (f'<br>{layer}' if layer else ''), in_a, in_b, largest, relative, ulps))} |"


# ---- A difference as one self-contained page: where two runs part, how the difference goes on along the run, and every row
# of it.

ROWS = 1000  # of the table; the page says how many there are
DOTS = 4000
_WIDE, _HIGH, _MARGIN, _BELOW, _ABOVE = 720, 260, 84, 44, 12


def difference_page(difference: Page) -> str:
    """The page as text."""
    lines = [f"{side}: {folder} ({framework})" for side, folder, framework in zip("ab", _folders(difference), difference.frameworks)]
    parts = (
        opening(difference.headline, lines, sides(difference)),
        warnings([*remarks(difference), *difference.notes]),
        _along(difference),
        _rows(difference),
        _surroundings(difference),
    )
    return page("padiff_shim: difference of two runs", parts)


def _folders(difference: Page) -> tuple[str, str]:
    return difference.a, difference.b


def _rows(difference: Page) -> str:
    differing = difference.differing
    if not differing:
        return ""
    left = len(differing) - ROWS
    note = f"{len(differing):,} of {len(difference.rows):,} tensors differ, in the order of the run. {FOOT}"
    note += f" {left:,} more are not shown." if left > 0 else ""
    rows = ([f"<b>{still_text(what)}</b>", *map(still_text, rest)] for what, *rest in map(cells, differing[:ROWS]))
    return box("What differs", note, table(HEADS, rows, 4))


def _surroundings(difference: Page) -> str:
    rows = [tuple(map(still_text, row)) for row in difference.surroundings]
    return box("What differs around the runs", "", table(("what", "a", "b"), rows, 0)) if rows else ""


def _along(difference: Page) -> str:
    """Relative differences, on a logarithmic axis, by the place in the run."""
    dots_at = [(place, row) for place, row in enumerate(difference.rows) if _relative(row) > 0]
    if not dots_at:
        return ""
    step = -(-len(dots_at) // DOTS)
    dots_at = dots_at[::step]
    sizes = [math.log10(_relative(row)) for _, row in dots_at]
    low, high = math.floor(min(sizes)), max(math.ceil(max(sizes)), math.floor(min(sizes)) + 1)
    last = max(len(difference.rows) - 1, 1)

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
        f'<circle class="{"dot" if row.differs else "dot within"}" cx="{across(place):.1f}" cy="{up(size):.1f}" r="3"/>'
        for (place, row), size in zip(dots_at, sizes)
    )
    ends = "".join(
        f'<text x="{across(place):.1f}" y="{_HIGH - _BELOW + 18}" text-anchor="{anchor}">{place:,}</text>'
        for place, anchor in ((0, "start"), (last, "end"))
    )
    names = (
        f'<text x="{(_WIDE + _MARGIN) / 2}" y="{_HIGH - 6}" text-anchor="middle">tensor (its place in the run)</text>'
        f'<text transform="translate(12 {(_HIGH - _BELOW) / 2}) rotate(-90)" text-anchor="middle">relative difference</text>'
    )
    shape = f'class="along" viewBox="0 0 {_WIDE} {_HIGH}" role="img" aria-label="Relative differences"'
    chart = f"<svg {shape}>{lines}{dots}{ends}{names}</svg>"
    every = f" One in {step} is drawn." if step > 1 else ""
    return box("Along the run", f"Norm of the difference by the tensor's own. What is equal is not drawn.{every}", chart)


def _relative(row: Told) -> float:
    relative = 0.0 if row.apart is None else row.apart.relative
    return relative if math.isfinite(relative) else 0.0
