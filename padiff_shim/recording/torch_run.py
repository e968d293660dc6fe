"""Looking on while a Torch program runs in this thread: its functions, modules, backwards and optimizers; or all but functions."""

from __future__ import annotations

import functools
import inspect
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.overrides import TorchFunctionMode

from ..catalogue.registry import ops
from ..dispatch.call_site import call_site
from ..frameworks import torch_state
from ..frameworks.optimizer_states import OF_TORCH, clip_of_call, torchs_parameters, torchs_states
from ..patching.functions import PyFunctionPatch
from ..runlog.events import JsonTable
from ..table.op import Op
from ..trees import leaves
from .files import RecordFile
from .fingerprint_run import FingerprintRun, Replacements, watching_backwards
from .record import OwnTensors, StepRecorder, Writer

# ---- The names that the op table has for functions of Torch, learnt by running the table's formulas on their own samples

_REFLECTED = frozenset({"rsub", "radd", "rmul", "rdiv", "rtruediv", "rpow", "rmatmul", "rfloordiv", "rmod"})
_IN_PLACE = frozenset("i" + name[1:] for name in _REFLECTED)
_SPELT = {"truediv": "div", "mm": "matmul", "subtract": "sub", "multiply": "mul", "divide": "div", "negative": "neg"}
# Functions that formulas call beside the one that they stand for.
_BESIDE = frozenset({
    "get", "detach", "reshape", "long", "float", "to", "int", "ne", "all", "any", "bool", "is_floating_point", "is_contiguous",
    "contiguous", "movedim", "broadcast_tensors", "transpose", "flatten", "squeeze", "unsqueeze", "numel", "min", "eq", "invert",
    "pad", "ones_like", "tensor", "tolist", "unbind", "t", "flip", "tril", "triu", "where", "clone",
})  # fmt: skip
_MOST = 3  # samples of an op that are tried


def plain(function: Any) -> str:
    """A function's name without what tells in-place, operator and reflected forms apart: ``__rsub__`` is ``sub``."""
    name = getattr(function, "__name__", str(function)).strip("_")
    name = name[1:] if name in _REFLECTED or name in _IN_PLACE else name
    return _SPELT.get(name, name)


@functools.cache
def _learnt() -> dict[str, tuple[str, ...]]:
    """Torch's name -> names of ops whose formula is that function alone, or that beside movements."""
    sure: defaultdict[str, list[str]] = defaultdict(list)
    likely: defaultdict[str, list[str]] = defaultdict(list)
    for op in ops().values():
        if op.random is not None:
            continue
        for names in _called(op):
            core = [name for name in names if name not in _BESIDE]
            into = sure if len(names) == 1 else likely
            main = names if len(names) == 1 else core
            if len(main) == 1 and op.name not in into[main[0]]:
                into[main[0]].append(op.name)
    return {name: tuple(dict.fromkeys([*sure[name], *likely[name]])) for name in [*sure, *likely]}


def _called(op: Op) -> list[list[str]]:
    """The functions that the op's formula calls, for each of some samples that Torch takes."""
    called = []
    for sample in op.samples[:_MOST]:
        try:
            arrays = sample.arrays(np.random.default_rng(0), "float32")
            tensors = [torch.tensor(array) if isinstance(array, np.ndarray) else array for array in arrays]
            for place, name in enumerate(op.names[: len(tensors)]):
                if op.layouts and name in op.layouts and tensors[place] is not None:
                    tensors[place] = tensors[place].t()
            functions = list[Any]()
            with torch.no_grad(), _Functions(lambda function, *_, functions=functions: functions.append(function)):
                op(*op.arguments(sample, tensors))
        except Exception:  # a sample of Paddle's names: others may run
            continue
        called.append([plain(function) for function in functions])
    return called


@functools.cache
def names(name: str) -> tuple[str, ...]:
    """The table's names for a function of Torch (by its :func:`plain` name), the likeliest first; its own where there are none."""
    learnt = _learnt().get(name, ())
    known = (name,) if name in ops() else ()
    return tuple(dict.fromkeys([*known, *learnt])) or (name,)


@functools.cache
def moves(name: str) -> bool:
    """Whether the function only takes or arranges elements, by the table."""
    known = names(name)
    table = ops()
    return known[0] in table and all(table[other].exact for other in known if other in table)


# ---- Looking on

# The same elements in other memory or another dtype: not calls in Paddle's table either.
_COPIES = frozenset({
    "clone", "contiguous", "to", "type", "type_as", "float", "double", "half", "bfloat16", "cpu", "cuda", "copy", "detach",
    "requires_grad", "getitem", "setitem", "item", "tolist", "numpy", "fill", "zero", "zeros_like", "ones_like", "full_like",
    "empty_like", "new_zeros", "new_ones", "new_full", "new_empty", "new_tensor", "retain_grad", "narrow", "get", "set", "chunk",
    "argmax", "argmin", "reshape", "flatten", "repeat", "index", "index_put", "masked_scatter", "deepcopy", "hash",
})  # fmt: skip
# Questions about a tensor, which compute nothing from its elements.
_QUESTIONS = frozenset({
    "get", "set", "size", "dim", "numel", "stride", "len", "repr", "format", "hash", "is_floating_point", "is_complex",
    "is_contiguous", "element_size", "storage_offset", "data_ptr", "untyped_storage", "requires_grad", "item", "tolist", "numpy",
    "broadcast_tensors", "is_same_size", "get_device", "is_tensor", "register_hook", "retain_grad", "backward",
})  # fmt: skip


