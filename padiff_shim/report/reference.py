"""A reference run in figures and sentences, and as a document: what ran where, what stayed native, where the time went."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..present import document as doc
from ..present.annotations import Finding, places_of
from ..runlog.counts import BACKWARD, MOVES, NATIVE, OPTIMIZER, REDRAWN, REFERENCE, rounds
from ..text import SENTENCE, code_line, from_log, joined, many, shown, tr
from .compare import share, without_kernel

REST = "rest"
FORWARD = (REFERENCE, NATIVE, MOVES)
PARTS = (*FORWARD, BACKWARD, OPTIMIZER, REST)
LEFT_OUT = "filtered out by "  # how the reasons of the mode's own filters begin
HOW = "reference(profile=True), or `padiff-shim run --profile`, notes the layer, line and time of every call"
OPS, STAYED, LAYERS, LINES = (
    doc.Most(60, 100, 10_000),
    doc.Most(20, 10, 10_000),
    doc.Most(16, 100, 500),
    doc.Most(8, 100, 40),
)  # rows
_PLACES = 8  # lines of one reason


@dataclass
class Stayed:
    """Calls of one op that stayed native for one reason. ``lines``: {(line, layer): calls}, as far as they are known."""

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

    def places(self) -> list[str]:
        """``["train.py:7 in forward (layers a, b)", "train.py:9 in main"]``."""
        by_line: dict[str, list[str]] = {}
        for line, layer in self.lines:
            by_line.setdefault(code_line(line), []).extend([shown(layer)] if layer else [])
        return [joined("", (line, _within(layers))) for line, layers in by_line.items()]

    def where(self, most: int = 3) -> str:
        """The first of them in a sentence."""
        places = self.places()
        more = len(places) - most
        first = ", ".join(places[:most])
        return tr("{first} and {more}", first=first, more=many(more, "further line")) if more > 0 else first


def _within(layers: list[str], most: int = 2) -> str:
    if not layers:
        return ""
    first = ", ".join(layers[:most])
    if len(layers) == 1:
        return tr(" (layer {layer})", layer=first)
    return (
        tr(" (layers {layers} and {more:,} more)", layers=first, more=len(layers) - most)
        if len(layers) > most
        else tr(" (layers {layers})", layers=first)
    )


@dataclass
class Spent:
    """Calls and seconds of a layer with those below it, or of a line."""

    name: str
    substituted: int = 0
    native: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PARTS, 0.0))

    @property
    def calls(self) -> int:
        """On either kernel."""
        return self.substituted + self.native

    @property
    def depth(self) -> int:
        """Of a layer in the tree of layers; 0: the whole."""
        return self.name.count(".") + 1 if self.name else 0

    @property
    def total(self) -> float:
        """All its seconds."""
        return sum(self.seconds.values())

    @property
    def covered(self) -> str:
        """The share of its calls that ran on the reference's kernels; "" without calls."""
        return share(self.substituted, self.calls) if self.calls else ""

    @property
    def cells(self) -> doc.Row:
        """The share of its calls that ran on the reference's kernels, calls, native ones, seconds forward and backward."""
        bar = (doc.Share(REFERENCE, self.substituted), doc.Share(NATIVE, self.native)) if self.calls else ()
        return (
            doc.Cell([self.covered], bar=bar),
            f"{self.calls:,}" if self.calls else "",
            f"{self.native:,}" if self.native else "",
            seconds_of(sum(self.seconds[part] for part in FORWARD)),
            seconds_of(self.seconds[BACKWARD]),
        )

    def add(self, place: Mapping[str, Any]) -> None:
        """One place of the profile."""
        self.seconds[place["part"]] += place["seconds"]
        if place["part"] == REFERENCE:
            self.substituted += place["calls"]
        elif place["part"] == NATIVE:
            self.native += place["calls"]


