"""``padiff_shim.diff``: two recordings, compared offline, step by step."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..arguments import function, path, whole
from ..errors import ArgumentError, described
from ..measure.difference import Comparator
from ..progress import Waiting
from ..runlog.events import IN_STEP, LOSS, NAMED
from ..runlog.reader import lost_ranks
from ..text import joined, many, marked, tr
from .alignment import SUMS, Pair, align, apart, same_elements
from .call_origins import OriginFinder
from .call_reasons import digests, momenta, updates_apart
from .difference import (
    HELD,
    Difference,
    DifferenceReason,
    EqualWithin,
    ExpectedPartners,
    HeatMap,
    StepDifference,
    TensorRow,
    tensor_row,
)
from .fusions import take_apart
from .layouts import AUTO, Groups, ShardRules, sent_stages
from .names import NameMap
from .rank_causes import RankCauses
from .reading import Recorded, RecordedStep, by_number, merged, read_both, side_by_side
from .reasons import counted, factor_of, reason_of
from .samples import CommonSamples
from .switches import candidates
from .tensors import (
    NORM,
    ROW_KINDS,
    VARIANCES,
    WEIGHT,
    Tensor,
    is_loss,
    is_weight,
    may_be_loss,
    numbered,
    parameter_name,
    scales_loss,
    wide,
)  # fmt: skip
from .whole_rows import WholeResults, WholeRows
from .whole_run import WholeRun, join
from .whole_tensors import Way

_ROUNDED = 1e-4  # relative to the largest element: sums over ranks that are equal but for rounding
_COMPARED = 3  # steps that tell a skipped one from accumulation
_STEP_TENSORS = 10**6  # more than a step of fingerprints has
_SENT = 2.0**-8  # relative: in half precision values arrive so far from what was sent
_NORM = 1e-6  # relative: that of a step's weights in two frameworks; an update changes it more
_FORWARD = frozenset({"op", "layer", "loss"})
_SEQUENCES = ("op", "layer", "note", LOSS)  # kinds that are aligned in their order


@Waiting("comparing both recordings")
def diff(
    a: str | Path,
    b: str | Path,
    *,
    atol: float = 0.0,
    rtol: float = 0.0,
    ranks: int | tuple[int, int] | None = None,
    shards: Mapping[str, Way] | str | None = None,
    names: Mapping[str, str] | None = None,
    equal: Comparator | None = None,
) -> Difference:
    """Say how two recordings of :func:`padiff_shim.record` differ, and where first.

    Neither framework is needed. Both files are read step by step, so that memory does not grow with the length of the runs. Calls
    and layers are aligned by dynamic programming over ops, layer paths, shapes and values; the ops of a Torch recording by the
    names that the op table has for them. Parameters and gradients go by name; weights that lie transposed in the other framework
    are turned. Of fingerprints distances are estimated, and runs of other lengths are compared as far as both go.

    Args:
        a, b: folders.
        atol, rtol: a pair is equal if no element differs by more than ``atol`` plus ``rtol`` times the largest element; by default
            every bit counts. Of fingerprints ``rtol`` is held against the estimated relative distance, and ``atol`` is not used.
        ranks: which processes of distributed runs are compared: one rank of both, or a pair (rank of a, rank of b). By default all
            ranks that both have.
        shards: puts the tensors of all ranks of each run together, and compares the whole ones: ``"auto"``, or pattern -> axis
            along which ranks hold slices, ``"sum"``, ``"mean"`` or ``"replicate"``. A pattern (``*``, ``?``) is matched with names
            of parameters and notes, and with layers' paths. What no pattern names is put together by the program's marks and by
            shapes.
        names: with ``shards=``: pattern of a path or name in a -> that in b, as ``{"blocks.*.up.l": "blocks.*.up"}``; it holds for
            what lies below, too. Names that differ by one layer around a weight's, or by the outermost layer's as ``llama`` and
            ``model``, need no entry.
        equal: a comparator of your own, as of :func:`padiff_shim.difference`: asked about each pair of tensors that differs and
            whose values both recordings hold, before the tolerances.

    Returns:
        A :class:`Difference`, true if nothing differs.

    Raises:
        ArgumentError: an argument that is not accepted, a rank that a recording does not have, or fingerprints against values.
        FileError: a folder that holds no recording, or values that are damaged.

    >>> import padiff_shim, tempfile, torch
    >>> folders = [tempfile.mkdtemp(), tempfile.mkdtemp()]
    >>> for folder, shift in zip(folders, (0.0, 1e-3)):
    ...     with padiff_shim.record(folder, framework="torch"):
    ...         _ = torch.exp(torch.zeros(3) + shift)
    >>> bool(padiff_shim.diff(*folders)), bool(padiff_shim.diff(folders[0], folders[0]))
    (False, True)
    """
    for name, tolerance in (("atol", atol), ("rtol", rtol)):
        if isinstance(tolerance, bool) or not isinstance(tolerance, (int, float)) or not 0 <= tolerance < math.inf:
            raise ArgumentError(tr("{name}= is a number from 0 on, got {tolerance}", name=name, tolerance=described(tolerance)))
    if equal is not None:
        function("equal", equal, marked("two arrays and a name"))
    folders = path("a", a).absolute(), path("b", b).absolute()
    if shards is not None and ranks is not None:
        raise ArgumentError(tr("ranks= chooses processes, and shards= puts all of them together: pass one of both"))
    if shards is None and names is not None:
        raise ArgumentError(tr("names= goes with shards=, which pairs tensors by their names: pass shards='auto'"))
    rules, tolerances = ShardRules(shards or AUTO), EqualWithin(atol, rtol, crossing=False, equal=equal)
    both = read_both(*folders, renaming=names is None)
    alike = ranks is None and names is None and shards in (None, AUTO) and _lie_alike(both, whole=shards is None)
    if alike and any(_other_batches({rank: both[0][rank]}, {rank: both[1][rank]}) for rank in both[0]):
        return diff_of_ranks(folders, rules, NameMap(None), tolerances, each=True)
    if shards is not None and not alike:
        return diff_of_ranks(folders, rules, NameMap(names), tolerances)
    chosen = _ranks(ranks, both)
    first = both[0][chosen[0][0]], both[1][chosen[0][1]]
    difference = _begun(folders, both, first, HELD)
    compared: list[Compared] = []
    for rank, other in chosen:
        one_run, other_run = both[0][rank], both[1][other]
        take_apart([one_run], [other_run])
        compared.append(
            _compare(one_run, other_run, difference, tolerances._replace(crossing=one_run.framework != other_run.framework))
        )
    stages = _stages(both, chosen)
    _in_step(compared, difference, stages)
    difference.settings.conclude()
    difference.reason = _reason(both, stages, difference)
    _note_ends(difference, [[known[rank] for rank in sorted({*taken})] for known, taken in zip(both, zip(*chosen))])
    for name, known, taken in zip("ab", both, zip(*chosen)):
        if left := [str(rank) for rank in known if rank not in taken]:
            difference.notes.append(tr("{name}: ranks {left} were not compared", name=name, left=", ".join(left)))
    difference.notes += [
        tr("rank {rank} of a is compared with rank {other} of b", rank=rank, other=other) for rank, other in chosen if rank != other
    ]
    return difference


def diff_of_ranks(
    folders: tuple[Path, Path],
    rules: ShardRules,
    names: NameMap,
    tolerances: EqualWithin,
    groups: Groups = (),
    most: int = HELD,
    *,
    each: bool = False,
) -> Difference:
    """All ranks of each run, put together, or ``each`` with its own micro-batches.

    ``groups``: those of a that read the same data, where that is known.
    """
    both = read_both(*folders, renaming=not names.unused)
    parts = [({rank: both[0][rank]}, {rank: both[1][rank]}) for rank in both[0]] if each else [both]
    runs = [join(*known, rules, names, groups) for known in parts]
    a, b = runs[0]
    difference = _begun(folders, both, (a, b), most)
    if len(a.ranks) == len(b.ranks) == 1:
        difference.micro_batches = a.micro_batches, b.micro_batches
    tolerances = tolerances._replace(crossing=a.framework != b.framework)
    _in_step([_compare(*pair, difference, tolerances, WholeRows(difference, pair)) for pair in runs], difference, {})
    difference.settings.conclude()
    known = reason_of(difference, lambda row: _cause(a, b, difference, row))
    difference.reason = _of_sending(both, (a.layout.stages, b.layout.stages), difference, known) or known
    lost = [lost_ranks(run.header.get("ranks") or 1, known) for run, known in zip(runs[0], both)]
    difference.ranks_lost = any(lost)
    _note_ends(difference, [known.values() for known in both], lost)
    for option, unused in (("shards", rules.unused), ("names", names.unused)):
        if unused:
            difference.notes.append(tr("{option}: no name matches {patterns}", option=option, patterns=", ".join(unused)))
    return difference


def _note_ends(difference: Difference, runs: Iterable[Iterable[Recorded]], lost: Sequence[Sequence[str]] = ((), ())) -> None:
    """Remarks on the processes of both runs, and what their recordings lack, or ``lost`` ranks: before what one lacks of the
    other."""
    between, difference.holes = difference.holes, []
    for name, recordings, holes in zip("ab", runs, lost):
        difference.holes += [joined(": ", (name, hole)) for hole in holes]
        for recorded in recordings:
            difference.notes += [joined(": ", (name, remark)) for remark in (*recorded.beside, *recorded.remarks)]
            difference.holes += [joined(": ", (name, hole)) for hole in recorded.holes]
    difference.holes += between


WeightKey = tuple[str, tuple[int, ...]]  # digest and shape of a weight
Compared = Iterator[tuple[StepDifference, list[TensorRow]]]  # each step of two processes, with its rows in order


def _begun(
    folders: tuple[Path, Path],
    both: tuple[dict[int, Recorded], dict[int, Recorded]],
    runs: tuple[Recorded, Recorded] | tuple[WholeRun, WholeRun],
    most: int,
) -> Difference:
    """What is known before the first tensor is read."""
    difference = Difference(str(folders[0]), str(folders[1]), frameworks=(runs[0].framework, runs[1].framework), most=most)
    difference.headers = runs[0].header, runs[1].header
    difference.surroundings = _surroundings(*runs)
    fingerprints = {recorded.has_fingerprints for known in both for recorded in known.values()}
    if len(fingerprints) > 1:
        raise ArgumentError(tr("one recording holds fingerprints and another does not: record both with the same values="))
    difference.fingerprints = fingerprints == {True}
    _find_beginning(both, difference)
    return difference


def _other_batches(first: dict[int, Recorded], second: dict[int, Recorded]) -> bool:
    """Whether steps of both runs read the same samples in other numbers of batches; of fingerprints, data of one size and norm."""
    recordings = [*first.values(), *second.values()]
    if all(recorded.has_fingerprints for recorded in recordings):
        steps = [next(recorded.steps(), RecordedStep(0)) for recorded in recordings]
        data = [[tensor for tensor in step.inputs if tensor.tensor != WEIGHT] for step in steps]
        norms = [math.hypot(*(tensor.figures["norm"] for tensor in tensors)) for tensors in data]
        sizes = {sum(tensor.size for tensor in tensors) for tensors in data}
        if len(sizes) > 1 or abs(norms[0] - norms[-1]) > SUMS * norms[0]:
            return False
    elif not all(recorded.has_values for recorded in recordings):
        return False
    begun = [list(itertools.islice(side[min(side)].steps(), _COMPARED)) for side in (first, second)]
    skips = list(updates_apart([(_data(a, set()), _data(b, set())) for a, b in zip(*begun)]))
    if len(skips) == 1 and min(map(len, begun)) > 1:  # a step without an update has the data of two
        return False
    a, b = join(first, second, ShardRules(AUTO), NameMap(None))
    return a.micro_batches != b.micro_batches


def _lie_alike(both: tuple[dict[int, Recorded], dict[int, Recorded]], *, whole: bool) -> bool:
    """Whether both runs are one rank each, if that is the ``whole`` run, or pipelines whose ranks have the same parts of the model
    and of the data in both."""
    if both[0].keys() != both[1].keys() or (len(both[0]) == 1 and not whole):
        return False
    layouts, stages = [], set[int]()
    for run in both:
        begun = {rank: next(recorded.steps(), RecordedStep(0)) for rank, recorded in run.items()}
        split = any(recorded.header.get("split_axes") for recorded in run.values())
        lost = lost_ranks(run[min(run)].header.get("ranks") or 1, run)
        if len(run) > 1 and (split or lost):
            return False
        stages.update(sent_stages(begun).values())  # of one run, where the other does something with what it sends
        made = {tensor.digest for step in begun.values() for tensor in step.tensors}
        for step in begun.values():
            own = [data for data in step.inputs if data.tensor != WEIGHT and data.digest not in made]
            weights = {(parameter_name(weight.name), *sorted(weight.shape)) for weight in step.inputs if weight.tensor == WEIGHT}
            layouts.append((weights, {sample for data in own for sample in data.rows}))
    return len(both[0]) == 1 or (len(stages) > 1 and layouts[: len(both[0])] == layouts[len(both[0]) :])


def _find_beginning(both: tuple[dict[int, Recorded], dict[int, Recorded]], difference: Difference) -> None:
    """Where one run begins in the other: by the numbers of their steps, or by hashes, where it was not said."""
    pair = tuple(side[min(side)] for side in both)
    first = [next((step.step for step in recorded.steps()), 0) for recorded in pair]
    if first[0] != first[1]:
        difference.begins = ("b", first[1]) if first[1] > first[0] else ("a", first[0])
    elif not any("first_step" in recorded.options for recorded in pair):
        for whole_run, later, side in ((0, 1, "b"), (1, 0, "a")):
            step = _begins_at(list(both[whole_run].values()), list(both[later].values()))
            if step is not None:
                if step != first[later]:
                    difference.begins = side, step
                    for recorded in both[later].values():
                        recorded.offset = step - first[later]
                return


def _begins_at(whole: Sequence[Recorded], later: Sequence[Recorded]) -> int | None:
    """The step of ``whole`` with whose weights, and if possible with whose forward, ``later`` begins; None where none is known.

    Each is the ranks of a run. A run that begins as ``whole`` does begins nowhere else.
    """
    start = [step for recorded in later if (step := next(recorded.steps(), None)) is not None]
    weights = _named([tensor for tensor in step.inputs if tensor.tensor == WEIGHT] for step in start)
    otherwise = whole[0].framework != later[0].framework or len(whole) != len(later)
    forward = _calls(start[0]) if start and not otherwise else {}
    current: dict[str, dict[str, Tensor]] = {}
    with_weights: int | None = None
    for number, steps in enumerate(zip(*(recorded.steps() for recorded in whole))):
        if number == 0:
            current = _named([tensor for tensor in step.inputs if tensor.tensor == WEIGHT] for step in steps)
        # Buffers are not recorded behind each step of fingerprints, and ranks may count their layers each from 0.
        common = {name for name in current.keys() & weights.keys() if _size(current[name]) == _size(weights[name])}
        here = bool(common) and all(_same_weight(current[name], weights[name], otherwise=otherwise) for name in common)
        if here and with_weights is None:
            with_weights = steps[0].step
        if forward and _calls(steps[0]) == forward:
            return steps[0].step
        if number == 0 and here:
            return None
        current |= _named(_of(step, "parameter") for step in steps)
    return with_weights


def _named(ranks: Iterable[Sequence[Tensor]]) -> dict[str, dict[str, Tensor]]:
    """Name of a weight -> what ranks hold of it at last, by digest; of a part of a fused one nothing may be known."""
    named: dict[str, dict[str, Tensor]] = {}
    for tensors in ranks:
        for name, tensor in {parameter_name(tensor.name): tensor for tensor in tensors if tensor.figures}.items():
            named.setdefault(name, {})[tensor.digest] = tensor
    return named


def _same_weight(a: Mapping[str, Tensor], b: Mapping[str, Tensor], *, otherwise: bool) -> bool:
    """Whether two weights have the same bits; where frameworks or ranks lay and round them ``otherwise``, the same norm."""
    norms = [math.hypot(*(part.figures.get("norm", 0.0) for part in parts.values())) for parts in (a, b)]
    return a.keys() == b.keys() or (otherwise and abs(norms[0] - norms[1]) <= _NORM * norms[0])


def _size(parts: Mapping[str, Tensor]) -> int:
    return sum(part.size for part in parts.values())


def _calls(step: RecordedStep) -> dict[Any, str]:
    """What a step's forward has computed: digests by kind, layer and name, and which of those it is."""
    forward = (tensor for tensor in step.tensors if tensor.kind in _FORWARD)
    known = numbered(forward, lambda tensor: (tensor.kind, tensor.layer, tensor.name, tensor.tensor))
    return {key: tensor.digest for key, tensor in known}


