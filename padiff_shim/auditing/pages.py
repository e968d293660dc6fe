"""An audit for people: a few lines, Markdown, and one page of HTML; all from the same sections."""

from __future__ import annotations

import html as escaping
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from ..text import SENTENCE, Screen, in_markdown, many, shown
from .limits import ELEMENTS, LONGEST
from .report import ACCURACY, CRASH, RANGE, TREATMENT, UNJUDGED, WRONG, Finding
from .style import STYLE

if TYPE_CHECKING:
    from .audit import Audit


class Section(NamedTuple):
    """A heading, what it means, and a table."""

    title: str
    says: str
    headings: tuple[str, ...]
    rows: list[tuple[str, ...]]


_KINDS = {
    CRASH: (
        "Calls that end the process",
        "The process died in a call or its backward, or did not come back; the op went on in a new one behind that call. Side "
        "paddle: so it is, too, when Paddle's kernel runs alone.",
    ),
    WRONG: (
        "Wrong",
        "Ordinary operands, or a known defect with any, and an error on the named side that rounding does not explain. The error "
        "is measured against a formula in higher precision, in multiples of the bound of rounding. Of float64 results without a "
        "rounding model of their own the oracle is float64 itself, by other steps than Torch's kernel has.",
    ),
    RANGE: (
        "At the edges of the range",
        "Operands whose squares overflow or underflow, or denormal numbers: the result has a value in this dtype, and the named "
        "side does not give it, because something on the way there does not fit.",
    ),
    TREATMENT: (
        "NaN, infinities, kinks and nothing at all",
        "The operand holds a NaN or an infinity, is all 0 or all equal, or has no elements, and the two frameworks answer "
        "differently. Where no mathematics decides, neither is right: the side is the one that does not do what Torch's formula "
        "does in float64.",
    ),
    ACCURACY: (
        "Less accurate than need be",
        "Possible rounding, but far more of it than on the other side or in a good summation; or at most four times the bound; or "
        "wrong only beside the rounding of the tensor's larger elements.",
    ),
    UNJUDGED: ("Not judged", "Compared, and nobody could say who is right."),
}
UNFOLDED = 20  # rows of a table in Markdown that are shown without a click
_GONE = "no longer seen here"
_HEADINGS = ("op, tensor", "side", "verdict", "operands", "worst", "reproducer")


def summary(audit: Audit, width: int | None = None, *, colour: bool = False) -> str:
    """What ``print(audit)`` shows."""
    screen = Screen(width, colour=colour)
    for style, line in zip(("bold", "", "bold"), _opening(audit)):
        screen.say(line, style)
    screen.say("")
    for kind, (title, _) in _KINDS.items():
        found = [one for one in audit.findings if one.kind == kind]
        if found:
            ops = list(dict.fromkeys(one.op for one in found))
            screen.say(f"{title}: {many(len(ops), 'op')}: {', '.join(ops)}", "red" if kind in (CRASH, WRONG) else "", hang=2)
    gone = [*(one.name for one in audit.defects if one.gone), *(name for name, there in audit.known.items() if not there)]
    if gone and audit.complete:
        screen.say(f"No longer seen here: {', '.join(dict.fromkeys(gone))}", hang=2)
    screen.say("")
    scripts = ", repro/" if (audit.folder / "repro").is_dir() else ""
    screen.say(f"In {audit.folder}: audit.md, audit.html, audit.json{scripts}")
    return screen.text()


def _opening(audit: Audit) -> Iterator[str]:
    told = audit.environment
    reports = audit.reports.values()
    versions = f"Paddle {told.get('paddle')}, Torch {told.get('torch')}, {told.get('processor')}, {told.get('device')}"
    yield f"Kernels audited: {versions}"
    yield (
        f"{many(len(reports), 'op')}, {many(sum(one.calls for one in reports), 'call')}, "
        f"{sum(one.judged for one in reports):,} results and gradients judged, in {audit.seconds:.0f} s"
        f"{'' if audit.complete else '; stopped before the end'}"
    )
    wrong = [one for one in audit.findings if one.kind == WRONG]
    sides = {side: {one.op for one in wrong if one.side == side} for side in ("paddle", "torch", "both")}
    died = {one.op for one in audit.findings if one.kind == CRASH}
    yield (
        "With ordinary operands, or by a known defect, Paddle's kernels are wrong in "
        f"{many(len(sides['paddle']), 'op')}, Torch's in {len(sides['torch'])}, both in {len(sides['both'])}; "
        f"{many(len(died), 'op')} {'has' if len(died) == 1 else 'have'} calls that end the process"
    )


