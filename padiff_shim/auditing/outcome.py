"""What an audit found, as data and as a document: a few lines on a terminal, sections in Markdown and on the page."""

from __future__ import annotations

import os
import posixpath
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ..catalogue.known_differences import in_range, shipped
from ..present import document as doc, html
from ..present.annotations import Finding
from ..present.result import Presented
from ..text import capped, from_log, joined, many, tr
from .report import (
    ACCURACY,
    CRASH,
    ELEMENTS,
    LONGEST,
    RANGE,
    TREATMENT,
    UNJUDGED,
    WRONG,
    AuditFinding,
    OpReport,
    findings,
)
from .reproducing import DefectOutcome

WRONG_KINDS = (CRASH, WRONG, RANGE)
UNFOLDED = 20  # rows of a table that are shown without a click


@dataclass(repr=False)
class Audit(Presented):
    """What :func:`padiff_shim.audit` found.

    Attributes:
        folder: holds the audit as files, with the reproducers in ``folder/repro``.
        environment: versions, device and processor, by name.
        reports: op name -> what its calls gave.
        defects: the known ones, and whether they show here.
        seconds: the time it took, of resumed audits in all.
        complete: every op is there that was to be tried; False after Ctrl-C.
    """

    folder: Path
    environment: dict[str, str]
    reports: dict[str, OpReport] = field(default_factory=dict)
    defects: list[DefectOutcome] = field(default_factory=list)
    seconds: float = 0.0
    complete: bool = True

    def __bool__(self) -> bool:
        return (
            self.complete
            and bool(self.reports)
            and not any(entry.kind in WRONG_KINDS and not entry.known for entry in self.entries)
        )

    @property
    def entries(self) -> list[AuditFinding]:
        """All findings with their records, the most serious first."""
        return findings(self.reports.values())

    @property
    def findings(self) -> list[Finding]:
        """What is wrong with kernels and is no known difference, the most serious first; ``where`` is the op and its tensor."""
        return [_finding(entry) for entry in self.entries if entry.kind in WRONG_KINDS and not entry.known]

    @property
    def known(self) -> dict[str, bool]:
        """The shipped known differences of these versions -> whether they showed, in a call or in a defect's program.

        Those that no program shows, or one only on other processors, are left out if they did not: the calls of an audit need not
        have them.
        """
        showed = {finding.known for finding in self.entries if finding.known}
        showed |= {defect.known for defect in self.defects if defect.shown}
        looked = showed | {defect.known for defect in self.defects if not defect.by_processor}
        versions = [(name, self.environment.get(name, "")) for name in ("paddle", "torch")]
        here = [quirk.name for quirk in shipped() if all(in_range(version, getattr(quirk, name)) for name, version in versions)]
        return {name: name in showed for name in here if name in looked}

    def to_dict(self) -> dict[str, Any]:
        """Everything, as JSON-ready data."""
        return {
            "headline": self.answer,
            "right": bool(self),
            "environment": self.environment,
            "seconds": round(self.seconds, 1),
            "complete": self.complete,
            "findings": [{**asdict(finding), "stresses": finding.stresses} for finding in self.entries],
            "known_differences": self.known,
            "defects": [{**asdict(defect), "gone": defect.gone, "new": defect.new} for defect in self.defects],
            "ops": [
                {name: value for name, value in asdict(report).items() if name != "records"} for report in self.reports.values()
            ],
        }

    def content(self) -> doc.Document:
        """What is wrong with which kernels, what else differs, and what was not tried."""
        return _document(self)

    def _page(self, target: Path | None) -> str:
        folder = os.path.relpath(self.folder, target.parent if target else self.folder)
        return html.render(self._with_versions(_document(self, folder)))

    def _versions(self) -> str:
        names = ("paddle", "torch", "processor", "device")
        if not self.environment:  # stopped before a process was asked
            return ""
        return tr(
            "Kernels audited: Paddle {paddle}, Torch {torch}, {processor}, {device}",
            **{name: self.environment.get(name) for name in names},
        )

    def save_all(self) -> list[Path]:
        """Write ``audit.md``, ``audit.html`` and ``audit.json`` into the folder; returns their paths. Raises FileError."""
        return [self.save(self.folder / f"audit.{suffix}") for suffix in ("md", "html", "json")]


