"""What carries a native difference: which calls, how much of it, and the tables that show it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from ..files import write
from ..modes.environment import versions
from ..present import document as doc
from ..present.annotations import Finding
from ..present.result import Presented
from ..text import joined, listed, many, shown, tr

CARRIERS = doc.Most(12, 12, 40)  # rows


@dataclass(frozen=True)
class CarrierRow:
    """What the calls of one op in one layer carry of a native difference of outputs.

    Attributes:
        layer, op: the layer's path and the op; ``calls``: how many.
        kernels: how far both kernels are apart on equal operands, at most.
        paddle, torch: the largest rounding error of either kernel on its own run's operands. These three count unit roundoffs
            of the result's largest element.
        amplified: how many times as long as the calls' own error its effect is.
        own: the share of the difference that comes from kernels that differ on equal operands; the rest is rounding of operands
            that differ already.
        share: of the difference; the shares of all rows add up to 1 where a first order explains it.
    """

    layer: str
    op: str
    calls: int
    kernels: float
    paddle: float
    torch: float
    amplified: float
    own: float
    share: float


@dataclass(frozen=True)
class JumpRow:
    """The calls of a step function in one layer whose results jump between the two runs.

    Attributes:
        layer, op: the layer's path and the op; ``calls``: how many.
        jumped: so many elements jump, of ``elements``.
    """

    layer: str
    op: str
    calls: int
    jumped: int
    elements: int


@dataclass(repr=False)
class CarriedBy(Presented):
    """Which calls carry a native difference: :meth:`padiff_shim.Proof.carriers`. Iterating it gives its rows.

    Attributes:
        rows: those whose own kernels carry most first.
        explained: the sum of all shares; far from 1, the difference is too large for a first order.
        apart: the largest element of the difference.
        failed: why nothing could be measured: natively the port does not run. "" otherwise.
        jumps: step functions whose results differ; a first order does not explain what follows from them.
        environment: versions of both frameworks, and the device.
    """

    rows: list[CarrierRow]
    explained: float
    apart: float
    failed: str = ""
    jumps: list[JumpRow] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=versions)

    def __bool__(self) -> bool:
        return not (self.failed or self.rows)

    @property
    def findings(self) -> list[Finding]:
        """The calls, those that carry most first."""
        return [_found_carrier(row) for row in self.rows]

    @property
    def own(self) -> float:
        """The share of the difference that comes from kernels that differ on equal operands."""
        return sum(row.own for row in self.rows)

    def __iter__(self) -> Iterator[CarrierRow]:
        return iter(self.rows)

    @property
    def answer(self) -> str:
        """The largest carrier in a sentence, or why none is known."""
        if self.failed:
            return tr("What carries the native difference of the outputs is not known: {why}", why=self.failed)
        if not self.rows:
            return str(tr("the outputs do not differ natively"))
        first = self.rows[0]
        return tr(
            "{share:.1%} of the native difference of the outputs comes from {op} in {layer}",
            share=first.share,
            op=first.op,
            layer=shown(first.layer) or tr("(the model)"),
        )

    def _shorter(self) -> Iterator[str]:
        if self.failed:
            yield tr("What carries the difference is not known: {why}", why=self.failed)
        elif self.rows:
            first = self.rows[0]
            yield tr("{share:.1%} of the native difference comes from {op}", share=first.share, op=first.op)

    def content(self) -> doc.Document:
        """The largest carrier, then all of them."""
        return doc.Document(self.answer, _parts(self))

    def section(self) -> doc.Section:
        """The same as a part of a larger document."""
        parts = _parts(self) or [doc.Paragraph(self.answer)]
        return doc.Section(tr("What differs natively"), parts)

    _suffixes = (*Presented._suffixes, ".csv")

    def _saved(self, target: Path, suffix: str) -> Path:
        """Also the table with all digits: a line for each carrier."""
        if suffix != ".csv":
            return super()._saved(target, suffix)
        lines = io.StringIO()
        writer = csv.DictWriter(lines, [column.name for column in fields(CarrierRow)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(row) for row in self.rows)
        return write(target, lines.getvalue())


def _found_carrier(row: CarrierRow) -> Finding:
    where = shown(row.layer) or tr("(the model)")
    text = tr("{op} in {layer} carries {share:.1%}", op=row.op, layer=where, share=row.share)
    return Finding("carrier", "note", text, where=where, numbers={"share": row.share, "own": row.own})


def _parts(carriers: CarriedBy) -> list[doc.Part]:
    """How much is explained, and the tables; nothing where nothing could be measured."""
    if carriers.failed:
        return []
    text = tr(
        "What carries the native difference of the outputs ({apart:.3g}); explained: {explained:.1%}, {own:.1%} by kernels that "
        "are apart on equal operands, the rest by rounding of what differs already. In unit roundoffs of the largest element.",
        apart=carriers.apart,
        explained=carriers.explained,
        own=carriers.own,
    )
    heads = (tr("calls"), tr("kernels apart"), tr("rounding: Paddle"), tr("Torch"), tr("amplified"), tr("own"), tr("share"))
    columns = [doc.Column(tr("layer")), doc.Column(tr("op")), *doc.figures(*heads, leave=(4, 1, 5, 6, 2, 7, 0))]
    table = doc.Table(
        columns,
        [_carrier(row) for row in carriers.rows],
        most=CARRIERS,
        others=lambda most: _other_carriers(carriers.rows[most:]),
        cards=False,
        kind="carriers",
    )
    return [doc.Paragraph(joined(" ", [*_jumps(carriers), text])), table]


def _jumps(carriers: CarriedBy) -> Iterator[str]:
    """The step functions in the way, in a sentence."""
    rows = [{**vars(row), "layer": shown(row.layer) or tr("(the model)")} for row in carriers.jumps]
    steps = [tr("{op} in {layer} ({jumped:,} of {elements:,} elements)", **row) for row in rows]
    if len(steps) == 1:
        yield tr(
            "{step}: a step function: differences are amplified here, and no first order explains what follows.", step=steps[0]
        )
    elif steps:
        names = listed(steps, CARRIERS.text)
        yield tr("{steps}: step functions: differences are amplified here, and no first order explains what follows.", steps=names)


def _carrier(row: CarrierRow) -> doc.Row:
    units = (f"{number:.2g}" for number in (row.kernels, row.paddle, row.torch, row.amplified))
    own, carried = (f"{round(part, 3) + 0.0:.1%}" for part in (row.own, row.share))  # no -0.0%
    share = doc.Cell([carried], "warning", row.share)
    return shown(row.layer) or tr("(the model)"), row.op, str(row.calls), *units, own, share


def _other_carriers(rows: Sequence[CarrierRow]) -> doc.Row:
    own, share = sum(row.own for row in rows), sum(row.share for row in rows)
    others = many(len(rows), "other")
    return others, "", str(sum(row.calls for row in rows)), *[""] * 4, f"{own:.1%}", f"{share:.1%}"
