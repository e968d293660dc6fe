"""A reference run as one self-contained page in the compare page's look: what ran where, what stayed native, where time went.

The page runs nothing: it is written whole, its policy admits its own style alone, and bars are drawings.
"""

from __future__ import annotations

import html as escaping
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ..arguments import path as file
from ..records.clock import BACKWARD, MOVES, NATIVE, OPTIMIZER, REFERENCE
from ..text import SENTENCE, shown
from ..writing import write as write_file
from . import words
from .html import PAGE, digest
from .source import Substituted
from .substituted import FORWARD, REST, SAYS, Account, Spent, seconds_of

LAYERS, LINES = 500, 40  # rows of these tables; the page says how many there are
_ORDER = (REFERENCE, NATIVE, MOVES, BACKWARD, OPTIMIZER, REST)


def write(run: Substituted, path: str | os.PathLike[str]) -> Path:
    """Write the page of a run to ``path`` (UTF-8) and return the path.

    Raises:
        FileError: the file, or its folder where there is none yet, cannot be written.
        ArgumentError: for a ``path`` that is none.
    """
    return write_file(file("path", path), render(Account(run.as_dict())), "the page ")


def render(account: Account) -> str:
    """The page as text."""
    style = "".join((PAGE / name).read_text(encoding="utf-8") for name in ("page.css", "substituted.css"))
    policy = f"default-src 'none'; style-src {digest(style)}; base-uri 'none'; form-action 'none'"
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}"><meta name="color-scheme" content="light dark">'
        f'<meta name="generator" content="padiff_shim"><title>padiff_shim: reference report</title><style>{style}</style>'
    )
    body = [
        _opening(account),
        _warnings(account),
        _time(account),
        _stayed(account),
        _layers(account),
        _lines(account),
        _ops(account),
    ]
    shown_ones = "\n".join(filter(None, body))
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body><main>\n{shown_ones}\n</main></body></html>\n'


def _text(value: Any) -> str:
    """Text that is never read as markup."""
    return escaping.escape(shown(value, SENTENCE))


def _opening(account: Account) -> str:
    said = [f"Paddle's calls on {account.backend}'s kernels ({words.versions(account.environment)})"]
    said += [f"Command: {account.command}"] if account.command else []
    lines = "".join(f'<p class="soft">{_text(line)}</p>' for line in said)
    costs = "".join(f"<p>{_text(line)}</p>" for line in account.costs())
    return f'<header class="top"><div><h1>{_text(account.headline())}</h1>{lines}{costs}</div></header>'


def _warnings(account: Account) -> str:
    told = "".join(f"<li>{_text(warning)}</li>" for warning in account.warnings)
    return f'<section class="box warning" aria-label="Warnings"><ul>{told}</ul></section>' if told else ""


def _box(title: str, note: str, *parts: str) -> str:
    said = f'<p class="soft">{_text(note)}</p>' if note else ""
    return f'<section class="box"><h2>{_text(title)}</h2>{said}{"".join(parts)}</section>'


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], figures: int) -> str:
    """Cells are markup; the last ``figures`` columns are numbers. On a narrow screen each row is a card."""
    first = len(heads) - figures
    kinds = ["n" if at >= first else "" for at in range(len(heads))]
    top = "".join(f'<th class="{kind}">{_text(head)}</th>' for kind, head in zip(kinds, heads))
    body = "\n".join(
        "<tr>"
        + "".join(f'<td class="{kind}" data-of="{_text(head)}">{one}</td>' for kind, head, one in zip(kinds, heads, row))
        + "</tr>"
        for row in rows
    )
    return f'<table class="rows"><thead><tr>{top}</tr></thead><tbody>\n{body}\n</tbody></table>'


def _bar(parts: Sequence[tuple[str, float]], whole: float, kind: str = "") -> str:
    """Parts of a whole beside each other; read aloud by the figures beside it."""
    if whole <= 0:
        return ""
    drawn, at = [], 0.0
    for name, size in parts:
        wide = min(100.0 * max(size, 0.0) / whole, 100.0 - at)
        drawn.append(f'<rect class="p-{name}" x="{at:.2f}" width="{wide:.2f}" height="10"/>')
        at += wide
    return f'<svg class="bar {kind}" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">{"".join(drawn)}</svg>'


