"""A document as one self-contained page: no network, no other files, light and dark, for wide and narrow screens.

The page runs nothing: its content security policy admits its own style alone. :func:`application` is for a page that does run
something, its own script on its own data.
"""

from __future__ import annotations

import base64
import hashlib
import html
import itertools
import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ..text import SENTENCE, current, escaped, joined, many, shown, tr
from . import document
from .document import NARROW, PAGE, Cell, Column, Document, Share, Word, flattened, lines_of

FOLDER = Path(__file__).with_name("page")
LANGUAGE_TAGS = {"en": "en", "zh": "zh-CN"}
_HOLES = re.compile(r"\{\{([A-Z]+)\}\}|\[\[(.+?)\]\]")  # of a template: a part, or a text
_HYPHENS = re.compile(r"(\S*-\S+)")
_WHOLE = 24  # characters of a word that a page does not break
# A word's parts: behind / . _ and the like, but a line's number stays with the end of its file's name. base.js has the same.
_PARTS = re.compile(r"[^/\\_,;|=-]+\.\w+:\d+\S*$|[^/\\.,;|=_-]*(?:[/\\.,;|=_-]+|$)")
_DEEPEST = 8  # steps that a cell is indented
_SHADES = 10  # steps of a colour's strength
_LONG = 60  # rows of a table; one of more scrolls in a box of its own


def markup(text: str, whole: int = _WHOLE) -> str:
    """``text`` for a page: never read as markup, long words with places at which they may be broken. Browsers break words at a
    hyphen, in the middle of ``2e-06`` and ``--quiet``: those are kept together by the class ``keep``."""
    return "<wbr>".join(
        "".join(
            f'<span class="keep">{html.escape(part)}</span>' if place % 2 else html.escape(part)
            for place, part in enumerate(_HYPHENS.split(piece))
        )
        for piece in pieces(text, whole)
    )


def pieces(text: str, whole: int = _WHOLE) -> list[str]:
    """``text`` in pieces between which a page may break it: words of more than ``whole`` characters alone, never before a line's
    number, and no piece too long for a narrow column."""
    parts = [""]
    for word in re.findall(r"\s+|\S+", text):
        first, *others = [word] if len(word) <= whole else [piece for part in _PARTS.findall(word) for piece in _chopped(part)]
        parts[-1] += first
        parts += others
    return parts


def _chopped(part: str) -> list[str]:
    """From the end: what a line's number stands behind is there."""
    cuts = range(len(part) % _WHOLE or _WHOLE, len(part), _WHOLE)
    return [part[start:end] for start, end in zip((0, *cuts), (*cuts, len(part)))] if part else []


def _text(value: object) -> str:
    return markup(shown(value, SENTENCE))


def _plain(value: object) -> str:
    """The same without places for a break, for titles and attributes."""
    return html.escape(shown(value, SENTENCE))


def digest(text: str) -> str:
    """The source expression by which a content security policy admits this very text."""
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def read(name: str) -> str:
    """A file that pages are made of."""
    return (FOLDER / name).read_text(encoding="utf-8")


def application(template: str, styles: Iterable[str], scripts: Iterable[str], data: str) -> str:
    """A page with its own script: the files of a template, of styles and of scripts with the data, which is JSON that may stand
    inside of ``<script type="application/json">``."""
    style = "".join(map(read, styles))
    script = '"use strict";\n(() => {\n' + "\n".join(map(read, scripts)) + "})();\n"
    parts = {"POLICY": _policy(style, script), "STYLE": style, "SCRIPT": script, "DATA": data}
    parts["LANGUAGE"] = LANGUAGE_TAGS[current()]
    # One pass over the template: whatever stands in the data is not looked at again.
    return _HOLES.sub(lambda match: parts[match[1]] if match[1] else _plain(tr(match[2])), read(template))


