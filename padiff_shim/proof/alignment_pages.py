"""An alignment as a document: the conclusion with its evidence, then a section for each thing that was compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ..measure.distance import Distance
from ..present import document as doc
from ..text import joined, many, marked, shown, tr
from .distances import SIDES, DriftRow
from .findings import ProofVerdict, StepRow
from .pages import TONES, far, listed_finding

if TYPE_CHECKING:
    from .alignment import AlignedDtype, Alignment

EVERY = 1_000_000
# Rows: a description of a pull request holds 65,536 characters; the page beside it shows everything.
ROWS, PARTS = doc.Most(40, 80, EVERY), doc.Most(12, 30, EVERY)
GRADIENTS, STEPS, PAIRS = doc.Most(12, 40, EVERY), doc.Most(12, 60, EVERY), doc.Most(12, 60, EVERY)
_RIGHT = (ProofVerdict.CODE_CORRECT, ProofVerdict.CODE_CORRECT_WITHIN_ROUNDING)
_KINDS = {"native": "native", "substituted": "reference", "float64": "optimizer"}  # of curves


_Series = dict[tuple[str, str], list["float | None"]]  # values by (name, kind) of their curve


def alignment_document(alignment: Alignment) -> doc.Document:
    """All of an alignment."""
    dtypes = alignment.dtypes
    sections = [part for aligned in dtypes for part in _forward(aligned)]
    sections += [_losses(dtypes)]
    titles = (
        marked("Gradients in {dtype}: {same} of {all} bits equal"),
        marked("Optimizer states in {dtype}: {same} of {all} bits equal"),
    )
    sections += [_worst(aligned.dtype, titles[0], tr("parameter"), aligned.gradients) for aligned in dtypes]
    sections += [_training(aligned) for aligned in dtypes]
    sections += [
        part for aligned in dtypes for part in (_worst(aligned.dtype, titles[1], tr("state"), aligned.states), _hashes(aligned))
    ]
    tips = [tr("proof.bits(), or --bits: the lines where the bits part, and what to write")] * any(
        aligned.proof.verdict is ProofVerdict.CODE_CORRECT_WITHIN_ROUNDING for aligned in dtypes
    )
    return doc.Document(
        alignment.answer,
        [
            doc.Items(_evidence(alignment), marks=True),
            doc.Findings(_findings(dtypes)),
            _environment(alignment),
            _weights(dtypes[0]),
            *sections,
            _generated(dtypes),
            doc.Notes([*_notes(dtypes), *tips]),
        ],
        "good" if alignment else "bad",
    )


def _findings(dtypes: Sequence[AlignedDtype]) -> list[doc.ListedFinding]:
    """Mistakes, those of several dtypes once."""
    findings: dict[object, tuple[list[str], doc.ListedFinding]] = {}
    for aligned in dtypes:
        for mistake in aligned.proof.mistakes:
            places = [place and (place.file, place.line) for place in (mistake.paddle, mistake.torch)]
            key = (str(mistake), *places)
            findings.setdefault(key, ([], listed_finding(mistake, len(aligned.proof.mistakes))))[0].append(aligned.dtype)
    return [
        finding._replace(text=tr("{dtypes}: {mistake}", dtypes=", ".join(names), mistake=finding.text))
        for names, finding in findings.values()
    ]


def _notes(dtypes: Sequence[AlignedDtype]) -> Iterator[str]:
    """Those of all dtypes once, the others with their dtype."""
    by_dtype = {aligned.dtype: list(dict.fromkeys([*aligned.proof.notes, *aligned.notes])) for aligned in dtypes}
    for note in dict.fromkeys(note for notes in by_dtype.values() for note in notes):
        having = [dtype for dtype, notes in by_dtype.items() if note in notes]
        yield note if len(having) == len(dtypes) else tr("{dtype}: {note}", dtype=having[0], note=note)


def _evidence(alignment: Alignment) -> list[doc.ListItem]:
    """The stages of each proof, the generation, and what was not compared."""
    items = []
    for aligned in alignment.dtypes:
        known = aligned.proof.verdict in (*_RIGHT, ProofVerdict.CODE_DIFFERS)
        tone: doc.Tone = TONES[bool(aligned.proof.verdict) if known else None]
        items.append(doc.ListItem(f"{aligned.proof.verdict}: {aligned.proof.reason}", aligned.dtype, tone))
        for stage in aligned.proof.stages:
            name = tr("{dtype} {stage}", dtype=aligned.dtype, stage=tr(stage.name))
            items.append(doc.ListItem(stage.text, name, TONES[stage.right]))
        for row in aligned.generated:
            if row.kernels == "substituted":
                tone = "good" if row.first is None else "open"
                text = tr("{same} of {all} equal", same=row.same, all=many(row.sequences * row.tokens, "token"))
                items.append(doc.ListItem(text, tr("{dtype} {stage}", dtype=aligned.dtype, stage=tr("generation")), tone))
    reasons = [str(aligned.proof.reason) for aligned in alignment.dtypes]
    for what, why in alignment.unchecked.items():
        if str(why) in reasons:  # its dtype's line says it
            continue
        items.append(doc.ListItem(why, tr("not compared: {what}", what=what), "open"))
    return items


def _environment(alignment: Alignment) -> doc.Part:
    sides = {"paddle": tr("port, Paddle"), "torch": tr("original, Torch")}
    rows = [(sides[side], shown(origin)) for side, origin in alignment.models.items()]
    rows += [(name, shown(value)) for name, value in alignment.environment.items()]
    table = doc.Table([doc.Column(tr("setting")), doc.Column(tr("here"), fold=True)], rows, cards=False)
    return doc.Section(tr("Environment"), [table])


def _weights(aligned: AlignedDtype) -> doc.Part:
    """How the original's weights were laid out in the port."""
    mapping = aligned.weights
    ways = {
        "": tr("as they are"), "transposed": tr("transposed"), "reshaped": tr("reshaped"), "by rule": tr("by a rule"),
        "absent": tr("without a partner"),
    }  # fmt: skip
    counts = Counter(ways.get(pair.transform, tr("as parts of a larger weight")) for pair in mapping)
    how = joined(", ", (f"{count} {way}" for way, count in counts.most_common()))
    text = tr("{pairs}: {how}.", pairs=many(len(mapping), "pair of weights", "pairs of weights"), how=how)
    parts = [
        replace(part, most=PAIRS, hint=tr("the page shows all")) if isinstance(part, doc.Table) else part
        for part in mapping.content().parts
    ]
    return doc.Section(tr("Weights"), [doc.Paragraph(text), doc.Folded(tr("Pairs of weights"), parts)])


