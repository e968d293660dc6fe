"""The ranks of a distributed run as a single run: which of their tensors belong together, and what each rank holds."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..runlog.events import IN_STEP, LOSS, NAMED, STATE, JsonTable
from .fusions import PartTensor, take_apart
from .numbering import NameMap, Numbers, numbers_by_stage, numbers_of, renumbered, wrapped
from .reading import Recorded, RecordedStep
from .settings import ByName
from .shards import FusedAxis, RankTensor, ShardRules, Way, whole_shape
from .tensors import INPUT, NORM, WEIGHT, Tensor, is_weight, parameter_name

_WRAPPERS = re.compile(r"^(?:(?:_layers|module)(?:\.|$))+")  # DataParallel's and DistributedDataParallel's names for the model
_Key = tuple[tuple[Any, ...], int]  # what makes tensors of ranks belong together, and which of those of a step it is
Groups = tuple[tuple[int, ...], ...]  # ranks that read the same data, a tuple for each share of the data


def weight_name(name: str) -> str:
    """The name of a parameter or buffer in the model itself, running statistics as Torch calls them."""
    return parameter_name(_WRAPPERS.sub("", name))


@dataclass
class RankLayout:
    """What is known of how a run lies on its ranks.

    Attributes:
        groups: ranks that read the same data, a tuple for each share of the data.
        owners: layers with a weight that is split along its rows or its vocabulary: calls in them make partial sums.
        marks: name of a weight -> the axis along which the program says that it is split.
        holders: name of a weight -> the ranks that have it.
        numbers: rank -> numbers of its layers in the whole model, where it counts its own.
        renamed: path of a layer -> that in the other run, where one of both has a layer around it.
        stages: rank -> its stage of a pipeline: ranks of different stages hardly have a weight in common.
        strangers: ranks that read other data than the first of their group, which holds slices of the same layers.
        micro_batches: into how many a step's batch is divided, where the other run divides it otherwise.
    """

    groups: Groups
    owners: set[str] = field(default_factory=set)
    marks: dict[str, int] = field(default_factory=dict)
    holders: dict[str, tuple[int, ...]] = field(default_factory=dict)
    numbers: dict[int, Numbers] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    stages: dict[int, int] = field(default_factory=dict)
    strangers: list[int] = field(default_factory=list)
    micro_batches: int = 1


class JoinedRun:
    """The recordings of all ranks of a run, read as a single one; has what is read of :class:`~.reading.Recorded`.

    Args:
        ranks: rank -> its recording.
        rules: what the user says of splits.
        names: what the user says of names; of the other run where it is this one's.
        groups: ranks that read the same data, where that is known; else the recordings tell.
    """

    def __init__(self, ranks: Mapping[int, Recorded], rules: ShardRules, names: NameMap, groups: Groups = ()) -> None:
        self.ranks, self._rules, self._names, self._groups = ranks, rules, names, groups
        self._paths: dict[tuple[int, str], str] = {}
        first = ranks[min(ranks)]
        self.rank, self.framework, self.header = first.rank, first.framework, first.header
        self._begun = {rank: next(recorded.steps(), RecordedStep(0)) for rank, recorded in ranks.items()}
        self.layout = RankLayout((tuple(ranks),), stages=dict.fromkeys(ranks, 0))
        self.turned = False  # rules mean Paddle's layout, and matrices lie transposed here
        self._index = 0
        self._batch_calls: dict[tuple[Any, ...], int] = {}
        self._settings_of: dict[int, tuple[Any, ByName]] = {}  # as read, and by the names of the whole model
        self._sharing: set[tuple[str, int]] = set()

    @property
    def broken(self) -> bool:
        """Whether a rank ended before the program's end, as far as it was read."""
        return any(recorded.broken for recorded in self.ranks.values())

    def kinds(self) -> set[str]:
        """The kinds of tensors that any rank has."""
        return set().union(*(recorded.kinds() for recorded in self.ranks.values()))

    def own_weights(self) -> dict[int, dict[str, Tensor]]:
        """Rank -> the weights with which it begins, by its own names and numbers."""
        return {
            rank: {self._names.path(weight_name(weight.name)): weight for weight in step.inputs if weight.tensor == WEIGHT}
            for rank, step in self._begun.items()
        }

    def weights(self) -> dict[str, Tensor]:
        """The weights with which the run begins, by their names in the whole model."""
        step = self._joined(self._begun)
        return {weight.name: weight for weight in step.inputs if weight.tensor == WEIGHT}

    def number(self, other: JoinedRun) -> None:
        """Learn which experts and which blocks of a pipeline each rank has."""
        stages = sent_stages(self._begun)
        split = any(recorded.header.get("split_axes") for run in (self, other) for recorded in run.ranks.values())
        if not split and any(stages.values()) and any(sent_stages(other._begun).values()):
            self.layout.numbers = numbers_by_stage(self.own_weights(), stages)
            return
        other_weights = {name: weight for weights in other.own_weights().values() for name, weight in weights.items()}
        self.layout.numbers = numbers_of(self.own_weights(), other_weights)

    def samples(self) -> list[frozenset[str]]:
        """Digests of the samples that calls of the first step read."""
        batches = []
        for tensor in self._joined(self._begun).inputs:
            parts = [part for row in tensor.parts for part in row] if isinstance(tensor, RankTensor) else [tensor]
            if tensor.tensor != WEIGHT and all(part.rows for part in parts):
                batches.append(frozenset(sample for part in parts for sample in part.rows))
        return batches

    def _numbered(self) -> dict[int, list[str]]:
        """Rank -> the names of its weights in the whole model."""
        return {
            rank: [self._path(rank, weight.name) for weight in step.inputs if weight.tensor == WEIGHT]
            for rank, step in self._begun.items()
        }

    def rename(self, other: JoinedRun) -> None:
        """Take over the other run's names of layers that differ from them by one layer around it."""
        own, others = (itertools.chain.from_iterable(run._numbered().values()) for run in (self, other))
        self.layout.renamed = wrapped(own, others)
        self._paths.clear()

    def settle(self) -> None:
        """Learn what each rank has, by the names of the whole model."""
        layout, names = self.layout, self._numbered()
        for rank, known in names.items():
            for name in known:
                layout.holders[name] = (*layout.holders.get(name, ()), rank)
            axes = self.ranks[rank].header.get("split_axes")
            for name, axis in axes.items() if isinstance(axes, Mapping) else ():
                whole = weight_name(self.ranks[rank].rooted(name))
                parts = [part for fusion in self.ranks[rank].fusions for part in fusion.names(whole)]
                layout.marks |= {self._path(rank, part): axis for part in parts or [whole] if type(axis) is int}
        layout.stages = _stages({rank: set(known) for rank, known in names.items()})

    def model_calls(self) -> int:
        """How often a step calls the whole model, or each of its layers where the program calls these, as far as was recorded."""
        counts = []
        for step in self._begun.values():
            returned = [tensor for tensor in step.tensors if tensor.kind == "layer"]
            if returned and not any(tensor.layer for tensor in returned):  # the program calls them all itself
                counts.append(math.gcd(*Counter((tensor.name, tensor.site) for tensor in returned).values()))
                continue
            layers = [Counter(tensor.name for tensor in step.tensors if tensor.kind == "layer" and not tensor.layer)]
            layers += [Counter(tensor.layer for tensor in step.tensors if tensor.kind == "layer")]
            counts.append(max(layers[0].values(), default=math.gcd(*layers[1].values())))
        return min(counts)

    def meet(self, other: JoinedRun) -> None:
        """Learn from the other run's weights which layers own a weight that is split along its rows or its vocabulary."""
        begun = [(rank, tensor) for rank, step in self._begun.items() for tensor in step.tensors if tensor.kind == "layer"]
        partners, classes = other.weights(), {self._path(rank, layer.layer): layer.name for rank, layer in begun}
        crossing, split = self.framework != other.framework, False
        for name, weight in self.weights().items():
            if not isinstance(weight, RankTensor) or len(weight.all_ranks) == 1:
                continue
            split = split or not weight.inner_equal
            owner = name.rpartition(".")[0]
            partner = partners.get(name)
            axis = weight.way if isinstance(weight.way, int) else None
            if axis is None and partner is not None:
                axis = split_axis(weight, partner, crossing=crossing)
            split = split or axis is not None
            if axis is not None and _sums(axis, len(weight.parts[0][0].shape), self.framework, classes.get(owner, owner)):
                self.layout.owners.add(owner)
        headers = {rank: recorded.header for rank, recorded in self.ranks.items()}
        self.layout.groups = mesh_groups(headers) or self._groups or _groups(self._begun, split=split)
        marked = [weight for name, weight in self.weights().items() if name in self.layout.marks and isinstance(weight, RankTensor)]
        slices = {partners[weight.name].size // weight.parts[0][0].size for weight in marked if weight.name in partners}
        if len(slices) == 1 and {len(group) for group in self.layout.groups} == {1}:  # slices of a layer read the same data
            (count,), ranks = slices, list(self.ranks)
            self.layout.groups = tuple(tuple(ranks[first : first + count]) for first in range(0, len(ranks), max(count, 1)))
        data = {rank: _data(step) for rank, step in self._begun.items()}
        stages = self.layout.stages  # each reads data of its own, as labels
        self.layout.strangers = [
            rank
            for ranks in self.layout.groups
            for rank in ranks
            if not _alike(data[rank], data[next(other for other in ranks if stages[other] == stages[rank])], split=True)
        ]

    def _path(self, rank: int, path: str) -> str:
        """A layer's path, or a weight's name, in the whole model and by the other run's names."""
        known = self._paths.get((rank, path))
        if known is None:
            known = renumbered(self._names.path(weight_name(path)), self.layout.numbers.get(rank, {}))
            for end in (known, *(known[: match.start()] for match in reversed(list(re.finditer(r"\.", known))))):
                if end in self.layout.renamed:
                    known = self.layout.renamed[end] + known[len(end) :]
                    break
            self._paths[rank, path] = known
        return known

    def _name(self, rank: int, tensor: Tensor) -> str:
        return self._path(rank, tensor.name) if is_weight(tensor) else tensor.name

    def steps(self) -> Iterator[RecordedStep]:
        """The steps in their order, with the tensors of all ranks that recorded it."""
        self._index = 0
        running = {rank: recorded.steps() for rank, recorded in self.ranks.items()}
        waiting = {rank: step for rank, steps in running.items() if (step := next(steps, None)) is not None}
        while waiting:
            number = min(step.step for step in waiting.values())
            here = {rank: step for rank, step in waiting.items() if step.step == number}
            yield self._joined(here)
            for rank in here:
                step = next(running[rank], None)
                if step is None:
                    del waiting[rank]
                else:
                    waiting[rank] = step

    def _joined(self, steps: Mapping[int, RecordedStep]) -> RecordedStep:
        """One step of all ranks."""
        sequences = {rank: self._keyed(rank, step) for rank, step in steps.items()}
        keys = list(_in_order([list(sequence) for sequence in sequences.values()]))
        if len(set(self.layout.stages.values())) > 1:  # a later stage's forward runs before an earlier one's backward
            keys = _forward_first(keys, 1 if self.layout.micro_batches > 1 else self.model_calls())
        self._sharing = self._updating_shares(sequences)
        whole = RecordedStep(
            min(step.step for step in steps.values()),
            settings=[self._settings(*known) for step in steps.values() for known in step.settings],
        )
        for key in keys:
            tensor = self._tensor({rank: sequence[key] for rank, sequence in sequences.items() if key in sequence})
            (whole.inputs if tensor.kind == INPUT else whole.tensors).append(tensor)
        return whole

    def _settings(self, rank: int, known: ByName) -> tuple[int, ByName]:
        """Those of one rank, by the names of the whole model."""
        if self._settings_of.get(rank, ((), ()))[0] is not known:
            self._settings_of[rank] = known, {self._path(rank, name): settings for name, settings in known.items()}
        return rank, self._settings_of[rank][1]

    def _keyed(self, rank: int, step: RecordedStep) -> dict[_Key, list[Tensor]]:
        """What a rank recorded in a step, in its order, by what makes tensors of ranks and of micro-batches belong together."""
        model = max((match[0] for tensor in step.tensors if (match := _WRAPPERS.match(tensor.layer))), key=len, default="")
        stage, sequences = self.layout.stages.get(rank, 0), defaultdict[tuple[Any, ...], list[Tensor]](list)
        order: list[tuple[tuple[Any, ...], int]] = []
        for tensor in sorted((*step.inputs, *step.tensors), key=lambda tensor: tensor.index):
            if tensor.kind == "layer" and len(tensor.layer) < len(model.rstrip(".")) and model.startswith(tensor.layer):
                continue  # the wrapper returns what the model has returned
            if tensor.kind == LOSS and tensor.size > 1 and len(set(self.layout.stages.values())) > 1:
                continue  # a stage's backward begins with what its forward has returned
            where = -1 if is_weight(tensor) else stage
            line = tensor.site if tensor.kind == "op" and not tensor.layer else ""  # calls of several lines are no micro-batches
            key = tensor.kind, self._name(rank, tensor), self._path(rank, tensor.layer), tensor.tensor, where, line
            order.append((key, len(sequences[key])))
            sequences[key].append(tensor)
        keyed: dict[_Key, list[Tensor]] = {}
        # Calls before the first layer, as of an average of weights, are none of a micro-batch.
        layered = any(tensor.layer for begun in self._begun.values() for tensor in begun.tensors)
        first = min((tensor.index for tensor in step.tensors if tensor.layer), default=math.inf if layered else -1)
        for key, number in order:
            count, batches = len(sequences[key]), self.layout.micro_batches
            batches = 1 if key[0] == "op" and sequences[key][number].index < first else batches
            if batches > 1 and key[0] == "gradient":  # each backward adds to it
                if number == count - 1:
                    keyed[key, 0] = [sequences[key][-1]]
            elif batches > 1 and key[0] not in NAMED and (calls := self._calls_of_batch(key, count)):
                keyed.setdefault((key, number % calls), []).append(sequences[key][number])
            else:
                keyed[key, number] = [sequences[key][number]]
        return keyed

    def _calls_of_batch(self, key: tuple[Any, ...], count: int) -> int:
        """How many of so many calls a micro-batch makes, of which a later step may have fewer; 0 where they are not divided."""
        calls = self._batch_calls.setdefault(key, 0 if count % self.layout.micro_batches else count // self.layout.micro_batches)
        return 0 if not calls or count % calls else calls

    def _tensor(self, parts: Mapping[int, list[Tensor]]) -> Tensor:
        """The tensors of some ranks, one for each micro-batch, as one."""
        self._index += 1
        rank, (first, *others) = next(iter(parts.items()))
        layer, weight = self._path(rank, first.layer), is_weight(first)
        names = (self._name(rank, first),) if weight else first.names
        if len(self.ranks) == 1 and not others:
            return dataclasses.replace(first, index=self._index, layer=layer, names=names, weight=self._path(rank, first.weight))
        groups = [row for group in self.layout.groups if (row := tuple(rank for rank in group if rank in parts))]
        if len({len(row) for row in groups}) > 1:
            groups = [tuple(parts)]
        rows = [(row, batch) for row in groups for batch in range(min(len(parts[rank]) for rank in row))]
        known = {entry.name: getattr(first, entry.name) for entry in dataclasses.fields(Tensor)}
        known |= {"index": self._index, "layer": layer, "names": names, "_at": None}
        known["weight"] = self._path(rank, first.weight)
        return RankTensor(
            **known,
            parts=tuple(tuple(parts[rank][batch] for rank in row) for row, batch in rows),
            ranks=tuple(row for row, _ in rows),
            way=self._way(first, names[0], layer),
            partial=layer in self.layout.owners,
            missing=self._missing(first, names[0], parts),
        )

    def _updating_shares(self, sequences: Mapping[int, Mapping[_Key, list[Tensor]]]) -> set[tuple[str, int]]:
        """Kinds and ranks that update parameters for others, which have them too, as with sharded optimizer states."""
        updated: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
        for rank, sequence in sequences.items():
            for tensors in sequence.values():
                if tensors[0].kind in (IN_STEP, STATE):
                    updated[tensors[0].kind, self._name(rank, tensors[0])].add(rank)
        return {
            (kind, rank)
            for (kind, name), ranks in updated.items()
            if set(self.layout.holders.get(name, ())) - ranks
            for rank in ranks
        }

    def _missing(self, tensor: Tensor, name: str, parts: Mapping[int, list[Tensor]]) -> tuple[int, ...]:
        """Ranks that should have recorded a tensor too: those with the weight, and for what a program notes those of the stage."""
        others: Sequence[int] = ()
        if tensor.kind in NAMED:
            holders = self.layout.holders.get(name, ())
            others = [rank for rank in holders if (tensor.kind, rank) not in self._sharing]
        elif tensor.kind == "note":
            stages = {self.layout.stages[rank] for rank in parts}
            others = [rank for rank, stage in self.layout.stages.items() if stage in stages]
        else:  # where a process was killed
            stages = {self.layout.stages[rank] for rank in parts}
            others = [rank for rank, recorded in self.ranks.items() if recorded.holes and self.layout.stages[rank] in stages]
        return tuple(rank for rank in others if rank not in parts)

    def _way(self, tensor: Tensor, name: str, layer: str) -> Way | None:
        """A rule of the user, or else a mark of the program."""
        weight, own = is_weight(tensor), [tensor, *([tensor.whole] if isinstance(tensor, PartTensor) and tensor.whole else [])]
        if tensor.kind == INPUT and not weight:
            return None
        if weight:
            way = self._rules.way(name, *(weight_name(known.name) for known in own))
        else:
            paths = [known.layer for known in own]
            way = self._rules.way(tensor.name) if tensor.kind == "note" else self._rules.way(layer, *paths)
        if isinstance(way, FusedAxis) and isinstance(tensor, PartTensor):
            way = int(way)
        if (
            weight
            and self.turned
            and isinstance(way, int)
            and len(tensor.shape) == 2
            and "emb" not in f"{name}{tensor.name}".lower()
        ):
            other_axis = 1 - way % 2
            return FusedAxis.along(other_axis, way.proportions) if isinstance(way, FusedAxis) else other_axis
        return self.layout.marks.get(name) if way is None and weight else way


def join(
    a: Mapping[int, Recorded], b: Mapping[int, Recorded], rules: ShardRules, names: NameMap, groups: Groups = ()
) -> tuple[JoinedRun, JoinedRun]:
    """Two runs whose tensors are put together, each as the other has them.

    Args:
        a, b: rank -> its recording.
        rules: what the user says of splits.
        names: of a's layers in b.
        groups: ranks of a that read the same data, where that is known.
    """
    take_apart(list(a.values()), list(b.values()))
    runs = JoinedRun(a, rules, names, groups), JoinedRun(b, rules, NameMap(None))
    both = runs, runs[::-1]
    for run, other in both:
        run.turned = run.framework == "torch" and other.framework == "paddle"
        run.number(other)
    runs[0].rename(runs[1])
    for run in runs:
        run.settle()
    for run, other in both:
        run.meet(other)
    _join_micro_batches(*runs)
    return runs


def _join_micro_batches(first: JoinedRun, second: JoinedRun) -> None:
    """Put all calls of the model in a step together, where those of both runs are not as many, or read other samples.

    Where that makes no equal batches, as with a call for a validation, those of the run with more calls are divided.
    """
    calls = max(1, first.model_calls()), max(1, second.model_calls())
    shares = [len(run.layout.groups) for run in (first, second) if any(known.has_fingerprints for known in run.ranks.values())]
    regrouped = calls[0] > 1 and len({*shares}) > 1  # of fingerprints samples are not known
    if calls[0] == calls[1] and not regrouped and _same_batches(first.samples(), second.samples()):
        return
    first.layout.micro_batches, second.layout.micro_batches = calls
    if not _same_batches(first.samples(), second.samples()):
        for run, own, others in ((first, *calls), (second, *calls[::-1])):
            run.layout.micro_batches = own // others if not own % others else 1


def _same_batches(first: Sequence[frozenset[str]], second: Sequence[frozenset[str]]) -> bool:
    """Whether calls of both runs read the same samples, as far as both read any; ``True`` where their steps do not, either."""
    steps = frozenset[str]().union(*first), frozenset[str]().union(*second)
    common = steps[0] & steps[1]
    batches = [{samples & common for samples in batches} - {frozenset()} for batches in (first, second)]
    return batches[0] == batches[1] or not common or common not in steps


def split_axis(weight: RankTensor, partner: Tensor, *, crossing: bool) -> int | None:
    """The axis along which ranks hold slices of a weight, by its partner's shape; None if they do not, or where it has none."""
    way = whole_shape(weight, partner, crossing=crossing)
    return next((step for step in (way.inner, way.outer) if isinstance(step, int)), None) if way is not None else None


def _sums(axis: int, dimensions: int, framework: str, kind: str) -> bool:
    """Megatron's rule: whether ranks that hold slices of a matrix along this axis make partial sums.

    So they do if they hold some of its inputs (Paddle's Linear has ``[in, out]``, Torch's ``[out, in]``), or of a vocabulary.
    """
    if dimensions != 2:
        return False
    embedding = "emb" in kind.lower()
    return axis % 2 == (0 if framework == "paddle" or embedding else 1)


def sent_stages(steps: Mapping[int, RecordedStep]) -> dict[int, int]:
    """Rank -> its stage of a pipeline, by which ranks read what others have made; 0 for all where two read each other's."""
    made = {rank: {tensor.digest for tensor in step.tensors if tensor.kind in ("op", "layer")} for rank, step in steps.items()}
    read = {rank: {tensor.digest for tensor in step.inputs if tensor.tensor != WEIGHT} for rank, step in steps.items()}
    for rank, step in steps.items():
        read[rank] |= {operand.digest for tensor in step.tensors if tensor.reads is not None for operand in tensor.reads.operands}
    before = {rank: [other for other in steps if other != rank and read[rank] & (made[other] - made[rank])] for rank in steps}
    stages = dict.fromkeys(steps, 0)
    for _ in steps:
        stages = {rank: max((stages[other] + 1 for other in others), default=0) for rank, others in before.items()}
    return stages if max(stages.values(), default=0) < len(steps) else dict.fromkeys(steps, 0)


def _stages(names: Mapping[int, set[str]]) -> dict[int, int]:
    """Rank -> its stage of a pipeline: that of an earlier rank which has half of the weights of the smaller of both.

    Experts say nothing: each rank of a stage has its own.
    """
    common = {rank: {name for name in own if "expert" not in name.lower()} for rank, own in names.items()}
    stages: dict[int, int] = {}
    for rank, own in common.items():
        near = (stage for other, stage in stages.items() if 2 * len(own & common[other]) >= min(len(own), len(common[other])))
        stages[rank] = next(near, len(set(stages.values())))
    return stages


_PHASES = {"gradient": 1, IN_STEP: 2}


def _forward_first(keys: Sequence[_Key], calls: int) -> list[_Key]:
    """Keys in the order of a step: parameters as it begins, its forward, gradients, and what its end has left.

    ``calls``: so often a step calls the model, for one micro-batch after the other; a stage calls its layers for all of them first.
    """
    phases, begun, counts = [], False, Counter(key[0] for key in keys)
    for what, number in keys:
        begun = begun or what[0] not in NAMED
        phase = 2 if what[1] == NORM else _PHASES.get(what[0], 3 if begun and what[0] in NAMED else 0)
        batch = number * calls // counts[what] if not phase and calls and not counts[what] % calls else 0
        phases.append((phase, batch))
    return [key for _, key in sorted(zip(phases, keys), key=lambda entry: entry[0])]


def _in_order(sequences: Sequence[Sequence[_Key]]) -> Iterator[_Key]:
    """All keys of several sequences, each once; what only a later sequence has stands before what follows it there."""
    merged: list[_Key] = list(sequences[0])
    for sequence in sequences[1:]:
        known, behind = set(merged), list[_Key]()
        before: defaultdict[_Key, list[_Key]] = defaultdict(list)
        for key in sequence:
            if key in known:
                before[key], behind = behind, []
            else:
                behind.append(key)
        merged = [*(entry for key in merged for entry in (*before[key], key)), *behind]
    yield from merged


def mesh_groups(headers: Mapping[int, JsonTable]) -> Groups:
    """Ranks that read the same data by their places in fleet's mesh; none where they were not recorded or groups have other sizes.

    >>> mesh_groups({rank: {"mesh": {"data": rank // 2, "sharding": 0, "stage": 0, "model": rank % 2}} for rank in range(4)})
    ((0, 1), (2, 3))
    """
    shares: defaultdict[tuple[Any, Any], list[int]] = defaultdict(list)
    for rank, header in headers.items():
        mesh = header.get("mesh")
        if not isinstance(mesh, Mapping):
            return ()
        shares[mesh.get("data"), mesh.get("sharding")].append(rank)
    groups = tuple(tuple(ranks) for ranks in shares.values())
    return groups if len({len(group) for group in groups}) == 1 else ()


def _groups(steps: Mapping[int, RecordedStep], *, split: bool) -> Groups:
    """Ranks that read the same data, by the digests of their forward's inputs.

    If weights are ``split``, calls may also read what a rank has made of its place among the others, as its part of a vocabulary:
    there most of what two ranks read has to be the same, and else all.
    """
    shares: list[tuple[frozenset[str], list[int]]] = []
    for rank, step in steps.items():
        data = _data(step)
        for known, ranks in shares:
            if _alike(data, known, split=split):
                ranks.append(rank)
                break
        else:
            shares.append((data, [rank]))
    groups = tuple(tuple(ranks) for _, ranks in shares)
    return groups if len({len(group) for group in groups}) == 1 else tuple((rank,) for rank in steps)


def _alike(data: frozenset[str], other: frozenset[str], *, split: bool) -> bool:
    return data == other or (split and 2 * len(data & other) > max(len(data), len(other)))


def _data(step: RecordedStep) -> frozenset[str]:
    """Digests of the data of a step: no single numbers and no truth values, and nothing that a backward begins with or has made."""
    last = max((tensor.index for tensor in step.tensors if tensor.kind == "layer"), default=math.inf)
    last = min(last, min((tensor.index for tensor in step.tensors if tensor.kind == "gradient"), default=math.inf))
    data = (tensor for tensor in step.inputs if tensor.tensor != WEIGHT and tensor.size > 1 and tensor.dtype != "bool")
    return frozenset(tensor.digest for tensor in data if tensor.index < last)