class ReferenceFigures:
    """The figures of a reference run, from its :meth:`to_dict`."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.backend, self.ops = str(data["backend"]), data["ops"]
        self.environment, self.warnings = data["environment"], data["warnings"]
        self.command, self.layout_cost = data.get("command") or "", data["layout_cost"]
        self.linear_layout, self.optimizers = data["linear_layout"], data["optimizers"]
        # An optimizer's update is no call of the program's.
        integers = sum(counts.get("integers", 0) for counts in self.ops.values())
        substituted = sum(counts["substituted"] for name, counts in self.ops.items() if name not in self.optimizers)
        self.substituted = substituted - integers
        self.backward = sum(counts["backward"] for counts in self.ops.values())
        reasons = {
            (op, reason): Stayed(op, reason, calls)
            for op, counts in data["ops"].items()
            for reason, calls in counts["native"].items()
        }
        for line in data.get("lines") or ():
            stayed = reasons.get((line["op"], line["reason"]))
            if stayed is not None and line["site"]:
                key = line["site"], line["layer"]
                stayed.lines[key] = stayed.lines.get(key, 0) + line["calls"]
        self.stayed = sorted(reasons.values(), key=lambda stayed: (stayed.wanted, not stayed.rounds, -stayed.calls, stayed.op))
        self.native = sum(stayed.calls for stayed in self.stayed if not stayed.wanted and stayed.rounds)
        self.left_out = sum(stayed.calls for stayed in self.stayed if stayed.wanted)
        self.exact = integers + sum(stayed.calls for stayed in self.stayed if not stayed.rounds)
        self.profile = data.get("profile")

    def __bool__(self) -> bool:
        """Whether float calls were seen, and all of them ran on the reference's kernels."""
        return bool(self.substituted) and not self.native

    def findings(self) -> list[Finding]:
        """What stayed on Paddle's kernels though it rounds and nobody left it out, each op and reason at its lines."""
        return [_finding(stayed) for stayed in self.stayed if stayed.rounds and not stayed.wanted]

    @property
    def places(self) -> list[Mapping[str, Any]]:
        """Of the profile, the longest first."""
        return self.profile["places"] if self.profile else []

    def headline(self) -> str:
        """How much ran on the reference's kernels, and what did not."""
        return joined(" ", [*self._apart(), self._coverage(), *self._beside()])

    def _apart(self) -> list[str]:
        """What makes gradients others than native ones."""
        return [from_log(REDRAWN)] if REDRAWN in self.warnings else []

    def _beside(self) -> Iterator[str]:
        if self.left_out:
            yield tr("Left out by ops=, exclude= or layers=: {calls}.", calls=many(self.left_out, "call"))
        if self.exact:
            yield tr("Beside them {calls} of integers, or without elements, rounded nothing.", calls=many(self.exact, "call"))

    def shorter(self) -> Iterator[str]:
        """The same for a headline: how much ran there, and how much did not."""
        yield joined(" ", [*self._apart(), self._coverage()])
        yield joined(" ", [*self._apart(), self._coverage(brief=True)])

    def _coverage(self, *, brief: bool = False) -> str:
        calls, backend = self.substituted + self.native, shown(self.backend)
        if not calls:
            return tr("No float call was seen.")
        if not self.native and calls == 1:
            return tr("The one float call ran on {backend}'s kernels.", backend=backend)
        if not self.native:
            return tr("All {calls} ran on {backend}'s kernels.", calls=many(calls, "float call"), backend=backend)
        ran = {
            "substituted": self.substituted,
            "calls": many(calls, "float call"),
            "share": share(self.substituted, calls),
            "backend": backend,
        }
        worst = next(stayed for stayed in self.stayed if not stayed.wanted)
        if brief:
            return tr(
                "{substituted:,} of {calls} ({share}) ran on {backend}'s kernels; {native:,} stayed on Paddle's, such as {op}.",
                **ran,
                native=self.native,
                op=shown(worst.op),
            )
        place = worst.where(1)
        stayed = {
            "native": self.native,
            "op": shown(worst.op),
            "where": tr(" at {place}", place=place) if place else "",
            "reason": shown(from_log(worst.reason), SENTENCE),
        }
        if worst.calls < self.native:
            why = tr("{native:,} stayed on Paddle's, most often {op}{where}: {reason}", **stayed)
        elif self.native > 1:
            why = tr("{native:,} stayed on Paddle's, all of them {op}{where}: {reason}", **stayed)
        else:
            why = tr("{native:,} stayed on Paddle's, a call of {op}{where}: {reason}", **stayed)
        return tr("{substituted:,} of {calls} ({share}) ran on {backend}'s kernels; {why}.", **ran, why=why)

    def without_kernel(self) -> str:
        """The calls that this Paddle cannot run natively, the commonest ops first; "" where there are none."""
        kinds = {(op, dtype): calls for op, counts in self.ops.items() for dtype, calls in counts.get("without_kernel", {}).items()}
        return without_kernel(Counter(kinds))

    def parts(self) -> dict[str, float]:
        """Part -> seconds; the rest is what was measured by nothing, where one thread was."""
        seconds = dict.fromkeys(PARTS, 0.0)
        for place in self.places:
            seconds[place["part"]] += place["seconds"]
        if self.profile:
            seconds[REST] = max(0.0, self.profile["seconds"] - sum(seconds.values()))
        return seconds

    def part_name(self, part: str) -> str:
        """A part of the time in words."""
        return {
            REFERENCE: tr("forward, on {backend}'s kernels", backend=shown(self.backend)),
            NATIVE: tr("forward, on Paddle's kernels"),
            MOVES: tr("views and copies, and what rounds nothing"),
            BACKWARD: tr("backward"),
            OPTIMIZER: tr("optimizer and clipping"),
            REST: tr("the program itself, and what is not watched"),
        }[part]

    def spending(self) -> str:
        """``"Of 1.2 s, 32 % went into forward, on torch's kernels, 20 % into backward ..."``; "" without a profile."""
        parts = self.parts()
        total = sum(parts.values())
        if not self.profile or not total:
            return ""
        longest = sorted(parts.items(), key=lambda item: -item[1])
        added = [
            tr(", added up over {count:,} {workers}", count=self.profile[name], workers=tr(name))
            for name in ("threads", "processes")
            if (self.profile[name] or 0) > 1
        ]
        return tr(
            "The mode was open for {seconds}{added}: {parts}.",
            seconds=seconds_of(self.profile["seconds"]),
            added="".join(added),
            parts=", ".join(f"{seconds / total:.0%} {self.part_name(part)}" for part, seconds in longest if seconds),
        )

    def remarks(self) -> Iterator[str]:
        """What to know of the times."""
        if not self.profile:
            yield tr("No times and no layers: {how}.", how=tr(HOW))
        elif "cpu" not in str(self.environment.get("device") or "cpu").lower():
            yield tr(
                "The device computes while the program goes on: the times are those of starting its kernels, and of waiting where "
                "the program waits."
            )

    def layers(self) -> list[Spent]:
        """Each layer with those below it, in the order of their names, after the whole."""
        layers: dict[str, Spent] = {}
        for place in self.places:
            words = place["layer"].split(".") if place["layer"] else []
            for depth in range(len(words) + 1):
                name = ".".join(words[:depth])
                layers.setdefault(name, Spent(name)).add(place)
        return [layers[name] for name in sorted(layers, key=_natural)] if set(layers) - {""} else []

    def lines(self) -> list[Spent]:
        """Each line of the program, the longest first."""
        lines: dict[str, Spent] = {}
        for place in self.places:
            if place["site"]:
                lines.setdefault(place["site"], Spent(place["site"])).add(place)
        return sorted(lines.values(), key=lambda line: -line.total)

    def seconds_of_ops(self) -> dict[str, dict[str, float]]:
        """Op -> part -> seconds."""
        ops: dict[str, Counter[str]] = {}
        for place in self.places:
            ops.setdefault(place["op"], Counter())[place["part"]] += place["seconds"]
        return {op: dict(parts) for op, parts in ops.items()}

    def costs(self) -> Iterator[str]:
        """Sentences on copies of weights and on optimizers."""
        cost = self.layout_cost
        if any(cost.values()) and self.linear_layout == "view":
            yield tr("Linear weights: transposed views, no copies ({calls}).", calls=many(cost["views"], "call"))
        elif any(cost.values()):
            spared = tr("; none needed for the same bits: {times}", times=many(cost["spared"], "time")) if cost["spared"] else ""
            yield tr(
                "Linear weights: contiguous [out, in] copies: {copies} made ({mebibytes:.1f} MiB, {milliseconds:.1f} ms), "
                "{reused} reused{spared}.",
                copies=cost["copies"],
                mebibytes=cost["bytes"] / 2**20,
                milliseconds=1e3 * cost["seconds"],
                reused=many(cost["reused"], "time"),
                spared=spared,
            )
        updates = [
            tr("{name} by {framework}'s definition ({calls})", name=shown(name), framework=definition.capitalize(), calls=calls)
            for name, definitions in sorted(self.optimizers.items())
            for definition, calls in sorted(definitions.items())
        ]
        if updates:
            yield tr("Optimizers on {backend} kernels: {updates}.", backend=shown(self.backend), updates=", ".join(updates))


