"""Looking on while a Paddle program runs, natively or under whichever mode is open: its calls, layers, backwards and optimizers; or
for fingerprints all but calls."""

from __future__ import annotations

import functools
import sys
import threading
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import paddle

from ..catalogue.registry import ops
from ..dispatch.call_site import call_site, layer_path
from ..dispatch.entry_point import EntryPoint, Unlisted, gate
from ..dispatch.frames import Frame, below, paused, push, remove, top
from ..frameworks import randomness, settings
from ..frameworks.autocast import grad_tracer
from ..frameworks.memory import to_torch
from ..frameworks.optimizer_states import OF_PADDLE, paddles_parameters, paddles_states
from ..intercept import entry_points, optimizers
from ..interrupts import finish
from ..runlog.events import JsonTable
from ..runlog.optimizer_settings import Settings
from ..runs.run import Run
from ..table.reasons import StayNative
from ..trees import is_tensor
from .files import RecordFile
from .fingerprint_run import FingerprintRun, Replacements, watching_backwards
from .record import StepRecorder, Writer


def surroundings() -> dict[str, Any]:
    """What the first line says of versions and switches, and of this rank's place in fleet's mesh."""
    mesh = _mesh()
    return {
        "environment": {**settings.environment(), **settings.machine()},
        "flags": settings.flags(),
        **({"mesh": mesh} if mesh else {}),
    }


def _mesh() -> dict[str, int]:
    """This rank's coordinates, if fleet was initialized."""
    fleet = getattr(sys.modules.get("paddle.distributed.fleet"), "fleet", None)
    groups = getattr(fleet, "_hcg", None)
    if groups is None:
        return {}
    return {
        "data": groups.get_data_parallel_rank(),
        "sharding": groups.get_sharding_parallel_rank(),
        "stage": groups.get_stage_id(),
        "model": groups.get_model_parallel_rank(),
    }


