"""Optimizers' updates, answered by Torch: in place, in the parameters' and the accumulators' own memory.

Nothing announces the write, as natively: no version is counted. What is computed with the parameter next compares or reads its
memory (weight copies, leaf twins). The updates of a step wait for one another, and are made in one call for all parameters that
share their numbers, as Torch's optimizers do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from ..dispatch.door import gate
from ..dispatch.frames import Frame
from ..dispatch.plan import Unlisted
from ..frameworks.memory import as_it_lies, stream_of
from ..optimizers.update import Batch, Update, updates
from ..table.reasons import StayNative
from . import passes
from .held import Held, held
from .passes import Pass

Count = Callable[[Frame, str, str, StayNative], None]


class Waiting(NamedTuple):
    """One update of one parameter."""

    declared: Update
    other: Unlisted
    frame: Frame
    args: tuple[Any, ...]


def coupled(optimizer: Any) -> bool:
    """Whether an optimizer's update is declared to take L2 decay."""
    declared = updates().get(f"{getattr(optimizer, 'type', '')}_")
    return declared is not None and declared.coupled


class Updating:
    """The updates of one mode: by whose definition, and how those that stay native are counted."""

    def __init__(self, definition: str, count: Count) -> None:
        self.definition, self._count = definition, count

    def call(self, declared: Update, other: Unlisted, frame: Frame, args: tuple[Any, ...]) -> Any:
        """One call of a C function; what Paddle's would return."""
        try:
            gate(frame, declared.name)
            declared.names(len(args))
        except StayNative as why:
            return self._native(Waiting(declared, other, frame, args), why)
        here = passes.now()
        self._add(here, Waiting(declared, other, frame, args))
        return declared.results_of(args)

    def merged(self, declared: Update, other: Unlisted, frame: Frame, args: tuple[Any, ...]) -> Any:
        """One call of a C function that takes lists."""
        try:
            gate(frame, declared.name)
            single = declared.singly(args)
        except StayNative as why:
            self._count(frame, declared.name, other.path, why)
            return other.original(*args)
        self.make(passes.now(), [Waiting(declared, other, frame, one) for one in single])
        return declared.results_of_merged(args)

    def _add(self, here: Pass | None, one: Waiting) -> None:
        if here is None or not here.collects or one.declared.at_once:
            self.make(here, [one])
            return
        key = id(one.args[0])
        if key in here.waiting:
            self.flush(here)
        here.waiting[key] = one

    def flush(self, here: Pass) -> None:
        """Make all updates that wait."""
        waiting, here.waiting = here.waiting, {}
        self.make(here, list(waiting.values()))

    def make(self, here: Pass | None, waiting: Sequence[Waiting]) -> None:
        """Make updates: those that share their numbers in one call."""
        groups: dict[Any, list[tuple[Waiting, Held]]] = {}
        for one in waiting:
            try:
                kept = held(here and here.optimizer, one.declared, one.args)
                kept.take(one.args[one.declared.place_of_grad])
            except StayNative as why:
                self._native(one, why)
                continue
            groups.setdefault((kept.key, *_rates(here, one)), []).append((one, kept))
        with torch.no_grad():
            for (_, lr, decay), group in groups.items():
                self._together(group, lr, decay)

    def _together(self, group: Sequence[tuple[Waiting, Held]], lr: float, decay: float) -> None:
        first, kept = group[0]
        formula, of = first.declared.formula(self.definition)
        try:
            with stream_of(kept.written.device):
                formula(Batch([kept.item for _, kept in group], kept.numbers, lr, decay))
                for _, kept in group:
                    kept.done()
        except StayNative as why:  # before anything was written
            for one in group:
                if len(group) > 1:
                    self._together([one], lr, decay)
                else:
                    self._native(one[0], why)
            return
        tally = first.frame.tally
        tally.substituted[first.declared.name] += len(group)
        tally.definitions[first.declared.name, of] += len(group)
        if first.declared.torch is not None and first.declared.paddle is not None:
            whose = (
                "by Torch's definition; Paddle alone keeps to its own"
                if of == "torch"
                else "by Paddle's; optimizer=\"torch\" takes Torch's"
            )
            first.frame.run.warn(f"{first.declared.name}: {first.declared.differs}. Computed {whose}")

    def _native(self, one: Waiting, why: StayNative) -> Any:
        """Paddle's own update, with the decay that was left to Torch."""
        args, here = one.args, passes.now()
        put_off = None if here is None else here.decays.get(id(args[0]))
        if put_off is not None:
            place = one.declared.place_of_grad
            args = (*args[:place], put_off[1](), *args[place + 1 :])
        result = one.other.original(*args)
        self._count(one.frame, one.declared.name, one.other.path, why)
        return result


def _rates(here: Pass | None, one: Waiting) -> tuple[float, float]:
    """Learning rate, and coefficient of the L2 decay that was put off."""
    param, place = one.args[0], one.declared.place_of_rate
    decay = 0.0 if here is None else here.decays.get(id(param), (0.0, None))[0]
    if place is None:
        return 0.0, decay
    if here is None:
        return float(as_it_lies(one.args[place]).item()), 0.0
    return here.learning_rate(one.args[place], param), decay
