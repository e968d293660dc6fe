"""A proof as a document: the verdict, the guilty lines of both programs, the stages, then training, carriers and layers."""

from __future__ import annotations

import difflib
import linecache
import math
import re
from collections.abc import Iterator, Sequence
from typing import Protocol

from ..dispatch.call_site import short
from ..present.document import (
    MARKDOWN,
    PAGE,
    TEXT,
    Cell,
    Column,
    Document,
    Findings,
    Items,
    ListedFinding,
    ListItem,
    Most,
    Notes,
    Only,
    Paragraph,
    Part,
    Place,
    Row,
    Section,
    Table,
    Tone,
    Word,
)
from ..text import SENTENCE, listed, shown, tr
from .findings import CarriedBy, CarrierRow, GradientRow, LayerRow, Mistake, ProgramPlace, Stage, StepRow

LAYERS, STEPS, CARRIERS = Most(12, 100, 1_000_000), Most(12, 1_000_000, 1_000_000), Most(12, 12, 40)  # rows
AROUND = 2  # lines of source shown before and behind a guilty one
LINES = 12  # further lines of one mistake
_TONES: dict[bool | None, Tone] = {True: "good", False: "bad", None: "open"}
_WORD = re.compile(r"\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\w+|\s+|.")
# Spellings of one thing in both frameworks: they are no difference between two lines.
_ALIKE = {"paddle": "torch", "pf": "f", "tf": "f", "pnn": "nn", "tnn": "nn", "axis": "dim", "epsilon": "eps", "keepdims": "keepdim"}
_ALIKE |= {"concat": "cat", "input": "x", "transpose": "permute"}


class Proven(Protocol):
    """What a document of a proof is made of."""

    def __bool__(self) -> bool: ...

    @property
    def headline(self) -> str: ...

    stages: list[Stage]
    mistakes: list[Mistake]
    layers: list[LayerRow]
    training: list[StepRow]
    carried: CarriedBy | None
    carried_gradients: dict[str, CarriedBy]
    notes: list[str]


def proof_document(proof: Proven) -> Document:
    """All of a proof."""
    measured = [*([proof.carried] if proof.carried is not None else []), *proof.carried_gradients.values()]
    stages = [ListItem(stage.text, stage.name, _TONES[stage.right]) for stage in proof.stages]
    return Document(
        proof.headline,
        [
            Only((TEXT, MARKDOWN), [Items(stages, marks=True)]),
            Findings([_finding(mistake, len(proof.mistakes)) for mistake in proof.mistakes]),
            Only((PAGE,), [Items(stages, marks=True)]),
            *([_layers(proof.layers)] if proof.layers else []),
            *([_training(proof.training)] if proof.training else []),
            *(block for carriers in measured for block in _carriers(carriers)),
            Notes(proof.notes),
        ],
        "good" if proof else "bad",
    )


def _finding(mistake: Mistake, mistakes: int) -> ListedFinding:
    """A mistake with both places (none where neither is known, as of an optimizer that was named), and what else is known."""
    places = (mistake.torch, mistake.paddle)
    sources = marked(*(shown(place.source, SENTENCE) if place else "" for place in places))
    calls = marked_calls(*(shown(place.call, SENTENCE) if place else "" for place in places))
    titles = (("torch", tr("original, Torch")), ("paddle", tr("port, Paddle")))
    sides = [
        Place(side, title, _where(place), source, call, _around(place) if place else ((), ()))
        for (side, title), place, source, call in zip(titles, places, sources, calls)
    ]
    lines = [f"{short(file)}:{number}" for file, number in mistake.also]
    details = [(tr("also"), listed(lines, LINES))] if lines else []
    if mistake.effect and mistakes > 1:
        effect = tr("mended, the port's results move by {size:.3g} in float64", size=mistake.effect)
        details.append((tr("effect"), effect))
    return ListedFinding(str(mistake), sides if any(places) else [], details)


def _where(place: ProgramPlace | None) -> str:
    """File and line, as people name a file, and the layer."""
    if place is None:
        return tr("has no counterpart")
    line = f"{short(place.file)}:{place.line}"
    return tr("{line}, layer {layer}", line=line, layer=shown(place.layer)) if place.layer else line


