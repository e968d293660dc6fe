"""A proof as text and Markdown; the page is in ``webpage.py``."""

from __future__ import annotations

from typing import Protocol

from ..dispatch.site import short
from ..screen import Column, Screen
from ..text import in_markdown, shown
from .carried import CARRIERS, GRADIENTS, carried, holding, largest
from .findings import FAILS, CarriedBy, LayerRow, Mistake, Place, Stage, StepRow

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
    for found in measured(proof):
        _carriers(found, screen)
    for note in proof.notes:
        screen.say(f"note: {shown(note, 1000)}")
    return screen.text()


def sides(mistake: Mistake, *words: str) -> list[tuple[str, Place | None]]:
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


def _carriers(found: CarriedBy, screen: Screen) -> None:
    if found.failed:
        screen.say(shown(carried(found), 1000))
        return
    leave = (0, 0, 3, 1, 4, 5, 2, 6, 0)
    heads = [Column(heading, leave, right=heading not in ("layer", "op")) for heading, leave in zip(CARRIERS, leave)]
    screen.table(heads, largest(found), carried(found))
    held = holding(found)
    if held:
        screen.table([Column(heading, leave, right=leave > 0) for heading, leave in zip(GRADIENTS, (0, 3, 1, 2))], held)


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


def where(place: Place | None) -> str:
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


def line(place: Place) -> str:
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
    for found in measured(proof):
        lines += _told(found)
    lines += [f"\n{in_markdown(note)}" for note in proof.notes]
    return "\n".join(lines) + "\n"


def _told(found: CarriedBy) -> list[str]:
    """Markdown's lines of what carries a difference."""
    if found.failed:
        return ["", in_markdown(carried(found))]
    heads = (*CARRIERS[:3], "kernels apart (rounding: Paddle, Torch)", "amplified", "share (own)")
    lines = ["", in_markdown(carried(found)), "", f"| {' | '.join(heads)} |", "| --- | --- | ---: | ---: | ---: | ---: |"]
    for *named, apart, ours, theirs, amplified, own, share in largest(found):
        told = f"{apart} ({ours}, {theirs})" if apart else ""
        lines.append(f"| {' | '.join(map(in_markdown, (*named, told, amplified, f'{share} ({own})')))} |")
    held = holding(found)
    if held:
        lines += ["", f"| {' | '.join(GRADIENTS)} |", "| --- | ---: | ---: | ---: |"]
        lines += [f"| {' | '.join(map(in_markdown, cells))} |" for cells in held]
    return lines


def _code(source: str) -> str:
    """A line of source as Markdown's code, also if it holds that code's own sign."""
    fence = "``" if "`" in source else "`"
    return f"{fence}{shown(source, 2000)}{fence}"
