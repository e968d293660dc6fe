"""A compare run as text for terminals and as Markdown: the answer in one sentence, findings, verdicts, coverage."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..runlog import words
from ..runlog.counts import LAYERS, Counts, GroupCounts, LineFinding
from ..text import PIPED, SENTENCE, columns, folded_text, in_markdown, many, shown
from ..verdicts import APART, HARD, MEANING, Verdict, apart
from .source import Compared

# ---- Sentences about a whole run that the terminal and Markdown share; those about one record are in ``runlog/words.py``.


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
    """The layer of a finding's worst record, and how many others it was found in."""
    others = len(finding.layers) - 1
    more = f" and {others}{' or more' if others + 1 >= LAYERS else ''} other layer{'s' if others > 1 else ''}" if others > 0 else ""
    return (shown(finding.worst.get("layer") or "") or ("outside of any layer" if more else "")) + more


def command(header: Mapping[str, Any]) -> str:
    """``"Command: train.py --epochs 3"``; nothing where there was none (an interactive session, an older log)."""
    return f"Command: {shown(header['command'], SENTENCE)}" if header.get("command") else ""


def count_words(verdicts: Mapping[str, int], beside: Mapping[str, int]) -> str:
    """``"WRONG 2, ROUNDING 410, EQUAL 96; apart: known 12, negligible 3"``."""
    said, others = (", ".join(f"{name} {number:,}" for name, number in counts.items()) for counts in (verdicts, beside))
    return (said or "none") + (f"; apart: {others}" if others else "")


def divergence(first: Any) -> str:
    """What a run's ``first_divergence()`` gave; where there is none but what is set apart, the first of that."""
    if first is None:
        return "First divergence: none"
    why = apart(first.as_dict())
    return f"First divergence: none that is not {why}; the first such one: {first}" if why else f"First divergence: {first}"


def version_words(environment: Mapping[str, Any]) -> str:
    """``"paddle 3.3.1, torch 2.13.0, cpu"``."""
    found = [f"{name} {shown(environment[name])}" for name in ("paddle", "torch", "numpy", "python") if environment.get(name)]
    return ", ".join([*found, *([shown(environment["device"])] if environment.get("device") else [])]) or "versions unknown"


def covered(coverage: Mapping[str, Any]) -> str:
    """How much was checked."""
    calls, elements = int(coverage["float_calls"]), int(coverage["float_elements"])
    checked, numbers = int(coverage["checked_calls"]), int(coverage["checked_elements"])
    exact, screened = (int(coverage.get(name) or 0) for name in ("exact_calls", "screened"))
    beside = f"; beside them {many(exact, 'call')} of integers, or without elements, rounded nothing" if exact else ""
    if not calls:
        return "no float call was seen" + beside
    return (
        f"{share(checked, calls)} of {many(calls, 'float call')} and {share(numbers, elements)} of "
        f"{many(elements, 'output element')} got a verdict"
        + (f"; {screened:,} of the verdicts were screened: a difference as before at its place" if screened else "")
        + beside
    )


def unchecked(coverage: Mapping[str, Any], most: int = 6) -> list[str]:
    """Why the others did not: ``"no Torch formula: 12 calls (conv2d 10, ...)"``."""
    by_reason: dict[str, list[tuple[int, str]]] = {}
    for op, reasons in (coverage.get("unchecked_ops") or {}).items():
        for reason, calls in reasons.items():
            by_reason.setdefault(reason, []).append((calls, op))
    found = []
    for reason, calls in list((coverage.get("unchecked") or {}).items())[:most]:
        ops = sorted(by_reason.get(reason, ()), reverse=True)
        among = ", ".join(f"{shown(op)} {number:,}" for number, op in ops[:4]) + (", ..." if len(ops) > 4 else "")
        found.append(f"{shown(reason, SENTENCE)}: {many(calls, 'call')}" + (f" ({among})" if among else ""))
    more = len(coverage.get("unchecked") or {}) - most
    return [*found, f"{more} further reasons"] if more > 0 else found


