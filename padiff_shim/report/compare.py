"""A compare run in sentences, and as a document: the answer first, then findings, verdicts and coverage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..present import document as doc
from ..present.annotations import Finding, Level, places_of
from ..runlog import words
from ..runlog.counts import (
    LAYERS,
    LEFT_OUT,
    NO_VERDICT,
    SECOND_UNCHECKED,
    THIRD_UNCHECKED,
    UPDATE_UNCHECKED,
    WRITE_UNCHECKED,
    Counts,
    GroupCounts,
    LineFinding,
)
from ..runlog.encoding import excess_of
from ..text import SENTENCE, capped, code_line, from_log, joined, many, short_line, shown, tr
from ..verdicts import APART, HARD, MEANING, Verdict, apart

if TYPE_CHECKING:
    from ..runs.compare_run import CompareRun

# What a finding's class says of the side that it names.
_SAYS = {
    Verdict.PRECISION_MODE: lambda name: tr("computes in a lower precision than its dtype{name}", name=name),
    Verdict.SEMANTICS: lambda name: tr("computes another formula{name}", name=name),
    Verdict.NONFINITE: lambda _: tr("gives NaN or Inf where the exact result is finite, or the other way round"),
    Verdict.WRONG: lambda _: tr("is wrong"),
    Verdict.LOCAL_WRONG: lambda _: tr("is wrong in single elements"),
    Verdict.LOCAL_SUSPECT: lambda _: tr("is within its bound, but single elements stand far out"),
    Verdict.LOW_ACCURACY: lambda _: tr("is far less accurate than need be"),
}
LAYERS_SHOWN, OPS, FINDINGS, ROUNDING, TIES = 12, 20, 10, 5, 5  # rows
_QUIET = (Verdict.EQUAL, Verdict.ROUNDING, Verdict.TIE)
_BESIDE_CALLS = (SECOND_UNCHECKED, THIRD_UNCHECKED, WRITE_UNCHECKED)  # reasons that do not speak of a call's own results
_SAID_OTHERWISE = {*_BESIDE_CALLS, *LEFT_OUT, NO_VERDICT, UPDATE_UNCHECKED}


def share(part: int, whole: int) -> str:
    """``"99.8 %"``: never rounded up to 100 % or down to 0 %."""
    if not whole:
        return "0 %"
    percent = 100.0 * part / whole
    if part != whole:
        percent = min(percent, 99.9)
    if part:
        percent = max(percent, 0.1)
    return f"{percent:.1f}".removesuffix(".0") + " %"


def within(finding: LineFinding) -> str:
    """The layer of a finding's worst record, and in how many others it occurs."""
    layer = shown(finding.worst.get("layer") or "")
    others = len(finding.layers) - 1
    if others <= 0:
        return layer
    layer = layer or tr("outside of any layer")
    if others + 1 >= LAYERS:
        return tr("{layer} and {others} or more other layers", layer=layer, others=others)
    return tr("{layer} and {others}", layer=layer, others=many(others, "other layer"))


def divergence(first: Any) -> str:
    """The first record that stands out (a run's ``first_divergence()``); if it is set apart, the sentence says so."""
    if first is None:
        return tr("First divergence: none")
    if why := apart(first.to_dict()):
        return tr("First divergence: none that is not {why}; the first such one: {first}", why=why, first=first)
    return tr("First divergence: {first}", first=first)


def unchecked(coverage: Mapping[str, Any], most: int = 6) -> list[str]:
    """Why the others did not: ``"no Torch formula: 12 calls (conv2d 10, ...)"``."""
    by_reason: dict[str, list[tuple[int, str]]] = {}
    for op, reasons in (coverage.get("unchecked_ops") or {}).items():
        for reason, calls in reasons.items():
            by_reason.setdefault(reason, []).append((calls, op))
    lines = []
    for reason, calls in list((coverage.get("unchecked") or {}).items())[:most]:
        ops = sorted(by_reason.get(reason, ()), reverse=True)
        among = ", ".join(f"{shown(op)} {number:,}" for number, op in ops[:4]) + (", ..." if len(ops) > 4 else "")
        lines.append(f"{shown(from_log(reason), SENTENCE)}{tr(': ')}{many(calls, 'call')}" + (f" ({among})" if among else ""))
    more = len(coverage.get("unchecked") or {}) - most
    return [*lines, many(more, "further reason")] if more > 0 else lines


