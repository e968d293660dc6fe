"""Measuring tensors that lie on several ranks: as whole ones, and which differences between ranks are none of the run's."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from ..measure.distance import Distance
from ..runlog.events import IN_STEP, LOSS
from ..text import joined as join_words, tr
from .alignment import Pair, apart, by_figures
from .difference import Difference, EqualWithin, ExpectedPartners, TensorRow, tensor_row
from .pages import NO_VALUES
from .reading import RecordedStep
from .samples import CommonSamples
from .tensors import WEIGHT, Tensor, is_loss, is_weight, multiple, scales_loss, wide
from .whole_run import WholeRun
from .whole_tensors import (
    MEAN,
    SUM,
    FusedAxis,
    JoinedPair,
    JoinedTensor,
    NotJoined,
    RankTensor,
    Way,
    fused_ways,
    guess,
    put_together,
    reductions,
    tokens_alone,
)

_SAME = 1e-4  # relative: two results that are one but for rounding, and what calls before have made of it


class WholeRows:
    """The rows of two runs of which at least one has several ranks.

    Args:
        difference: takes what could not be put together.
        runs: both.
    """

    def __init__(self, difference: Difference, runs: tuple[WholeRun, WholeRun]) -> None:
        self._difference, self._runs = difference, runs
        self._gradient_ways: tuple[str, str] | None = None
        self._order: tuple[int, ...] = ()  # of a's samples in this step, as b has them, where that is another one
        self._in_order = False  # the first data of this step lie in the same order
        self._mixtures = set().union(*map(_mixtures, runs))  # layers with experts
        self.scaled: set[str] = set()  # kinds of losses whose scale gradients have shown to be right
        self.lost: set[int] = set()  # tensors of this step that were not put together, by identity

    def guess(self, first: RecordedStep, second: RecordedStep) -> None:
        """Shapes and figures of whole tensors, for the alignment."""
        crossing = self._runs[0].framework != self._runs[1].framework
        for mine, others in ((first, second), (second, first)):
            guess(mine.tensors, others.tensors, crossing=crossing)
            guess(mine.inputs, others.inputs, crossing=crossing)

    def inputs(self, pairs: Sequence[Pair], tolerances: EqualWithin) -> list[TensorRow]:
        """What both runs were given, where that can be compared."""
        rows, self._order, self._in_order = list[TensorRow](), (), False
        for a, b in pairs:
            if a is None or b is None:
                continue
            if not isinstance(a, RankTensor) and not isinstance(b, RankTensor):
                rows.append(tensor_row(self._rank, a, b, tolerances))
            elif a.tensor == WEIGHT:
                rows += self._weight(a, b, tolerances)
            else:
                rows += self._data(a, b, tolerances)
        return rows

    def _weight(self, a: Tensor, b: Tensor, tolerances: EqualWithin) -> Iterator[TensorRow]:
        """A weight as the runs begin. Only digests and figures are there, which do not depend on the axis of a split."""
        joined = put_together(a, b, crossing=tolerances.crossing)
        if isinstance(joined, NotJoined):
            if joined.values and "norm" in a.figures and "norm" in b.figures:
                distance = by_figures(a, b)
                yield TensorRow(self._rank, a, b, distance, not distance.identical)
            return
        yield max([tensor_row(_rank_of(pair, self._rank), pair.a, pair.b, tolerances) for pair in joined], key=_badness)

    def _data(self, a: Tensor, b: Tensor, tolerances: EqualWithin) -> Iterator[TensorRow]:
        joined = put_together(a, b, crossing=tolerances.crossing)
        if isinstance(joined, NotJoined) or any(run.layout.strangers for run in self._runs):  # the ranks are named as the reason
            return
        rows = []
        for pair in joined:
            if pair.a.digest and pair.b.digest:
                rows.append(tensor_row(_rank_of(pair, self._rank), pair.a, pair.b, tolerances))
            elif pair.a.rows and pair.b.rows:
                same = self._same_samples(pair.a.rows, pair.b.rows, (a, b))
                distance = Distance(same, how="digest", elements=pair.a.size, different=0 if same else pair.a.size)
                rows.append(TensorRow(self._rank, pair.a, pair.b, distance, not same))
        if rows and not (joined[0].split and all(row.differs for row in rows)):  # else each rank has made it of its own place
            yield max(rows, key=_badness)

    def _same_samples(self, first: Sequence[str], second: Sequence[str], pair: tuple[Tensor, Tensor]) -> bool:
        """Whether both runs read the same samples in the order that the first data of a step shows.

        Ranks often take turns through a data set, so that their shares do not lie behind each other.
        """
        distinct = len(set(first)) == len(first) > 1
        if first == second and not (distinct and self._order):
            self._in_order = self._in_order or distinct
            return True
        if distinct and sorted(first) == sorted(second) and not self._order and not self._in_order:
            self._order = tuple(first.index(sample) for sample in second)
            side = next(side for side, tensor in zip("ab", pair) if isinstance(tensor, RankTensor))
            note = tr("samples lie over the ranks of {side} in another order, by their digests; it is undone", side=side)
            self._difference.notes += [note] if note not in self._difference.notes else []
        return len(self._order) == len(first) and [first[place] for place in self._order] == list(second)

    def rows(
        self, pairs: Sequence[Pair], tolerances: EqualWithin, partners: ExpectedPartners, samples: CommonSamples
    ) -> list[TensorRow]:
        """What both runs computed in a step, measured."""
        self.lost = set()
        for a, b in pairs if self._order else ():  # the order of the samples, for the side that has them on several ranks
            if isinstance(a, RankTensor):
                a.order = self._order
            elif isinstance(b, RankTensor):
                b.order = tuple(self._order.index(place) for place in range(len(self._order)))
        self._choose_gradient_ways(pairs, tolerances)
        split = [tensor for pair in pairs for tensor in pair if isinstance(tensor, RankTensor)]
        sums = {_bits(tensor) for tensor in split if tensor.kind == "op" and reductions(tensor) == (SUM,)}
        for tensor in split:  # notes of results of which their calls say that those of shares add up
            tensor.way = SUM if tensor.kind == "note" and tensor.way is None and _bits(tensor) in sums else tensor.way
        measured: list[tuple[TensorRow, bool]] = []  # and whether ranks hold parts of it that were not concatenated
        compared = {_bits(tensor) for pair in pairs if None not in pair for tensor in pair if tensor is not None}
        for a, b in pairs:
            if a is None or b is None:
                row = TensorRow(self._rank, a, b, None, partners.lacking(a, b))
                measured.append((row, False))
                if (
                    not row.differs and _bits(row.any) not in compared
                ):  # else a layer around another, or a call that a layer ends with
                    self._not_paired(row.any, tr("no partner in {side}", side="a" if a is None else "b"))
            elif not isinstance(a, RankTensor) and not isinstance(b, RankTensor):
                row = tensor_row(self._rank, a, b, tolerances)
                row = (self._tokens(a, b, tolerances) or row) if row.differs else row
                measured.append((row, self._in_mixture(a)))
            else:
                measured += self._joined_row(a, b, tolerances)
        measured = [(samples.row(row, tolerances), split) for row, split in measured]
        return list(self._without_intermediate(measured, crossing=tolerances.crossing))

    def _joined_row(self, a: Tensor, b: Tensor, tolerances: EqualWithin) -> Iterator[tuple[TensorRow, bool]]:
        """The row of two tensors of which one lies on several ranks, if they can be put together."""
        joined = put_together(a, b, crossing=tolerances.crossing)
        if isinstance(joined, NotJoined):
            if joined.values and "max_abs" in a.figures and "max_abs" in b.figures:  # fingerprints
                estimate = by_figures(a, b)
                yield TensorRow(self._rank, a, b, estimate, not (estimate.identical or estimate.relative <= tolerances.rtol)), True
                return
            if not joined.values and (row := self._tokens(a, b, tolerances)) is not None:
                yield row, False
                return
            self.lost |= {id(a), id(b)}
            self._difference.values_missing += joined.values
            self._not_paired(a, joined.reason, joined.detail)
            ruled = next((side for side in (a, b) if isinstance(side, RankTensor) and side.way is not None), None)
            if ruled is not None and joined.detail:
                hole = tr("shards: the rule or mark on {tensor} does not give the shape in the other run", tensor=ruled)
                self._difference.holes += [hole] if hole not in self._difference.holes else []
            return
        row = self._worst(joined, tolerances)
        # A scaled loss whose shares add up to the whole one, as they do where a program divides by the number of shares.
        # Gradients show whether it has done so where it should.
        if row.differs and _scales(a) and _scales(b):
            added_up = (self._made(a, b, ways, tolerances) for ways in ((SUM, MEAN), (MEAN, SUM), (SUM, SUM)))
            row = min((row, *filter(None, added_up)), key=_badness)
        if row.differs:
            row = self._fused(a, b, tolerances) or self._tokens(a, b, tolerances) or row
        if row.differs and _numbers_places(row) and self._in_mixture(a):
            self.lost |= {id(a), id(b)}
            self._not_paired(a, tr("places of tokens, which each rank counts for itself"))
            return
        if row.differs and not joined[0].ordered:
            self.lost |= {id(a), id(b)}
            self._not_paired(a, tr("shapes agree only if they are reshaped"))
            return
        distance = row.apart
        if row.differs and distance is not None and distance.how == "figures" and distance.relative <= tolerances.rtol:
            self._difference.values_missing += 1
            self._not_paired(a, tr(NO_VALUES))
        else:
            yield row, joined[0].split or self._in_mixture(a)

    def _fused(self, a: Tensor, b: Tensor, tolerances: EqualWithin) -> TensorRow | None:
        """A product of fused weights (gate and up; query, key and value), of which each rank has a slice of each; or None.

        What such a layer returns is right in any order of its elements in which the program goes on with them: calls behind it
        show a wrong one.
        """
        ways = [[None, *fused_ways(side, partner, crossing=tolerances.crossing)] for side, partner in ((a, b), (b, a))]
        for chosen in itertools.product(*ways):
            row = self._made(a, b, chosen, tolerances) if chosen != (None, None) else None
            if row is not None and not row.differs:
                self._difference.notes += [note for note in self._rules(a, b, chosen) if note not in self._difference.notes]
                return row
        return None

    def _made(self, a: Tensor, b: Tensor, ways: Sequence[Way | None], tolerances: EqualWithin) -> TensorRow | None:
        """The row of two tensors, of which those of several ranks are put together in these ways; None where they cannot be."""
        first, second = (
            dataclasses.replace(side, way=way) if isinstance(side, RankTensor) and way is not None else side
            for side, way in zip((a, b), ways)
        )
        joined = put_together(first, second, crossing=tolerances.crossing)
        return None if isinstance(joined, NotJoined) else self._worst(joined, tolerances)

    def _worst(self, joined: Sequence[JoinedPair], tolerances: EqualWithin) -> TensorRow:
        return max([self._measured(pair, tolerances) for pair in joined], key=_badness)

    def _rules(self, a: Tensor, b: Tensor, ways: Sequence[FusedAxis | None]) -> Iterator[str]:
        """The rule that says how fused tensors lie, as it is written in the port's layout."""
        for run, side, way in zip(self._runs, (a, b), ways):
            if way is not None and is_weight(side):
                axis = 1 - way if run.layout.turned else int(way)
                sizes, path = ":".join(map(str, way.proportions)), side.name.removesuffix(".weight")
                own = re.sub(r"\.\d+\.", ".*.", f".{path}.")[1:-1]
                rule = {f"{own}.weight": f"{axis}:{sizes}", own: f"-1:{sizes}"}
                yield tr("slices of {name} lie fused; the rule that says it: shards={rule}", name=side.name, rule=rule)

    def _in_mixture(self, tensor: Tensor) -> bool:
        """Whether a call belongs to a layer with experts."""
        return any(f"{tensor.layer}.".startswith(f"{layer}.") for layer in self._mixtures)

    def _tokens(self, a: Tensor, b: Tensor, tolerances: EqualWithin) -> TensorRow | None:
        """Tensors of a layer with experts, by the tokens in them; None where they hold other numbers of them."""
        if not self._in_mixture(a) or (a.kind == "layer" and a.layer in self._mixtures):
            return None
        rows = [self._measured(pair, tolerances) for pair in tokens_alone(a, b)]
        return min(rows, key=_badness, default=None)

    @property
    def divided(self) -> bool:
        """Whether a batch of one run is several of the other."""
        return any(run.micro_batches > 1 for run in self._runs)

    @property
    def _rank(self) -> int:
        return self._runs[0].rank

    def _measured(self, pair: JoinedPair, tolerances: EqualWithin) -> TensorRow:
        row = tensor_row(_rank_of(pair, self._rank), pair.a, pair.b, tolerances)
        words = [side.joined for side in (pair.a, pair.b) if isinstance(side, JoinedTensor) and side.joined]
        return dataclasses.replace(row, joined=join_words("; ", words))

    def _not_paired(self, tensor: Tensor, reason: str, detail: str = "") -> None:
        text = tr("{tensor} (step {step})", tensor=tensor, step=tensor.step) if tensor.step else str(tensor)
        self._difference.left_out[tensor.kind] += 1
        self._difference.not_joined.append((tr("{tensor}: {detail}", tensor=text, detail=detail) if detail else text, reason))

    def _choose_gradient_ways(self, pairs: Sequence[Pair], tolerances: EqualWithin) -> None:
        """Whether gradients of shares of the data add up to the whole one, or are averaged: as most of them say, for the whole run.

        Which of both holds depends on where a program divides by the number of shares. A parameter whose gradient is summed in
        another way than the others' stays one that differs, and gradients as ``step()`` uses them are never summed.
        """
        open_pairs = [
            (a, b) for a, b in pairs if a is not None and b is not None and a.kind == "gradient" and (_shared(a) or _shared(b))
        ]
        if open_pairs and self._gradient_ways is None:
            ways = list(itertools.product((MEAN, SUM) if any(_shared(a) for a, _ in open_pairs) else (MEAN,),
                                          (MEAN, SUM) if any(_shared(b) for _, b in open_pairs) else (MEAN,)))  # fmt: skip
            votes = dict.fromkeys(ways, 0)
            for a, b in open_pairs:
                distances = {way: self._distance(a, b, way, tolerances) for way in ways}
                votes[min(distances, key=distances.__getitem__)] += 1
            self._gradient_ways = max(votes, key=votes.__getitem__)
        if self._gradient_ways is not None:
            for pair in open_pairs:
                _set_ways(pair, self._gradient_ways)

    def _distance(self, a: Tensor, b: Tensor, ways: tuple[str, str], tolerances: EqualWithin) -> float:
        _set_ways((a, b), ways)
        joined = put_together(a, b, crossing=tolerances.crossing)
        if isinstance(joined, NotJoined):
            return math.inf
        relative = max(apart(pair.a, pair.b).relative for pair in joined)
        return math.inf if math.isnan(relative) else relative

    def _without_intermediate(self, measured: Sequence[tuple[TensorRow, bool]], *, crossing: bool) -> Iterator[TensorRow]:
        """The rows but for those of ranks' partial results that are put right later.

        Such are calls and layers whose ranks differ before an all-reduce, if what the enclosing layer returns is equal again on all
        ranks and in both runs; and gradients behind the backward, if they are equal as ``step()`` uses them.
        """
        for row, covered in zip((row for row, _ in measured), WholeResults(measured, crossing=crossing).covered()):
            if covered:
                self._not_paired(row.any, tr("partial results of ranks whose whole is equal"))
            else:
                yield row


