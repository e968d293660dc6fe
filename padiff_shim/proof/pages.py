"""A proof as text, Markdown and one self-contained page."""

from __future__ import annotations

import difflib
import html
import html as escaping
import linecache
import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Protocol

from ..dispatch.call_site import short
from ..text import Column, Screen, in_markdown, markup, shown
from .findings import FAILS, CarriedBy, CarrierRow, JumpRow, LayerRow, Mistake, ProgramPlace, Stage, StepRow

# ---- What carries a native difference, in words and as cells of tables: for a terminal, Markdown and the page.

ROWS_SHOWN = 12  # rows in text
CARRIERS = ("layer", "op", "calls", "kernels apart", "rounding: Paddle", "Torch", "amplified", "own", "share")
GRADIENTS = ("gradient of", "native difference", "of its largest element", "share")


def carried(carriers: CarriedBy) -> str:
    """What a table of carriers shows; or why there is none."""
    if carriers.failed:
        return f"what carries the native difference of {_whose(carriers)} is not known: {carriers.failed}"
    return (
        f"{_jumps(carriers.jumps)}what carries the native difference of {_whose(carriers)} ({carriers.apart:.3g}); "
        f"explained: {carriers.explained:.1%}, "
        f"{carriers.own:.1%} by kernels that are apart on equal operands, the rest by rounding of what differs already. "
        "In unit roundoffs of the largest element"
    )


def _jumps(rows: Sequence[JumpRow]) -> str:
    """The step functions in the way, in a sentence."""
    steps = [
        f"{row.op} in {shown(row.layer or '(the model)')} ({row.jumped:,} of {row.elements:,} elements)"
        for row in rows[:ROWS_SHOWN]
    ]
    if not steps:
        return ""
    kind = (
        "a step function: differences are amplified here" if len(steps) == 1 else "step functions: differences are amplified here"
    )
    return f"{', '.join(steps)}: {kind}, and no first order explains what comes of it; "


def _whose(carriers: CarriedBy) -> str:
    return f"the {carriers.of}" if carriers.of in ("outputs", "gradients") else f"the gradient of {shown(carriers.of)}"


def largest(carriers: CarriedBy, most: int = ROWS_SHOWN) -> list[tuple[str, ...]]:
    """The rows that carry most, and the sum of the others."""
    rows = [_carrier(row) for row in carriers.rows[:most]]
    others = carriers.rows[most:]
    if others:
        own, share = sum(row.own for row in others), sum(row.share for row in others)
        rows.append((f"{len(others)} others", "", str(sum(row.calls for row in others)), *[""] * 4, f"{own:.1%}", f"{share:.1%}"))
    return rows


def _carrier(row: CarrierRow) -> tuple[str, ...]:
    units = (f"{number:.2g}" for number in (row.kernels, row.paddle, row.torch, row.amplified))
    numbers = (*units, f"{row.own:.1%}", f"{row.share:.1%}")
    op = row.op if row.part == "forward" else f"{row.op}, {row.part}"
    return shown(row.layer or "(the model)"), op, str(row.calls), *numbers


def holding(carriers: CarriedBy, most: int = ROWS_SHOWN) -> list[tuple[str, ...]]:
    """The gradients that hold most of the difference, where there are several."""
    if len(carriers.gradients) < 2:
        return []
    rows: list[tuple[str, ...]] = [
        (shown(row.name), f"{row.apart:.2g}", f"{row.relative:.2g}", f"{row.share:.1%}") for row in carriers.gradients[:most]
    ]
    others = carriers.gradients[most:]
    if others:
        apart, relative = max(row.apart for row in others), max(row.relative for row in others)
        rows.append((f"{len(others)} others", f"{apart:.2g}", f"{relative:.2g}", f"{sum(row.share for row in others):.1%}"))
    return rows


# ---- Two lines or calls laid side by side: which of their words differ, beyond how either framework spells the same.

