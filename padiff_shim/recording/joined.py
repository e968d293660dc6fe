"""The ranks of a distributed run as a single run: which of their tensors belong together, and what each rank holds."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ..runlog.events import NAMED, JsonTable
from .reading import Recorded, RecordedStep
from .shards import MEAN, RankTensor, ShardRules, Way, whole_shape
from .tensors import INPUT, WEIGHT, Tensor, parameter_name

_WRAPPERS = re.compile(r"^(?:(?:_layers|module)(?:\.|$))+")  # DataParallel's and DistributedDataParallel's names for the model
_Key = Hashable


def weight_name(name: str) -> str:
    """The name of a parameter or buffer in the model itself, running statistics as Torch calls them."""
    return parameter_name(_WRAPPERS.sub("", name))


def _is_weight(tensor: Tensor) -> bool:
    return tensor.kind in NAMED or (tensor.kind == INPUT and tensor.tensor == WEIGHT)


@dataclass
class RankLayout:
    """What is known of how a run lies on its ranks.

    Attributes:
        groups: ranks that read the same data, a tuple for each share of the data.
        owners: layers with a weight that is split along its rows or its vocabulary: calls in them make partial sums.
        marks: name of a weight -> the axis along which the program says that it is split.
        holders: name of a weight -> the ranks that have it.
        gradient_way: how gradients of several shares make the whole one.
    """

    groups: tuple[tuple[int, ...], ...]
    owners: set[str] = field(default_factory=set)
    marks: dict[str, int] = field(default_factory=dict)
    holders: dict[str, tuple[int, ...]] = field(default_factory=dict)
    gradient_way: str = MEAN


class JoinedRun:
    """The recordings of all ranks of a run, read as a single one; has what is read of :class:`~.reading.Recorded`.

    Args:
        ranks: rank -> its recording.
        rules: what the user says of splits.
    """

    def __init__(self, ranks: Mapping[int, Recorded], rules: ShardRules) -> None:
        self.ranks, self._rules = ranks, rules
        self._first = ranks[min(ranks)]
        self.rank, self.framework, self.header = self._first.rank, self._first.framework, self._first.header
        begun = {rank: next(recorded.steps(), RecordedStep(0)) for rank, recorded in ranks.items()}
        self.layout = RankLayout((tuple(ranks),))
        self._index = 0
        self._begun = begun
        for rank, step in begun.items():
            for weight in step.inputs:
                if weight.tensor == WEIGHT:
                    name = weight_name(weight.name)
                    self.layout.holders[name] = (*self.layout.holders.get(name, ()), rank)
        for recorded in ranks.values():
            self.layout.marks |= _marks(recorded.header)

    def kinds(self) -> set[str]:
        """The kinds of tensors that any rank has."""
        return set().union(*(recorded.kinds() for recorded in self.ranks.values()))

    def weights(self) -> dict[str, Tensor]:
        """The weights with which the run begins, by name."""
        step = self._joined(self._begun)
        return {weight.name: weight for weight in step.inputs if weight.tensor == WEIGHT}

    def layer_classes(self) -> dict[str, str]:
        """Path of a layer -> its class, as far as layers were recorded."""
        tensors = (tensor for step in self._begun.values() for tensor in step.tensors if tensor.kind == "layer")
        return {_WRAPPERS.sub("", tensor.layer): tensor.name for tensor in tensors}

    def meet(self, other: JoinedRun) -> None:
        """Learn from the other run's weights which layers own a weight that is split along its rows or its vocabulary."""
        partners, classes = other.weights(), self.layer_classes()
        crossing, split = self.framework != other.framework, False
        for name, weight in self.weights().items():
            if not isinstance(weight, RankTensor):
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
        self.layout.groups = _groups(self._begun, split=split)

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
        sequences = {rank: _keyed(step) for rank, step in steps.items()}
        whole = RecordedStep(min(step.step for step in steps.values()))
        for key in _in_order([list(sequence) for sequence in sequences.values()]):
            tensor = self._tensor({rank: sequence[key] for rank, sequence in sequences.items() if key in sequence})
            (whole.inputs if tensor.kind == INPUT else whole.tensors).append(tensor)
        return whole

    def _tensor(self, parts: Mapping[int, Tensor]) -> Tensor:
        """The tensors of some ranks as one."""
        self._index += 1
        first = next(iter(parts.values()))
        layer = _WRAPPERS.sub("", first.layer)
        names = (weight_name(first.name),) if _is_weight(first) else first.names
        ranks = [tuple(rank for rank in group if rank in parts) for group in self.layout.groups]
        ranks = [row for row in ranks if row]
        if len({len(row) for row in ranks}) > 1:
            ranks = [tuple(parts)]
        missing = self._missing(first, parts)
        if len(parts) == 1 and not missing:
            return dataclasses.replace(first, index=self._index, layer=layer, names=names)
        known = {entry.name: getattr(first, entry.name) for entry in dataclasses.fields(Tensor)}
        known |= {"index": self._index, "layer": layer, "names": names, "_at": None}
        return RankTensor(
            **known,
            parts=tuple(tuple(parts[rank] for rank in row) for row in ranks),
            ranks=tuple(ranks),
            way=self._way(first, layer),
            partial=layer in self.layout.owners,
            gradient_way=self.layout.gradient_way,
            missing=missing,
        )

    def _missing(self, tensor: Tensor, parts: Mapping[int, Tensor]) -> tuple[int, ...]:
        """Ranks that should have recorded a tensor too: those with the weight, and for what a program notes all."""
        if tensor.kind in NAMED:
            others: Sequence[int] = self.layout.holders.get(weight_name(tensor.name), ())
        else:
            others = list(self.ranks) if tensor.kind == "note" else ()
        return tuple(rank for rank in others if rank not in parts)

    def _way(self, tensor: Tensor, layer: str) -> Way | None:
        """A rule of the user, or else a mark of the program."""
        weight = _is_weight(tensor)
        if tensor.kind == INPUT and not weight:
            return None
        name = weight_name(tensor.name) if weight else tensor.name
        way = self._rules.way(name if weight or tensor.kind == "note" else layer)
        return self.layout.marks.get(name) if way is None and weight else way

    @property
    def holes(self) -> list[str]:
        """What should be in the recordings and is not."""
        return [hole for recorded in self.ranks.values() for hole in recorded.holes]


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


