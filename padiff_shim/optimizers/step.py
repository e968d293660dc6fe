"""An optimizer's step answered by Torch, in the parameters' and the accumulators' own memory."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import paddle
import torch

from ..dispatch.dtypes import is_listed_without
from ..dispatch.entry_point import Unlisted, gate
from ..dispatch.frames import Frame, top
from ..frameworks.memory import as_it_lies, dtype_of, stream_of, torch_dtype
from ..frameworks.versions import PaddleOptimizer
from ..table import reasons
from ..table.reasons import StayNative
from . import step_cache
from .step_cache import CrossedUpdate, Gatherer, Groups, ParameterPass, WaitingUpdate, crossed_update
from .update import Batch, Update, updates

# ---- Optimizers' updates, answered by Torch: in place, in the parameters' and the accumulators' own memory.
#
# Nothing announces the write, as natively: no version is counted. What is computed with the parameter next compares or reads its
# memory (weight copies, leaf twins). The updates of a step wait for one another, and are made in one call for all parameters that
# share their numbers, as Torch's optimizers do.

Count = Callable[[Frame, str, str, StayNative], None]


def coupled(optimizer: PaddleOptimizer) -> bool:
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

        def make(here: ParameterPass) -> Any:
            pairs = _pairs(*args, **kwargs)
            if not step_cache.take_refused(here.optimizer) and self._repeat(here, frame, pairs):
                return []
            before = step_cache.Before(here.optimizer, pairs)
            try:
                with self._as_torchs_scaler(frame, here.optimizer):
                    result = original(*args, **kwargs)
            finally:
                self.flush(here)
            step_cache.remember(before, here, pairs)
            return result

        return step_cache.run(make, args)

    def whole_step(self, frame: Frame, optimizer: PaddleOptimizer) -> bool:
        """``Optimizer.step``, made where it is as the last one; False, with nothing done, where Paddle has to make it."""
        pairs = pairs_of_step(optimizer)
        if pairs is None:
            return False
        step_cache.forget_decays()  # of a pass that was never made
        made = step_cache.run(lambda here: self._repeat(here, frame, pairs), (optimizer,))
        if not made:
            step_cache.refuse_repeat(optimizer)
        return bool(made)

    @contextlib.contextmanager
    def _as_torchs_scaler(self, frame: Frame, optimizer: PaddleOptimizer) -> Iterator[None]:
        """Behind a step that a scaler skips Paddle's Adamax counts it all the same; Torch's scaler skips it whole."""
        declared = updates().get(f"{getattr(optimizer, 'type', '')}_")
        if (
            self.definition != "torch"
            or declared is None
            or declared.behind is None
            or not step_cache.finishes_as_paddles(optimizer)
        ):
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

    def _repeat(self, here: ParameterPass, frame: Frame, pairs: Any) -> bool:
        """Make the updates of a pass that is as the last one; False where it is not."""
        if not self.repeats or top() is not frame:  # who looks on sees each call
            return False
        same_step = step_cache.again(here, frame, pairs)
        if same_step is None:
            return False
        self._all(frame, same_step.groups, same_step.gathered)
        first, _ = next(iter(same_step.groups.values()))[0]
        step_cache.finish(here.optimizer, first.declared, pairs)
        return True

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
        here = step_cache.now()
        if here is not None:
            here.whole = False  # kept are single calls alone
        self.make(here, [WaitingUpdate(declared, other, frame, arguments, lists) for arguments in single])
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
                update.take(call.args[0], call.args[call.declared.place_of_grad])
                if here is not None and update.mixed:
                    here.whole = False  # its copies are of this step alone
            except StayNative as why:
                self._native(call.frame, call, why)
                continue
            groups.setdefault((update.key, *_rates(here, call)), []).append((call, update))
        if waiting:
            self._all(waiting[0].frame, groups)

    def _all(self, frame: Frame, groups: Groups, gathered: Gatherer | None = None) -> None:
        """Make updates in groups; ``gathered``, where they are made again: with what Paddle's optimizer would do behind them."""
        with torch.no_grad():
            for (_, lr, decay), group in groups.items():
                items = [update.item for _, update in group]
                first, update = group[0]
                batch = Batch(items, update.numbers, lr, decay, gathered and gathered(items))
                self._together(frame, group, batch)
                if gathered is not None and first.declared.behind is not None:
                    first.declared.behind(batch)

    def _together(self, frame: Frame, group: Sequence[tuple[WaitingUpdate, CrossedUpdate]], batch: Batch) -> None:
        first, update = group[0]
        formula, of = first.declared.formula(self.definition)
        try:
            with stream_of(update.written.device):
                formula(batch)
                for _, update in group:
                    update.item.grad = None  # nobody else may hold it by now
                    if update.unfinished:
                        update.finish()
        except StayNative as why:  # before anything was written
            for pair in group:
                if len(group) > 1:
                    self._together(frame, [pair], batch.of([pair[1].item]))
                else:
                    self._native(frame, pair[0], why)
            return
        here = step_cache.now()
        if here is not None:
            here.made += group
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
        here = step_cache.now()
        args = call.args if here is None else here.arguments(call)
        put_off = None
        if here is not None:
            here.whole = False
            put_off = here.decays.get(id(args[0]))
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