def without_kernel(kinds: Counter[tuple[str, str]], most: int = 3) -> str:
    """The calls that this Paddle cannot run natively, by op and dtype, the commonest first; "" where there are none."""
    if not kinds:
        return ""
    names = [
        tr("{op} in {dtype} ({number:,})", op=shown(op), dtype=shown(dtype), number=number)
        for (op, dtype), number in kinds.most_common(most)
    ]
    if len(kinds) > most:
        names.append(tr("{more:,} further (run.without_kernel)", more=len(kinds) - most))
    ops = tr("{first} and {last}", first=", ".join(names[:-1]), last=names[-1]) if len(names) > 1 else names[0]
    calls = many(sum(kinds.values()), "call")
    return tr("Native kernel missing: {calls} that this Paddle cannot run natively: {ops}.", calls=calls, ops=ops)


def headline(counts: Counts, coverage: Mapping[str, Any]) -> str:
    """The answer: which side is wrong, where, and by how much, or that none is, and of how many calls that is said.

    Before it stands with which error the program ended, and where a NaN or an infinity begins.
    """
    return joined(" ", [*_ended(counts), *_births(counts), *_answer(counts, coverage)])


def brief(counts: Counts, coverage: Mapping[str, Any]) -> Iterator[str]:
    """The same for a headline: less and less of where the first finding is, and of what else there is to say.

    Where nothing is found, it says of how many calls that is known.
    """
    ended, births = _ended(counts, brief=True), _births(counts, brief=True)
    accused = any(not finding.apart for finding in counts.sorted_findings())
    for layer in (True, False):
        first, *others = _answer(counts, coverage, brief=True, layer=layer)
        last = others[-1:]
        everything = coverage.get("checked_calls") == coverage.get("float_calls") and not coverage.get("unchecked")
        known = [] if accused or everything else last
        for texts in (
            [*births, first, *others],
            [*births, first, *last],
            [*births, first, *known],
            [*births[:1], first, *known],
            [first, *known],
        ):
            yield joined(" ", [*ended, *texts])


def _ended(counts: Counts, *, brief: bool = False) -> list[str]:
    """With which error the program ended; ``brief``: with its class alone."""
    error = shown(counts.ended_by.partition(":")[0] if brief else counts.ended_by, SENTENCE)
    return [tr("The program ended with {error}.", error=error)] if counts.ended_by else []


def _births(counts: Counts, *, brief: bool = False) -> list[str]:
    """Where the first NaN and infinity begin; ``brief``: the call and line alone."""
    texts = []
    for _, record, _ in counts.first_births():
        name, where = shown((record.get("born") or {}).get("what")), _at(record, brief=True)
        short = tr("First {what}: {op}{where}.", what=tr(name), op=shown(record["op"]), where=where)
        texts.append(short if brief else tr("{more}.", more=words.born(record)))
    return texts


def ties(counts: Counts) -> str:
    """How much differs at ties, and what follows from it; nothing where nothing does."""
    number = sum(tie.records for tie in counts.ties.values())
    if not number:
        return ""
    return tr(
        "{results} at ties, where both choices are allowed: from there on both programs may part, and no kernel is wrong.",
        results=many(number, "result or gradient", "results and gradients"),
    )


def _answer(counts: Counts, coverage: Mapping[str, Any], *, brief: bool = False, layer: bool = True) -> list[str]:
    """The sentences of the answer; ``brief``: each as short as it can be; ``layer``: with a layer, or the size of rounding."""
    findings = [finding for finding in counts.sorted_findings() if not finding.apart]
    scope = _scope(coverage, brief=brief)
    if not counts.records:
        return [tr("Nothing was compared: {scope}.", scope=scope) if scope else tr("Nothing was compared.")]
    if findings:
        more = len(findings) - 1 + counts.further
        further = tr("And {more}.", more=many(more, "further finding")) if more else ""
        judged = tr("Judged: {scope}.", scope=scope) if coverage.get("idle") else ""
        return [*filter(None, [_accusation(findings[0], brief=brief, layer=layer), further, judged])]
    unjudged, tied = (counts.verdicts().get(verdict.value, 0) for verdict in (Verdict.UNVERIFIED, Verdict.TIE))
    known = sum(counts.apart().values())
    but = [tr("{number:,} could not be judged", number=unjudged)] if unjudged else []
    but += [tr("{number:,} known or negligible{names}", number=known, names=_names(counts))] if known else []
    but += [tr("{number:,} at ties, where both choices are allowed", number=tied)] if tied else []
    judged = tr("Judged: {scope}.", scope=scope) if scope else ""  # calls of integers alone
    in_brackets = tr("({remarks}.)", remarks=joined(", ", but)) if but else ""
    sentence, where = _rounding_sentence(counts, unjudged, known, tied, size=layer)
    return [*filter(None, [sentence, in_brackets, judged, "" if brief else where])]


