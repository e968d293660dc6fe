"""How far a port's values drift from its original's, layer by layer and call by call: a view of a proof."""

from __future__ import annotations

import csv
import io
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..files import Scratch, write
from ..measure.distance import Distance, worst_of
from ..modes.environment import versions
from ..present.annotations import Finding, places_of
from ..present.document import MARKDOWN, PAGE, Column, Document, Facts, Folded, Most, Notes, Only, Paragraph, Part, Row, Table
from ..present.result import Presented
from ..progress import Waiting
from ..recording.diff import diff
from ..recording.record import record
from ..text import code_line, listed, many, marked, shown, tr
from ..weights.mapping import Mapping as Weights
from .agreement import RunOutcome
from .alignment_pages import drift_curves
from .distances import SIDES, DriftRow, gradient_rows, layer_rows, outcomes_of, output_rows
from .programs import ModelSide, PaddleSide, Runner, TorchSide, generators_restored

SHOWN = 30  # rows of Markdown


@dataclass(repr=False)
class Drift(Presented):
    """The differences of a port from its original, tensor by tensor.

    Attributes:
        rows: layers in the order of the run, then op calls, then outputs; then gradients in the order of the backward: of layers'
            results (the last first), of inputs, of parameters.
        notes: what else a reader has to know.
        seconds: what all runs took.
        environment: versions of both frameworks, and the device.

    >>> import numpy, paddle, torch, padiff_shim
    >>> drift = padiff_shim.prove(paddle.nn.Linear(4, 3), torch.nn.Linear(4, 3), numpy.eye(4)).drift()
    >>> drift.largest["substituted"].max_abs, drift.largest_gradients["substituted"].identical
    (0.0, True)
    """

    rows: list[DriftRow] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0
    environment: dict[str, str] = field(default_factory=versions)

    @property
    def largest(self) -> dict[str, Distance]:
        """The largest mean and maximum of each pair of runs, without gradients; a pair that did not run is missing."""
        return _largest([row for row in self.rows if not row.of_gradient])

    @property
    def largest_gradients(self) -> dict[str, Distance]:
        """The same for gradients; empty without them."""
        return _largest([row for row in self.rows if row.of_gradient])

    def __bool__(self) -> bool:
        return bool(self.rows) and all(row.substituted.identical for row in self.rows)

    @property
    def findings(self) -> list[Finding]:
        """The first tensor, and the first gradient, that is another one on Torch's kernels."""
        differing = [row for row in self.rows if not row.substituted.identical]
        firsts = (next((row for row in differing if row.of_gradient is back), None) for back in (False, True))
        return [_finding(row) for row in firsts if row is not None]

    @property
    def answer(self) -> str:
        """The answer in one line."""
        if not self.rows:
            return tr("no layer, call or output has one shape on both sides")
        text = _natively(self.rows)
        meanings = list(dict.fromkeys(filter(None, (_meaning(rows, _largest(rows)) for _, rows in self._kinds()))))
        if not meanings:
            return text
        meaning = tr("{meaning}; gradients: {other}", meaning=meanings[0], other=meanings[1]) if meanings[1:] else meanings[0]
        return tr("{text}: {meaning}", text=text, meaning=meaning)

    def _shorter(self) -> Iterator[str]:
        yield _natively(self.rows)

    def _kinds(self) -> list[tuple[str, list[DriftRow]]]:
        """Values and gradients, with their names."""
        kinds = [(name, [row for row in self.rows if row.of_gradient is back]) for name, back in _KINDS.items()]
        return [(name, rows) for name, rows in kinds if rows]

    _suffixes = (*Presented._suffixes, ".csv")

    def _saved(self, target: Path, suffix: str) -> Path:
        """Also all rows with all digits (``.csv``)."""
        if suffix != ".csv":
            return super()._saved(target, suffix)
        figures = [(side, figure) for side in SIDES for figure in ("mean_abs", "max_abs", "identical")]
        lines = io.StringIO()
        writer = csv.writer(lines)
        writer.writerow(["kind", "paddle", "torch", "call", "line", *(f"{side}_{figure}" for side, figure in figures)])
        for row in self.rows:
            numbers = [getattr(getattr(row, side), figure, "") for side, figure in figures]
            writer.writerow([row.kind, row.paddle, row.torch, row.number, row.site, *numbers])
        return write(target, lines.getvalue())

    def content(self) -> Document:
        """Each tensor with its differences; a plain 0 is equal bit for bit, ±0 equal but for the sign of a zero."""
        alike = all(row.name == row.original for row in self.rows)  # then one column says both
        columns = [
            Column(tr("kind"), 10),
            Column(tr("name") if alike else "paddle"),
            Column("torch", 5, markdown="under"),
            Column(tr("line"), 6, markdown="under"),
        ]
        for side, of_mean, of_max in ((tr("native"), 9, 0), (tr("Torch's kernels"), 8, 0), ("float64", 7, 1)):
            columns.append(Column(tr("{side} mean", side=side), of_mean, right=True, markdown="absent"))
            columns.append(Column(tr("{side} max", side=side), of_max, right=True))
        words = tr("Largest absolute differences; 0: equal bit for bit, ±0: but for the sign of a zero.")
        rows = [_row(row, "" if alike else row.original) for row in self.rows]
        first = Table(columns, rows, most=Most(len(rows), SHOWN, len(rows)))
        rest: list[Part] = [Only((MARKDOWN,), [Folded(tr("All rows"), [Table(columns, rows)])])] if len(rows) > SHOWN else []
        parts = [
            Facts([_figures(name, rows) for name, rows in self._kinds()]),
            *drift_curves(self.rows),
            first,
            *rest,
            Only((MARKDOWN, PAGE), [Paragraph(words)]),
            Notes(self.notes),
        ]
        return Document(self.answer, parts)


