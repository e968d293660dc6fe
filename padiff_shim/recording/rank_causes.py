"""Why tensors that several ranks have made differ from the whole ones: tried by arithmetic on the ranks' parts."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..runlog.events import IN_STEP
from ..text import marked, tr
from .alignment import elements
from .difference import DifferenceReason, TensorRow
from .operands import concatenation_of
from .tensors import Array, Tensor, is_weight, linear
from .whole_run import WholeRun
from .whole_tensors import JoinedTensor, RankTensor, axis_of_slices

_CLOSE = 1e-9  # relative to the largest element: of float64
PARTIAL_SUMS, BIAS, ORDER, BACKWARD, SHARES, SCALE, EXCHANGED, PART, DATA, WEIGHTS, WORDS = (
    "partial sums", "bias", "order", "backward", "shares", "scale", "exchanged", "part", "data", "weights", "words"
)  # fmt: skip
RANK_CAUSES = {  # kind of reason -> the cause in a few words, as a proof has them, too; and what shows it or is to be done
    PARTIAL_SUMS: (marked("a sum over ranks is missing"), marked("the ranks' results add up to the whole one: all_reduce them")),
    BIAS: (marked("each rank adds the bias"), marked("it counts {times} times: add it behind the sum over ranks")),
    ORDER: (marked("slices in another order"), marked("one process has those of the ranks in the order {order}")),
    BACKWARD: (
        marked("a sum over ranks is missing"),
        marked("gradients of ranks that read the same data add up to the whole one: the backward needs an all_reduce"),
    ),
    SHARES: (
        marked("gradients are not combined over ranks"),
        marked("those of the ranks' shares of the batch, put together, are the whole ones"),
    ),
    SCALE: (marked("gradients by another factor"), marked("{factor:.6g} times those of one process")),
    WORDS: (
        marked("words of other ranks are not masked"),
        marked("each row is that of one process on one rank: set it to zero on the others before the sum over ranks"),
    ),
    EXCHANGED: (marked("slices in another order"), marked("one process has these values as {name}")),
    DATA: (marked("another result of the ranks"), marked("rank {ranks} reads other data, with slices of the same layers")),
    PART: (marked("another result of the ranks"), marked("rank {ranks} alone differs")),
    WEIGHTS: (marked("another result of the ranks"), marked("rank {ranks} begins with another {name}")),
}
Grid = list[list[Array]]  # a row for each share of the data, with the parts of the ranks that read it
Parts = tuple[Grid, list[Array], float]  # what each share should give, and the size by which equality is measured


def _because(kind: str, **numbers: Any) -> DifferenceReason:
    cause, detail = (tr(words, **numbers) for words in RANK_CAUSES[kind])
    return DifferenceReason(
        kind, tr("{cause}: {detail}", cause=cause, detail=detail), numbers, detail if kind in (PART, DATA, WEIGHTS) else cause
    )


class RankCauses:
    """What arithmetic on the ranks' parts says of rows of a difference.

    Args:
        run: that of several ranks, joined as for the difference.
        rows: those of the difference, with ``run`` as a.
        close: what counts as equal, relative to the largest element.
        crossing: the runs are of two frameworks, so that weights may lie transposed.
    """

    def __init__(self, run: WholeRun, rows: Sequence[TensorRow], close: float = _CLOSE, *, crossing: bool = True) -> None:
        self._loose, self._crossing = close / _CLOSE, crossing
        self._weights = run.layout.weights()
        weights = (*self._weights.values(), *(row.a for row in rows if row.a is not None and row.a.kind == "parameter"))
        self._vectors = [weight for weight in weights if len(weight.shape) == 1]
        self._rows, self._strangers = rows, run.layout.strangers

    def of(self, row: TensorRow) -> DifferenceReason | None:
        """The cause of a row that differs; None where nothing of the kind explains it."""
        if row.a is None or row.b is None:
            return None
        if row.any.kind == "parameter":
            return self._of_weight(row)
        if row.any.kind in ("gradient", IN_STEP):
            return self._of_gradient(row)
        used = [other for other in self._rows if other.any.kind == IN_STEP and other.differs]
        behind = min((other.any.index for other in self._rows if other.any.kind == "gradient"), default=math.inf) < row.any.index
        if used and behind and (cause := self._of_gradient(used[0])) is not None:  # computed of the gradients, as a norm is
            return cause
        cause = self._of_result(self._layer_of(row) or row)
        if cause is not None and cause.kind == PARTIAL_SUMS:  # where they are summed later, and a bias with them
            later = [other for other in self._rows if other.differs and other.any.index > row.any.index]
            made = [_of_ranks(other.a) for other in later]
            # Whether what a later call has made is the same on all ranks.
            summed = any(
                tensor.inner_equal and tensor.outer_equal
                for tensor in made
                if tensor is not None and tensor.kind in ("op", "layer")
            )
            causes = (self._of_result(other, summed=summed) for other in later)
            return next((known for known in causes if known is not None and known.kind == BIAS), cause)
        cause = cause or self._of_words(row) or self._of_order(row) or self._of_gathered(row)
        if cause is None and self._strangers:
            return _because(DATA, ranks=", ".join(map(str, self._strangers)))
        return cause or self._of_part(row)

    def _size(self, array: Array) -> float:
        return self._loose * float(np.abs(array).max(initial=0.0))

    def _layer_of(self, row: TensorRow) -> TensorRow | None:
        """What the layer returns in which a call runs, of both runs."""
        tensor = row.any
        if row.a is None or not tensor.layer:
            return None
        sides = [[getattr(other, side) for other in self._rows if other.any.kind == "layer"] for side in "ab"]
        behind = [
            next((side for side in returned if side and side.index >= first.index and side.layer == tensor.layer), None)
            for returned, first in zip(sides, (row.a, row.b)) if first is not None
        ]  # fmt: skip
        if len(behind) < 2 or None in behind:
            return None
        return TensorRow(row.rank, behind[0], behind[1], None, True)

    def _parts(self, row: TensorRow) -> Parts | None:
        """The ranks' parts, and what each share of the data should give; None where they cannot be read.

        Of fingerprints figures stand for the values that add up as these do; of what may lie transposed, the sum of its elements.
        """
        tensor, whole = _of_ranks(row.a), _wide(row.b)
        if tensor is None or row.b is None:
            return None
        read, size = _wide, self._size(np.zeros(0) if whole is None else whole)
        if whole is None and all(sorted(part.shape) == sorted(row.b.shape) for line in tensor.parts for part in line):
            read = _sum if self._may_lie_turned(row) else linear
            whole, size = read(row.b), self._loose * row.b.figures.get("norm", 0.0)
        grid = [[array for part in line if (array := read(part)) is not None] for line in tensor.parts]
        if whole is None or any(len(line) != len(parts) for line, parts in zip(grid, tensor.parts)):
            return None
        count = len(grid)
        first = grid[0][0]
        if count > 1 and first.ndim and whole.ndim and whole.shape[0] == count * first.shape[0]:
            return grid, np.split(whole, count), size
        return grid, [whole] * count, size

    def _may_lie_turned(self, row: TensorRow) -> bool:
        return self._crossing and len(row.any.shape) > 1 and is_weight(row.any)

    def _of_result(self, row: TensorRow, *, summed: bool = False) -> DifferenceReason | None:
        """Of ranks that read the same data: partial sums that nobody has added up, or a bias that each of them adds; ``summed``: if
        partial sums are added up later."""
        known = self._parts(row)
        if known is None or len(known[0][0]) < 2:
            return None
        causes = [self._of_share(line, want, known[2], summed=summed) for line, want in zip(*known[:2])]
        return causes[0] if all(cause == causes[0] for cause in causes) else None

    def _of_share(self, parts: Sequence[Array], want: Array, size: float, *, summed: bool) -> DifferenceReason | None:
        if any(part.shape != want.shape for part in parts):
            return None
        equal = all(_close(part, parts[0], size) for part in parts)
        rest = parts[0] - want if equal else np.sum(parts, axis=0) - want
        more, nothing = _in_all_rows(rest, size), _close(rest, 0 * rest, size)
        if not equal and (nothing or (more is not None and not summed)):
            return _because(PARTIAL_SUMS)
        if more is None or nothing:
            return None
        for vector in self._vectors:
            part = vector.parts_known[0]
            bias, other = elements(part), elements(part, more)
            if bias is None or other is None or part.size != more.size:
                continue
            if _close((len(parts) - 1) * bias, other, size):
                return _because(BIAS, times=len(parts))
        return None

    def _of_words(self, row: TensorRow) -> DifferenceReason | None:
        """Rows of a vocabulary that ranks have in parts: each is right on the one rank that has it, and not zero on the others."""
        known = self._parts(row)
        if known is None or len(known[0][0]) < 2 or any(part.shape != want.shape for want in known[1][:1] for part in known[0][0]):
            return None
        (parts, *_), (want, *_), size = known
        right = np.array([np.abs(part - want).max(-1) <= _CLOSE * size for part in parts]) if want.ndim > 1 else np.zeros(0)
        return _because(WORDS) if right.size and (right.sum(0) == 1).all() and right.reshape(len(parts), -1).any(1).all() else None

    def _of_order(self, row: TensorRow) -> DifferenceReason | None:
        """Slices that stand in another order, as the ranks hold them or as all of them have gathered them."""
        known = self._parts(row)
        if known is None or len(known[0][0]) < 2:
            return None
        (parts, *_), (want, *_), size = known
        order = _order(parts, want, size)
        if order is None and parts[0].shape == want.shape and _close(parts[0], parts[-1], size):
            for axis in range(want.ndim):
                if order is None and not want.shape[axis] % len(parts):
                    order = _order(np.split(parts[0], len(parts), axis), want, size)
        return None if order is None else _because(ORDER, order=", ".join(map(str, order)))

    def _of_gathered(self, row: TensorRow) -> DifferenceReason | None:
        """A call that reads what ranks have made before, gathered in another order."""
        operands = row.a.reads.operands if row.a is not None and row.a.reads is not None else ()
        made = [_of_ranks(other.a) for other in self._rows if other.any.kind == "op" and other.any.index < row.any.index]
        for results, operand in itertools.product(filter(None, made), operands):
            parts = results.parts_known
            way = concatenation_of(operand, parts)
            order = [] if way is None else [parts.index(source) for source in way.sources]
            if order != sorted(order):
                return _because(ORDER, order=", ".join(map(str, order)))
        return None

    def _of_part(self, row: TensorRow) -> DifferenceReason | None:
        """Ranks that alone differ, of those that hold slices or should hold the same."""
        known, tensor = self._parts(row), _of_ranks(row.a)
        if known is None or tensor is None:
            return None
        grid, wants, size = known
        axis = axis_of_slices(grid[0], wants[0].shape)
        pieces = [[want] * len(line) if axis is None else np.split(want, len(line), axis) for line, want in zip(grid, wants)]
        differing = [
            rank
            for line, parts, ranks in zip(grid, pieces, tensor.ranks)
            for part, want, rank in zip(line, parts, ranks)
            if not _close(part, want, size)
        ]
        if not 0 < len(differing) < len(tensor.all_ranks):
            return None
        for name in self._begins_apart(row.any.layer, differing):
            return _because(WEIGHTS, ranks=", ".join(map(str, differing)), name=name)
        return _because(PART, ranks=", ".join(map(str, differing)))

    def _begins_apart(self, layer: str, ranks: Sequence[int]) -> Iterator[str]:
        """A layer's weights of which all ranks hold the whole, and begin with others on these."""
        sizes = {row.any.name: row.any.size for row in self._rows if row.any.kind == "parameter"}
        for name, weight in self._weights.items():
            held = _of_ranks(weight)
            if held is None or name.rpartition(".")[0] != layer or held.parts_known[0].size != sizes.get(name):
                continue
            bits = defaultdict[bool, set[str]](set)
            for rank, part in zip(held.all_ranks, held.parts_known):
                bits[rank in ranks].add(part.digest)
            if not bits[True] & bits[False]:
                yield name

    def _of_weight(self, row: TensorRow) -> DifferenceReason | None:
        tensor, whole = _of_ranks(row.a), _wide(row.b)
        if whole is None:
            return None
        parts = [] if tensor is None else [array for part in tensor.parts[0] if (array := _wide(part)) is not None]
        for want in _turned(whole) if len(parts) > 1 else ():
            order = _order(parts, want, self._size(want))
            if order is not None:
                return _because(ORDER, order=", ".join(map(str, order)))
        own = _wide(row.a)
        for other in self._rows:
            array = _wide(other.b) if other.any.kind == "parameter" and other is not row else None
            if own is not None and array is not None and any(np.array_equal(own, turned) for turned in _turned(array)):
                return _because(EXCHANGED, name=other.b.name if other.b is not None else "")
        return None

    def _of_gradient(self, row: TensorRow) -> DifferenceReason | None:
        """As ``step()`` uses it: not added up over ranks, or by another factor; or a sum is missing that others show."""
        if (cause := self._of_combined(row)) is not None:
            return cause
        others = (self._of_combined(other) for other in self._rows if other.differs and other.any.kind == row.any.kind)
        kinds = (BACKWARD, SHARES, SCALE) if _wide(row.b) is None and self._may_lie_turned(row) else (BACKWARD,)
        return next((cause for cause in others if cause is not None and cause.kind in kinds), None) or self._of_part(row)

    def _of_combined(self, row: TensorRow) -> DifferenceReason | None:
        """The same of this row alone."""
        rows = (other for other in self._rows if other.any.kind == IN_STEP and other.any.name == row.any.name)
        known = self._parts(next(rows, row))
        if known is None:
            return None
        for want in _turned(known[1][0]):
            grid = _whole_parts(known[0], want)
            if grid is not None and (cause := _of_gradients(grid, want, known[2])) is not None:
                return cause
        return None