def _names(counts: Counts) -> str:
    """The known differences that occurred, the commonest first."""
    names = list(dict.fromkeys(name for (name, _), _ in counts.quirks.most_common()))
    listed = joined(", ", [tr(shown(name)) for name in names[:3]])
    return joined(": ", ("", joined("", (listed, ", ..." if len(names) > 3 else "")))) if names else ""


def _scope(coverage: Mapping[str, Any], *, brief: bool = False) -> str:
    """How many calls were judged, of how many; with a budget, in how much of the program. "" of no calls at all.

    ``brief``: without their share where others are named, and without how many of them were updates.
    """
    calls, judged, idle = coverage.get("float_calls", 0), coverage.get("checked_calls", 0), coverage.get("idle")
    parts, missing = [], _not_judged(coverage, brief=brief)
    if idle:
        stretches = coverage.get("stretches", 0)
        calls = coverage.get("estimated_calls", calls)
        if calls:
            about = tr("about {calls}", calls=many(calls, "float call"))
            parts = [tr("{judged:,} of {calls} ({share})", judged=judged, calls=about, share=share(judged, calls))]
    elif calls and judged == calls:
        parts = [tr("all {calls}", calls=many(calls, "float call")) if calls > 1 else tr("the one float call")]
    elif calls and brief and missing:
        parts = [tr("{judged:,} of {calls}", judged=judged, calls=many(calls, "float call"))]
    elif calls:
        parts = [tr("{judged:,} of {calls} ({share})", judged=judged, calls=many(calls, "float call"), share=share(judged, calls))]
    unseen = coverage.get("unchecked") or {}
    parts += [
        joined(" ", (from_log(reason), tr("of {calls}", calls=many(unseen[reason], "call"))))
        for reason in _BESIDE_CALLS
        if unseen.get(reason)
    ]
    if (updates := coverage.get("updates")) and not brief:
        parts.append(tr("{updates} of optimizers are among them", updates=many(updates, "update")))
    if missing:
        parts.append(tr("not judged: {missing}", missing=joined(", ", missing)))
    if idle:
        parts.append(tr("for budget= comparison paused in {idle:,} of {all:,} stretches of the program", idle=idle, all=stretches))
    return joined("; ", parts)


def _not_judged(coverage: Mapping[str, Any], *, brief: bool) -> list[str]:
    """The commonest ops with calls that got no verdict, where others did, each with their number; and updates of optimizers."""
    by_op, most = Counter[str](), 1 if brief else 3
    for op, reasons in (coverage.get("unchecked_ops") or {}).items() if coverage.get("checked_calls") else ():
        by_op[op] += sum(calls for reason, calls in reasons.items() if reason not in _SAID_OTHERWISE)
    ops = [(op, calls) for op, calls in by_op.most_common() if calls]
    named = [shown(op) if brief else tr("{calls:,} of {op}", calls=calls, op=shown(op)) for op, calls in ops[:most]]
    named += ["..."] * (len(ops) > most)
    if updates := (coverage.get("unchecked") or {}).get(UPDATE_UNCHECKED):
        updated = many(updates, "update")
        named.append(updated if brief and ops else tr("{updates} of optimizers", updates=updated))
    return named


def _accusation(finding: LineFinding, *, brief: bool = False, layer: bool = True) -> str:
    """A finding in a sentence; ``brief``: without folder and function; ``layer``: with its layer, and what explains it."""
    record = finding.worst
    verdict, name = Verdict(record["verdict"]), words.named(record).partition(" (")[2].rstrip(")")
    tensor, op = str(record.get("tensor")), shown(record["op"])
    what = tr("gradient of {op} ({tensor})", op=op, tensor=shown(tensor[5:])) if tensor.startswith(words.GRADIENT) else op
    if tensor.startswith(words.SECOND):
        what = tr("second derivative of {op} ({tensor})", op=op, tensor=shown(tensor.removeprefix(words.SECOND)))
    who = {"both": tr("Both frameworks' {what}", what=what), "paddle": tr("Paddle's {what}", what=what)}
    who["torch"] = tr("Torch's {what}", what=what)
    says = _SAYS[verdict](f" ({name})" if name and layer else "")
    if verdict is Verdict.LOW_ACCURACY and 0 < excess_of(record.get("stats") or {}) <= 1:
        says = tr("is within its bound, but far less accurate than the other side")
    return tr(
        "{who}{where} {says}{size}.",
        who=who.get(words.whose(record), tr("One side's {what}", what=what)),
        where=_at(record, layer=within(finding) if layer else "", brief=brief),
        says=says,
        size="" if verdict is Verdict.NONFINITE else _size(record),
    )


