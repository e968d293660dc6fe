"""Compare mode's plan: the flow of one compared call, and of calls that are not compared."""

from __future__ import annotations

import functools
import inspect
import itertools
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import paddle
import torch

from .. import fault_injection
from ..dispatch import call_site, dtypes
from ..dispatch.dtypes import exchanged_in
from ..dispatch.entry_point import EntryPoint, Unlisted, gate
from ..dispatch.frames import PAUSE, Frame, paused, stand, standing, top
from ..dispatch.operands import flat, nested
from ..dispatch.prepare import device_of, prepare
from ..frameworks.autocast import autocast_off, grad_tracer
from ..frameworks.memory import CPU_ALONE, FLOATS, stream_of, to_torch
from ..frameworks.torch_state import close_modes, open_modes, put_aside
from ..frameworks.versions import IS_3, exchange_tracer
from ..interrupts import after_engine, let_pass, raise_postponed
from ..measure.difference import Comparator
from ..optimizers.update import updates as declared_updates
from ..runlog.counts import SECOND_UNCHECKED, WRITE_UNCHECKED
from ..runlog.writer import call_after_fork
from ..runs.compare_run import CompareRun
from ..table.op import Op
from ..table.reasons import BELOW, DRAWN, EMPTY, FORKED, INTEGER, NO_REFERENCE, OPTIMIZER, RANDOM, RESULTS, STATIC, StayNative
from ..tape import paddle_graph
from ..tape.islands import WRITES
from ..tape.twins import alive
from ..text import english, logged, many
from ..torch_versions import set_grad_enabled
from ..verdicts import NO_KERNEL, STEP, Judgement, Side, Verdict
from . import compared_call, gradients, indexed, updates
from .compared_call import (
    MISSING,
    ComparedCall,
    ComparedTensor,
    Gradient,
    RecordPlaces,
    Result,
    WrittenOperand,
    first_judged,
    of_paddle,
    result_name,
)
from .gradients import let_through
from .judge import MUTED, Births, Consequences, Judge
from .replicas import ReplicaDigests
from .sampling import Sampling, kind_of
from .second_derivatives import GradientCall
from .shadow import Shadow

# ---- Calls without a Paddle kernel in 16 bits: Paddle's kernel in float32 stands in.

REASON = logged("native kernel missing in {dtype}")
STANDS_IN = logged("Paddle has no kernel in {dtype} here: its side is that of its kernel in float32, rounded; ")
CAST_GRADIENT = logged("Paddle 2.6 rounds the cast of a gradient to 16 bits towards zero")
ADVICE = (
    '\n  [padiff_shim: this Paddle has no kernel in {dtype} on this device. compare("torch", carry="torch") goes on with Torch\'s '
    'results; reference("torch") runs the program on Torch\'s kernels.]'
)


def dtype_of(op: Op, error: Exception, args: Any, kwargs: dict[str, Any]) -> str:
    """The dtype in which Paddle has no kernel for a call that it answered with ``error``, if float32 can stand for it; or ""."""
    let_pass(error)
    return dtypes.lacks(op.name, error, args, kwargs, mixed=op.promote == "none")


def in_float32(make: Callable[..., Any], args: Any, kwargs: dict[str, Any], dtype: str, written: int | None = None) -> Any:
    """Paddle's own call on the same values in float32, with its result in ``dtype`` again, on Paddle's graph.

    ``written``: position of the argument that the call writes into.
    """
    with paused(), autocast_off():
        result, wide = dtypes.in_float32(make, args, kwargs, dtype, _cast)
        if written is None:
            return result
        target = args[written]
        paddle.assign(_cast(wide[id(target)], dtype), target)
    return target if result is wide[id(target)] else result


def _cast(tensor: Any, dtype: str) -> Any:
    """A cast on Paddle's graph, rounded to the nearest: Paddle 2.6 rounds towards zero."""
    result = tensor.astype(dtype)
    if tensor.size and dtype != "float32":
        to_torch(result.detach()).copy_(to_torch(tensor.detach()))
    return result


def advised(error: RuntimeError, dtype: str) -> RuntimeError:
    """Paddle's own error, which says as well what to write."""
    error.args = (f"{error}{ADVICE.format(dtype=dtype)}",)
    return error