def without_kernel(kinds: Counter[tuple[str, str]], most: int = 3) -> str:
    """The calls that this Paddle cannot run natively, by op and dtype, the commonest first; "" where there are none."""
    if not kinds:
        return ""
    named = [f"{shown(op)} in {shown(dtype)} ({number:,})" for (op, dtype), number in kinds.most_common(most)]
    if len(kinds) > most:
        named.append(f"{len(kinds) - most:,} further (run.without_kernel)")
    listed = f"{', '.join(named[:-1])} and {named[-1]}" if len(named) > 1 else named[0]
    return f"Native kernel missing: {many(sum(kinds.values()), 'call')} that this Paddle cannot run natively: {listed}."


# ---- A compare run's answer in one sentence, and what can be done about it.

# What a finding's class says of the side that it accuses.
_SAYS = {
    Verdict.PRECISION_MODE: "computes in a lower precision than its dtype ({name})",
    Verdict.SEMANTICS: "computes another formula ({name})",
    Verdict.NONFINITE: "gives NaN or Inf where the exact result is finite, or the other way round",
    Verdict.WRONG: "is wrong: no order of summation explains the error",
    Verdict.LOCAL_WRONG: "is wrong in single elements: no order of summation explains them",
    Verdict.LOCAL_SUSPECT: "is off in single elements, which stand far out within their bounds",
    Verdict.LOW_ACCURACY: "is far less accurate than need be, though some order of summation explains it",
}
_TF32 = {
    "paddle": "Paddle takes TF32 for float32 products where the GPU has it; NVIDIA_TF32_OVERRIDE=0 in the environment forbids it.",
    "torch": "Torch takes TF32 for float32 products while torch.backends.cuda.matmul.allow_tf32 (of convolutions: "
    "torch.backends.cudnn.allow_tf32) is True.",
}
_CONDITION = (
    "ill_conditioned: operands cancel, so that rounding alone may move the result by more than a tenth of it. It is judged by "
    "the bound of its rounding; no relative tolerance fits it."
)


def headline(counts: Counts, coverage: Mapping[str, Any]) -> str:
    """The answer: which side is wrong, where, and by how much, or that none is, and of how many calls that is said.

    Before it stands where a NaN or an infinity begins.
    """
    return " ".join([*births(counts), _answer(counts, coverage)])


def births(counts: Counts) -> list[str]:
    """A sentence for the first NaN and one for the first infinity, as they come."""
    return [f"{words.born(record)}." for _, record, _ in counts.first_births()]


def ties(counts: Counts) -> str:
    """How much differs at ties, and what follows from it; nothing where nothing does."""
    number = sum(tie.records for tie in counts.ties.values())
    if not number:
        return ""
    differ = f"{number:,} results and gradients differ at ties" if number > 1 else "1 result or gradient differs at a tie"
    return f"{differ}, where both choices are allowed: from there on both frameworks' programs may part, and no kernel is wrong."


def _answer(counts: Counts, coverage: Mapping[str, Any]) -> str:
    found = [finding for finding in counts.sorted_findings() if not finding.apart]
    if not counts.records:
        return "Nothing was compared" + (f": {scope}." if (scope := _scope(coverage)) else ".")
    if found:
        more = len(found) - 1 + counts.further
        return _accused(found[0]) + (f" And {more:,} further finding{'s' if more > 1 else ''}." if more else "")
    open_, known = counts.verdicts().get(Verdict.UNVERIFIED.value, 0), sum(counts.apart().values())
    but = [f"{open_:,} could not be judged"] if open_ else []
    but += [f"{known:,} known or negligible{_names(counts)}"] if known else []
    tied = counts.verdicts().get(Verdict.TIE.value, 0)
    but += [f"{tied:,} differ{'s' if tied == 1 else ''} at ties, where both choices are allowed"] if tied else []
    return (
        _rounding_sentence(counts, open_, known, tied) + (f" ({', '.join(but)}.)" if but else "") + f" Judged: {_scope(coverage)}."
    )