def _in_step(compared: Sequence[Compared], difference: Difference, stages: Mapping[int, int]) -> None:
    """The rows of all ranks by step, then by place in the program, then by rank: the first that differs is the earliest.

    ``stages``: rank -> its stage of a pipeline; the forward of a later one reads what an earlier one has made.
    """
    behind_forwards = len(stages) if len(set(stages.values())) > 1 else 0  # a stage beyond all others
    for processes in by_number(dict(enumerate(compared)), lambda entry: entry[0].step):
        rows: list[tuple[int, int, TensorRow]] = []
        for _, process_rows in processes.values():
            stage_of_others = 0  # until the forward begins: weights at the start
            for place, row in enumerate(process_rows):
                forward = row.any.kind in _FORWARD
                stage_of_others = behind_forwards if forward else stage_of_others
                rows.append((stages.get(row.rank, 0) if forward else stage_of_others, place, row))
        for _, _, row in sorted(rows, key=lambda entry: entry[:2]):
            difference.add(row)
        difference.steps += [step for step, _ in processes.values()]


def _cause(a: WholeRun, b: WholeRun, difference: Difference, row: TensorRow) -> DifferenceReason | None:
    """What arithmetic on the parts of the run of several ranks says, where the other has one."""
    if (len(a.ranks) > 1) == (len(b.ranks) > 1):
        return None
    turned = len(b.ranks) > 1
    rows = [
        replace(other, a=other.b, b=other.a) if turned else other for other in difference.rows if other.any.step == row.any.step
    ]
    known = RankCauses(b if turned else a, rows, _ROUNDED, crossing=a.framework != b.framework)
    return known.of(replace(row, a=row.b, b=row.a) if turned else row)


