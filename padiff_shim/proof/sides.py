"""The original and the port as programs: on Torch's kernels, natively, and natively where a kernel fails."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Set
from typing import Any

import numpy as np
import paddle
import torch

from ..dispatch.call_site import raised_at, short
from ..dispatch.dtypes import dtype_without_kernel
from ..frameworks.copies import duplicate
from ..frameworks.memory import hand_over, to_torch
from ..frameworks.weight_copies import forget, lend, transposed_of
from ..runs.run import Run
from ..trees import copied
from ..weights.mapping import Mapping as Weights
from . import programs
from .plans import TORCHS, Defined, InWider, Natively, OnTorch, WiderDtype, opened
from .programs import Capturing, Holding, ModelSide, RunOutcome, default_dtype, out_of_memory, seeded
from .values import Array, as_array, in_place, leaves, same_bits

# ---- The original, as a program that can be run again and again.

_NARROW = (torch.float32, torch.float16, torch.bfloat16)


class TorchSide(ModelSide):
    """The original."""

    framework = "torch"
    hooks = ("_forward_pre_hooks", "_forward_hooks")

    def _write(self, buffer: Any, value: Any) -> None:
        with torch.no_grad():
            buffer.copy_(value)

    def fill(self, parameter: Any, values: np.ndarray[Any, Any]) -> None:
        self._write(parameter, torch.from_numpy(values))

    def _mode(self, wide: bool = False, *, formed: bool = True) -> contextlib.AbstractContextManager[Any]:
        return WiderDtype(self.wider) if self._widens(wide) else contextlib.nullcontext()

    def dtype(self) -> str:
        first = next((parameter for parameter in self._held(self.model).parameters.values() if parameter.is_floating_point()), None)
        return "float32" if first is None else str(first.dtype).rpartition(".")[2]

    @property
    def epsilon(self) -> float:
        """Of the dtype of the parameters."""
        return float(torch.finfo(getattr(torch, self.dtype())).eps)

    def _device(self) -> str:
        return next((str(parameter.device) for parameter in self._held(self.model).parameters.values()), "cpu")

    def _labels(self, model: Any) -> dict[int, str]:
        content = self._held(model)
        return {tensor.data_ptr(): name for name, tensor in [*content.buffers.items(), *content.parameters.items()]}

    def _go_back(self, tensors: list[Any], *, ones: bool) -> None:
        wanted = [tensor for tensor in tensors if tensor.requires_grad]
        if not wanted:
            return
        starts = None if ones else [torch.from_numpy(self._cotangent(i, t)).to(t) for i, t in enumerate(wanted)]
        torch.autograd.backward(wanted, starts)

    def _leaf(self, tensor: Any) -> Any:
        return tensor.detach().requires_grad_() if tensor.is_floating_point() else None

    def _trainable(self, parameter: Any) -> bool:
        return bool(parameter.requires_grad)

    def _clear(self) -> None:
        for model in (self.model, self._wide):
            if model is not None:
                for parameter in self._held(model).parameters.values():
                    parameter.grad = None

    def _gradients(self, model: Any, array: Callable[[Any], Array]) -> dict[str, Array]:
        return {name: array(p.grad) for name, p in self._held(model).parameters.items() if p.grad is not None}

    def _shallow(self) -> Any:
        weights = [weight for weight in self.model.parameters() if type(weight) is torch.nn.Parameter and not vars(weight)]
        narrow = [weight for weight in weights if weight.dtype in _NARROW]
        return duplicate(self.model, {id(weight): torch.nn.Parameter(weight.data, weight.requires_grad) for weight in narrow})

    @staticmethod
    def converted(model: Any, dtype: str) -> Any:
        wanted = getattr(torch, dtype)
        return model._apply(lambda tensor: tensor.to(wanted) if tensor.is_floating_point() else tensor)

    def can_be_simple(self) -> bool:
        """Experts of transformers 5 multiply by groups, of which Torch has no float64 kernel; they have a switch for that."""
        return any(config._experts_implementation != "eager" for _, config in _with_experts(self.model))

    def simplify(self, model: Any) -> None:
        for layer, _ in _with_experts(model):
            layer.set_experts_implementation("eager")

    def _named_layers(self, model: Any) -> list[tuple[str, Any]]:
        return list(model.named_modules())

    def _hooks(self, layer: Any, enter: Callable[..., None], leave: Callable[..., None]) -> list[Any]:
        return [layer.register_forward_pre_hook(enter), layer.register_forward_hook(leave)]


def _with_experts(model: torch.nn.Module) -> list[tuple[Any, Any]]:
    """Models of transformers that say how experts are computed, each with its configuration."""
    models = ((layer, getattr(layer, "config", None)) for layer in model.modules() if hasattr(layer, "set_experts_implementation"))
    return [(layer, config) for layer, config in models if hasattr(config, "_experts_implementation")]


# ---- The port, as a program that can be run again and again: natively, or on Torch's kernels.

_FLOATS = (paddle.float64, paddle.float32, paddle.float16, paddle.bfloat16)
Moved = Mapping[str, np.ndarray[Any, Any]]


class PaddleSide(ModelSide):
    """The port; natively or, with ``shim``, on Torch's kernels."""

    framework = "paddle"
    hooks = ("_forward_pre_hooks", "_forward_post_hooks")
    shim = True
    counted: Run | None = None  # of the last run under the shim
    torchs: frozenset[str] = TORCHS  # ops that are computed by Torch's definition
    defined: Mapping[str, Defined] = {}  # of the last run: ops that Paddle defines otherwise; replaced, never written
    _drawn: Set[str] = frozenset()  # ops that drew random numbers in it

    def __init__(self, *arguments: Any, **words: Any) -> None:
        super().__init__(*arguments, **words)
        self._of_complex: dict[str, bool] = {}  # see :class:`.plans.OnTorch`
        self.lender: tuple[ModelSide, Weights] | None = None  # whose weights are equal, and how they belong together
        self._lent: dict[int, list[tuple[Any, Any]]] = {}  # by model: weights of the lender's that serve as copies, and of which

    def _write(self, buffer: Any, value: Any) -> None:
        forget(buffer)
        buffer.set_value(value)

    def _run(self, model: Any, capturing: Capturing | None, *, wide: bool) -> RunOutcome:
        """One run; once more with copies of its own if its forward has written a weight, of which the lender knows nothing."""
        outcome = super()._run(model, capturing, wide=wide)
        written = [(weight, parameter) for weight, parameter in self._lent.get(id(model), ()) if not _are_equal(weight, parameter)]
        if not written:
            return outcome
        self.lender = None
        self.forget_copies()
        for weight, parameter in written:  # as they were before: they were equal
            self._write(parameter, np.ascontiguousarray(in_place(weight).T))
        return super()._run(model, capturing, wide=wide)

    def _borrow(self, model: Any, *, wide: bool) -> None:
        """The lender's weights in place of [out, in] copies, which would take as much memory, and time, again."""
        if self.lender is None or not self.shim or id(model) in self._lent:
            return
        side, mapping = self.lender
        weights, parameters = side.parameters(wide=wide), self._held(model).parameters
        pairs: list[tuple[Any, Any]] = [(weights.get(pair.name("torch")), parameters.get(pair.name("paddle"))) for pair in mapping]
        lent = [pair for pair in pairs if _is_matrix(*pair) and _are_equal(*pair)]
        for weight, parameter in lent:
            lend(parameter, weight.detach())
        self._lent[id(model)] = lent

    def _still(self, model: Any) -> set[int]:
        return {*super()._still(model), *(weight.data_ptr() for weight, _ in self._lent.get(id(model), ()))}

    def forget_wide(self) -> None:
        """The same; what was lent to the copy goes with it."""
        for _, parameter in self._lent.pop(id(self._wide), ()):
            forget(parameter)
        super().forget_wide()

    def train(self, *arguments: Any, **words: Any) -> None:
        """The same; trained weights have copies of their own."""
        held, self.lender = self.lender, None
        self.forget_copies()
        try:
            super().train(*arguments, **words)
        finally:
            self.lender = held

    def fill(self, parameter: Any, values: np.ndarray[Any, Any]) -> None:
        self._write(parameter, paddle.to_tensor(values).astype(parameter.dtype))

    def _state(self, held: Holding) -> dict[str, Any]:
        """Running statistics are parameters that want no gradient."""
        stopped = {name: parameter for name, parameter in held.parameters.items() if parameter.stop_gradient}
        return {name: tensor for name, tensor in {**super()._state(held), **stopped}.items() if tensor._is_initialized()}

    @contextlib.contextmanager
    def _mode(self, wide: bool = False, *, formed: bool = True) -> Iterator[None]:
        if not self.shim:
            with opened(Natively(), ops=self._drawn) if self._drawn else contextlib.nullcontext():
                yield
            return
        # Copies of weights, so that both sides' calls and their backwards are of one form. A run in a wider dtype whose backward is
        # not written down needs none, which would be large: its last bits are nobody's.
        layout = "copy" if formed else "view"
        plan = InWider(self.wider, self.torchs) if self._widens(wide) else OnTorch(self.torchs)
        plan.capture, plan.layer, plan.of_complex = self.capture, self.layer, self._of_complex
        with opened(plan, layout=layout) as self.counted:
            yield
        self._drawn, self.defined = plan.drawn, plan.defined

    def forget_copies(self) -> None:
        """Give back the memory of the copies of weights; a run that needs one makes it anew."""
        self._lent.clear()
        for model in (self.model, self._wide):
            for parameter in () if model is None else self._held(model).parameters.values():
                forget(parameter)

    @property
    def remarks(self) -> list[str]:
        """What the last run under the shim warned of."""
        return list(self.counted.warnings) if self.counted else []

    def _trainable(self, parameter: Any) -> bool:
        return not parameter.stop_gradient

    def _begin(self, parameter: Any, weights: Any, gradient: Any) -> None:
        if weights is not None:
            self._write(parameter, paddle.to_tensor(weights).astype(parameter.dtype))
        parameter.clear_gradient(False)
        if gradient is not None:
            parameter.grad = paddle.to_tensor(gradient).astype(parameter.dtype)

    def _unlike(self) -> bool:
        """Paddle's kernel does: its running variance is another by definition."""
        return self.counted is not None and any("batch_norm" in op for op in self.counted.native)

    def dtype(self) -> str:
        names = (str(parameter.dtype).rpartition(".")[2] for parameter in self._held(self.model).parameters.values())
        return next((name for name in names if "float" in name), "float32")

    def _labels(self, model: Any) -> dict[int, str]:
        content = self._held(model)
        named = [
            (name, tensor) for name, tensor in [*content.buffers.items(), *content.parameters.items()] if tensor._is_initialized()
        ]
        copies = ((name, transposed_of(tensor)) for name, tensor in named)  # made in an earlier run
        return {tensor.data_ptr(): name for name, tensor in [*named, *copies] if tensor is not None}

    def _go_back(self, tensors: list[Any], *, ones: bool) -> None:
        wanted = [tensor for tensor in tensors if not tensor.stop_gradient]
        if not wanted:
            return
        starts = [None if ones else paddle.to_tensor(self._cotangent(i, t)).astype(t.dtype) for i, t in enumerate(wanted)]
        self.back_from(wanted, starts)

    def observed(self, mode: contextlib.AbstractContextManager[Any], behind: Callable[[list[tuple[str, Any]]], None]) -> None:
        """A forward within a mode; ``behind`` gets (path, tensor) of its outputs before the mode is closed."""
        self._held(self.model).restore()
        positional, keywords = self._arguments()
        self._keeping = False
        self._stack.clear()
        self._clear()
        with self._listening(self.model, RunOutcome()), seeded(self._seed), mode:
            behind(leaves(self.model(*positional, **keywords)))
        self._clear()

    def observed_back(
        self, mode: contextlib.AbstractContextManager[Any], *, training: bool, wide: bool = False, moved: Moved | None = None
    ) -> dict[str, np.ndarray[Any, Any]]:
        """A forward and a backward within a mode; the gradients of all parameters and of inputs of floats, by name.

        Args:
            mode: entered around them.
            training: the model's own output ``"loss"`` is the loss, if there is no other.
            wide: of the copy of the model in the wider dtype.
            moved: what is added to parameters and inputs, by those names.
        """
        model, moved = self.wide_model() if wide else self.model, moved or {}
        self._held(model).restore()
        positional, keywords = self._arguments(wide=wide)
        held = [
            (parameter, parameter.detach().clone(), name) for name, parameter in self._parameters(model).items() if name in moved
        ]
        self._keeping = False
        self._stack.clear()
        self._clear()
        arguments, begun = programs.inputs((positional, keywords), lambda name, tensor: self._leaf(tensor, moved.get(name)))
        widened = default_dtype(self.wider) if wide else contextlib.nullcontext()
        try:
            for parameter, value, name in held:
                self._write(parameter, as_array(value) + moved[name])
            with self._listening(model, RunOutcome()), seeded(self._seed), widened, mode:
                self._pass(model, arguments, training=training)
            return {**self._gradients(model, copied), **programs.gradients(begun)}
        finally:
            for parameter, value, _ in held:
                self._write(parameter, value)
            self._clear()

    def _leaf(self, tensor: Any, moved: np.ndarray[Any, Any] | None = None) -> Any:
        """A leaf that wants a gradient, for an input of floats; None for others. ``moved`` is added to its values."""
        if not paddle.is_floating_point(tensor):
            return None
        leaf = tensor.detach() if moved is None else paddle.to_tensor(as_array(tensor) + moved).astype(tensor.dtype)
        leaf.stop_gradient = False
        return leaf

    def back_from(self, tensors: list[Any], starts: list[Any]) -> None:
        """A backward from tensors with the gradients that they begin with."""
        paddle.autograd.backward(*_once(tensors, starts))

    def _clear(self) -> None:
        for model in (self.model, self._wide):
            if model is not None:
                for parameter in self._held(model).parameters.values():
                    parameter.clear_gradient(False)

    def _gradients(self, model: Any, array: Callable[[Any], Array]) -> dict[str, Array]:
        gradients = ((name, parameter.grad) for name, parameter in self._held(model).parameters.items())
        return {name: array(gradient) for name, gradient in gradients if gradient is not None}

    @staticmethod
    def converted(model: Any, dtype: str) -> Any:
        layers = [model, *model.sublayers()]
        empty = [  # without memory, as a recurrence's state of dropout: 2.6 asks where it lies
            (layer._buffers, name, buffer)
            for layer in layers
            for name, buffer in layer._buffers.items()
            if buffer is not None and not buffer._is_initialized()
        ]
        for held, name, _ in empty:
            del held[name]
        for parameter in model.parameters():
            if parameter.dtype in _FLOATS and parameter.dtype != getattr(paddle, dtype) and parameter._is_initialized():
                _convert(parameter, dtype)
        model._to_impl(dtype=dtype, floating_only=True)  # ``to`` makes floats of indices and masks, too
        for held, name, buffer in empty:
            held[name] = buffer
        return model

    def _named_layers(self, model: Any) -> list[tuple[str, Any]]:
        return [("", model), *model.named_sublayers()]

    def _hooks(self, layer: Any, enter: Callable[..., None], leave: Callable[..., None]) -> list[Any]:
        return [layer.register_forward_pre_hook(enter), layer.register_forward_post_hook(leave)]


