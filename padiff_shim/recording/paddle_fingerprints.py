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
from ..intercept import entry_points
from ..table.reasons import StayNative
from ..trees import parts
from .files import RecordFile
from .fingerprint_run import FrameworkFingerprints, Replacements
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

    def tiny(self, tensor: Any) -> Array | None:
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

    def __init__(self, file: RecordFile, model: Any, every: int) -> None:
        super().__init__(file, PaddleView(), model, every)

    def begin(self) -> None:
        """Look on from here."""
        ticket = object()
        entry_points.OPS.acquire(ticket)  # so that modes opened later know Paddle's own methods from these
        entry_points.OPS.release(ticket)
        methods = self._methods
        methods.put(paddle.nn.Layer, "__call__", self._layer)
        methods.put(paddle.Tensor, "backward", self._backward)
        methods.put(paddle.autograd, "backward", self._backward)
        replace_steps(methods, self._step)

    def end(self) -> None:
        """Everything is as it was."""
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

    def _step(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def step(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            if self._inside or not self._looks_on() or not paddle.in_dynamic_mode():
                return original(optimizer, *args, **kwargs)
            parameters = list(parameters_of(optimizer))
            self.run.updating(parameters)
            self._inside = True
            try:
                result = original(optimizer, *args, **kwargs)
            finally:
                self._inside = False
            self.run.updated(parameters)
            return result

        return step


def replace_steps(methods: Replacements, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Replace the step of every class of optimizers that there is by what ``make`` makes of it."""
    for kind in _classes(paddle.optimizer.Optimizer):
        for name in ("step", "minimize"):
            if name in vars(kind):
                methods.put(kind, name, make)


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


def parameters_of(optimizer: Any) -> Iterator[Any]:
    """Those that an optimizer updates, with gradients or without."""
    for entry in optimizer._parameter_list or ():
        if isinstance(entry, dict):
            yield from entry["params"]
        else:
            yield entry


def states_of(optimizer: Any) -> Iterator[tuple[Any, str, Any]]:
    """(parameter, name, tensor) of what an optimizer keeps for each parameter; powers of beta follow from the step's number."""
    tables = [(name, table) for name, table in optimizer._accumulators.items() if not name.endswith("_pow_acc")]
    tables.append(("master_weight", getattr(optimizer, "_master_weights", {})))
    for parameter in parameters_of(optimizer):
        for name, table in tables:
            if parameter.name in table:
                yield parameter, name.lstrip("_"), table[parameter.name]


clip_grad_value_ = paddle.nn.utils.clip_grad_value_
observer = PaddleFingerprints
