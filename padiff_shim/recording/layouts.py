"""How a run lies on its ranks: one table, filled from what the user declares, what the program marks, and else its first step.

docs/architecture.md ("Ranks") draws it. Only fleet's own layers mark anything: for layers that are split by hand, data parallelism
by ``all_reduce`` and Torch's programs everything is learnt from weights and data, or they could not be compared.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

from ..errors import ArgumentError, described
from ..runlog.events import IN_STEP, NAMED, STATE
from ..text import tr
from .fusions import PartTensor
from .names import NameMap, wrapped
from .numbering import Numbers, numbers_of, renumbered
from .reading import Recorded, RecordedStep
from .tensors import INPUT, WEIGHT, Tensor, is_weight, parameter_name
from .whole_tensors import MEAN, REPLICATE, SUM, FusedAxis, RankTensor, Way, whole_shape

AUTO = "auto"
WRAPPERS = re.compile(r"^(?:(?:_layers|module)(?:\.|$))+")  # DataParallel's and DistributedDataParallel's names for the model
Groups = tuple[tuple[int, ...], ...]  # ranks that read the same data, a tuple for each share of the data


def weight_name(name: str) -> str:
    """The name of a parameter or buffer in the model itself, running statistics as Torch calls them."""
    return parameter_name(WRAPPERS.sub("", name))


class ShardRules:
    """What the user says of splits: pattern -> axis, ``"AXIS:SIZE:SIZE..."``, ``"sum"``, ``"mean"`` or ``"replicate"``.

    Sizes are proportions of tensors that lie fused along the axis, as query, key and value do.

    A pattern (``*`` and ``?`` as in file names) is matched with names of parameters and notes, and with the paths of layers, for
    what they return and for the calls in them. The last pattern that matches counts.

    Raises:
        ArgumentError: it is no such table.
    """

    def __init__(self, rules: Mapping[str, Way] | str) -> None:
        table = {} if isinstance(rules, str) and rules == AUTO else rules
        if not isinstance(table, Mapping):
            raise ArgumentError(
                tr("shards= is {auto} or a table of patterns, got {rules}", auto=repr(AUTO), rules=described(rules))
            )
        self._rules: dict[str, Way] = {}
        for pattern, way in table.items():
            axis = isinstance(way, int) and not isinstance(way, bool)
            fused = FusedAxis.of(way) if isinstance(way, str) else None
            if not isinstance(pattern, str) or not pattern or not (axis or fused is not None or way in (SUM, MEAN, REPLICATE)):
                entry = f"{described(pattern)}: {described(way)}"
                raise ArgumentError(
                    tr("shards= maps patterns to an axis, 'AXIS:SIZE:SIZE', 'sum', 'mean' or 'replicate', got {entry}", entry=entry)
                )
            self._rules[pattern] = way if fused is None else fused
        self.used: set[str] = set()

    def way(self, *names: str) -> Way | None:
        """That of a parameter, a note, or a layer's path, by any of its names; None where no pattern matches."""
        for pattern in reversed(self._rules):
            if any(fnmatch.fnmatchcase(name, pattern) for name in names):
                self.used.add(pattern)
                return self._rules[pattern]
        return None

    @property
    def unused(self) -> list[str]:
        """Patterns that nothing has matched."""
        return [pattern for pattern in self._rules if pattern not in self.used]