def _convert(parameter: Any, dtype: str) -> None:
    """Give a parameter another dtype by Torch, whose memory it takes over: Paddle's own allocator takes several times as long."""
    values = hand_over(to_torch(parameter.detach()).to(getattr(torch, dtype)))
    parameter.get_tensor()._share_data_with(values.get_tensor())


def _is_matrix(weight: Any, parameter: Any) -> bool:
    """Whether these may be a Linear's weight, [out, in] and [in, out], in a processor's memory."""
    if weight is None or parameter is None or not weight.ndim == parameter.ndim == 2:
        return False
    return bool(weight.is_cpu and weight.is_contiguous() and parameter.place.is_cpu_place())


def _are_equal(weight: Any, parameter: Any) -> bool:
    """Whether [out, in] and [in, out] hold the same, bit for bit."""
    return same_bits(in_place(weight).T, in_place(parameter))


def _once(tensors: list[Any], starts: list[Any]) -> tuple[list[Any], list[Any]]:
    """Each tensor once, with the sum of what it begins with: Paddle refuses one twice, Torch adds up in this order."""
    sums: dict[int, tuple[Any, Any]] = {}
    for tensor, start in zip(tensors, starts):
        known = sums.get(id(tensor))
        sums[id(tensor)] = (tensor, start if known is None else known[1] + start)
    return [tensor for tensor, _ in sums.values()], [start for _, start in sums.values()]


