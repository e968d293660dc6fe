"""Tensors of several ranks, put together: split ones are concatenated, partial sums added, and replicas compared each."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..runlog.events import NAMED
from ..text import joined, tr
from . import tensors as contents
from .alignment import lie_alike
from .tensors import INPUT, Array, Tensor, numbered

SUM, MEAN, REPLICATE = "sum", "mean", "replicate"
ONE, EACH = "one", "each"  # equal on the ranks, so that the first stands for all; or to be equal: each is compared
Way = int | str  # an axis along which parts are concatenated (:class:`FusedAxis`, too), or one of the words above
_DIRECTIONS = 4  # in which rows of numbers are told apart
_AXES = 8  # beyond them no axis of a split is looked for


class FusedAxis(int):
    """An axis along which tensors lie fused, of each of which every rank holds its slice: gate and up, or query, key and value.

    Attributes:
        proportions: of the fused tensors' sizes.

    >>> axis = FusedAxis.of("1:4:1:1")
    >>> int(axis), axis.proportions
    (1, (4, 1, 1))
    """

    proportions: tuple[int, ...] = ()

    @classmethod
    def of(cls, text: str) -> FusedAxis | None:
        """``AXIS:SIZE:SIZE...``; None for another text."""
        axis, *sizes = text.split(":")
        if not re.fullmatch(r"-?\d+(:[1-9]\d*){2,}", text):
            return None
        return cls.along(int(axis), tuple(map(int, sizes)))

    @classmethod
    def along(cls, axis: int, proportions: tuple[int, ...]) -> FusedAxis:
        """Tensors of these proportions along an axis."""
        fused = cls(axis)
        fused.proportions = tuple(size // math.gcd(*proportions) for size in proportions)
        return fused


@dataclass(eq=False)
class RankTensor(Tensor):
    """A tensor that several ranks recorded.

    Attributes:
        parts: the ranks' tensors: a row for ranks that read the same data, and a row for each share of the data.
        ranks: of the parts, laid out alike.
        way: what a user's rule or the program's mark says of them, or None.
        partial: a call in a layer that owns a row-split or vocabulary-split weight: ranks may hold partial sums.
        gradient_way: how gradients of ranks with other data make the whole one: ``"sum"`` or ``"mean"``.
        missing: ranks that should have recorded it too.
        order: places of the samples in the concatenated shares of the data, in the partner's order; () where they lie alike.
    """

    parts: tuple[tuple[Tensor, ...], ...] = ()
    ranks: tuple[tuple[int, ...], ...] = ()
    way: Way | None = None
    partial: bool = False
    gradient_way: str = MEAN
    missing: tuple[int, ...] = ()
    order: tuple[int, ...] = ()

    @property
    def inner_equal(self) -> bool:
        """Whether ranks that read the same data hold the same bits."""
        return all(_equal(row) for row in self.parts)

    @property
    def outer_equal(self) -> bool:
        """Whether ranks that read other data hold the same bits."""
        return all(_equal(column) for column in zip(*self.parts))

    @property
    def of_one_rank(self) -> bool:
        """Whether its parts are micro-batches: bits that are equal there are those of equal samples."""
        return len({*self.all_ranks}) == 1

    @property
    def parts_known(self) -> Sequence[Tensor]:
        """Those of the ranks, in their order."""
        return [part for row in self.parts for part in row]

    @property
    def all_ranks(self) -> list[int]:
        """The ranks of the parts, in their order."""
        return [rank for row in self.ranks for rank in row]


@dataclass(eq=False)
class JoinedTensor(Tensor):
    """Parts of several ranks, put together.

    Attributes:
        array: the whole values; None where they were not recorded.
        rank: of the part that it stands for; the first rank's of what was made of several.
        joined: how it was made, in words.
        whole: what the ranks have of it.
    """

    array: Array | None = field(default=None, repr=False)
    rank: int = 0
    joined: str = ""
    whole: RankTensor | None = field(default=None, repr=False)

    @property
    def parts_known(self) -> Sequence[Tensor]:
        """Those of the ranks: first that of the rank that it stands for, which reads what it reads."""
        if self.whole is None:
            return (self,)
        ranked = sorted(zip(self.whole.all_ranks, self.whole.parts_known), key=lambda part: part[0] != self.rank)
        return [part for _, part in ranked]

    def values(self) -> Array | None:
        """The array, bfloat16 as float32."""
        return self.array


def _equal(parts: Sequence[Tensor]) -> bool:
    first = parts[0]
    return all(part.digest and part.digest == first.digest and part.shape == first.shape for part in parts)


# ---- How parts may belong together


@dataclass(frozen=True)
class Joint:
    """One way to put parts together: ranks that read the same data, then shares of the data; and the shape that it makes."""

    inner: Way
    outer: Way
    shape: tuple[int, ...]


def joints(tensor: RankTensor) -> Iterator[Joint]:
    """The ways in which its parts may belong together, the likeliest first.

    Sums of ranks that read the same data are considered for calls in layers with a row- or vocabulary-split weight alone, and
    never for parameters and for gradients as ``step()`` uses them: there a sum would hide a missing all-reduce.
    """
    shapes = [[part.shape for part in row] for row in tensor.parts]
    # Weights are split over ranks that read the same data, rather than over shares of it; so is what shares have equal.
    whole = tensor.kind in NAMED or tensor.kind == INPUT or (tensor.outer_equal and not tensor.of_one_rank)
    ways = list(itertools.product(_inner_ways(tensor), _outer_ways(tensor, split=len(shapes[0]) == 1)))
    for inner, outer in sorted(ways, key=lambda way: whole and isinstance(way[1], int)):
        rows = [_made(row, inner) for row in shapes]
        shape = None if None in rows else _made([row for row in rows if row is not None], outer)
        if shape is not None:
            yield Joint(inner, outer, shape)


def _inner_ways(tensor: RankTensor) -> Sequence[Way]:
    if len(tensor.parts[0]) == 1:
        return (ONE,)
    axes = range(min(len(tensor.parts[0][0].shape), _AXES))[::-1]
    if tensor.way is not None:
        return (_ruled(tensor.way, len(tensor.parts[0][0].shape), equal=tensor.inner_equal),)
    if tensor.inner_equal:
        return (ONE, *axes)
    return (SUM if tensor.partial and tensor.kind == "op" else EACH, *axes)


def _outer_ways(tensor: RankTensor, *, split: bool) -> Sequence[Way]:
    """``split``: one rank holds all of its share of the data, so that a rule on a split speaks of the shares."""
    if len(tensor.parts) == 1:
        return (ONE,)
    equal, axes = tensor.outer_equal, range(min(len(tensor.parts[0][0].shape), _AXES))
    if tensor.way is not None and (split or not isinstance(tensor.way, int)):
        return (_ruled(tensor.way, len(tensor.parts[0][0].shape), equal=equal and not tensor.of_one_rank),)
    if equal:
        return (*axes, *reductions(tensor), ONE) if tensor.of_one_rank else (ONE, *axes)
    if tensor.kind in NAMED and tensor.kind != "gradient":
        return (EACH, *axes)
    if tensor.kind == "gradient":
        return (tensor.gradient_way, *axes)
    return (*axes, *reductions(tensor))


def _ruled(way: Way, dimensions: int, *, equal: bool) -> Way:
    if isinstance(way, FusedAxis):
        return FusedAxis.along(way % max(dimensions, 1), way.proportions)
    if isinstance(way, int):
        return way + dimensions if way < 0 else way
    return ONE if equal else EACH if way == REPLICATE else way


def reductions(tensor: RankTensor) -> Sequence[Way]:
    """How a result that has no axis of the batch depends on the whole batch, where its call says so."""
    part = tensor.parts[0][0]
    arguments = part.reads.arguments.get("reduction", "") if part.reads is not None else ""
    if "sum" in arguments or part.name == "sum":
        return (SUM,)
    return (MEAN,) if part.size == 1 or "mean" in (part.name, arguments.strip("'")) else ()


def _made(shapes: Sequence[tuple[int, ...]], way: Way) -> tuple[int, ...] | None:
    """The shape that parts of these shapes make; None where they do not go together in this way."""
    first = shapes[0]
    if not isinstance(way, int):
        return first if all(shape == first for shape in shapes) else None
    if not 0 <= way < len(first) or any(len(shape) != len(first) for shape in shapes):
        return None
    if any(size != other for shape in shapes for axis, (size, other) in enumerate(zip(shape, first)) if axis != way):
        return None
    return (*first[:way], sum(shape[way] for shape in shapes), *first[way + 1 :])


def axis_of_slices(parts: Sequence[Tensor | Array], shape: tuple[int, ...]) -> int | None:
    """The axis along which several slices make a shape."""
    shapes = [part.shape for part in parts]
    return next((axis for axis in range(len(shape)) if len(parts) > 1 and _made(shapes, axis) == shape), None)


def _fit(tensor: Tensor, shape: tuple[int, ...], partner: Tensor, other: tuple[int, ...], *, crossing: bool) -> int:
    """How well a shape goes with a partner's: 0 means not at all."""
    weight = tensor.kind in NAMED or tensor.kind == INPUT
    if weight and crossing and len(shape) == len(other) == 2:
        embedding = any("emb" in name.lower() for name in (tensor.name, partner.name))
        turned, plain = shape == other[::-1], shape == other
        best = plain if embedding else turned
        return 3 if best else 2 if turned or plain else 0
    if shape == other:
        return 3
    if weight:
        return 2 if crossing and sorted(shape) == sorted(other) else 0
    return 0 if np.prod(shape) != np.prod(other) else 2 if lie_alike(shape, other) else 1