class WholeResults:
    """Which layers' outputs, and which gradients in the step, are equal in both runs.

    Args:
        measured: the rows of a step in their order, each with whether it may be a part of a result alone.
        crossing: calls of two frameworks may compute in their own ways what a layer returns, as scores before they are scaled.
    """

    def __init__(self, measured: Sequence[tuple[TensorRow, bool]], *, crossing: bool) -> None:
        self._measured, self._crossing = measured, crossing
        self._place_of = {id(row): place for place, (row, _) in enumerate(measured)}
        self._layers: defaultdict[str, list[tuple[int, TensorRow, bool]]] = defaultdict(list)
        self._calls: defaultdict[str, list[tuple[int, TensorRow, bool]]] = defaultdict(list)
        self._readers: defaultdict[str, list[tuple[int, TensorRow, bool]]] = defaultdict(list)  # by digests of operands
        self._known: dict[int, bool] = {}  # whether what has read a row's result agrees, by the row's identity
        self._gradients: set[tuple[str, int]] = set()
        self._wrong = Counter[str]()
        self._places: defaultdict[str, list[int]] = defaultdict(list)
        self._alone: defaultdict[tuple[str, str], list[Tensor]] = defaultdict(list)  # by run and layer
        for place, (row, split) in enumerate(measured):
            tensor = row.any
            if row.a is None or row.b is None:
                self._alone["a" if row.b is None else "b", tensor.layer].append(tensor)
                continue
            if tensor.kind == "layer":
                self._layers[tensor.layer].append((place, row, split))
            elif tensor.kind in ("op", "note", LOSS):
                self._calls[tensor.layer].append((place, row, split))
                whole = _of_one_rank(row)
                for operand in whole.reads.operands if whole is not None and whole.reads is not None else ():
                    self._readers[operand.digest].append((place, row, split))
            if tensor.kind in ("gradient", IN_STEP):
                self._places[tensor.kind].append(place)
                self._wrong[tensor.kind] += row.differs
            if tensor.kind == IN_STEP and not row.differs:
                self._gradients.add((tensor.name, tensor.step))

    def covered(self) -> list[bool]:
        """Of each row, whether it differs and is put right later."""
        return [row.differs and self._covers(row, split=split) for row, split in self._measured]

    def _all_equal(self, kind: str) -> bool:
        """Whether gradients of a kind were compared, and none differs."""
        return bool(self._places[kind]) and not self._wrong[kind]

    def _of_gradients(self, row: TensorRow) -> bool:
        """Whether a call makes the gradients that ``step()`` uses of those behind the backward, as sums over ranks do."""
        after, before = self._places["gradient"], self._places[IN_STEP]
        return row.any.kind == "op" and bool(after and before) and min(after) < self._place_of[id(row)] < max(before)

    def _read_whole(self, row: TensorRow) -> bool:
        """Whether all calls that read a result agree, or those that read theirs, as far as it is known which do."""
        if id(row) not in self._known:
            tensor = _of_one_rank(row)
            place = self._place_of[id(row)]
            readers = [] if tensor is None else [entry for entry in self._readers[tensor.digest] if entry[0] > place]
            agree = (not other.differs or (split and self._read_whole(other)) for _, other, split in readers)
            self._known[id(row)] = bool(readers) and all(agree)
        return self._known[id(row)]

    def _made_by_another(self, row: TensorRow) -> bool:
        """Whether one run has what the other has made there by a call of its own, as scores that are scaled behind the product."""
        for side, own, partner in (("a", row.a, row.b), ("b", row.b, row.a)):
            others = wide(partner)
            for lone in self._alone[side, own.layer] if own is not None and others is not None else ():
                values = wide(lone)
                if values is None or others is None or values.shape != others.shape:
                    continue
                if abs((multiple(values, others, _SAME) or 0.0) - 1) <= _SAME:
                    return True
        return False

    def _covers(self, row: TensorRow, *, split: bool) -> bool:
        """Whether a row that differs is a partial result that is put right."""
        tensor, place = row.any, self._place_of[id(row)]
        if tensor.kind == "gradient":
            return (tensor.name, tensor.step) in self._gradients
        if _of_backward(row) and self._all_equal("gradient"):
            return True
        if _of_backward(row) or self._of_gradients(row):
            return self._all_equal(IN_STEP)
        inside = (
            self._crossing and tensor.kind == "op" and bool(tensor.layer)
        )  # else a call of the program, before or behind the model
        if not (split and tensor.kind in ("op", "layer")) and not inside:
            return False
        if (split and self._read_whole(row)) or (inside and self._made_by_another(row)):
            return True
        path = tensor.layer if tensor.kind == "op" else _above(tensor.layer)
        while path is not None:
            following = next((entry for entry in self._layers[path] if entry[0] > place), None)
            if following is None and split:  # behind the layers, as a loss is: a later call of the program there
                following = next((entry for entry in self._calls[path] if entry[0] > place and not entry[2]), None)
            if following is None or (following[1].differs and not following[2]):
                return False
            if not following[1].differs and not following[2]:
                return True
            path = _above(path)
        return False