def script_messages(text: str) -> tuple[list[str], list[str]]:
    """What a script shows: messages, ``tr("...")`` and ``tr`... ${x} ...``` with numbered fields, and the nouns that it counts."""
    messages = [json.loads(literal) for literal in re.findall(r'\btr\(\s*("(?:[^"\\]|\\.)*")', text)]
    for template in re.findall(r"\btr`([^`]*)`", text):
        numbers = itertools.count()
        messages.append(re.sub(r"\$\{[^{}]*\}", lambda _, numbers=numbers: f"{{{next(numbers)}}}", template))  # type: ignore[misc]
    return messages, re.findall(r'\bcount\([^"`]*?, "([a-z ]+)"\)', text)


def translations(scripts: Iterable[str]) -> dict[str, dict[str, str]]:
    """What :func:`application`'s scripts need to speak the reader's language: ``messages`` and ``nouns`` of their data."""
    if current() == "en":
        return {"messages": {}, "nouns": {}}
    messages, nouns = script_messages("\n".join(map(read, scripts)))
    return {
        "messages": {message: str(tr(message)) for message in messages},
        "nouns": {noun: str(many(2, noun)).partition(" ")[2] for noun in nouns},
    }


def _policy(style: str, script: str = "") -> str:
    allowed = ["default-src 'none'", *([f"script-src {digest(script)}"] if script else []), f"style-src {digest(style)}"]
    return "; ".join([*allowed, "base-uri 'none'", "form-action 'none'"])


def render(made: Document) -> str:
    """The document as a page."""
    style = read("base.css") + read("document.css")
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(style)}"><meta name="color-scheme" content="light dark">'
        f'<meta name="generator" content="padiff_shim"><title>{_plain(made.title or made.headline)}</title><style>{style}</style>'
    )
    parts = list(flattened(made.parts, PAGE))
    sections = [block for block in parts if isinstance(block, document.Section)]
    facts = "".join(map(_written_facts, (block for block in parts if isinstance(block, document.Facts))))
    body = [f'<header class="top"><div><h1>{_headline(made)}</h1>{facts}</div></header>']
    if made.contents:
        links = (f'<a href="#part{number}">{_text(section.title)}</a>' for number, section in enumerate(sections))
        body.append(f"<nav>{' '.join(links)}</nav>")
    for block in parts:
        if isinstance(block, document.Section):
            body.append(_section(block, f"part{sections.index(block)}" if made.contents else ""))
        elif not isinstance(block, document.Facts):
            body.append(_written(block))
    text = "\n".join(filter(None, body))
    return (
        f'<!doctype html>\n<html lang="{LANGUAGE_TAGS[current()]}"><head>{head}</head><body><main>\n{text}\n</main></body></html>\n'
    )


def _headline(made: Document) -> str:
    verdict, rest = made.badge()
    return f'<span class="status {made.tone}">{_text(verdict)}</span> {_text(rest)}' if verdict else _text(rest)


def _written(block: document.Part) -> str:
    return _WRITERS[type(block)](block)


def _written_facts(block: document.Facts) -> str:
    return "".join(f'<p class="soft">{_text(line)}</p>' for line in block.lines)


def _all(parts: Sequence[document.Part]) -> str:
    return "".join(map(_written, flattened(parts, PAGE)))


def _section(block: document.Section, name: str = "") -> str:
    note = f'<p class="soft">{_text(block.note)}</p>' if block.note else ""
    place = f' id="{name}"' if name else ""
    return f'<section class="box"{place}><h2>{_text(block.title)}</h2>{note}{_all(block.parts)}</section>'


def _paragraph(block: document.Paragraph) -> str:
    return f'<p class="{block.tone}">{_text(block.text)}</p>' if block.tone else f"<p>{_text(block.text)}</p>"


def _notes(block: document.Notes) -> str:
    if not block.texts:
        return ""
    if not block.warning:
        return f'<div class="notes">{"".join(f"<p class=soft>{_text(text)}</p>" for text in block.texts)}</div>'
    items = "".join(f"<li>{_text(text)}</li>" for text in block.texts)
    return f'<section class="box warning" aria-label="{_plain(tr("Warnings"))}"><ul>{items}</ul></section>'


def _items(block: document.Items) -> str:
    items = "".join(
        f'<li class="{item.tone}">{f"<b>{_text(item.name)}</b> " if item.name else ""}{_text(item.text)}</li>'
        for item in block.items
    )
    return f'<ul class="{"marks" if block.marks else "items"}">{items}</ul>' if items else ""


