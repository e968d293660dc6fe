"""A compare run's answer in one sentence, and what can be done about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..records import words as one
from ..records.counts import Counts, Finding
from ..text import SENTENCE, many, shown
from ..verdicts import Verdict
from .words import share, within

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
    return [f"{one.born(record)}." for _, record, _ in counts.first_births()]


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
    return _innocent(counts, open_, known, tied) + (f" ({', '.join(but)}.)" if but else "") + f" Judged: {_scope(coverage)}."


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


def _accused(finding: Finding) -> str:
    record = finding.worst
    side, verdict = one.whose(record), Verdict(record["verdict"])
    name = one.named(record).partition(" (")[2].rstrip(")")
    says = _SAYS[verdict].format(name=name) if name else _SAYS[verdict].replace(" ({name})", "")
    who = {"both": "Both frameworks'", "paddle": "Paddle's", "torch": "Torch's"}.get(side, "One side's")
    tensor = str(record.get("tensor"))
    what = f"gradient of {shown(record['op'])} ({shown(tensor[5:])})" if tensor.startswith("grad:") else shown(record["op"])
    where = f" at {shown(record['site'])}" if record.get("site") else ""
    where += f" (layer {layer})" if (layer := within(finding)) else ""
    return f"{who} {what}{where} {says}{'' if verdict is Verdict.NONFINITE else _size(record)}."


def _size(record: Mapping[str, Any]) -> str:
    """How far it is out, or why that is said where nothing was measured."""
    error, bound, _ = one.observed(record)
    if error != "-":
        return f": error {error}, where rounding explains {bound}"
    reason = shown(record.get("reason"), SENTENCE)
    return f": {reason}" if reason else ""


def _innocent(counts: Counts, open_: int, known: int, tied: int) -> str:
    largest, others = counts.innocent.largest(), "other " if known or tied else ""
    alike = counts.records - open_ - known - tied
    if not alike:
        return "No kernel is accused of more than is known." if known else "No kernel is accused, and none is cleared."
    if not largest:
        return f"No kernel is accused: all {others}results that could be judged are equal bit for bit{_screened(counts)}."
    record: Mapping[str, Any] = largest[0][0]
    _, difference, allowed = one.innocent(record)
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
            sides = ("paddle", "torch") if one.whose(record) == "both" else (one.whose(record),)
            found += [_TF32[side] for side in sides if side in _TF32]
        if "ill_conditioned" in (record.get("modifiers") or ()):
            found.append(_CONDITION)
    return list(dict.fromkeys(found))
