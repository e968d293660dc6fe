"""A compare run as text for terminals and logs (rich): warnings, findings, verdicts per op and layer, coverage."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..records import words as one
from ..records.counts import Finding, Group
from ..screen import folded_text
from ..text import PIPED, SENTENCE, columns, many, shown
from ..verdicts import APART, HARD, Verdict
from . import words
from .headline import advice, headline, ties
from .source import Compared

LAYERS, OPS, FINDINGS, INNOCENT, TIES = 12, 20, 10, 5, 5
_COUNTED = 22  # columns of the widest class with its count
_QUIET = (Verdict.EQUAL, Verdict.ROUNDING, Verdict.TIE)


def style(verdict: Verdict) -> str:
    """The colour of a class."""
    if verdict in HARD:
        return "bold red"
    return "" if verdict in _QUIET else "yellow" if verdict is not Verdict.UNVERIFIED else "cyan"


def _findings(run: Compared, width: int) -> list[Any]:
    """The worst calls, those that say the same of the same line in one row, or one paragraph where rows would not fit."""
    found = [finding for finding in run.findings() if not finding.apart]
    if not found:
        return []  # which the first line has said
    table = Table(title="worst calls", title_justify="left", expand=False)
    for heading in ("verdict", "side", "op, tensor", "where"):
        table.add_column(heading, overflow="fold")
    for heading in ("error", "bound", "atol needed", "records"):
        table.add_column(heading, justify="right", no_wrap=True)
    for finding in found[:FINDINGS]:
        table.add_row(*_finding(finding))
    more = len(found) - FINDINGS + run.counts.further
    paragraphs = (line for finding in found[:FINDINGS] for line in _paragraph(finding))
    shown_ones = [table] if _fits(table, width) else [Text("worst calls"), *paragraphs]
    return [*shown_ones, *([Text(f"and {more:,} further findings: run.findings()")] if more > 0 else [])]


def _fits(table: Table, width: int) -> bool:
    """Whether no word of it is broken and no line folded in so many columns."""
    console = Console(width=10_000)
    return console.measure(table).maximum <= width


def _finding(finding: Finding) -> list[Any]:
    record = finding.worst
    where = Text(shown(record.get("site") or ""))
    if layer := words.within(finding):
        where = Text(layer, style="bold").append("\n").append_text(where)
    what = Text(f"{shown(record['op'])} {shown(record.get('tensor'))}\n{one.shape(record)}")
    return [
        Text(one.named(record), style=style(Verdict(record["verdict"]))),
        Text(one.whose(record)),
        what,
        where,
        *map(Text, one.observed(record)),
        Text(f"{finding.records:,}"),
    ]


def _paragraph(finding: Finding) -> list[Text]:
    """The same below each other, each of its lines a thing that can be copied."""
    record, side = finding.worst, one.whose(finding.worst)
    error, bound, atol = one.observed(record)
    head = Text("  ").append(one.named(record), style=style(Verdict(record["verdict"]))).append(f" [{side}]" if side else "")
    head.append(f"  {shown(record['op'])} {shown(record.get('tensor'))} {one.shape(record)}")
    lines = [Text("    ").append(layer, style="bold")] if (layer := words.within(finding)) else []
    if record.get("site"):
        lines.append(Text(f"    {shown(record['site'])}"))
    return [head, *lines, Text(f"    error {error}, bound {bound}, atol needed {atol}, {many(finding.records, 'record')}")]


def _innocent(run: Compared, width: int) -> list[Any]:
    """The largest differences that are only rounding, and the tolerance that a test of them needs."""
    found = [record for record, _ in run.counts.innocent.largest()[:INNOCENT]]
    if not found:
        return []
    title = "only rounding: largest differences, and how far two right kernels may be apart"
    table = Table(title=title, title_justify="left")
    for heading in ("op, tensor", "where"):
        table.add_column(heading, overflow="fold")
    for heading in ("terms of\na sum", "largest\ndifference", "atol that fails\nno right kernel"):
        table.add_column(heading, justify="right", no_wrap=True)
    for record in found:
        what = Text(f"{shown(record['op'])} {shown(record.get('tensor'))}\n{one.shape(record)}")
        table.add_row(what, Text(shown(record.get("site") or "")), *map(Text, one.innocent(record)))
    return [table] if _fits(table, width) else [Text(title), *(Text(f"  {one.only_rounding(record)}") for record in found)]


def _ties(run: Compared, width: int) -> list[Any]:
    """Where elements differ at ties."""
    tied = sorted(run.counts.ties.values(), key=lambda tie: -tie.elements)
    if not tied:
        return []
    table = Table(title="ties: both choices are allowed", title_justify="left")
    for heading in ("op, tensor", "where"):
        table.add_column(heading, overflow="fold")
    for heading in ("elements\nthat differ", "records"):
        table.add_column(heading, justify="right", no_wrap=True)
    lines = []
    for tie in tied[:TIES]:
        record, site = tie.first, shown(tie.first.get("site") or "")
        what = f"{shown(record['op'])} {shown(record.get('tensor'))}"
        table.add_row(Text(f"{what}\n{one.shape(record)}"), Text(site), Text(f"{tie.elements:,}"), Text(f"{tie.records:,}"))
        lines.append(Text(f"  {what} at {site}: {many(tie.elements, 'element')} in {many(tie.records, 'record')}"))
    more = [Text(f"and {len(tied) - TIES:,} further tensors and lines")] if len(tied) > TIES else []
    shown_ones = [table] if _fits(table, width) else [Text("ties: both choices are allowed"), *lines]
    return [*shown_ones, *more, Text(ties(run.counts))]


def _groups(title: str, groups: Mapping[str, Group], most: int, width: int) -> list[Any]:
    """Verdicts per op or layer."""
    kept, rest = list(groups.values())[:most], list(groups.values())[most:]
    names = [name for name in [*reversed(Verdict.__members__), *APART] if any(group.verdicts[name] for group in groups.values())]
    table: Any = _broad(title, kept, names)
    if not _fits(table, width):
        table = _narrow(title, kept, names, width)
    parts = table if isinstance(table, list) else [table]
    if not rest:
        return parts
    return [*parts, Text(f"and {len(rest):,} further, at worst {max((g.worst for g in rest), key=lambda v: v.severity)}")]


def _broad(title: str, groups: Sequence[Group], names: Sequence[str]) -> Table:
    """A column for each class that occurs."""
    table = Table(title=title, title_justify="left")
    table.add_column(title.rpartition(" ")[2])
    for name in names:
        table.add_column(name.replace("_", "\n"), justify="right")
    table.add_column("error /\nbound", justify="right")
    for group in groups:
        counts = [Text(f"{group.verdicts[name]:,}" if group.verdicts[name] else "") for name in names]
        table.add_row(_name(group), *counts, _far(group))
    return table


def _narrow(title: str, groups: Sequence[Group], names: Sequence[str], width: int) -> Any:
    """All classes in one column; the last column is left out before a name is broken, and the table before that."""
    counted = [", ".join(f"{name} {group.verdicts[name]:,}" for name in names if group.verdicts[name]) for group in groups]
    spare = width - _COUNTED - 7 - max(cell_len(_name(group).plain) for group in groups)  # 7: lines and blanks between two columns
    if spare < 0:
        found = [Text(title)]
        for group, counts in zip(groups, counted):
            found += [Text("  ").append_text(_name(group)), Text(f"    {counts}")]
        return found
    table = Table(title=title, title_justify="left")
    table.add_column(title.rpartition(" ")[2], no_wrap=True)
    table.add_column("records", min_width=_COUNTED)
    if measured := spare >= 10:
        table.add_column("error /\nbound", justify="right", no_wrap=True)
    for group, counts in zip(groups, counted):
        table.add_row(_name(group), Text(counts), *([_far(group)] if measured else []))
    return table


def _name(group: Group) -> Text:
    return Text(shown(group.name) or "(no layer)", style=style(group.worst))


def _far(group: Group) -> Text:
    return Text(one.figure(group.prob) if group.prob else "-")


def _opening(run: Compared) -> Iterable[Any]:
    yield Text(headline(run.counts, run.coverage()), style="bold")
    for warning in run.warnings:
        yield Text(f"warning: {shown(warning, SENTENCE)}", style="bold yellow")
    versions = words.versions(run.header.get("environment") or {})
    yield Text(f"padiff_shim: Paddle's kernels compared with {shown(run.backend)}'s ({versions})")
    if said := words.command(run.header):
        yield Text(said)
    if run.replicas is not None and run.replicas.parting is None:  # else it is the first warning
        yield Text(shown(run.replicas, SENTENCE))
    counts = run.counts
    counted = words.counted(counts.verdicts(everything=False), counts.apart())
    yield Text(f"{many(counts.calls, 'call')}, {counts.records:,} results and gradients: {counted}")
    for line in advice(run.counts):
        yield Text(line)


def _closing(run: Compared) -> Iterable[Any]:
    if lacking := words.without_kernel(run.counts.lacking):
        yield Text(lacking)
    yield Text(words.divergence(run.first_divergence()))
    for (name, muted), records in run.counts.quirks.most_common():
        yield Text(f"Known difference: {shown(name)}: {many(records, 'record')}{' (muted)' if muted else ''}")
    if (negligible := run.counts.apart().get("negligible")) is not None:
        yield Text(f"Negligible: {many(negligible, 'record')}")
    coverage = run.coverage()
    yield Text(f"Coverage: {words.covered(coverage)}.")
    for line in words.unchecked(coverage):
        yield Text(f"  not checked: {line}")


def _lines(part: Any, width: int) -> list[Any]:
    """A sentence folded between words, with what it is indented by; where the output is no terminal, as it is."""
    if not isinstance(part, Text) or width >= PIPED:
        return [part]
    indent = len(part.plain) - len(part.plain.lstrip(" "))
    return list(folded_text(part[indent:], width, indent, 2 if indent else 0))


def summary(run: Compared, width: int | None = None, *, colour: bool = False) -> str:
    """The run as text, ``width`` columns wide (default: :func:`padiff_shim.text.columns`); with ``colour`` as ANSI sequences.

    Tables and findings keep to the width. So do sentences on a terminal; where the output is none, each stays one line.
    """
    buffer, width = io.StringIO(), width or columns()
    console = Console(file=buffer, width=width, force_terminal=colour, color_system="standard" if colour else None, highlight=False)
    parts = list(_opening(run))
    if run.counts.records:
        parts += _findings(run, width)
        parts += _innocent(run, width)
        parts += _ties(run, width)
        parts += _groups("verdicts per op", run.by_op(), OPS, width)
        if set(run.by_layer()) != {""}:
            parts += _groups("verdicts per layer", run.by_layer(), LAYERS, width)
    for part in [*parts, *_closing(run)]:
        for line in _lines(part, width):
            console.print(line, soft_wrap=isinstance(line, Text))
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines())
