"""What every result that people read has, one way: its truth, headline and findings, and text, Markdown, page and data of it."""

from __future__ import annotations

import itertools
import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from html import escape
from pathlib import Path
from typing import Any

from ..arguments import path as as_path
from ..errors import ArgumentError
from ..files import write
from ..text import SENTENCE, reader, shown, tr
from . import html, markdown, text
from .annotations import Finding
from .document import (
    MARKS,
    PAGE,
    TEXT,
    Document,
    Facts,
    Findings,
    Items,
    ListedFinding,
    Part,
    Section,
    Table,
    flattened,
    lines_of,
    untested_words,
    version_words,
)

_WIDE = 120  # columns of a text in a file
HEADLINE = 120  # characters


def fitting(ways: Iterable[str]) -> str:
    """The first way to say something that fits into a headline; the last one, cut, where none does."""
    way = ""
    for way in ways:
        if len(str(way)) <= HEADLINE:
            return way
    return str(way)[: HEADLINE - 1] + "…"


_MARKS = re.compile(r"[,;:.](?=\s|$)|[，；：。]|$")  # where a clause ends


def _beyond(headline: str, answer: str) -> str:
    """What an answer says beyond the clauses with which its headline begins, too."""
    ends = (mark.start() for mark in _MARKS.finditer(answer))
    alike = max((end for end in ends if headline.startswith(answer[:end]) and _MARKS.match(headline, end)), default=0)
    return answer[alike:].lstrip(" ,;:.，；：。")


def plain(value: Any) -> Any:
    """In plain types (JSON); numbers that are not finite, and what is no data, as texts."""
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if is_dataclass(value):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, Enum) or (isinstance(value, float) and not math.isfinite(value)):
        return str(value)
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