def _stages(both: tuple[dict[int, Recorded], dict[int, Recorded]], chosen: Iterable[tuple[int, int]]) -> Mapping[int, int]:
    """Rank -> its stage of a pipeline in both runs: what is sent may not arrive in one of them."""
    begun = [{rank: next(run[rank].steps(), RecordedStep(0)) for rank in ranks} for run, ranks in zip(both, zip(*chosen))]
    return max(map(sent_stages, begun), key=lambda known: max(known.values()))


def _reason(
    both: tuple[dict[int, Recorded], dict[int, Recorded]], stages: Mapping[int, int], difference: Difference
) -> DifferenceReason | None:
    """Why processes differ that are compared each with one."""
    first = difference.first
    if len(both[0]) != len(both[1]) and first is not None and first.apart is not None and first.apart.how == "shape":
        text = tr("ranks of one run hold parts of what the other has: shards='auto' (--shards auto) puts them together")
        return DifferenceReason("parts", text, {})
    crossing = difference.frameworks[0] != difference.frameworks[1]
    switches = [] if crossing else list(candidates(*difference.headers, "", difference.frameworks[0]))
    known = reason_of(difference, None, switches)
    return _of_sending(both, (stages, stages), difference, known) or known


def _of_sending(
    both: tuple[dict[int, Recorded], dict[int, Recorded]],
    stages: tuple[Mapping[int, int], Mapping[int, int]],
    difference: Difference,
    known: DifferenceReason | None,
) -> DifferenceReason | None:
    """A stage of a pipeline that receives other values than those of another stage's results, if its first call differs, or more is
    not ``known`` of what differs first than its place."""
    first = difference.first
    if first is None or difference.origin is not None or first.any.kind not in _FORWARD:
        return None
    place = first.rank, first.any.step
    begins = next(row for row in difference.rows if (row.rank, row.any.step) == place and row.any.kind in _FORWARD)
    if begins is not first and known is not None and known.kind not in ROW_KINDS:
        return None
    for side, run, stage in zip("ab", both, stages):
        if not stage.get(first.rank):
            continue
        steps = {rank: next((step for step in run[rank].steps() if step.step == place[1]), RecordedStep(0)) for rank in run}
        own = steps.pop(first.rank, RecordedStep(0))
        received = [data for data in own.inputs if data.tensor != WEIGHT and data.size > 1 and "float" in data.dtype]
        sent = [tensor for step in steps.values() for tensor in step.tensors if tensor.kind in ("op", "layer")]
        pairs = [(data, tensor) for data in received for tensor in sent if data.shape == tensor.shape]
        if pairs and all(apart(*pair).relative > _SENT for pair in pairs):
            text = tr("rank {rank} receives in {side} other values than any that another rank has made", rank=first.rank, side=side)
            return DifferenceReason("received", text, {"side": side, "rank": first.rank})
    return None


