"""Pages that run nothing, in the compare page's look: written whole, their policy admits their own style alone."""

from __future__ import annotations

import html as escaping
from collections.abc import Iterable, Sequence
from typing import Any

from ..text import SENTENCE, markup, shown
from .compare_page import PAGE, digest


def page(title: str, parts: Iterable[str]) -> str:
    """The parts that are not empty, as a page."""
    style = "".join((PAGE / name).read_text(encoding="utf-8") for name in ("page.css", "still.css"))
    policy = f"default-src 'none'; style-src {digest(style)}; base-uri 'none'; form-action 'none'"
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}"><meta name="color-scheme" content="light dark">'
        f'<meta name="generator" content="padiff_shim"><title>{plain(title)}</title><style>{style}</style>'
    )
    body = "\n".join(filter(None, parts))
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body><main>\n{body}\n</main></body></html>\n'


def text(value: Any) -> str:
    """Text that is never read as markup, with places at which a long word may be broken."""
    return markup(shown(value, SENTENCE))


def plain(value: Any) -> str:
    """The same without those places, for titles and attributes."""
    return escaping.escape(shown(value, SENTENCE))


def opening(headline: str, said: Iterable[str], more: Iterable[str] = ()) -> str:
    """The answer, and below it lines of less and of more weight."""
    lines = "".join(f'<p class="soft">{text(line)}</p>' for line in said) + "".join(f"<p>{text(line)}</p>" for line in more)
    return f'<header class="top"><div><h1>{text(headline)}</h1>{lines}</div></header>'


def warnings(told: Iterable[str]) -> str:
    """Remarks, in a box of their own; nothing without any."""
    items = "".join(f"<li>{text(one)}</li>" for one in told)
    return f'<section class="box warning" aria-label="Warnings"><ul>{items}</ul></section>' if items else ""


def box(title: str, note: str, *parts: str) -> str:
    """A part of the page under its title."""
    said = f'<p class="soft">{text(note)}</p>' if note else ""
    return f'<section class="box"><h2>{text(title)}</h2>{said}{"".join(parts)}</section>'


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], figures: int) -> str:
    """Cells are markup; the last ``figures`` columns are numbers. On a narrow screen each row is a card."""
    first = len(heads) - figures
    kinds = ["n" if at >= first else "" for at in range(len(heads))]
    top = "".join(f'<th class="{kind}">{text(head)}</th>' for kind, head in zip(kinds, heads))
    body = "\n".join(
        "<tr>"
        + "".join(f'<td class="{kind}" data-of="{plain(head)}">{one}</td>' for kind, head, one in zip(kinds, heads, row))
        + "</tr>"
        for row in rows
    )
    return f'<table class="rows"><thead><tr>{top}</tr></thead><tbody>\n{body}\n</tbody></table>'