def annotated(finding: LineFinding) -> Finding:
    """A finding at its line."""
    record, verdict = finding.worst, Verdict(finding.worst["verdict"])
    places = places_of(str(record.get("site") or ""), str(record.get("file") or ""), int(record.get("line") or 0))
    level: Level = "error" if verdict in HARD else "note" if verdict is Verdict.LOCAL_SUSPECT else "warning"
    stats = record.get("stats") or {}
    numbers = {name: float(stats[name]) for name in ("max_abs", "ulp_max", "error", "bound") if isinstance(stats.get(name), float)}
    where = "" if places else " ".join(filter(None, (str(record["op"]), str(record.get("layer") or ""))))
    return Finding(verdict.value, level, _accusation(finding), places, where=where, numbers=numbers)


def _at(record: Mapping[str, Any], layer: str = "", *, brief: bool = False) -> str:
    """`` at train.py:7 in forward (layer encoder)``, as far as it is known; ``brief``: without folder and function."""
    line = (short_line if brief else code_line)(record.get("site") or "")
    if line and layer:
        return tr(" at {site} (layer {layer})", site=line, layer=layer)
    return tr(" at {site}", site=line) if line else tr(" (layer {layer})", layer=layer) if layer else ""


def _size(record: Mapping[str, Any]) -> str:
    """How far it is out, or why that is said where nothing was measured."""
    error, bound, _ = words.observed(record)
    if error != "-":
        return tr(": error {error}, rounding explains {bound}", error=error, bound=bound)
    reason = shown(from_log(record.get("reason") or ""), SENTENCE)
    return f": {reason}" if reason else ""


def _rounding_sentence(counts: Counts, unjudged: int, known: int, tied: int, *, size: bool = True) -> tuple[str, str]:
    """That there is only rounding; and where the largest is, which stands behind what a headline keeps."""
    largest, others = counts.innocent.largest(), known or tied
    if counts.ended_by:
        return tr("No fault was found up to there, and what did not run is not known."), ""
    if not counts.records - unjudged - known - tied:
        if known:
            return tr("No fault was found but known differences."), ""
        return tr("No fault was found, but nothing could be verified."), ""
    results = tr("all other results") if others else tr("all results")
    if not largest:
        rounding = tr(", or only rounding") if counts.verdicts(everything=False).get(Verdict.ROUNDING.value) else ""
        text = tr("No wrong kernel found: {results} that could be judged are equal{rounding}.", results=results, rounding=rounding)
        return text, ""
    record: Mapping[str, Any] = largest[0][0]
    _, difference, allowed = words.innocent(record)
    if difference == "0":
        return tr("No wrong kernel found: {results} are equal.", results=results), ""
    if not size:
        return tr("No wrong kernel found, only rounding."), ""
    what = joined("", (f"{shown(record['op'])} {shown(record.get('tensor'))}", _at(record)))
    may = tr(" ({allowed} is allowed)", allowed=allowed) if allowed != "-" else ""
    text = tr("No wrong kernel found, only rounding: at most {difference}{may}", difference=difference, may=may)
    return tr("{text}.", text=text), tr("The largest rounding is that of {what}.", what=what)


def advice(counts: Counts) -> list[str]:
    """What can be done about the findings."""
    tf32 = {
        "paddle": tr(
            "Paddle takes TF32 for float32 products where the GPU has it; NVIDIA_TF32_OVERRIDE=0 in the environment forbids it."
        ),
        "torch": tr(
            "Torch takes TF32 for float32 products while torch.backends.cuda.matmul.allow_tf32 (of convolutions: "
            "torch.backends.cudnn.allow_tf32) is True."
        ),
    }
    lines = []
    for finding in counts.sorted_findings():
        record = finding.worst
        names = [str(record.get("hypothesis") or ""), *map(str, record.get("alternatives") or ())]
        if any(name.startswith("tf32") for name in names) and not finding.apart:
            side = words.whose(record)
            lines += [tf32[name] for name in ("paddle", "torch") if side in (name, "both")]
        if "ill_conditioned" in (record.get("modifiers") or ()):
            lines.append(
                tr(
                    "ill_conditioned: operands cancel, so that rounding alone may move the result by more than a tenth of it. "
                    "It is judged by the bound of its rounding; no relative tolerance fits it."
                )
            )
    return list(dict.fromkeys(lines))