def _largest(rows: Sequence[DriftRow]) -> dict[str, Distance]:
    columns = {side: [getattr(row, side) for row in rows if getattr(row, side) is not None] for side in SIDES}
    return {side: worst_of(distances) for side, distances in columns.items() if distances}


def _finding(row: DriftRow) -> Finding:
    apart, where = row.substituted, row.site or row.name
    numbers = {"max_abs": apart.max_abs, "mean_abs": apart.mean_abs, "share": apart.share}
    text = tr("{name} differs on Torch's kernels by up to {largest:.2g}", name=shown(row.label), largest=apart.max_abs)
    return Finding(f"drift: {row.kind}", "warning", text, places_of(row.site), where=where, numbers=numbers)


_KINDS = {marked("values"): False, marked("gradients"): True}


def _figures(name: str, rows: Sequence[DriftRow]) -> str:
    """The largest differences of all rows of one kind."""
    worst, same = _largest(rows), sum(row.substituted.identical for row in rows)
    sizes = {side: f"{apart.max_abs:.2g}" for side, apart in worst.items()}
    sizes.setdefault("native", tr("it fails"))
    return tr(
        "{kind}: {same} of {all} identical; largest difference on Torch's kernels {shim}, natively {native}, in float64 {wide}",
        kind=tr(name), same=same, all=len(rows), shim=sizes["substituted"], native=sizes["native"],
        wide=sizes.get("float64", tr("not known")),
    )  # fmt: skip


def _natively(rows: Sequence[DriftRow]) -> str:
    worst, same = _largest(rows), sum(row.substituted.identical for row in rows)
    text = tr("{same} of {all} identical on Torch's kernels", same=same, all=len(rows))
    if "native" not in worst:
        return tr("{text}; natively it fails", text=text)
    return tr("{text}; natively up to {largest:.2g} apart", text=text, largest=worst["native"].max_abs)


def _meaning(rows: Sequence[DriftRow], worst: Mapping[str, Distance]) -> str:
    """Whether what differs natively is rounding; "" where nothing differs, or float64 says nothing."""
    if "float64" not in worst or "native" not in worst or not worst["native"].max_abs:
        return ""
    ratio = worst["float64"].max_abs / worst["native"].max_abs
    if ratio > 0.5:
        return tr("it is not rounding; prove names the lines")
    if ratio < 1e-6:  # the unit roundoff of float64 is 2e-9 of float32's
        return tr("it is rounding")
    if all(row.substituted.identical for row in rows):
        return tr("the code is right; the rest comes from kernels or casts")
    return tr("nearly all of it is rounding") if ratio < 1e-3 else tr("it is not rounding alone")


