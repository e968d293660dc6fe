"""Looking on while a Paddle program runs, for fingerprints: its layers, what backwards start from, and its optimizers."""

from __future__ import annotations

import functools
import math
import threading
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import paddle

from ..frameworks.memory import PADDLE_DTYPES, to_torch
from ..frameworks.optimizer_states import OF_PADDLE, paddles_parameters, paddles_states
from ..intercept import entry_points, optimizers
from ..runlog.optimizer_settings import Settings
from ..table.reasons import StayNative
from ..trees import parts
from .files import RecordFile
from .fingerprint_run import FrameworkFingerprints, Replacements
from .record import SeesSteps, gradient_in_step, inside
from .tensors import Array

_COPIED = 2**16  # bytes up to which a copy is cheaper than a view


class PaddleView:
    """See :class:`~.fingerprint_run.FrameworkView`."""

    tensor_type = paddle.Tensor

    def content(self, tensor: Any) -> tuple[Array, bool] | None:
        """Values on the host."""
        if not isinstance(tensor, paddle.Tensor):
            return np.asarray(tensor), False
        try:
            if not tensor.is_dense() or not tensor._is_initialized():
                ((_, dense), *others) = parts(tensor) or [("", None)]
                if others or dense is None:
                    return None
            bfloat16 = tensor.dtype == PADDLE_DTYPES["bfloat16"]
            if tensor.dtype == PADDLE_DTYPES["float32"] and 4 * math.prod(tensor.shape) > _COPIED and tensor.place.is_cpu_place():
                return to_torch(tensor).detach().numpy(), False
            return np.asarray(tensor.numpy()), bfloat16
        except (TypeError, ValueError, RuntimeError, StayNative):  # distributed, or of a layout of its own
            return None

    def small(self, tensor: Any) -> Array | None:
        """Without a look at what cannot be."""
        return tensor.numpy() if tensor.is_dense() and not (_HAS_GPU and tensor.place.is_gpu_place()) else None

    def on_device(self, tensor: Any) -> Any:
        """Over the same memory on a GPU."""
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


class PaddleFingerprints(FrameworkFingerprints):
    """Between :meth:`begin` and :meth:`end` this thread's layers, losses, gradients and parameters are recorded."""

    def __init__(self, file: RecordFile, model: Any, every: int, first_step: int) -> None:
        super().__init__(file, PaddleView(), model, every, first_step)
        self._steps = PaddleSteps(self.run, lambda: self._looks_on() and paddle.in_dynamic_mode())

    def begin(self) -> None:
        """Look on from here."""
        ticket = object()
        entry_points.OPS.acquire(ticket)  # so that modes opened later know Paddle's own methods from these
        entry_points.OPS.release(ticket)
        methods = self._methods
        methods.put(paddle.nn.Layer, "__call__", self._layer)
        methods.put(paddle.Tensor, "backward", self._backward)
        methods.put(paddle.autograd, "backward", self._backward)
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

    def __init__(self, run: SeesSteps, looks_on: Callable[[], bool]) -> None:
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
            parameters = list(paddles_parameters(optimizer))
            if any(map(callable, (*args, *kwargs.values()))):
                result = original(optimizer, *args, **kwargs)
            else:
                self._run.updating(parameters, optimizer, OF_PADDLE)
                self._watch_clip(getattr(optimizer, "_grad_clip", None))
                with inside(self._run):
                    result = original(optimizer, *args, **kwargs)
            self._run.stepped(parameters, lambda: paddles_states(optimizer))
            return result

        return step

    def _watch_clip(self, clip: Any) -> None:
        """Watch calls of an optimizer's own clipping, of whatever class it is."""
        owner = next((kind for kind in type(clip).__mro__ if "__call__" in vars(kind)), None)
        if owner is not None and not hasattr(vars(owner)["__call__"], _WATCHED):
            self._methods.put(owner, "__call__", self._step_clips)

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
        self._run.clipping(parameters, how)
        with inside(self._run):
            norm = call()
        self._run.clipped([(parameter, gradient_in_step(parameter)) for parameter in parameters], norm)
        return norm


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


observer = PaddleFingerprints
