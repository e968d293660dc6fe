"""Settings of optimizers in recordings: written where they change, read for each step, and what two runs have otherwise."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ..runlog.events import CLIPPED, IN_STEP, NAMED, JsonTable
from ..runlog.optimizer_settings import BEGINS, CLIP_WORDS, PADDLES_WORDS, Settings, differing, shifted, spelled
from ..text import listed, many, shown, tr
from .tensors import STATISTICS, parameter_name

if TYPE_CHECKING:
    from .difference import TensorRow
    from .reading import RecordedStep

    StepPair = tuple[RecordedStep, RecordedStep]

ByName = Mapping[str, Settings]  # name of a parameter -> its settings
_SHOWN = 3  # names of parameters
_RATES = 1000  # steps of which learning rates are remembered
ALONE = "alone"  # in the optimizer of one run alone
_WEIGHTS = {  # words of settings -> which of several is the likelier reason
    word: place for place, word in enumerate(("optimizer", ALONE, BEGINS, *CLIP_WORDS, "lr", "weight_decay", "decoupled", "eps"))
}


class WrittenSettings:
    """Makes the events of a run's optimizers."""

    def __init__(self) -> None:
        self._written: dict[int, tuple[int, Any, list[Settings]]] = {}  # by identity: number, groups, what was written last

    def event(
        self, step: int, optimizer: Any, reader: Any, clips: Mapping[int, Settings], name: Callable[[Any], str]
    ) -> JsonTable | None:
        """The settings with which an optimizer is about to make a step; None if they are those of its last event.

        Args:
            step: its number.
            optimizer: of either framework.
            reader: an :class:`~..frameworks.optimizer_states.OptimizerReader`.
            clips: how the program has clipped gradients, by the identities of their parameters.
            name: of a parameter.
        """
        number, groups, before = self._written.get(id(optimizer)) or (len(self._written), reader.groups(optimizer), [])
        more = {**reader.clip(optimizer), **({BEGINS: True} if reader.begins(optimizer) else {})}
        ways = [next((clips[id(weight)] for weight in group[1] if id(weight) in clips), {}) if clips else {} for group in groups]
        tables = [{**reader.settings(optimizer, group), **more, **way} for group, way in zip(groups, ways)]
        for settings in tables:
            if settings["optimizer"] == "SGD" and "momentum" not in settings:
                settings.pop(BEGINS, None)  # it keeps nothing at all
        if tables == before:
            return None
        self._written[id(optimizer)] = number, groups, tables
        entries = [
            {"settings": known, **({} if before else {"parameters": [name(parameter) for parameter in group[1]]})}
            for known, group in zip(tables, groups)
        ]
        return {"type": "optimizer", "step": step, "number": number, "groups": entries}


class ReadSettings:
    """The settings of a run along its steps."""

    def __init__(self) -> None:
        self._waiting: list[Mapping[str, Any]] = []
        self._names: dict[int, list[list[str]]] = {}  # number of an optimizer -> names of each group
        self._known: ByName = {}

    def add(self, event: Mapping[str, Any]) -> None:
        """An event, in the order of the file."""
        self._waiting.append(event)

    def at(self, step: int) -> ByName:
        """Those of a step: the same table as long as nothing changes."""
        before: set[tuple[int, int]] = set()  # numbers of optimizers and their steps: the first update of a step counts
        while self._waiting and self._waiting[0]["step"] <= step:
            event = self._waiting.pop(0)
            if (event["number"], event["step"]) in before:
                continue
            before.add((event["number"], event["step"]))
            names = self._names.setdefault(event["number"], [])
            for place, group in enumerate(event["groups"]):
                names[place : place + 1] = [group.get("parameters") or (names[place] if place < len(names) else [])]
                self._known = {**self._known, **dict.fromkeys(map(parameter_name, names[place]), group["settings"])}
        return self._known