# ---- Calls that are not compared: Paddle's kernels alone, counted with the reason.

_NOTHING: dict[str, Any] = {}


class NativeCalls:
    """The part of the plan of compare mode that runs Paddle's kernels alone."""

    carries_torch = False  # the program goes on with Torch's results

    def __init__(self, run: CompareRun, sampling: Sampling, shadow: Shadow | None) -> None:
        self.run, self.sampling, self.shadow = run, sampling, shadow
        self.aside = ""  # non-empty: nothing is compared in this process, for this reason
        self.replicas: ReplicaDigests | None = None  # of several ranks: what is logged of values that all of them hold
        self.step = 0
        self.updated = False  # an optimizer ran: the next covered call begins a new step

    def step_ends(self) -> None:
        """What the ranks of a distributed run hold in common goes into the log."""
        if self.replicas is not None:
            self.replicas.end(self.step)

    def timed(self, entry_point: EntryPoint, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Paddle's own call, timed where there is a budget."""
        if not self.sampling.accounts:
            return self.own(entry_point, args, kwargs)
        start = self.sampling.clock()
        try:
            return self.own(entry_point, args, kwargs)
        finally:
            self.sampling.native(self.sampling.clock() - start)

    def own(self, entry_point: EntryPoint, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Paddle's own call, uncompared; in float32 where it has no kernel in 16 bits, and the program is to go on.

        Raises:
            RuntimeError: there is no kernel, and the program goes on with Paddle's results alone; the text says what to write.
        """
        try:
            return entry_point.native(*args, **kwargs)
        except RuntimeError as error:
            dtype = dtype_of(entry_point.op, error, args, kwargs)
            if not dtype:
                raise
            if not self.carries_torch:
                raise advised(error, dtype) from None
        self.run.recorder.add_native(entry_point.op.name, REASON.format(dtype=dtype), 0)
        return in_float32(entry_point.native, args, kwargs, dtype, 0 if entry_point.entry.inplace else None)

    def uncompared(self, entry_point: EntryPoint, reason: str, result: Any, args: Any = (), kwargs: Any = _NOTHING) -> Any:
        """Count a covered call that was not compared; returns its result."""
        self.run.recorder.add_native(entry_point.op.name, reason, elements(result))
        if not entry_point.entry.inplace:
            self.moved(entry_point.original, args, kwargs, result)
        return result

    def native(self, entry_point: EntryPoint, frame: Frame, why: StayNative, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call that the mode's filters leave out, or that does not fit the op's parameters."""
        if why.why is RANDOM:  # a draw is to a comparison what an op without reference is
            fault_injection.uncompared(entry_point.op.name, logged("it draws random numbers"))
            drawn = Unlisted(entry_point.op.name, entry_point.entry.target, RANDOM, entry_point.native, updates=False)
            return self.unlisted(drawn, frame, args, kwargs)
        result = self.own(entry_point, args, kwargs)
        if entry_point.op.exact:
            self.moved(entry_point.original, args, kwargs, result)
        if why.why not in (STATIC, DRAWN) and grad_tracer() is not None:
            frame.tally.native[entry_point.op.name, why.reason] += 1
        return result

    def unlisted(self, other: Unlisted, frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A float op without reference: Paddle's kernel, counted."""
        result = other.original(*args, **kwargs)
        if grad_tracer() is None or other.reason is DRAWN:
            return result  # a graph is being built, or nothing is rounded
        entered = self.sampling.enter() if self.sampling.accounts else 0.0
        if other.updates:  # no float call whose share was judged: what an optimizer does with gradients is another question
            self.run.recorder.skip(other.name, other.reason.text)
            self.updated = True
        else:
            self.run.recorder.add_native(other.name, other.reason.text, elements(result))
        if not other.updates and other.reason is NO_REFERENCE and not other.name.endswith("_"):
            self.moved(other.original, args, kwargs, result)
        if self.sampling.accounts:
            self.sampling.leave(entered)
        return result

    def optimizing(
        self, part: str, original: Callable[..., Any], frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Natively: what it calls is compared op by op."""
        return original(*args, **kwargs)

    def passed(self, other: Unlisted) -> None:
        """Steps are counted while the frame stands idle, too."""
        if other.updates:
            self.updated = True

    def exact(self, name: str, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Nothing to compare; a shadow stream passes through."""
        dtype = ""
        try:
            result = original(*args, **kwargs)
        except RuntimeError as error:
            let_pass(error)
            dtype = dtypes.lacks(name, error, args, kwargs) if name not in WRITES else ""
            if not dtype:
                raise
            if not self.carries_torch:
                raise advised(error, dtype) from None
        if dtype:
            result = in_float32(original, args, kwargs, dtype)
        self.moved(original, args, kwargs, result)
        return result

    def py_layer(self, name: str, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Natively."""
        return original(*args, **kwargs)

    def packing(self, frame: Frame, pack: Callable[[Any], Any], unpack: Callable[[Any], Any]) -> tuple[Any, Any]:
        """Watched: what comes back with other bits is not Paddle's kernel's to answer for."""
        return gradients.watched(pack, unpack)

    def layer_ends(self, frame: Frame, layer: Any, result: Any) -> None:
        """What a model returns shows whether ranks computed the same."""
        if self.replicas is not None and not self.aside and call_site.in_outermost_layer():
            self.replicas.returned(result)

    def moved(self, original: Callable[..., Any], args: Any, kwargs: Any, result: Any) -> None:
        """Pass a shadow stream, if one is kept, on through a call that is not compared."""
        if self.shadow is None or self.aside or grad_tracer() is None:
            return
        try:
            self.shadow.carry(original, args, kwargs, result)
        except Exception as error:  # the stream ends here; the program does not
            let_pass(error)
            self.run.warn(f"a shadow was not passed on: {type(error).__name__}: {str(error)[:200]}")


def elements(result: Any) -> int | None:
    """How many floats a call's results hold; None where these are integers alone.

    What is no tensor (None, a text) or holds no memory (an output not asked for) has none.
    """
    tensors = [tensor for tensor in flat(result) if isinstance(tensor, paddle.Tensor) and tensor._is_initialized()]
    floats = [math.prod(tensor.shape) for tensor in tensors if tensor.dtype in FLOATS]
    return None if tensors and not floats else sum(floats)


# ---- Costs that no single call shows, measured before the budget's account is opened.


def measure(sampling: Sampling, frame: Frame) -> None:
    """What the account of ``sampling`` is going to need.

    Its clock becomes that of this thread on the processor, so that what others do on a busy machine is nobody's. Where there are
    devices it stays the wall's: kernels run there while the thread waits.
    """
    if CPU_ALONE and sampling.clock is time.perf_counter:
        sampling.clock = time.thread_time
    sampling.entry = seconds_of_entry(frame, sampling.clock)
    sampling.layer, sampling.engine = seconds_of_layer(frame, sampling.clock), seconds_of_backward(frame, sampling.clock)


class _Asleep:
    """A plan whose frame stands idle: the shortest way through the hooks that stay; all else is the plan's own."""

    def __init__(self, plan: Any) -> None:
        self._plan = plan

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plan, name)

    def layer_begins(self, frame: Frame) -> None: ...

    def layer_ends(self, frame: Frame, layer: Any, result: Any) -> None: ...

    def backward_begins(self, frame: Frame) -> None: ...

    def backward_ends(self, frame: Frame) -> None:
        after_engine(functools.partial(self.layer_begins, frame))


def _idly(frame: Frame, seconds: Callable[[], float]) -> float:
    """The least of what is measured, three times, while the hooks of ``frame`` stand idle."""
    plan, frame.plan, frame.idle = frame.plan, _Asleep(frame.plan), True
    try:
        return max(0.0, min(seconds() for _ in range(3)))
    finally:
        frame.plan, frame.idle = plan, False


def _seconds(clock: Callable[[], float], calls: int, function: Callable[..., Any], *operands: Any) -> float:
    """Of one of so many calls."""
    began = clock()
    for _ in range(calls):
        function(*operands)
    return (clock() - began) / calls


def seconds_of_layer(frame: Frame, clock: Callable[[], float]) -> float:
    """What it costs that a call of a layer is noted; Paddle's own way into a layer, which is short, is in it."""
    layer, operand = paddle.nn.Identity(), paddle.zeros([1])
    return _idly(frame, lambda: _seconds(clock, 50, layer, operand) - _seconds(clock, 50, layer.forward, operand))


def seconds_of_backward(frame: Frame, clock: Callable[[], float], calls: int = 10) -> float:
    """What it costs that a backward is led through its hook. 0 while tensors are on the tape: their backward has another way."""
    if alive():
        return 0.0
    leaf = paddle.zeros([1])
    leaf.stop_gradient = False
    # Paddle 3.3 reads a further argument, whether it is there or not.
    path = (None,) if "dump_backward_graph_path" in inspect.signature(paddle.autograd.backward).parameters else ()

    def measured(function: Callable[..., Any]) -> float:
        seconds = 0.0
        for _ in range(calls):
            root = paddle_graph.add(leaf, leaf)
            began = clock()
            function([root], [], False, *path)
            seconds += clock() - began
        return seconds

    with paddle.enable_grad():
        engine = paddle.base.core.eager.run_backward
        return _idly(frame, lambda: (measured(engine) - measured(paddle_graph.run_backward)) / calls)


def seconds_of_entry(frame: Frame, clock: Callable[[], float]) -> float:
    """What it costs to be led into a hook of ``frame`` that stands idle, and out of it."""
    operands = paddle.zeros([1]), paddle.zeros([1])
    return _idly(
        frame, lambda: _seconds(clock, 100, paddle._C_ops.add, *operands) - _seconds(clock, 100, paddle_graph.add, *operands)
    )


# ---- The flow of one compared call.
#
#     entry point -> sampling -> prepare -> Paddle's kernel -> Torch's kernel -> verdicts -> records -> watch the grad node
#
# Paddle's call is made with the arguments that came in, and its result goes on untouched (``carry="native"``). Errors on the
# comparing side are recorded and never reach the program.

NO_MOVES = logged("not compared: exact=False")


class Comparison(NativeCalls):
    """The plan of compare mode (:class:`padiff_shim.dispatch.entry_point.Plan`); shared by all threads of one mode."""

    on_tape, tracks_layers, draws, lends = False, True, False, False
    autocasts = ""
    layers = 0  # calls of layers when the account was looked at last

    def __init__(
        self,
        run: CompareRun,
        sampling: Sampling,
        outcome: Consequences,
        *,
        carry: str,
        audit: int,
        screening: bool,
        equal: Comparator | None,
        shadow: bool,
        moves: bool = True,
        seed: int,
    ) -> None:
        super().__init__(run, sampling, Shadow() if shadow else None)
        self.moves = moves  # ops that move or choose values are compared, too
        self.outcome = outcome
        self.carries_torch = carry == "torch"
        self.places = RecordPlaces()
        self.judge = Judge(run, audit=audit, screening=screening, equal=equal, seed=seed)
        self.births = Births()
        self.numbers = itertools.count()
        call_after_fork(self)

    def after_fork(self) -> None:
        """In the child of a fork: torch's kernels can hang, so nothing is compared."""
        self.aside = FORKED.text

    def call(
        self, entry_point: EntryPoint, frame: Frame, values: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Run one covered call natively and compare it."""
        if grad_tracer() is None:
            return entry_point.native(*args, **kwargs)  # a graph is being built: nothing is computed here
        if entry_point.entry.seen_below:
            raise StayNative(BELOW)
        if entry_point.op.exact and not self.moves:
            if fault_injection.PLANTED:
                fault_injection.uncompared(
                    entry_point.op.name, logged("it moves or chooses values, which compare(exact=False) leaves out")
                )
            return self.uncompared(entry_point, NO_MOVES, self.timed(entry_point, args, kwargs), args, kwargs)
        if not self.sampling.accounts:
            return self.bound(entry_point, frame, values, args, kwargs)
        entered = self.sampling.enter()
        try:
            return self.bound(entry_point, frame, values, args, kwargs)
        finally:
            self.sampling.leave(entered)

    def bound(
        self, entry_point: EntryPoint, frame: Frame, values: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """:meth:`call`, within the account of the budget."""
        if self.aside:
            return self.uncompared(entry_point, self.aside, self.timed(entry_point, args, kwargs))
        if self.updated:
            self.next_step()
        key, began = None, 0.0
        if not self.sampling.everything:
            key = kind_of(entry_point.op.name, values if entry_point.op.operands else values[: entry_point.op.tensors])
            refusal = self.sampling.refusal(key, self.step)
            if refusal is not None:
                return self.uncompared(entry_point, refusal, self.timed(entry_point, args, kwargs), args, kwargs)
            began = self.sampling.clock()
        try:
            prepared = prepare(entry_point, frame, values, args, kwargs)
        except StayNative as stays:
            if entry_point.in_parts(stays):
                raise
            why = stays.with_traceback(None)
        else:
            if entry_point.op.differs is not None:
                entry_point.tell(frame, (*prepared.inputs.torch, *prepared.attributes))
            return self.compared(ComparedCall(self, entry_point, key, next(self.numbers), prepared), began, args, kwargs)
        result = self.timed(entry_point, args, kwargs)  # not in there: what it raises has nothing of ours before it
        if why.why in (INTEGER, EMPTY):
            self.run.recorder.add_native(entry_point.op.name, why.reason, None)
        return result if why.exact or why.why is STATIC else self.uncompared(entry_point, why.reason, result, args, kwargs)

    def update(self, other: Unlisted, frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Compared; natively and counted where its form is not known."""
        if self.aside or grad_tracer() is None:
            return self.unlisted(other, frame, args, kwargs)
        entered = self.sampling.enter() if self.sampling.accounts else 0.0
        try:
            if self.replicas is not None:
                self.replicas.note(other, args, self.step)
            declared = declared_updates()[other.name]
            gate(frame, declared.name)
            listed = other.name != declared.function  # the parameters come as lists: one update each
            lists, calls = (declared.lists(args), declared.singly(args)) if listed else ({}, [args])

            def make(*single: Any) -> Any:
                return other.original(*(declared.in_lists(single, lists) if listed else single))

            ready = [(single, updates.prepared(declared, make, single)) for single in calls]
            for single, update in ready:
                key = None if self.sampling.everything else kind_of(declared.name, single[:1])
                if key is not None and self.sampling.refusal(key, self.step) is not None:
                    self.unlisted(Unlisted(other.name, other.path, OPTIMIZER, make, updates=True), frame, single, {})
                    continue
                subject = updates.UpdateCall(self, update.entry_point, key, next(self.numbers), update.prepared)
                self.compared(subject, self.sampling.clock(), update.args, {})
                self.run.recorder.counts.coverage.updates += bool(subject.outs)
            return (declared.results_of_merged if listed else declared.results_of)(args)
        except StayNative:
            return self.unlisted(other, frame, args, kwargs)
        finally:
            self.updated = True
            if self.sampling.accounts:
                self.sampling.leave(entered)

    def exact(self, name: str, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What is read at an index is compared; of what else moves values there is nothing to compare."""
        frame = top() if name == "_getitem_dygraph" else None
        if frame is not None and not (self.aside or frame.idle or grad_tracer() is None):
            try:
                gate(frame, "gather_nd")  # of which it is a form
                read = indexed.read_of(original, *args)
                if read is not None:
                    return self.call(read.entry_point, frame, read.values, read.args, {})
            except Exception as error:  # left out by the mode's filters, or an index that Paddle refuses
                let_pass(error)
        return super().exact(name, original, args, kwargs)

    def writes(self, name: str, frame: Frame, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Compared where what is written wants a gradient, or counted where that comes to be differentiated."""
        tracer, target = grad_tracer(), args[WRITES[name]] if len(args) > WRITES[name] else None
        if self.aside or frame.idle or tracer is None or not (tracer._has_grad and indexed.values_wanted(args, target)):
            return original(*args, **kwargs)
        try:
            gate(frame, "index_put")  # of which each of them is a form
            write = None if kwargs else indexed.write_of(name, original, args)
            if write is not None:
                result = self.call(write.entry_point, frame, write.values, write.args, {})
                return None if name == "_setitem_dygraph" else result
        except StayNative:
            return original(*args, **kwargs)
        except Exception as error:  # an index that Paddle refuses
            let_pass(error)
        result = original(*args, **kwargs)
        if isinstance(target, paddle.Tensor) and not target.stop_gradient:
            paddle_graph.register_silent_hook(target, self.unjudged_write, indexed.op_name(name))
        return result

    def unjudged_write(self, name: str, grad: Any) -> None:
        """Hook on a tensor that was written: the gradient of the values is not judged."""
        self.run.recorder.skip(name, WRITE_UNCHECKED)

    def compared(self, subject: ComparedCall, began: float, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Paddle's result of a call that is compared. ``began``: when the comparing began."""
        if self.carries_torch:
            args, kwargs = gradients.before(subject, args, kwargs)
        clock, outer, elapsed = self.sampling.clock, gradients.gather(), 0.0
        reads = subject.entry_point.python and not subject.entry_point.entry.inplace and not subject.entry_point.op.writes
        versions = [getattr(tensor, "inplace_version", None) for tensor in subject.inputs.paddle] if reads else ()
        missing: RuntimeError | None = None
        try:
            if subject.key is None:
                result = subject.entry_point.native(*args, **kwargs)
            else:
                start = clock()
                result = subject.entry_point.native(*args, **kwargs)
                elapsed = clock() - start
                self.sampling.native(elapsed)
        except RuntimeError as error:
            subject.lacks = dtype_of(subject.entry_point.op, error, args, kwargs)
            if not subject.lacks:
                raise
            missing = error.with_traceback(None)
        finally:
            subject.passages = gradients.gathered(outer)
        if missing is not None:
            args, kwargs, result = self.stood_in(subject, args, kwargs)
        if subject.aliased:
            result = gradients.between(subject, result)
        for record in self.records(subject, result, args, kwargs, began + elapsed):
            self.outcome.act(record)
        for operand in compared_call.written(subject.inputs.paddle, versions):
            case = WrittenOperand(subject, operand)
            self.outcome.act(self.outcome.record(case, case.verdict))
        raise_postponed()  # of a backward that no engine call of ours has ended
        if missing is not None and not self.carries_torch:
            raise advised(missing, subject.lacks)
        return result

    def stood_in(self, subject: ComparedCall, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """For a call without a Paddle kernel: its arguments, and the result of its kernel in float32."""
        args, kwargs = gradients.before(subject, args, kwargs)
        if not self.carries_torch:  # the program's own call is going to fail, and has written nothing
            written = [subject.inputs.paddle[place] for place in subject.entry_point.overwritten]
            # The arguments with copies of the tensors that the call writes into
            with paused(), paddle.no_grad():
                copies = {id(tensor): tensor.clone() for tensor in written if isinstance(tensor, paddle.Tensor)}
            args, kwargs = exchanged_in(args, kwargs, copies)
        place = 0 if subject.entry_point.entry.inplace else None
        return args, kwargs, in_float32(subject.entry_point.native, args, kwargs, subject.lacks, place)

    def records(
        self, subject: ComparedCall, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any], began: float
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
            self.uncompared(subject.entry_point, why.reason, result)
        except Exception as error:  # comparing must never break the program
            let_through(error)
            self.uncompared(
                subject.entry_point,
                logged("the comparison failed: {name}: {error}", name=type(error).__name__, error=str(error)[:120]),
                result,
            )
        finally:
            try:
                stand(before)
            finally:
                try:
                    exchange_tracer(tracer)
                finally:
                    set_grad_enabled(recorded)  # a Ctrl-C may have come at the end of a no_grad()
                    close_modes(modes)
            if subject.key is not None:
                self.sampling.spent(subject.key, self.sampling.clock() - began)
        return records

    def forward(self, subject: ComparedCall, result: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[dict[str, Any]]:
        """Torch's kernel on the same operands, verdicts on what both gave, and the watch over the gradients."""
        natives = of_paddle(subject.entry_point, result)
        references = subject.run_reference(natives)
        if len(natives) != len(references):
            raise StayNative(RESULTS, paddle=english(many(len(natives), "result")), torch=len(references))
        records = self.results(subject, natives, references, (args, kwargs))
        if subject.inputs.needs and (self.carries_torch or not subject.lacks):
            gradients.after(subject, natives, args, kwargs, nested=nested(result))
        return records

    def results(
        self, subject: ComparedCall, natives: Sequence[Any], references: Sequence[Any], call: tuple[Any, ...]
    ) -> list[dict[str, Any]]:
        """The records of a call's results, but of those that nobody has to see. ``call``: Paddle's arguments."""
        records, left_out = [], subject.entry_point.op.unjudged
        for position, (native, reference) in enumerate(zip(natives, references)):
            if left_out and result_name(subject.entry_point.op, position) in left_out:
                continue
            if isinstance(native, paddle.Tensor) and native._is_initialized() and isinstance(reference, torch.Tensor):
                record = self.result(subject, position, native, reference, call)
                if record is not MUTED:
                    records.append(record)
        subject.results = None
        return records

    def result(
        self, subject: ComparedCall, position: int, shown: Any, reference: torch.Tensor, call: tuple[Any, ...]
    ) -> dict[str, Any]:
        """The record of one result of a call, which Paddle made with the arguments ``call``."""
        native = to_torch(shown)
        if fault_injection.PLANTED and position == first_judged(subject.entry_point.op):
            native, reference = self.spoiled(subject, native, reference)
        case = Result(subject, position, native, reference, call)
        if self.shadow is not None:
            case.extra = self.shadow.forward(subject, position, shown, reference)
        record = self.settle(case)
        if self.carries_torch and native.shape == reference.shape and native.dtype == reference.dtype:
            native.copy_(reference)
        return record

    def spoiled(self, subject: ComparedCall, native: torch.Tensor, reference: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Both first results with the faults applied that :mod:`padiff_shim.testing` planted."""
        layer, values = subject.layer, subject.values()
        changed = fault_injection.spoil(native, subject.entry_point, Side.PADDLE, layer, values)
        if changed is not native:
            native.copy_(changed)  # the program goes on with it
        return native, fault_injection.spoil(reference, subject.entry_point, Side.TORCH, layer, values)

    def spoiled_gradient(
        self, subject: ComparedCall, operand: int, native: torch.Tensor, reference: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Both gradients of an operand with the faults applied that :mod:`padiff_shim.testing` planted."""
        if fault_injection.PLANTED:
            layer, name = subject.layer, subject.name_of(operand)
            native = fault_injection.spoil(native, subject.entry_point, Side.PADDLE, layer, subject.values(), name=name)
            reference = fault_injection.spoil(reference, subject.entry_point, Side.TORCH, layer, subject.values(), name=name)
        return native, reference

    def gradient(
        self,
        subject: ComparedCall,
        operand: int,
        grads: Mapping[int, torch.Tensor],
        pairs: Mapping[int, tuple[torch.Tensor, torch.Tensor]],
        *,
        missing: bool = False,
    ) -> None:
        """Judge one gradient of a call, for these incoming gradients of its results.

        ``pairs``: Paddle's and Torch's gradients of all operands; ``missing``: Paddle gave none, and its is zeros.
        """
        case = Gradient(subject, operand, grads, *pairs[operand])
        if len(pairs) == 2 and subject.entry_point.op.ties is not None:
            case.partners = pairs
        case.extra = MISSING if missing else None
        if (record := self.settle(case)) is not MUTED:
            self.outcome.act_later(record)

    def unseen(self, subject: ComparedCall, reason: str, operands: Iterable[int] | None = None) -> None:
        """Gradients (of all operands that want one, or of ``operands``) that cannot be observed are recorded as such."""
        for operand in subject.inputs.needs if operands is None else operands:
            case = Gradient(subject, operand, {}, subject.operands[operand], subject.operands[operand])
            self.outcome.record(case, Judgement(Verdict.UNVERIFIED, reason=reason))

    def settle(self, case: ComparedTensor) -> dict[str, Any]:
        """Judge a case and write its record."""
        judgement = self.judge(case)
        if lacks := case.subject.lacks:
            if isinstance(case, Gradient) and not IS_3:
                judgement = Judgement(Verdict.UNVERIFIED, reason=CAST_GRADIENT)
            reason = STANDS_IN.format(dtype=lacks) + judgement.reason
            judgement = replace(judgement, modifiers=(*judgement.modifiers, NO_KERNEL), reason=reason)
        if case.extra:
            judgement = replace(judgement, stats={**judgement.stats, **case.extra})
            if case.subject.entry_point.op.steps and (case.extra.get("amplification") or 0.0) > 1.0:
                judgement = replace(judgement, modifiers=(*judgement.modifiers, STEP))
        if case.extra is MISSING:
            judgement = replace(
                judgement, reason=logged("Paddle gives no gradient, which counts as zeros; {reason}", reason=judgement.reason)
            )
        return self.outcome.record(case, judgement, self.born(case, judgement))

    def born(self, case: ComparedTensor, judgement: Judgement) -> dict[str, Any] | None:
        """What the record says of NaN and infinities that begin here."""
        sides = case.native, case.reference
        if sides[0].shape != sides[1].shape:
            return None
        try:
            return self.births.of(case, sides, equal=judgement.verdict is Verdict.EQUAL)
        except Exception as error:  # comparing must never break the program
            let_pass(error)
            self.run.warn(f"where a NaN or an infinity began was not seen: {type(error).__name__}: {str(error)[:200]}")
            return None

    def replay(self, subject: ComparedCall, incoming: Mapping[int, Any]) -> None:
        """Paddle's engine has returned: the gradients of a node that cannot be hooked, before an optimizer changes its operands."""
        try:
            gradients.replay(subject, incoming)
        except Exception as error:  # comparing must never break the program
            let_through(error)
            self.unseen(subject, f"Paddle's gradients could not be computed again: {type(error).__name__}: {str(error)[:120]}")

    def second_derivatives(self, call: GradientCall, arrived: Mapping[int, Any]) -> None:
        """Paddle's engine has returned: what a call's gradients ``arrived`` with, in a backward through their own graph."""
        try:
            with put_aside():
                records = [self.settle(case) for case in call.cases(arrived)]
            for record in records:
                if record is not MUTED:
                    self.outcome.act_later(record)
        except Exception as error:  # comparing must never break the program, nor does Torch differentiate everything twice
            let_through(error)
            self.uncounted(call.subject)

    def uncounted(self, subject: ComparedCall, reason: str = SECOND_UNCHECKED) -> None:
        """The second derivatives of a call, or further ones, are not judged: headline and coverage say so."""
        self.run.recorder.skip(subject.entry_point.op.name, reason)

    # The budget: from one pulse of the program to the next the hooks may stand idle.

    def layer_begins(self, frame: Frame) -> None:
        """Where the program takes breath: with a budget, the hooks of ``frame`` may stand idle until the next pulse.

        Not where several threads share the mode, nor where a shadow stream has to be kept. Gradients that are awaited are compared
        all the same: the hooks on their nodes stay.
        """
        if not self.sampling.accounts or self.aside or self.shadow is not None or not frame.sole:
            return
        sampling = self.sampling
        if self.updated:
            self.next_step()
        if frame.idle and sampling.sleeps():
            return
        began = sampling.clock()
        layers, self.layers = call_site.layer_calls() - self.layers, call_site.layer_calls()
        away = frame.hooks is not None and frame.hooks.resting
        was, idle = frame.idle, sampling.pulse(frame.idle, away=away, layers=layers)
        turning = sampling.clock()
        if frame.hooks is not None and idle:
            frame.hooks.rest()
        elif frame.hooks is not None and frame.idle:
            frame.hooks.wake()
        frame.idle = idle
        now = sampling.clock()
        if frame.hooks is not None and frame.hooks.resting != away:
            sampling.turned(now - turning)
        sampling.charge(now - began, stays=was and idle)

    def opened(self, frame: Frame, hooks: Any) -> None:
        """A mode with a budget is open again: its hooks, which ``hooks`` takes away and brings back, may stand idle at once."""
        frame.hooks = hooks
        frame.idle = frame.sole and self.sampling.stretches > 0
        if frame.idle:
            self.layer_begins(frame)

    def backward_begins(self, frame: Frame) -> None:
        """Nothing to do."""

    def backward_ends(self, frame: Frame) -> None:
        """What was kept for the backward is judged when Paddle's engine has returned."""
        after_engine(functools.partial(self.backward_ended, frame))

    def backward_ended(self, frame: Frame) -> None:
        """Paddle's engine has returned."""
        began = self.sampling.clock() if self.sampling.accounts else 0.0
        gradients.let_go()
        if self.sampling.accounts:
            self.sampling.charge(self.sampling.clock() - began, stays=frame.idle)
            self.sampling.stays(self.sampling.engine)
        self.layer_begins(frame)

    def next_step(self) -> None:
        """A new step of the program begins."""
        raise_postponed()
        self.step_ends()
        self.updated = False
        self.step += 1
