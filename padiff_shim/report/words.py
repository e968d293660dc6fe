"""Sentences about a whole run that the terminal and Markdown share; those about one record are in ``records/words.py``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from ..records.counts import LAYERS, Finding
from ..text import SENTENCE, many, shown
from ..verdicts import apart


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


def within(finding: Finding) -> str:
    """The layer of a finding's worst record, and how many others it was found in."""
    others = len(finding.layers) - 1
    more = f" and {others}{' or more' if others + 1 >= LAYERS else ''} other layer{'s' if others > 1 else ''}" if others > 0 else ""
    return (shown(finding.worst.get("layer") or "") or ("outside of any layer" if more else "")) + more


def command(header: Mapping[str, Any]) -> str:
    """``"Command: train.py --epochs 3"``; nothing where there was none (an interactive session, an older log)."""
    return f"Command: {shown(header['command'], SENTENCE)}" if header.get("command") else ""


def counted(verdicts: Mapping[str, int], beside: Mapping[str, int]) -> str:
    """``"WRONG 2, ROUNDING 410, EQUAL 96; apart: known 12, negligible 3"``."""
    said, others = (", ".join(f"{name} {number:,}" for name, number in counts.items()) for counts in (verdicts, beside))
    return (said or "none") + (f"; apart: {others}" if others else "")


def divergence(first: Any) -> str:
    """What a run's ``first_divergence()`` gave; where there is none but what is set apart, the first of that."""
    if first is None:
        return "First divergence: none"
    why = apart(first.as_dict())
    return f"First divergence: none that is not {why}; the first such one: {first}" if why else f"First divergence: {first}"


def versions(environment: Mapping[str, Any]) -> str:
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