def _finding(entry: AuditFinding) -> Finding:
    """A finding for people and tools: of an op, not of a line."""
    size = float(entry.worst.get("stats", {}).get("max_abs") or 0.0)
    where = " ".join(filter(None, (entry.op, entry.tensor)))
    text = joined(", ", filter(None, (f"{where}: {entry.verdict}", entry.side)))
    return Finding(f"audit: {entry.kind}", "error", text, where=where, numbers={"max_abs": size})


def _kinds() -> dict[str, tuple[str, str]]:
    """Kind of a finding -> its title, and what it means."""
    return {
        CRASH: (
            tr("Calls that end the process"),
            tr(
                "The process died in a call or its backward, or did not come back; the op went on in a new one behind that call. "
                "Side paddle: so it is, too, when Paddle's kernel runs alone."
            ),
        ),
        WRONG: (
            tr("Wrong"),
            tr(
                "Ordinary operands, or a known defect with any, and an error on the named side that rounding does not explain. The "
                "error is measured against a formula in higher precision, in multiples of the bound of rounding. For float64 "
                "results without a rounding model of their own that formula is float64 itself, by other steps than Torch's kernel "
                "has."
            ),
        ),
        RANGE: (
            tr("At the edges of the range"),
            tr(
                "Operands whose squares overflow or underflow, or denormal numbers: the result has a value in this dtype, and the "
                "named side does not give it, because something on the way there does not fit."
            ),
        ),
        TREATMENT: (
            tr("Special cases: NaN, infinities, kinks, empty tensors"),
            tr(
                "The operand holds a NaN or an infinity, is all 0 or all equal, or has no elements, and the two frameworks answer "
                "differently. Where no mathematics decides, neither is right: the side is the one that does not do what Torch's "
                "formula does in float64."
            ),
        ),
        ACCURACY: (
            tr("Less accurate than need be"),
            tr(
                "Possible rounding, but far more of it than on the other side or in a good summation; or at most four times the "
                "bound; or wrong only beside the rounding of the tensor's larger elements."
            ),
        ),
        UNJUDGED: (tr("Not judged"), tr("Compared, and nobody could say who is right.")),
    }


def _document(audit: Audit, folder: str = ".") -> doc.Document:
    """``folder``: the audit's, as seen from the document."""
    by_kind = {kind: [finding for finding in audit.entries if finding.kind == kind] for kind in _kinds()}
    reports = audit.reports.values()
    extent = tr(
        "{ops}, {calls}, {judged} judged, in {seconds:.0f} s",
        ops=many(len(reports), "op"),
        calls=many(sum(report.calls for report in reports), "call"),
        judged=many(sum(report.judged for report in reports), "result or gradient", "results and gradients"),
        seconds=audit.seconds,
    )
    return doc.Document(
        _headline(by_kind, complete=audit.complete) if audit.reports else tr("No op was audited"),
        [
            doc.Facts([extent]),
            doc.Only((doc.TEXT,), list(_summary(audit, by_kind))),
            doc.Only((doc.MARKDOWN, doc.PAGE), list(_sections(audit, by_kind, folder))),
        ],
        title=audit._versions(),
        contents=True,
    )


def _headline(by_kind: dict[str, list[AuditFinding]], *, complete: bool) -> str:
    sides = {side: {finding.op for finding in by_kind[WRONG] if finding.side == side} for side in ("paddle", "torch", "both")}
    crashes, edges = (len({finding.op for finding in by_kind[kind]}) for kind in (CRASH, RANGE))
    sentences = [] if complete else [tr("Stopped before the end.")]
    if any(sides.values()):
        paddle, torch, both = (len(sides[side]) for side in ("paddle", "torch", "both"))
        wrong = tr(
            "Wrong kernels: Paddle's in {paddle}, Torch's in {torch}, both in {both}.",
            paddle=many(paddle, "op"),
            torch=torch,
            both=both,
        )
        sentences.append(wrong)
    sentences += [tr("At the edges of the range {ops} are wrong.", ops=many(edges, "op"))] if edges else []
    sentences += [tr("Calls of {ops} end the process.", ops=many(crashes, "op"))] if crashes else []
    return joined(" ", sentences if any(sides.values()) or edges or crashes else [*sentences, tr("No wrong kernel found.")])