def _row(row: DriftRow) -> doc.Row:
    """Names and figures; a column of a run that failed is empty."""
    native, kernels, double = row.native, row.substituted, row.float64
    original = row.torch if row.torch != row.paddle else ""
    return (
        shown(row.name),
        shown(original),
        _absolute(native, "warning"),
        _relative(native),
        _absolute(kernels, "good" if kernels.identical else "bad"),
        _relative(kernels),
        _absolute(double, ""),
    )


def _absolute(apart: Distance | None, tone: doc.Tone) -> str | doc.Cell:
    if apart is None:
        return ""
    if apart.max_abs == 0:
        return doc.Cell([tr("bits equal") if apart.identical else "±0"], tone, 0.0)
    return doc.Cell([f"{apart.mean_abs:.2e}, {apart.max_abs:.2e}"], tone, far(apart.max_abs) if tone else None)


def _relative(apart: Distance | None) -> str:
    if apart is None or apart.max_abs == 0:
        return ""
    return f"{apart.relative_mean:.1e}, {apart.relative_max:.1e}"


def _table(name: str, rows: Sequence[DriftRow], most: doc.Most, rank: Sequence[int] = ()) -> doc.Table:
    """Names of both sides, then mean and largest differences, absolute and relative."""
    columns = [
        doc.Column(name),
        doc.Column(tr("original"), 9, markdown="under"),
        doc.Column(tr("native: mean, max"), 5, right=True),
        doc.Column(tr("native: relative"), 7, right=True),
        doc.Column(tr("Torch's kernels: mean, max"), right=True),
        doc.Column(tr("Torch's kernels: relative"), 8, right=True),
        doc.Column(tr("float64: mean, max"), 6, right=True),
    ]
    tones: list[doc.Tone] = ["good" if row.substituted.identical else "bad" for row in rows]
    hint = tr("the page shows all")
    return doc.Table(columns, list(map(_row, rows)), tones, most, hint=hint, rank=rank, cards=False, kind="aligned")


