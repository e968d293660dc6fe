"""A proof as text, Markdown and a page."""

from __future__ import annotations

import html as escaping
import io
import os
from collections.abc import Iterable
from typing import Protocol

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..text import columns, shown
from .findings import CarriedBy, CarrierRow, LayerRow, Mistake, Place, Stage, StepRow

SHOWN = 12  # layers in text and Markdown
_MARKS = {True: "✓", False: "✗", None: "–"}
_STYLE = """body{font:15px/1.5 system-ui,sans-serif;margin:2em auto;max-width:70em;padding:0 1em;color-scheme:light dark}
h1{font-size:1.3em}table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.25em .6em;border-bottom:1px solid #8884}
td.number{text-align:right;font-variant-numeric:tabular-nums}.wrong{background:#d0302022}.right{background:#20903022}
pre{font-family:ui-monospace,monospace;white-space:pre-wrap}.mistake{border-left:4px solid #d03020;padding:.2em 1em;margin:1em 0}
.pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(20em,1fr));gap:1em}"""


class Proven(Protocol):
    """What a page is made of."""

    @property
    def headline(self) -> str: ...

    stages: list[Stage]
    mistakes: list[Mistake]
    layers: list[LayerRow]
    training: list[StepRow]
    carried: CarriedBy | None
    notes: list[str]


def text(proof: Proven) -> str:
    """For a terminal, in its width."""
    buffer = io.StringIO()
    console = Console(file=buffer, width=columns())
    console.print(Text(shown(proof.headline, 2000)), soft_wrap=True)
    for stage in proof.stages:
        console.print(Text(f"  {_MARKS[stage.right]} {stage.name}: {shown(stage.text)}"), soft_wrap=True)
    for number, mistake in enumerate(proof.mistakes, 1):
        console.print(Text(f"{number}. {shown(str(mistake), 1000)}"), soft_wrap=True)
        for side, place in _sides(mistake, "torch ", "paddle"):
            console.print(Text(f"     {side} {_where(place)}"), soft_wrap=True)
            if place is not None and place.source:
                console.print(Text(f"            {shown(place.source)}"), soft_wrap=True)
    if proof.layers:
        console.print(_layers(proof))
    if proof.training:
        console.print(_training(proof))
    if proof.carried is not None:
        console.print(_carriers(proof.carried))
    for note in proof.notes:
        console.print(Text(f"note: {shown(note, 1000)}"), soft_wrap=True)
    return buffer.getvalue().rstrip()


def _sides(mistake: Mistake, *words: str) -> list[tuple[str, Place | None]]:
    """Both places; none where neither is known, as of an optimizer that was given by its name."""
    places = (mistake.torch, mistake.paddle)
    return list(zip(words or ("torch", "paddle"), places)) if any(places) else []


def _training(proof: Proven) -> Table:
    table = Table(title=_TRAINING, title_justify="left")
    for heading in _STEP:
        table.add_column(heading, justify="right")
    for row in proof.training if len(proof.training) <= SHOWN else [*proof.training[: SHOWN - 1], proof.training[-1]]:
        table.add_row(*_step(row))
    return table


_TRAINING = "largest difference of losses, gradients, weights and statistics at each step"
_STEP = ("step", "loss", "on Torch's kernels", "native")


def _step(row: StepRow) -> tuple[str, ...]:
    loss = "" if row.loss is None else f"{row.loss:.6g}"
    return str(row.step), loss, "identical" if row.identical else f"{row.shim:.3g}", f"{row.native:.3g}"


_CARRIERS = ("layer", "op", "calls", "kernels apart", "rounding: Paddle", "Torch", "amplified", "own", "share")


def _carriers(carried: CarriedBy) -> Table:
    table = Table(title=_carried(carried), title_justify="left")
    for heading in _CARRIERS:
        table.add_column(heading, justify="left" if heading in ("layer", "op") else "right", overflow="fold")
    for cells in _most(carried):
        table.add_row(*map(Text, cells))
    return table


def _carried(carried: CarriedBy) -> str:
    return (
        f"what carries the native difference of the outputs ({carried.apart:.3g}); explained: {carried.explained:.1%}, "
        f"{carried.own:.1%} by kernels that are apart on equal operands, the rest by rounding of what differs already. "
        "In unit roundoffs of the largest element"
    )


def _most(carried: CarriedBy) -> list[tuple[str, ...]]:
    """The rows that carry most, and the sum of the others."""
    rows = [_carrier(row) for row in carried.rows[:SHOWN]]
    others = carried.rows[SHOWN:]
    if others:
        own, share = sum(row.own for row in others), sum(row.share for row in others)
        rows.append((f"{len(others)} others", "", str(sum(row.calls for row in others)), *[""] * 4, f"{own:.1%}", f"{share:.1%}"))
    return rows


def _carrier(row: CarrierRow) -> tuple[str, ...]:
    units = (f"{number:.2g}" for number in (row.kernels, row.paddle, row.torch, row.amplified))
    numbers = (*units, f"{row.own:.1%}", f"{row.share:.1%}")
    return shown(row.layer or "(the model)"), row.op, str(row.calls), *numbers


def _layers(proof: Proven) -> Table:
    rows = _chosen(proof.layers)
    same = sum(row.identical for row in proof.layers)
    title = f"{same} of {len(proof.layers)} layers identical on the same kernels"
    table = Table(title=title + (f"; {len(rows)} shown" if len(rows) < len(proof.layers) else ""), title_justify="left")
    table.add_column("paddle layer", overflow="fold")
    table.add_column("torch layer", overflow="fold")
    for heading in ("calls", "on Torch's kernels", "native"):
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(
            Text(shown(row.paddle or "(the model)")), Text(shown(row.torch or "(the model)")), str(row.calls), *_numbers(row)
        )
    return table