def _summary(audit: Audit, by_kind: dict[str, list[AuditFinding]]) -> Iterator[doc.Part]:
    """A line for each kind of finding, what is gone, and where the reports are."""
    items = []
    for kind, group in by_kind.items():
        ops = list(dict.fromkeys(finding.op for finding in group))
        text = tr("{count}: {ops}", count=many(len(ops), "op"), ops=", ".join(ops))
        items += [doc.ListItem(text, _kinds()[kind][0], "bad" if kind in (CRASH, WRONG) else "")] if group else []
    gone = [defect.name for defect in audit.defects if defect.gone] + [name for name, showed in audit.known.items() if not showed]
    if gone and audit.complete:
        items.append(doc.ListItem(", ".join(dict.fromkeys(gone)), tr("No longer seen here")))
    yield doc.Items(items)
    scripts = ", repro/" if (audit.folder / "repro").is_dir() else ""
    yield doc.Paragraph(tr("In {folder}: audit.md, audit.html, audit.json{scripts}", folder=audit.folder, scripts=scripts))


def _sections(audit: Audit, by_kind: dict[str, list[AuditFinding]], folder: str) -> Iterator[doc.Section]:
    heads = [tr("op, tensor"), tr("side"), tr("verdict"), tr("operands"), tr("worst"), tr("reproducer")]
    for kind, (title, meaning) in _kinds().items():
        ops = Counter(finding.op for finding in by_kind[kind])
        names = ", ".join(f"{op} ({count:,})" if count > 1 else op for op, count in ops.items())
        short = tr("{count}: {ops}", count=many(len(ops), "op"), ops=names)
        title = tr("{title} ({count})", title=title, count=len(by_kind[kind]))
        script = next((finding.worst["script"] for finding in by_kind[kind] if finding.worst.get("script")), "")
        if script:
            command = f"python {posixpath.normpath(f'{folder}/repro/{script}')}"
            meaning = joined(" ", (meaning, tr("A reproducer needs Paddle, Torch and NumPy alone: {command}", command=command)))
        yield _section(title, meaning, heads, [_finding_row(finding, folder) for finding in by_kind[kind]], short)
    known = [(tr(name), tr("seen") if showed else tr("no longer seen here")) for name, showed in audit.known.items()]
    meaning = tr("What a comparison counts apart by name, and whether a call of this audit or a defect's program showed it.")
    yield _section(tr("Known differences"), meaning, [tr("name"), tr("here")], known, _states(known))
    defects = [(defect.name, defect.op, _here(defect)) for defect in audit.defects]
    meaning = tr("The programs of docs/defects.md, each run in a process of its own.")
    yield _section(tr("Known defects"), meaning, [tr("defect"), tr("op"), tr("here")], defects, _states(defects))
    reports, heads = audit.reports.values(), [tr("op"), tr("calls"), tr("why")]
    rows = [
        (report.name, f"{sum(report.refusals.values()):,}", from_log(min(report.refusals, key=lambda text: "of kernel" in text)))
        for report in reports
        if report.refusals
    ]
    meaning = tr("Calls that raised an error instead of a result, for example the one that stands there.")
    yield _section(tr("Refused by Paddle"), meaning, heads, rows)
    rows = [
        (report.name, f"{sum(report.native.values()):,}", joined("; ", map(from_log, report.native)))
        for report in reports
        if report.native
    ]
    yield _section(tr("Not compared"), tr("Calls that ran on Paddle's kernel alone."), heads, rows)
    rows = [(report.name, f"{calls:,}", why) for report in reports for why, calls in report.untried.items()]
    yield _section(tr("Given up"), tr("Calls after those that ended the process."), heads, rows)
    shorter = [(name, f"{most:,}") for name, most in LONGEST.items() if name in audit.reports]
    meaning = tr("Long axes have up to {most:,} elements, and less where they cost an op their square or more.", most=ELEMENTS)
    yield _section(tr("Shorter long axes"), meaning, [tr("op"), tr("elements at most")], shorter)
    idle = [report.name for report in reports if not (report.calls or report.refusals or report.native or report.deaths)]
    meaning = tr("They draw random numbers, have no operands, or no call here.")
    yield _section(tr("Not tried"), meaning, [tr("ops")], [(", ".join(idle),)] if idle else [])


