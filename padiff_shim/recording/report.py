"""The report of two recorded runs for a pull request: where they come from, and hashes of what each of them computed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ..present import document as doc
from ..runlog.events import LOSS, STATE
from ..runlog.reader import text_of
from ..text import shown, tr
from . import tensors as contents
from .tensors import WEIGHT, Tensor, is_loss, may_be_loss
from .whole_tensors import RankTensor

if TYPE_CHECKING:
    from .difference import Difference, TensorRow

_ROWS = doc.Most(20, 40, 1000)


def report_parts(difference: Difference) -> Iterator[doc.Part]:
    """Environment and weights, and hashes of data, losses, results and states."""
    columns = [*map(doc.Column, (tr("step"), tr("what"), tr("layer"), tr("ranks"), "a", "b"))]
    yield _environment(difference)
    for title, rows in hashed(difference):
        table = doc.Table(columns, [hash_cells(row) for row in rows[: _ROWS.page]], most=_ROWS, total=len(rows), cards=False)
        yield doc.Section(title, [table] if rows else [], folded=True)


def _environment(difference: Difference) -> doc.Part:
    """Of both runs: framework, ranks, versions, command, configuration and checkpoint; and whether they begin alike."""
    sides: list[dict[str, Any]] = [
        {
            tr("framework"): header.get("framework"),
            tr("ranks"): header.get("ranks") or 1,
            **(header.get("environment") or {}),
            tr("command"): text_of(header, "command"),
            tr("configuration"): text_of(header, "configuration"),
            tr("checkpoint"): text_of(header, "checkpoint") or tr("none is named: random weights, or the program's own loading"),
        }
        for header in difference.headers
    ]
    names = [name for name in {**sides[0], **sides[1]} if any(side.get(name) for side in sides)]
    rows: list[doc.Row] = [(name, *(shown(str(side.get(name, ""))) for side in sides)) for name in names]
    weights = [row for row in difference.inputs if row.any.tensor == WEIGHT]
    same = tr("{equal:,} of {all:,} equal", equal=sum(not row.differs for row in weights), all=len(weights))
    rows += [(tr("weights at the start"), same, same)] if weights else []
    columns = [doc.Column(tr("setting")), doc.Column("a", fold=True), doc.Column("b", fold=True)]
    return doc.Section(tr("Environment"), [doc.Table(columns, rows, cards=False)])


def hashed(difference: Difference) -> Iterator[tuple[str, list[TensorRow]]]:
    """What is hashed, by kind, in the order of the runs."""
    data = [row for row in difference.inputs if row.any.tensor != WEIGHT]
    yield tr("Data of each step: digests"), data
    full = all((header.get("options") or {}).get("values") == "full" for header in difference.headers)
    hashes = tr("MD5") if full else tr("digests, for no values were recorded")
    rows = difference.rows
    noted = any(is_loss(row.any) for row in rows)
    parts = (
        (tr("Losses and notes"), [row for row in rows if row.any.kind in (LOSS, "note") or (not noted and may_be_loss(row.any))]),
        (tr("Results of layers"), [row for row in rows if row.any.kind == "layer"]),
        (tr("Optimizer states"), [row for row in rows if row.any.kind == STATE]),
    )
    for title, chosen in parts:
        yield tr("{title}: {hashes}", title=title, hashes=hashes), chosen


def hash_cells(row: TensorRow) -> doc.Row:
    tensor = row.any
    name = tr("loss") if tensor.kind == LOSS else tensor.name
    what = name if tensor.tensor in ("", "out") else f"{name} {tensor.tensor}"
    ranks = row.joined or (tr("rank {rank}", rank=row.rank) if row.rank else "")
    return str(tensor.step), shown(what), shown(tensor.layer), ranks, _hash(row.a), _hash(row.b)


def _hash(tensor: Tensor | None) -> str:
    """MD5 of a tensor's bytes; of what has no values its digest, or those of the ranks. A single number stands before it."""
    if tensor is None:
        return "-"
    if isinstance(tensor, RankTensor):
        return "; ".join(f"{_hash(part)} ({rank})" for part, rank in zip(tensor.parts_known, tensor.all_ranks))
    values = tensor.values()
    if values is not None:
        text = contents.md5(contents.as_bfloat16(values) if tensor.dtype == "bfloat16" else values)
    else:  # of data, that of its samples' digests, over all ranks
        text = contents.md5(np.array(tensor.rows)) if tensor.rows else tensor.digest
    return f"{tensor.figures['mean']:.9g}, {text}" if tensor.size == 1 and "mean" in tensor.figures else text