def _numbers(row: LayerRow) -> tuple[str, str]:
    return "identical" if row.identical else f"{row.shim:.3g}", f"{row.native:.3g}"


def _chosen(rows: list[LayerRow]) -> list[LayerRow]:
    """The first layers that differ, else those whose native difference is largest; in the order of the model."""
    if len(rows) <= SHOWN:
        return rows
    wanted = sorted(
        range(len(rows)), key=lambda place: (rows[place].identical, place if not rows[place].identical else -rows[place].native)
    )
    return [rows[place] for place in sorted(wanted[:SHOWN])]


def _where(place: Place | None) -> str:
    if place is None:
        return "no counterpart"
    file = os.path.relpath(place.file) if place.file.startswith(os.getcwd() + os.sep) else place.file
    return shown(f"{file}:{place.line}" + (f"  layer {place.layer}" if place.layer else "") + f"  {place.call}")


def markdown(proof: Proven) -> str:
    """Headline, stages, mistakes, and the layers folded away."""
    lines = [f"**{_cell(proof.headline)}**", ""]
    lines += [f"- {_MARKS[stage.right]} {stage.name}: {_cell(stage.text)}" for stage in proof.stages]
    for number, mistake in enumerate(proof.mistakes, 1):
        lines += ["", f"{number}. {_cell(str(mistake))}", ""]
        for side, place in _sides(mistake):
            source = f": `{place.source}`" if place is not None and place.source else ""
            lines.append(f"   - {side}: {_cell(_where(place))}{source}")
    if proof.layers:
        lines += [
            "",
            "<details><summary>layers</summary>",
            "",
            "| paddle layer | torch layer | calls | on Torch's kernels | native |",
        ]
        lines.append("| --- | --- | ---: | ---: | ---: |")
        for row in proof.layers:
            lines.append(f"| {_cell(row.paddle)} | {_cell(row.torch)} | {row.calls} | {' | '.join(_numbers(row))} |")
        lines += ["", "</details>"]
    if proof.training:
        lines += ["", f"| {' | '.join(_STEP)} |", "| ---: | ---: | ---: | ---: |"]
        lines += [f"| {' | '.join(_step(row))} |" for row in proof.training]
    if proof.carried is not None:
        lines += [
            "",
            _carried(proof.carried),
            "",
            f"| {' | '.join(_CARRIERS)} |",
            f"| --- | --- |{' ---: |' * 7}",
        ]
        lines += [f"| {' | '.join(map(_cell, cells))} |" for cells in _most(proof.carried)]
    lines += [f"\n{_cell(note)}" for note in proof.notes]
    return "\n".join(lines) + "\n"


def _cell(value: str) -> str:
    return shown(value, 2000).replace("|", "\\|").replace("<", "&lt;")


def html(proof: Proven) -> str:
    """The guilty lines on top, then the stages, then all layers side by side."""
    title = _html(proof.headline)
    body = [f"<h1>{title}</h1>", *map(_html_mistake, proof.mistakes), _html_stages(proof.stages)]
    if proof.layers:
        rows = "".join(
            f'<tr class="{"right" if row.identical else "wrong"}"><td>{_html(row.paddle)}</td><td>{_html(row.torch)}</td>'
            f'<td class="number">{row.calls}</td>'
            + "".join(f'<td class="number">{number}</td>' for number in _numbers(row))
            + "</tr>"
            for row in proof.layers
        )
        heads = "<th>paddle layer<th>torch layer<th>calls<th>on Torch's kernels: largest difference<th>natively: largest difference"
        body.append(f"<h2>Layers</h2><table><thead><tr>{heads}</thead><tbody>{rows}</tbody></table>")
    if proof.training:
        rows = "".join(f"<tr>{''.join(f'<td class=number>{cell}</td>' for cell in _step(row))}</tr>" for row in proof.training)
        heads = "".join(f"<th>{heading}" for heading in _STEP)
        body.append(f"<h2>Training</h2><p>{_TRAINING}</p><table><thead><tr>{heads}</thead><tbody>{rows}</tbody></table>")
    if proof.carried is not None:
        heads = "".join(f"<th>{heading}" for heading in _CARRIERS)
        rows = "".join(f"<tr>{''.join(f'<td>{_html(cell)}</td>' for cell in _carrier(row))}</tr>" for row in proof.carried.rows)
        body.append(
            f"<h2>Natively</h2><p>{_carried(proof.carried)}</p><table><thead><tr>{heads}</thead><tbody>{rows}</tbody></table>"
        )
    body += [f"<p>{_html(note)}</p>" for note in proof.notes]
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title><style>{_STYLE}</style>'
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{"".join(body)}</body></html>\n'


def _html_mistake(mistake: Mistake) -> str:
    sides = "".join(
        f"<div><b>{side}</b> {_html(_where(place))}<pre>{_html(place.source if place else '')}</pre></div>"
        for side, place in _sides(mistake)
    )
    return f'<div class="mistake"><p><b>{_html(str(mistake))}</b></p><div class="pair">{sides}</div></div>'


def _html_stages(stages: Iterable[Stage]) -> str:
    return "<ul>" + "".join(f"<li>{_MARKS[one.right]} {_html(one.name)}: {_html(one.text)}</li>" for one in stages) + "</ul>"


def _html(value: str) -> str:
    return escaping.escape(shown(value, 2000))
