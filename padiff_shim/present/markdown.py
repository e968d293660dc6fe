"""A document as Markdown for a pull request or an issue: the conclusion first, details folded away."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any
from urllib.parse import quote

from ..text import SENTENCE, escaped, joined, shown, tr
from . import document
from .document import MARKDOWN, MARKS, SIX, Cell, Document, flattened, lines_of

# A space of no width keeps `@name` from calling a user and `#12` from naming an issue; a backslash does neither.
_SIGNS = str.maketrans(
    {
        **{sign: f"\\{sign}" for sign in "\\|`*_[]~"},
        "<": "&lt;",
        ">": "&gt;",
        "&": "&amp;",
        "@": "@&#8203;",
        "#": "\\#&#8203;",
    }
)


def in_markdown(text: object) -> str:
    """Text that stays within its cell of a table and is not read as markup."""
    return shown(text, SENTENCE).translate(_SIGNS)


def render(made: Document) -> str:
    """The document as Markdown."""
    parts = [f"**{in_markdown(made.headline)}**", *_written(made.parts)]
    return "\n\n".join(parts) + "\n"


def _written(parts: Sequence[document.Part]) -> Iterator[str]:
    """The parts, each of one or more lines, that stand apart by an empty one."""
    for block in flattened(parts, MARKDOWN):
        if type(block) in _WRITERS:
            yield from _WRITERS[type(block)](block)


def _facts(block: document.Facts) -> Iterator[str]:
    if block.lines:
        yield "  \n".join(map(in_markdown, block.lines))


def _notes(block: document.Notes) -> Iterator[str]:
    if block.warning and block.texts:
        yield "\n".join(f"> {tr('Warning: {text}', text=in_markdown(text))}" for text in block.texts)
    else:
        yield from map(in_markdown, block.texts)


def _items(block: document.Items) -> Iterator[str]:
    if block.items:
        yield "\n".join(
            f"- {MARKS[item.tone] + ' ' if block.marks else ''}{in_markdown(item.name) + tr(': ') if item.name else ''}"
            f"{in_markdown(item.text)}"
            for item in block.items
        )


def _code(block: document.Code) -> Iterator[str]:
    fence = "```"
    while any(fence in line for line in block.lines):
        fence += "`"
    yield "\n".join([fence, *(escaped(line.expandtabs(4)) for line in block.lines), fence])


def _table(block: document.Table) -> Iterator[str]:
    rows, _, further = block.shown(MARKDOWN)
    groups: list[list[int]] = []  # columns of the table -> those that stand below each other there
    places = block.filled(rows)
    while sum(block.columns[place].markdown == "own" for place in places) > SIX:
        leaving = max(places, key=lambda place: (block.columns[place].markdown == "own") * block.columns[place].leave)
        if not block.columns[leaving].leave:
            break
        places.remove(leaving)
    for place in places:
        manner = block.columns[place].markdown
        if manner == "own" or (manner == "under" and not groups):
            groups.append([place])
        elif manner == "under":
            groups[-1].append(place)
    heads = (in_markdown(joined(", ", filter(None, (block.columns[place].head for place in group)))) for group in groups)
    rules = ("---:" if block.columns[group[0]].right else "---" for group in groups)
    cells = ([_cell([row[place] for place in group]) for group in groups] for row in rows)
    yield "\n".join(f"| {' | '.join(line)} |" for line in (heads, rules, *cells))
    if further:
        more = tr("{count:,} more are not shown", count=further)
        yield in_markdown(joined(": ", (more, block.hint)) if block.hint else tr("{more}.", more=more))


def _cell(cells: Iterable[str | Cell]) -> str:
    """Lines below each other, each of them once."""
    lines = [(in_markdown(line), "" if isinstance(cell, str) else cell.link) for cell in cells for line in lines_of(cell)]
    return "<br>".join(dict.fromkeys(f"[{line}]({quote(link)})" if link else line for line, link in lines))


def _findings(block: document.Findings) -> Iterator[str]:
    for number, finding in enumerate(block.findings, 1):
        yield f"{number}. {in_markdown(finding.text)}"
        lines = []
        for place in finding.places:
            source = place.code()
            fence = "``" if "`" in source else "`"
            code = f": {fence}{shown(source, SENTENCE)}{fence}" if source else ""
            lines.append(f"   - {in_markdown(place.side)}{tr(': ')}{in_markdown(place.line())}{code}")
        lines += [f"   - {word}{tr(': ')}{in_markdown(text)}" for word, text in finding.details]
        if lines:
            yield "\n".join(lines)


def _section(block: document.Section) -> Iterator[str]:
    if block.folded:
        yield from _folded(block)
        return
    yield f"### {in_markdown(block.title)}"
    if block.note:
        yield in_markdown(block.note)
    yield from _written(block.parts)


def _folded(block: document.Section | document.Folded) -> Iterator[str]:
    yield f"<details><summary>{in_markdown(block.title)}</summary>"
    if isinstance(block, document.Section) and block.note:
        yield in_markdown(block.note)
    yield from _written(block.parts)
    yield "</details>"


_WRITERS: dict[type, Callable[[Any], Iterator[str]]] = {
    document.Facts: _facts,
    document.Paragraph: lambda block: iter([in_markdown(block.text)]),
    document.Notes: _notes,
    document.Items: _items,
    document.Code: _code,
    document.Table: _table,
    document.Findings: _findings,
    document.Section: _section,
    document.Folded: _folded,
}