def _names(counts: Counts) -> str:
    """The known differences that were met, the commonest first."""
    names = list(dict.fromkeys(name for (name, _), _ in counts.quirks.most_common()))
    return f": {', '.join(map(shown, names[:3]))}{', ...' if len(names) > 3 else ''}" if names else ""


def _scope(coverage: Mapping[str, Any]) -> str:
    """How many calls were judged, of how many; with a budget, in how much of the program. "" of no calls at all."""
    seen, judged, stood = coverage.get("float_calls", 0), coverage.get("checked_calls", 0), coverage.get("idle")
    of_all = f"all {many(seen, 'float call')}" if seen > 1 else "the one float call"
    calls = of_all if judged == seen else f"{judged:,} of {many(seen, 'float call')} ({share(judged, seen)})"
    idle = (
        [f"for budget= the hooks stood idle in {stood:,} of {coverage.get('stretches', 0):,} stretches of the program"]
        if stood
        else []
    )
    return "; ".join([*([calls] if seen else []), *idle])


def _accused(finding: LineFinding) -> str:
    record = finding.worst
    side, verdict = words.whose(record), Verdict(record["verdict"])
    name = words.named(record).partition(" (")[2].rstrip(")")
    says = _SAYS[verdict].format(name=name) if name else _SAYS[verdict].replace(" ({name})", "")
    who = {"both": "Both frameworks'", "paddle": "Paddle's", "torch": "Torch's"}.get(side, "One side's")
    tensor = str(record.get("tensor"))
    what = f"gradient of {shown(record['op'])} ({shown(tensor[5:])})" if tensor.startswith("grad:") else shown(record["op"])
    where = f" at {shown(record['site'])}" if record.get("site") else ""
    where += f" (layer {layer})" if (layer := within(finding)) else ""
    return f"{who} {what}{where} {says}{'' if verdict is Verdict.NONFINITE else _size(record)}."


def _size(record: Mapping[str, Any]) -> str:
    """How far it is out, or why that is said where nothing was measured."""
    error, bound, _ = words.observed(record)
    if error != "-":
        return f": error {error}, where rounding explains {bound}"
    reason = shown(record.get("reason"), SENTENCE)
    return f": {reason}" if reason else ""


def _rounding_sentence(counts: Counts, open_: int, known: int, tied: int) -> str:
    largest, others = counts.innocent.largest(), "other " if known or tied else ""
    alike = counts.records - open_ - known - tied
    if not alike:
        return "No kernel is accused of more than is known." if known else "No kernel is accused, and none is cleared."
    if not largest:
        return f"No kernel is accused: all {others}results that could be judged are equal bit for bit{_screened(counts)}."
    record: Mapping[str, Any] = largest[0][0]
    _, difference, allowed = words.innocent(record)
    may = f", where two right kernels may be {allowed} apart" if allowed != "-" else ""
    where = f" at {shown(record['site'])}" if record.get("site") else ""
    what = f"{shown(record['op'])} {shown(record.get('tensor'))}{where}"
    if difference == "0":
        return f"No kernel is accused: all {others}results are equal bit for bit, {what} among them{may}."
    return f"No kernel is accused, only rounding: the largest difference is {difference}, of {what}{may}."


def _screened(counts: Counts) -> str:
    return ", or only rounding" if counts.verdicts(everything=False).get(Verdict.ROUNDING.value) else ""


def advice(counts: Counts) -> list[str]:
    """What can be done about the findings."""
    found = []
    for finding in counts.sorted_findings():
        record = finding.worst
        names = [str(record.get("hypothesis") or ""), *map(str, record.get("alternatives") or ())]
        if any(name.startswith("tf32") for name in names) and not finding.apart:
            sides = ("paddle", "torch") if words.whose(record) == "both" else (words.whose(record),)
            found += [_TF32[side] for side in sides if side in _TF32]
        if "ill_conditioned" in (record.get("modifiers") or ()):
            found.append(_CONDITION)
    return list(dict.fromkeys(found))