class RankLayout:
    """What is known of how a run lies on its ranks.

    Args:
        ranks: rank -> its recording.
        rules: what the user says of splits.
        names: what the user says of names; of the other run where it is this one's.
        groups: ranks that read the same data, where that is known.

    Attributes:
        begun: rank -> its first step.
        groups: ranks that read the same data, a tuple for each share of the data.
        stages: rank -> its stage of a pipeline.
        marks: name of a weight -> the axis along which the program says that it is split.
        holders: name of a weight -> the ranks that have it.
        owners: layers with a weight that is split along its rows or its vocabulary: calls in them make partial sums.
        strangers: ranks that read other data than the first of their group, which holds slices of the same layers.
        turned: rules mean Paddle's layout, and matrices lie transposed here.
    """

    def __init__(self, ranks: Mapping[int, Recorded], rules: ShardRules, names: NameMap, groups: Groups = ()) -> None:
        self.ranks, self._rules, self._names, self._declared_groups = ranks, rules, names, groups
        self.framework = ranks[min(ranks)].framework
        self.begun = {rank: next(recorded.steps(), RecordedStep(0)) for rank, recorded in ranks.items()}
        self.groups: Groups = (tuple(ranks),)
        self.stages = dict.fromkeys(ranks, 0)
        self.marks: dict[str, int] = {}
        self.holders: dict[str, tuple[int, ...]] = {}
        self.owners: set[str] = set()
        self.strangers: list[int] = []
        self.turned = False
        self._numbers: dict[int, Numbers] = {}  # of layers in the whole model, where ranks count their own
        self._renamed: dict[str, str] = {}  # path of a layer -> that in the other run, where one of both has a layer around it
        self._paths: dict[tuple[int, str], str] = {}
        self._sharing: set[tuple[str, int]] = set()  # kinds and ranks that update parameters for others in this step

    def path(self, rank: int, path: str) -> str:
        """A layer's path, or a weight's name, in the whole model and by the other run's names, as far as these are known."""
        known = self._paths.get((rank, path))
        if known is None:
            known = renumbered(self._names.path(weight_name(path)), self._numbers.get(rank, {}))
            for end in (known, *(known[: match.start()] for match in reversed(list(re.finditer(r"\.", known))))):
                if end in self._renamed:
                    known = self._renamed[end] + known[len(end) :]
                    break
            self._paths[rank, path] = known
        return known

    def name(self, rank: int, tensor: Tensor) -> str:
        """That of a tensor in the whole model."""
        return self.path(rank, tensor.name) if is_weight(tensor) else tensor.name

    def weights_of_ranks(self) -> dict[int, dict[str, Tensor]]:
        """Rank -> the weights with which it begins, by their names in the whole model as far as these are known."""
        return {
            rank: {self.path(rank, weight.name): weight for weight in step.inputs if weight.tensor == WEIGHT}
            for rank, step in self.begun.items()
        }

    def weights(self) -> dict[str, Tensor]:
        """The weights with which the run begins, by their names in the whole model."""
        parts = defaultdict[str, dict[int, list[Tensor]]](dict)
        for rank, weights in self.weights_of_ranks().items():
            for name, weight in weights.items():
                parts[name][rank] = [weight]
        return {name: self.placed(ranks, 0) for name, ranks in parts.items()}

    # ---- What the first steps of both runs tell

    def numbers(self, other: RankLayout) -> dict[int, Numbers]:
        """Rank -> the numbers in the whole model of its layers, which are experts and blocks of a pipeline."""
        stages = sent_stages(self.begun)
        split = any(recorded.header.get("split_axes") for run in (self, other) for recorded in run.ranks.values())
        alone = not split and any(stages.values()) and any(sent_stages(other.begun).values())
        whole = {name: weight for weights in other.weights_of_ranks().values() for name, weight in weights.items()}
        return numbers_of(self.weights_of_ranks(), whole, stages if alone else None)

    def renumber(self, numbers: dict[int, Numbers]) -> None:
        """Count the layers of each rank as the whole model does."""
        self._numbers = numbers
        self._paths.clear()

    def rename(self, layers: dict[str, str]) -> None:
        """Take over the other run's names of layers that differ from them by one layer around it."""
        self._renamed = layers
        self._paths.clear()

    def settle(self) -> None:
        """Learn what each rank has, by the names of the whole model."""
        weights = self.weights_of_ranks()
        for rank, names in weights.items():
            for name in names:
                self.holders[name] = (*self.holders.get(name, ()), rank)
            axes = self.ranks[rank].header.get("split_axes")
            for name, axis in axes.items() if isinstance(axes, Mapping) else ():
                whole = weight_name(self.ranks[rank].rooted(name))
                parts = [part for fusion in self.ranks[rank].fusions for part in fusion.names(whole)]
                self.marks |= {self.path(rank, part): axis for part in parts or [whole] if type(axis) is int}
        marked = {rank: stage for rank, (stage,) in self._in_mesh("stage").items()}
        self.stages = marked if len({*marked.values()}) > 1 else _stages({rank: {*names} for rank, names in weights.items()})

    def meet(self, other: RankLayout) -> None:
        """Learn from the other run's weights which layers own a weight that is split along its rows or its vocabulary, and from
        the data which ranks read the same."""
        layers = [(rank, tensor) for rank, step in self.begun.items() for tensor in step.tensors if tensor.kind == "layer"]
        partners, classes = other.weights(), {self.path(rank, layer.layer): layer.name for rank, layer in layers}
        split, slices = False, set[int]()
        for name, weight in self.weights().items():
            if not isinstance(weight, RankTensor):
                continue
            partner = partners.get(name)
            if partner is not None and name in self.marks:
                slices.add(partner.size // weight.parts[0][0].size)
            if len(weight.all_ranks) == 1:
                continue
            axis = weight.way if isinstance(weight.way, int) else None
            if axis is None and partner is not None:
                joint = whole_shape(weight, partner, crossing=self.framework != other.framework)
                ways = () if joint is None else (joint.inner, joint.outer)
                axis = next((way for way in ways if isinstance(way, int)), None)
            split = split or axis is not None or not weight.inner_equal
            owner = name.rpartition(".")[0]
            if axis is not None and _sums(axis, len(weight.parts[0][0].shape), self.framework, classes.get(owner, owner)):
                self.owners.add(owner)
        data = {rank: _data(step) for rank, step in self.begun.items()}
        self.groups = self._groups_of_data(data, split=split)
        if len(slices) == 1 and {len(group) for group in self.groups} == {1}:  # slices of a layer read the same data
            (count,), ranks = slices, list(self.ranks)
            self.groups = tuple(tuple(ranks[first : first + count]) for first in range(0, len(ranks), max(count, 1)))
        self.strangers = [
            rank
            for ranks in self.groups
            for rank in ranks  # each stage reads data of its own, as labels
            if not _alike(data[rank], data[next(near for near in ranks if self.stages[near] == self.stages[rank])], split=True)
        ]

    def _in_mesh(self, *axes: str) -> dict[int, tuple[int, ...]]:
        """Rank -> its places along axes of fleet's mesh; nothing where a rank has recorded none."""
        meshes = {rank: recorded.header.get("mesh") for rank, recorded in self.ranks.items()}
        marked = {rank: tuple(mesh.get(axis, 0) for axis in axes) for rank, mesh in meshes.items() if isinstance(mesh, Mapping)}
        return marked if len(marked) == len(meshes) else {}

    def _groups_of_data(self, data: Mapping[int, frozenset[str]], *, split: bool) -> Groups:
        """Ranks that read the same data: by their places in fleet's mesh, as was declared, or by the digests of what their forward
        reads; each alone where groups would have other sizes.

        If weights are ``split``, calls may also read what a rank has made of its place among the others, as its part of a
        vocabulary: there most of what two ranks read has to be the same, and else all.
        """
        meshed, alike = defaultdict[tuple[int, ...], list[int]](list), list[list[int]]()
        for rank, place in self._in_mesh("data", "sharding").items():
            meshed[place].append(rank)
        for rank, digests in data.items():
            near = next((ranks for ranks in alike if _alike(digests, data[ranks[0]], split=split)), None)
            if near is None:
                alike.append([rank])
            else:
                near.append(rank)
        choices = (tuple(map(tuple, meshed.values())), self._declared_groups, tuple(map(tuple, alike)))
        return next((groups for groups in choices if len({*map(len, groups)}) == 1), tuple((rank,) for rank in self.ranks))

    # ---- The place of a tensor

    def placed(self, parts: Mapping[int, list[Tensor]], index: int) -> Tensor:
        """The tensors of some ranks, one for each micro-batch, as one."""
        rank, (first, *others) = next(iter(parts.items()))
        layer, weight = self.path(rank, first.layer), is_weight(first)
        names = (self.name(rank, first),) if weight else first.names
        if len(self.ranks) == 1 and not others:
            return dataclasses.replace(first, index=index, layer=layer, names=names, weight=self.path(rank, first.weight))
        groups = [row for group in self.groups if (row := tuple(rank for rank in group if rank in parts))]
        if len({len(row) for row in groups}) > 1:
            groups = [tuple(parts)]
        rows = [(row, batch) for row in groups for batch in range(min(len(parts[rank]) for rank in row))]
        known = {entry.name: getattr(first, entry.name) for entry in dataclasses.fields(Tensor)}
        known |= {"index": index, "layer": layer, "names": names, "_at": None}
        known["weight"] = self.path(rank, first.weight)
        return RankTensor(
            **known,
            parts=tuple(tuple(parts[rank][batch] for rank in row) for row, batch in rows),
            ranks=tuple(row for row, _ in rows),
            way=self._way(first, names[0], layer),
            partial=layer in self.owners,
            missing=self._missing(first, names[0], parts),
        )

    def note_updates(self, tensors: Iterable[tuple[int, Tensor]]) -> None:
        """Learn of a step's tensors, each with its rank, which ranks update parameters for others that have them too, as with
        sharded optimizer states."""
        updated: defaultdict[tuple[str, str], set[int]] = defaultdict(set)
        for rank, tensor in tensors:
            if tensor.kind in (IN_STEP, STATE):
                updated[tensor.kind, self.name(rank, tensor)].add(rank)
        sharing = [(kind, ranks) for (kind, name), ranks in updated.items() if set(self.holders.get(name, ())) - ranks]
        self._sharing = {(kind, rank) for kind, ranks in sharing for rank in ranks}

    def _missing(self, tensor: Tensor, name: str, parts: Mapping[int, list[Tensor]]) -> tuple[int, ...]:
        """Ranks that should have recorded a tensor too: those with the weight, and for what a program notes those of the stage."""
        if tensor.kind in NAMED:
            others = [rank for rank in self.holders.get(name, ()) if (tensor.kind, rank) not in self._sharing]
        else:
            stages = {self.stages[rank] for rank in parts}
            others = [rank for rank, stage in self.stages.items() if stage in stages]
            if tensor.kind != "note":  # where a process was killed
                others = [rank for rank in others if self.ranks[rank].holes]
        return tuple(rank for rank in others if rank not in parts)

    def _way(self, tensor: Tensor, name: str, layer: str) -> Way | None:
        """A rule of the user, or else a mark of the program."""
        weight, own = is_weight(tensor), [tensor, *([tensor.whole] if isinstance(tensor, PartTensor) and tensor.whole else [])]
        if tensor.kind == INPUT and not weight:
            return None
        if weight:
            way = self._rules.way(name, *(weight_name(known.name) for known in own))
        elif tensor.kind == "note":
            way = self._rules.way(tensor.name)
        else:
            way = self._rules.way(layer, *(known.layer for known in own))
        if isinstance(way, FusedAxis) and isinstance(tensor, PartTensor):
            way = int(way)
        embedding = "emb" in f"{name}{tensor.name}".lower()
        if weight and self.turned and isinstance(way, int) and len(tensor.shape) == 2 and not embedding:
            other_axis = 1 - way % 2
            return FusedAxis.along(other_axis, way.proportions) if isinstance(way, FusedAxis) else other_axis
        return self.marks.get(name) if way is None and weight else way


def lay_out(a: RankLayout, b: RankLayout) -> None:
    """Learn how both runs lie on their ranks."""
    both = (a, b), (b, a)
    for run, other, numbers in [(run, other, run.numbers(other)) for run, other in both]:
        run.turned = run.framework == "torch" and other.framework == "paddle"
        run.renumber(numbers)
    names = [[name for weights in run.weights_of_ranks().values() for name in weights] for run in (a, b)]
    a.rename(wrapped(*names))
    for run in (a, b):
        run.settle()
    for run, other in both:
        run.meet(other)


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


def _alike(data: frozenset[str], other: frozenset[str], *, split: bool) -> bool:
    return data == other or (split and 2 * len(data & other) > max(len(data), len(other)))


def _data(step: RecordedStep) -> frozenset[str]:
    """Digests of the data of a step: no single numbers and no truth values, and nothing that a backward begins with or has made."""
    last = max((tensor.index for tensor in step.tensors if tensor.kind == "layer"), default=math.inf)
    last = min(last, min((tensor.index for tensor in step.tensors if tensor.kind == "gradient"), default=math.inf))
    data = (tensor for tensor in step.inputs if tensor.tensor != WEIGHT and tensor.size > 1 and tensor.dtype != "bool")
    return frozenset(tensor.digest for tensor in data if tensor.index < last)