_WORD = re.compile(r"\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\w+|\s+|.")
# Spellings of one thing.
_ALIKE = {"paddle": "torch", "pf": "f", "tf": "f", "pnn": "nn", "tnn": "nn", "axis": "dim", "epsilon": "eps", "keepdims": "keepdim"}
_ALIKE |= {"concat": "cat", "input": "x", "transpose": "permute"}


def marked(line: str, other: str) -> tuple[str, str]:
    """Both as HTML, with the words that the other has not marked; nothing is marked where there is no other."""
    lines = [_WORD.findall(shown(text, 2000)) for text in (line, other)]
    if not all(lines):
        return _written(lines[0], []), _written(lines[1], [])
    keys = [[_key(word) for word in words] for words in lines]
    changed: tuple[list[int], list[int]] = ([], [])
    for kind, first, last, begin, end in difflib.SequenceMatcher(None, keys[0], keys[1], autojunk=False).get_opcodes():
        if kind != "equal":
            changed[0].extend(range(first, last))
            changed[1].extend(range(begin, end))
    return _written(lines[0], changed[0]), _written(lines[1], changed[1])


def marked_calls(first: str, other: str) -> tuple[str, str]:
    """The same of two calls; of two ops the names alone."""
    names = [call.partition("(")[0] for call in (first, other)]
    if not all(names) or names[0] == names[1]:
        return marked(first, other)
    first, second = (_written([name, call[len(name) :]], [0]) for name, call in zip(names, (first, other)))
    return first, second


def _key(word: str) -> str:
    plain = word.casefold()
    return _ALIKE.get(plain, " " if plain.isspace() else plain)


def _written(words: list[str], places: list[int]) -> str:
    """Neighbours under one mark; white space alone is never marked."""
    chosen = set(places)
    parts: list[tuple[bool, str]] = []
    for place, word in enumerate(words):
        inside = place in chosen and not word.isspace()
        between = word.isspace() and {place - 1, place + 1} <= chosen
        flag = inside or between
        if parts and parts[-1][0] == flag:
            parts[-1] = (flag, parts[-1][1] + word)
        else:
            parts.append((flag, word))
    return "".join(f"<mark>{html.escape(text)}</mark>" if flag else html.escape(text) for flag, text in parts)


# ---- A proof as text and Markdown; the page is in ``webpage.py``.

SHOWN, FOLDED = 12, 100  # layers in text, and in Markdown
_MARKS = {True: "✓", False: "✗", None: "–"}
_STYLES = {True: "green", False: "red", None: ""}


class Proven(Protocol):
    """What a page is made of."""

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


def text(proof: Proven, width: int | None = None, *, colour: bool = False) -> str:
    """For a terminal, ``width`` columns wide (default: its own); with ``colour`` as ANSI sequences."""
    screen = Screen(width, colour=colour)
    screen.say(shown(proof.headline, 2000), "bold green" if proof else "bold red")
    for stage in proof.stages:
        screen.say(f"{_MARKS[stage.right]} {stage.name}: {shown(stage.text)}", _STYLES[stage.right], indent=2, hang=2)
    for number, mistake in enumerate(proof.mistakes, 1):
        screen.say(f"{number}. {shown(str(mistake), 1000)}", "bold", hang=3)
        for side, place in sides(mistake, "torch ", "paddle"):
            screen.say(f"{side} {where(place)}", indent=5, hang=2)
            if place is not None and place.source:
                screen.say(shown(place.source), "dim", indent=12, hang=2)
        for word, what in further(proof, mistake):
            screen.say(f"{word:6} {what}", indent=5, hang=2)
    if proof.layers:
        _layers(proof, screen)
    if proof.training:
        _training(proof, screen)
    for carriers in measured(proof):
        _carriers(carriers, screen)
    for note in proof.notes:
        screen.say(f"note: {shown(note, 1000)}")
    return screen.text()