def _section(
    title: str, meaning: str, heads: Sequence[str], rows: Sequence[tuple[str | doc.Cell, ...]], short: str = ""
) -> doc.Section:
    """A table; a long one is folded away behind ``short`` (default: its first cells), for it is half a mile on a phone."""
    words = (tr("side"), tr("verdict"))
    table = doc.Table([doc.Column(head, short=head in words) for head in heads], rows)
    if len(rows) <= UNFOLDED:
        return doc.Section(title, [table] if rows else [], meaning)
    short = short or ", ".join(str(row[0]) for row in rows)
    return doc.Section(title, [doc.Paragraph(short), doc.Folded(tr("All {rows}", rows=many(len(rows), "row")), [table])], meaning)


def _states(rows: Sequence[tuple[str, ...]]) -> str:
    """How often each state occurs; the names of what is no longer seen."""
    gone = [row[0] for row in rows if row[-1] == tr("no longer seen here")]
    states = Counter(row[-1].partition(" (")[0] for row in rows if row[0] not in gone)
    parts = [f"{count:,} {state}" for state, count in states.most_common()]
    parts += [tr("{count:,} no longer seen here: {names}", count=len(gone), names="; ".join(gone))] if gone else []
    return ", ".join(parts)


def _here(defect: DefectOutcome) -> str:
    if defect.shown:
        state = tr("seen ({how})", how=defect.how) if defect.how else tr("seen")
        return state if defect.claimed else tr("{state}, new on these versions", state=state)
    if defect.gone:
        return tr("no longer seen here")
    return tr("not of this processor") if defect.claimed else tr("not of these versions")


def _finding_row(finding: AuditFinding, folder: str) -> tuple[str | doc.Cell, ...]:
    known, script = finding.known, finding.worst.get("script")
    name = tr(known) if known else finding.name
    verdict = joined(": ", (finding.verdict, name)) if name else finding.verdict
    return (
        f"{finding.op} {finding.tensor}".strip(),
        "" if finding.side == "none" else finding.side,
        tr("{verdict} (known)", verdict=verdict) if finding.known else verdict,
        f"{', '.join(finding.stresses)} ({', '.join(finding.dtypes)}; {len(finding.cases)})",
        _worst(finding),
        doc.Cell([f"repro/{script}"], link=posixpath.normpath(f"{folder}/repro/{script}")) if script else "",
    )


def _worst(finding: AuditFinding) -> str:
    stats = finding.worst.get("stats") or {}
    sides = [stats.get(side) or {} for side in ("paddle", "torch")]
    bounds = [float(side["prob"]) for side in sides if side.get("prob") is not None]
    if not finding.tensor:
        return joined("; ", [finding.worst["case"], *([] if finding.side else [from_log(str(finding.worst["reason"]))])])
    if finding.verdict in ("NONFINITE", "UNVERIFIED") or not bounds or max(bounds) <= 1:
        return from_log(str(finding.worst["reason"]))
    return tr(
        "off by {error:.2g}, {times} times the bound, in {case}",
        error=max(float(side.get("error_max") or 0.0) for side in sides),
        times=capped(max(bounds), f"{max(bounds):.2g}"),
        case=finding.worst["case"].partition(": ")[2],
    )