def _forward(aligned: AlignedDtype) -> Iterator[doc.Part]:
    rows = [row for row in aligned.forward if row.name != "loss"]
    if not rows:
        return
    note = tr(
        "Mean and largest absolute difference from the original's; relative: these over the mean and the largest magnitude of the "
        "original's elements. Native: the port on Paddle's kernels; then on Torch's; float64: both models in float64 on Torch's "
        "kernels."
    )
    same = sum(row.substituted.identical for row in rows)
    title = tr("Forward in {dtype}: {same} of {all} bits equal", dtype=aligned.dtype, same=same, all=many(len(rows), "tensor"))
    yield doc.Section(title, [doc.Paragraph(_parts_at(aligned)), _table(tr("tensor"), rows, ROWS), *drift_curves(rows)], note)
    parts, block = aligned.parts, aligned.first_block
    if parts:
        same = sum(row.substituted.identical for row in parts)
        title = tr(
            "Parts of {block} in {dtype}: {same} of {all} bits equal", block=block, dtype=aligned.dtype, same=same, all=len(parts)
        )
        yield doc.Section(title, [_table(tr("layer"), parts, PARTS)])


def _parts_at(aligned: AlignedDtype) -> str:
    """The first tensors that differ."""
    kernels, native = aligned.first_apart("substituted"), aligned.first_apart("native")
    words = []
    if kernels is None:
        words.append(tr("On Torch's kernels every layer's result and every output is equal bit for bit."))
    else:
        words.append(tr("On Torch's kernels {name} is the first that differs.", name=kernels.name))
    if native is not None:
        words.append(tr("Natively {name} is the first that differs.", name=native.name))
    elif all(row.native is None for row in aligned.forward):
        words.append(tr("Natively the port does not run: the notes say why."))
    return joined(" ", words)


def drift_curves(rows: Sequence[DriftRow]) -> list[doc.Part]:
    """The largest differences, tensor by tensor, on the port's own kernels, on Torch's and in float64."""
    if len(rows) < 2:
        return []
    names = {"native": tr("native"), "substituted": tr("Torch's kernels"), "float64": "float64"}
    curves = []
    for side in SIDES:
        values = [None if (apart := getattr(row, side)) is None else apart.max_abs for row in rows]
        if any(value is not None for value in values):
            curves.append(doc.Curve(names[side], _KINDS[side], values))
    return [doc.Curves(curves, (rows[0].name, rows[-1].name), tr("tensor, in the order of the run"), tr("largest difference"))]


def _losses(dtypes: Sequence[AlignedDtype]) -> doc.Part:
    """The loss of each run, with all digits."""
    columns = [
        doc.Column(tr("dtype")),
        *doc.figures(
            tr("native"), tr("difference"), tr("Torch's kernels"), tr("difference"), tr("original"), leave=(0, 3, 0, 4, 0)
        ),
    ]
    rows: list[doc.Row] = []
    for aligned in (aligned for aligned in dtypes if aligned.losses):
        original = aligned.losses["torch"]
        native, kernels = (_loss(aligned.losses.get(side), original) for side in ("native", "substituted"))
        rows.append((aligned.dtype, *native, *kernels, f"{original:.9g}"))
    return doc.Section(tr("Loss"), [doc.Table(columns, rows)] if rows else [])


def _loss(loss: float | None, original: float | None) -> tuple[str, str]:
    """A loss of the port, and how far it is from the original's."""
    if loss is None or original is None:
        return "", ""
    apart = loss - original
    return f"{loss:.9g}", f"{apart:+.2e}" if apart else "0"


def _worst(dtype: str, title: str, name: str, rows: Sequence[DriftRow]) -> doc.Part:
    """Gradients, or what optimizers keep; where not all are shown, the largest relative differences."""
    same = sum(row.substituted.identical for row in rows)
    title = tr(title, dtype=dtype, same=same, all=len(rows))
    relatives = [(row.substituted.relative_max, None if row.native is None else row.native.relative_max) for row in rows]
    rank = sorted(range(len(rows)), key=lambda place: tuple(-(apart or 0.0) for apart in relatives[place]))
    return doc.Section(title, [_table(name, rows, GRADIENTS, rank)] if rows else [], folded=True)


def _hashes(aligned: AlignedDtype) -> doc.Part:
    columns = [doc.Column(tr("tensor")), *map(doc.Column, (tr("native"), tr("Torch's kernels"), tr("original")))]
    rows: list[doc.Row] = [(shown(name) or tr("(output)"), *reversed(hashes)) for name, *hashes in aligned.hashes]
    table = doc.Table(columns, rows, most=ROWS, cards=False, hint=tr("the page shows all"))
    return doc.Section(tr("MD5 of results in {dtype}", dtype=aligned.dtype), [table] if rows else [], folded=True)