def _ranks(ranks: int | tuple[int, int] | None, both: tuple[dict[int, Recorded], dict[int, Recorded]]) -> list[tuple[int, int]]:
    """Which ranks are compared with which."""
    if ranks is None:
        common = [rank for rank in both[0] if rank in both[1]]
        return [(rank, rank) for rank in common] or [(min(both[0]), min(both[1]))]
    pair = ranks if isinstance(ranks, tuple) and len(ranks) == 2 else (ranks, ranks)
    for name, rank, known in zip("ab", pair, both):
        whole("ranks", rank)
        if rank not in known:
            raise ArgumentError(
                tr(
                    "ranks={ranks}: {name} has no rank {rank}; it has {known}",
                    ranks=repr(ranks),
                    name=name,
                    rank=rank,
                    known=joined(", ", map(str, known)),
                )
            )
    return [pair]


def _surroundings(a: Recorded | WholeRun, b: Recorded | WholeRun) -> list[tuple[str, Any, Any]]:
    """Versions, devices, switches and options that differ; between frameworks only those that both have."""
    changes = []
    for table in ("environment", "flags", "options"):
        first, second = a.header.get(table) or {}, b.header.get(table) or {}
        for name in dict.fromkeys([*first, *second]):
            known = name in first and name in second
            if first.get(name) != second.get(name) and (a.framework == b.framework or (known and name != "cuda")):
                changes.append((name, first.get(name, "-"), second.get(name, "-")))
    return changes