def _table(block: document.Table) -> str:
    rows, tones, further = block.shown(PAGE)
    places = block.filled(rows)
    heads = [block.columns[place] for place in places]
    kinds = [_kind(column, block) for column in heads]
    top = "".join(f'<th class="{kind}">{_text(column.head)}</th>' for kind, column in zip(kinds, heads))
    body = "\n".join(
        f'<tr class="{tone}">'
        + "".join(_td(row[place], kind, column) for place, kind, column in zip(places, kinds, heads))
        + "</tr>"
        for row, tone in zip(rows, tones)
    )
    kind = f"rows {'cards' if block.cards else 'narrow'} {block.kind}".strip()
    filtering = ""
    if 0 < block.tones.count("good") < len(rows) == len(block.rows):  # the style hides the rows in which nothing is wrong
        words = _plain(tr("only those that differ"))
        filtering = f'<label class="filter"><input type="checkbox" class="only"> {words}</label>'
    more = tr("{count:,} more are not shown", count=further)
    hint = joined(": ", (more, block.hint)) if block.hint else tr("{more}.", more=more)
    note = f'<p class="soft">{_text(hint)}</p>' if further else ""
    table = f'<table class="{kind}"><thead><tr>{top}</tr></thead><tbody>\n{body}\n</tbody></table>'
    if len(rows) > _LONG:
        table = f'<div class="long" tabindex="0" role="region" aria-label="{_plain(many(len(rows), "row"))}">{table}</div>'
    return f"{filtering}{table}{note}"


def _kind(column: Column, block: document.Table) -> str:
    narrow = "wide" if column.leave >= NARROW and not block.cards else ""
    return " ".join(filter(None, ("n" if column.right else "", "s" if column.short else "", narrow)))


def _td(cell: str | Cell, kind: str, column: Column) -> str:
    texts = [shown(line, SENTENCE) for line in lines_of(cell)]
    # A name that stands alone, as blocks.0.norm1, is broken behind its dots before it is broken in a word.
    lines = "<br>".join(markup(text, _WHOLE if column.right or " " in text else 12) for text in texts)
    if isinstance(cell, Cell):
        if cell.link:
            lines = f'<a href="{html.escape(quote(cell.link))}">{lines}</a>'
        if cell.tone:
            kind += f" {cell.tone}"
        if cell.shade is not None:
            kind += f" f{round(_SHADES * min(max(cell.shade, 0.0), 1.0))}"
        if cell.bar:
            lines = f'{_bar(cell.bar)}<span class="share">{lines}</span>'
        if cell.depth:
            lines = f'<span class="d{min(cell.depth, _DEEPEST)}">{lines}</span>'
    return f'<td class="{kind.strip()}" data-of="{_plain(column.head)}">{lines}</td>'


def _bar(parts: Sequence[Share], kind: str = "") -> str:
    """Parts of a whole beside each other; read aloud by the figures beside it."""
    whole = sum(max(part.size, 0.0) for part in parts)
    drawn, at = [], 0.0
    for part in parts if whole > 0 else ():
        wide = min(100.0 * max(part.size, 0.0) / whole, 100.0 - at)
        drawn.append(f'<rect class="p-{part.kind}" x="{at:.2f}" width="{wide:.2f}" height="10"/>')
        at += wide
    return f'<svg class="bar {kind}" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">{"".join(drawn)}</svg>'


def _shares(block: document.Shares) -> str:
    shown_parts = [part for part in block.parts if part.size > 0]
    labels = [(part.kind, f'{_text(part.label)}: <span class="figure">{_text(part.figure)}</span>') for part in shown_parts]
    return _bar(block.parts, "wide") + _legend(labels)


def _legend(labels: Iterable[tuple[str, str]]) -> str:
    """The colours of a chart, each with its words, which are markup."""
    marks = "".join(f'<span><span class="mark p-{kind}"></span>{words}</span>' for kind, words in labels)
    return f'<div class="legend">{marks}</div>'