def _training(aligned: AlignedDtype) -> doc.Part:
    """The losses of each step, how far they are apart, and the first step that differs."""
    rows = aligned.proof.training
    if not rows:
        return doc.Section("", [])
    heads = (tr("step"), tr("loss: native"), tr("difference"), tr("Torch's kernels"), tr("difference"), tr("original"))
    further = (tr("all that was compared: native"), tr("all that was compared: Torch's kernels"))
    columns = doc.figures(*heads, *further, leave=(0, 0, 3, 0, 4, 0, 9, 8))
    cells = [
        (
            str(row.step),
            *_loss(row.native_loss, row.loss),
            *_loss(row.shim_loss, row.loss),
            "" if row.loss is None else f"{row.loss:.9g}",
            "" if row.native is None else f"{row.native:.3g}",
            tr("bits equal") if row.identical else f"{row.shim:.3g}",
        )
        for row in rows
    ]
    tones: list[doc.Tone] = ["good" if row.identical else "bad" for row in rows]
    last = len(rows) - 1
    rank = sorted(range(len(rows)), key=lambda place: (place != last, place))
    table = doc.Table(columns, cells, tones, STEPS, rank=rank)
    title = tr("{steps} in {dtype}", steps=many(len(rows), "training step"), dtype=aligned.dtype)
    note = tr("The last columns: the largest difference of losses, gradients, weights and statistics.")
    return doc.Section(title, [doc.Paragraph(_first(rows)), table, *_courses(rows)], note)


def _first(rows: Sequence[StepRow]) -> str:
    """The first steps that differ."""
    first = next((row for row in rows if not row.identical), None)
    if first is not None:
        text = tr("On Torch's kernels step {step} is the first that differs, by {apart:.3g}.", step=first.step, apart=first.shim)
    elif all(row.loss is None for row in rows):
        text = tr("On Torch's kernels every gradient and every weight is equal bit for bit; there is no loss.")
    else:
        text = tr("On Torch's kernels every loss, gradient and weight is equal bit for bit.")
    natively = [row for row in rows if row.native_loss is not None and row.loss is not None]
    apart = next((row for row in natively if row.native_loss != row.loss), None)
    if apart is not None:
        size = abs(apart.native_loss - apart.loss)  # type: ignore[operator]
        native = tr("Natively the loss first differs at step {step}, by {apart:.3g}.", step=apart.step, apart=size)
    elif natively:
        native = tr("Natively the losses are equal ({steps}).", steps=many(len(natively), "step"))
    else:
        native = tr("Natively no losses were compared.")
    return f"{text} {native}"


def _courses(rows: Sequence[StepRow]) -> list[doc.Part]:
    """Losses over steps, and their differences."""
    ends, steps = (str(rows[0].step), str(rows[-1].step)), tr("step")
    losses: _Series = {
        (tr("original"), "optimizer"): [row.loss for row in rows],
        (tr("port, native"), "native"): [row.native_loss for row in rows],
        (tr("port, Torch's kernels"), "reference"): [row.shim_loss for row in rows],
    }
    apart: _Series = {
        (tr("native"), "native"): [row.native for row in rows],
        (tr("Torch's kernels"), "reference"): [row.shim for row in rows],
    }
    charts: list[tuple[_Series, str, bool]] = [(losses, tr("loss"), False), (apart, tr("largest difference"), True)]
    parts: list[doc.Part] = []
    for series, up, logarithmic in charts:
        curves = [doc.Curve(*name, values) for name, values in series.items() if any(value is not None for value in values)]
        if curves and len(rows) > 1:
            parts.append(doc.Curves(curves, ends, steps, up, logarithmic))
    return parts


def _generated(dtypes: Sequence[AlignedDtype]) -> doc.Part:
    kernels = {"native": tr("native"), "substituted": tr("Torch's kernels")}
    columns = [
        doc.Column(tr("dtype")),
        doc.Column(tr("kernels")),
        *doc.figures(tr("sequences"), tr("tokens each"), tr("equal"), tr("first that differs")),
    ]
    rows = [
        (
            aligned.dtype,
            kernels[row.kernels],
            str(row.sequences),
            str(row.tokens),
            tr("{same} of {all}", same=row.same, all=row.sequences * row.tokens),
            tr("none") if row.first is None else str(row.first),
        )
        for aligned in dtypes
        for row in aligned.generated
    ]
    return doc.Section(tr("Greedy generation"), [doc.Table(columns, rows, cards=False)] if rows else [])