def surroundings() -> dict[str, Any]:
    """What the first line says of versions and switches."""
    return {
        "environment": {**torch_state.environment(), **torch_state.machine()},
        "flags": {**torch_state.flags(), **torch_state.variables()},
    }


class TorchObserver:
    """Between :meth:`begin` and :meth:`end` everything that this thread computes is written down."""

    def __init__(self, writer: Writer, model: Any, *, calls: bool, layers: bool, warn: Callable[[str], None]) -> None:
        self._writer, self._model, self._calls, self._layers = writer, model, calls, layers
        self._running: list[tuple[Any, str]] = []  # modules, outermost first, with their paths
        self._weights = OwnTensors()  # parameters and buffers of the modules that ran
        self._mode = _Functions(self._called, self._function)
        self._steps = TorchSteps(writer, writer.looks_on, self._enter, self._leave, writer.gradients)

    def begin(self) -> None:
        """Look on from here."""
        self._steps.begin()
        self._mode.__enter__()

    def end(self) -> None:
        """Everything is as it was."""
        self._mode.__exit__(None, None, None)
        self._steps.end()

    @property
    def path(self) -> str:
        """Of the running module, below the model or the outermost one."""
        return self._running[-1][1] if self._running else ""

    def _enter(self, module: Any, _: Any) -> None:
        if not self._writer.looks_on():
            return
        if not self._running:
            self._writer.computes()
            self._weights.add([*module.parameters(), *module.buffers()])
        above, prefix = self._running[-1] if self._running else (self._model, "")
        names = (name for name, child in (above.named_modules() if above is not None else ()) if child is module)
        name = next(names, type(module).__name__ if self._running else "")
        self._running.append((module, f"{prefix}.{name}" if prefix and name else name or prefix))

    def _leave(self, module: Any, _: Any, result: Any) -> None:
        if not self._writer.looks_on():
            return
        path = ""
        while self._running:  # those above were left by an error
            running, path = self._running.pop()
            if running is module:
                break
        if self._layers and result is not None and not torch.jit.is_tracing():
            self._writer.layer(path, type(module).__name__, result, call_site())

    def _called(self, function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> JsonTable | None:
        """Record the data that a call takes; weights are no data. Returns what the call reads, where it may be recorded."""
        if self._writer.busy or self._writer.inside or torch.jit.is_tracing():
            return None
        name = plain(function)
        others = self._writer.own.others([*args, *kwargs.values()])
        data = [pair for pair in others if not isinstance(pair[1], torch.nn.Parameter) and pair[1] not in self._weights]
        if data and name not in _QUESTIONS:
            self._writer.inputs(names(name)[0], data, call_site(), self.path)
        if not self._calls or not self._writer.active or name in _COPIES or name in _QUESTIONS or moves(name):
            return None
        return self._writer.reads([*((f"argument {place}", value) for place, value in enumerate(args, 1)), *kwargs.items()])

    def _function(self, function: Any, operands: Any, result: Any, reads: JsonTable | None) -> None:
        if self._writer.busy:
            return
        name = plain(function)
        if any(isinstance(operand, torch.Tensor) for _, operand in leaves(operands)) or names(name) != (name,):
            self._writer.own.add(result)  # and not what was made of numbers: data
        if self._writer.inside:
            return
        if self._calls and self._computes(function, operands, result) and not torch.jit.is_tracing():
            reached = f"{getattr(function, '__module__', None) or 'torch.Tensor'}.{getattr(function, '__name__', name)}"
            self._writer.op(names(name), reached, result, call_site(), self.path, reads or {})

    def _computes(self, function: Any, operands: Any, result: Any) -> bool:
        """Whether a call computes floats: views, copies, creations without an operand and questions do not."""
        name = plain(function)
        results = [tensor for _, tensor in leaves(result) if isinstance(tensor, torch.Tensor)]
        if not any(tensor.is_floating_point() or tensor.is_complex() for tensor in results) or name in _COPIES or moves(name):
            return False
        tensors = [tensor for _, tensor in leaves(operands) if isinstance(tensor, torch.Tensor)]
        if not tensors:
            return names(name) != (name,)  # rand and the like stand in the table, zeros and arange do not
        spelt = str(getattr(function, "__name__", ""))
        in_place = spelt.startswith("__i") or (spelt.endswith("_") and not spelt.endswith("__"))
        return in_place or not all(any(_storage(tensor) == _storage(other) for other in tensors) for tensor in results)


def _storage(tensor: torch.Tensor) -> int:
    """Where the elements lie; a tensor of another layout is alone."""
    return int(tensor.untyped_storage().data_ptr()) if tensor.layout is torch.strided else id(tensor)


class _Functions(TorchFunctionMode):
    """Reports every function of Torch that is called within it."""

    def __init__(self, called: Callable[..., Any], returned: Callable[..., None] = lambda *_: None) -> None:
        super().__init__()
        self._called, self._returned = called, returned

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        reads = self._called(function, args, kwargs)
        result = function(*args, **kwargs)
        self._returned(function, [*args, *kwargs.values()], result, reads)
        return result


# ---- Fingerprints, optimizers' steps and clipping


class TorchView:
    """See :class:`~.paddle_run.PaddleView`."""

    tensor_type = torch.Tensor

    def address(self, tensor: Any) -> int:
        """A tensor of a class of its own may hold others, and one that is negated or conjugated as it is read other values."""
        plain = type(tensor) in (torch.Tensor, torch.nn.Parameter) and tensor.is_cpu and tensor.layout is torch.strided
        return tensor.data_ptr() if plain and tensor.is_contiguous() and not (tensor.is_neg() or tensor.is_conj()) else 0

    def on_device(self, tensor: Any) -> Any:
        """On a GPU, as it is."""
        return tensor.detach() if isinstance(tensor, torch.Tensor) and tensor.is_cuda and tensor.layout is torch.strided else None

    def named(self, model: Any) -> Iterator[tuple[str, Any]]:
        """Parameters and buffers."""
        yield from model.named_parameters()
        yield from model.named_buffers()

    def sublayers(self, model: Any) -> Iterable[tuple[str, Any]]:
        """With the model itself, under ""."""
        return model.named_modules()


class TorchFingerprints:
    """Between :meth:`begin` and :meth:`end` this thread's modules, losses, gradients and parameters are recorded."""

    def __init__(self, file: RecordFile, model: Any, every: int, first_step: int) -> None:
        self.run = FingerprintRun(file, TorchView(), model, every, first_step)
        self._steps = TorchSteps(self.run, self._looks_on, self._enter, self._leave)
        self.begin = self._steps.begin

    def end(self) -> None:
        """Everything is as it was."""
        self._steps.end()
        self.run.end()

    def _looks_on(self) -> bool:
        return self.run.looks_on() and not torch.jit.is_tracing()

    def _enter(self, module: Any, operands: Any) -> None:
        if self._looks_on():
            # Hooks of all modules are not passed what is given by name: it is the caller's.
            self.run.enter(module, operands, {} if operands else sys._getframe(1).f_locals.get("kwargs") or {})

    def _leave(self, module: Any, _: Any, result: Any) -> None:
        if self._looks_on():
            self.run.leave(result)


class TorchSteps:
    """Reports to ``run`` backwards and what optimizers' steps and clipping do with gradients, while ``looks_on`` says so.

    Modules are told to ``enter`` and ``leave``, and ``backward_ends`` is called behind a backward.
    """

    def __init__(
        self,
        run: StepRecorder,
        looks_on: Callable[[], bool],
        enter: Any,
        leave: Any,
        backward_ends: Callable[[], object] = lambda: None,
    ) -> None:
        self._run, self._looks_on, self._enter, self._leave = run, looks_on, enter, leave
        self._hooks, self._methods = list[Any](), Replacements()
        self._watched_backward = watching_backwards(run, looks_on, backward_ends)
        functions = ("clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_")
        present = [getattr(torch.nn.utils, name) for name in functions if hasattr(torch.nn.utils, name)]
        self._clips = [self._watched(inspect.unwrap(function)) for function in present]

    def begin(self) -> None:
        """Look on from here."""
        self._hooks = [
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, always_call=True),
            register_optimizer_step_pre_hook(self._step_begins),
            register_optimizer_step_post_hook(self._step_ends),
        ]
        for owner in (torch.Tensor, torch.autograd):
            self._methods.put(owner, "backward", self._watched_backward)
        for patch in self._clips:
            patch.install()

    def end(self) -> None:
        """Everything is as it was."""
        self._methods.undo()
        for patch in self._clips:
            patch.uninstall()
        for hook in self._hooks:
            hook.remove()

    def _watched(self, function: Any) -> PyFunctionPatch:
        """A redirection of a function with which programs clip gradients."""
        patch = PyFunctionPatch(function)

        def clip(parameters: Any, *args: Any, **kwargs: Any) -> Any:
            parameters = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
            if self._run.inside or not self._looks_on():
                return patch.original(parameters, *args, **kwargs)
            how = clip_of_call(function.__name__, args, kwargs)
            return self._run.clip(parameters, how, lambda: patch.original(parameters, *args, **kwargs))

        patch.set_hook(clip)
        return patch

    def _step_begins(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._looks_on() and not any(map(callable, (*args[1:], *kwargs.values()))):  # a closure has yet to compute gradients
            self._run.updating(torchs_parameters(optimizer), optimizer, OF_TORCH)
            self._run.inside = True

    def _step_ends(self, optimizer: Any, *_: Any) -> None:
        if self._looks_on():
            self._run.inside = False
            self._run.stepped(torchs_parameters(optimizer), lambda: torchs_states(optimizer))


observer, fingerprints, view = TorchObserver, TorchFingerprints, TorchView()
