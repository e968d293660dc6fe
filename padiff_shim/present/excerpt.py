"""A document below a notebook's cell: the answer, its findings, the first rows of its first table, and the whole page, folded."""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence

from ..text import SENTENCE, shown, tr
from .document import MARKS, PAGE, TEXT, Document, Facts, Findings, Items, ListedFinding, Part, Section, Table, flattened, lines_of

ROWS, FINDINGS = 6, 3  # how many are shown
LARGEST = 1_000_000  # characters of a page that a notebook stores with a cell
_BADGE = "color: #fff; border-radius: 4px; padding: 1px 7px; background: {}"
_COLOURS = {"good": "#1a7f4b", "bad": "#c0392b", "warning": "#8a5a00", "open": "#56616f"}
_FRAME = 'sandbox="allow-scripts" loading="lazy" width="100%" height="640" style="border: 1px solid #8888"'


def render(made: Document, page: str) -> str:
    """The excerpt as HTML; ``page``: the whole page."""
    parts = [*_all(made.parts, PAGE), *_all(made.parts, TEXT)]  # the page of a comparison draws its tables itself
    facts = "<br>".join(_text(line) for part in parts[:1] if isinstance(part, Facts) for line in part.lines)
    answer = [_headline(made), f"<p>{facts}</p>", *_findings(parts), *_items(parts), *_table(parts)]
    return "\n".join(["<div>", *answer, _folded(page), "</div>"])


def _text(value: object) -> str:
    return html.escape(shown(value, SENTENCE))


def _all(parts: Sequence[Part], renderer: str) -> Iterator[Part]:
    """The parts that a renderer shows, those of sections among them."""
    for part in flattened(parts, renderer):
        yield part
        if isinstance(part, Section):
            yield from _all(part.parts, renderer)


def _headline(made: Document) -> str:
    verdict, rest = made.badge()
    if not verdict:
        return f"<p><b>{_text(made.headline)}</b></p>"
    return f'<p><b><span style="{_BADGE.format(_COLOURS[made.tone])}">{_text(verdict)}</span> {_text(rest)}</b></p>'


def _findings(parts: Sequence[Part]) -> Iterator[str]:
    findings = next((part.findings for part in parts if isinstance(part, Findings)), [])
    if findings:
        yield f"<ol>{''.join(map(_finding, findings[:FINDINGS]))}</ol>"
        yield from _further(len(findings) - FINDINGS)


def _finding(finding: ListedFinding) -> str:
    lines = [f"{_text(place.title)}{tr(': ')}{_text(place.where)} <code>{_text(place.code())}</code>" for place in finding.places]
    lines += [f"{_text(word)}{tr(': ')}{_text(text)}" for word, text in finding.details]
    return f"<li>{'<br>'.join([_text(finding.text), *lines])}</li>"


def _items(parts: Sequence[Part]) -> Iterator[str]:
    items = next((part.items for part in parts if isinstance(part, Items) and part.marks), [])
    if items:
        yield "<p>" + "<br>".join(_text(f"{MARKS[item.tone]} {item.name}{tr(': ')}{item.text}") for item in items) + "</p>"


def _table(parts: Sequence[Part]) -> Iterator[str]:
    table = next((part for part in parts if isinstance(part, Table)), None)
    if table is None:
        return
    rows, _, further = table.shown(PAGE)
    order = sorted(table.rank[:ROWS]) if table.rank and len(table.rank) == len(rows) else range(min(ROWS, len(rows)))
    chosen = [rows[place] for place in order]
    places = table.filled(chosen)
    heads = "".join(f"<th>{_text(table.columns[place].head)}</th>" for place in places)
    cells = [["<br>".join(map(_text, lines_of(row[place]))) for place in places] for row in chosen]
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in cells)
    yield f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
    yield from _further(len(rows) - len(chosen) + further)


def _further(number: int) -> Iterator[str]:
    if number > 0:
        yield f"<p>{_text(tr('and {count:,} more', count=number))}</p>"


def _folded(page: str) -> str:
    if len(page) > LARGEST:
        size = f"{len(page) / 1e6:.0f} MB"
        return f"<p>{_text(tr('The page is too large for a notebook ({size}): write it into a file.', size=size))}</p>"
    summary = _text(tr("The whole page"))
    return f'<details><summary>{summary}</summary><iframe {_FRAME} srcdoc="{html.escape(page)}"></iframe></details>'