def _of_gradients(grid: Grid, want: Array, size: float) -> DifferenceReason | None:
    shares = len(grid)
    flat = [part for line in grid for part in line]
    factors = {1.0, 1.0 / shares}
    if any(_close(part, want, size) for part in flat):
        return None  # where a rank has the whole gradient, what other ranks have is no share of it
    if not all(_close(part, line[0], size) for line in grid for part in line):
        total = np.sum(flat, axis=0)
        return _because(BACKWARD) if any(_close(total * factor, want, size) for factor in factors) else None
    if not all(_close(line[0], grid[0][0], size) for line in grid):
        total = np.sum([line[0] for line in grid], axis=0)
        return _because(SHARES) if any(_close(total * factor, want, size) for factor in factors) else None
    if want.size == 1:  # any number is a multiple of another
        return None
    factor = float(np.vdot(flat[0], want) / max(float(np.vdot(want, want)), np.finfo(np.float64).tiny))
    if not _close(flat[0], want, size) and math.isfinite(factor) and _close(flat[0], factor * want, size * max(1.0, abs(factor))):
        return _because(SCALE, factor=factor)
    return None


def _whole_parts(grid: Grid, want: Array) -> Grid | None:
    """Parts of the partner's shape: as they are, or with the slices of each share put together."""
    shapes = {part.shape for line in grid for part in line}
    if shapes == {want.shape}:
        return grid
    axes = [axis_of_slices(line, want.shape) for line in grid]
    return None if None in axes else [[np.concatenate(line, axis)] for line, axis in zip(grid, axes) if axis is not None]