def _of_one_rank(row: TensorRow) -> Tensor | None:
    """The side of a row that was not put together of ranks."""
    return next((side for side in (row.b, row.a) if side is not None and not isinstance(side, JoinedTensor)), None)


def _mixtures(run: WholeRun) -> set[str]:
    """Paths of layers with experts."""
    names = (name.split(".") for name in run.layout.weights())
    return {".".join(parts[:place]) for parts in names for place, part in enumerate(parts) if place and "expert" in part.lower()}


def _badness(row: TensorRow) -> tuple[bool, float]:
    relative = 0.0 if row.apart is None else row.apart.relative
    return row.differs, math.inf if math.isnan(relative) else relative


def _numbers_places(row: TensorRow) -> bool:
    """Whether both tensors hold whole numbers alone: counts, numbers of places, masks."""
    arrays = [side.values() for side in (row.a, row.b) if side is not None]
    return all(array is not None and bool((array == np.rint(array)).all()) for array in arrays)


def _above(path: str) -> str | None:
    return path.rpartition(".")[0] if path else None


def _bits(tensor: Tensor) -> object:
    """What two tensors share that hold the same bits on each rank."""
    return tuple(part.digest or part for part in tensor.parts_known)


def _scales(tensor: Tensor) -> bool:
    """Whether a single number may be a scaled loss."""
    return (tensor.size == 1 and is_loss(tensor)) or scales_loss(tensor)


def _shared(tensor: Tensor) -> bool:
    """Whether ranks with other data hold different bits of it."""
    return isinstance(tensor, RankTensor) and len(tensor.parts) > 1 and not tensor.outer_equal


def _of_backward(row: TensorRow) -> bool:
    """Whether a function of the program's own computes a part of a backward: of a loss that each share divides by its own size."""
    return row.any.kind == "op" and bool(row.joined) and row.any.site.endswith(" in backward")


def _set_ways(pair: tuple[Tensor, Tensor] | Pair, ways: tuple[str, str]) -> None:
    for tensor, way in zip(pair, ways):
        if isinstance(tensor, RankTensor):
            tensor.gradient_way = way


def _rank_of(pair: JoinedPair, rank: int) -> int:
    return pair.a.rank if isinstance(pair.a, JoinedTensor) else pair.b.rank if isinstance(pair.b, JoinedTensor) else rank