def _finding(finding: document.ListedFinding) -> str:
    sides = "".join(
        f'<div class="side"><p><b>{_text(place.title)}</b> {_text(place.where)}</p>{_source(place)}'
        f"{f'<pre class=call>{_words(place.call)}</pre>' if place.call else ''}</div>"
        for place in finding.places
    )
    pair = f'<div class="pair">{sides}</div>' if sides else ""
    details = "".join(f"<p><b>{_text(word)}</b> {_text(text)}</p>" for word, text in finding.details)
    return f'<section class="mistake"><h3>{_text(finding.text)}</h3>{pair}{details}</section>'


def _source(place: document.Place) -> str:
    """The guilty line between those around it."""
    if not place.source:
        return ""
    before, behind = ("".join(f'<span class="beside">{_code_text(line)}\n</span>' for line in lines) for lines in place.around)
    return f'<pre class="source">{before}<span class="guilty">{_words(place.source)}</span>{behind}</pre>'


def _words(words: Sequence[Word]) -> str:
    return "".join(f"<mark>{_code_text(word.text)}</mark>" if word.marked else _code_text(word.text) for word in words)


def _code_text(line: str) -> str:
    """A line of code as it stands, on one line."""
    return html.escape(escaped(line.expandtabs(4)))


_WIDE, _HIGH, _MARGIN, _BELOW, _ABOVE = 720, 260, 84, 44, 12  # of a chart, and around its points


def _scatter(block: document.Scatter) -> str:
    """Points on a logarithmic axis."""
    part, marks = _logarithmic([point.y for point in block.points])
    last = max(block.last, 1)
    dots = "".join(
        f'<circle class="{"dot soft" if point.soft else "dot"}" cx="{_along(point.x / last):.1f}" '
        f'cy="{_up(part(point.y)):.1f}" r="3"/>'
        for point in block.points
    )
    return _framed(dots, marks, ("0", f"{last:,}"), block.across, block.up)


def _along(part: float) -> float:
    """Where a part of the width of a chart is, from 0 to 1."""
    return _MARGIN + (_WIDE - _MARGIN - 10) * part


def _up(part: float) -> float:
    """The same of its height."""
    return _ABOVE + (_HIGH - _BELOW - _ABOVE) * (1 - part)


def _framed(drawn: str, marks: Sequence[tuple[float, str]], ends: tuple[str, str], across: str, up: str) -> str:
    """A chart with lines at the marks (part of the height, name), words below both ends, and the names of both axes."""
    lines = "".join(
        f'<line class="grid" x1="{_MARGIN}" x2="{_WIDE - 10}" y1="{_up(part):.1f}" y2="{_up(part):.1f}"/>'
        f'<text x="{_MARGIN - 6}" y="{_up(part) + 4:.1f}" text-anchor="end">{_plain(name)}</text>'
        for part, name in marks
    )
    words = "".join(
        f'<text x="{_along(part):.1f}" y="{_HIGH - _BELOW + 18}" text-anchor="{anchor}">{_plain(end)}</text>'
        for end, part, anchor in zip(ends, (0, 1), ("start", "end"))
    )
    names = (
        f'<text x="{(_WIDE + _MARGIN) / 2}" y="{_HIGH - 6}" text-anchor="middle">{_plain(across)}</text>'
        f'<text class="up" transform="translate(12 {(_HIGH - _BELOW) / 2}) rotate(-90)" text-anchor="middle">{_plain(up)}</text>'
    )
    shape = f'class="along" viewBox="0 0 {_WIDE} {_HIGH}" role="img" aria-label="{_plain(up)}"'
    return f'<div class="sideways" tabindex="0"><svg {shape}>{lines}{drawn}{words}{names}</svg></div>'


def _curves(block: document.Curves) -> str:
    """Lines with a dot at each value, and a legend; infinity is at the top."""
    known = [value for curve in block.curves for value in curve.values if value is not None and math.isfinite(value)]
    if not known:
        return ""
    part, marks = _logarithmic(known) if block.logarithmic else _linear(known)
    last = max(max(len(curve.values) for curve in block.curves) - 1, 1)
    drawn = []
    for curve in block.curves:
        points = [
            (_along(place / last), _up(part(value) if math.isfinite(value) else 1.0))
            for place, value in enumerate(curve.values)
            if value is not None
        ]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        drawn.append(f'<polyline class="curve c-{curve.kind}" points="{path}"/>')
        drawn += [f'<circle class="p-{curve.kind}" cx="{x:.1f}" cy="{y:.1f}" r="2.5"/>' for x, y in points]
    legend = _legend((curve.kind, _text(curve.name)) for curve in block.curves)
    return _framed("".join(drawn), marks, block.ends, block.across, block.up) + legend