def _marks(header: JsonTable) -> dict[str, int]:
    """Name of a weight -> the axis along which a program says that it is split."""
    axes = header.get("split_axes")
    if not isinstance(axes, Mapping):
        return {}
    return {weight_name(name): axis for name, axis in axes.items() if type(axis) is int}


def _keyed(step: RecordedStep) -> dict[_Key, Tensor]:
    """What a rank recorded in a step, in its order, by what makes tensors of several ranks belong together."""
    count: Counter[_Key] = Counter()
    keyed: dict[_Key, Tensor] = {}
    model = max((match[0] for tensor in step.tensors if (match := _WRAPPERS.match(tensor.layer))), key=len, default="")
    for tensor in sorted((*step.inputs, *step.tensors), key=lambda tensor: tensor.index):
        if tensor.kind == "layer" and len(tensor.layer) < len(model.rstrip(".")) and model.startswith(tensor.layer):
            continue  # the wrapper returns what the model has returned
        name = weight_name(tensor.name) if _is_weight(tensor) else tensor.name
        key = tensor.kind, name, _WRAPPERS.sub("", tensor.layer), tensor.tensor
        keyed[key, count[key]] = tensor
        count[key] += 1
    return keyed


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


def _groups(steps: Mapping[int, RecordedStep], *, split: bool) -> tuple[tuple[int, ...], ...]:
    """Ranks that read the same data, by the digests of what they were given in their forward.

    If weights are ``split``, calls may also read what a rank has made of its place among the others, as its part of a vocabulary:
    there most of what two ranks read has to be the same, and else all.
    """
    shares: list[tuple[frozenset[str], list[int]]] = []
    for rank, step in steps.items():
        data = _data(step)
        for known, ranks in shares:
            if data == known or (split and 2 * len(data & known) > max(len(data), len(known))):
                ranks.append(rank)
                break
        else:
            shares.append((data, [rank]))
    groups = tuple(tuple(ranks) for _, ranks in shares)
    return groups if len({len(group) for group in groups}) == 1 else tuple((rank,) for rank in steps)


def _data(step: RecordedStep) -> frozenset[str]:
    """Digests of the data of a step: no single numbers and no truth values, and nothing with which its backward begins."""
    last = max((tensor.index for tensor in step.tensors if tensor.kind == "layer"), default=None)
    data = (tensor for tensor in step.inputs if tensor.tensor != WEIGHT and tensor.size > 1 and tensor.dtype != "bool")
    return frozenset(tensor.digest for tensor in data if last is None or tensor.index < last)
