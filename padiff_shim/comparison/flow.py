"""THE FLOW of one compared call.

    door -> sampling -> prepare -> Paddle's kernel -> torch's kernel -> verdicts -> records -> watch the grad node

Paddle's call is made with the very arguments that came in and its result goes on, untouched (``carry="native"``). Whatever goes
wrong on the comparing side is recorded and never reaches the program.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import paddle
import torch

from .. import planting
from ..dispatch.containers import nested
from ..dispatch.door import Door
from ..dispatch.frames import PAUSE, Frame, stand, standing
from ..dispatch.prepare import device_of, prepare
from ..frameworks.memory import CPU_ALONE, grad_tracer, stream_of, to_torch
from ..frameworks.surroundings import close_modes, open_modes
from ..frameworks.versions import IS_3, exchange_tracer
from ..postponed import after_engine, raise_postponed
from ..records.log import tell_of_forks
from ..runs.compare_run import CompareRun
from ..signals import let_pass
from ..table.reasons import BELOW, EMPTY, FORKED, INTEGER, RESULTS, STATIC, StayNative
from ..verdicts import NO_KERNEL, STEP, Judgement, Side, Verdict
from . import lacking, overwriting, packing, posts, replayed, watch
from .births import Births
from .cases import MISSING, Case, Gradient, Result, WrittenOperand
from .describe import Places
from .gradients import let_through
from .judge import Judge
from .later import Waiting
from .outcome import QUIET, Outcome
from .pulses import Pulses
from .results import first_judged, name_of, of_paddle
from .sampling import Sampling, kind_of
from .shadow import Shadow
from .subject import Subject

NO_MOVES = "not compared: exact=False"


class Comparison(Pulses):
    """The plan of compare mode (:class:`padiff_shim.dispatch.plan.Plan`); shared by all threads of one mode."""

    on_tape, tracks_layers, draws, lends = False, True, False, False

    def __init__(
        self,
        run: CompareRun,
        sampling: Sampling,
        outcome: Outcome,
        *,
        carry: str,
        audit: int,
        screening: bool,
        shadow: bool,
        defer: bool | None,
        moves: bool = True,
        seed: int,
    ) -> None:
        super().__init__(run, sampling, Shadow() if shadow else None)
        self.moves = moves  # ops that move or choose values are compared, too
        self.outcome = outcome
        self.carries_torch = carry == "torch"
        self.places = Places()
        self.judge = Judge(run, audit=audit, screening=screening, seed=seed)
        self.births = Births()
        self.numbers = itertools.count()
        self.defer = defer  # None: on CUDA
        self.waiting = Waiting(lambda case: self.outcome.act_later(self.settle(case)))
        tell_of_forks(self)

    def forked(self) -> None:
        """In the child of a fork: torch's kernels can hang, so nothing is compared, and what waits is the parent's to judge."""
        self.aside = FORKED.text
        self.waiting.forget()

    def call(self, door: Door, frame: Frame, values: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run one covered call natively and compare it."""
        if grad_tracer() is None:
            return door.native(*args, **kwargs)  # a graph is being built: nothing is computed here
        if door.entry.seen_below:
            raise StayNative(BELOW)
        if door.op.exact and not self.moves:
            if planting.any_planted():
                planting.uncompared(door.op.name, "it moves or chooses values, which compare(exact=False) leaves out")
            return self.uncompared(door, NO_MOVES, self.timed(door, args, kwargs), args, kwargs)
        if not self.sampling.accounts:
            return self.bound(door, frame, values, args, kwargs)
        entered = self.sampling.enter()
        try:
            return self.bound(door, frame, values, args, kwargs)
        finally:
            self.sampling.leave(entered)

    def bound(self, door: Door, frame: Frame, values: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """:meth:`call`, within the account of the budget."""
        if self.aside:
            return self.uncompared(door, self.aside, self.timed(door, args, kwargs))
        if self.updated:
            self.next_step()
        key, began = None, 0.0
        if not self.sampling.everything:
            key = kind_of(door.op.name, values if door.op.operands else values[: door.op.tensors])
            refusal = self.sampling.refusal(key, self.step)
            if refusal is not None:
                return self.uncompared(door, refusal, self.timed(door, args, kwargs), args, kwargs)
            began = self.sampling.clock()
        try:
            prepared = prepare(door, frame, values, args, kwargs)
        except StayNative as stays:
            if door.in_parts(stays):
                raise
            why = stays.with_traceback(None)
        else:
            if door.op.differs is not None:
                door.tell(frame, (*prepared.inputs.torch, *prepared.attributes))
            return self.compared(Subject(self, door, key, next(self.numbers), prepared), began, args, kwargs)
        result = self.timed(door, args, kwargs)  # not in there: what it raises has nothing of ours before it
        if why.why in (INTEGER, EMPTY):
            self.run.recorder.add_native(door.op.name, why.reason, None)
        return result if why.exact or why.why is STATIC else self.uncompared(door, why.reason, result, args, kwargs)

    def compared(self, subject: Subject, began: float, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Paddle's result of a call that is compared. ``began``: when the comparing began."""
        if self.carries_torch:
            args, kwargs = watch.before(subject, args, kwargs)
        clock, outer, elapsed = self.sampling.clock, packing.gather(), 0.0
        reads = subject.door.python and not subject.door.entry.inplace and not subject.door.op.writes
        versions = overwriting.versions(subject.inputs.paddle) if reads else ()
        missing: RuntimeError | None = None
        try:
            if subject.key is None:
                result = subject.door.native(*args, **kwargs)
            else:
                start = clock()
                result = subject.door.native(*args, **kwargs)
                elapsed = clock() - start
                self.sampling.native(elapsed)
        except RuntimeError as error:
            subject.lacks = lacking.dtype_of(subject.door.op, error, args, kwargs)
            if not subject.lacks:
                raise
            missing = error.with_traceback(None)
        finally:
            subject.passages = packing.gathered(outer)
        if missing is not None:
            args, kwargs, result = self.stood_in(subject, args, kwargs)
        if subject.aliased:
            result = watch.between(subject, result)
        for record in self.records(subject, result, args, kwargs, began + elapsed):
            self.outcome.act(record)
        for operand in overwriting.written(subject.inputs.paddle, versions):
            case = WrittenOperand(subject, operand)
            self.outcome.act(self.outcome.record(case, case.verdict))
        raise_postponed()  # cases that waited may have been judged
        if missing is not None and not self.carries_torch:
            raise lacking.advised(missing, subject.lacks)
        return result

    def stood_in(self, subject: Subject, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """Of a call that Paddle has no kernel for: its arguments as they were given, and the result of its kernel in float32."""
        args, kwargs = watch.before(subject, args, kwargs)
        if not self.carries_torch:  # the program's own call is going to fail, and has written nothing
            written = [subject.inputs.paddle[place] for place in subject.door.overwritten]
            args, kwargs = lacking.spared(written, args, kwargs)
        place = 0 if subject.door.entry.inplace else None
        return args, kwargs, lacking.in_float32(subject.door.native, args, kwargs, subject.lacks, place)

    def records(
        self, subject: Subject, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any], began: float
    ) -> Sequence[dict[str, Any]]:
        """The records of :meth:`forward`, which runs outside the program's modes; its errors never reach the program.

        The budget pays for the time since ``began``.
        """
        records: Sequence[dict[str, Any]] = ()
        before, recorded, modes = standing(), torch.is_grad_enabled(), open_modes()
        tracer = exchange_tracer(None)  # torch imports, when it first needs it, what is no part of the program
        try:
            stand((*before, PAUSE))
            if CPU_ALONE:
                records = self.forward(subject, result, args, kwargs)
            else:
                with stream_of(device_of(subject.operands, subject.attributes)):
                    records = self.forward(subject, result, args, kwargs)
        except StayNative as why:
            self.uncompared(subject.door, why.reason, result)
        except Exception as error:  # comparing must never break the program
            let_through(error)
            self.uncompared(subject.door, f"the comparison failed: {type(error).__name__}: {str(error)[:120]}", result)
        finally:
            try:
                stand(before)
            finally:
                try:
                    exchange_tracer(tracer)
                finally:
                    torch._C._set_grad_enabled(recorded)  # a Ctrl-C may have come at the end of a no_grad()
                    close_modes(modes)
            if subject.key is not None:
                self.sampling.spent(subject.key, self.sampling.clock() - began)
        return records

    def forward(self, subject: Subject, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[dict[str, Any]]:
        """Torch's kernel on the same operands, verdicts on what both gave, and the watch over the gradients."""
        natives = of_paddle(subject.door, result)
        references = subject.run_reference(natives)
        if len(natives) != len(references):
            raise StayNative(RESULTS, paddle=len(natives), torch=len(references))
        gathers = len(natives) > 1 and self.run.recorder.gather()
        try:
            records = self.results(subject, natives, references, (args, kwargs))
        finally:
            if gathers:
                self.run.recorder.put()
        if subject.inputs.needs and (self.carries_torch or not subject.lacks):
            watch.after(subject, natives, args, kwargs, nested=nested(result))
        return records

    def results(self, subject: Subject, mine: Sequence[Any], theirs: Sequence[Any], call: tuple[Any, ...]) -> list[dict[str, Any]]:
        """The records of a call's results, but of those that wait or that nobody has to see. ``call``: Paddle's arguments."""
        records, left_out = [], subject.door.op.unjudged
        for position, (one, other) in enumerate(zip(mine, theirs)):
            if left_out and name_of(subject.door.op, position) in left_out:
                continue
            if isinstance(one, paddle.Tensor) and one._is_initialized() and isinstance(other, torch.Tensor):
                record = self.result(subject, position, one, other, call)
                if record is not None and record is not QUIET:
                    records.append(record)
        subject.results = None
        return records

    def result(
        self, subject: Subject, position: int, shown: Any, theirs: torch.Tensor, call: tuple[Any, ...]
    ) -> dict[str, Any] | None:
        """The case of one result of a call, which Paddle made with the arguments ``call``."""
        mine = to_torch(shown)
        if planting.any_planted() and position == first_judged(subject.door.op):
            mine, theirs = self.spoiled(subject, mine, theirs)
        case = Result(subject, position, mine, theirs, call)
        if self.shadow is not None:
            case.extra = self.shadow.forward(subject, position, shown, theirs)
        record = None
        if self.waits(mine):
            self.keep(case, [*subject.inputs.paddle, shown])
        else:
            record = self.settle(case)
        if self.carries_torch and mine.shape == theirs.shape and mine.dtype == theirs.dtype:
            mine.copy_(theirs)
        return record

    def spoiled(self, subject: Subject, mine: torch.Tensor, theirs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Both first results with the faults applied that :mod:`padiff_shim.testing` planted."""
        layer, values = subject.layer, subject.values()
        changed = planting.spoil(mine, subject.door, Side.PADDLE, layer, values)
        if changed is not mine:
            mine.copy_(changed)  # the program goes on with it
        return mine, planting.spoil(theirs, subject.door, Side.TORCH, layer, values)

    def spoiled_gradient(
        self, subject: Subject, operand: int, native: torch.Tensor, reference: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Both gradients of an operand with the faults applied that :mod:`padiff_shim.testing` planted."""
        if planting.any_planted():
            layer, name = subject.layer, subject.name_of(operand)
            native = planting.spoil(native, subject.door, Side.PADDLE, layer, subject.values(), name=name)
            reference = planting.spoil(reference, subject.door, Side.TORCH, layer, subject.values(), name=name)
        return native, reference

    def gradient(
        self,
        subject: Subject,
        operand: int,
        grads: Mapping[int, torch.Tensor],
        pairs: Mapping[int, tuple[torch.Tensor, torch.Tensor]],
        *,
        missing: bool = False,
    ) -> None:
        """The case of one gradient of a call, for these incoming gradients of its results.

        ``pairs``: Paddle's and Torch's gradients of all operands; ``missing``: Paddle gave none, and its is zeros.
        """
        case = Gradient(subject, operand, grads, *pairs[operand])
        if len(pairs) == 2 and subject.door.op.ties is not None:
            case.partners = pairs
        case.extra = MISSING if missing else None
        if self.waits(case.mine):
            self.keep(case, subject.inputs.paddle)
        elif (record := self.settle(case)) is not QUIET:
            self.outcome.act_later(record)

    def unseen(self, subject: Subject, reason: str, operands: Iterable[int] | None = None) -> None:
        """Gradients (of all operands that want one, or of ``operands``) that cannot be observed are recorded as such."""
        for operand in subject.inputs.needs if operands is None else operands:
            case = Gradient(subject, operand, {}, subject.operands[operand], subject.operands[operand])
            self.outcome.record(case, Judgement(Verdict.UNVERIFIED, reason=reason))

    def keep(self, case: Case, involved: Sequence[Any]) -> None:
        """Let a case wait."""
        case.wait(involved)
        self.waiting.add(case)

    def waits(self, tensor: torch.Tensor) -> bool:
        """Whether verdicts on such tensors wait."""
        return not self.carries_torch and (tensor.is_cuda if self.defer is None else self.defer)

    def settle(self, case: Case) -> dict[str, Any]:
        """Judge a case and write its record."""
        judgement = self.judge(case)
        if lacks := case.subject.lacks:
            if isinstance(case, Gradient) and not IS_3:
                judgement = Judgement(Verdict.UNVERIFIED, reason=lacking.CAST_GRADIENT)
            reason = lacking.STANDS_IN.format(dtype=lacks) + judgement.reason
            judgement = replace(judgement, modifiers=(*judgement.modifiers, NO_KERNEL), reason=reason)
        if case.extra:
            judgement = replace(judgement, stats={**judgement.stats, **case.extra})
            if case.subject.door.op.steps and (case.extra.get("amplification") or 0.0) > 1.0:
                judgement = replace(judgement, modifiers=(*judgement.modifiers, STEP))
        if case.extra is MISSING:
            judgement = replace(judgement, reason=f"Paddle gives no gradient, which counts as zeros; {judgement.reason}")
        return self.outcome.record(case, judgement, self.born(case, judgement))

    def born(self, case: Case, judgement: Judgement) -> dict[str, Any] | None:
        """What the record says of NaN and infinities that begin here."""
        sides = case.mine, case.theirs
        if case.changed is not None or sides[0].shape != sides[1].shape:
            return None
        try:
            return self.births.of(case, sides, equal=judgement.verdict is Verdict.EQUAL)
        except Exception as error:  # comparing must never break the program
            let_pass(error)
            self.run.warn(f"where a NaN or an infinity began was not seen: {type(error).__name__}: {str(error)[:200]}")
            return None

    def replay(self, subject: Subject, incoming: Mapping[int, Any]) -> None:
        """Paddle's engine has returned: the gradients of a node that cannot be hooked, before an optimizer changes its operands."""
        try:
            replayed.replay(subject, incoming)
        except Exception as error:  # comparing must never break the program
            let_through(error)
            self.unseen(subject, f"Paddle's gradients could not be computed again: {type(error).__name__}: {str(error)[:120]}")

    def backward_begins(self, frame: Frame) -> None:
        """Nothing to do."""

    def backward_ends(self, frame: Frame) -> None:
        """What was kept for the backward is judged when Paddle's engine has returned."""
        after_engine(functools.partial(self.backward_ended, frame))

    def backward_ended(self, frame: Frame) -> None:
        """Paddle's engine has returned."""
        began = self.sampling.clock() if self.sampling.accounts else 0.0
        posts.let_go()
        self.waiting.settle()
        if self.sampling.accounts:
            self.sampling.charge(self.sampling.clock() - began)
        self.layer_begins(frame)

    def next_step(self) -> None:
        """A new step of the program begins."""
        self.waiting.settle()
        raise_postponed()
        self.step_ends()
        self.updated = False
        self.step += 1