# ---- The port on Paddle's own kernels, one of which may fail where Torch's does not: what the code is, is known all the
# same.

Runner = Callable[[ModelSide], RunOutcome]


def told(error: BaseException) -> str:
    """An error with the line of the user's program that it came from, if it came from one."""
    site, lacks = raised_at(error), dtype_without_kernel(error) if isinstance(error, Exception) else ""
    where = f", at {short(site.file)}:{site.line}" if site else ""
    what = f"of which this Paddle has none in {lacks}" if lacks else f"{type(error).__name__}: {str(error).strip()[:300]}"
    return f"{what}{where}"


def natively(port: PaddleSide, within: Callable[[Runner], RunOutcome] | None = None) -> tuple[RunOutcome | None, str]:
    """A native run; where its backward fails the forward alone, and None where that fails, too.

    Args:
        ours: the port, which ran on Torch's kernels.
        within: makes the run that it is given.

    Returns:
        What it gave, and what is to be said of a failure ("").
    """
    run = within or (lambda runner: runner(port))
    port.forget_copies()
    port.shim = False
    try:
        return run(ModelSide.run), ""
    except Exception as error:
        if out_of_memory(error):  # that is no kernel's doing
            raise
        reason = told(error)
    finally:
        port.shim = True
    outcome, why = forward_alone(port, run)
    if outcome is None:
        return None, why
    return outcome, (
        f"the port's backward fails on Paddle's own kernels, not on Torch's ({reason}): natively outputs alone are compared"
    )


def forward_alone(port: PaddleSide, run: Callable[[Runner], RunOutcome] | None = None) -> tuple[RunOutcome | None, str]:
    """The same of a forward without a backward."""
    port.shim = False
    try:
        return (run or (lambda runner: runner(port)))(ModelSide.run_forward), ""
    except Exception as error:
        if out_of_memory(error):
            raise
        return None, f"the port fails on Paddle's own kernels, not on Torch's ({told(error)}): natively nothing is compared"
    finally:
        port.shim = True