def _around(place: ProgramPlace) -> tuple[list[str], list[str]]:
    """The lines before and behind, while the file still holds the line."""
    lines = linecache.getlines(place.file)
    at = place.line - 1
    if not 0 <= at < len(lines) or lines[at].strip() != place.source:
        return [], []
    indent = len(lines[at]) - len(lines[at].lstrip())

    def shifted(block: list[str]) -> list[str]:
        return [line.rstrip()[min(indent, len(line) - len(line.lstrip())) :] for line in block if line.strip()]

    return shifted(lines[max(at - AROUND, 0) : at]), shifted(lines[at + 1 : at + 1 + AROUND])


def marked(line: str, other: str) -> tuple[list[Word], list[Word]]:
    """The words of both lines; marked are those that the other has not. Nothing is marked where there is no other."""
    words = [_WORD.findall(text) for text in (line, other)]
    if not all(words):
        return _words(words[0], set()), _words(words[1], set())
    keys = [[_key(word) for word in side] for side in words]
    changed: tuple[set[int], set[int]] = (set(), set())
    for kind, first, last, begin, end in difflib.SequenceMatcher(None, keys[0], keys[1], autojunk=False).get_opcodes():
        if kind != "equal":
            changed[0].update(range(first, last))
            changed[1].update(range(begin, end))
    return _words(words[0], changed[0]), _words(words[1], changed[1])


def marked_calls(call: str, other: str) -> tuple[list[Word], list[Word]]:
    """The same of two calls; of two ops the names alone."""
    names = [text.partition("(")[0] for text in (call, other)]
    if not all(names) or names[0] == names[1]:
        return marked(call, other)
    first, second = (_words([name, text[len(name) :]], {0}) for name, text in zip(names, (call, other)))
    return first, second


def _key(word: str) -> str:
    plain = word.casefold()
    return _ALIKE.get(plain, " " if plain.isspace() else plain)


def _words(words: Sequence[str], chosen: set[int]) -> list[Word]:
    """Neighbours under one mark; white space alone is never marked."""
    parts: list[Word] = []
    for place, word in enumerate(words):
        between = word.isspace() and {place - 1, place + 1} <= chosen
        mark = between or (place in chosen and not word.isspace())
        if parts and parts[-1].marked == mark:
            parts[-1] = Word(parts[-1].text + word, mark)
        elif word:
            parts.append(Word(word, mark))
    return parts


def _layers(rows: Sequence[LayerRow]) -> Part:
    """Those that differ first, where not all are shown; else those whose native difference is largest."""
    columns = (
        Column(tr("original, Torch"), 1),
        Column(tr("port, Paddle")),
        Column(tr("calls"), 3, right=True),
        Column(tr("on Torch's kernels"), right=True),
        Column(tr("native"), 2, right=True),
    )
    cells = [(_name(row.torch), _name(row.paddle), str(row.calls), *_figures(row)) for row in rows]
    tones: list[Tone] = ["good" if row.identical else "bad" for row in rows]
    rank = sorted(
        range(len(rows)),
        key=lambda place: (rows[place].identical, -(rows[place].native or 0.0) if rows[place].identical else place),
    )
    same = sum(row.identical for row in rows)
    title = tr("{same} of {all} layers identical on the same kernels", same=same, all=len(rows))
    note = tr(
        "Largest absolute difference of a layer's result from the original's: of the port on Torch's kernels, and on Paddle's own."
    )
    table = Table(columns, cells, tones, LAYERS, rank=rank, cards=False, kind="even layers")
    return Section(title, [table], note, folded=True)


def _name(layer: str) -> Cell:
    return Cell([shown(layer) or tr("(the model)")], depth=layer.count("."))


def _figures(row: LayerRow | StepRow) -> tuple[Cell, Cell]:
    """Its differences, on Torch's kernels and natively."""
    shim = Cell([tr("identical")], "good", 0.0) if row.identical else Cell([f"{row.shim:.3g}"], "bad", far(row.shim))
    return shim, Cell([tr("fails") if row.native is None else f"{row.native:.3g}"], "warning", far(row.native))


def far(difference: float | None) -> float:
    """How strong the colour of a difference is: 0 for none, then by its magnitude, from 1e-9 to 1."""
    if not difference:
        return 0.0
    if not math.isfinite(difference):
        return 1.0
    return 0.1 + 0.9 * min(max((math.log10(difference) + 9) / 9, 0.0), 1.0)