# ---- A compare run as text for terminals and logs (rich): warnings, findings, verdicts per op and layer, coverage.

LAYERS_SHOWN, OPS, FINDINGS, INNOCENT, TIES = 12, 20, 10, 5, 5
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


def _finding(finding: LineFinding) -> list[Any]:
    record = finding.worst
    where = Text(shown(record.get("site") or ""))
    if layer := within(finding):
        where = Text(layer, style="bold").append("\n").append_text(where)
    what = Text(f"{shown(record['op'])} {shown(record.get('tensor'))}\n{words.shape(record)}")
    return [
        Text(words.named(record), style=style(Verdict(record["verdict"]))),
        Text(words.whose(record)),
        what,
        where,
        *map(Text, words.observed(record)),
        Text(f"{finding.records:,}"),
    ]


def _paragraph(finding: LineFinding) -> list[Text]:
    """The same below each other, each of its lines a thing that can be copied."""
    record, side = finding.worst, words.whose(finding.worst)
    error, bound, atol = words.observed(record)
    head = Text("  ").append(words.named(record), style=style(Verdict(record["verdict"]))).append(f" [{side}]" if side else "")
    head.append(f"  {shown(record['op'])} {shown(record.get('tensor'))} {words.shape(record)}")
    lines = [Text("    ").append(layer, style="bold")] if (layer := within(finding)) else []
    if record.get("site"):
        lines.append(Text(f"    {shown(record['site'])}"))
    return [head, *lines, Text(f"    error {error}, bound {bound}, atol needed {atol}, {many(finding.records, 'record')}")]


def _rounding_table(run: Compared, width: int) -> list[Any]:
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
        what = Text(f"{shown(record['op'])} {shown(record.get('tensor'))}\n{words.shape(record)}")
        table.add_row(what, Text(shown(record.get("site") or "")), *map(Text, words.innocent(record)))
    return [table] if _fits(table, width) else [Text(title), *(Text(f"  {words.only_rounding(record)}") for record in found)]


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
        table.add_row(Text(f"{what}\n{words.shape(record)}"), Text(site), Text(f"{tie.elements:,}"), Text(f"{tie.records:,}"))
        lines.append(Text(f"  {what} at {site}: {many(tie.elements, 'element')} in {many(tie.records, 'record')}"))
    more = [Text(f"and {len(tied) - TIES:,} further tensors and lines")] if len(tied) > TIES else []
    shown_ones = [table] if _fits(table, width) else [Text("ties: both choices are allowed"), *lines]
    return [*shown_ones, *more, Text(ties(run.counts))]


def _groups(title: str, groups: Mapping[str, GroupCounts], most: int, width: int) -> list[Any]:
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


def _broad(title: str, groups: Sequence[GroupCounts], names: Sequence[str]) -> Table:
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


def _narrow(title: str, groups: Sequence[GroupCounts], names: Sequence[str], width: int) -> Any:
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


def _name(group: GroupCounts) -> Text:
    return Text(shown(group.name) or "(no layer)", style=style(group.worst))


def _far(group: GroupCounts) -> Text:
    return Text(words.figure(group.prob) if group.prob else "-")


def _opening(run: Compared) -> Iterable[Any]:
    yield Text(headline(run.counts, run.coverage()), style="bold")
    for warning in run.warnings:
        yield Text(f"warning: {shown(warning, SENTENCE)}", style="bold yellow")
    versions = version_words(run.header.get("environment") or {})
    yield Text(f"padiff_shim: Paddle's kernels compared with {shown(run.backend)}'s ({versions})")
    if said := command(run.header):
        yield Text(said)
    if run.replicas is not None and run.replicas.parting is None:  # else it is the first warning
        yield Text(shown(run.replicas, SENTENCE))
    counts = run.counts
    counted = count_words(counts.verdicts(everything=False), counts.apart())
    yield Text(f"{many(counts.calls, 'call')}, {counts.records:,} results and gradients: {counted}")
    for line in advice(run.counts):
        yield Text(line)


