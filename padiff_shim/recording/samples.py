"""Samples that lie in other places in the batches of two runs: what calls make of each is compared with its own partner."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from ..text import tr
from .alignment import Pair, by_figures, lie_alike, same_elements
from .difference import EqualWithin, TensorRow, tensor_row
from .tensors import WEIGHT, Array, Tensor
from .whole_tensors import joined_tensor


class CommonSamples:
    """The samples that both runs read in a step, where batches hold others, or in another order.

    Args:
        data: pairs of what the runs read in the step.
    """

    def __init__(self, data: Sequence[Pair]) -> None:
        self._places: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
        self._counts: list[tuple[int, int]] = []
        self._reordered = False  # of fingerprints, whose samples have no digests
        for a, b in data:
            if a is None or b is None or a.tensor == WEIGHT:  # which may lie transposed in the other framework
                continue
            self._reordered |= a.digest != b.digest and same_elements([a], [b])
            if a.rows == b.rows:
                continue
            if any(not rows or len({*rows}) < len(rows) for rows in (a.rows, b.rows)):
                continue
            places = {sample: place for place, sample in enumerate(b.rows)}
            common = [(place, places[sample]) for place, sample in enumerate(a.rows) if sample in places]
            is_contained = len(common) == min(len(a.rows), len(b.rows))  # other data that share a sample are other data
            if is_contained and (len(a.rows), len(b.rows)) not in self._counts:
                self._counts.append((len(a.rows), len(b.rows)))
                self._places.append((tuple(place for place, _ in common), tuple(place for _, place in common)))

    def row(self, row: TensorRow, tolerances: EqualWithin) -> TensorRow:
        """A row that differs, sample by sample where that brings both nearer."""
        if not row.differs or row.a is None or row.b is None or row.a.kind not in ("op", "layer", "note"):
            return row
        if self._reordered:
            distance = by_figures(row.a, row.b, turned=True)
            return dataclasses.replace(
                row,
                apart=distance,
                differs=not (distance.identical or distance.relative <= tolerances.rtol),
                joined=tr("the elements in any order"),
            )
        for counts, places in zip(self._counts, self._places):
            sides = [_chosen(tensor, count, chosen) for tensor, count, chosen in zip((row.a, row.b), counts, places)]
            if sides[0] is None or sides[1] is None or not lie_alike(sides[0].shape, sides[1].shape):
                continue
            measured = tensor_row(row.rank, sides[0], sides[1], tolerances)
            if row.apart is None or not row.apart.relative <= (0.0 if measured.apart is None else measured.apart.relative):
                return dataclasses.replace(measured, joined=tr("the samples that both runs read"))
        return row


def _chosen(tensor: Tensor, count: int, places: tuple[int, ...]) -> Tensor | None:
    """Some samples of a tensor that has ``count`` of them along its first axis, each perhaps as several elements there."""
    if not tensor.shape or not tensor.shape[0] or tensor.shape[0] % count:
        return None
    values: Array | None = tensor.values()
    if values is None:
        return None
    samples = values.reshape(count, -1, *tensor.shape[1:])[list(places)]
    return joined_tensor(tensor, samples.reshape(-1, *tensor.shape[1:]), 0, "", {})