# ---- Recordings of single tensors


def _compare(
    a: Recorded | WholeRun,
    b: Recorded | WholeRun,
    difference: Difference,
    tolerances: EqualWithin,
    ranks: WholeRows | None = None,
) -> Compared:
    """All pairs of two processes, measured, in the order of the runs; ``ranks`` measures those of several processes."""
    common, unknown, met = _common_kinds(a, b, difference), list[TensorRow](), [True, True]
    finder = OriginFinder(difference.call_origins, (a.header, b.header), a.framework)
    partners, weights = ExpectedPartners(crossing=tolerances.crossing or ranks is not None), (set[WeightKey](), set[WeightKey]())
    places: dict[Any, list[tuple[int | None, int | None]]] = {}  # of fingerprints: numbers of tensors -> which belong together
    for first, second in difference.settings.along(_common_steps(a, b, difference)):
        step = StepDifference(
            a.rank, first.step, (_loss(first), _loss(second)), data=(_data(first, weights[0]), _data(second, weights[1]))
        )
        if ranks is not None:
            ranks.guess(first, second)
        if first.bits and first.bits == second.bits and (first.numbers, second.numbers) in places:
            _count_equal(step, first, difference)
            yield step, []
            continue
        inputs_of_both = _inputs(first, second, crossing=tolerances.crossing)
        pairs = _fingerprint_pairs(first, second, common, places) if first.numbers else _pairs(first, second, common)
        partners.note([*first.inputs, *first.tensors], [*second.inputs, *second.tensors])
        samples = CommonSamples(inputs_of_both)
        if ranks is None:
            inputs = [_row(a.rank, *pair, tolerances, partners) for pair in inputs_of_both]
            rows = _put_right(
                [samples.row(_row(a.rank, *pair, tolerances, partners), tolerances) for pair in pairs], crossing=tolerances.crossing
            )
        else:
            inputs, rows = ranks.inputs(inputs_of_both, tolerances), ranks.rows(pairs, tolerances, partners, samples)
        _settle_orders(difference, inputs, rows)
        difference.inputs += [row for row in inputs if _is_known(row)][: max(0, HELD - len(difference.inputs))]
        unknown += [row for row in rows if not _is_known(row)]
        comparable = _backwards(
            filter(_is_known, _judged(_until_broken(rows, (a, b)), ranks.scaled if ranks is not None and ranks.divided else None))
        )
        _count(step, comparable, difference.heat)
        if not tolerances.crossing and ranks is None:
            finder.step(comparable)
        paired = {id(tensor) for pair in pairs if None not in pair for tensor in pair} - (set() if ranks is None else ranks.lost)
        layers = ranks is not None and "layer" in common
        met = [_ends_paired(side, paired, before, layers=layers) for side, before in zip((first, second), met)]
        yield step, comparable
    if tolerances.crossing or ranks is not None:
        difference.met = difference.met and all(met)
    difference.notes += _remarks(difference, common, unknown, crossing=tolerances.crossing)


def _until_broken(rows: list[TensorRow], runs: Sequence[Recorded | WholeRun]) -> list[TensorRow]:
    """The rows of a step without those of a run that goes on behind the last that both have, if the other was broken off there: the
    weights with which it ended are none that an update has made."""
    for side, other in (names for names, run in zip((("a", "b"), ("b", "a")), runs) if run.broken):
        updated = [any(row.any.kind == IN_STEP and getattr(row, name) for row in rows) for name in (side, other)]
        rows = [row for row in rows if row.any.kind != "parameter"] if updated == [False, True] else rows
        last = max((getattr(row, other).index for row in rows if row.apart is not None), default=-1)
        rows = [row for row in rows if getattr(row, side) is not None or row.any.index <= last]
    return rows


def _common_kinds(a: Recorded | WholeRun, b: Recorded | WholeRun, difference: Difference) -> set[str]:
    """The kinds of tensors that both recordings hold; the others are noted."""
    kinds = a.kinds(), b.kinds()
    for kind in (*_SEQUENCES, *NAMED):
        if (kind in kinds[0]) != (kind in kinds[1]):
            alone = "a" if kind in kinds[0] else "b"
            difference.notes.append(
                tr("only {alone} has records of kind {kind}: they were not compared", alone=alone, kind=repr(kind))
            )
            difference.one_sided[kind] = alone
    return kinds[0] & kinds[1]


def _remarks(difference: Difference, common: set[str], unknown: list[TensorRow], *, crossing: bool) -> Iterator[str]:
    """What a reader should know of the rows."""
    if unknown:
        number = many(len(unknown), "tensor")
        yield tr(
            "not compared, because a recording has no values of them: {number}, the first {tensor}",
            number=number,
            tensor=unknown[0].any,
        )
    if difference.fingerprints and crossing:
        yield tr(
            "weights in another layout are compared by extremes and sums, which agree within {sums:g} for the same numbers",
            sums=SUMS,
        )
    around = next((step.step for step in difference.steps if step.first), None)
    if difference.fingerprints and around is not None:
        yield tr(
            "distances are estimates; values around step {around}: padiff-shim record --around {around} DIR PROGRAM, or "
            "record(dir, model, steps=range({first}, {last}))",
            around=around,
            first=max(0, around - 1),
            last=around + 2,
        )