def _training(rows: Sequence[StepRow]) -> Part:
    columns = (
        Column(tr("step"), right=True),
        Column(tr("loss"), 1, right=True),
        Column(tr("on Torch's kernels"), right=True),
        Column(tr("native"), right=True),
    )
    cells = [(str(row.step), "" if row.loss is None else f"{row.loss:.6g}", *_figures(row)) for row in rows]
    note = tr("Largest difference of losses, gradients, weights and statistics at each step.")
    last = len(rows) - 1
    rank = sorted(range(len(rows)), key=lambda place: (place != last, place))
    return Section(tr("Training"), [Table(columns, cells, most=STEPS, rank=rank, cards=False, kind="training")], note)


def _carriers(carriers: CarriedBy) -> Iterator[Part]:
    """What carries a native difference, or why that is not known."""
    of = shown(carriers.of)
    whose = tr("the {of}", of=tr(of)) if of in ("outputs", "gradients") else tr("the gradient of {of}", of=of)
    if carriers.failed:
        yield Paragraph(tr("What carries the native difference of {whose} is not known: {why}", whose=whose, why=carriers.failed))
        return
    steps = tr(
        "What carries the native difference of {whose} ({apart:.3g}); explained: {explained:.1%}, {own:.1%} by kernels that are "
        "apart on equal operands, the rest by rounding of what differs already. In unit roundoffs of the largest element.",
        whose=whose,
        apart=carriers.apart,
        explained=carriers.explained,
        own=carriers.own,
    )
    columns = (
        Column(tr("layer")),
        Column(tr("op")),
        Column(tr("calls"), 4, right=True),
        Column(tr("kernels apart"), 1, right=True),
        Column(tr("rounding: Paddle"), 5, right=True, markdown="absent"),
        Column(tr("Torch"), 6, right=True, markdown="absent"),
        Column(tr("amplified"), 2, right=True),
        Column(tr("own"), 7, right=True, markdown="absent"),
        Column(tr("share"), right=True),
    )
    rows = [_carrier(row) for row in carriers.rows]
    tables: list[Part] = [
        Table(columns, rows, most=CARRIERS, others=lambda most: _other_carriers(carriers.rows[most:]), cards=False, kind="carriers")
    ]
    if len(carriers.gradients) > 1:
        tables.append(_gradients(carriers.gradients))
    yield Section(tr("What differs natively"), tables, " ".join([*_jumps(carriers), steps]))


def _jumps(carriers: CarriedBy) -> Iterator[str]:
    """The step functions in the way, in a sentence."""
    steps = [
        tr(
            "{op} in {layer} ({jumped:,} of {elements:,} elements)",
            op=row.op,
            layer=shown(row.layer) or tr("(the model)"),
            jumped=row.jumped,
            elements=row.elements,
        )
        for row in carriers.jumps
    ]
    if len(steps) == 1:
        yield tr(
            "{step}: a step function: differences are amplified here, and no first order explains what follows.", step=steps[0]
        )
    elif steps:
        yield tr(
            "{steps}: step functions: differences are amplified here, and no first order explains what follows.",
            steps=listed(steps, CARRIERS.text),
        )


def _carrier(row: CarrierRow) -> Row:
    units = (f"{number:.2g}" for number in (row.kernels, row.paddle, row.torch, row.amplified))
    op = row.op if row.part == "forward" else f"{row.op}, {tr(row.part)}"
    share = Cell([f"{row.share:.1%}"], "warning", row.share)
    return shown(row.layer) or tr("(the model)"), op, str(row.calls), *units, f"{row.own:.1%}", share


def _other_carriers(rows: Sequence[CarrierRow]) -> Row:
    own, share = sum(row.own for row in rows), sum(row.share for row in rows)
    others = tr("{count} others", count=len(rows))
    return others, "", str(sum(row.calls for row in rows)), *[""] * 4, f"{own:.1%}", f"{share:.1%}"


def _gradients(rows: Sequence[GradientRow]) -> Table:
    """The gradients that hold most of the difference."""
    columns = (
        Column(tr("gradient of")),
        Column(tr("native difference"), 3, right=True),
        Column(tr("of its largest element"), 1, right=True),
        Column(tr("share"), 2, right=True),
    )

    def cells(name: str, group: Sequence[GradientRow]) -> Row:
        apart, relative = max(row.apart for row in group), max(row.relative for row in group)
        return name, f"{apart:.2g}", f"{relative:.2g}", f"{sum(row.share for row in group):.1%}"

    return Table(
        columns,
        [cells(shown(row.name), [row]) for row in rows],
        most=CARRIERS,
        others=lambda most: cells(tr("{count} others", count=len(rows[most:])), rows[most:]),
        kind="carriers",
    )