def tone(verdict: Verdict) -> doc.Tone:
    """How serious a class is."""
    if verdict in HARD:
        return "bad"
    return "" if verdict in _QUIET else "warning" if verdict is not Verdict.UNVERIFIED else "open"


def status(counts: Counts) -> tuple[str, doc.Tone]:
    """The badge of a run: the verdict that the headline is about, and how serious it is."""
    findings = [finding for finding in counts.sorted_findings() if not finding.apart]
    if findings:
        verdict = Verdict(findings[0].worst["verdict"])
        return str(verdict), tone(verdict)
    if not counts.records:
        return tr("NOT COMPARED"), "open"
    if counts.ended_by:
        return tr("ENDED EARLY"), "open"
    verdicts = counts.verdicts(everything=False)
    quiet = [str(verdict) for verdict in (Verdict.ROUNDING, Verdict.EQUAL, Verdict.TIE) if str(verdict) in verdicts]
    if quiet:
        return quiet[0], "good"
    return (tr("KNOWN"), "good") if counts.apart() else (str(Verdict.UNVERIFIED), "open")


def document(run: CompareRun) -> doc.Document:
    """The run: the answer, then warnings, versions, counts, findings, verdicts per op and layer, and what was not checked."""
    counts, coverage, first = run.counts, run.coverage(), run.first_divergence()
    verdict, badge_tone = status(counts)
    rounding = [record for record, _ in counts.innocent.largest()[:ROUNDING]]
    quirks = []
    for (name, muted), number in counts.quirks.most_common():
        text = tr("Known difference: {name}: {records}", name=tr(shown(name)), records=many(number, "record"))
        quirks.append(tr("{text} (muted)", text=text) if muted else text)
    negligible = counts.apart().get("negligible")
    remarks = [
        ties(counts),
        without_kernel(counts.lacking),
        divergence(first),
        *quirks,
        "" if negligible is None else tr("Negligible: {records}", records=many(negligible, "record")),
    ]
    lines = unchecked(coverage)
    meanings = [doc.ListItem(tr(MEANING[Verdict(name)]), name) for name in counts.verdicts()]
    # The largest differences that are only rounding, and the tolerance that a test of them needs
    figures = doc.figures(tr("terms of a sum"), tr("largest difference"), tr("smallest safe atol"))
    columns = (doc.Column(tr("op, tensor"), fold=True), doc.Column(tr("line"), fold=True), *figures)
    in_text = [
        doc.Section(
            tr("Only rounding: the largest differences, and how far two right kernels may be apart"),
            [doc.Table(columns, [(*_place(record), *words.innocent(record)) for record in rounding])],
        ),
        doc.Section(tr("Ties: both choices are allowed"), [_ties(counts)]),
        doc.Section(tr("Verdicts per op"), _groups(tr("op"), run.by_op(), OPS)),
        *(
            [doc.Section(tr("Verdicts per layer"), _groups(tr("layer"), run.by_layer(), LAYERS_SHOWN))]
            if set(run.by_layer()) != {""}
            else []
        ),
    ]
    largest = (
        [tr("Largest difference that is only rounding: {record}", record=words.only_rounding(rounding[0]))] if rounding else []
    )
    # The worst calls, those that say the same of the same line in one row
    findings = [finding for finding in run.by_line() if not finding.apart]
    columns = (
        doc.Column(tr("verdict"), short=True, fold=True),
        doc.Column(tr("side"), markdown="under", short=True),
        *(doc.Column(head, fold=True) for head in (tr("op, tensor"), tr("layer, line"))),
        *doc.figures(tr("error / bound"), tr("atol needed"), tr("records")),
    )
    rows = [_finding_row(finding) for finding in findings[:FINDINGS]]
    return doc.Document(
        headline(counts, coverage),
        [
            doc.Notes(list(map(from_log, run.warnings)), warning=True),
            doc.Facts(list(_facts(run))),
            doc.Section(
                tr("Worst calls"), [doc.Table(columns, rows, total=len(findings) + run.counts.further, hint="run.by_line()")]
            ),
            doc.Only((doc.TEXT,), in_text),
            doc.Only((doc.MARKDOWN,), list(map(doc.Paragraph, largest))),
            *map(doc.Paragraph, remarks),
            doc.Only((doc.TEXT,), [doc.Items([doc.ListItem(line, tr("not checked")) for line in lines])]),
            doc.Folded(tr("Not checked, and why"), [doc.Items(list(map(doc.ListItem, lines)))]),
            doc.Folded(tr("What the verdicts mean"), [doc.Items(meanings)]),
        ],
        badge_tone,
        verdict=verdict,
    )


