"""Figures and sentences that the terminal, Markdown and single calls share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..text import SENTENCE, shown
from ..verdicts import Side, Verdict, apart


def figure(value: Any, digits: int = 2) -> str:
    """A figure in few characters: ``3.1e-05``, ``12``, ``-`` for none; the log's strings for NaN and Inf as they are."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return shown(value)
    size = abs(value)
    if size == 0 or not math.isfinite(size):
        return f"{value:g}"
    if 99.5 <= size < 1e5:
        return f"{value:.0f}"
    return f"{value:.{digits}g}" if 1e-3 <= size < 99.5 else f"{value:.{digits - 1}e}"


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


def named(record: Mapping[str, Any]) -> str:
    """The verdict with what explains it: ``SEMANTICS (no-bias)``, ``PRECISION_MODE (tf32-inputs or fp16-inputs)``."""
    hypothesis = record.get("hypothesis")
    if not hypothesis:
        return str(record["verdict"])
    return f"{record['verdict']} ({' or '.join(map(shown, [hypothesis, *(record.get('alternatives') or ())][:2]))})"


def whose(record: Mapping[str, Any]) -> str:
    """The side, or nothing where the verdict speaks of none."""
    side = record.get("side") or Side.NONE.value
    return "" if side == Side.NONE.value else str(side)


def observed(record: Mapping[str, Any]) -> list[str]:
    """Observed error, predicted bound, and the absolute tolerance that would have been required; ``-`` for what there is not."""
    stats = record.get("stats") or {}
    if record["verdict"] == Verdict.NONFINITE.value:
        return ["NaN/Inf", "-", "-"]
    error = stats.get("error", stats.get("max_abs"))
    return [figure(value) for value in (error, stats.get("bound"), (stats.get("tolerance") or {}).get("atol"))]


def measured(record: Mapping[str, Any]) -> str:
    """The same in words."""
    stats = record.get("stats") or {}
    if record["verdict"] == Verdict.NONFINITE.value:
        sides = ((name, stats.get(name) or {}) for name in ("paddle", "torch"))
        return ", ".join(f"{name} {side.get('nan', '?')} NaN {side.get('inf', '?')} Inf" for name, side in sides)
    if stats.get("error") is not None:
        found = f"error {figure(stats['error'])}, bound {figure(stats.get('bound'))}"
    elif stats.get("max_abs") is not None:
        found = f"largest difference {figure(stats['max_abs'])}"
    else:
        return ""
    tolerance = stats.get("tolerance")
    if tolerance and stats.get("different"):
        found += f"; assert_close would need atol {figure(tolerance.get('atol'))} or rtol {figure(tolerance.get('rtol'))}"
    return found


def amplified(record: Mapping[str, Any]) -> str:
    """What a shadow stream says of the call: what came in, and what it became; nothing without an incoming difference."""
    stats = record.get("stats") or {}
    if not stats.get("incoming"):
        return ""
    rho = max((float((stats.get(side) or {}).get("rho_max") or 0.0) for side in ("paddle", "torch")), default=0.0)
    return (
        f"amplification x{figure(stats.get('amplification'))} of an incoming difference of {figure(stats['incoming'])}, "
        f"local error {figure(rho)} rounding units"
    )


def shape(record: Mapping[str, Any]) -> str:
    """``"[8, 256] float32"``."""
    return shown(f"{list(record.get('shape') or ())} {record.get('dtype')}")


def call_line(record: Mapping[str, Any]) -> str:
    """One record as one line."""
    side = whose(record)
    parts = [
        f"#{record.get('index', '?')} {shown(record.get('op'))} {shown(record.get('tensor'))} {shape(record)}",
        named(record) + (f" [{side}]" if side else "") + "".join(f" {shown(name)}" for name in record.get("modifiers") or ()),
    ]
    parts += [shown(record[name]) for name in ("layer", "site") if record.get(name)]
    parts.append(f"step {record.get('step')}")
    parts += [found for found in (measured(record), amplified(record)) if found]
    if record.get("quirk"):
        parts.append(f"known difference: {shown(record['quirk'])}" + (" (muted)" if record.get("muted") else ""))
    if record["verdict"] == Verdict.UNVERIFIED.value and record.get("reason"):
        parts.append(shown(record["reason"], SENTENCE))
    return " | ".join(parts)


def counted(verdicts: Mapping[str, int], beside: Mapping[str, int]) -> str:
    """``"WRONG 2, ROUNDING 410, EQUAL 96; apart: known 12, negligible 3"``."""
    said, others = (", ".join(f"{name} {number:,}" for name, number in counts.items()) for counts in (verdicts, beside))
    return (said or "none") + (f"; apart: {others}" if others else "")


def nothing(beside: Mapping[str, int]) -> str:
    """What is said where no finding is left to be looked at."""
    but = " or ".join(beside)
    return "No call stands out: nothing above ROUNDING that could be verified" + (f" and is not {but}." if but else ".")


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
    if not calls:
        return "no float call was seen"
    return (
        f"{share(checked, calls)} of {calls:,} float calls and {share(numbers, elements)} of {elements:,} output elements "
        "got a verdict"
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
        found.append(f"{shown(reason, SENTENCE)}: {calls:,} call{'s' if calls != 1 else ''}" + (f" ({among})" if among else ""))
    more = len(coverage.get("unchecked") or {}) - most
    return [*found, f"{more} further reasons"] if more > 0 else found
