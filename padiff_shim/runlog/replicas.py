"""Where the ranks of a distributed run part: the first step at which values that should be equal on all of them are not."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..text import shown
from .events import JsonTable
from .reader import event_at

EVENT = "replicas"  # kind of the events that hold the digests
_NAMED = 3  # values that a sentence names
_MEANING = {
    ("parameters", True): "they began with other weights, or a rank changed its own",
    ("parameters", False): (
        "the gradients before were equal, so the optimizers differ: learning rate, state, or what they update; "
        "or a rank changed its own"
    ),
    ("gradients", True): "gradients are not summed over the ranks, or not at this step",
    ("gradients", False): "gradients are not summed over the ranks at this step, though they were before",
}


@dataclass(frozen=True)
class Parting:
    """Where ranks part.

    Attributes:
        step: the first step at which they do.
        kind: ``"parameters"``, as the step's update met them, or ``"gradients"``.
        names: of the parameters whose values differ there.
        groups: ranks that agree on the first of them, one tuple for each value.
        first: it is the first step that all ranks logged.
    """

    step: int
    kind: str
    names: tuple[str, ...]
    groups: tuple[tuple[int, ...], ...]
    first: bool

    def __str__(self) -> str:
        more = len(self.names) - _NAMED
        named = ", ".join(map(shown, self.names[:_NAMED])) + (f" and {more:,} more" if more > 0 else "")
        groups = "; ".join(f"rank{'s' if len(group) > 1 else ''} {', '.join(map(str, group))}" for group in self.groups)
        return f"the ranks part at step {self.step}: {self.kind} of {named} differ ({groups}): {_MEANING[self.kind, self.first]}"


@dataclass(frozen=True)
class Replicas:
    """What the logs of several ranks say of the values that all of them should hold.

    Attributes:
        ranks: whose logs were read.
        steps: updates that all of them have logged.
        parting: where they part, or None.
    """

    ranks: tuple[int, ...]
    steps: int
    parting: Parting | None

    def __str__(self) -> str:
        if self.parting is not None:
            return str(self.parting)
        among = f"ranks {', '.join(map(str, self.ranks))}"
        if not self.steps:
            return f"{among}: no update of a parameter that all of them logged"
        return f"{among}: parameters and gradients are equal bit for bit at all {self.steps:,} steps that all of them logged"


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
    parting = None
    for place in range(steps):
        values = {rank: event_at(paths[best[rank]], digests[best[rank]][place]) for rank in ranks}
        parting = _parting(values, first=place == 0)
        if parting is not None:
            break
    return Replicas(ranks, steps, parting)


def _parting(events: Mapping[int, JsonTable], *, first: bool) -> Parting | None:
    """The values of one step that differ: parameters before gradients, since other parameters make other gradients."""
    for kind in ("parameters", "gradients"):
        tables = {rank: event.get(kind) or {} for rank, event in events.items()}
        names = dict.fromkeys(name for table in tables.values() for name in table)
        groups = {name: _groups({rank: table[name] for rank, table in tables.items() if table.get(name)}) for name in names}
        differing = tuple(name for name, split in groups.items() if len(split) > 1)
        if differing:
            step = min(int(event.get("step") or 0) for event in events.values())
            return Parting(step, kind, differing, groups[differing[0]], first)
    return None


def _groups(values: Mapping[int, str]) -> tuple[tuple[int, ...], ...]:
    """Ranks by the value that they hold."""
    by_value: dict[str, list[int]] = {}
    for rank, value in values.items():
        by_value.setdefault(value, []).append(rank)
    return tuple(tuple(ranks) for ranks in by_value.values())
