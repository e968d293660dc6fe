"""The outcome of each op, and the findings of all ops together: plain data, without a framework."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..text import logged
from ..verdicts import NEGLIGIBLE, Verdict

ELEMENTS = 1 << 13  # of the largest operand of a long call
# A long axis costs these ops its square, its cube, or a step of Python an element: so many elements it has at most.
LONGEST = {"cumprod": 128, "diag": 512, "diag_embed": 512, "kron": 64, "rnn": 64}
ALIKE = 3  # calls of an op that end alike, one after the other, and it is given up


@dataclass
class OpReport:
    """The outcome of one op.

    Attributes:
        name: of the op.
        calls, judged: numbers of calls, and of judged results and gradients.
        verdicts: class -> records.
        refusals: error of Paddle -> calls; ``native``: why a call ran on Paddle's kernel alone -> calls.
        warnings: remarks of the comparison.
        records: the records that are not rounding.
        deaths: calls that ended the process: ``case``, ``how`` it ended, how it ends if Paddle's kernel runs ``alone`` ("" if
            well), and the ``script`` of that.
        untried: why calls were left out -> how many.
        row: how many deaths alike came one right after the other.
        seconds: the time it took.
    """

    name: str
    calls: int = 0
    judged: int = 0
    verdicts: dict[str, int] = field(default_factory=dict)
    refusals: dict[str, int] = field(default_factory=dict)
    native: dict[str, int] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    records: list[dict[str, Any]] = field(default_factory=list)
    deaths: list[dict[str, str]] = field(default_factory=list)
    untried: dict[str, int] = field(default_factory=dict)
    row: int = 0
    seconds: float = 0.0

    def take(self, event: Mapping[str, Any]) -> bool:
        """An event of a worker; True when the op is done."""
        if event["event"] == "record":
            self.records.append({name: value for name, value in event.items() if name != "event"})
        elif event["event"] == "written":
            self.deaths[-1]["script"] = event["path"]
        elif event["event"] == "left":
            self.untried[event["why"]] = event["calls"]
        elif event["event"] == "done":
            self.calls += event["calls"]
            self.judged += event["judged"]
            for name in ("verdicts", "refusals", "native"):
                mine = getattr(self, name)
                for key, number in event[name].items():
                    mine[key] = mine.get(key, 0) + number
            self.warnings += [warning for warning in event["warnings"] if warning not in self.warnings]
        return bool(event["event"] == "done")

    def died(self, case: str, how: str, *, at_once: bool = False) -> None:
        """The process that ran this case is gone; ``at_once``: it was its first one."""
        alike = at_once and bool(self.deaths) and self.deaths[-1]["how"] == how
        self.row = self.row + 1 if alike else 1
        self.deaths.append({"case": case, "how": how, "script": "", "alone": ""})


CRASH, WRONG, RANGE, TREATMENT, ACCURACY, UNJUDGED = "crash", "wrong", "range", "treatment", "accuracy", "unjudged"
# Where mathematics may not say who is right: values that are no numbers, kinks (all 0, all equal), no elements.
SPECIALS = ("nan", "inf", "-inf", "empty", "zeros", "ties", "expanded")
EDGES = ("huge", "tiny", "denormal")
SLIGHT = 4.0  # times the bound: bounds are measured by chance, or of first order, and no one is called wrong for so little


@dataclass
class AuditFinding:
    """Records of one tensor of an op with the same verdict, side and explanation.

    Attributes:
        op, tensor: of which; "" for a call that ended the process.
        kind: the part of the report: ``"crash"``, ``"wrong"``, ``"range"``, ``"treatment"``, ``"accuracy"`` or ``"unjudged"``.
        side, verdict: as in a comparison; of a crash how the process ended.
        name, known: the explanation, and the known difference that it is.
        dtypes, cases: in which calls.
        worst: the record with the largest error.
    """

    op: str
    kind: str
    tensor: str
    side: str
    verdict: str
    name: str
    known: str
    dtypes: list[str]
    cases: list[str]
    worst: dict[str, Any]

    @property
    def stresses(self) -> list[str]:
        """What the operands were like."""
        return list(dict.fromkeys(stress_of(case).partition(" ")[0] for case in self.cases))


def stress_of(case: str) -> str:
    """The stress of a case by its name."""
    return case.rpartition(", ")[0].rpartition(", ")[2]


def kind_of(record: Mapping[str, Any]) -> str:
    """In which part of the report a record belongs."""
    verdict, stress = Verdict(record["verdict"]), stress_of(record["case"]).partition(" ")[0]
    if verdict is Verdict.UNVERIFIED:
        return UNJUDGED
    if verdict in (Verdict.LOW_ACCURACY, Verdict.LOCAL_SUSPECT) or (
        verdict is not Verdict.NONFINITE and 0 < size_of(record) <= SLIGHT
    ):
        return ACCURACY
    if record.get("quirk"):
        return WRONG
    if stress in SPECIALS or (verdict is Verdict.NONFINITE and "oracle nan" in str(record.get("reason"))):
        return TREATMENT
    if stress in EDGES:
        return RANGE
    # Both sides are off, and by as much: by the rounding of a formula that they share, which the bound does not know of.
    sizes = [float(((record.get("stats") or {}).get(side) or {}).get("prob") or 0.0) for side in ("paddle", "torch")]
    alike = verdict is not Verdict.NONFINITE and record["side"] == "both" and 0 < max(sizes) <= SLIGHT * min(sizes) < float("inf")
    return ACCURACY if alike or NEGLIGIBLE in (record.get("modifiers") or ()) else WRONG


def findings(reports: Iterable[OpReport]) -> list[AuditFinding]:
    """All findings: crashes first, then by part of the report, and by op."""
    groups: dict[Any, AuditFinding] = {}
    for report in reports:
        for finding in _of(report):
            key = (finding.op, finding.kind, finding.tensor, finding.side, finding.verdict, finding.name, finding.known)
            if key in groups:
                into = groups[key]
                into.cases += finding.cases
                into.dtypes += [dtype for dtype in finding.dtypes if dtype not in into.dtypes]
                if size_of(finding.worst) > size_of(into.worst):
                    into.worst = {**finding.worst, "script": into.worst.get("script") or finding.worst.get("script")}
            else:
                groups[key] = finding
    order = [CRASH, WRONG, RANGE, TREATMENT, ACCURACY, UNJUDGED]

    def place(finding: AuditFinding) -> tuple[Any, ...]:
        severity = Verdict(finding.verdict).severity if finding.tensor else 99
        return order.index(finding.kind), -severity, finding.op, finding.tensor

    return sorted(groups.values(), key=place)


def _of(report: OpReport) -> Iterator[AuditFinding]:
    for death in report.deaths:
        # A call that the process did not come back from: Paddle's doing, if Paddle alone does not come back either
        case, how = death["case"], death["how"]
        worst = {"reason": logged("the process ended: {how}", how=how), "script": death["script"], "case": case}
        kind, side = CRASH, "paddle"
        if not death["alone"]:
            side = ""
            worst["reason"] = logged("{how}, but not if Paddle's kernel runs alone: it was Torch's, or the verdict", how=how)
            kind = CRASH if how.startswith("SIG") else UNJUDGED
        yield AuditFinding(report.name, kind, "", side, how, "", "", [case.rpartition(", ")[2]], [case], worst)
    for record in report.records:
        yield AuditFinding(
            report.name,
            kind_of(record),
            record["tensor"],
            record["side"],
            record["verdict"],
            record.get("hypothesis") or "",
            record.get("quirk") or "",
            [record["dtype"]],
            [record["case"]],
            record,
        )


def size_of(record: Mapping[str, Any]) -> float:
    """The largest error of either side over the bound, as far as that is a number."""
    sides = [(record.get("stats") or {}).get(side) or {} for side in ("paddle", "torch")]
    sizes = [float(side.get("prob") or 0.0) for side in sides]
    return max(size if size == size else 0.0 for size in sizes)
