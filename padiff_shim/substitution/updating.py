"""Optimizers' updates, answered by Torch: in place, in the parameters' and the accumulators' own memory.

Nothing announces the write, as natively: no version is counted. What is computed with the parameter next compares or reads its
memory (weight copies, leaf twins). The updates of a step wait for one another, and are made in one call for all parameters that
share their numbers, as Torch's optimizers do.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from ..dispatch.door import gate
from ..dispatch.frames import Frame, top
from ..dispatch.lacking import is_listed_without
from ..dispatch.plan import Unlisted
from ..frameworks.memory import as_it_lies, dtype_of, stream_of, torch_dtype
from ..optimizers.update import Batch, Update, updates
from ..table import reasons
from ..table.reasons import StayNative
from . import passes, repeated, stepping
from .held import Held, held
from .passes import Pass, Waiting
from .repeated import Gatherer, Groups

Count = Callable[[Frame, str, str, StayNative], None]


def coupled(optimizer: Any) -> bool:
    """Whether an optimizer's update is declared to take L2 decay."""
    declared = updates().get(f"{getattr(optimizer, 'type', '')}_")
    return declared is not None and declared.coupled


class Updating:
    """The updates of one mode: by whose definition, and how those that stay native are counted."""

    def __init__(self, definition: str, count: Count, *, repeats: bool) -> None:
        self.definition, self._count = definition, count
        self.repeats = repeats  # a step that is as the last one may pass Paddle's Python by

    def step(self, original: Callable[..., Any], frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """``Optimizer._create_optimization_pass``: as the last time where nothing has changed, else through Paddle's Python."""

        def make(here: Pass) -> Any:
            pairs = _pairs(*args, **kwargs)
            if not passes.take_tried(here.optimizer) and self._repeat(here, frame, pairs):
                return []
            before = repeated.Before(here.optimizer, pairs)
            try:
                with self._skipped(frame, here.optimizer):
                    result = original(*args, **kwargs)
            finally:
                self.flush(here)
            repeated.keep(before, here, pairs)
            return result

        return passes.run(make, args)

    def whole_step(self, frame: Frame, optimizer: Any) -> bool:
        """``Optimizer.step``, made where it is as the last one; False, with nothing done, where Paddle has to make it."""
        pairs = stepping.handed_on(optimizer)
        if pairs is None:
            return False
        passes.forget_decays()  # of a pass that was never made
        made = passes.run(lambda here: self._repeat(here, frame, pairs), (optimizer,))
        if not made:
            passes.tried(optimizer)
        return bool(made)

    @contextlib.contextmanager
    def _skipped(self, frame: Frame, optimizer: Any) -> Iterator[None]:
        """Behind a step that a scaler skips Paddle's Adamax counts it all the same; Torch's scaler skips it whole."""
        declared = updates().get(f"{getattr(optimizer, 'type', '')}_")
        if self.definition != "torch" or declared is None or declared.behind is None or not passes.finishes_as_paddles(optimizer):
            yield
            return
        try:
            gate(frame, declared.name)
            skips = bool(optimizer._get_auxiliary_var("found_inf"))
        except StayNative:
            skips = False
        if not skips:
            yield
            return
        optimizer._finish_update = _nothing
        try:
            yield
        finally:
            del optimizer._finish_update

    def _repeat(self, here: Pass, frame: Frame, pairs: Any) -> bool:
        """Make the updates of a pass that is as the last one; False where it is not."""
        if not self.repeats or top() is not frame:  # who looks on sees each call
            return False
        found = repeated.again(here, frame, pairs)
        if found is None:
            return False
        self._all(frame, found.groups, found.gathered)
        first, _ = next(iter(found.groups.values()))[0]
        repeated.finish(here.optimizer, first.declared, pairs)
        return True

    def call(self, declared: Update, other: Unlisted, frame: Frame, args: tuple[Any, ...]) -> Any:
        """One call of a C function; what Paddle's would return."""
        try:
            gate(frame, declared.name)
            declared.names(len(args))
        except StayNative as why:
            return self._native(frame, Waiting(declared, other, frame, args), why)
        here = passes.now()
        self._add(here, Waiting(declared, other, frame, args))
        return declared.results_of(args)

    def merged(self, declared: Update, other: Unlisted, frame: Frame, args: tuple[Any, ...]) -> Any:
        """One call of a C function that takes lists."""
        try:
            gate(frame, declared.name)
            lists, single = declared.lists(args), declared.singly(args)
        except StayNative as why:
            self._count(frame, declared.name, other.path, why)
            return other.original(*args)
        here = passes.now()
        if here is not None:
            here.whole = False  # kept are single calls alone
        self.make(here, [Waiting(declared, other, frame, arguments, lists) for arguments in single])
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
        groups: Groups = {}
        for one in waiting:
            try:
                dtype = dtype_of(torch_dtype(one.args[0].dtype))
                if not one.frame.plan.lends and is_listed_without(one.declared.name, dtype):
                    raise StayNative(reasons.NO_KERNEL, dtype=dtype)
                narrow = self.definition == "torch" and one.declared.torch is not None
                kept = held(here and here.optimizer, one.declared, one.args, narrow=narrow)
                kept.take(one.args[0], one.args[one.declared.place_of_grad])
                if here is not None and kept.mixed:
                    here.whole = False  # its copies are of this step alone
            except StayNative as why:
                self._native(one.frame, one, why)
                continue
            groups.setdefault((kept.key, *_rates(here, one)), []).append((one, kept))
        if waiting:
            self._all(waiting[0].frame, groups)

    def _all(self, frame: Frame, groups: Groups, gathered: Gatherer | None = None) -> None:
        """Make updates in groups; ``gathered``, where they are made again: with what Paddle's optimizer would do behind them."""
        with torch.no_grad():
            for (_, lr, decay), group in groups.items():
                items = [kept.item for _, kept in group]
                first, kept = group[0]
                batch = Batch(items, kept.numbers, lr, decay, gathered and gathered(items))
                self._together(frame, group, batch)
                if gathered is not None and first.declared.behind is not None:
                    first.declared.behind(batch)

    def _together(self, frame: Frame, group: Sequence[tuple[Waiting, Held]], batch: Batch) -> None:
        first, kept = group[0]
        formula, of = first.declared.formula(self.definition)
        try:
            with stream_of(kept.written.device):
                formula(batch)
                for _, kept in group:
                    kept.item.grad = None  # nobody else may hold it by now
                    if kept.unfinished:
                        kept.finish()
        except StayNative as why:  # before anything was written
            for one in group:
                if len(group) > 1:
                    self._together(frame, [one], batch.of([one[1].item]))
                else:
                    self._native(frame, one[0], why)
            return
        here = passes.now()
        if here is not None:
            here.made += group
        tally = frame.tally
        tally.substituted[first.declared.name] += len(group)
        tally.definitions[first.declared.name, of] += len(group)
        dtype = dtype_of(kept.written.dtype)
        if is_listed_without(first.declared.name, dtype):
            tally.lacking[first.declared.name, dtype] += len(group)
        if first.declared.torch is not None and first.declared.paddle is not None:
            whose = (
                "by Torch's definition; Paddle alone keeps to its own"
                if of == "torch"
                else "by Paddle's; optimizer=\"torch\" takes Torch's"
            )
            frame.run.warn(f"{first.declared.name}: {first.declared.differs}. Computed {whose}")

    def _native(self, frame: Frame, one: Waiting, why: StayNative) -> Any:
        """Paddle's own update, with the decay that was left to Torch."""
        here = passes.now()
        args = one.args if here is None else here.given(one)
        put_off = None
        if here is not None:
            here.whole = False
            put_off = here.decays.get(id(args[0]))
        if put_off is not None:
            place = one.declared.place_of_grad
            args = (*args[:place], put_off[1](), *args[place + 1 :])
        result = one.other.original(*(args if one.lists is None else one.declared.in_lists(args, one.lists)))
        self._count(frame, one.declared.name, one.other.path, why)
        return result


def _rates(here: Pass | None, one: Waiting) -> tuple[float, float]:
    """Learning rate, and coefficient of the L2 decay that was put off."""
    param, place = one.args[0], one.declared.place_of_rate
    decay = 0.0 if here is None else here.decay_of(param)
    if place is None:
        return 0.0, decay
    if here is None:
        return float(as_it_lies(one.args[place]).item()), 0.0
    return here.learning_rate(one.args[place], param), decay


def _nothing(*_: Any) -> None:
    return None


def _pairs(optimizer: Any, parameters_and_grads: Any, param_group_idx: int = 0) -> Any:
    return parameters_and_grads