def _sections(audit: Audit) -> Iterator[Section]:
    for kind, (title, says) in _KINDS.items():
        found = [one for one in audit.findings if one.kind == kind]
        if found:
            yield Section(f"{title} ({len(found)})", says, _HEADINGS, [_row(one) for one in found])
    if audit.known:
        rows: list[tuple[str, ...]] = [(name, "seen" if there else _GONE) for name, there in audit.known.items()]
        says = "What a comparison counts apart by name, and whether a call of this audit or a defect's program showed it."
        yield Section("Known differences", says, ("name", "here"), rows)
    if audit.defects:
        says = "The programs of docs/defects.md, each run in a process of its own."
        yield Section("Known defects", says, ("defect", "op", "here"), [(one.name, one.op, _here(one)) for one in audit.defects])
    refused: list[tuple[str, ...]] = [(one.name, *_refusals(one.refusals)) for one in audit.reports.values() if one.refusals]
    if refused:
        yield Section(
            "Refused by Paddle", "Calls that raised an error instead of a result.", ("op", "calls", "for example"), refused
        )
    native: list[tuple[str, ...]] = [
        (one.name, f"{sum(one.native.values()):,}", "; ".join(one.native)) for one in audit.reports.values() if one.native
    ]
    if native:
        yield Section("Not compared", "Calls that ran on Paddle's kernel alone.", ("op", "calls", "why"), native)
    untried: list[tuple[str, ...]] = [
        (one.name, f"{calls:,}", why) for one in audit.reports.values() for why, calls in one.untried.items()
    ]
    if untried:
        yield Section("Given up", "Calls behind those that ended the process.", ("op", "calls", "why"), untried)
    shorter: list[tuple[str, ...]] = [(name, f"{most:,}") for name, most in LONGEST.items() if name in audit.reports]
    if shorter:
        says = f"Long axes have up to {ELEMENTS:,} elements, and less where they cost an op their square or more."
        yield Section("Shorter long axes", says, ("op", "elements at most"), shorter)
    idle = [one.name for one in audit.reports.values() if not one.calls and not one.refusals and not one.native and not one.deaths]
    if idle:
        yield Section("Not tried", "They draw random numbers, have no operands, or no call here.", ("ops",), [(", ".join(idle),)])


def _here(one: Any) -> str:
    how = f" ({one.how})" if one.how and one.shown else ""
    if one.shown:
        return f"seen{how}" + ("" if one.claimed else ", new on these versions")
    if one.gone:
        return _GONE
    return "not of this processor" if one.claimed else "not of these versions"


def _refusals(found: dict[str, int]) -> tuple[str, str]:
    first = next((text for text in found if "of kernel" not in text), next(iter(found)))
    return f"{sum(found.values()):,}", first


def _row(one: Finding) -> tuple[str, ...]:
    name = one.known or one.name
    verdict = f"{one.verdict}{f': {name}' if name else ''}{' (known)' if one.known else ''}"
    what = f"{one.op} {one.tensor}".strip()
    return (
        what,
        one.side,
        verdict,
        f"{', '.join(one.stresses)} ({', '.join(one.dtypes)}; {len(one.cases)})",
        _worst(one),
        f"repro/{one.worst['script']}" if one.worst.get("script") else "",
    )