def _best(a: Tensor, b: Tensor, *, crossing: bool) -> tuple[Joint, Joint, int] | None:
    """How both are put together so that their shapes agree, and how well they do; None where they cannot."""
    ways = [list(joints(side)) if isinstance(side, RankTensor) else [Joint(ONE, ONE, side.shape)] for side in (a, b)]
    best: tuple[Joint, Joint, int] | None = None
    alike = False  # the batch has one axis in both
    for first, second in itertools.product(*ways):
        fit = _fit(a, first.shape, b, second.shape, crossing=crossing)
        of_all_batches = a.kind == "op" and {first.outer, second.outer} == {
            0,
            ONE,
        }  # in one run, micro-batch by micro-batch in the other
        here = first.outer == second.outer or of_all_batches
        if fit and (best is None or (fit, here) > (best[2], alike)):
            best, alike = (first, second, fit), here
    return best


def whole_shape(tensor: RankTensor, partner: Tensor, *, crossing: bool) -> Joint | None:
    """How a tensor of several ranks is put together so that its shape is the partner's; None where it cannot be."""
    ways = _best(tensor, partner, crossing=crossing)
    return None if ways is None else ways[0]


# ---- Putting together


@dataclass(frozen=True)
class NotJoined:
    """Why tensors of ranks were not put together.

    Attributes:
        reason: in words, the same for all tensors alike.
        detail: what is more to say of these.
        values: it is only that values were not recorded.
    """

    reason: str
    detail: str = ""
    values: bool = False