def _time(account: Account) -> str:
    remarks = " ".join(account.remarks())
    if not account.profile:
        return _box("Where the time went", remarks)
    parts = account.parts()
    total = sum(parts.values())
    legend = "".join(
        f'<span><span class="mark p-{name}"></span>{_text(account.says(name))}: '
        f'<span class="figure"><b>{seconds_of(parts[name]) or "0 s"}</b> '
        f"({words.share(round(1e9 * parts[name]), round(1e9 * total))})</span></span>"
        for name in _ORDER
        if parts[name] > 0
    )
    bar = _bar([(name, parts[name]) for name in _ORDER], total, "wide")
    return _box("Where the time went", " ".join([account.spending(), remarks]).strip(), bar, f'<div class="legend">{legend}</div>')


def _stayed(account: Account) -> str:
    spent = account.seconds_of_ops()
    rows = [
        (
            f"<b>{_text(one.op)}</b>",
            _text(one.reason),
            "<br>".join(_place(line, layer) for line, layer in list(one.lines)[:8])
            + (f"<br>and {len(one.lines) - 8:,} further places" if len(one.lines) > 8 else ""),
            f"{one.calls:,}",
        )
        for one in account.stayed
    ]
    if not rows:
        return _box("What stayed on Paddle's kernels", "Nothing.")
    times = sum(parts.get(NATIVE, 0.0) for parts in spent.values())
    note = f"In {seconds_of(times)} altogether." if times else ""
    return _box("What stayed on Paddle's kernels", note, _table(("op", "why", "where", "calls"), rows, 1))


def _place(line: str, layer: str) -> str:
    return _text(line) + (f" <small>{_text(layer)}</small>" if layer else "")


def _shares(one: Spent) -> tuple[str, ...]:
    """Cells that layers and lines have alike."""
    bar = _bar([(REFERENCE, one.substituted), (NATIVE, one.native)], one.calls)
    return (
        f'{bar}<span class="share">{one.covered}</span>' if one.calls else "",
        f"{one.calls:,}" if one.calls else "",
        f"{one.native:,}" if one.native else "",
        seconds_of(one.forward),
        seconds_of(one.seconds[BACKWARD]),
    )


_SPENT = ("on {backend}", "calls", "native", "forward", "backward")


def _heads(account: Account, *names: str) -> tuple[str, ...]:
    return (*names, *(head.format(backend=account.backend) for head in _SPENT))


def _layers(account: Account) -> str:
    found = account.layers()
    if not found:
        return "" if account.profile is None else _box("Coverage by layer", "No layer ran.")
    rows = [(_layer(one), *_shares(one)) for one in found[:LAYERS]]
    note = "Each layer with those inside of it." + (f" {len(found) - LAYERS:,} more are not shown." if len(found) > LAYERS else "")
    return _box("Coverage by layer", note, _table(_heads(account, "layer"), rows, 5))


def _layer(one: Spent) -> str:
    return f'<span class="d{min(one.depth, 8)}">{_text(one.name or "(everything)")}</span>'


def _lines(account: Account) -> str:
    found = account.lines()
    if not found:
        return ""
    rows = [(_text(one.name), *_shares(one), seconds_of(one.total)) for one in found[:LINES]]
    note = f"The {LINES} longest of {len(found):,} lines." if len(found) > LINES else ""
    return _box("Lines of the program", note, _table((*_heads(account, "line"), "all"), rows, 6))


def _ops(account: Account) -> str:
    spent = account.seconds_of_ops()

    def row(name: str) -> tuple[str, ...]:
        counts, times = account.ops.get(name) or {"substituted": 0, "backward": 0, "native": {}}, spent.get(name, {})
        native = sum(counts["native"].values())
        timed = [sum(times.get(part, 0.0) for part in (*FORWARD, OPTIMIZER))]
        timed.append(times.get(BACKWARD, 0.0))
        figures = [f"{number:,}" if number else "" for number in (counts["substituted"], native, counts["backward"])]
        return (f"<b>{_text(name)}</b>", *figures, *(map(seconds_of, timed) if account.profile else ()))

    order = sorted(account.ops, key=lambda name: (-sum(spent.get(name, {}).values()), -account.ops[name]["substituted"], name))
    heads = ("op", f"on {account.backend}", "native", "backward calls", *(("forward", "backward") if account.profile else ()))
    return _box("Ops", "", _table(heads, map(row, order), len(heads) - 1)) if order else ""


assert set(_ORDER) == set(SAYS)