def _order(parts: Sequence[Array], want: Array, size: float) -> list[int] | None:
    """In which order slices of one size make the whole, where that is not their own."""
    axis = axis_of_slices(parts, want.shape)
    if axis is None or len({part.shape for part in parts}) > 1:
        return None
    order = list[int]()
    for piece in np.split(want, len(parts), axis):
        match = next((place for place, part in enumerate(parts) if place not in order and _alike(part, piece, axis, size)), None)
        if match is None:
            return None
        order.append(match)
    return order if order != sorted(order) else None


def _alike(part: Array, piece: Array, axis: int, size: float) -> bool:
    """Whether two slices are equal, but for a bias whose slices perhaps stand in their own order."""
    if _close(part, piece, size):
        return True
    last = axis == part.ndim - 1 > 0 and part.shape == piece.shape
    return last and part.size > part.shape[-1] and _in_all_rows(part - piece, size) is not None


def _in_all_rows(between: Array, size: float) -> Array | None:
    """The last axis of what is the same in all rows: a bias, or zeros; None where it is not the same."""
    flat = between.reshape(-1, between.shape[-1] if between.ndim else 1)
    return np.asarray(flat[0]) if len(flat) > 1 and _close(flat, np.broadcast_to(flat[0], flat.shape), size) else None


def _of_ranks(tensor: Tensor | None) -> RankTensor | None:
    """What several ranks have of a tensor."""
    return tensor.whole if isinstance(tensor, JoinedTensor) else tensor if isinstance(tensor, RankTensor) else None


def _turned(array: Array) -> Iterator[Array]:
    """A weight as it lies in both frameworks."""
    yield array
    if array.ndim == 2:
        yield array.T


def _wide(tensor: Tensor | None) -> Array | None:
    """The values in float64, of several ranks' the first's; None where there are none."""
    array = None if tensor is None else (tensor.parts_known[0] if isinstance(tensor, RankTensor) else tensor).values()
    return None if array is None else array.astype(np.complex128 if np.iscomplexobj(array) else np.float64)


def _sum(tensor: Tensor | None) -> Array | None:
    figures = linear(tensor)
    return None if figures is None else figures[:1]


def _close(array: Array, other: Array, size: float) -> bool:
    if array.shape != other.shape:
        return False
    with np.errstate(invalid="ignore"):
        return bool(np.abs(array - other).max(initial=0.0) <= _CLOSE * size)