@dataclass(frozen=True)
class JoinedPair:
    """Two tensors to be compared.

    Attributes:
        a, b: the tensors.
        split: ranks that read the same data hold different bits of it, and it was not concatenated of them.
        ordered: their shapes agree, so that their elements are known to lie alike.
    """

    a: Tensor
    b: Tensor
    split: bool
    ordered: bool


def put_together(a: Tensor, b: Tensor, *, crossing: bool) -> list[JoinedPair] | NotJoined:
    """The tensors of two runs that are to be compared, of which one or both lie on several ranks.

    Several pairs where ranks should hold the same and do not: each is compared with its partner.

    Args:
        crossing: they are of two frameworks, so that weights may lie transposed.

    Raises:
        FileError: values are damaged.
    """
    for side in (a, b):
        if isinstance(side, RankTensor) and side.missing:
            ranks = ", ".join(map(str, side.missing))
            return NotJoined(tr("rank {ranks} recorded none", ranks=ranks))
    ways = _best(a, b, crossing=crossing)
    if ways is None:
        return NotJoined(tr("no split explains the shapes"), tr("{a} against {b}", a=_shapes(a), b=_shapes(b)))
    made = [_variants(side, way) for side, way in zip((a, b), ways[:2])]
    if not all(made):
        return NotJoined(tr("its values were not recorded"), values=True)
    split = any(
        isinstance(side, RankTensor) and not side.inner_equal and not isinstance(way.inner, int)
        for side, way in zip((a, b), ways[:2])
    )
    first, second = made
    pairs = zip(first, second) if len(first) == len(second) else itertools.product(first, second)
    return [JoinedPair(one_side, other, split, ways[2] > 1) for one_side, other in pairs]