def _closing(run: Compared) -> Iterable[Any]:
    if lacking := without_kernel(run.counts.lacking):
        yield Text(lacking)
    yield Text(divergence(run.first_divergence()))
    for (name, muted), records in run.counts.quirks.most_common():
        yield Text(f"Known difference: {shown(name)}: {many(records, 'record')}{' (muted)' if muted else ''}")
    if (negligible := run.counts.apart().get("negligible")) is not None:
        yield Text(f"Negligible: {many(negligible, 'record')}")
    coverage = run.coverage()
    yield Text(f"Coverage: {covered(coverage)}.")
    for line in unchecked(coverage):
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
        parts += _rounding_table(run, width)
        parts += _ties(run, width)
        parts += _groups("verdicts per op", run.by_op(), OPS, width)
        if set(run.by_layer()) != {""}:
            parts += _groups("verdicts per layer", run.by_layer(), LAYERS_SHOWN, width)
    for part in [*parts, *_closing(run)]:
        for line in _lines(part, width):
            console.print(line, soft_wrap=isinstance(line, Text))
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines())


# ---- A compare run as Markdown for a pull request or an issue: short, the conclusion first.

ROWS = 10
_HEADINGS = ("verdict", "op, tensor", "layer, line", "error / bound", "atol needed", "records")
_FIGURES = 3  # of these, the last ones, to the right


def cell(value: Any) -> str:
    """Text that stays within its cell of a table and is not read as markup."""
    return in_markdown(value)


def _row(finding: LineFinding) -> str:
    record = finding.worst
    side = words.whose(record)
    error, bound, atol = map(cell, words.observed(record))
    cells = (
        cell(words.named(record) + (f" [{side}]" if side else "")),
        f"{cell(record['op'])} {cell(record.get('tensor'))}<br>{cell(words.shape(record))}",
        "<br>".join(filter(None, (cell(within(finding)), cell(record.get("site") or "")))),
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
    counted = cell(count_words(counts.verdicts(everything=False), counts.apart()))
    lines = [
        f"**{cell(headline(counts, coverage))}**  ",
        f"Paddle compared with {cell(run.backend)}, call by call ({cell(version_words(header.get('environment') or {}))})  ",
        f"{many(counts.calls, 'call')}, {counts.records:,} results and gradients: {counted}  ",
        f"{covered(coverage)}.  ",
    ]
    lines += [f"{cell(said)}  "] if (said := command(header)) else []
    lines += ["", cell(run.replicas)] if run.replicas is not None and run.replicas.parting is None else []
    lines += ["", *(f"> Warning: {cell(warning)}" for warning in run.warnings)] if run.warnings else []
    lines.append("")
    if found:
        lines += ["| " + " | ".join(_HEADINGS) + " |", "|" + "---|" * (len(_HEADINGS) - _FIGURES) + "---:|" * _FIGURES]
        lines += map(_row, found[:ROWS])
        more = len(found) - ROWS + counts.further
        lines += ["", f"{more:,} further findings are not shown."] if more > 0 else []
    for record, _ in run.counts.innocent.largest()[:1]:
        lines += ["", f"Largest difference that is only rounding: {cell(words.only_rounding(record))}"]
    lines += ["", cell(ties(counts))] if counts.ties else []
    first = run.first_divergence()
    if first is not None:
        lines += ["", cell(divergence(first))]
    lines += ["", cell(lacking)] if (lacking := without_kernel(run.counts.lacking)) else []
    for (name, is_muted), records in counts.quirks.most_common():
        lines += ["", f"Known difference: {cell(name)}, {many(records, 'record')}{', muted' if is_muted else ''}"]
    if (negligible := counts.apart().get("negligible")) is not None:
        lines += ["", f"Negligible: {many(negligible, 'record')}"]
    if coverage["unchecked"]:
        lines += folded("Not checked, and why", _listed(unchecked(coverage)))
    lines += folded("What the verdicts mean", _listed(f"{name}: {MEANING[Verdict(name)]}" for name in run.counts.verdicts()))
    return "\n".join(lines) + "\n"
