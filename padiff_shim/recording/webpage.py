"""A difference as one self-contained page: where two runs part, how the difference goes on along the run, and every row of it."""

from __future__ import annotations

import math

from ..report.still import box, opening, page, table, text, warnings
from . import pages
from .pages import Page, Told

ROWS = 1000  # of the table; the page says how many there are
DOTS = 4000
_WIDE, _HIGH, _LEFT, _BELOW, _ABOVE = 720, 260, 84, 44, 12


def html(difference: Page) -> str:
    """The page as text."""
    said = [f"{side}: {folder} ({framework})" for side, folder, framework in zip("ab", _folders(difference), difference.frameworks)]
    parts = (
        opening(difference.headline, said, pages.sides(difference)),
        warnings([*pages.remarks(difference), *difference.notes]),
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
    note = f"{len(differing):,} of {len(difference.rows):,} tensors differ, in the order of the run. {pages.FOOT}"
    note += f" {left:,} more are not shown." if left > 0 else ""
    rows = ([f"<b>{text(what)}</b>", *map(text, rest)] for what, *rest in map(pages.cells, differing[:ROWS]))
    return box("What differs", note, table(pages.HEADS, rows, 4))


def _surroundings(difference: Page) -> str:
    rows = [tuple(map(text, row)) for row in difference.surroundings]
    return box("What differs around the runs", "", table(("what", "a", "b"), rows, 0)) if rows else ""


def _along(difference: Page) -> str:
    """Relative differences, on a logarithmic axis, by the place in the run."""
    found = [(place, row) for place, row in enumerate(difference.rows) if _relative(row) > 0]
    if not found:
        return ""
    step = -(-len(found) // DOTS)
    found = found[::step]
    sizes = [math.log10(_relative(row)) for _, row in found]
    low, high = math.floor(min(sizes)), max(math.ceil(max(sizes)), math.floor(min(sizes)) + 1)
    last = max(len(difference.rows) - 1, 1)

    def across(place: float) -> float:
        return _LEFT + (_WIDE - _LEFT - 10) * place / last

    def up(size: float) -> float:
        return _ABOVE + (_HIGH - _BELOW - _ABOVE) * (high - size) / (high - low)

    marks = range(low, high + 1, max(1, (high - low) // 3))
    lines = "".join(
        f'<line class="grid" x1="{_LEFT}" x2="{_WIDE - 10}" y1="{up(mark):.1f}" y2="{up(mark):.1f}"/>'
        f'<text x="{_LEFT - 6}" y="{up(mark) + 4:.1f}" text-anchor="end">1e{mark}</text>'
        for mark in marks
    )
    dots = "".join(
        f'<circle class="{"dot" if row.differs else "dot within"}" cx="{across(place):.1f}" cy="{up(size):.1f}" r="3"/>'
        for (place, row), size in zip(found, sizes)
    )
    ends = "".join(
        f'<text x="{across(place):.1f}" y="{_HIGH - _BELOW + 18}" text-anchor="{anchor}">{place:,}</text>'
        for place, anchor in ((0, "start"), (last, "end"))
    )
    names = (
        f'<text x="{(_WIDE + _LEFT) / 2}" y="{_HIGH - 6}" text-anchor="middle">tensor (its place in the run)</text>'
        f'<text transform="translate(12 {(_HIGH - _BELOW) / 2}) rotate(-90)" text-anchor="middle">relative difference</text>'
    )
    shape = f'class="along" viewBox="0 0 {_WIDE} {_HIGH}" role="img" aria-label="Relative differences"'
    chart = f"<svg {shape}>{lines}{dots}{ends}{names}</svg>"
    every = f" One in {step} is drawn." if step > 1 else ""
    return box("Along the run", f"Norm of the difference by the tensor's own. What is equal is not drawn.{every}", chart)


def _relative(row: Told) -> float:
    relative = 0.0 if row.apart is None else row.apart.relative
    return relative if math.isfinite(relative) else 0.0