def sides(mistake: Mistake, *words: str) -> list[tuple[str, ProgramPlace | None]]:
    """Both places; none where neither is known, as of an optimizer that was given by its name."""
    places = (mistake.torch, mistake.paddle)
    return list(zip(words or ("torch", "paddle"), places)) if any(places) else []


def _training(proof: Proven, screen: Screen) -> None:
    rows = proof.training if len(proof.training) <= SHOWN else [*proof.training[: SHOWN - 1], proof.training[-1]]
    heads = [Column(heading, leave, right=True) for heading, leave in zip(STEP, (0, 1, 0, 0))]
    screen.table(heads, map(step, rows), TRAINING)


TRAINING = "largest difference of losses, gradients, weights and statistics at each step"
STEP = ("step", "loss", "on Torch's kernels", "native")


def step(row: StepRow) -> tuple[str, ...]:
    """A step's cells."""
    loss = "" if row.loss is None else f"{row.loss:.6g}"
    return str(row.step), loss, *_apart(row)


def _carriers(carriers: CarriedBy, screen: Screen) -> None:
    if carriers.failed:
        screen.say(shown(carried(carriers), 1000))
        return
    leave = (0, 0, 3, 1, 4, 5, 2, 6, 0)
    heads = [Column(heading, leave, right=heading not in ("layer", "op")) for heading, leave in zip(CARRIERS, leave)]
    screen.table(heads, largest(carriers), carried(carriers))
    rows = holding(carriers)
    if rows:
        screen.table([Column(heading, leave, right=leave > 0) for heading, leave in zip(GRADIENTS, (0, 3, 1, 2))], rows)


def measured(proof: Proven) -> list[CarriedBy]:
    """All that was asked of what carries a difference."""
    return [*([proof.carried] if proof.carried is not None else []), *proof.carried_gradients.values()]


def _layers(proof: Proven, screen: Screen) -> None:
    rows = chosen(proof.layers)
    same = sum(row.identical for row in proof.layers)
    title = f"{same} of {len(proof.layers)} layers identical on the same kernels"
    title += f"; {len(rows)} shown" if len(rows) < len(proof.layers) else ""
    heads = (Column("paddle layer"), Column("torch layer", 2), Column("calls", 1, right=True))
    figures = (Column("on Torch's kernels", right=True), Column("native", 3, right=True))
    cells = [(shown(row.paddle or "(the model)"), shown(row.torch or "(the model)"), str(row.calls), *numbers(row)) for row in rows]
    screen.table((*heads, *figures), cells, title, ["" if row.identical else "red" for row in rows])


def numbers(row: LayerRow) -> tuple[str, str]:
    """A layer's differences, on the same kernels and natively."""
    return _apart(row)


def _apart(row: LayerRow | StepRow) -> tuple[str, str]:
    return "identical" if row.identical else f"{row.shim:.3g}", FAILS if row.native is None else f"{row.native:.3g}"


def chosen(rows: list[LayerRow], most: int = SHOWN) -> list[LayerRow]:
    """The first layers that differ, else those whose native difference is largest; in the order of the model."""
    if len(rows) <= most:
        return rows
    wanted = sorted(
        range(len(rows)),
        key=lambda place: (rows[place].identical, place if not rows[place].identical else -(rows[place].native or 0.0)),
    )
    return [rows[place] for place in sorted(wanted[:most])]


def where(place: ProgramPlace | None) -> str:
    """File and line, layer and call."""
    if place is None:
        return "no counterpart"
    return shown(f"{line(place)}" + (f"  layer {place.layer}" if place.layer else "") + f"  {place.call}")


def further(proof: Proven, mistake: Mistake) -> list[tuple[str, str]]:
    """What else is known of a mistake, each with its word: the first of its further lines, and beside others how much it does."""
    lines = [f"{short(file)}:{number}" for file, number in mistake.also]
    more = f" and {len(lines) - SHOWN} more" if len(lines) > SHOWN else ""
    known = [("also", shown(", ".join(lines[:SHOWN]) + more, 1000))] if lines else []
    if mistake.effect and len(proof.mistakes) > 1:
        known.append(("effect", f"mended, the port's results move by {mistake.effect:.3g} in float64"))
    return known