@dataclass(frozen=True)
class SettingDifference:
    """A setting that two runs have otherwise.

    Attributes:
        rank: of a's process.
        step: the first in which it differs.
        word: Torch's for it.
        a, b: the values.
        names: the parameters.
        of: how many parameters the optimizers have.
        shift: by how many steps b's schedule of the learning rate is early; less than 0: late.
        varies: the learning rate has a schedule.
    """

    rank: int
    step: int
    word: str
    a: Any
    b: Any
    names: list[str] = field(compare=False)
    of: int
    shift: int = 0
    varies: bool = False

    def sentence(self, frameworks: Sequence[str], *, brief: bool = False) -> str:
        """In the words of both frameworks; ``brief``: without what to write, where that is long."""
        a, b = (
            tr("none") if value is None else spelled(self.word, value, framework).removeprefix("grad_clip=paddle.nn.")
            for value, framework in zip((self.a, self.b), frameworks)
        )
        text = tr("{a} in a, {b} in b", a=a, b=b.partition("=")[2] if b.partition("=")[0] == a.partition("=")[0] else b)
        if self.word == BEGINS:
            text = tr("the optimizer begins without a state in {side}: it was not loaded", side="a" if self.a else "b")
        elif self.word == ALONE:
            text = tr(
                "the optimizer of {side} alone has {names}", side=self.a, names=listed([shown(name) for name in self.names], _SHOWN)
            )
        elif self.word == "decoupled":
            ways = [tr("apart from the gradient") if apart else tr("added to the gradient") for apart in (self.a, self.b)]
            text = tr("weight decay is {here} in a, {there} in b", here=ways[0], there=ways[1])
        elif len(self.names) < self.of:
            text = tr("{text} for {count} of {weights}", text=text, count=len(self.names), weights=many(self.of, "weight"))
            text = text if brief else tr("{text} ({names})", text=text, names=listed([shown(name) for name in self.names], _SHOWN))
        if self.shift:
            steps, early = many(abs(self.shift), "step"), self.shift > 0
            text = tr(
                "{text}: b's schedule is {steps} early" if early else "{text}: b's schedule is {steps} late", text=text, steps=steps
            )
        text = tr("{text} from step {step} on", text=text, step=self.step) if self.step and self.word != BEGINS else text
        write = "" if brief and self.word in CLIP_WORDS else self.write(frameworks)
        return tr("{text} (write {write})", text=text, write=write) if write else text

    @property
    def values(self) -> tuple[Any, Any]:
        """Those of a and b, or which parameters the optimizer of one of them alone has."""
        names = listed(self.names, _SHOWN)
        return (self.a, self.b) if self.word != ALONE else (names, "-") if self.a == "a" else ("-", names)

    def to_dict(self, frameworks: Sequence[str]) -> dict[str, Any]:
        """In plain types (JSON)."""
        return {**asdict(self), "write": self.write(frameworks)}

    def write(self, frameworks: Sequence[str]) -> str:
        """What a Paddle program writes to have the setting of a Torch program; "" where it cannot be told."""
        value = self.b if frameworks[0] == "paddle" else self.a
        if frameworks[0] == frameworks[1] or value is None or isinstance(value, str) or self.varies:
            return ""
        return spelled(self.word, value, "paddle") if self.word in ("lr", *CLIP_WORDS, *PADDLES_WORDS) else ""