def tokens_alone(a: Tensor, b: Tensor) -> Iterator[JoinedPair]:
    """The tokens that both tensors hold, without places that are left empty: rows along the last axis that are zero, or alike.

    Ranks that send tokens to experts fill the places of each expert from the first one on, so that tokens lie in other places than
    in a run on one rank; their order is the same. Nothing where both hold other numbers of tokens, or values were not recorded.
    """
    if a.kind not in ("op", "layer") or not a.shape or not b.shape or a.shape[-1] != b.shape[-1]:
        return
    for sides in itertools.product(_concatenated(a), _concatenated(b)):
        arrays = [side.values() for side in sides]
        tokens = [_tokens(array) for array in arrays if array is not None and array.shape[-1] == a.shape[-1]]
        for rows in itertools.product(*tokens) if len(tokens) == 2 else ():
            if rows[0].shape == rows[1].shape and len(rows[0]):
                words = tr("tokens alone, without empty places")
                first, second = (
                    joined_tensor(side, array, getattr(side, "rank", 0), words, {"whole": getattr(side, "whole", None)})
                    for side, array in zip(sides, rows)
                )
                yield JoinedPair(first, second, split=False, ordered=True)


def _concatenated(tensor: Tensor) -> Iterator[Tensor]:
    """The whole tensors that its parts make if they lie behind each other."""
    if not isinstance(tensor, RankTensor):
        yield tensor
        return
    for way in joints(tensor):
        if {way.inner, way.outer} <= {ONE, *range(_AXES)} and len(variants := _variants(tensor, way)) == 1:
            yield variants[0]


def _tokens(array: Array) -> Iterator[Array]:
    """Rows that are not zero; then those that are not what most of them are, as empty places are behind a bias."""
    rows = array.reshape(-1, array.shape[-1])
    yield rows[rows.any(axis=1)]
    values, counts = np.unique(rows, axis=0, return_counts=True)
    if counts.size and counts.max() > 1:
        yield rows[(rows != values[counts.argmax()]).any(axis=1)]


def _shapes(tensor: Tensor) -> str:
    counts = Counter(part.shape for part in tensor.parts_known)
    return ", ".join(f"{number} x {list(shape)}" if number > 1 else str(list(shape)) for shape, number in counts.items())


def _variants(tensor: Tensor, way: Joint) -> list[Tensor]:
    """The whole tensor, or one for each rank that should hold it; none without values."""
    if not isinstance(tensor, RankTensor):
        return [tensor]
    rows = range(len(tensor.parts)) if way.outer == EACH else (None,)
    columns = range(len(tensor.parts[0])) if way.inner == EACH else (None,)
    variants: list[Tensor] = []
    for row, column in itertools.product(rows, columns):
        made = _variant(tensor, way, row, column)
        if made is None:
            return []
        if all(made.digest != other.digest or not made.digest for other in variants):
            variants.append(made)
    return variants


def _variant(tensor: RankTensor, way: Joint, row: int | None, column: int | None) -> Tensor | None:
    """What some of the ranks make: ``row`` and ``column`` of the one that stands for the others, if any."""
    chosen = [0] if way.outer == ONE else range(len(tensor.parts)) if row is None else [row]
    places = [[0] if way.inner == ONE else range(len(tensor.parts[0])) if column is None else [column]] * len(chosen)
    parts = [[tensor.parts[at][place] for place in line] for at, line in zip(chosen, places)]
    rank = tensor.ranks[chosen[0]][places[0][0]]
    named: dict[str, Any] = {"index": tensor.index, "layer": tensor.layer, "names": tensor.names}
    made = {**named, "whole": tensor}
    if len(parts) == len(parts[0]) == 1:
        return joined_tensor(parts[0][0], parts[0][0].values(), rank, "", made)
    if tensor.kind == INPUT:
        return _inputs(tensor, way, named)
    arrays = [[part.values() for part in line] for line in parts]
    for line, tensors in zip(arrays, parts):
        for place, (array, part) in enumerate(zip(line, tensors)):
            if array is None and part.size == 1 and "mean" in part.figures:  # the figures of a single number are it
                line[place] = np.float32(part.figures["mean"]).reshape(part.shape)
    if any(array is None for line in arrays for array in line):
        return None
    dtype = parts[0][0].dtype
    lines = [_combined([array for array in line if array is not None], way.inner, dtype) for line in arrays]
    reads = [line[0].reads.operands[0].shape[:1] if line[0].reads and line[0].reads.operands else () for line in parts]
    array = _combined(lines, way.outer, dtype, [size[0] for size in reads] if all(reads) and len({*reads}) > 1 else None)
    if isinstance(way.outer, int) and len(lines) > 1:
        array = _arranged(array, way.outer, tensor.order)
    words = [_words(step) for step, number in ((way.inner, len(parts[0])), (way.outer, len(parts))) if number > 1]
    ranks = list(dict.fromkeys(tensor.ranks[at][place] for at, line in zip(chosen, places) for place in line))
    how = joined(", ", words)
    if len(ranks) == 1:
        return joined_tensor(parts[0][0], array, rank, tr("{how}: micro-batches of rank {rank}", how=how, rank=rank), made)
    text = tr("{how}: ranks {ranks}", how=how, ranks=", ".join(map(str, ranks)))
    return joined_tensor(parts[0][0], array, rank, text, made)


