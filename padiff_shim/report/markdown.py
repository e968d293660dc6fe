"""A compare run as Markdown for a pull request or an issue: short, the conclusion first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..records import words as one
from ..records.counts import Finding
from ..text import in_markdown, many
from ..verdicts import MEANING, Verdict
from . import words
from .headline import headline, ties
from .source import Compared

ROWS = 10
_HEADINGS = ("verdict", "op, tensor", "layer, line", "error / bound", "atol needed", "records")
_FIGURES = 3  # of these, the last ones, to the right


def cell(value: Any) -> str:
    """Text that stays within its cell of a table and is not read as markup."""
    return in_markdown(value)


def _row(finding: Finding) -> str:
    record = finding.worst
    side = one.whose(record)
    error, bound, atol = map(cell, one.observed(record))
    cells = (
        cell(one.named(record) + (f" [{side}]" if side else "")),
        f"{cell(record['op'])} {cell(record.get('tensor'))}<br>{cell(one.shape(record))}",
        "<br>".join(filter(None, (cell(words.within(finding)), cell(record.get("site") or "")))),
        f"{error} / {bound}",
        atol,
        f"{finding.records:,}",
    )
    return "| " + " | ".join(cells) + " |"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], figures: int) -> list[str]:
    """Lines of a table whose last ``figures`` columns are numbers."""
    ruled = "|" + "---|" * (len(heads) - figures) + "---:|" * figures
    return ["| " + " | ".join(heads) + " |", ruled, *("| " + " | ".join(map(cell, row)) + " |" for row in rows)]


def folded(title: str, lines: Sequence[str]) -> list[str]:
    """Lines that are opened by a click; none where there are none."""
    return ["", f"<details><summary>{title}</summary>", "", *lines, "", "</details>"] if lines else []


def _listed(lines: Iterable[str]) -> list[str]:
    return [f"- {cell(line)}" for line in lines]


def markdown(run: Compared) -> str:
    """Versions, counts and verdicts in the first lines, then the findings, the first divergence and what was not checked."""
    counts, coverage = run.counts, run.coverage()
    header, found = run.header, [finding for finding in run.findings() if not finding.apart]
    counted = cell(words.counted(counts.verdicts(everything=False), counts.apart()))
    lines = [
        f"**{cell(headline(counts, coverage))}**  ",
        f"Paddle compared with {cell(run.backend)}, call by call ({cell(words.versions(header.get('environment') or {}))})  ",
        f"{many(counts.calls, 'call')}, {counts.records:,} results and gradients: {counted}  ",
        f"{words.covered(coverage)}.  ",
    ]
    lines += [f"{cell(said)}  "] if (said := words.command(header)) else []
    lines += ["", cell(run.replicas)] if run.replicas is not None and run.replicas.parting is None else []
    lines += ["", *(f"> Warning: {cell(warning)}" for warning in run.warnings)] if run.warnings else []
    lines.append("")
    if found:
        lines += ["| " + " | ".join(_HEADINGS) + " |", "|" + "---|" * (len(_HEADINGS) - _FIGURES) + "---:|" * _FIGURES]
        lines += map(_row, found[:ROWS])
        more = len(found) - ROWS + counts.further
        lines += ["", f"{more:,} further findings are not shown."] if more > 0 else []
    for record, _ in run.counts.innocent.largest()[:1]:
        lines += ["", f"Largest difference that is only rounding: {cell(one.only_rounding(record))}"]
    lines += ["", cell(ties(counts))] if counts.ties else []
    first = run.first_divergence()
    if first is not None:
        lines += ["", cell(words.divergence(first))]
    lines += ["", cell(lacking)] if (lacking := words.without_kernel(run.counts.lacking)) else []
    for (name, is_muted), records in counts.quirks.most_common():
        lines += ["", f"Known difference: {cell(name)}, {many(records, 'record')}{', muted' if is_muted else ''}"]
    if (negligible := counts.apart().get("negligible")) is not None:
        lines += ["", f"Negligible: {many(negligible, 'record')}"]
    if coverage["unchecked"]:
        lines += folded("Not checked, and why", _listed(words.unchecked(coverage)))
    lines += folded("What the verdicts mean", _listed(f"{name}: {MEANING[Verdict(name)]}" for name in run.counts.verdicts()))
    return "\n".join(lines) + "\n"