def _common_steps(
    a: Recorded | WholeRun, b: Recorded | WholeRun, difference: Difference
) -> Iterator[tuple[RecordedStep, RecordedStep]]:
    """The steps that two runs both have; what one has alone is said. If one of two recordings of values has a single step, and was
    not cut short, all of both at once, unless it is known to begin later.

    When a step comes, a run that has no further one has been read to its end.
    """
    runs, begin = [a.steps(), b.steps()], difference.begins[1] if difference.begins else 0
    if not difference.fingerprints:
        begun = [list(itertools.islice(run, 2)) for run in runs]
        runs = [itertools.chain(*known) for known in zip(begun, runs)]
        single = [len(known) < 2 and not run.broken for known, run in zip(begun, (a, b))]
        if difference.begins is None and any(single):
            yield merged(runs[0]), merged(runs[1])
            return
        runs = [_with_parameters(run, begin) for run in runs]
    ends, alone, waiting = [-1, -1], [0, 0], list[tuple[RecordedStep, RecordedStep]]()
    common = False
    for pair in side_by_side(runs[0], runs[1], begin):
        yield from waiting
        waiting.clear()
        ends = [end if step is None else step.step for end, step in zip(ends, pair)]
        first, second = pair
        lone = first or second if first is None or second is None else None
        ended = difference.begins is not None or (a if first is None else b).broken
        if lone is None or not (difference.fingerprints or (ended and _digests(lone))):
            common = common or lone is None
            waiting.append((first or RecordedStep(ends[1]), second or RecordedStep(ends[0])))
        else:
            alone[first is None] += 1
            difference.data_behind += [(_digests(first), _digests(second))][len(difference.data_behind) // _COMPARED :]
    yield from waiting
    lacking = {"a": b, "b": a}  # one that was broken off may lack what it had not come to
    difference.one_sided = {kind: side for kind, side in difference.one_sided.items() if not lacking[side].broken}
    every = [(run.header.get("options") or {}).get("every") for run in (a, b)]
    for place, name in enumerate("ab" if common else ""):
        other = "ba"[place]
        number, here, there = alone[place], ends[place], ends[1 - place]
        if number and here > there:
            text = tr(
                "{name} goes on to step {here:,}, {other} ends with step {there:,}", name=name, here=here, other=other, there=there
            )
            difference.holes.append(text)
        if number and every[0] != every[1]:
            difference.notes.append(f"{many(number, 'step')} of {name} alone: every={every[0]} against {every[1]}")
        elif number and here <= there:
            difference.holes.append(tr("{other} lacks {steps} that {name} has", other=other, steps=many(number, "step"), name=name))


def _with_parameters(steps: Iterable[RecordedStep], begin: int) -> Iterator[RecordedStep]:
    """The steps of a run from ``begin`` on, the first of them with the parameters that those before have made."""
    before: dict[str, Tensor] = {}
    for step in steps:
        if step.step < begin:
            before |= {tensor.name: replace(tensor, step=begin) for tensor in _of(step, "parameter")}
        else:
            step.tensors = [*before.values(), *step.tensors]
            before.clear()
            yield step


def _digests(step: RecordedStep | None) -> frozenset[str]:
    """Of the data of a step."""
    inputs = () if step is None else step.inputs
    return frozenset(tensor.digest for tensor in inputs if tensor.tensor != WEIGHT and tensor.digest)


def _fingerprint_pairs(
    first: RecordedStep, second: RecordedStep, common: set[str], places: dict[Any, list[tuple[int | None, int | None]]]
) -> list[Pair]:
    """:func:`_pairs`, once for all steps with the same tensors."""
    sides = [{tensor.index % _STEP_TENSORS: tensor for tensor in step.tensors} for step in (first, second)]
    key = first.numbers, second.numbers
    if key not in places:
        pairs = _pairs(first, second, common)
        places[key] = [
            (None if a is None else a.index % _STEP_TENSORS, None if b is None else b.index % _STEP_TENSORS) for a, b in pairs
        ]
        return pairs
    return [(None if a is None else sides[0][a], None if b is None else sides[1][b]) for a, b in places[key]]


def _pairs(first: RecordedStep, second: RecordedStep, common: set[str]) -> list[Pair]:
    """What two steps computed, side by side, in the order of the runs."""
    pairs: list[Pair] = []
    for kind in _SEQUENCES:
        sides = (_of(first, kind), _of(second, kind)) if kind in common else ([], [])
        if kind == "layer":
            pairs += _by_name(*sides, _layer_key(*sides))
            continue
        weights = {tensor.weight for tensor in sides[0]} & {tensor.weight for tensor in sides[1]}
        for weight in weights | {""}:  # programs may go through their parameters in another order
            alike = ([tensor for tensor in side if (tensor.weight if tensor.weight in weights else "") == weight] for side in sides)
            pairs += align(*alike)
    for kind in NAMED:
        if kind in common:
            pairs += _by_name(_of(first, kind), _of(second, kind), _parameter_key)
    return _ordered(pairs)


def _is_known(row: TensorRow) -> bool:
    """Whether a row says something: what was recorded of both sides can be compared."""
    return row.apart is None or row.apart.how != "nothing"


def _end(step: RecordedStep, *, layers: bool) -> Tensor | None:
    """The last result of a step, before it is scaled for the backward.

    ``layers``: the last that a layer returned, if any, for ranks compute other things behind it.
    """
    kinds = ("layer",) if layers and any(tensor.kind == "layer" for tensor in step.tensors) else _SEQUENCES
    made, calls, last = set[str](), set[Any](), None
    for tensor in step.tensors:
        operands = tensor.reads.operands if tensor.reads is not None else ()
        beside = tensor.size == 1 and operands and not any(operand.digest in made for operand in operands)  # made of the scale
        beside = beside or tensor.name == NORM
        bits = digests(tensor)
        call = tensor.kind, tensor.layer, tensor.name, *sorted(bits)
        again = call in calls and "" not in bits  # as a backward computes it once more
        last = tensor if tensor.kind in kinds and not beside and not again and not scales_loss(tensor) else last
        made |= bits
        calls.add(call)
    return last


def _ends_paired(step: RecordedStep, paired: set[int], before: bool, *, layers: bool) -> bool:
    """Whether the last result of a step has a partner, or what a layer around it returns; ``before``: where it has no result."""
    end = _end(step, layers=layers)
    if end is None or id(end) in paired:
        return before if end is None else True
    return any(id(tensor) in paired and digests(tensor) == digests(end) != {""} for tensor in step.tensors)


def _of(step: RecordedStep, kind: str) -> list[Tensor]:
    return [tensor for tensor in step.tensors if tensor.kind == kind]


def _count(step: StepDifference, rows: Sequence[TensorRow], heat: HeatMap) -> None:
    for row in rows:
        tensor = row.any
        step.count(tensor.kind, not row.differs, 1)
        if row.differs and not step.first:
            step.first = tensor.sentence()
        relative = 0.0 if row.apart is None or math.isnan(row.apart.relative) else row.apart.relative
        step.largest = max(step.largest, relative)
        if tensor.kind == "layer":
            heat.add(tensor.layer, tensor.step, relative)


def _count_equal(step: StepDifference, recorded: RecordedStep, difference: Difference) -> None:
    """A step of fingerprints in which no bit differs, after one with the same tensors that was compared in full."""
    for kind, number in Counter(tensor.kind for tensor in recorded.tensors).items():
        step.count(kind, number, number)
    difference.counts.rows += len(recorded.tensors)
    difference.counts.compared += len(recorded.tensors)


def _loss(step: RecordedStep) -> float | None:
    """The last loss: what a backward starts from, or a scalar that the program noted as it; else the last that may be one."""
    scalars = [tensor for tensor in step.tensors if is_loss(tensor)]
    single = (tensor for tensor in step.tensors if may_be_loss(tensor)) if not scalars else ()
    scalars += [tensor for tensor in single if tensor.reads is None or any(operand.graph for operand in tensor.reads.operands)]
    return scalars[-1].figures.get("mean") if scalars else None


def _inputs(first: RecordedStep, second: RecordedStep, *, crossing: bool) -> list[Pair]:
    """What both runs were given, side by side: in one framework by name, place and step, between two in the order of the runs."""
    if not crossing:
        placed, taken = (
            numbered(side.inputs, lambda tensor: (tensor.name, tensor.tensor, tensor.layer, tensor.step))
            for side in (first, second)
        )
        waiting = dict(taken)
        pairs: list[Pair] = [(tensor, waiting.get(key)) for key, tensor in placed]
    else:
        data = [[tensor for tensor in side.inputs if tensor.tensor != WEIGHT] for side in (first, second)]
        weights = [
            {parameter_name(tensor.name): tensor for tensor in side.inputs if tensor.tensor == WEIGHT} for side in (first, second)
        ]
        namesakes = ((tensor, weights[1].get(name)) for name, tensor in weights[0].items())
        pairs = [(a, b) for a, b in namesakes if b is not None and sorted(a.shape) == sorted(b.shape) and a.figures and b.figures]
        for a, b in align(*data) if all(data) else []:
            if a and b and (a.size > 1 or {*a.names} & {*b.names}):  # else a number of its own framework, as a loss's scale
                pairs.append((a, b))
    return [pair for pair in pairs if pair[0] is not None and pair[1] is not None]


def _data(step: RecordedStep, weights: set[WeightKey]) -> frozenset[str]:
    """Digests of what a step is given; a copy of a weight with which the run begins is no data, and left out of the step's."""
    weights.update((tensor.digest, tensor.shape) for tensor in step.inputs if tensor.tensor == WEIGHT and tensor.digest)
    step.inputs = [tensor for tensor in step.inputs if tensor.tensor == WEIGHT or (tensor.digest, tensor.shape) not in weights]
    return _digests(step)


def _judged(rows: list[TensorRow], scaled: set[str] | None) -> list[TensorRow]:
    """The rows of a step, of a batch norm also by the momentum of its statistics, which may not be recorded.

    A loss that is scaled by a count, and its gradients, are no difference where those that the update uses are equal. Of
    micro-batches, by whose sizes a program divides, it is enough that one of these is, in this step or, as ``scaled`` holds, in one
    before.
    """
    rows = [replace(row, differs=True) if momenta(row) else row for row in rows]
    used = [row for row in rows if row.any.kind == IN_STEP]
    equal = {row.any.name for row in used if not row.differs}
    if scaled is not None and any(not row.differs and row.any.figures.get("norm") for row in used):
        scaled.add(LOSS)
    equal |= {LOSS} if len(equal) == len(used) > 0 else scaled or set()
    for place, row in enumerate(rows):
        if _one_element_less(row, rows):
            rows[place] = _no_difference(row, tr("Torch divides a running variance by one element less"))
        name = LOSS if scales_loss(row.any) else row.any.name if row.any.kind in ("gradient", LOSS) else ""
        factor = factor_of(row) if row.differs and name in equal else None
        if factor is not None and (row.any.size > 1 or scaled is not None or counted(factor)):
            rows[place] = _no_difference(row, tr("of a scaled loss; equal as the update uses them"))
    return rows


def _one_element_less(row: TensorRow, rows: Sequence[TensorRow]) -> bool:
    """Whether a running variance differs by no more than Torch, which divides a batch's by one element less, has it rightly."""
    sides = {side.name.rpartition(".")[2]: side for side in (row.a, row.b) if side is not None}
    if sides.keys() != {*VARIANCES}:
        return False
    layer = row.any.name.rpartition(".")[0]
    made = [part for other in rows if other.any.layer == layer for part in other.any.parts_known]
    counts = [part.size // row.any.size for part in made if part.size > 2 * row.any.size]
    norms = [np.array(sides[name].figures.get("norm", 0.0)) for name in VARIANCES]
    paddles, torchs = (norm if (own := wide(sides[name])) is None else own for norm, name in zip(norms, VARIANCES))
    more = torchs - paddles
    return bool(counts) and bool(np.all((more >= -_ROUNDED * paddles) & (more <= (1 / (min(counts) - 1) + _ROUNDED) * paddles)))


def _put_right(rows: list[TensorRow], *, crossing: bool) -> list[TensorRow]:
    """A step's rows, where calls of two frameworks may compute in their own ways what a layer returns."""
    covered = WholeResults([(row, False) for row in rows], crossing=True).covered() if crossing else [False] * len(rows)
    words = tr("computed otherwise; what the layer returns is equal")
    return [_no_difference(row, words) if right else row for row, right in zip(rows, covered)]


def _no_difference(row: TensorRow, why: str) -> TensorRow:
    """A row whose values differ rightly."""
    apart = None if row.apart is None else replace(row.apart, relative=0.0)
    return replace(row, apart=apart, differs=False, joined=why)


def _settle_orders(difference: Difference, *parts: list[TensorRow]) -> None:
    """Have fingerprints of a step equal whose layers have the same elements in another order, as fused ones may, where the layer
    around them returns the same."""
    if not difference.fingerprints:
        return
    returned = [row for rows in parts for row in rows if row.any.kind == "layer"]
    same = {row.any.layer for row in returned if not row.differs}
    layers = {row.any.layer for row in returned if row.differs and row.any.layer.rpartition(".")[0] in same}
    for rows in parts:
        for place, row in enumerate(rows):
            layer = row.any.name.rpartition(".")[0] if is_weight(row.any) else row.any.layer if row.any.kind == "layer" else None
            if row.differs and row.a and row.b and layer in layers and same_elements([row.a], [row.b]):
                rows[place] = replace(row, differs=False, joined=tr("the elements in any order"))


def _backwards(rows: Iterable[TensorRow]) -> list[TensorRow]:
    """The rows with gradients in the order of a backward, from the last parameter to the first: so that the first one that differs
    is the nearest to the reason."""
    ordered: list[TensorRow] = []
    for kind, group in itertools.groupby(rows, key=lambda row: row.any.kind):
        run = list(group)
        ordered += run[::-1] if kind in ("gradient", IN_STEP) else run
    return ordered


def _row(rank: int, a: Tensor | None, b: Tensor | None, tolerances: EqualWithin, partners: ExpectedPartners) -> TensorRow:
    if a is None or b is None:
        return TensorRow(rank, a, b, None, partners.lacking(a, b))
    return tensor_row(rank, a, b, tolerances)


def _parameter_key(tensor: Tensor) -> Any:
    return parameter_name(tensor.name), tensor.tensor, tensor.step


def _layer_key(first: Sequence[Tensor], second: Sequence[Tensor]) -> Callable[[Tensor], Any]:
    """What a layer's result goes by: its path, where both runs call it as often, and it is no number in a list, nor the model
    itself, which may be others in the other run, as stages of a pipeline."""
    counts = [Counter(tensor.layer for tensor in side) for side in (first, second)]
    often = [path for path, count in counts[0].items() if counts[1][path] == count]
    named = {path for path in often if path and not path.rpartition(".")[2].isdigit()}
    return lambda tensor: (tensor.layer, tensor.size, tensor.step) if tensor.layer in named else id(tensor)


def _by_name(first: Sequence[Tensor], second: Sequence[Tensor], key: Callable[[Tensor], Any]) -> list[Pair]:
    """Tensors of one key; those without a namesake by shape and values."""
    keyed, others = (numbered(side, key) for side in (first, second))
    waiting = dict(others)
    pairs: list[Pair] = [(tensor, waiting.pop(key, None)) for key, tensor in keyed]
    left = [a for a, b in pairs if a is not None and b is None]
    return [pair for pair in pairs if pair[1] is not None] + align(left, list(waiting.values()))


def _ordered(pairs: list[Pair]) -> list[Pair]:
    """In the order of the first run; tensors that only the second has come behind their neighbour there."""
    partners = {b.index: a.index for a, b in pairs if a is not None and b is not None}
    place, before = {}, -1
    for index in sorted(b.index for _, b in pairs if b is not None):
        before = place[index] = partners.get(index, before)
    keyed: list[tuple[tuple[int, int, int], Pair]] = []
    for a, b in pairs:
        if a is not None:
            keyed.append(((a.index, 0, 0), (a, b)))
        elif b is not None:
            keyed.append(((place[b.index], 1, b.index), (a, b)))
    return [pair for _, pair in sorted(keyed, key=lambda entry: entry[0])]
