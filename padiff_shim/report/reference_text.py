"""A reference run as figures and sentences, for terminals and as Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..runlog.counts import BACKWARD, MOVES, NATIVE, OPTIMIZER, REFERENCE, rounds
from ..text import SENTENCE, Column, Screen, many, shown
from . import compare_text
from .compare_text import cell, folded, share, table, without_kernel
from .source import Substituted

# ---- What a reference run says, as figures and sentences that the terminal, Markdown and the page share.

REST = "rest"
FORWARD = (REFERENCE, NATIVE, MOVES)
LEFT_OUT = "filtered out by "  # how the reasons of the mode's own filters begin
SAYS = {
    REFERENCE: "forward, on {backend}'s kernels",
    NATIVE: "forward, on Paddle's kernels",
    MOVES: "views and copies, and what rounds nothing",
    BACKWARD: "backward",
    OPTIMIZER: "optimizer and clipping",
    REST: "the program itself, and what is not watched",
}
HOW = "reference(profile=True), or `padiff-shim run --profile`, notes the layer, line and time of every call"
ON_DEVICE = (
    "The device computes while the program goes on: the times are those of starting its kernels, and of waiting where the program "
    "waits."
)


@dataclass
class Stayed:
    """Calls of one op that stayed native for one reason. ``lines``: {(line, layer): calls}, as far as they were looked at."""

    op: str
    reason: str
    calls: int
    lines: dict[tuple[str, str], int] = field(default_factory=dict)

    @property
    def wanted(self) -> bool:
        """By the mode's own filters."""
        return self.reason.startswith(LEFT_OUT)

    @property
    def rounds(self) -> bool:
        """They are float calls."""
        return rounds(self.reason)

    def where(self, most: int = 3) -> str:
        """``"train.py:7 in forward (layers a, b), train.py:9 in main"``."""
        by_line: dict[str, list[str]] = {}
        for line, layer in self.lines:
            by_line.setdefault(line, []).extend([layer] if layer else [])
        told = [line + _within(layers) for line, layers in list(by_line.items())[:most]]
        more = len(by_line) - most
        return ", ".join(told) + (f" and {more:,} further line{'s' if more > 1 else ''}" if more > 0 else "")


def _within(layers: list[str], most: int = 2) -> str:
    if not layers:
        return ""
    more = f" and {len(layers) - most:,} more" if len(layers) > most else ""
    return f" (layer{'s' if len(layers) > 1 else ''} {', '.join(layers[:most])}{more})"


@dataclass
class Spent:
    """Calls and seconds of a layer with those below it, of an op or of a line."""

    name: str
    substituted: int = 0
    native: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(SAYS, 0.0))

    @property
    def calls(self) -> int:
        """On either kernel."""
        return self.substituted + self.native

    @property
    def covered(self) -> str:
        """The share of its calls that ran on the reference's kernels; "" without calls."""
        return share(self.substituted, self.calls) if self.calls else ""

    @property
    def depth(self) -> int:
        """Of a layer in the tree of layers; 0: the whole."""
        return self.name.count(".") + 1 if self.name else 0

    @property
    def total(self) -> float:
        """All its seconds."""
        return sum(self.seconds.values())

    @property
    def forward(self) -> float:
        """The seconds of its forward calls."""
        return sum(self.seconds[part] for part in FORWARD)

    def add(self, place: Mapping[str, Any]) -> None:
        """One place of the profile."""
        self.seconds[place["part"]] += place["seconds"]
        if place["part"] == REFERENCE:
            self.substituted += place["calls"]
        elif place["part"] == NATIVE:
            self.native += place["calls"]


