"""A reference run as one self-contained page in the compare page's look: what ran where, what stayed native, where time went.

The page runs nothing: it is written whole, its policy admits its own style alone, and bars are drawings.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ..arguments import path as file
from ..files import write as write_file
from ..runlog.counts import BACKWARD, MOVES, NATIVE, OPTIMIZER, REFERENCE
from . import compare_text
from .reference_text import FORWARD, REST, SAYS, ReferenceFigures, Spent, seconds_of
from .source import Substituted
from .still import box, opening, page, table, text, warnings

LAYERS, LINES = 500, 40  # rows of these tables; the page says how many there are
_ORDER = (REFERENCE, NATIVE, MOVES, BACKWARD, OPTIMIZER, REST)


def write(run: Substituted, path: str | os.PathLike[str]) -> Path:
    """Write the page of a run to ``path`` (UTF-8) and return the path.

    Raises:
        FileError: the file, or its folder where there is none yet, cannot be written.
        ArgumentError: for a ``path`` that is none.
    """
    return write_file(file("path", path), render(ReferenceFigures(run.as_dict())), "the page ")


def render(account: ReferenceFigures) -> str:
    """The page as text."""
    parts = (_opening, _warnings, _time, _stayed, _layers, _lines, _ops)
    return page("padiff_shim: reference report", (part(account) for part in parts))


def _opening(account: ReferenceFigures) -> str:
    said = [f"Paddle's calls on {account.backend}'s kernels ({compare_text.version_words(account.environment)})"]
    said += [f"Command: {account.command}"] if account.command else []
    if lacking := account.without_kernel():
        said.append(lacking)
    return opening(account.headline(), said, account.costs())


def _warnings(account: ReferenceFigures) -> str:
    return warnings(account.warnings)


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


def _time(account: ReferenceFigures) -> str:
    remarks = " ".join(account.remarks())
    if not account.profile:
        return box("Where the time went", remarks)
    parts = account.parts()
    total = sum(parts.values())
    legend = "".join(
        f'<span><span class="mark p-{name}"></span>{text(account.says(name))}: '
        f'<span class="figure"><b>{seconds_of(parts[name]) or "0 s"}</b> '
        f"({compare_text.share(round(1e9 * parts[name]), round(1e9 * total))})</span></span>"
        for name in _ORDER
        if parts[name] > 0
    )
    bar = _bar([(name, parts[name]) for name in _ORDER], total, "wide")
    return box("Where the time went", " ".join([account.spending(), remarks]).strip(), bar, f'<div class="legend">{legend}</div>')


def _stayed(account: ReferenceFigures) -> str:
    spent = account.seconds_of_ops()
    rows = [
        (
            f"<b>{text(one.op)}</b>",
            text(one.reason),
            "<br>".join(_place(line, layer) for line, layer in list(one.lines)[:8])
            + (f"<br>and {len(one.lines) - 8:,} further places" if len(one.lines) > 8 else ""),
            f"{one.calls:,}",
        )
        for one in account.stayed
    ]
    if not rows:
        return box("What stayed on Paddle's kernels", "Nothing.")
    times = sum(parts.get(NATIVE, 0.0) for parts in spent.values())
    note = f"In {seconds_of(times)} altogether." if times else ""
    return box("What stayed on Paddle's kernels", note, table(("op", "why", "where", "calls"), rows, 1))


def _place(line: str, layer: str) -> str:
    return text(line) + (f" <small>{text(layer)}</small>" if layer else "")


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


def _heads(account: ReferenceFigures, *names: str) -> tuple[str, ...]:
    return (*names, *(head.format(backend=account.backend) for head in _SPENT))


def _layers(account: ReferenceFigures) -> str:
    found = account.layers()
    if not found:
        return "" if account.profile is None else box("Coverage by layer", "No layer ran.")
    rows = [(_layer(one), *_shares(one)) for one in found[:LAYERS]]
    note = "Each layer with those inside of it." + (f" {len(found) - LAYERS:,} more are not shown." if len(found) > LAYERS else "")
    return box("Coverage by layer", note, table(_heads(account, "layer"), rows, 5))


def _layer(one: Spent) -> str:
    return f'<span class="d{min(one.depth, 8)}">{text(one.name or "(everything)")}</span>'


def _lines(account: ReferenceFigures) -> str:
    found = account.lines()
    if not found:
        return ""
    rows = [(text(one.name), *_shares(one), seconds_of(one.total)) for one in found[:LINES]]
    note = f"The {LINES} longest of {len(found):,} lines." if len(found) > LINES else ""
    return box("Lines of the program", note, table((*_heads(account, "line"), "all"), rows, 6))


def _ops(account: ReferenceFigures) -> str:
    spent = account.seconds_of_ops()

    def row(name: str) -> tuple[str, ...]:
        counts, times = account.ops.get(name) or {"substituted": 0, "backward": 0, "native": {}}, spent.get(name, {})
        native = sum(counts["native"].values())
        timed = [sum(times.get(part, 0.0) for part in (*FORWARD, OPTIMIZER))]
        timed.append(times.get(BACKWARD, 0.0))
        figures = [f"{number:,}" if number else "" for number in (counts["substituted"], native, counts["backward"])]
        return (f"<b>{text(name)}</b>", *figures, *(map(seconds_of, timed) if account.profile else ()))

    order = sorted(account.ops, key=lambda name: (-sum(spent.get(name, {}).values()), -account.ops[name]["substituted"], name))
    heads = ("op", f"on {account.backend}", "native", "backward calls", *(("forward", "backward") if account.profile else ()))
    return box("Ops", "", table(heads, map(row, order), len(heads) - 1)) if order else ""


assert set(_ORDER) == set(SAYS)