class PaddleObserver:
    """Between :meth:`begin` and :meth:`end` everything that this context computes is written down."""

    def __init__(self, writer: Writer, model: Any, *, calls: bool, layers: bool, warn: Callable[[str], None]) -> None:
        self._run = _RecordingRun("torch", "contiguous")
        self._run.remark = warn
        self._writer, self._plan = writer, Observing(writer, model, calls=calls, layers=layers)
        self._frame: Frame | None = None
        self._methods = Replacements()
        self._steps = PaddleSteps(writer, lambda: writer.looks_on() and self._plan.looks_on)

    def begin(self) -> None:
        """Look on from here."""
        self._frame = Frame(self._run, frozenset(ops()), plan=self._plan, observes=True)
        try:
            entry_points.OPS.acquire(self._frame.ticket)
            entry_points.LAYERS.acquire(self._frame.ticket)
            entry_points.SHADOWS.acquire(self._frame.ticket)
            push(self._frame, all_threads=False)
            self._steps.begin()
            replace_makers(self._methods, self._making)
            watched = watching_backwards(self._writer, lambda: top() is self._frame and self._plan.looks_on)
            self._methods.put(paddle.Tensor, "backward", watched)
            self._methods.put(paddle.autograd, "backward", watched)
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        """Everything is as it was."""
        assert self._frame is not None
        leave, ticket = functools.partial(remove, self._frame), self._frame.ticket
        finish(
            [
                self._methods.undo,
                self._steps.end,
                leave,
                functools.partial(entry_points.SHADOWS.release, ticket),
                functools.partial(entry_points.LAYERS.release, ticket),
                functools.partial(entry_points.OPS.release, ticket),
            ]
        )

    def _making(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def method(*args: Any) -> Any:
            result = original(*args)
            if (is_tensor(result) or type(result) is list) and result is not args[0] and top() is self._frame:
                if name.startswith("__"):
                    self._plan.made(name.strip("_"), args, result)
                else:
                    self._plan.read(name, args[0], result)
            return result

        return method


class _RecordingRun(Run):
    """The run of the recording's frame; a remark goes to the recording, and to the run of the mode below."""

    remark: Callable[[str], None]

    def warn(self, message: str) -> None:
        if message not in self.warnings:
            self.remark(message)
        super().warn(message)
        inner = below()
        if inner is not None:
            inner.run.warn(message)


class Observing:
    """The plan of a recording (:class:`padiff_shim.dispatch.entry_point.Plan`): the plan of the mode below does the work."""

    tracks_layers = True

    def __init__(self, writer: Writer, model: Any, *, calls: bool, layers: bool) -> None:
        self._writer, self._model, self._calls, self._layers = writer, model, calls, layers
        self._optimizing = False  # inside of a step, its decay, or clipping
        self._in_backward = False  # what a program's own backward reads is no data of the run
        self._in_py_layer = False  # and neither are the tensors in which a PyLayer's forward gets its operands

    @property
    def on_tape(self) -> bool:
        """As below."""
        inner = below()
        return inner is not None and bool(inner.plan.on_tape)

    @property
    def draws(self) -> bool:
        """As below."""
        inner = below()
        return inner is not None and bool(inner.plan.draws)

    def call(
        self, entry_point: EntryPoint, frame: Frame, values: tuple[Any, ...], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """As below, with operands and results recorded."""
        self._takes(entry_point.op.name, dict(zip(entry_point.names, values)))
        inner = below()
        draws = entry_point.op.random is not None and bool(entry_point.op.random(*values))
        reads = None if entry_point.op.exact else self._reads(zip(entry_point.names, values), draws=draws)
        if inner is None:
            return self._noted(entry_point, entry_point.native(*args, **kwargs), reads)
        if inner.idle:
            call = (
                inner.plan.exact(entry_point.op.name, entry_point.original, args, kwargs)
                if entry_point.op.exact
                else entry_point.original(*args, **kwargs)
            )
            return self._noted(entry_point, call, reads)
        quick = inner.quick.get(entry_point)
        if quick is None or inner.layers is not None:
            gate(inner, entry_point.op.name)
        result = None if quick is None else quick(inner, values)
        return self._noted(
            entry_point, inner.plan.call(entry_point, inner, values, args, kwargs) if result is None else result, reads
        )

    def native(self, entry_point: EntryPoint, frame: Frame, why: StayNative, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Paddle's kernel."""
        self._takes(entry_point.op.name, (*args, *kwargs.values()))
        reads = None if entry_point.op.exact else self._reads(_placed(args, kwargs))
        inner = below()
        stood = None if reads is None or entry_point.op.random is None else _generators()
        result = entry_point.native(*args, **kwargs) if inner is None else inner.plan.native(entry_point, inner, why, args, kwargs)
        return self._noted(entry_point, result, _with_draws(reads, stood))

    def unlisted(self, other: Unlisted, frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An op that the table lacks."""
        if not other.updates:
            self._takes(other.name.rstrip("_"), (*args, *kwargs.values()))
        reads = None if other.updates or other.reason.exact else self._reads(_placed(args, kwargs))
        inner = below()
        native = inner is None or inner.idle
        stood = None if reads is None else _generators()
        result = other.original(*args, **kwargs) if native else inner.plan.unlisted(other, inner, args, kwargs)  # type: ignore[union-attr]
        if other.updates:
            self._writer.updated()
        elif not other.reason.exact:
            self._note(other.name.rstrip("_"), other.path, _written(result, other.unwritten), _with_draws(reads, stood))
        self._writer.own.add(result)
        return result

    def update(self, other: Unlisted, frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An optimizer's update ends a step."""
        inner = below()
        self._writer.updated()
        if inner is None or inner.idle:
            return other.original(*args, **kwargs)
        return inner.plan.update(other, inner, args, kwargs)

    def optimizing(
        self, part: str, original: Callable[..., Any], frame: Frame, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """A step, its decay, or clipping; their operands are no inputs."""
        inner = below()
        before, self._optimizing = self._optimizing, True
        try:
            if inner is None or inner.idle:
                return original(*args, **kwargs)
            return inner.plan.optimizing(part, original, inner, args, kwargs)
        finally:
            self._optimizing = before

    def passed(self, other: Unlisted) -> None:
        """Never: a recording does not stand idle."""

    def exact(self, name: str, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """As below; a call that moves values is not recorded."""
        self._takes(name, (*args, *kwargs.values()))
        inner = below()
        result = original(*args, **kwargs) if inner is None else inner.plan.exact(name, original, args, kwargs)
        self._writer.own.add(result)
        return result

    def writes(self, name: str, frame: Frame, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """As below."""
        if self.on_tape:
            return self.exact(name, original, args, kwargs)
        inner = below()
        return original(*args, **kwargs) if inner is None else inner.plan.writes(name, inner, original, args, kwargs)

    def moved(self, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """As below."""
        self.read(getattr(original, "__name__", ""), args[0], result)
        inner = below()
        if inner is not None:
            inner.plan.moved(original, args, kwargs, result)

    def made(self, name: str, operands: Any, result: Any) -> None:
        """A call whose result alone is of use here: a comparison, or one of whole numbers."""
        self._takes(name, operands)
        self._writer.own.add(result)

    def read(self, name: str, tensor: Any, result: Any) -> None:
        """A gradient was read, or another tensor over the same memory made: data stays data, and a weight is none."""
        if "grad" in name or tensor.persistable or tensor in self._writer.own:
            self._writer.own.add(result)

    def py_layer(self, name: str, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """As below."""
        self._takes(name, (*args, *kwargs.values()))
        inner = below()
        before, self._in_py_layer = self._in_py_layer, True
        try:
            result = original(*args, **kwargs) if inner is None else inner.plan.py_layer(name, original, args, kwargs)
        finally:
            self._in_py_layer = before
        self._writer.own.add(result)
        return result

    def packing(self, frame: Frame, pack: Callable[[Any], Any], unpack: Callable[[Any], Any]) -> tuple[Any, Any]:
        """As below."""
        inner = below()
        return (pack, unpack) if inner is None else inner.plan.packing(inner, pack, unpack)

    def layer_begins(self, frame: Frame) -> None:
        """The outermost layer begins."""
        self._in_backward = False
        if self.looks_on:
            self._writer.computes()
        inner = below()
        if inner is not None:
            inner.plan.layer_begins(inner)

    def layer_ends(self, frame: Frame, layer: Any, result: Any) -> None:
        """What the layer returned."""
        inner = below()
        if inner is not None:
            inner.plan.layer_ends(inner, layer, result)
        if self._layers and self.looks_on:
            with paused():
                self._writer.layer(layer_path(self._model), type(layer).__name__, result, call_site())

    def backward_begins(self, frame: Frame) -> None:
        """A backward begins."""
        if not self._optimizing:
            self._writer.computes()
        self._in_backward = True
        inner = below()
        if inner is not None:
            inner.plan.backward_begins(inner)

    def backward_ends(self, frame: Frame) -> None:
        """The gradients that it left."""
        self._in_backward = False
        inner = below()
        if inner is not None:
            inner.plan.backward_ends(inner)
        with paused():
            self._writer.gradients()

    def _takes(self, name: str, operands: Any) -> None:
        """Record the data that a call takes; the weights of a model, which persist, are no data."""
        if self.looks_on and not (self._optimizing or self._writer.inside or self._in_backward or self._in_py_layer):
            data = [(path, tensor) for path, tensor in self._writer.own.others(operands) if not tensor.persistable]
            if data:
                with paused():
                    self._writer.inputs(name, data, call_site(), layer_path(self._model))

    def _reads(self, arguments: Iterable[tuple[str, Any]], *, draws: bool = False) -> JsonTable | None:
        """What a call is about to read, before it can write into it; None where the call is not recorded."""
        if not self._calls or not self.looks_on or self._writer.inside:
            return None
        self._writer.computes()
        if not self._writer.active:
            return None
        inner = below()
        more: JsonTable = {"draws": True} if draws else {}
        if inner is not None and inner.plan.on_tape and not inner.idle:
            more["kernels"] = "torch"
        with paused():
            return {**self._writer.reads(arguments), **more}

    def _noted(self, entry_point: EntryPoint, result: Any, reads: JsonTable | None) -> Any:
        if not entry_point.op.exact:
            self._note(entry_point.op.name, entry_point.entry.target, _written(result, entry_point.op.unwritten_places), reads)
        self._writer.own.add(result)
        return result

    @property
    def looks_on(self) -> bool:
        """Whether what this thread computes now is the program's."""
        return not self._writer.busy and grad_tracer() is not None

    def _note(self, name: str, function: str, result: Any, reads: JsonTable | None) -> None:
        if self._calls and self.looks_on and not self._writer.inside:
            with paused():
                self._writer.op((name,), function, result, call_site(), layer_path(self._model), reads or {})


def _generators() -> list[list[str]]:
    """Where Paddle's generators stand: whether a call of unknown arguments draws is seen by them alone."""
    with paused():
        return randomness.paddle_states()


def _with_draws(reads: JsonTable | None, stood: list[list[str]] | None) -> JsonTable | None:
    """What a call has read, and that it has drawn if the generators ``stood`` elsewhere before it; None: it was not watched."""
    return reads if reads is None or stood is None or stood == _generators() else {**reads, "draws": True}


def _placed(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The arguments of a call whose parameters are not known: by their places, and by name."""
    yield from ((f"argument {place}", value) for place, value in enumerate(args, 1))
    yield from kwargs.items()


def _written(result: Any, unwritten: frozenset[int]) -> Any:
    """A call's results with None in the places that its kernel may leave unwritten: nothing of them is the program's."""
    return [None if place in unwritten else tensor for place, tensor in enumerate(result)] if unwritten else result


# ---- Fingerprints, optimizers' steps and clipping


class PaddleView:
    """What recordings have to know of the framework."""

    tensor_type = paddle.Tensor

    def address(self, tensor: Any) -> int:
        """Where the values of a dense tensor on the host lie in C order; 0 of any other."""
        here = tensor.is_dense() and (_HOST_ALONE or tensor.place.is_cpu_place())
        return tensor.data_ptr() or 0 if here and tensor.is_contiguous() else 0

    def on_device(self, tensor: Any) -> Any:
        """A Torch tensor over the same memory on a GPU; None on the host."""
        if not _HAS_GPU or not isinstance(tensor, paddle.Tensor) or not tensor.place.is_gpu_place() or not tensor.is_dense():
            return None
        try:
            return to_torch(tensor).detach()
        except StayNative:
            return None

    def named(self, model: Any) -> Iterator[tuple[str, Any]]:
        """Parameters and buffers that hold values."""
        for name, tensor in (*model.named_parameters(), *model.named_buffers()):
            if tensor._is_initialized():
                yield name, tensor

    def sublayers(self, model: Any) -> Iterable[tuple[str, Any]]:
        """With the model itself, under ""."""
        return model.named_sublayers(include_self=True)


_HAS_GPU = paddle.is_compiled_with_cuda()
_HOST_ALONE = not (_HAS_GPU or paddle.is_compiled_with_xpu() or paddle.device.get_all_custom_device_type())


class PaddleFingerprints:
    """Between :meth:`begin` and :meth:`end` this thread's layers, losses, gradients and parameters are recorded."""

    def __init__(self, file: RecordFile, model: Any, every: int, first_step: int) -> None:
        self.run, self._methods = FingerprintRun(file, PaddleView(), model, every, first_step), Replacements()
        self._steps = PaddleSteps(self.run, lambda: self.run.looks_on() and paddle.in_dynamic_mode())

    def begin(self) -> None:
        """Look on from here."""
        ticket = object()
        entry_points.OPS.acquire(ticket)  # so that modes opened later know Paddle's own methods from these
        entry_points.OPS.release(ticket)
        methods = self._methods
        methods.put(paddle.nn.Layer, "__call__", self._layer)
        watched = watching_backwards(self.run, self.run.looks_on)
        methods.put(paddle.Tensor, "backward", watched)
        methods.put(paddle.autograd, "backward", watched)
        self._steps.begin()

    def end(self) -> None:
        """Everything is as it was."""
        self._steps.end()
        self._methods.undo()
        self.run.end()

    def _layer(self, original: Callable[..., Any]) -> Callable[..., Any]:
        run, thread, here = self.run, self.run.thread, threading.get_ident

        @functools.wraps(original)
        def call(layer: Any, *args: Any, **kwargs: Any) -> Any:
            if here() != thread:
                return original(layer, *args, **kwargs)
            run.enter(layer, args, kwargs)
            try:
                result = original(layer, *args, **kwargs)
            except BaseException:
                run.failed()
                raise
            run.leave(result)
            return result

        return call


class PaddleSteps:
    """Reports to ``run`` what optimizers' steps and clipping do with gradients, while ``looks_on`` says so."""

    def __init__(self, run: StepRecorder, looks_on: Callable[[], bool]) -> None:
        self._run, self._looks_on = run, looks_on
        self._methods, self._ticket = Replacements(), object()

    def begin(self) -> None:
        """Look on from here."""
        for kind in _classes(paddle.optimizer.Optimizer):
            for name in ("step", "minimize"):
                if name in vars(kind):
                    self._methods.put(kind, name, self._step)
        optimizers.CLIPS.acquire(self._ticket)
        optimizers.onlookers.append(self._program_clips)

    def end(self) -> None:
        """Everything is as it was."""
        self._methods.undo()
        optimizers.onlookers.remove(self._program_clips)
        optimizers.CLIPS.release(self._ticket)

    def _step(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """An optimizer's step. What computes its gradients itself, in a closure, has none yet."""

        @functools.wraps(original)
        def step(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            if self._run.inside or not self._looks_on():
                return original(optimizer, *args, **kwargs)
            if optimizer._get_auxiliary_var("found_inf"):  # a GradScaler's step that updates nothing
                return original(optimizer, *args, **kwargs)
            parameters = list(paddles_parameters(optimizer))
            if any(map(callable, (*args, *kwargs.values()))):
                result = original(optimizer, *args, **kwargs)
            else:
                self._run.updating(parameters, optimizer, OF_PADDLE)
                clip = type(getattr(optimizer, "_grad_clip", None))  # of whatever class it is
                for owner in [kind for kind in clip.__mro__ if "__call__" in vars(kind)][:1]:
                    if not hasattr(vars(owner)["__call__"], _WATCHED):
                        self._methods.put(owner, "__call__", self._step_clips)
                self._run.inside = True
                try:
                    result = original(optimizer, *args, **kwargs)
                finally:
                    self._run.inside = False
            self._run.stepped(parameters, lambda: paddles_states(optimizer))
            return result

        return step

    def _step_clips(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def clip(clipper: Any, params_grads: Any, *args: Any) -> Any:
            if not self._looks_on() or not self._run.inside:
                return original(clipper, params_grads, *args)
            norms: list[Any] = []
            root = paddle.sqrt

            def noted_root(*args: Any, **kwargs: Any) -> Any:
                norms.append(root(*args, **kwargs))
                return norms[-1]

            paddle.sqrt = noted_root  # every clipping by a global norm takes it of the sum, over ranks too
            try:
                result = original(clipper, params_grads, *args)
            finally:
                paddle.sqrt = root
            self._run.clipped([pair for pair in result if pair[1] is not None], norms[-1] if norms else None)
            return result

        setattr(clip, _WATCHED, True)
        return clip

    def _program_clips(self, parameters: list[Any], how: Settings, call: Callable[[], Any]) -> Any:
        """A program clips before the step."""
        if self._run.inside or not self._looks_on():
            return call()
        return self._run.clip(parameters, how, call)


_WATCHED = "watched by a recording"


def replace_makers(methods: Replacements, make: Callable[[str, Callable[..., Any]], Callable[..., Any]]) -> None:
    """Replace what makes tensors beside the redirected functions: methods in C (``>=``, ``detach``), and reading gradients."""
    for name, method in list(vars(paddle.Tensor).items()):
        if isinstance(method, types.MethodDescriptorType) or name in ("_slice", "_use_gpudnn"):
            methods.put(paddle.Tensor, name, functools.partial(make, name))
    for name in ("data", "grad"):
        if (attribute := vars(paddle.Tensor).get(name)) is not None:  # an older Paddle may lack it
            read = property(make(name, attribute.__get__), attribute.__set__)
            methods.put(paddle.Tensor, name, lambda _, read=read: read)  # type: ignore[misc]
    methods.put(paddle.base.core.eager, "run_partial_grad", functools.partial(make, "grad"))


def _classes(kind: type) -> Iterator[type]:
    yield kind
    for derived in list[type](kind.__subclasses__()):
        yield from _classes(derived)


observer, fingerprints, view = PaddleObserver, PaddleFingerprints, PaddleView()