def line(place: ProgramPlace) -> str:
    """File and line, as people name a file."""
    return f"{short(place.file)}:{place.line}"


def markdown(proof: Proven) -> str:
    """Headline, stages, mistakes, and the layers folded away."""
    lines = [f"**{in_markdown(proof.headline)}**", ""]
    lines += [f"- {_MARKS[stage.right]} {stage.name}: {in_markdown(stage.text)}" for stage in proof.stages]
    for number, mistake in enumerate(proof.mistakes, 1):
        lines += ["", f"{number}. {in_markdown(str(mistake))}", ""]
        for side, place in sides(mistake):
            source = f": {_code(place.source)}" if place is not None and place.source else ""
            lines.append(f"   - {side}: {in_markdown(where(place))}{source}")
        lines += [f"   - {word}: {in_markdown(what)}" for word, what in further(proof, mistake)]
    if proof.layers:
        rows = chosen(proof.layers, FOLDED)
        same = sum(row.identical for row in proof.layers)
        title = f"{same} of {len(proof.layers)} layers identical on the same kernels"
        title += f"; {len(rows)} shown" if len(rows) < len(proof.layers) else ""
        lines += [
            "",
            f"<details><summary>{title}</summary>",
            "",
            "| paddle layer | torch layer | calls | on Torch's kernels | native |",
        ]
        lines.append("| --- | --- | ---: | ---: | ---: |")
        for row in rows:
            names = (in_markdown(name or "(the model)") for name in (row.paddle, row.torch))
            lines.append(f"| {' | '.join(names)} | {row.calls} | {' | '.join(numbers(row))} |")
        lines += ["", "</details>"]
    if proof.training:
        lines += ["", f"| {' | '.join(STEP)} |", "| ---: | ---: | ---: | ---: |"]
        lines += [f"| {' | '.join(step(row))} |" for row in proof.training]
    for carriers in measured(proof):
        lines += _told(carriers)
    lines += [f"\n{in_markdown(note)}" for note in proof.notes]
    return "\n".join(lines) + "\n"


def _told(carriers: CarriedBy) -> list[str]:
    """Markdown's lines of what carries a difference."""
    if carriers.failed:
        return ["", in_markdown(carried(carriers))]
    heads = (*CARRIERS[:3], "kernels apart (rounding: Paddle, Torch)", "amplified", "share (own)")
    lines = ["", in_markdown(carried(carriers)), "", f"| {' | '.join(heads)} |", "| --- | --- | ---: | ---: | ---: | ---: |"]
    for *named, apart, paddle, torch, amplified, own, share in largest(carriers):
        units = f"{apart} ({paddle}, {torch})" if apart else ""
        lines.append(f"| {' | '.join(map(in_markdown, (*named, units, amplified, f'{share} ({own})')))} |")
    gradients = holding(carriers)
    if gradients:
        lines += ["", f"| {' | '.join(GRADIENTS)} |", "| --- | ---: | ---: | ---: |"]
        lines += [f"| {' | '.join(map(in_markdown, cells))} |" for cells in gradients]
    return lines


def _code(source: str) -> str:
    """A line of source as Markdown's code, also if it holds that code's own sign."""
    fence = "``" if "`" in source else "`"
    return f"{fence}{shown(source, 2000)}{fence}"


# ---- A proof as one self-contained page: both models side by side, coloured by difference, and the guilty lines on top.

