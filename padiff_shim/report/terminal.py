"""A reference run as text for terminals and logs."""

from __future__ import annotations

from ..screen import Column, Screen
from ..text import SENTENCE, many, shown
from .source import Substituted
from .substituted import BACKWARD, Account, Spent, seconds_of

OPS, STAYED, LAYERS, LINES = 60, 20, 16, 8  # rows
_COUNTS = (Column("op"), Column("substituted", right=True), Column("backward", 3, right=True), Column("native", right=True))
_TIMES = (Column("forward", 4, right=True), Column("backward", 5, right=True))


def run_table(run: Substituted, width: int | None = None, *, colour: bool = False) -> str:
    """The run as text, ``width`` columns wide (default: :func:`padiff_shim.text.columns`); with ``colour`` as ANSI sequences."""
    account, screen = Account(run.as_dict()), Screen(width, colour=colour)
    screen.say(f"padiff_shim: Paddle ops on {shown(account.backend)} kernels")
    screen.say(account.headline(), "bold")
    if lacking := account.without_kernel():
        screen.say(lacking)
    for warning in account.warnings:
        screen.say(f"warning: {shown(warning, SENTENCE)}", "bold yellow")
    _ops(account, screen)
    _stayed(account, screen)
    if account.profile:
        _time(account, screen)
    for line in account.costs():
        screen.say(line)
    return screen.text()


def _ops(account: Account, screen: Screen) -> None:
    names = sorted(account.ops, key=lambda name: (-account.ops[name]["substituted"], name))
    rows, lacking = [], bool(account.without_kernel())
    for name in names[:OPS]:
        counts = account.ops[name]
        figures = [counts["substituted"], counts["backward"], sum(counts["native"].values())]
        figures += [sum(counts.get("without_kernel", {}).values())] if lacking else []
        rows.append((shown(name), *(f"{number:,}" for number in figures)))
    if rows:
        screen.table((*_COUNTS, Column("no kernel", 3, right=True)) if lacking else _COUNTS, rows)
    if len(names) > OPS:
        screen.say(f"and {len(names) - OPS:,} further ops: run.as_dict()")


def _stayed(account: Account, screen: Screen) -> None:
    """Why, and at which lines."""
    if account.stayed:
        screen.say("stayed on Paddle's kernels", "italic")
    for one in account.stayed[:STAYED]:
        where = f"; {shown(one.where(), SENTENCE)}" if one.lines and not one.wanted else ""
        screen.say(f"{shown(one.op)}, {many(one.calls, 'call')}: {shown(one.reason, SENTENCE)}{where}", indent=2, hang=2)
    if len(account.stayed) > STAYED:
        screen.say(f"and {len(account.stayed) - STAYED:,} further ops or reasons: run.native", indent=2)


def _time(account: Account, screen: Screen) -> None:
    """Of the profile: all in a sentence, then layers and lines."""
    screen.say(account.spending())
    for remark in account.remarks():
        screen.say(remark)
    layers = account.layers()
    calls, share = Column("calls", 2, right=True), Column("on " + account.backend, right=True)
    if layers:
        # The widest cut through the tree that has room: the layers of the upper levels.
        depth = max((d for d in range(1, 9) if sum(one.depth <= d for one in layers) <= LAYERS), default=1)
        upper = [one for one in layers if one.depth <= depth][:LAYERS]
        more = f", {len(layers) - len(upper):,} inside of them not shown" if len(layers) > len(upper) else ""
        heads = (Column("layer"), calls, share, *_TIMES)
        screen.table(heads, [(shown(one.name) or "(all)", *_cells(one)) for one in upper], f"layers{more}")
    lines = account.lines()
    more = f"lines, the {LINES} longest of {len(lines):,}" if len(lines) > LINES else "lines"
    if lines:
        rows = [(shown(one.name), *_cells(one), seconds_of(one.total)) for one in lines[:LINES]]
        screen.table((Column("line"), calls, share._replace(leave=1), *_TIMES, Column("all", right=True)), rows, more)


def _cells(one: Spent) -> tuple[str, ...]:
    return f"{one.calls:,}" if one.calls else "", one.covered, seconds_of(one.forward), seconds_of(one.seconds[BACKWARD])
