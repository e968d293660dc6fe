"""An optimizer's step answered by Torch, in the parameters' and the accumulators' own memory."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from ..dispatch.dtypes import is_listed_without
from ..dispatch.entry_point import Unlisted, gate
from ..dispatch.frames import Frame
from ..frameworks.memory import as_it_lies, dtype_of, stream_of, torch_dtype
from ..frameworks.versions import PaddleOptimizer
from ..table import reasons
from ..table.reasons import StayNative
from . import step_cache
from .step_cache import CrossedUpdate, ParameterPass, WaitingUpdate, crossed_update
from .update import Batch, Update, updates

# Nothing announces the write, as natively: no version is counted. What is computed with the parameter next compares or reads its
# memory (weight copies, leaf twins). The updates of a step wait for one another, and are made in one call for all parameters that
# share their numbers, as Torch's optimizers do.

Count = Callable[[Frame, str, str, StayNative], None]
Groups = dict[Any, list[tuple[WaitingUpdate, CrossedUpdate]]]  # by their numbers, the learning rate and the decay


def coupled(optimizer: PaddleOptimizer) -> bool:
    """Whether an optimizer's update is declared to take L2 decay."""
    declared = updates().get(f"{getattr(optimizer, 'type', '')}_")
    return declared is not None and declared.coupled


class Updating:
    """The updates of one mode: by whose definition, and how those that stay native are counted."""

    def __init__(self, definition: str, count: Count) -> None:
        self.definition, self._count = definition, count

    def step(self, original: Callable[..., Any], frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """``Optimizer._create_optimization_pass``, whose updates wait for one another."""

        def make(here: ParameterPass) -> Any:
            try:
                with self._as_torchs_scaler(frame, here.optimizer):
                    return original(*args, **kwargs)
            finally:
                self.flush(here)

        return step_cache.run(make, args)

    @contextlib.contextmanager
    def _as_torchs_scaler(self, frame: Frame, optimizer: PaddleOptimizer) -> Iterator[None]:
        """Behind a step that a scaler skips Paddle's Adamax counts it all the same; Torch's scaler skips it whole."""
        declared = updates().get(f"{getattr(optimizer, 'type', '')}_")
        if self.definition != "torch" or declared is None or not declared.at_once or not step_cache.finishes_as_paddles(optimizer):
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
        optimizer._finish_update = lambda *_: None
        try:
            yield
        finally:
            del optimizer._finish_update

    def call(self, declared: Update, other: Unlisted, frame: Frame, args: tuple[Any, ...]) -> Any:
        """One call of a C function; what Paddle's would return."""
        try:
            gate(frame, declared.name)
            declared.names(len(args))
        except StayNative as why:
            return self._native(frame, WaitingUpdate(declared, other, frame, args), why)
        here = step_cache.now()
        self._add(here, WaitingUpdate(declared, other, frame, args))
        return declared.results_of(args)

    def merged(self, declared: Update, other: Unlisted, frame: Frame, args: tuple[Any, ...]) -> Any:
        """One call of a C function that takes lists."""
        try:
            gate(frame, declared.name)
            lists, single = declared.lists(args), declared.singly(args)
        except StayNative as why:
            self._count(frame, declared.name, other.path, why)
            return other.original(*args)
        self.make(step_cache.now(), [WaitingUpdate(declared, other, frame, arguments, lists) for arguments in single])
        return declared.results_of_merged(args)

    def _add(self, here: ParameterPass | None, call: WaitingUpdate) -> None:
        if here is None or not here.collects or call.declared.at_once:
            self.make(here, [call])
            return
        key = id(call.args[0])
        if key in here.waiting:
            self.flush(here)
        here.waiting[key] = call

    def flush(self, here: ParameterPass) -> None:
        """Make all updates that wait."""
        waiting, here.waiting = here.waiting, {}
        self.make(here, list(waiting.values()))

    def make(self, here: ParameterPass | None, waiting: Sequence[WaitingUpdate]) -> None:
        """Make updates: those that share their numbers in one call."""
        groups: Groups = {}
        for call in waiting:
            try:
                dtype = dtype_of(torch_dtype(call.args[0].dtype))
                if not call.frame.plan.lends and is_listed_without(call.declared.name, dtype):
                    raise StayNative(reasons.NO_KERNEL, dtype=dtype)
                narrow = self.definition == "torch" and call.declared.torch is not None
                update = crossed_update(here and here.optimizer, call.declared, call.args, narrow=narrow)
                update.take(call.args[call.declared.place_of_grad])
            except StayNative as why:
                self._native(call.frame, call, why)
                continue
            groups.setdefault((update.key, *_rates(here, call)), []).append((call, update))
        with torch.no_grad():
            for (_, lr, decay), group in groups.items():
                items = [update.item for _, update in group]
                self._together(waiting[0].frame, group, Batch(items, group[0][1].numbers, lr, decay))
                for item in items:
                    item.grad = None  # nobody may hold it longer than the step

    def _together(self, frame: Frame, group: Sequence[tuple[WaitingUpdate, CrossedUpdate]], batch: Batch) -> None:
        first, update = group[0]
        formula, of = first.declared.formula(self.definition)
        try:
            with stream_of(update.written.device):
                formula(batch)
                for _, update in group:
                    if update.unfinished:
                        update.finish()
        except StayNative as why:  # before anything was written
            for pair in group:
                if len(group) > 1:
                    self._together(frame, [pair], batch.of([pair[1].item]))
                else:
                    self._native(frame, pair[0], why)
            return
        tally = frame.tally
        tally.substituted[first.declared.name] += len(group)
        tally.definitions[first.declared.name, of] += len(group)
        dtype = dtype_of(update.written.dtype)
        if is_listed_without(first.declared.name, dtype):
            tally.lacking[first.declared.name, dtype] += len(group)
        if first.declared.torch is not None and first.declared.paddle is not None:
            whose = (
                "by Torch's definition; Paddle alone keeps to its own"
                if of == "torch"
                else "by Paddle's; optimizer=\"torch\" takes Torch's"
            )
            frame.run.warn(f"{first.declared.name}: {first.declared.differs}. Computed {whose}")

    def _native(self, frame: Frame, call: WaitingUpdate, why: StayNative) -> Any:
        """Paddle's own update, with the decay that was left to Torch."""
        here, args = step_cache.now(), call.args
        put_off = None if here is None else here.decays.get(id(args[0]))
        if put_off is not None:
            place = call.declared.place_of_grad
            args = (*args[:place], put_off[1](), *args[place + 1 :])
        result = call.other.original(*(args if call.lists is None else call.declared.in_lists(args, call.lists)))
        self._count(frame, call.declared.name, call.other.path, why)
        return result


def _rates(here: ParameterPass | None, call: WaitingUpdate) -> tuple[float, float]:
    """Learning rate, and coefficient of the L2 decay that was put off."""
    param, place = call.args[0], call.declared.place_of_rate
    decay = 0.0 if here is None else here.decay_of(param)
    if place is None:
        return 0.0, decay
    if here is None:
        return float(as_it_lies(call.args[place]).item()), 0.0
    return here.learning_rate(call.args[place], param), decay