def _natural(name: str) -> list[Any]:
    """Sorts ``blocks.2`` before ``blocks.10``."""
    return [
        (0, int(word), "") if word.isascii() and word.isdigit() and len(word) < 19 else (1, 0, word)
        for word in name.split(".")
        if name
    ]


def seconds_of(seconds: float) -> str:
    """``"12 s"``, ``"0.35 s"``, ``"2.1 ms"``, ``"40 µs"``; "" for none."""
    if seconds >= 100:
        return f"{seconds:,.0f} s"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= 0.1 * size or (unit == "ms" and seconds >= size):
            return f"{seconds / size:.2g} {unit}" if seconds < 10 * size else f"{seconds / size:.0f} {unit}"
    return "< 0.1 µs" if seconds > 0 else ""


def _finding(stayed: Stayed) -> Finding:
    places = [place for line, _ in stayed.lines for place in places_of(line)]
    text = tr("{op}: {reason}", op=shown(stayed.op), reason=from_log(stayed.reason))
    return Finding(
        f"native: {stayed.op}", "warning", text, places, where="" if places else stayed.op, numbers={"calls": stayed.calls}
    )


def document(run: ReferenceFigures) -> doc.Document:
    """The run: coverage, then times, what stayed native, layers, lines and ops."""
    backend = shown(run.backend)
    command = tr("Command: {command}", command=shown(run.command, SENTENCE)) if run.command else ""
    meaning = tr(
        "on {backend}: ran on {backend}'s kernel. native: on Paddle's, for the reason that stands there; what is computed from it "
        "differs from a twin by Paddle's rounding.",
        backend=backend,
    )
    time = doc.Section(tr("Where the time went"), _time(run))
    heads = [tr("on {backend}", backend=shown(run.backend)), tr("native"), tr("backward calls"), tr("no kernel")]
    columns = [doc.Column(tr("op")), *doc.figures(*heads, tr("forward"), tr("backward"), leave=(0, 0, 2, 3, 4, 5))]
    seconds = run.seconds_of_ops()
    rows: list[doc.Row] = []
    for name in sorted(run.ops, key=lambda op: (-sum(seconds.get(op, {}).values()), -run.ops[op]["substituted"], op)):
        counts, parts = run.ops[name], seconds.get(name, {})
        lacking = sum(counts.get("without_kernel", {}).values())
        calls = (counts["substituted"], sum(counts["native"].values()), counts["backward"], lacking)
        times = (sum(parts.get(part, 0.0) for part in (*FORWARD, OPTIMIZER)), parts.get(BACKWARD, 0.0))
        op = doc.Cell([shown(name)], "strong")
        rows.append((op, *(f"{number:,}" if number else "" for number in calls), *map(seconds_of, times)))
    return doc.Document(
        run.headline(),
        [
            doc.Facts([*filter(None, [command, run.without_kernel()]), *run.costs()]),
            doc.Notes(list(map(from_log, run.warnings)), warning=True),
            time if run.profile else doc.Only((doc.PAGE,), [time]),
            _native(run),
            doc.Section(tr("Coverage by layer"), [_layers(run)], tr("Each layer with those inside of it."), folded=True),
            doc.Section(tr("Lines of the program"), [_lines(run)], tr("The longest first."), folded=True),
            doc.Section(tr("Ops"), [doc.Table(columns, rows, most=OPS, hint="run.to_dict()")], folded=True),
            doc.Only((doc.MARKDOWN,), [doc.Folded(tr("What the words mean"), [doc.Paragraph(meaning)])]),
        ],
        title=tr("padiff_shim: reference report"),
    )


