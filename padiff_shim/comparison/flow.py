"""THE FLOW of one compared call.

    hook (call.py) -> sampling -> prepare -> Paddle's kernel -> torch's kernel -> verdict -> record -> watch the grad node

Paddle's call is made with the very arguments that came in and its result goes on, untouched (``carry="native"``). Whatever goes
wrong on the comparing side is recorded and never reaches the program.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch

from .. import numerics, testing
from ..dispatch.door import Door
from ..dispatch.frames import Frame, paused
from ..dispatch.plan import Unlisted
from ..dispatch.prepare import first_tensor, prepare
from ..frameworks.memory import grad_tracer, stream_of, to_torch
from ..postponed import after_engine, raise_postponed
from ..records.log import LogError, tell_of_forks
from ..runs.compare_run import CompareRun
from ..table.reasons import FORKED, NO_REFERENCE, STATIC, StayNative
from ..verdicts import Judgement, Side, Verdict
from . import posts, watch
from .later import Case, Waiting
from .native import elements
from .outcome import Outcome
from .sampling import Sampling, kind_of
from .shadow import Shadow
from .subject import Subject, describe_tensor

_NOTHING: dict[str, Any] = {}


class Comparison:
    """The plan of compare mode (:class:`padiff_shim.dispatch.plan.Plan`); shared by all threads of one mode."""

    on_tape, tracks_layers = False, True

    def __init__(
        self,
        run: CompareRun,
        sampling: Sampling,
        outcome: Outcome,
        *,
        carry: str,
        audit: int,
        shadow: bool,
        defer: bool | None,
        seed: int,
    ) -> None:
        self.run, self.sampling, self.outcome = run, sampling, outcome
        self.carries_torch = carry == "torch"
        self.audit = audit
        self.random = np.random.default_rng(seed)
        self.numbers = itertools.count()
        self.equals = itertools.count(1)
        self.step = 0
        self.updated = False  # an optimizer ran: the next covered call begins a new step
        self.shadow = Shadow() if shadow else None
        self.defer = defer  # None: on CUDA
        self.waiting = Waiting(lambda case: self.outcome.act_later(self.settle(case)))
        self.aside = ""  # non-empty: nothing is compared in this process, for this reason
        self.unfinished = False  # a graph whose gradients are to be compared waits for its backward
        tell_of_forks(self)

    def forked(self) -> None:
        """In the child of a fork: torch's kernels can hang, so nothing is compared, and what waits is the parent's to judge."""
        self.aside = FORKED.text
        self.waiting.forget()

    def call(self, sub: Door, frame: Frame, values: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run one covered call natively and compare it."""
        if grad_tracer() is None:
            return sub.paddle(args, kwargs)  # a graph is being built: nothing is computed here
        if sub.op.exact:
            return self.exact(sub.op.name, sub.original, args, kwargs)
        if not self.sampling.accounts:
            return self.bound(sub, frame, values, args, kwargs)
        entered = self.sampling.enter()
        try:
            return self.bound(sub, frame, values, args, kwargs)
        finally:
            self.sampling.leave(entered)

    def bound(self, sub: Door, frame: Frame, values: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """:meth:`call`, within the account of the budget."""
        if self.aside:
            return self.uncompared(sub, self.aside, self.timed(sub, args, kwargs))
        if self.updated:
            self.next_step()
        key = kind_of(sub.op.name, values if sub.op.operands else values[: sub.op.tensors])
        refusal = self.sampling.refusal(key, self.step)
        if refusal is not None:
            return self.uncompared(sub, refusal, self.timed(sub, args, kwargs), args, kwargs)
        clock = self.sampling.clock
        began = clock()
        try:
            prepared = prepare(sub, frame, values, args, kwargs)
        except StayNative as why:
            result = self.timed(sub, args, kwargs)
            return result if why.exact or why.why is STATIC else self.uncompared(sub, why.reason, result, args, kwargs)
        subject = Subject(self, sub, key, next(self.numbers), prepared)
        args, kwargs = watch.before(subject, args, kwargs)
        start = clock()
        result = sub.paddle(args, kwargs)
        elapsed = clock() - start
        self.sampling.native(elapsed)
        if subject.aliased:
            shown = watch.between(subject, result[0] if sub.entry.returns_list else result)
            result = [shown] if sub.entry.returns_list else shown
        record = None
        try:
            with paused(), stream_of(first_tensor(subject.operands)):
                record = self.forward(subject, result[0] if sub.entry.returns_list else result, args, kwargs)
        except StayNative as why:
            self.uncompared(sub, why.reason, result)
        except LogError:  # the user wants to know: on_log_error="raise"
            raise
        except Exception as error:  # comparing must never break the program
            self.uncompared(sub, f"the comparison failed: {type(error).__name__}: {str(error)[:120]}", result)
        finally:
            self.sampling.spent(key, clock() - began - elapsed)
        if record is not None:
            self.outcome.act(record)
        raise_postponed()  # cases that waited may have been judged
        return result

    def timed(self, sub: Door, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Paddle's own call, timed where there is a budget."""
        if not self.sampling.accounts:
            return sub.paddle(args, kwargs)
        start = self.sampling.clock()
        try:
            return sub.paddle(args, kwargs)
        finally:
            self.sampling.native(self.sampling.clock() - start)

    def uncompared(self, sub: Door, reason: str, result: Any, args: Any = (), kwargs: Any = _NOTHING) -> Any:
        """Count a covered call that was not compared; returns its result."""
        self.run.recorder.add_native(sub.op.name, reason, elements(result[0] if sub.entry.returns_list else result))
        if not sub.entry.inplace:
            self.moved(sub.original, args, kwargs, result)
        return result

    def native(self, sub: Door, frame: Frame, why: StayNative, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call that the mode's filters leave out, or that does not fit the op's parameters."""
        result = sub.paddle(args, kwargs)
        if why.why is not STATIC and grad_tracer() is not None:
            frame.tally.native[sub.op.name, why.reason] += 1
        return result

    def unlisted(self, other: Unlisted, frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A float op without reference: Paddle's kernel, counted."""
        result = other.original(*args, **kwargs)
        if grad_tracer() is None:
            return result  # a graph is being built
        entered = self.sampling.enter() if self.sampling.accounts else 0.0
        self.run.recorder.add_native(other.name, other.reason.text, elements(result))
        if other.updates:
            self.updated = True
        elif other.reason is NO_REFERENCE and not other.name.endswith("_"):
            self.moved(other.original, args, kwargs, result)
        if self.sampling.accounts:
            self.sampling.leave(entered)
        return result

    def passed(self, other: Unlisted) -> None:
        """Steps are counted while the frame stands idle, too."""
        if other.updates:
            self.updated = True

    def exact(self, name: str, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Nothing to compare; a shadow stream passes through."""
        result = original(*args, **kwargs)
        self.moved(original, args, kwargs, result)
        return result

    def py_layer(self, name: str, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Natively."""
        return original(*args, **kwargs)

    def moved(self, original: Callable[..., Any], args: Any, kwargs: Any, result: Any) -> None:
        """Pass a shadow stream, if one is kept, on through a call that is not compared."""
        if self.shadow is None or self.aside or grad_tracer() is None:
            return
        try:
            self.shadow.carry(original, args, kwargs, result)
        except Exception as error:  # the stream ends here; the program does not
            self.run.warn(f"a shadow was not passed on: {type(error).__name__}: {str(error)[:200]}")

    def forward(self, subject: Subject, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any] | None:
        """Torch's kernel on the same operands, the case for a verdict, and the watch over its gradients."""
        sub, theirs = subject.sub, subject.run_reference()
        mine, values = to_torch(result), subject.values()
        mine, theirs = self.spoiled(subject, mine, theirs)
        case = Case(
            {**subject.fields, "phase": "forward", "tensor": "out", **describe_tensor(mine)},
            mine,
            theirs,
            lambda: sub.op.model.forward(values) if sub.op.model is not None else None,
            lambda: subject.kernels(args, kwargs),
            lambda: {**dict(zip(sub.names, values)), "paddle": mine, "torch": theirs},
            self.shadow.forward(subject, result, theirs) if self.shadow is not None else {},
        )
        record = self.take(case, [*subject.inputs.paddle, result])
        if self.carries_torch and mine.shape == theirs.shape and mine.dtype == theirs.dtype:
            mine.copy_(theirs)
        if subject.inputs.needs:
            self.unfinished = True
            watch.after(subject, result)
        return record

    def spoiled(self, subject: Subject, mine: torch.Tensor, theirs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Both results with the faults applied that :mod:`padiff_shim.testing` planted."""
        sub, layer, values = subject.sub, subject.fields["layer"], subject.values()
        changed = testing.spoil(mine, sub, Side.PADDLE, layer, values)
        if changed is not mine:
            mine.copy_(changed)  # the program goes on with it
        return mine, testing.spoil(theirs, sub, Side.TORCH, layer, values)

    def gradient(self, subject: Subject, operand: int, grad: torch.Tensor, mine: torch.Tensor, theirs: torch.Tensor) -> None:
        """The case of one gradient of a call."""
        sub, values, name = subject.sub, subject.values(), subject.name_of(operand)
        position, layer, out = subject.inputs.needs.index(operand), subject.fields["layer"], subject.out
        asked = f"operands.{operand}" if sub.op.operands else name
        mine = testing.spoil(mine, sub, Side.PADDLE, layer, values, name=name)
        theirs = testing.spoil(theirs, sub, Side.TORCH, layer, values, name=name)
        case = Case(
            {**subject.fields, "phase": "backward", "tensor": f"grad:{name}", **describe_tensor(mine)},
            mine,
            theirs,
            lambda: sub.op.model.gradient(asked, values, out, grad) if sub.op.model is not None else None,
            lambda: subject.gradient_kernels(position, grad),
            lambda: {**dict(zip(sub.names, values)), "grad": grad, "paddle": mine, "torch": theirs},
        )
        record = self.take(case, subject.inputs.paddle)
        if record is not None:
            self.outcome.act_later(record)

    def unseen(self, subject: Subject, reason: str, operands: Iterable[int] | None = None) -> None:
        """Gradients (of all operands that want one, or of ``operands``) that cannot be observed are recorded as such."""
        for operand in subject.inputs.needs if operands is None else operands:
            side = subject.operands[operand]
            fields = {**subject.fields, "phase": "backward", "tensor": f"grad:{subject.name_of(operand)}", **describe_tensor(side)}
            self.outcome.record(fields, Judgement(Verdict.UNVERIFIED, reason=reason), dict)

    def take(self, case: Case, involved: Sequence[Any]) -> dict[str, Any] | None:
        """Settle a case now and give its record, or let it wait (None)."""
        if not self.waits(case.mine):
            return self.settle(case)
        case.watched = [(tensor, tensor.inplace_version) for tensor in involved if hasattr(tensor, "inplace_version")]
        self.waiting.add(case)
        return None

    def waits(self, tensor: torch.Tensor) -> bool:
        """Whether verdicts on such tensors wait."""
        return not self.carries_torch and (tensor.is_cuda if self.defer is None else self.defer)

    def settle(self, case: Case) -> dict[str, Any]:
        """Judge a case and write its record."""
        judgement = case.changed or self.judge(case)
        judgement.stats.update(case.extra)
        return self.outcome.record(case.fields, judgement, case.tensors)

    def judge(self, case: Case) -> Judgement:
        """The verdict on one tensor; an error of the verdict's own code becomes UNVERIFIED with its text."""
        mine, theirs = case.mine, case.theirs
        if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
            ours, others = describe_tensor(mine), describe_tensor(theirs)
            return Judgement(Verdict.UNVERIFIED, reason=f"Paddle's result is {ours}, torch's {others}: nothing to compare")
        try:
            quantity = case.quantity()
            if quantity is None:
                return numerics.fallback(mine, theirs, rng=self.random, **case.kernels())
            audit = self.audit > 0 and next(self.equals) % self.audit == 0
            return numerics.judge(quantity, mine, theirs, rng=self.random, audit=audit)
        except Exception as error:
            text = f"{type(error).__name__}: {str(error)[:200]}"
            self.run.warn(f"no verdict on a call of {case.fields['op']!r}: {text}")
            return Judgement(Verdict.UNVERIFIED, reason=f"the verdict failed: {text}")

    def replay(self, subject: Subject, grad: Any) -> None:
        """Paddle's engine has returned: the gradients of a node that cannot be hooked, before an optimizer changes its operands."""
        try:
            watch.replay(subject, grad)
        except Exception as error:  # comparing must never break the program
            self.unseen(subject, f"Paddle's gradients could not be computed again: {type(error).__name__}: {str(error)[:120]}")

    def backward_ends(self, frame: Frame) -> None:
        """What was kept for the backward is judged when Paddle's engine has returned."""
        after_engine(functools.partial(self.backward_ended, frame))

    def backward_ended(self, frame: Frame) -> None:
        """Paddle's engine has returned."""
        posts.let_go()
        self.waiting.settle()
        self.unfinished = False
        self.layer_begins(frame)

    def layer_begins(self, frame: Frame) -> None:
        """Where the program takes breath: with a budget, the hooks of ``frame`` may stand idle until the next pulse.

        Not where several threads share the mode, nor while gradients are awaited or a shadow stream has to be kept.
        """
        if not self.sampling.accounts or self.aside or self.shadow is not None or self.unfinished or not frame.sole:
            return
        if self.updated:
            self.next_step()
        frame.idle = self.sampling.pulse(frame.idle)

    def next_step(self) -> None:
        """A new step of the program begins."""
        self.waiting.settle()
        raise_postponed()
        self.updated = False
        self.step += 1
