"""What carries a native difference, in words and as cells of tables: for a terminal, Markdown and the page."""

from __future__ import annotations

from collections.abc import Sequence

from ..text import shown
from .findings import CarriedBy, CarrierRow, JumpRow

SHOWN = 12  # rows in text
CARRIERS = ("layer", "op", "calls", "kernels apart", "rounding: Paddle", "Torch", "amplified", "own", "share")
GRADIENTS = ("gradient of", "native difference", "of its largest element", "share")


def carried(found: CarriedBy) -> str:
    """What a table of carriers shows; or why there is none."""
    if found.failed:
        return f"what carries the native difference of {_whose(found)} is not known: {found.failed}"
    return (
        f"{_jumps(found.jumps)}what carries the native difference of {_whose(found)} ({found.apart:.3g}); "
        f"explained: {found.explained:.1%}, "
        f"{found.own:.1%} by kernels that are apart on equal operands, the rest by rounding of what differs already. "
        "In unit roundoffs of the largest element"
    )


def _jumps(rows: Sequence[JumpRow]) -> str:
    """The step functions in the way, in a sentence."""
    steps = [
        f"{row.op} in {shown(row.layer or '(the model)')} ({row.jumped:,} of {row.elements:,} elements)" for row in rows[:SHOWN]
    ]
    if not steps:
        return ""
    kind = (
        "a step function: differences are amplified here" if len(steps) == 1 else "step functions: differences are amplified here"
    )
    return f"{', '.join(steps)}: {kind}, and no first order explains what comes of it; "


def _whose(found: CarriedBy) -> str:
    return f"the {found.of}" if found.of in ("outputs", "gradients") else f"the gradient of {shown(found.of)}"


def largest(found: CarriedBy, most: int = SHOWN) -> list[tuple[str, ...]]:
    """The rows that carry most, and the sum of the others."""
    rows = [_carrier(row) for row in found.rows[:most]]
    others = found.rows[most:]
    if others:
        own, share = sum(row.own for row in others), sum(row.share for row in others)
        rows.append((f"{len(others)} others", "", str(sum(row.calls for row in others)), *[""] * 4, f"{own:.1%}", f"{share:.1%}"))
    return rows


def _carrier(row: CarrierRow) -> tuple[str, ...]:
    units = (f"{number:.2g}" for number in (row.kernels, row.paddle, row.torch, row.amplified))
    numbers = (*units, f"{row.own:.1%}", f"{row.share:.1%}")
    op = row.op if row.part == "forward" else f"{row.op}, {row.part}"
    return shown(row.layer or "(the model)"), op, str(row.calls), *numbers


def holding(found: CarriedBy, most: int = SHOWN) -> list[tuple[str, ...]]:
    """The gradients that hold most of the difference, where there are several."""
    if len(found.gradients) < 2:
        return []
    rows: list[tuple[str, ...]] = [
        (shown(row.name), f"{row.apart:.2g}", f"{row.relative:.2g}", f"{row.share:.1%}") for row in found.gradients[:most]
    ]
    others = found.gradients[most:]
    if others:
        apart, relative = max(row.apart for row in others), max(row.relative for row in others)
        rows.append((f"{len(others)} others", f"{apart:.2g}", f"{relative:.2g}", f"{sum(row.share for row in others):.1%}"))
    return rows