def _unfused(arrays: Sequence[Array], axis: FusedAxis) -> Array:
    """Slices of fused tensors, put together tensor by tensor; as they lie if the proportions do not divide them."""
    total = sum(axis.proportions)
    if any(array.shape[axis] % total for array in arrays):
        return np.concatenate(arrays, axis)
    ends = np.cumsum(axis.proportions)[:-1]
    tensors = zip(*(np.split(array, ends * (array.shape[axis] // total), axis) for array in arrays))
    return np.concatenate([part for tensor in tensors for part in tensor], axis)


def fused_ways(tensor: Tensor, partner: Tensor, *, crossing: bool) -> Iterator[FusedAxis]:
    """Ways to put slices of fused tensors together, where ranks hold slices of a tensor and nobody said how."""
    if not isinstance(tensor, RankTensor) or isinstance(tensor.way, FusedAxis):
        return
    way = whole_shape(tensor, partner, crossing=crossing)
    sizes = _sizes(tensor, partner, way) if way is not None and isinstance(way.inner, int) else ()
    if way is not None and sizes:
        yield FusedAxis.along(int(way.inner), sizes)


def _sizes(tensor: RankTensor, partner: Tensor, way: Joint) -> tuple[int, ...]:
    """Sizes of the fused tensors by where the whole one has the first rank's slices; () where its values do not tell."""
    part, whole, axis = tensor.parts[0][0].values(), partner.values(), int(way.inner)
    if part is None or whole is None or part.dtype.kind != "f":
        return ()
    whole = whole.T if whole.shape != way.shape and whole.shape == way.shape[::-1] else whole
    if whole.shape[-1] != way.shape[-1] or (way.outer != ONE and axis == 0):
        return ()
    rows = [np.moveaxis(array, axis, 0).astype(np.float64) for array in (part, whole[: part.shape[0]] if axis else whole)]
    flat = [array.reshape(len(array), -1) for array in rows]
    if flat[0].shape[1] != flat[1].shape[1]:
        return ()
    drawn = np.random.default_rng(0).standard_normal((flat[0].shape[1], _DIRECTIONS))
    own, others = (array @ drawn for array in flat)
    places = np.array([np.abs(others - row).sum(axis=1).argmin() for row in own])
    starts = np.flatnonzero(np.diff(places, prepend=-2) != 1)
    known = np.array_equal(places[starts], starts * (len(others) // len(own))) and 1 < len(starts) <= _AXES
    return FusedAxis.along(axis, tuple(np.diff([*starts, len(own)]).tolist())).proportions if known else ()


def _words(way: Way) -> str:
    if isinstance(way, FusedAxis):
        return tr("concatenated along axis {axis}, fused {sizes}", axis=int(way), sizes=":".join(map(str, way.proportions)))
    if isinstance(way, int):
        return tr("concatenated along axis {axis}", axis=way)
    return tr("added up") if way == SUM else tr("averaged") if way == MEAN else ""


def _combined(arrays: Sequence[Array], way: Way, dtype: str, samples: Sequence[int] | None = None) -> Array:
    """Sums and means in float64 (or complex128), rounded once; ``samples``: of how many each is a mean, where not of as many."""
    if len(arrays) == 1 or way in (ONE, EACH):
        return arrays[0]
    if isinstance(way, FusedAxis):
        return _unfused(arrays, way)
    if isinstance(way, int):
        return np.concatenate(arrays, way)
    if not np.issubdtype(arrays[0].dtype, np.inexact):
        total = np.sum(arrays, axis=0)
        return np.asarray(total if way == SUM else total / len(arrays))
    wide = np.complex128 if np.iscomplexobj(arrays[0]) else np.float64
    exact = [array.astype(wide) for array in arrays]
    total = np.sum(exact, axis=0) if way == SUM else np.average(exact, axis=0, weights=samples)
    rounded = np.asarray(total).astype(arrays[0].dtype)
    if dtype != "bfloat16":
        return rounded
    words = np.ascontiguousarray(rounded, np.float32).view(np.uint32)  # to the nearest that bfloat16 holds, ties to even
    nearest = (words + np.uint32(0x7FFF) + ((words >> 16) & 1)) & np.uint32(0xFFFF0000)
    return np.where(np.isfinite(rounded), nearest.view(np.float32), rounded)


def _arranged(array: Array, axis: int, order: Sequence[int]) -> Array:
    """The samples along an axis in another order; each may be several elements there, as words of a sentence are."""
    if not order or array.shape[axis] % len(order):
        return array
    shape = array.shape
    samples = array.reshape(*shape[:axis], len(order), -1, *shape[axis + 1 :])
    return np.take(samples, order, axis).reshape(shape)


def joined_tensor(part: Tensor, array: Array | None, rank: int, words: str, named: Mapping[str, Any]) -> JoinedTensor:
    known = {entry.name: getattr(part, entry.name) for entry in dataclasses.fields(Tensor)}
    if array is not None:
        bits = contents.as_bfloat16(array) if part.dtype == "bfloat16" else array
        known |= {"shape": array.shape, "digest": contents.digest(bits), "figures": contents.figures(array)}
    known |= named
    return JoinedTensor(**known, array=array, rank=rank, joined=words)


def _inputs(tensor: RankTensor, way: Joint, named: Mapping[str, Any]) -> Tensor | None:
    """Data of several ranks, of which digests of the samples were recorded: those of the whole batch."""
    parts = [part for line in tensor.parts for part in (line[:1] if way.inner == ONE else line)]
    axes = {step for step in (way.inner, way.outer) if step != ONE}
    if axes != {0} or not all(part.rows for part in parts):
        return None
    return dataclasses.replace(
        parts[0], shape=way.shape, digest="", figures={}, rows=tuple(row for part in parts for row in part.rows), sample=(), **named
    )


# ---- Guesses before partners are known


def guess(tensors: Sequence[Tensor], partners: Sequence[Tensor], *, crossing: bool) -> None:
    """Write the likely shapes and figures of the whole tensors into those of several ranks, for their alignment.

    The shape is that of the tensor in the same place of the other run, where there is one that fits.
    """
    others, own = (
        # The class of a layer may have another name.
        numbered(side, lambda tensor: (tensor.kind, tensor.kind == "layer" or tensor.name, tensor.layer, tensor.tensor))
        for side in (partners, tensors)
    )
    places = dict(others)
    for key, tensor in own:
        if not isinstance(tensor, RankTensor):
            continue
        partner = places.get(key)
        ways = None if partner is None else _best(tensor, partner, crossing=crossing)
        # Without a partner parts that differ are slices: of the last axis where ranks read the same data, else of the first.
        likely = [] if ways is not None else sorted(joints(tensor), key=lambda way: EACH in (way.inner, way.outer))
        way = ways[0] if ways is not None else next(iter(likely), None)
        if way is not None:
            tensor.shape = way.shape
            tensor.figures = _figures(tensor, way)
            tensor.digest = tensor.parts[0][0].digest if way.inner == way.outer == ONE else ""


def _figures(tensor: RankTensor, way: Joint) -> dict[str, float]:
    """Those of the whole, as far as those of its parts determine them."""
    if tensor.size == 1 and way.outer == MEAN and way.inner == ONE:
        mean = float(np.mean([row[0].figures.get("mean", np.nan) for row in tensor.parts]))
        return {**dict.fromkeys(("mean", "min", "max"), mean), **dict.fromkeys(("mean_abs", "norm"), abs(mean))}
    if not {way.inner, way.outer} <= {ONE, *range(_AXES)}:
        return {}
    parts = [part for line in tensor.parts[: 1 if way.outer == ONE else None] for part in line[: 1 if way.inner == ONE else None]]
    return dict(parts[0].figures) if len(parts) == 1 else contents.figures_together(parts)