class ReferenceFigures:
    """The figures of a reference run, from its :meth:`as_dict`."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.backend, self.ops = str(data["backend"]), data["ops"]
        self.environment, self.warnings = data["environment"], data["warnings"]
        self.command, self.layout_cost = data.get("command") or "", data["layout_cost"]
        self.linear_layout, self.optimizers = data["linear_layout"], data["optimizers"]
        # An optimizer's update is no call of the program's.
        integers = sum(counts.get("integers", 0) for counts in self.ops.values())
        substituted = sum(counts["substituted"] for name, counts in self.ops.items() if name not in self.optimizers)
        self.substituted = substituted - integers
        self.backward = sum(one["backward"] for one in self.ops.values())
        self.stayed = sorted(_stayed(data), key=lambda stayed: (stayed.wanted, not stayed.rounds, -stayed.calls, stayed.op))
        self.native = sum(stayed.calls for stayed in self.stayed if not stayed.wanted and stayed.rounds)
        self.left_out = sum(stayed.calls for stayed in self.stayed if stayed.wanted)
        self.exact = integers + sum(stayed.calls for stayed in self.stayed if not stayed.rounds)
        self.profile = data.get("profile")

    @property
    def places(self) -> list[Mapping[str, Any]]:
        """Of the profile, the longest first."""
        return self.profile["places"] if self.profile else []

    def headline(self) -> str:
        """How much ran on the reference's kernels, and what did not."""
        calls = self.substituted + self.native
        were = "were" if self.left_out > 1 else "was"
        apart = f" {self.left_out:,} {were} left out by ops=, exclude= or layers=." if self.left_out else ""
        apart += f" Beside them {many(self.exact, 'call')} of integers, or without elements, rounded nothing." if self.exact else ""
        if not calls:
            return "No float call was seen." + apart
        if not self.native:
            all_ = f"All {calls:,} float calls" if calls > 1 else "The one float call"
            return f"{all_} ran on {shown(self.backend)}'s kernels." + apart
        worst = next(stayed for stayed in self.stayed if not stayed.wanted)
        where = f" at {place}" if (place := shown(worst.where(1), SENTENCE)) else ""
        most = "most often" if worst.calls < self.native else "all of them" if self.native > 1 else "a call of"
        return (
            f"{self.substituted:,} of {many(calls, 'float call')} ({share(self.substituted, calls)}) ran on "
            f"{shown(self.backend)}'s kernels; {self.native:,} stayed on Paddle's, {most} {shown(worst.op)}{where}: "
            f"{shown(worst.reason, SENTENCE)}.{apart}"
        )

    def without_kernel(self) -> str:
        """The calls that this Paddle cannot run natively, the commonest ops first; "" where there are none."""
        kinds = {(op, dtype): calls for op, counts in self.ops.items() for dtype, calls in counts.get("without_kernel", {}).items()}
        return without_kernel(Counter(kinds))

    def parts(self) -> dict[str, float]:
        """Part -> seconds; the rest is what was measured by nothing, where one thread was."""
        found = dict.fromkeys(SAYS, 0.0)
        for place in self.places:
            found[place["part"]] += place["seconds"]
        if self.profile:
            found[REST] = max(0.0, self.profile["seconds"] - sum(found.values()))
        return found

    def says(self, part: str) -> str:
        """A part's name."""
        return SAYS[part].format(backend=shown(self.backend))

    def spending(self) -> str:
        """``"Of 1.2 s, 32 % went into forward, on torch's kernels, 20 % into backward ..."``; "" without a profile."""
        if not self.profile:
            return ""
        parts = self.parts()
        total = sum(parts.values())
        told = [f"{seconds / total:.0%} {self.says(part)}" for part, seconds in sorted(parts.items(), key=_second) if seconds]
        many = "".join(
            f", added up over {self.profile[name]:,} {name}" for name in ("threads", "processes") if (self.profile[name] or 0) > 1
        )
        return f"The mode was open for {seconds_of(self.profile['seconds'])}{many}: {', '.join(told)}." if total else ""

    def remarks(self) -> Iterator[str]:
        """What to know of the times."""
        if not self.profile:
            yield f"No times and no layers: {HOW}."
        elif "cpu" not in str(self.environment.get("device") or "cpu").lower():
            yield ON_DEVICE

    def layers(self) -> list[Spent]:
        """Each layer with those below it, in the order of their names, after the whole."""
        found: dict[str, Spent] = {}
        for place in self.places:
            words = place["layer"].split(".") if place["layer"] else []
            for depth in range(len(words) + 1):
                name = ".".join(words[:depth])
                found.setdefault(name, Spent(name)).add(place)
        return [found[name] for name in sorted(found, key=_natural)] if set(found) - {""} else []

    def lines(self) -> list[Spent]:
        """Each line of the program, the longest first."""
        found: dict[str, Spent] = {}
        for place in self.places:
            if place["site"]:
                found.setdefault(place["site"], Spent(place["site"])).add(place)
        return sorted(found.values(), key=lambda one: -one.total)

    def seconds_of_ops(self) -> dict[str, dict[str, float]]:
        """Op -> part -> seconds."""
        found: dict[str, Counter[str]] = {}
        for place in self.places:
            found.setdefault(place["op"], Counter())[place["part"]] += place["seconds"]
        return {op: dict(parts) for op, parts in found.items()}

    def costs(self) -> list[str]:
        """Sentences on copies of weights and on optimizers."""
        return [*_layout(self.linear_layout, self.layout_cost), *self._optimizers()]

    def _optimizers(self) -> Iterator[str]:
        told = [
            f"{shown(name)} by {definition.capitalize()}'s definition ({calls})"
            for name, definitions in sorted(self.optimizers.items())
            for definition, calls in sorted(definitions.items())
        ]
        if told:
            yield f"Optimizers on {shown(self.backend)} kernels: {', '.join(told)}."