class ComparedSettings:
    """The settings of two runs, step by step.

    Attributes:
        differences: those that differ, in the order of the steps.
        known: both runs have settings.
    """

    def __init__(self) -> None:
        self.differences: list[SettingDifference] = []
        self.known = False
        self._seen: set[tuple[int, str, str]] = set()
        self._last: dict[int, tuple[ByName, ByName]] = {}
        self._rates: dict[int, tuple[list[Any], list[Any]]] = {}

    def along(self, steps: Iterator[StepPair]) -> Iterator[StepPair]:
        """Compare the settings of two runs as their steps pass by."""
        for first, second in steps:
            sides = [first.settings, second.settings]
            count = max(map(len, sides)) if all(sides) else 0
            for known in sides:
                known += [(0, ChainMap(*(dict(table) for _, table in known)))] * count if len(known) < count else []
            for (rank, a), (_, b) in zip(*(known[-count:] for known in sides)):
                self.add(first.step, rank, a, b, sides)
            yield first, second

    def add(self, step: int, rank: int, a: ByName, b: ByName, sides: Sequence[Sequence[tuple[int, ByName]]] = ((), ())) -> None:
        """Compare the settings of a step; of a process that has none in this step, nothing. ``sides``: those of all processes."""
        before, self._last[rank] = self._last.get(rank, ({}, {})), (a, b)
        for values, settings in zip(self._rates.setdefault(rank, ([], [])), (a, b)):
            values += [next(iter(settings.values()), Settings()).get("lr")] if len(values) < _RATES else []
        if not a or not b or (before[0] is a and before[1] is b):
            return
        pairs = {name: (settings, b[name]) for name, settings in a.items() if name in b}
        everywhere = [set(known).union(*(table for _, table in side)) for known, side in zip((a, b), sides)]
        alone = {  # Paddle's running statistics are parameters, too
            side: [name for name in known if name not in other and not name.endswith(STATISTICS)]
            for side, known, other in (("a", a, everywhere[1]), ("b", b, everywhere[0]))
        }
        if 2 * len(pairs) < min(len(a), len(b)):  # other names: where all have one setting it is that of all
            whole = [next(iter(known.values())) for known in (a, b)]
            alike = all(settings == one_side for known, one_side in zip((a, b), whole) for settings in known.values())
            pairs, alone = (dict.fromkeys(a, (whole[0], whole[1])) if alike else {}), {}
        self.known = self.known or bool(pairs)
        otherwise: dict[tuple[str, Any, Any], list[str]] = {}
        kinds: dict[tuple[int, int], list[tuple[str, Any, Any]]] = {}
        for name, (settings, other) in pairs.items():
            key = id(settings), id(other)
            if key not in kinds:
                kinds[key] = list(differing(settings, other))
            for difference in kinds[key]:
                otherwise.setdefault(difference, []).append(name)
        for side, names in alone.items():
            otherwise |= {(ALONE, side, ""): names} if names else {}
        for (word, value, other_value), names in otherwise.items():
            new = [name for name in names if (rank, word, name) not in self._seen]
            self._seen |= {(rank, word, name) for name in new}
            if new:
                self.differences.append(SettingDifference(rank, step, word, value, other_value, new, len(pairs)))

    def of(self, row: TensorRow, *, unseen: bool) -> list[SettingDifference]:
        """Those with which a row was made, the weightiest first; ``unseen``: by updates of steps before that were not recorded."""
        kind, step = row.any.kind, row.any.step
        names = {parameter_name(side.name) for side in (row.a, row.b) if side is not None}
        if kind in NAMED and kind != "gradient":
            made = {CLIPPED: (*CLIP_WORDS, ALONE), IN_STEP: (ALONE,)}.get(kind)  # by which settings, if not by all
            known = [
                entry for entry in self.differences
                if entry.step <= step and not names.isdisjoint(entry.names) and (made is None or entry.word in made)
            ]  # fmt: skip
        else:
            known = [entry for entry in self.differences if unseen and entry.step < step]
        return sorted(known, key=lambda entry: (entry.rank != row.rank, _WEIGHTS.get(entry.word, len(_WEIGHTS))))

    def optimizers(self, row: TensorRow) -> list[str]:
        """The names of the optimizers that last updated a parameter in a and b, as far as they were recorded."""
        names = [parameter_name(side.name) for side in (row.a, row.b) if side is not None]
        return [table[name]["optimizer"] for table, name in zip(self._last.get(row.rank, ()), names) if name in table]

    def conclude(self) -> list[SettingDifference]:
        """The differences, when the last step was compared."""
        for place, difference in enumerate(self.differences):
            a, b = self._rates.get(difference.rank, ([], []))
            if difference.word == "lr" and len({*a}) + len({*b}) > 2:
                self.differences[place] = replace(difference, shift=shifted(a, b), varies=True)
        return self.differences
