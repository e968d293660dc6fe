"""A reference run as Markdown for a pull request: the conclusion first, details folded away."""

from __future__ import annotations

from ..text import SENTENCE, shown
from . import words
from .markdown import cell, folded, table
from .source import Substituted
from .substituted import BACKWARD, Account, Spent, seconds_of

ROWS, FOLDED = 10, 100
_FOOT = (
    "substituted: ran on {backend}'s kernel. stayed native: on Paddle's, for the reason given; what is computed from it differs "
    "from a twin by Paddle's rounding."
)


def markdown(run: Substituted) -> str:
    """Coverage and versions in the first lines, then what stayed native, layers, lines and ops."""
    account = Account(run.as_dict())
    versions = cell(words.versions(account.environment))
    lines = [f"**{cell(account.headline())}**  ", f"Paddle's calls on {cell(account.backend)}'s kernels ({versions})  "]
    lines += [f"Command: {cell(account.command)}  "] if account.command else []
    lines += [f"{cell(lacking)}  "] if (lacking := account.without_kernel()) else []
    lines += [cell(said)] if (said := account.spending()) else []
    lines += ["", *(f"> Warning: {cell(warning)}" for warning in account.warnings)] if account.warnings else []
    if account.stayed:
        rows = [
            (shown(one.op), shown(one.reason, SENTENCE), shown(one.where(), SENTENCE), f"{one.calls:,}") for one in account.stayed
        ]
        lines += ["", *table(("stayed native", "why", "where", "calls"), rows[:ROWS], 1)]
        lines += ["", f"{len(rows) - ROWS:,} further ops or reasons are not shown."] if len(rows) > ROWS else []
    for title, head, found in (("Coverage by layer", "layer", account.layers()), ("Lines of the program", "line", account.lines())):
        heads = (head, "calls", "native", "forward", "backward")
        lines += folded(title, table(heads, map(_spent, found[:FOLDED]), 4)) if found else []
    counts = [
        (shown(name), f"{one['substituted']:,}", f"{sum(one['native'].values()):,}", f"{one['backward']:,}")
        for name, one in sorted(account.ops.items(), key=lambda item: (-item[1]["substituted"], item[0]))
    ]
    lines += folded("Ops", table(("op", "substituted", "stayed native", "backward"), counts[:FOLDED], 3)) if counts else []
    lines += folded("What the words mean", [cell(_FOOT.format(backend=account.backend))])
    return "\n".join(lines) + "\n"


def _spent(one: Spent) -> tuple[str, ...]:
    figures = (f"{one.calls:,}" if one.calls else "", f"{one.native:,}" if one.native else "")
    return shown(one.name) or "(all)", *figures, seconds_of(one.forward), seconds_of(one.seconds[BACKWARD])