def _second(item: tuple[str, float]) -> float:
    return -item[1]


def _natural(name: str) -> list[Any]:
    """Sorts ``blocks.2`` before ``blocks.10``."""
    return [
        (0, int(word), "") if word.isascii() and word.isdigit() and len(word) < 19 else (1, 0, word)
        for word in name.split(".")
        if name
    ]


def _stayed(data: Mapping[str, Any]) -> list[Stayed]:
    found = {
        (op, reason): Stayed(op, reason, calls) for op, counts in data["ops"].items() for reason, calls in counts["native"].items()
    }
    for line in data.get("lines") or ():
        one = found.get((line["op"], line["reason"]))
        if one is not None and line["site"]:
            key = line["site"], line["layer"]
            one.lines[key] = one.lines.get(key, 0) + line["calls"]
    return list(found.values())


def _layout(linear_layout: str, cost: Mapping[str, Any]) -> Iterator[str]:
    if not any(cost.values()):
        return
    if linear_layout == "view":
        yield f"Linear weights: transposed views, no copies ({many(cost['views'], 'call')})."
    else:
        yield (
            f"Linear weights: contiguous [out, in] copies: {cost['copies']} made ({cost['bytes'] / 2**20:.1f} MiB, "
            f"{cost['seconds'] * 1e3:.1f} ms), {cost['reused']} times reused"
            + (f"; none needed for the same bits: {cost['spared']} times." if cost["spared"] else ".")
        )


def seconds_of(seconds: float) -> str:
    """``"12 s"``, ``"0.35 s"``, ``"2.1 ms"``, ``"40 µs"``; "" for none."""
    if seconds >= 100:
        return f"{seconds:,.0f} s"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= 0.1 * size or (unit == "ms" and seconds >= size):
            return f"{seconds / size:.2g} {unit}" if seconds < 10 * size else f"{seconds / size:.0f} {unit}"
    return "< 0.1 µs" if seconds > 0 else ""


# ---- A reference run as text for terminals and logs.

OPS, STAYED, LAYERS, LINES = 60, 20, 16, 8  # rows
_COUNTS = (Column("op"), Column("substituted", right=True), Column("backward", 3, right=True), Column("native", right=True))
_TIMES = (Column("forward", 4, right=True), Column("backward", 5, right=True))


def run_table(run: Substituted, width: int | None = None, *, colour: bool = False) -> str:
    """The run as text, ``width`` columns wide (default: :func:`padiff_shim.text.columns`); with ``colour`` as ANSI sequences."""
    account, screen = ReferenceFigures(run.as_dict()), Screen(width, colour=colour)
    screen.say(f"padiff_shim: Paddle ops on {shown(account.backend)} kernels")
    screen.say(account.headline(), "bold")
    if lacking := account.without_kernel():
        screen.say(lacking)
    for warning in account.warnings:
        screen.say(f"warning: {shown(warning, SENTENCE)}", "bold yellow")
    _ops(account, screen)
    _native_table(account, screen)
    if account.profile:
        _time(account, screen)
    for line in account.costs():
        screen.say(line)
    return screen.text()


def _ops(account: ReferenceFigures, screen: Screen) -> None:
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


def _native_table(account: ReferenceFigures, screen: Screen) -> None:
    """Why, and at which lines."""
    if account.stayed:
        screen.say("stayed on Paddle's kernels", "italic")
    for one in account.stayed[:STAYED]:
        where = f"; {shown(one.where(), SENTENCE)}" if one.lines and not one.wanted else ""
        screen.say(f"{shown(one.op)}, {many(one.calls, 'call')}: {shown(one.reason, SENTENCE)}{where}", indent=2, hang=2)
    if len(account.stayed) > STAYED:
        screen.say(f"and {len(account.stayed) - STAYED:,} further ops or reasons: run.native", indent=2)


def _time(account: ReferenceFigures, screen: Screen) -> None:
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


# ---- A reference run as Markdown for a pull request: the conclusion first, details folded away.

ROWS, FOLDED = 10, 100
_FOOT = (
    "substituted: ran on {backend}'s kernel. stayed native: on Paddle's, for the reason given; what is computed from it differs "
    "from a twin by Paddle's rounding."
)


def markdown(run: Substituted) -> str:
    """Coverage and versions in the first lines, then what stayed native, layers, lines and ops."""
    account = ReferenceFigures(run.as_dict())
    versions = cell(compare_text.version_words(account.environment))
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