STYLE = Path(__file__).with_name("page") / "proof.css"
MOST = 40  # carriers of a native difference that have a row
AROUND = 2  # lines of source shown before and behind a guilty one
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page(proof: Proven) -> str:
    """The verdict, the guilty lines of both sources, the stages, then the training and all layers."""
    title = _text(proof.headline)
    verdict, _, rest = title.partition(": ")
    badge = f'<span class="verdict {"yes" if proof else "no"}">{verdict}</span>'
    body = [f"<h1>{badge} {rest}</h1>", *(_mistake(proof, mistake) for mistake in proof.mistakes), _stages(proof.stages)]
    body += [f'<p class="note">{_text(note)}</p>' for note in proof.notes]
    if proof.training:
        body.append(_training_html(proof.training))
    body += map(_carriers_html, measured(proof))
    if proof.layers:
        body.append(_layers_html(proof.layers))
    head = (
        f'<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}"><title>{title}</title>'
        f"<style>{STYLE.read_text(encoding='utf-8')}</style>"
    )
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{"".join(body)}</body></html>\n'


def _stages(stages: Iterable[Stage]) -> str:
    kinds = {True: "good", False: "bad", None: "open"}
    return (
        '<ul class="stages">'
        + "".join(f'<li class="{kinds[stage.right]}"><b>{_text(stage.name)}</b> {_text(stage.text)}</li>' for stage in stages)
        + "</ul>"
    )


def _mistake(proof: Proven, mistake: Mistake) -> str:
    lines = [place.source if place else "" for place in (mistake.torch, mistake.paddle)]
    calls = [place.call if place else "" for place in (mistake.torch, mistake.paddle)]
    sources, called = marked(*lines), marked_calls(*calls)
    sides = "".join(
        f'<div class="side"><p><b>{name}</b> {_place(place)}</p>{_source(place, source)}{_call(call)}</div>'
        for name, place, source, call in zip(("original, Torch", "port, Paddle"), (mistake.torch, mistake.paddle), sources, called)
    )
    more = "".join(f"<p><b>{word}</b> {_text(what)}</p>" for word, what in further(proof, mistake))
    return f'<section class="mistake"><h3>{_text(str(mistake))}</h3><div class="pair">{sides}</div>{more}</section>'


def _place(place: ProgramPlace | None) -> str:
    if place is None:
        return "has no counterpart"
    return _text(line(place) + (f", layer {place.layer}" if place.layer else ""))


def _source(place: ProgramPlace | None, guilty: str) -> str:
    """The guilty line, and those around it while the file still holds it."""
    if place is None or not place.source:
        return ""
    before, behind = _around(place)
    own = f'<span class="guilty">{guilty}</span>'
    return f'<pre class="source">{_beside(before)}{own}{_beside(behind)}</pre>'


def _around(place: ProgramPlace) -> tuple[list[str], list[str]]:
    lines = linecache.getlines(place.file)
    at = place.line - 1
    if not 0 <= at < len(lines) or lines[at].strip() != place.source:
        return [], []
    indent = len(lines[at]) - len(lines[at].lstrip())

    def shifted(block: list[str]) -> list[str]:
        return [text.rstrip()[min(indent, len(text) - len(text.lstrip())) :] for text in block if text.strip()]

    return shifted(lines[max(at - AROUND, 0) : at]), shifted(lines[at + 1 : at + 1 + AROUND])


def _beside(lines: Sequence[str]) -> str:
    return "".join(f'<span class="beside">{escaping.escape(line)}\n</span>' for line in lines)


def _call(call: str) -> str:
    return f'<pre class="call">{call}</pre>' if call else ""


def _layers_html(rows: Sequence[LayerRow]) -> str:
    same = sum(row.identical for row in rows)
    heads = '<th>original, Torch<th>port, Paddle<th class="number calls">calls'
    heads += '<th class="number figure">on the same kernels<th class="number figure">native'
    only = ' <label class="filter"><input type="checkbox" id="only"> only those that differ</label>' if same < len(rows) else ""
    return (
        f"<h2>{same} of {len(rows)} layers identical on the same kernels</h2>"
        "<p class=\"legend\">Largest absolute difference of a layer's result from the original's: of the port on Torch's kernels, "
        f"and on Paddle's own.{only}</p>"
        f'<table class="layers"><thead><tr>{heads}</thead><tbody>{"".join(map(_layer, rows))}</tbody></table>'
    )


