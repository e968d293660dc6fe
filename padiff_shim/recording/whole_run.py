"""The ranks of a distributed run read as a single run: which of their tensors belong together, in one order."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..runlog.events import IN_STEP, LOSS, NAMED
from .fusions import take_apart
from .layouts import WRAPPERS, Groups, RankLayout, ShardRules, lay_out
from .names import NameMap
from .reading import Recorded, RecordedStep, by_number
from .settings import ByName
from .tensors import INPUT, NORM, WEIGHT, Tensor, is_weight

_Key = tuple[tuple[Any, ...], int]  # what makes tensors of ranks belong together, and which of those of a step it is


class WholeRun:
    """The recordings of all ranks of a run, read as a single one; has what is read of :class:`~.reading.Recorded`.

    Attributes:
        layout: how the run lies on its ranks.
        micro_batches: into how many a step's batch is divided, where the other run divides it otherwise.
    """

    def __init__(self, layout: RankLayout) -> None:
        self.layout, self.ranks, self.micro_batches = layout, layout.ranks, 1
        first = self.ranks[min(self.ranks)]
        self.rank, self.framework, self.header = first.rank, first.framework, first.header
        self._index = 0
        self._batch_calls: dict[tuple[Any, ...], int] = {}
        self._settings_of: dict[int, tuple[Any, ByName]] = {}  # as read, and by the names of the whole model

    @property
    def broken(self) -> bool:
        """Whether a rank ended before the program's end, as far as it was read."""
        return any(recorded.broken for recorded in self.ranks.values())

    def kinds(self) -> set[str]:
        """The kinds of tensors that any rank has."""
        return set().union(*(recorded.kinds() for recorded in self.ranks.values()))

    def samples(self) -> list[frozenset[str]]:
        """Digests of the samples that calls of the first step read."""
        batches = []
        for tensor in self._joined(self.layout.begun).inputs:
            if tensor.tensor != WEIGHT and all(part.rows for part in tensor.parts_known):
                batches.append(frozenset(sample for part in tensor.parts_known for sample in part.rows))
        return batches

    def model_calls(self) -> int:
        """How often a step calls the whole model, or each of its layers where the program calls these, as far as was recorded."""
        counts = []
        for step in self.layout.begun.values():
            returned = [tensor for tensor in step.tensors if tensor.kind == "layer"]
            if returned and not any(tensor.layer for tensor in returned):  # the program calls them all itself
                counts.append(math.gcd(*Counter((tensor.name, tensor.site) for tensor in returned).values()))
                continue
            layers = [Counter(tensor.name for tensor in step.tensors if tensor.kind == "layer" and not tensor.layer)]
            layers += [Counter(tensor.layer for tensor in step.tensors if tensor.kind == "layer")]
            counts.append(max(layers[0].values(), default=math.gcd(*layers[1].values())))
        return min(counts)

    def steps(self) -> Iterator[RecordedStep]:
        """The steps in their order, with the tensors of all ranks that recorded it."""
        self._index = 0
        runs = {rank: recorded.steps() for rank, recorded in self.ranks.items()}
        yield from map(self._joined, by_number(runs, lambda step: step.step))

    def _joined(self, steps: Mapping[int, RecordedStep]) -> RecordedStep:
        """One step of all ranks."""
        sequences = {rank: self._keyed(rank, step) for rank, step in steps.items()}
        keys = list(_in_order([list(sequence) for sequence in sequences.values()]))
        if len(set(self.layout.stages.values())) > 1:  # a later stage's forward runs before an earlier one's backward
            keys = _forward_first(keys, 1 if self.micro_batches > 1 else self.model_calls())
        self.layout.note_updates((rank, tensors[0]) for rank, sequence in sequences.items() for tensors in sequence.values())
        whole = RecordedStep(
            min(step.step for step in steps.values()),
            settings=[self._settings(*known) for step in steps.values() for known in step.settings],
        )
        for key in keys:
            self._index += 1
            parts = {rank: sequence[key] for rank, sequence in sequences.items() if key in sequence}
            tensor = self.layout.placed(parts, self._index)
            (whole.inputs if tensor.kind == INPUT else whole.tensors).append(tensor)
        return whole

    def _settings(self, rank: int, known: ByName) -> tuple[int, ByName]:
        """Those of one rank, by the names of the whole model."""
        if self._settings_of.get(rank, ((), ()))[0] is not known:
            self._settings_of[rank] = known, {self.layout.path(rank, name): settings for name, settings in known.items()}
        return rank, self._settings_of[rank][1]

    def _keyed(self, rank: int, step: RecordedStep) -> dict[_Key, list[Tensor]]:
        """What a rank recorded in a step, in its order, by what makes tensors of ranks and of micro-batches belong together."""
        model = max((match[0] for tensor in step.tensors if (match := WRAPPERS.match(tensor.layer))), key=len, default="")
        stage, sequences = self.layout.stages.get(rank, 0), defaultdict[tuple[Any, ...], list[Tensor]](list)
        order: list[tuple[tuple[Any, ...], int]] = []
        for tensor in sorted((*step.inputs, *step.tensors), key=lambda tensor: tensor.index):
            if tensor.kind == "layer" and len(tensor.layer) < len(model.rstrip(".")) and model.startswith(tensor.layer):
                continue  # the wrapper returns what the model has returned
            if tensor.kind == LOSS and tensor.size > 1 and len(set(self.layout.stages.values())) > 1:
                continue  # a stage's backward begins with what its forward has returned
            where = -1 if is_weight(tensor) else stage
            line = tensor.site if tensor.kind == "op" and not tensor.layer else ""  # calls of several lines are no micro-batches
            key = tensor.kind, self.layout.name(rank, tensor), self.layout.path(rank, tensor.layer), tensor.tensor, where, line
            order.append((key, len(sequences[key])))
            sequences[key].append(tensor)
        keyed: dict[_Key, list[Tensor]] = {}
        # Calls before the first layer, as of an average of weights, are none of a micro-batch.
        layered = any(tensor.layer for begun in self.layout.begun.values() for tensor in begun.tensors)
        first = min((tensor.index for tensor in step.tensors if tensor.layer), default=math.inf if layered else -1)
        for key, number in order:
            count, batches = len(sequences[key]), self.micro_batches
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
        calls = self._batch_calls.setdefault(key, 0 if count % self.micro_batches else count // self.micro_batches)
        return 0 if not calls or count % calls else calls


def join(
    a: Mapping[int, Recorded], b: Mapping[int, Recorded], rules: ShardRules, names: NameMap, groups: Groups = ()
) -> tuple[WholeRun, WholeRun]:
    """Two runs whose tensors are put together, each as the other has them.

    Args:
        a, b: rank -> its recording.
        rules: what the user says of splits.
        names: of a's layers in b.
        groups: ranks of a that read the same data, where that is known.
    """
    take_apart(list(a.values()), list(b.values()))
    layouts = RankLayout(a, rules, names, groups), RankLayout(b, rules, NameMap(None))
    lay_out(*layouts)
    runs = WholeRun(layouts[0]), WholeRun(layouts[1])
    _divide_into_micro_batches(*runs)
    return runs


def _divide_into_micro_batches(first: WholeRun, second: WholeRun) -> None:
    """Put all calls of the model in a step together, where those of both runs are not as many, or read other samples.

    Where that makes no equal batches, as with a call for a validation, those of the run with more calls are divided.
    """
    calls = max(1, first.model_calls()), max(1, second.model_calls())
    shares = [len(run.layout.groups) for run in (first, second) if any(known.has_fingerprints for known in run.ranks.values())]
    regrouped = calls[0] > 1 and len({*shares}) > 1  # of fingerprints samples are not known
    if calls[0] == calls[1] and not regrouped and _same_batches(first.samples(), second.samples()):
        return
    first.micro_batches, second.micro_batches = calls
    if not _same_batches(first.samples(), second.samples()):
        for run, own, others in ((first, *calls), (second, *calls[::-1])):
            run.micro_batches = own // others if not own % others else 1


def _same_batches(first: Sequence[frozenset[str]], second: Sequence[frozenset[str]]) -> bool:
    """Whether calls of both runs read the same samples, as far as both read any; ``True`` where their steps do not, either."""
    steps = frozenset[str]().union(*first), frozenset[str]().union(*second)
    common = steps[0] & steps[1]
    batches = [{samples & common for samples in batches} - {frozenset()} for batches in (first, second)]
    return batches[0] == batches[1] or not common or common not in steps


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
