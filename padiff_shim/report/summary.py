"""A compare run as text for terminals and logs (rich): warnings, findings, verdicts per op and layer, coverage."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..records import words as one
from ..records.counts import Finding, Group
from ..text import SENTENCE, columns, shown
from ..verdicts import APART, HARD, Verdict
from . import words
from .source import Compared

LAYERS, OPS, FINDINGS = 12, 20, 10
_QUIET = (Verdict.EQUAL, Verdict.ROUNDING)


def style(verdict: Verdict) -> str:
    """The colour of a class."""
    if verdict in HARD:
        return "bold red"
    return "" if verdict in _QUIET else "yellow" if verdict is not Verdict.UNVERIFIED else "cyan"


def _findings(run: Compared) -> list[Any]:
    """The worst calls, those that say the same of the same line in one row."""
    found = [finding for finding in run.findings() if not finding.apart]
    if not found:
        return [Text(words.nothing(run.counts.apart()))]
    table = Table(title="worst calls", title_justify="left", expand=False)
    for heading in ("verdict", "side", "op, tensor", "where"):
        table.add_column(heading, overflow="fold")
    for heading in ("error", "bound", "atol needed", "records"):
        table.add_column(heading, justify="right", no_wrap=True)
    for finding in found[:FINDINGS]:
        table.add_row(*_finding(finding))
    more = len(found) - FINDINGS + run.counts.further
    return [table, *([Text(f"and {more:,} further findings: run.findings()")] if more > 0 else [])]


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


def _groups(title: str, groups: Mapping[str, Group], most: int) -> list[Any]:
    """Verdicts per op or layer, one column for each class that occurs."""
    names = [name for name in [*reversed(Verdict.__members__), *APART] if any(group.verdicts[name] for group in groups.values())]
    table = Table(title=title, title_justify="left")
    table.add_column(title.rpartition(" ")[2], overflow="fold")
    for name in names:
        table.add_column(name.replace("_", "\n"), justify="right", no_wrap=True)
    table.add_column("error /\nbound", justify="right", no_wrap=True)
    for group in list(groups.values())[:most]:
        cells = [Text(f"{group.verdicts[name]:,}" if group.verdicts[name] else "") for name in names]
        ratio = one.figure(group.prob) if group.prob else "-"
        table.add_row(Text(shown(group.name) or "(no layer)", style=style(group.worst)), *cells, Text(ratio))
    rest = list(groups.values())[most:]
    if not rest:
        return [table]
    return [table, Text(f"and {len(rest):,} further, at worst {max((g.worst for g in rest), key=lambda v: v.severity)}")]


def _opening(run: Compared) -> Iterable[Any]:
    for warning in run.warnings:
        yield Text(f"warning: {shown(warning, SENTENCE)}", style="bold yellow")
    versions = words.versions(run.header.get("environment") or {})
    yield Text(f"padiff_shim: Paddle's kernels compared with {shown(run.backend)}'s ({versions})")
    counts = run.counts
    counted = words.counted(counts.verdicts(everything=False), counts.apart())
    yield Text(f"{counts.calls:,} calls, {counts.records:,} results and gradients: {counted}")


def _closing(run: Compared) -> Iterable[Any]:
    yield Text(words.divergence(run.first_divergence()))
    for (name, muted), records in run.counts.quirks.most_common():
        yield Text(f"Known difference: {shown(name)}: {records:,} record{'s' if records != 1 else ''}{' (muted)' if muted else ''}")
    if (negligible := run.counts.apart().get("negligible")) is not None:
        yield Text(f"Negligible: {negligible:,} record{'s' if negligible != 1 else ''}")
    coverage = run.coverage()
    yield Text(f"Coverage: {words.covered(coverage)}.")
    for line in words.unchecked(coverage):
        yield Text(f"  not checked: {line}")


def summary(run: Compared, width: int | None = None, *, colour: bool = False) -> str:
    """The run as text, ``width`` columns wide (default: :func:`padiff_shim.text.columns`); with ``colour`` as ANSI sequences."""
    buffer = io.StringIO()
    console = Console(
        file=buffer, width=width or columns(), force_terminal=colour, color_system="standard" if colour else None, highlight=False
    )
    parts = list(_opening(run))
    if run.counts.records:
        parts += _findings(run)
        parts += _groups("verdicts per op", run.by_op(), OPS)
        if set(run.by_layer()) != {""}:
            parts += _groups("verdicts per layer", run.by_layer(), LAYERS)
    for part in [*parts, *_closing(run)]:
        console.print(part, soft_wrap=isinstance(part, Text))
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines())