def _nothing(*_: Any) -> None:
    return None


def _pairs(optimizer: PaddleOptimizer, parameters_and_grads: Any, param_group_idx: int = 0) -> Any:
    return parameters_and_grads


# ---- Paddle's whole ``Optimizer.step()`` passed by, where it would do nothing but look for gradients and hand them on.
#
# Between a program's ``step()`` and its updates Paddle clips, adds decay, and asks for processes, fused memory and static graphs.
# Where none of it is there, what its Python hands on is the parameters with their gradients, and that takes as long as to ask
# whether a step is as the last one (`step_cache`). ``step`` is intercepted only in a Paddle whose source was read
# (``intercept/optimizers.py``); whatever is not known here goes through Paddle's own Python.

_PADDLES = os.path.dirname(os.path.abspath(sys.modules[paddle.optimizer.Optimizer.__module__].__file__ or "")) + os.sep
_ON_THE_WAY = ("_apply_optimize", "append_regularization_ops", "_create_regularization_of_grad", "_create_optimization_pass")
_MAIN_GRAD = "FLAGS_enable_main_grad"  # up to Paddle 3.2: gradients are looked for elsewhere

Pairs = list[tuple[Any, Any]]


def pairs_of_step(optimizer: PaddleOptimizer) -> Pairs | None:
    """The parameters with their gradients that Paddle's Python would hand on; None where it may do anything else."""
    params = optimizer._param_groups
    if (
        not params
        or isinstance(params[0], dict)
        or optimizer._grad_clip is not None
        or optimizer.regularization is not None
        or getattr(optimizer, "enable_tensor_fusion", False)
        or not _goes_paddles_way(optimizer)
        or _is_unusual()
    ):
        return None
    pairs: Pairs = []
    for param in params:
        if param.stop_gradient:
            continue
        if getattr(param, "main_grad", None) is not None:
            return None
        grad = param._grad_ivar()
        if grad is not None:
            pairs.append((param, grad))
    known = step_cache.known_pass(optimizer, pairs[0][0]) if pairs else None
    return pairs if known is not None and known.undecayed else None


_seen: dict[type, tuple[list[Any], bool]] = {}  # by the class: its functions with their code, and whether they are Paddle's


def _goes_paddles_way(optimizer: PaddleOptimizer) -> bool:
    """Whether all functions between a step and its updates are Paddle's; those of this object alone are checked later."""
    kind = type(optimizer)
    functions = [getattr(kind, name, None) for name in _ON_THE_WAY]
    functions += [getattr(function, "__code__", None) for function in functions]
    known = _seen.get(kind)
    if known is None or known[0] != functions:
        if not kind.__module__.startswith("paddle.optimizer."):
            return False  # and not remembered: a program may make any number of classes
        known = _seen[kind] = functions, all(map(_is_paddles, functions[len(_ON_THE_WAY) :]))
    return known[1]


def _is_paddles(code: Any) -> bool:
    return code is not None and code.co_filename.startswith(_PADDLES)


def _is_unusual() -> bool:
    """Whether a step is traced, shared with other processes, or switched off."""
    shared = paddle.distributed.auto_parallel
    data_parallel, fully = getattr(shared, "auto_dp_utils", None), sys.modules.get(f"{shared.__name__}.fully_shard_fusion")
    return bool(
        paddle.base.dygraph.base.in_to_static_mode()
        or getattr(sys.modules[paddle.optimizer.Optimizer.__module__], "g_shard_bypass_dygraph_optimizer", 0)
        or (data_parallel is not None and data_parallel.in_auto_dp_mode())
        or (fully is not None and fully.get_fsdp_context() is not None)
        or _MAIN_GRAD in os.environ
    )