def _layer(row: LayerRow) -> str:
    names = "".join(
        f'<td class="name" style="--depth:{min(name.count("."), 12)}">{_text(name or "(the model)")}</td>'
        for name in (row.torch, row.paddle)
    )
    shim, native = numbers(row)
    return (
        f'<tr class="{"same" if row.identical else "differs"}">{names}<td class="number calls">{row.calls}</td>'
        f'<td class="number figure {"shim" if row.identical else "apart"}" style="--far:{far(row.shim)}">{shim}</td>'
        f'<td class="number figure native" style="--far:{far(row.native)}">{native}</td></tr>'
    )


def _training_html(rows: Sequence[StepRow]) -> str:
    heads = "".join(f'<th class="number">{heading}' for heading in STEP)
    body = "".join(
        f'<tr class="{"same" if row.identical else "differs"}">'
        + "".join(f'<td class="number">{cell}</td>' for cell in step(row)[:2])
        + f'<td class="number {"shim" if row.identical else "apart"}" style="--far:{far(row.shim)}">{step(row)[2]}</td>'
        + f'<td class="number native" style="--far:{far(row.native)}">{step(row)[3]}</td></tr>'
        for row in rows
    )
    title = f'<h2>Training</h2><p class="legend">{TRAINING[0].upper()}{TRAINING[1:]}.</p>'
    return f'{title}<table class="training"><thead><tr>{heads}</thead><tbody>{body}</tbody></table>'


def _carriers_html(carriers: CarriedBy) -> str:
    if carriers.failed:
        return f'<p class="note">{_text(carried(carriers))}</p>'
    heads = "".join(f'<th class="{"number" if at > 1 else ""}">{heading}' for at, heading in enumerate(CARRIERS))
    shares = [*(row.share for row in carriers.rows[:MOST]), 0.0]
    body = "".join(
        "<tr>"
        + "".join(f'<td class="{"number" if at > 1 else ""}">{_text(cell)}</td>' for at, cell in enumerate(cells[:-1]))
        + f'<td class="number native" style="--far:{round(0.7 * min(max(share, 0.0), 1.0), 3)}">{cells[-1]}</td></tr>'
        for cells, share in zip(largest(carriers, MOST), shares)
    )
    legend = _text(carried(carriers))
    title = f'<h2>What differs natively</h2><p class="legend">{legend[0].upper()}{legend[1:]}.</p>'
    return f'{title}<table class="carriers"><thead><tr>{heads}</thead><tbody>{body}</tbody></table>{_gradients(carriers)}'


def _gradients(carriers: CarriedBy) -> str:
    """Which gradients hold the difference, where there are several."""
    rows = holding(carriers, MOST)
    if not rows:
        return ""
    heads = "".join(f'<th class="{"number" if at else ""}">{heading}' for at, heading in enumerate(GRADIENTS))
    body = "".join(
        "<tr>" + "".join(f'<td class="{"number" if at else ""}">{_text(cell)}</td>' for at, cell in enumerate(cells)) + "</tr>"
        for cells in rows
    )
    return f'<table class="carriers"><thead><tr>{heads}</thead><tbody>{body}</tbody></table>'


def far(difference: float | None) -> float:
    """How strong the colour of a difference is: 0 for none, then by its magnitude, from 1e-9 to 1."""
    if not difference:
        return 0.0
    if not math.isfinite(difference):
        return 0.7
    return round(0.06 + 0.64 * min(max((math.log10(difference) + 9) / 9, 0.0), 1.0), 3)


def _text(value: str) -> str:
    return markup(shown(value, 2000))