def _time(run: ReferenceFigures) -> list[doc.Part]:
    parts = run.parts() if run.profile else {}
    total = round(1e9 * sum(parts.values()))
    shares = [
        doc.Share(part, seconds, run.part_name(part), f"{seconds_of(seconds) or '0 s'} ({share(round(1e9 * seconds), total)})")
        for part, seconds in parts.items()
    ]
    return [doc.Paragraph(joined(" ", filter(None, [run.spending(), *run.remarks()]))), doc.Shares(shares)]


def _native(run: ReferenceFigures) -> doc.Part:
    """Why, and at which lines."""
    words = (doc.Column(head, fold=fold) for head, fold in ((tr("op"), False), (tr("why"), True), (tr("where"), True)))
    rows = []
    for stayed in run.stayed:
        places = [] if stayed.wanted else stayed.places()
        more = [tr("and {lines}", lines=many(len(places) - _PLACES, "further line"))] if len(places) > _PLACES else []
        op, reason = doc.Cell([shown(stayed.op)], "strong"), shown(from_log(stayed.reason), SENTENCE)
        rows.append((op, reason, doc.Cell([*places[:_PLACES], *more]), f"{stayed.calls:,}"))
    seconds = sum(parts.get(NATIVE, 0.0) for parts in run.seconds_of_ops().values())
    note = tr("In {seconds} altogether.", seconds=seconds_of(seconds)) if seconds else ""
    table = doc.Table([*words, *doc.figures(tr("calls"))], rows, most=STAYED, hint="run.native")
    nothing = [] if rows else [doc.Only((doc.PAGE,), [doc.Paragraph(tr("Nothing."))])]
    return doc.Section(tr("What stayed on Paddle's kernels"), [table, *nothing], note)


def _spent_columns(run: ReferenceFigures, head: str) -> list[doc.Column]:
    heads = (tr("on {backend}", backend=shown(run.backend)), tr("calls"), tr("native"), tr("forward"), tr("backward"))
    return [doc.Column(head), *doc.figures(*heads, leave=(0, 2, 3, 4, 5))]


def _layers(run: ReferenceFigures) -> doc.Part:
    layers = run.layers()
    if not layers and run.profile:
        return doc.Only((doc.PAGE,), [doc.Paragraph(tr("No layer ran."))])
    rows = [(doc.Cell([shown(layer.name) or tr("(all)")], depth=layer.depth), *layer.cells) for layer in layers]
    rank = sorted(range(len(layers)), key=lambda place: layers[place].depth)  # the upper levels first
    return doc.Table(_spent_columns(run, tr("layer")), rows, most=LAYERS, rank=rank)


def _lines(run: ReferenceFigures) -> doc.Part:
    columns = [*_spent_columns(run, tr("line")), *doc.figures(tr("all"))]
    return doc.Table(columns, [(code_line(line.name), *line.cells, seconds_of(line.total)) for line in run.lines()], most=LINES)
