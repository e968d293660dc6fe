"""Where the ranks of a distributed run part: the first step at which values that should be equal on all of them are not."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..text import joined, listed, many, shown, tr
from .events import JsonTable
from .reader import event_at

EVENT = "replicas"  # kind of the events that hold the digests
_NAMED = 3  # values that a sentence names
_PARAMETERS = tr(
    "the gradients before were equal, so the optimizers differ: learning rate, state, or what they "
    "update; or a rank changed its own"
)
_GRADIENTS = tr("gradients are not summed over the ranks at this step, though they were before")
_FIRST_GRADIENTS = tr(
    "gradients are not summed over the ranks, or not at this step; or these are shards that began with equal values"
)


@dataclass(frozen=True)
class Parting:
    """Where ranks part.

    Attributes:
        step: the first step at which they do.
        kind: ``"parameters"``, as the step's update met them, or ``"gradients"``.
        names: of the parameters whose values differ there.
        groups: ranks that agree on the first of them, one tuple for each value.
        first: it is the first step at which the first of them was compared.
    """

    step: int
    kind: str
    names: tuple[str, ...]
    groups: tuple[tuple[int, ...], ...]
    first: bool

    def __str__(self) -> str:
        named = listed(list(map(shown, self.names)), _NAMED)
        groups = joined(
            "; ",
            (tr("ranks {ranks}" if len(group) > 1 else "rank {ranks}", ranks=", ".join(map(str, group))) for group in self.groups),
        )
        return str(
            tr(
                "the ranks part at step {step}: {kind} of {named} differ ({groups}): {meaning}",
                step=self.step,
                kind=self.kind,
                named=named,
                groups=groups,
                meaning=_PARAMETERS if self.kind == "parameters" else _FIRST_GRADIENTS if self.first else _GRADIENTS,
            )
        )


@dataclass(frozen=True)
class Replicas:
    """What the logs of several ranks say of the values that all of them should hold.

    Attributes:
        ranks: whose logs were read.
        steps: updates that all of them have logged.
        parting: where they part, or None.
        unknown: parameters that differ between ranks where they are met first: shards, or replicas whose broadcast is missing.
        split: parameters whose shapes differ between ranks.
        alike: parameters that begin equal and get different gradients at once, though the ranks computed the same: shards that
            began with equal values, or replicas whose sum over the ranks is missing in the backward.
        compared: how many parameters several ranks have, and were taken for replicas.
    """

    ranks: tuple[int, ...]
    steps: int
    parting: Parting | None
    unknown: tuple[str, ...] = ()
    split: tuple[str, ...] = ()
    compared: int = 0
    alike: tuple[str, ...] = ()

    def __str__(self) -> str:
        among = ", ".join(map(str, self.ranks))
        sentences, others = [], bool(self.unknown or self.split or self.alike)
        steps = tr("at all {steps} that all of them logged", steps=many(self.steps, "step"))
        if self.parting is not None:
            sentences.append(str(self.parting))
        elif not self.steps:
            sentences.append(tr("ranks {ranks}: no update of a parameter that all of them logged", ranks=among))
        elif self.compared and others:
            equal = many(self.compared, "parameter with its gradient", "parameters with their gradients")
            sentences.append(tr("ranks {ranks}: equal bit for bit {steps}: {equal}", ranks=among, steps=steps, equal=equal))
        elif not others:
            equal = tr("ranks {ranks}: parameters and gradients are equal bit for bit {steps}", ranks=among, steps=steps)
            sentences.append(equal)
        else:
            sentences.append(tr("ranks {ranks}: no parameter is known to be the same on all of them", ranks=among))
        if self.unknown:
            sentences.append(
                tr(
                    "not known: values of {names} differ between ranks from the beginning: shards, or a broadcast that is missing",
                    names=listed([shown(name) for name in self.unknown], _NAMED),
                )
            )
        if self.alike:
            sentences.append(
                tr(
                    "not known: gradients of {names} differ between ranks from the first update on, though the ranks computed the "
                    "same: shards that began with equal values, or a sum over the ranks that is missing in the backward",
                    names=listed([shown(name) for name in self.alike], _NAMED),
                )
            )
        if self.split:
            names = listed([shown(name) for name in self.split], _NAMED)
            sentences.append(tr("split over the ranks, by shape: {names}", names=names))
        return "; ".join(sentences)


def replicas(paths: Sequence[Path], headers: Sequence[Mapping[str, object]], digests: Sequence[array[int]]) -> Replicas | None:
    """Compare the digests in log files; None where there are not several ranks.

    ``digests``: where in each file the events with them begin. Of a rank with several files (a forked child) that with most of
    them is taken.
    """
    best: dict[int, int] = {}
    for number, header in enumerate(headers):
        rank = header.get("rank")
        rank = rank if isinstance(rank, int) else 0
        if rank not in best or len(digests[number]) > len(digests[best[rank]]):
            best[rank] = number
    if len(best) < 2:
        return None
    ranks = tuple(sorted(best))
    steps = min(len(digests[best[rank]]) for rank in ranks)
    evidence, parting = _ReplicaEvidence(), None
    for place in range(steps):
        values = {rank: event_at(paths[best[rank]], digests[best[rank]][place]) for rank in ranks}
        evidence.meet(values)
        parting = _parting(values, evidence)
        if parting is not None:
            break
    unknown, split, alike = (tuple(names) for names in (evidence.unknown, evidence.split, evidence.alike))
    return Replicas(ranks, steps, parting, unknown, split, len(evidence.replicas), alike)


class _ReplicaEvidence:
    """Which parameters are replicas.

    Equal values where several ranks meet a parameter first are the evidence for one. Not in a layer with a parameter that is none:
    a bias that is a shard begins with zeros everywhere.
    """

    def __init__(self) -> None:
        self._met: dict[str, str] = {}  # parameter -> its layer
        self.new: set[str] = set()  # met at this step
        self.unknown: dict[str, None] = {}
        self.split: dict[str, None] = {}
        self.alike: dict[str, None] = {}

    def meet(self, events: Mapping[int, JsonTable]) -> None:
        """The parameters of a step, those that several ranks hold."""
        self.new = set()
        for name, values in _by_name(events, "parameters").items():
            if len(values) < 2 or name in self._met:
                continue
            self.new.add(name)
            self._met[name] = name.rpartition(".")[0] or name
            if len({(events[rank].get("shapes") or {}).get(name) for rank in values}) > 1:
                self.split[name] = None
            elif len(set(values.values())) > 1:
                self.unknown[name] = None
        outputs = [event.get("outputs") for event in events.values()]
        if outputs[0] and all(known == outputs[0] for known in outputs):
            for name, values in _by_name(events, "gradients").items():
                if name in self.new and name in self.replicas and len(set(values.values())) > 1:
                    self.alike[name] = None

    @property
    def replicas(self) -> set[str]:
        """Those that should stay equal on all ranks."""
        without = {self._met[name] for name in (*self.unknown, *self.split, *self.alike)}
        return {name for name, layer in self._met.items() if layer not in without}


def _by_name(events: Mapping[int, JsonTable], kind: str) -> dict[str, dict[int, str]]:
    """Parameter -> rank -> digest; of those that are no dense tensors there is none."""
    table: dict[str, dict[int, str]] = {}
    for rank, event in events.items():
        for name, digest in (event.get(kind) or {}).items():
            if digest:
                table.setdefault(name, {})[rank] = digest
    return table


def _parting(events: Mapping[int, JsonTable], evidence: _ReplicaEvidence) -> Parting | None:
    """The replicas of one step that differ: parameters before gradients, since other parameters make other gradients."""
    known = evidence.replicas
    for kind in ("parameters", "gradients"):
        groups = {name: _groups(values) for name, values in _by_name(events, kind).items() if name in known}
        differing = tuple(name for name, split in groups.items() if len(split) > 1)
        if differing:
            step = min(int(event.get("step") or 0) for event in events.values())
            return Parting(step, kind, differing, groups[differing[0]], differing[0] in evidence.new)
    return None


def _groups(values: Mapping[int, str]) -> tuple[tuple[int, ...], ...]:
    """Ranks by the value that they hold."""
    by_value: dict[str, list[int]] = {}
    for rank, value in values.items():
        by_value.setdefault(value, []).append(rank)
    return tuple(tuple(ranks) for ranks in by_value.values())