Scale = tuple[Callable[[float], float], list[tuple[float, str]]]  # the part of the height of a value, and the marks


def _logarithmic(values: Sequence[float]) -> Scale:
    """A logarithmic axis of values from 0 on; if there are zeros, its lowest line is theirs."""
    sizes = [math.log10(value) for value in values if value > 0]
    zeros = len(sizes) < len(values)
    low = math.floor(min(sizes, default=0.0)) - zeros
    high = max(math.ceil(max(sizes, default=0.0)), low + 1)
    steps = range(low, high + 1, max(1, (high - low) // 3))
    marks = [((step - low) / (high - low), "0" if zeros and step == low else f"1e{step}") for step in steps]
    return lambda value: (math.log10(value) - low) / (high - low) if value > 0 else 0.0, marks


def _linear(values: Sequence[float]) -> Scale:
    low, high = min(values), max(values)
    low, high = (low, high) if low < high else (low - 1.0, high + 1.0)
    return lambda value: (value - low) / (high - low), [(part, f"{low + (high - low) * part:.4g}") for part in (0.0, 0.5, 1.0)]


_CELLS, _LETTER, _TALL = 510, 6.2, 12  # pixels of a heat map: for its cells, for a letter of a line's name, and for a line


def _heat_map(block: document.HeatChart) -> str:
    """Rectangles by line and column, the darker the larger."""
    finite = [math.log10(cell.value) for cell in block.cells if cell.value < math.inf]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    left = math.ceil(_LETTER * max(map(len, block.lines), default=0)) + 10
    cell_width, bottom = _CELLS / block.columns, len(block.lines) * _TALL + 14
    names = "".join(
        f'<text x="{left - 6}" y="{line * _TALL + 10}" text-anchor="end">{_plain(name)}</text>'
        for line, name in enumerate(block.lines)
    )
    cells = "".join(
        f'<rect class="dot" x="{left + cell.column * cell_width:.1f}" y="{cell.line * _TALL + 1}" width="{max(cell_width, 1):.1f}" '
        f'height="{_TALL - 2}" opacity="{_darkness(cell.value, low, high):.2f}">'
        f"<title>{_plain(block.lines[cell.line])}, {_plain(cell.words)}</title></rect>"
        for cell in block.cells
    )
    ends = "".join(
        f'<text x="{x}" y="{bottom}" text-anchor="{anchor}">{_plain(end)}</text>'
        for end, x, anchor in zip(block.ends, (left, left + _CELLS), ("start", "end"))
    )
    wide = left + _CELLS + 10
    shape = f'class="along heat" width="{wide}" viewBox="0 0 {wide} {bottom + 6}" role="img" aria-label="{_plain(tr("heat map"))}"'
    return f'<div class="sideways" tabindex="0"><svg {shape}>{names}{cells}{ends}</svg></div>'


def _darkness(value: float, low: float, high: float) -> float:
    return 0.15 + 0.85 * (math.log10(value) - low) / ((high - low) or 1.0) if value < math.inf else 1.0


_WRITERS: dict[type, Callable[[Any], str]] = {
    document.Facts: _written_facts,
    document.Paragraph: _paragraph,
    document.Notes: _notes,
    document.Items: _items,
    document.Code: lambda block: f"<pre>{chr(10).join(map(_code_text, block.lines))}</pre>",
    document.Table: _table,
    document.Findings: lambda block: "".join(map(_finding, block.findings)),
    document.Shares: _shares,
    document.Scatter: _scatter,
    document.Curves: _curves,
    document.HeatChart: _heat_map,
    document.Section: _section,
    document.Folded: lambda block: f"<details><summary>{_text(block.title)}</summary>{_all(block.parts)}</details>",
}