def _row(row: DriftRow, original: str) -> Row:
    """Kind, names, line, and of each column mean and maximum."""
    figures: list[str] = []
    for side in SIDES:
        apart = getattr(row, side)
        if apart is None:
            figures += [tr("fails") if side == "native" else ""] * 2
        elif apart.max_abs == 0:
            figures += ["0" if apart.identical else "±0"] * 2
        else:
            figures += [f"{apart.mean_abs:.1e}", f"{apart.max_abs:.1e}"]
    return (tr(row.kind), shown(row.label), shown(original), code_line(row.site), *figures)


def drift(original: TorchSide, port: PaddleSide, mapping: Weights, *, back: bool, calls: bool) -> Drift:
    """:meth:`padiff_shim.Proof.drift` of two programs; ``back``: also gradients."""
    start, drifts = time.perf_counter(), Drift()
    for side in (original, port):
        side.follows = back
    try:
        with generators_restored(), Scratch() as folder, Waiting("drift: running both models"):
            _measure(drifts, original, port, mapping, folder if calls else None, back=back)
    finally:
        for side in (original, port):
            side.follows = False
    drifts.seconds = time.perf_counter() - start
    return drifts


def _measure(drifts: Drift, original: TorchSide, port: PaddleSide, mapping: Weights, folder: Path | None, *, back: bool) -> None:
    """All runs, and a row for each tensor that they have in common."""
    outcomes, drifts.notes, _ = outcomes_of(original, port, lambda side, runner, name: _run(side, runner, folder, name))
    drifts.rows += layer_rows(mapping, outcomes)
    if folder is not None:
        drifts.rows += _calls(folder, outcomes)
    drifts.rows += output_rows(outcomes)
    drifts.rows += gradient_rows(mapping, outcomes) if back else []
    called = outcomes["torch"].layers, outcomes["substituted"].layers  # a list of layers is called by nobody
    left = [port for original, port in mapping.layers.items() if (original in called[0]) != (port in called[1])]
    if left:
        layers = many(len(left), "layer was", "layers were")
        drifts.notes.append(tr("{layers} not called on both sides: {names}", layers=layers, names=listed(left, 6)))


def _run(side: ModelSide, run: Runner, folder: Path | None, name: str) -> RunOutcome:
    """One run, recorded in the folder of its name if there is one; the record of a failed run goes."""
    if folder is None:
        return run(side)
    shutil.rmtree(folder / name, ignore_errors=True)
    with record(folder / name, framework=side.framework, layers=False):
        return run(side)


def _calls(folder: Path, outcomes: Mapping[str, RunOutcome]) -> list[DriftRow]:
    """The op calls that belong together in all runs, in the order of the original."""
    pairs = [(run, "torch64" if run == "native64" else "torch") for run in outcomes if not run.startswith("torch")]
    columns: dict[str, dict[tuple[int, int], Any]] = {}
    for run, expected_run in pairs:
        compared = diff(folder / run, folder / expected_run).compared
        columns[run] = {(row.b.index, row.a.index): row for row in compared if row.a is not None and row.b is not None}
    rows = []
    for key, row in columns.get("native", columns["substituted"]).items():
        held = {run: columns[run].get(key) for run, _ in pairs}  # equal runs make equal calls: their numbers are the same
        native, shim, double = held.get("native"), held["substituted"], held.get("native64")
        if (row.apart.how != "values" and not row.apart.identical) or shim is None:
            continue
        rows.append(
            DriftRow(
                marked("call"), f"{row.a.name} ({row.a.layer})" if row.a.layer else row.a.name, row.b.function, 0, row.a.site,
                None if native is None else native.apart, shim.apart, None if double is None else double.apart,
            )
        )  # fmt: skip
    return rows