def _worst(one: Finding) -> str:
    stats = one.worst.get("stats") or {}
    sides = [stats.get(side) or {} for side in ("paddle", "torch")]
    bounds = [float(side["prob"]) for side in sides if side.get("prob") is not None]
    if not one.tensor:
        return str(one.worst["case"]) + ("" if one.side else f"; {one.worst['reason']}")
    if one.verdict in ("NONFINITE", "UNVERIFIED") or not bounds or max(bounds) <= 1:
        return str(one.worst["reason"])
    off = max(float(side.get("error_max") or 0.0) for side in sides)
    return f"off by {off:.2g}, {max(bounds):.2g} times the bound, in {one.worst['case'].partition(': ')[2]}"


# --- Markdown ----------------------------------------------------------------------------------------------------------------


def markdown(audit: Audit) -> str:
    """The whole report."""
    first, *rest = _opening(audit)
    lines = [f"# {in_markdown(first)}", "", *(f"{in_markdown(line)}.  " for line in rest)]
    for section in _sections(audit):
        lines += ["", f"## {in_markdown(section.title)}", "", in_markdown(section.says), ""]
        table = [_line(section.headings), "|" + "---|" * len(section.headings), *map(_line, section.rows)]
        if len(section.rows) > UNFOLDED:
            table = [f"<details><summary>{len(section.rows)} rows</summary>", "", *table, "", "</details>"]
        lines += table
    return "\n".join(lines) + "\n"


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(map(in_markdown, cells)) + " |"


# --- HTML --------------------------------------------------------------------------------------------------------------------


def _text(text: str) -> str:
    return escaping.escape(shown(text, SENTENCE))


def html(audit: Audit) -> str:
    """The same as a page that needs nothing beside it, and runs nothing."""
    first, *rest = _opening(audit)
    sections = list(_sections(audit))
    places = [f'<a href="#part{number}">{_text(section.title)}</a>' for number, section in enumerate(sections)]
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">',
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        f"<title>{_text(first)}</title><style>{STYLE}</style></head><body>",
        f"<h1>{_text(first)}</h1>",
        *(f"<p>{_text(line)}.</p>" for line in rest),
        f"<nav>{' '.join(places)}</nav>",
        *(_part(number, section) for number, section in enumerate(sections)),
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _part(number: int, section: Section) -> str:
    head = "".join(f"<th>{_text(heading)}</th>" for heading in section.headings)
    table = (
        f"<table><thead><tr>{head}</tr></thead><tbody>\n"
        + "\n".join(_tr(section.headings, row) for row in section.rows)
        + "\n</tbody></table>"
    )
    if len(section.rows) > UNFOLDED:  # a whole audit's rows are half a mile of a phone's screen
        table = f"<p>{_text(_in_short(section))}</p><details><summary>All {len(section.rows):,} rows</summary>{table}</details>"
    return f'<section id="part{number}"><h2>{_text(section.title)}</h2><p>{_text(section.says)}</p>\n{table}</section>'


def _in_short(section: Section) -> str:
    """A folded table in one line: which ops, or how often what is said of each."""
    if section.headings == _HEADINGS:
        rows = Counter(row[0].partition(" ")[0] for row in section.rows)
        return f"{many(len(rows), 'op')}: {', '.join(f'{op} ({count:,})' if count > 1 else op for op, count in rows.items())}"
    if section.headings[-1] == "here":
        said = Counter(row[-1].partition(" (")[0] for row in section.rows)
        gone = [row[0] for row in section.rows if row[-1] == _GONE]
        told = [f"{count:,} {what}" for what, count in said.most_common() if what != _GONE]
        return ", ".join([*told, f"{len(gone):,} {_GONE}: {'; '.join(gone)}"] if gone else told)
    return ", ".join(row[0] for row in section.rows)


def _tr(headings: Iterable[str], row: Iterable[str]) -> str:
    cells = (f'<td data-of="{_text(heading)}">{_folding(heading, cell)}</td>' for heading, cell in zip(headings, row))
    return f"<tr>{''.join(cells)}</tr>"


def _folding(heading: str, cell: str) -> str:
    """A cell's text; a file's name goes on in another line between its words only."""
    return _text(cell).replace("_", "_<wbr>").replace("/", "/<wbr>") if heading == "reproducer" else _text(cell)