class Presented:
    """A result: what it says stands in its :meth:`document`, from which it is printed, and written as Markdown and as a page.

    ``environment`` holds versions and the device, by name: each document begins with them.

    A result is true in a condition if nothing is wrong; each class says what that is. ``lang`` of its methods is the language,
    ``"en"`` or ``"zh"``; default: as ``PADIFF_SHIM_LANG`` or the locale say.
    """

    environment: Mapping[str, Any]
    _lang: str | None = None

    def speak(self, lang: str | None) -> None:
        """Choose the language in which this result is shown where no ``lang`` is passed.

        Raises:
            UnknownNameError: another language than ``"en"`` and ``"zh"``.
        """
        with reader(lang):
            self._lang = lang

    def __bool__(self) -> bool:
        raise NotImplementedError

    def content(self) -> Document:
        """All that there is to say, without the versions."""
        raise NotImplementedError

    def document(self) -> Document:
        """All that there is to say; below the headline, the versions that it is of."""
        return self._with_versions(self.content())

    def _with_versions(self, content: Document) -> Document:
        headline = self.headline
        facts = Facts([*self.untested(), *filter(None, [_beyond(str(headline), str(content.headline)), self._versions()])])
        return replace(content, headline=headline, parts=[facts, *content.parts])

    def untested(self) -> list[str]:
        """A line for each version that the tests were not run on."""
        return untested_words(self.environment)

    def _versions(self) -> str:
        """The line with the versions; "" where the content has them."""
        return version_words(self.environment)

    @property
    def answer(self) -> str:
        """The whole answer in a sentence or some."""
        return self.content().headline

    @property
    def headline(self) -> str:
        """What is wrong, where, do this, in at most 120 characters; what more there is to it stands below, in :attr:`answer`."""
        return fitting(itertools.chain([self.answer], self._shorter()))

    def _shorter(self) -> Iterator[str]:
        """Ways to say an answer that is too long for a headline, the fullest first."""
        return iter(())

    @property
    def findings(self) -> list[Finding]:
        """What is wrong, the most serious first: where, what, and what to write."""
        return []

    _names: Sequence[str] = ()  # of what its data has; default: its fields

    def to_dict(self) -> dict[str, Any]:
        """All of it in plain types (JSON): the answer, whether it is good, and what it holds."""
        names = self._names or [each.name for each in fields(self) if each.repr]  # type: ignore[arg-type]
        return {"headline": self.answer, "right": bool(self), **{name: plain(getattr(self, name)) for name in names}}

    def text(self, width: int | None = None, *, colour: bool = False, lang: str | None = None) -> str:
        """For a terminal.

        Args:
            width: in columns; default the terminal's.
            colour: with ANSI sequences.
            lang: ``"en"`` or ``"zh"``.

        Raises:
            UnknownNameError: another language.
        """
        with reader(lang or self._lang):
            return text.render(self.document(), width, colour=colour)

    def markdown(self, *, lang: str | None = None) -> str:
        """For an issue or a pull request, in the language ``lang``."""
        with reader(lang or self._lang):
            return markdown.render(self.document())

    def html(self, *, lang: str | None = None) -> str:
        """One page that needs nothing beside it, in the language ``lang``."""
        with reader(lang or self._lang):
            return self._page(None)

    def save(self, path: str | os.PathLike[str], *, lang: str | None = None) -> Path:
        """Write it into a file, and return its path: a page (``.html``), Markdown (``.md``), text (``.txt``) or data (``.json``).

        Raises:
            ArgumentError: another suffix.
            FileError: the file cannot be written.
        """
        target = as_path("path", path)
        with reader(lang or self._lang):
            return self._saved(target, target.suffix.lower())

    def _saved(self, target: Path, suffix: str) -> Path:
        if suffix == ".html":
            return write(target, self._page(target), "the page ")
        if suffix == ".md":
            return write(target, self.markdown())
        if suffix == ".txt":
            return write(target, self.text(_WIDE) + "\n")
        if suffix == ".json":
            return write(target, json.dumps(self.to_dict(), indent=2, ensure_ascii=False, default=str) + "\n")
        raise ArgumentError("save(path) writes {suffixes}, got {path}", suffixes=", ".join(self._suffixes), path=repr(str(target)))

    _suffixes: tuple[str, ...] = (".html", ".md", ".txt", ".json")

    def page_for(self, path: str | os.PathLike[str], *, lang: str | None = None) -> str:
        """The page for this file, whatever its suffix."""
        with reader(lang or self._lang):
            return self._page(Path(path))

    def _page(self, target: Path | None) -> str:
        """The page; ``target``: the file that it goes into, if it is known."""
        return html.render(self.document())

    def notebook_page(self) -> str:
        """The page that a notebook stores with the cell."""
        return self.html()

    def __str__(self) -> str:
        return self.text()

    def __repr__(self) -> str:
        with reader("en"):
            return f"<padiff_shim.{type(self).__name__}: {shown(self.headline)}>"

    def _repr_html_(self) -> str:
        """Below a notebook's cell."""
        return excerpt(self.document(), self.notebook_page())

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """What IPython shows where it shows no HTML, instead of the fields of a dataclass."""
        return {"text/plain": self.text()}


# ---- Below a notebook's cell: the answer, its findings, the first rows of its first table, and the whole page, folded.

ROWS, FINDINGS = 6, 3  # how many are shown
LARGEST = 1_000_000  # characters of a page that a notebook stores with a cell
_BADGE = "color: #fff; border-radius: 4px; padding: 1px 7px; background: {}"
_COLOURS = {"good": "#1a7f4b", "bad": "#c0392b", "warning": "#8a5a00", "open": "#56616f"}
_FRAME = 'sandbox="allow-scripts" loading="lazy" width="100%" height="640" style="border: 1px solid #8888"'


def excerpt(made: Document, page: str) -> str:
    """The excerpt as HTML; ``page``: the whole page."""
    parts = [*_all(made.parts, PAGE), *_all(made.parts, TEXT)]  # the page of a comparison draws its tables itself
    facts = "<br>".join(_text(line) for part in parts[:1] if isinstance(part, Facts) for line in part.lines)
    answer = [_headline(made), f"<p>{facts}</p>", *_findings(parts), *_items(parts), *_table(parts)]
    return "\n".join(["<div>", *answer, _folded(page), "</div>"])


def _text(value: object) -> str:
    return escape(shown(value, SENTENCE))


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
    return f'<details><summary>{summary}</summary><iframe {_FRAME} srcdoc="{escape(page)}"></iframe></details>'
