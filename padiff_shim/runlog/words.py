"""One record in words: its figures, its verdict, the line that it is printed as."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from ..text import SENTENCE, code_line, from_log, joined, shown, tr
from ..verdicts import STEP, Side, Verdict

GRADIENT, SECOND = "grad:", "second:"  # how the names of gradients and of second derivatives begin


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


def named(record: Mapping[str, Any]) -> str:
    """The verdict and its explanation: ``SEMANTICS (no-bias)``, ``PRECISION_MODE (tf32-inputs or fp16-inputs)``."""
    hypothesis = record.get("hypothesis")
    if not hypothesis:
        return str(record["verdict"])
    return f"{record['verdict']} ({joined(' or ', map(shown, [hypothesis, *(record.get('alternatives') or ())][:2]))})"


def whose(record: Mapping[str, Any]) -> str:
    """The side that the verdict speaks of, or ""."""
    side = record.get("side") or Side.NONE.value
    return "" if side == Side.NONE.value else str(side)


def observed(record: Mapping[str, Any]) -> list[str]:
    """Observed error, predicted bound, and the absolute tolerance that assert_close would need; ``-`` where there is none."""
    stats = record.get("stats") or {}
    if record["verdict"] == Verdict.NONFINITE.value:
        return ["NaN/Inf", "-", "-"]
    error = stats.get("error", stats.get("max_abs"))
    return [figure(value) for value in (error, stats.get("bound"), (stats.get("tolerance") or {}).get("atol"))]


def measured(record: Mapping[str, Any]) -> str:
    """The error in words: the observed one, its bound, the tolerances that assert_close would need."""
    stats = record.get("stats") or {}
    if record["verdict"] == Verdict.TIE.value:
        tied, count = stats.get("tied", "?"), stats.get("count", "?")
        return tr("{tied} of {count} elements differ at a tie, where both choices are allowed", tied=tied, count=count)
    if record["verdict"] == Verdict.NONFINITE.value:
        sides = ((name, stats.get(name) or {}) for name in ("paddle", "torch"))
        return ", ".join(f"{name} {side.get('nan', '?')} NaN {side.get('inf', '?')} Inf" for name, side in sides)
    if stats.get("error") is not None:
        text = tr("error {error}, bound {bound}", error=figure(stats["error"]), bound=figure(stats.get("bound")))
    elif stats.get("max_abs") is not None:
        text = tr("largest difference {difference}", difference=figure(stats["max_abs"]))
    else:
        return ""
    tolerance = stats.get("tolerance")
    if tolerance and stats.get("different"):
        atol, rtol = figure(tolerance.get("atol")), figure(tolerance.get("rtol"))
        text = tr("{text}; assert_close would need atol {atol} or rtol {rtol}", text=text, atol=atol, rtol=rtol)
    return text


def innocent(record: Mapping[str, Any]) -> list[str]:
    """Terms of the sums, largest difference, smallest safe atol: the cells of a record that is only rounding."""
    stats = record.get("stats") or {}
    return [figure(stats.get(name)) for name in ("k", "max_abs", "allowed")]


def only_rounding(record: Mapping[str, Any]) -> str:
    """A record that is only rounding, in words."""
    terms, difference, allowed = innocent(record)
    text = f"{shown(record['op'])} {shown(record.get('tensor'))} {shape(record)}"
    if record.get("site"):
        text = tr("{text} at {line}", text=text, line=code_line(record["site"]))
    if allowed == "-":
        return tr("{text}: {difference}", text=text, difference=difference)
    return tr(
        "{text}: {difference}; sums of {terms} terms: smallest safe atol {allowed}",
        text=text,
        difference=difference,
        terms=terms,
        allowed=allowed,
    )


_WHOSE = {"paddle": tr("on Paddle's side alone"), "torch": tr("on Torch's side alone"), "both": tr("on both sides")}


def born(record: Mapping[str, Any]) -> str:
    """Where the first NaN or infinity begins, on which side and from which operands; "" where none does."""
    about = record.get("born") or {}
    if not about:
        return ""
    name = shown(about.get("what"))
    what, call = tr(name), _what(record)
    if record.get("site"):
        call = tr("{text} at {line}", text=call, line=code_line(record["site"]))
    if record.get("layer"):
        call = tr("{text} (layer {layer})", text=call, layer=shown(record["layer"]))
    if record.get("step"):
        call = tr("{text}, step {step}", text=call, step=record["step"])
    if about.get("came_in"):
        operands = joined(" and ", map(shown, about["came_in"]))
        return tr(
            "The first {what} comes in with {operands} of {call}: no compared call made it", what=what, operands=operands, call=call
        )
    side = _WHOSE.get(str(about.get("side")), tr("on one side"))
    if not about.get("operands"):
        return tr("The first {what} begins in {call}, {side}", what=what, call=call, side=side)
    operands = joined(" and ", map(_operand, about["operands"]))
    return tr("The first {what} begins in {call}, {side}, of {operands}", what=what, call=call, side=side, operands=operands)


def _what(record: Mapping[str, Any]) -> str:
    """``"softmax"``, ``"the gradient of softmax (x)"``."""
    tensor = str(record.get("tensor"))
    op = shown(record.get("op"))
    if tensor.startswith(SECOND):
        return tr("the second derivative of {op} ({tensor})", op=op, tensor=shown(tensor.removeprefix(SECOND)))
    if not tensor.startswith(GRADIENT):
        return op
    return tr("the gradient of {op} ({tensor})", op=op, tensor=shown(tensor.removeprefix(GRADIENT)))


def _operand(about: Mapping[str, Any]) -> str:
    """``"x [3] from -1 to 4, there -1"``."""
    name = shown(about.get("name"))
    if "number" in about:
        return f"{name} = {figure(about['number'], 4)}"
    text = f"{name} {shown(list(about.get('shape') or ()))}"
    if about.get("infinite"):
        text = tr("{text}, {count:,} infinite", text=text, count=about["infinite"])
    if about.get("least") is not None:
        least, most = figure(about["least"], 4), figure(about.get("most"), 4)
        if about["least"] == about.get("most"):
            return tr("{text} all {value}", text=text, value=least)
        text = tr("{text} from {least} to {most}", text=text, least=least, most=most)
        if about.get("there") is not None:
            text = tr("{text}, there {value}", text=text, value=figure(about["there"], 4))
    return text


def amplified(record: Mapping[str, Any]) -> str:
    """How the call amplified an incoming difference, by a shadow stream; "" without one."""
    stats = record.get("stats") or {}
    if not stats.get("incoming"):
        return ""
    if STEP in (record.get("modifiers") or ()):
        return tr(
            "a step function: differences are amplified here, x{times} of an incoming difference of {incoming}",
            times=figure(stats.get("amplification")),
            incoming=figure(stats["incoming"]),
        )
    rho = max((float((stats.get(side) or {}).get("rho_max") or 0.0) for side in ("paddle", "torch")), default=0.0)
    return tr(
        "amplification x{times} of an incoming difference of {incoming}, local error {local} rounding units",
        times=figure(stats.get("amplification")),
        incoming=figure(stats["incoming"]),
        local=figure(rho),
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
    parts += [show(record[name]) for name, show in (("layer", shown), ("site", code_line)) if record.get(name)]
    parts.append(tr("step {step}", step=record.get("step")))
    parts += [phrase for phrase in (measured(record), amplified(record), born(record)) if phrase]
    if record.get("quirk"):
        name = shown(record["quirk"])
        known = tr("known difference: {name}", name=tr(name))
        parts.append(tr("{text} (muted)", text=known) if record.get("muted") else known)
    if record["verdict"] == Verdict.UNVERIFIED.value and record.get("reason"):
        parts.append(shown(from_log(record["reason"]), SENTENCE))
    return joined(" | ", parts)
