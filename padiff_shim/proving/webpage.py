"""A proof as one self-contained page: both models side by side, coloured by difference, and the guilty lines on top."""

from __future__ import annotations

import html as escaping
import linecache
import math
from collections.abc import Iterable, Sequence
from pathlib import Path

from ..text import markup, shown
from .carried import CARRIERS, GRADIENTS, carried, holding, largest
from .findings import CarriedBy, LayerRow, Mistake, Place, Stage, StepRow
from .pages import STEP, TRAINING, Proven, further, line, measured, numbers, step
from .tokens import marked, marked_calls

STYLE = Path(__file__).with_name("page") / "proof.css"
MOST = 40  # carriers of a native difference that have a row
AROUND = 2  # lines of source shown before and behind a guilty one
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def html(proof: Proven) -> str:
    """The verdict, the guilty lines of both sources, the stages, then the training and all layers."""
    title = _text(proof.headline)
    verdict, _, rest = title.partition(": ")
    badge = f'<span class="verdict {"yes" if proof else "no"}">{verdict}</span>'
    body = [f"<h1>{badge} {rest}</h1>", *(_mistake(proof, mistake) for mistake in proof.mistakes), _stages(proof.stages)]
    body += [f'<p class="note">{_text(note)}</p>' for note in proof.notes]
    if proof.training:
        body.append(_training(proof.training))
    body += map(_carriers, measured(proof))
    if proof.layers:
        body.append(_layers(proof.layers))
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
        + "".join(f'<li class="{kinds[one.right]}"><b>{_text(one.name)}</b> {_text(one.text)}</li>' for one in stages)
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


def _place(place: Place | None) -> str:
    if place is None:
        return "has no counterpart"
    return _text(line(place) + (f", layer {place.layer}" if place.layer else ""))


def _source(place: Place | None, guilty: str) -> str:
    """The guilty line, and those around it while the file still holds it."""
    if place is None or not place.source:
        return ""
    before, behind = _around(place)
    own = f'<span class="guilty">{guilty}</span>'
    return f'<pre class="source">{_beside(before)}{own}{_beside(behind)}</pre>'


def _around(place: Place) -> tuple[list[str], list[str]]:
    found = linecache.getlines(place.file)
    at = place.line - 1
    if not 0 <= at < len(found) or found[at].strip() != place.source:
        return [], []
    indent = len(found[at]) - len(found[at].lstrip())

    def shifted(lines: list[str]) -> list[str]:
        return [one.rstrip()[min(indent, len(one) - len(one.lstrip())) :] for one in lines if one.strip()]

    return shifted(found[max(at - AROUND, 0) : at]), shifted(found[at + 1 : at + 1 + AROUND])


def _beside(lines: Sequence[str]) -> str:
    return "".join(f'<span class="beside">{escaping.escape(line)}\n</span>' for line in lines)


def _call(call: str) -> str:
    return f'<pre class="call">{call}</pre>' if call else ""


def _layers(rows: Sequence[LayerRow]) -> str:
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


def _training(rows: Sequence[StepRow]) -> str:
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


def _carriers(found: CarriedBy) -> str:
    if found.failed:
        return f'<p class="note">{_text(carried(found))}</p>'
    heads = "".join(f'<th class="{"number" if at > 1 else ""}">{heading}' for at, heading in enumerate(CARRIERS))
    shares = [*(row.share for row in found.rows[:MOST]), 0.0]
    body = "".join(
        "<tr>"
        + "".join(f'<td class="{"number" if at > 1 else ""}">{_text(cell)}</td>' for at, cell in enumerate(cells[:-1]))
        + f'<td class="number native" style="--far:{round(0.7 * min(max(share, 0.0), 1.0), 3)}">{cells[-1]}</td></tr>'
        for cells, share in zip(largest(found, MOST), shares)
    )
    said = _text(carried(found))
    title = f'<h2>What differs natively</h2><p class="legend">{said[0].upper()}{said[1:]}.</p>'
    return f'{title}<table class="carriers"><thead><tr>{heads}</thead><tbody>{body}</tbody></table>{_gradients(found)}'


def _gradients(found: CarriedBy) -> str:
    """Which gradients hold the difference, where there are several."""
    held = holding(found, MOST)
    if not held:
        return ""
    heads = "".join(f'<th class="{"number" if at else ""}">{heading}' for at, heading in enumerate(GRADIENTS))
    body = "".join(
        "<tr>" + "".join(f'<td class="{"number" if at else ""}">{_text(cell)}</td>' for at, cell in enumerate(cells)) + "</tr>"
        for cells in held
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