def _facts(run: CompareRun) -> Iterator[str]:
    counts = run.counts
    if run.header.get("command"):
        yield tr("Command: {command}", command=shown(run.header["command"], SENTENCE))
    if run.replicas is not None and run.replicas.parting is None:  # else it is the first warning
        yield shown(run.replicas, SENTENCE)
    # `"WRONG 2, ROUNDING 410, EQUAL 96; apart: known 12, negligible 3"`
    verdicts = counts.verdicts(everything=False)
    beside = counts.apart()
    counted, others = (", ".join(f"{name} {number:,}" for name, number in counts.items()) for counts in (verdicts, beside))
    counted = counted or tr("none")
    counted = tr("{counted}; apart: {others}", counted=counted, others=others) if others else counted
    records = many(counts.records, "result or gradient", "results and gradients")
    yield tr("{calls}, {records}: {counted}", calls=many(counts.calls, "call"), records=records, counted=counted)
    # How much was checked
    coverage = run.coverage()
    exact, screened = (int(coverage.get(name) or 0) for name in ("exact_calls", "screened"))
    calls, elements = int(coverage["float_calls"]), int(coverage["float_elements"])
    text = tr("no float call was seen")
    if calls:
        text = tr(
            "{checked} of {calls} and {numbers} of {elements} got a verdict",
            checked=share(int(coverage["checked_calls"]), calls),
            calls=many(calls, "float call"),
            numbers=share(int(coverage["checked_elements"]), elements),
            elements=many(elements, "output element"),
        )
        if screened:
            text += tr("; {screened:,} of the verdicts were screened: a difference as before at its place", screened=screened)
    if exact:
        text += tr("; beside them {calls} of integers, or without elements, rounded nothing", calls=many(exact, "call"))
    yield tr("Coverage: {coverage}.", coverage=text)
    yield from advice(counts)


def _finding_row(finding: LineFinding) -> doc.Row:
    record = finding.worst
    error, bound, atol = words.observed(record)
    verdict = doc.Cell([words.named(record)], tone(Verdict(record["verdict"])))
    what, site = _place(record)
    where = doc.Cell([within(finding), site])
    return verdict, words.whose(record), what, where, f"{error} / {bound}", atol, f"{finding.records:,}"


def _place(record: Mapping[str, Any]) -> tuple[doc.Cell, str]:
    """Op and tensor, and the line."""
    what = doc.Cell([f"{shown(record['op'])} {shown(record.get('tensor'))}", words.shape(record)])
    return what, code_line(record.get("site") or "")


def _ties(counts: Counts) -> doc.Table:
    """Where elements differ at ties."""
    figures = doc.figures(tr("elements that differ"), tr("records"))
    columns = (doc.Column(tr("op, tensor"), fold=True), doc.Column(tr("line"), fold=True), *figures)
    tied = sorted(counts.ties.values(), key=lambda tie: -tie.elements)
    rows = [(*_place(tie.first), f"{tie.elements:,}", f"{tie.records:,}") for tie in tied[:TIES]]
    return doc.Table(columns, rows, total=len(tied))


def _groups(head: str, groups: Mapping[str, GroupCounts], most: int) -> list[doc.Part]:
    """Verdicts per op or layer."""
    first, rest = list(groups.values())[:most], list(groups.values())[most:]
    columns = (doc.Column(head), doc.Column(tr("records"), fold=True), doc.Column(tr("error / bound"), 1, right=True))
    names = [*reversed(Verdict.__members__), *APART]
    rows: list[doc.Row] = [
        (
            doc.Cell([shown(group.name) or tr("(no layer)")], tone(group.worst)),
            ", ".join(f"{name} {group.verdicts[name]:,}" for name in names if group.verdicts[name]),
            capped(group.prob, words.figure(group.prob)) if group.prob else "-",
        )
        for group in first
    ]
    worst = max((group.worst for group in rest), key=lambda verdict: verdict.severity, default=None)
    more = tr("and {count:,} further, at worst {worst}", count=len(rest), worst=worst) if rest else ""
    return [doc.Table(columns, rows), doc.Paragraph(more)]
