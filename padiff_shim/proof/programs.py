"""The original and the port as programs that run again and again, with equal inputs and seeds."""

from __future__ import annotations

import contextlib
import copy
import inspect
import random
import traceback
from collections.abc import Callable, Iterator, Mapping, Set
from types import CodeType
from typing import Any, TypeVar

import numpy as np
import paddle
import torch

from ..dispatch.call_site import at_line, raised_at
from ..dispatch.dtypes import HALF_NAMES, dtype_without_kernel
from ..errors import ArgumentError, PadiffShimError, described
from ..frameworks.copies import duplicate
from ..frameworks.memory import FLOATS, PADDLE_DTYPES, TORCH_DTYPES, hand_over, to_torch
from ..frameworks.weight_copies import forget, lend, transposed_of
from ..measure.bits import same_bits
from ..runs.run import Run
from ..text import joined, tr
from ..trees import PLAIN, as_array, changed, copied, drained, is_tensor, leaves, mapped, values
from ..weights.mapping import Mapping as WeightMapping
from .agreement import Array, RunOutcome
from .plans import Defined, GoingBack, InWider, Natively, OnTorch, Trying, WiderDtype, opened
from .trace import Forced, Model, Onlooker, Tables, Tensor
from .updates import Recipe, unscaling_float64

Within = contextlib.AbstractContextManager[Any]  # what a run happens in
Seen = Callable[[RunOutcome], None]  # gets the outcome of each step of a training
_Answer = TypeVar("_Answer")

# ---- What a model is called with.


def tensors_of(model: Model) -> dict[str, Any]:
    """All tensors of a model that hold numbers, by name."""
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return {name: tensor for name, tensor in tensors.items() if not isinstance(tensor, paddle.Tensor) or tensor._is_initialized()}


def in_place(tensor: Tensor) -> Array:
    """A dense tensor's values without a copy, if an array can show them, for as long as nobody writes them."""
    lies = isinstance(tensor, paddle.Tensor) and tensor.place.is_cpu_place() and tensor.is_dense() and tensor.dtype in FLOATS
    if not lies or tensor.dtype is PADDLE_DTYPES["bfloat16"]:
        return as_array(tensor)
    return as_array(to_torch(tensor.detach()))


class Inputs:
    """What a model is called with: positional and keyword arguments, made anew for each run.

    Args:
        source: an array or tensor; a tuple or list of arguments; a dict of keyword arguments; or a function of ``"paddle"`` or
            ``"torch"``, and of the number of the step if it takes two, that returns one of these. Plain arrays of floats get the
            models' dtype, tensors keep their own.
        dtype: of all floats, also of tensors; "" as above.
    """

    def __init__(self, source: Any, dtype: str = "") -> None:
        if not callable(source) and not leaves(source):
            raise ArgumentError(
                "inputs= is an array or tensor, a tuple or dict of them, or a function of 'paddle' or 'torch' that "
                "returns one; got {source}",
                source=described(source),
            )
        self._given, self.dtype = source, dtype
        self._dtypes: dict[int, str] = {}  # by the identity of an array: the dtype of the tensor it was
        if not callable(source):  # a copy, for the caller may write it
            self._given = mapped(source, self._kept)
        self.changing = callable(source) and _takes_two(source)  # another batch for each step of a training

    def _kept(self, value: Any) -> Array:
        array = copied(value)
        if array.dtype.kind in "OSUMm":  # objects, texts and times
            raise ArgumentError("inputs= holds numbers, got an array of {dtype}", dtype=array.dtype)
        self._dtypes[id(array)] = _dtype_of(value)
        return array

    def in_dtype(self, dtype: str) -> Inputs:
        """The same with all floats in a dtype."""
        other = copy.copy(self)
        other.dtype = dtype
        return other

    def of(self, framework: str, dtype: str, *, wide: str = "", step: int = 0, device: str = "cpu") -> Arguments:
        """Arguments for one call.

        Args:
            framework: ``"paddle"`` or ``"torch"``.
            dtype: of the model.
            wide: of all floats; "" as they are.
            step: the number of the step.
            device: of Torch's tensors; Paddle's lie on the device of ``paddle.set_device``.
        """

        def change(value: Any) -> Any:
            array = as_array(value)
            if array.dtype.kind != "f":
                return _tensor(framework, array, "", device)
            name = self.dtype or (self._dtypes[id(value)] if id(value) in self._dtypes else _dtype_of(value))
            return _tensor(framework, array, wide or name or dtype, device)

        arguments = (framework, step) if self.changing else (framework,)
        values = self._given(*arguments) if callable(self._given) else self._given
        changed = mapped(values, change)
        if isinstance(changed, Mapping):
            return (), dict(changed)
        return (tuple(changed) if isinstance(changed, (list, tuple)) else (changed,)), {}


def _dtype_of(value: Any) -> str:
    """The dtype that a tensor keeps; "" for an array, which gets the model's."""
    return "" if isinstance(value, (np.ndarray, np.generic)) else str(value.dtype).rpartition(".")[2]


def _takes_two(function: Callable[..., Any]) -> bool:
    """Whether a function may be called with two arguments."""
    try:
        inspect.signature(function).bind("torch", 0)
    except TypeError:
        return False
    except ValueError:  # a built-in function without signature
        return False
    return True


def _tensor(framework: str, array: Array, dtype: str, device: str) -> Tensor:
    """A tensor with an array's values; ``dtype``: rounded to it, "" as they are."""
    rounded = array.astype("float32" if dtype == "bfloat16" else dtype) if dtype else array
    made = torch.from_numpy(np.array(rounded)).to(device) if framework == "torch" else paddle.to_tensor(rounded)
    if dtype != "bfloat16":
        return made
    return made.to(torch.bfloat16) if framework == "torch" else made.astype("bfloat16")


Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def _named_arguments(arguments: Arguments) -> list[tuple[str, Tensor]]:
    """(name, value) of all arguments."""
    positional, keywords = arguments
    return [(f"input {key}", argument) for key, argument in (*enumerate(positional), *keywords.items())]


def named_tensors(arguments: Arguments) -> list[tuple[str, Tensor]]:
    """(name, tensor) of all arguments: ``"input 0"``, ``"input 0[1]"``, ``"input tokens"``, ``"input batch.tokens"``."""
    return [pair for name, argument in _named_arguments(arguments) for pair in leaves(argument, name)]


def followed_arguments(arguments: Arguments, leaf: Callable[[str, Tensor], Tensor | None]) -> tuple[Arguments, dict[str, Tensor]]:
    """Arguments whose gradients can be read, and their leaves by name, as :func:`named_tensors` gives them.

    The model gets a copy of each leaf, for it may write its inputs in place.

    Args:
        arguments: positional and keyword arguments.
        leaf: makes a leaf of (name, tensor); None: the argument has no gradient.
    """
    begun: dict[str, Tensor] = {}

    def wanting(name: str, argument: Any) -> Any:
        made = leaf(name, argument) if is_tensor(argument) else None
        if made is None:
            return argument
        begun[name] = made
        return made.clone()

    values = [changed(argument, wanting, name) for name, argument in _named_arguments(arguments)]
    count = len(arguments[0])
    return (tuple(values[:count]), dict(zip(arguments[1], values[count:]))), begun


def keep_gradient(tensor: Tensor, gradients: list[Array | None]) -> None:
    """Make a place for the gradient of a tensor, which a backward fills if it gets there."""
    place = len(gradients)
    gradients.append(None)

    def keep(gradient: Tensor) -> None:
        gradients[place] = copied(gradient)

    wanted = not tensor.stop_gradient if hasattr(tensor, "stop_gradient") else getattr(tensor, "requires_grad", False)
    if wanted:
        tensor.register_hook(keep)


# ---- What a run begins with: random generators of both frameworks, NumPy and Python, and the default dtype.


@contextlib.contextmanager
def generators_restored() -> Iterator[None]:
    """All random generators stand in the end where they stood before."""
    states = generator_states()
    try:
        yield
    finally:
        restore_generators(states)


def generator_states() -> dict[str, Any]:
    """Of all random generators."""
    return {
        "random.paddle": paddle.get_rng_state(),
        "random.numpy": np.random.get_state(),
        "random.python": random.getstate(),
        "random.torch": torch.get_rng_state(),
    }


def restore_generators(states: dict[str, Any]) -> None:
    """Put all random generators back to these states."""
    paddle.set_rng_state(states["random.paddle"])
    np.random.set_state(states["random.numpy"])
    random.setstate(states["random.python"])
    torch.set_rng_state(states["random.torch"])


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """All random generators begin with ``seed``, and stand in the end where they stood before."""
    with generators_restored():
        paddle.seed(seed)
        # ``torch.manual_seed`` writes down the whole stack for each kind of device, every time, even without any.
        (torch.manual_seed if torch.cuda.is_available() else torch.default_generator.manual_seed)(seed)
        np.random.seed(seed % 2**32)  # NumPy takes no more
        random.seed(seed)
        yield


@contextlib.contextmanager
def default_dtype(name: str) -> Iterator[None]:
    """Tensors that a model makes without a dtype (a state of zeros) have this one, that of the copy in float64."""
    before = paddle.get_default_dtype(), torch.get_default_dtype()
    paddle.set_default_dtype(name)
    torch.set_default_dtype(TORCH_DTYPES[name])
    try:
        yield
    finally:
        paddle.set_default_dtype(before[0])
        torch.set_default_dtype(before[1])


# ---- A model: its layers, parameters and buffers.


@contextlib.contextmanager
def layer_hooks(
    layers: list[tuple[str, Model]],
    places: tuple[str, str],
    stack: list[str],
    keeping: Callable[[], bool],
    outcome: RunOutcome,
    follows: bool,
) -> Iterator[None]:
    """Within it the path of the running layer is the last in ``stack``, and the outcome gets what layers return.

    Args:
        layers: (path, layer) of a model's own copy: hooks are put there without a handle for each.
        places: the layer's dictionaries of hooks before and behind its forward.
        stack: paths of the running layers.
        keeping: whether results are wanted now.
        outcome: gets them.
        follows: whether it gets their gradients, too.
    """
    names, hook = {id(layer): name for name, layer in layers}, object()

    def enter(layer: Model, _: object) -> None:
        stack.append(
            names.get(id(layer), stack[-1] if stack else "")
        )  # a copy that a forward made has the path of the layer that made it

    def leave(layer: Model, _: Any, output: Any) -> None:
        if stack:
            stack.pop()
        name = names.get(id(layer))
        if name is None or not keeping():
            return
        first = output if is_tensor(output) else next((tensor for _, tensor in leaves(output)), None)
        if first is not None:
            outcome.layers.setdefault(name, []).append(copied(first))  # it may be written to later
            if follows:
                keep_gradient(first, outcome.of_layers.setdefault(name, []))

    hooks = [(getattr(layer, places[0]), getattr(layer, places[1])) for _, layer in layers]
    for before, after in hooks:
        before[hook], after[hook] = enter, leave
    try:
        yield
    finally:
        for before, after in hooks:
            before.pop(hook, None)
            after.pop(hook, None)


Named = dict[str, Tensor]


class ModelState:
    """The layers, parameters and buffers of a model, by name: read once a run, for that takes as long as some calls; and put back.

    Args:
        model: the model.
        layers: returns all layers of the model, with their paths.
        written: returns what a forward may write.
        write: gives a tensor values.
    """

    def __init__(
        self,
        model: Model,
        layers: Callable[[Model], list[tuple[str, Model]]],
        written: Callable[[ModelState], Named],
        write: Callable[[Tensor, Tensor], None],
    ) -> None:
        self._model, self._layers, self._written, self._write = model, layers, written, write
        self._begun: list[tuple[str, Any, Any]] | None = None  # what a forward may write, and its values before the first run
        self._seen: list[Any] | None = None
        self.left: set[str] = set()  # names of plain attributes that runs have written
        self.refresh()

    def refresh(self) -> None:
        """Read them again if a forward has exchanged what the model holds."""
        if self._seen is not None and self._content() == self._seen:
            return
        self.layers = self._layers(self._model)
        self.parameters: Named = dict(self._model.named_parameters())
        self.buffers: Named = dict(self._model.named_buffers())
        self._seen = self._content() if all(map(_usual, self.layers)) else None

    def _content(self) -> list[Any]:
        """Names and identities of all that the layers hold. What was seen is held, so that no identity is used twice."""
        content: list[Any] = []
        for _, layer in self.layers:
            attributes = layer.__dict__
            for place in _PLACES["_modules" in attributes]:
                inside = attributes[place]
                content += inside
                content += map(id, inside.values())
        return content

    def written(self) -> Named:
        """What a forward may write, by name."""
        return self._written(self)

    def exchanged(self, written: Mapping[str, Array]) -> Iterator[str]:
        """The names of what a forward has written, but in layers of the frameworks themselves, which do not read it in training."""
        layers, own = dict(self.layers), ("torch.nn.", "paddle.nn.")
        for name, _, before in self._begun or ():
            layer = layers[name.rpartition(".")[0]]
            if not type(layer).__module__.startswith(own) and name in written and not same_bits(written[name], as_array(before)):
                yield name

    @contextlib.contextmanager
    def attributes_restored(self) -> Iterator[None]:
        """What happens within it leaves nothing in the layers' plain attributes, so that each run begins as a first call."""
        own, begun = {id(tensor) for tensor in (*self.parameters.values(), *self.buffers.values())}, []
        for path, layer in self.layers:
            usual = _USUAL[isinstance(layer, torch.nn.Module)]
            plain = {name: value for name, value in vars(layer).items() if name not in usual}
            inside = [(value, mapped(value, lambda leaf: leaf)) for value in plain.values() if type(value) in (list, dict)]
            open_values = [value for value in plain.values() if is_tensor(value) or type(value) in (list, tuple, dict)]
            tensors = [leaf for _, leaf in leaves(open_values) if is_tensor(leaf) and id(leaf) not in own]
            begun.append((path, layer, usual, plain, inside, [(tensor, tensor.detach().clone()) for tensor in tensors]))
        try:
            yield
        finally:
            for path, layer, usual, plain, inside, tensors in begun:
                attributes: dict[str, Any] = layer.__dict__
                for name in [name for name in {**plain, **attributes} if name not in usual]:
                    if name not in plain or attributes.get(name, own) is not plain[name]:
                        self.left.add(f"{path}.{name}" if path else name)
                        attributes.pop(name, None)
                attributes.update(plain)
                for value, before in inside:
                    value.clear()
                    (value.extend if type(value) is list else value.update)(before)
                for tensor, before in tensors:
                    self._write(tensor, before)

    def restore(self) -> None:
        """Each run begins alike: put running statistics and the like back."""
        self.refresh()
        if self._begun is None:
            self._begun = [(name, tensor, tensor.detach().clone()) for name, tensor in self.written().items()]
            return
        exchanged = [(name, tensor) for name, tensor, _ in self._begun if self.buffers.get(name, tensor) is not tensor]
        for name, tensor in exchanged:  # as ``self.seen = self.seen + 1`` does
            path, _, own = name.rpartition(".")
            dict(self.layers)[path]._buffers[own] = tensor
        for _, tensor, value in self._begun:
            self._write(tensor, value)
        if exchanged:
            self.refresh()


_PLACES = {True: ("_parameters", "_buffers", "_modules"), False: ("_parameters", "_buffers", "_sub_layers")}


_USUAL = {True: vars(torch.nn.Module()).keys(), False: vars(paddle.nn.Layer()).keys()}  # a layer's own attributes
_QUESTIONS = ("named_parameters", "named_buffers", "named_modules", "named_sublayers")


def _usual(named: tuple[str, Model]) -> bool:
    """Whether a layer holds its parts where its framework's layers do, and names them as they do."""
    layer = named[1]
    base = torch.nn.Module if isinstance(layer, torch.nn.Module) else paddle.nn.Layer
    attributes = layer.__dict__
    return all(isinstance(attributes.get(place), dict) for place in _PLACES[base is torch.nn.Module]) and all(
        getattr(type(layer), question, None) is getattr(base, question, None) for question in _QUESTIONS
    )


Capturing = Callable[[dict[int, str], Callable[[], str], CodeType], Onlooker]


class NotWider(PadiffShimError):
    """A model that runs, but not in a wider dtype."""

    @classmethod
    def of(cls, framework: str, error: Exception, dtype: str = "float64") -> NotWider:
        """With the model's own error, or the remedy where memory ran out."""
        text = f"{type(error).__name__}: {str(error)[:300]}"
        if not out_of_memory(error):
            return cls(tr("{framework} in {dtype}: {text}", framework=framework, dtype=dtype, text=text))
        return OutOfMemory(
            tr(
                "{framework} in {dtype}: memory ran out (such runs take twice as much; prove fewer layers, or smaller inputs): "
                "{text}",
                framework=framework,
                dtype=dtype,
                text=text,
            )
        )


class OutOfMemory(NotWider):
    """There is not enough memory for a model in a wider dtype."""


def out_of_memory(error: BaseException) -> bool:
    """Whether an error of Python, NumPy, Paddle or Torch says that memory ran out."""
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or "can't allocate memory" in str(error)


def attempted(run: Callable[[], _Answer]) -> _Answer | None:
    """What a run gives; None where a program does not run so, but for want of memory."""
    try:
        return run()
    except Exception as error:  # whatever the program raises
        if out_of_memory(error):
            raise
        return None


def _comparable(result: Any, outcome: RunOutcome) -> list[tuple[str, Any]]:
    """(path, value) of all tensors, arrays, numbers and texts that a program returns; the outcome gets what else there is."""
    named = list[tuple[str, Any]]()
    ordered = {path for path, _ in leaves(result)}
    for path, value in values(result):
        held = [(where, part) for where, part in values(value, path, objects=True) if part is not None]
        known = [
            (where, part)
            for where, part in held
            if leaves(part) or (isinstance(part, PLAIN) and not where.rpartition(".")[2].startswith("_"))
        ]
        if held and not known:
            outcome.opaque.append(tr("output {path} ({name})", path=path or "0", name=type(value).__name__))
        named += known
    outcome.by_name = {path for path, _ in named} - ordered
    return named


def _numbers_of(value: Any) -> Any:
    """A value as a tensor or array is one: of a text its letters."""
    text = str(value) if isinstance(value, (str, bytes)) or (type(value) is int and abs(value) >= 2**63) else None
    return value if text is None else np.frombuffer(text.encode(), np.uint8)


class ModelSide:
    """A model of one framework, and what it is called with."""

    framework: str
    hooks: tuple[str, str]  # the layer's dictionaries of hooks
    follows = False  # it keeps the gradients of layers' results and of inputs
    to_inputs = False  # it keeps those of inputs
    calls = 1  # of the model in a run, each with the same inputs; what comes of the last is compared
    reads_floats = False  # an input may have a gradient

    def __init__(self, model: Model, inputs: Inputs, loss: Callable[..., Any] | None, seed: int, *, backward: bool) -> None:
        self.model, self._inputs, self._loss, self.seed, self._backward = model, inputs, loss, seed, backward
        self.starts: dict[Any, Array] = {}  # the first gradients of backwards
        self.order: list[str] = []  # paths of the other side's outputs: a backward begins alike at outputs of one name
        self.stopped = False  # whether some weight's gradient is 0 throughout
        self.begins: list[str] | None = None  # the outputs with which a backward begins; None: all
        self._stack: list[str] = []
        self._earlier: list[Arguments] = []  # of a run's calls but the last
        self._keeping = True  # what layers return
        self._wide: Model = None
        self.wider = "float64"  # of the runs that tell rounding from mistakes, see :func:`in_wider`
        self.widening = False  # whether a narrower dtype in the program means that one in them
        self.simple = False  # whether the original avoids kernels without float64, see :meth:`simplify`
        self.not_wider: NotWider | None = None  # why it is not plain float64
        self.when_widened: Callable[[Model], None] | None = None  # called with each new copy in the wider dtype
        self.unrounded: Mapping[str, Array] = {}  # numbers that the model's conversion to its dtype rounded, as they were before
        self._holdings: dict[int, ModelState] = {}  # by model
        self.capture: Onlooker | None = None  # of the run at hand
        self.held: Forced = {}  # results with which runs in the wider dtype go on
        self.tables: Tables = ()  # the original's that a port in the wider dtype gets, see :class:`.locate.Exchange`
        # Around each run, see :class:`.preconditions.Streams`.
        self.drawing: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext

    @property
    def changing(self) -> bool:
        """Whether each step of a training has another batch."""
        return self._inputs.changing

    def run(self, capturing: Capturing | None = None) -> RunOutcome:
        """One forward and, if the side goes back, a backward."""
        return self._run(self.model, capturing, wide=False)

    def run_forward(self, capturing: Capturing | None = None) -> RunOutcome:
        """The same without the backward."""
        with self.forward_alone():
            return self.run(capturing)

    def ask(self, question: Callable[[Model, Arguments], _Answer]) -> _Answer:
        """What a function of the model and of a call's arguments returns, with seeds, kernels and buffers as in a run."""
        self._state_of(self.model).restore()
        try:
            with self._state_of(self.model).attributes_restored(), seeded(self.seed), self._mode():
                return question(self.model, self._arguments())
        finally:
            self._state_of(self.model).restore()

    @contextlib.contextmanager
    def forward_alone(self) -> Iterator[None]:
        """Within it no run has a backward."""
        before, self._backward = self._backward, False
        try:
            yield
        finally:
            self._backward = before

    @contextlib.contextmanager
    def evaluating(self) -> Iterator[None]:
        """Within it the model is in evaluation mode, and no run has a backward."""
        modes = [(layer, layer.training) for layer in self.layers.values()]
        self.model.eval()
        self.forget_wide()
        try:
            with self.forward_alone():
                yield
        finally:
            for layer, training in modes:
                layer.training = training
            self.forget_wide()

    def run_wide(self, capturing: Capturing | None = None) -> RunOutcome:
        """The same of a copy of the model in the wider dtype.

        Raises:
            NotWider: with the model's own error.
        """
        try:
            return self._run(self.wide_model(), capturing, wide=True)
        except Exception as error:
            raise NotWider.of(self.framework, error, self.wider) from error

    def _run(self, model: Model, capturing: Capturing | None, *, wide: bool) -> RunOutcome:
        self._state_of(model).restore()
        if self._wants_one_form(wide, capturing):
            self._borrow(model, wide=wide)
        arguments, *self._earlier = (self._arguments(wide=wide) for _ in range(self.calls))
        self.reads_floats = any(self._leaf(tensor) is not None for _, tensor in named_tensors(arguments))
        begun: dict[str, Tensor] = {}
        if self.follows or self.to_inputs:
            arguments, begun = followed_arguments(arguments, lambda _, tensor: self._leaf(tensor))
        capture = None
        if capturing:
            named_inputs = (pair for call in (*self._earlier, arguments) for pair in named_tensors(call))
            labels = {**self._labels(model), **{tensor.data_ptr(): name for name, tensor in named_inputs}}
            capture = capturing(labels, self.layer, ModelSide._pass.__code__)
            capture.unwritten, capture.held = self._unwritten(model), self.held if wide else {}
        self.capture = capture
        outcome, self._keeping = RunOutcome(capture=capture), capture is None or not wide
        self._stack.clear()
        self._clear()
        with self._running(model, outcome, wide=wide, within=capture):
            named = self._pass(model, arguments, outcome)
        self.capture, self._earlier = None, []
        self._state_of(model).refresh()  # a forward may exchange what the model holds
        self._note(model, named, outcome)
        outcome.gradients = self._gradients(model, in_place) if self._backward else {}  # nobody writes them before they are dropped
        outcome.of_inputs = {name: copied(leaf.grad) for name, leaf in begun.items() if leaf.grad is not None}
        self._clear()
        return outcome

    def _arguments(self, *, wide: bool = False, step: int = 0) -> Arguments:
        """The arguments of a call of the model."""
        return self._inputs.of(self.framework, self.dtype(), wide=self.wider if wide else "", step=step, device=self._device())

    @contextlib.contextmanager
    def _running(self, model: Model, outcome: RunOutcome, *, wide: bool, within: Within | None) -> Iterator[None]:
        """What a run happens in: hooks on layers, equal seeds, the copy's dtype, kernels, aligned draws."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._state_of(model).attributes_restored())
            stack.enter_context(self._layer_hooks(model, outcome))
            stack.enter_context(seeded(self.seed))
            if wide:
                stack.enter_context(default_dtype(self.wider))
            stack.enter_context(self._mode(wide, formed=self._wants_one_form(wide, within)))
            stack.enter_context(self.drawing())
            if within is not None:
                stack.enter_context(within)
            yield

    def layer(self) -> str:
        """The path of the layer that is running."""
        return self._stack[-1] if self._stack else ""

    def _pass(self, model: Model, arguments: Arguments, outcome: RunOutcome, *, training: bool = False) -> list[tuple[str, Any]]:
        """A forward and, if the side goes back, a backward; (path, value) of all that the forward returns and can be compared."""
        result = self._called(model, arguments)
        if self._loss is not None:
            result = {"output": result, "loss": self._loss(result)}
        named = _comparable(result, outcome)
        if {path for path, _ in named} == set(self.order):  # the other side's names
            named.sort(key=lambda pair: self.order.index(pair[0]))
        if self._backward:
            losses = [tensor for path, tensor in named if path == "loss" and (training or self._loss is not None)]
            by_path = dict(named)
            began = [value for _, value in named] if self.begins is None else [by_path[path] for path in self.begins]
            self._go_back(losses or began, ones=bool(losses))
        return named

    def _called(self, model: Model, arguments: Arguments) -> Any:
        """What the model returns, from the last of its calls."""
        for positional, keywords in self._earlier:
            drained(model(*positional, **keywords))
        positional, keywords = arguments
        return drained(model(*positional, **keywords))

    def _note(self, model: Model, named: list[tuple[str, Any]], outcome: RunOutcome) -> None:
        outcome.outputs = {path: copied(_numbers_of(value)) for path, value in named}
        outcome.dtypes = {path: str(getattr(value, "dtype", type(value).__name__)).rpartition(".")[2] for path, value in named}
        outcome.unlike = self._unlike()
        if not outcome.unlike:
            outcome.statistics = {name: copied(tensor) for name, tensor in self._state_of(model).written().items()}

    def train(self, recipe: Recipe, steps: int, seen: Seen, *, wide: bool = False, within: Within | None = None) -> None:
        """Train for some steps; then the model is what it was.

        Args:
            recipe: makes the optimizer.
            steps: how many.
            seen: called with the outcome of each step.
            wide: train a copy of the model in the wider dtype.
            within: entered around the training.

        Raises:
            NotWider: ``wide``, and it does not run so; with the model's own error.
        """
        model = self.wide_model() if wide else self.model
        self._state_of(model).restore()
        before = [(parameter, parameter.detach().clone()) for parameter in self._parameters(model).values()]
        sink, self._keeping = RunOutcome(), True
        self._clear()
        try:
            with self._running(model, sink, wide=wide, within=within):
                trainer = recipe.trainer(self.framework, model)
                for step in range(steps):
                    arguments = self._arguments(wide=wide, step=step)
                    self._stack.clear()
                    outcome = RunOutcome()
                    named = self._pass(model, arguments, outcome, training=True)
                    self._state_of(model).refresh()
                    self._note(model, named, outcome)
                    outcome.gradients = self._gradients(model, copied) if self._backward else {}
                    outcome.layers, sink.layers = sink.layers, {}
                    self._keeping = False
                    parameters = self._parameters(model)
                    outcome.update = trainer.step(parameters, outcome.gradients)
                    outcome.weights = {name: copied(parameter) for name, parameter in parameters.items()}
                    outcome.update.left = [name for name, rest in self._gradients(model, in_place).items() if rest.any()]
                    seen(outcome)
                outcome.states = trainer.states(self._parameters(model))
        except Exception as error:
            if wide:
                raise NotWider.of(self.framework, error, self.wider) from error
            raise
        finally:
            self._clear()
            for parameter, value in before:
                self._write(parameter, value)

    def wide_model(self) -> Model:
        """The copy of the model in the wider dtype."""
        if self._wide is None:
            self._state_of(self.model).restore()
            self._wide = self.converted(self._shallow(), self.wider)
            if self.simple:
                self.simplify(self._wide)
            state = self._state_of(self._wide)
            for name, values in self.unrounded.items():
                self.fill({**state.parameters, **state.buffers}[name], values)
            if self.when_widened is not None:
                self.when_widened(self._wide)
        return self._wide

    def _shallow(self) -> Model:
        """A copy of the model for conversion: what conversion makes anew need not be copied."""
        return duplicate(self.model)

    def can_be_simple(self) -> bool:
        """Whether the model has a switch that avoids kernels without float64."""
        return False

    def simplify(self, model: Model) -> None:
        """Turn that switch in a copy."""

    def forget_wide(self) -> None:
        """The next run in the wider dtype begins with a new copy."""
        self._holdings.pop(id(self._wide), None)
        self._wide = None

    def rewind(self) -> None:
        """The model is what it was before its runs; it may get other values, with which each further run begins."""
        self._state_of(self.model).restore()
        self._holdings.clear()

    def _state_of(self, model: Model) -> ModelState:
        """What a model held when it was last read."""
        if id(model) not in self._holdings:
            self._holdings[id(model)] = ModelState(model, self._named_layers, self._written_state, self._write)
        return self._holdings[id(model)]

    def _wants_one_form(self, wide: bool, within: Any) -> bool:
        """Whether a run's calls and backward must have the other side's form: a wide run's only if they are written down."""
        return not wide or (self._backward and within is not None)

    def _borrow(self, model: Model, *, wide: bool) -> None:
        """Use what the other model's memory holds already, in place of a copy."""

    def _unwritten(self, model: Model) -> set[int]:
        """Addresses of memory that nobody writes within a run."""
        return {parameter.data_ptr() for parameter in self._parameters(model).values()}

    def parameters(self, *, wide: bool = False) -> dict[str, Tensor]:
        """Those of the model, or of its copy in the wider dtype, by name."""
        return self._state_of(self.wide_model() if wide else self.model).parameters

    @property
    def layers(self) -> dict[str, Model]:
        """The model's layers by their paths."""
        return dict(self._named_layers(self.model))

    def left(self, outcome: RunOutcome) -> list[str]:
        """What a run has left for a next call: plain attributes, and what it wrote of layers that are not the framework's own."""
        state = self._state_of(self.model)
        return sorted({*state.left, *state.exchanged(outcome.statistics)})

    def trained_names(self) -> set[str]:
        """The names of the parameters that an optimizer may write."""
        return set(self._parameters(self.model))

    def _parameters(self, model: Model) -> dict[str, Tensor]:
        """What an optimizer may write, by name."""
        return {name: parameter for name, parameter in self._state_of(model).parameters.items() if self._trainable(parameter)}

    def _leaf(self, tensor: Tensor) -> Tensor | None:
        """A leaf that wants a gradient, for an input of floats; None for others."""
        raise NotImplementedError

    def _trainable(self, parameter: Tensor) -> bool:
        raise NotImplementedError

    def _clear(self) -> None:
        """No parameter has a gradient."""
        raise NotImplementedError

    def _unlike(self) -> bool:
        """Whether a kernel wrote running statistics that defines them differently."""
        return False

    def _layer_hooks(self, model: Model, outcome: RunOutcome) -> contextlib.AbstractContextManager[None]:
        """Keep the path of the running layer, and what each layer returns."""
        return layer_hooks(self._state_of(model).layers, self.hooks, self._stack, lambda: self._keeping, outcome, self.follows)

    def _mode(self, wide: bool = False, *, formed: bool = True) -> contextlib.AbstractContextManager[Any]:
        """What a run happens in. ``formed``: calls and backwards of both sides must have one form."""
        return contextlib.nullcontext()

    def _widens(self, wide: bool) -> bool:
        """Whether a narrower dtype in the program means the wider one now; in a model of that dtype it means itself."""
        return wide and self.widening and self.dtype() != self.wider

    def _cotangent(self, place: int, tensor: Tensor) -> Array:
        """What a backward without a loss begins with: the same numbers on both sides."""
        shape, dtype = tuple(tensor.shape), as_array(tensor).dtype
        key = place, shape, dtype.name
        if key not in self.starts:
            self.starts[key] = np.random.default_rng([self.seed, place]).standard_normal(shape).astype(dtype)
        return self.starts[key].copy()

    def fill(self, parameter: Tensor, values: Array) -> None:
        """Give a parameter of the model the values of an array."""
        raise NotImplementedError

    def _write(self, buffer: Tensor, value: Any) -> None:
        raise NotImplementedError

    def _written_state(self, state: ModelState) -> dict[str, Tensor]:
        """What a forward may write, by name."""
        return dict(state.buffers)

    def dtype(self) -> str:
        """The dtype of the first parameter of floats, or else that of the inputs."""
        raise NotImplementedError

    def _device(self) -> str:
        """The device of the Torch model's inputs; Paddle's lie on the device of ``paddle.set_device``."""
        return "cpu"

    def _labels(self, model: Model) -> dict[int, str]:
        raise NotImplementedError

    def _go_back(self, outputs: list[Any], *, ones: bool) -> None:
        """A backward from the tensors of outputs, which begins with ones or with the same random numbers on both sides."""
        raise NotImplementedError

    def _gradients(self, model: Model, array: Callable[[Tensor], Array]) -> dict[str, Array]:
        """The gradients of the parameters; ``array`` makes an array of each."""
        gradients = ((name, parameter.grad) for name, parameter in self._state_of(model).parameters.items())
        return {name: array(gradient) for name, gradient in gradients if gradient is not None}

    @staticmethod
    def converted(model: Model, dtype: str) -> Model:
        """The model itself, with parameters and buffers of floats in another dtype."""
        raise NotImplementedError

    def _named_layers(self, model: Model) -> list[tuple[str, Tensor]]:
        raise NotImplementedError


class TorchSide(ModelSide):
    """The original."""

    framework = "torch"
    hooks = ("_forward_pre_hooks", "_forward_hooks")

    def _write(self, buffer: Tensor, value: Any) -> None:
        with torch.no_grad():
            buffer.copy_(value)

    def fill(self, parameter: Tensor, values: Array) -> None:
        self._write(parameter, torch.from_numpy(np.asarray(values)))  # a sum of arrays without axes is no array

    def _mode(self, wide: bool = False, *, formed: bool = True) -> contextlib.AbstractContextManager[Any]:
        return WiderDtype(self.wider) if self._widens(wide) else contextlib.nullcontext()

    def dtype(self) -> str:
        first = next(
            (parameter for parameter in self._state_of(self.model).parameters.values() if parameter.is_floating_point()), None
        )
        return (self._inputs.dtype or "float32") if first is None else str(first.dtype).rpartition(".")[2]

    @property
    def epsilon(self) -> float:
        """The distance of 1 from the next number, in the dtype of the parameters."""
        return float(torch.finfo(TORCH_DTYPES[self.dtype()]).eps)

    def _device(self) -> str:
        return next((str(parameter.device) for parameter in self._state_of(self.model).parameters.values()), "cpu")

    def _labels(self, model: Model) -> dict[int, str]:
        content = self._state_of(model)
        return {tensor.data_ptr(): name for name, tensor in [*content.buffers.items(), *content.parameters.items()]}

    def _go_back(self, outputs: list[Any], *, ones: bool) -> None:
        wanted = {place: value for place, value in enumerate(outputs) if getattr(value, "requires_grad", False)}
        if not wanted:
            return
        starts = None if ones else [torch.from_numpy(self._cotangent(place, t)).to(t) for place, t in wanted.items()]
        torch.autograd.backward(list(wanted.values()), starts)

    def _leaf(self, tensor: Tensor) -> Tensor | None:
        return tensor.detach().requires_grad_() if tensor.is_floating_point() else None

    def _trainable(self, parameter: Tensor) -> bool:
        return bool(parameter.requires_grad)

    def _clear(self) -> None:
        for model in (self.model, self._wide):
            if model is not None:
                for parameter in self._state_of(model).parameters.values():
                    parameter.grad = None

    def _shallow(self) -> Model:
        weights = [weight for weight in self.model.parameters() if type(weight) is torch.nn.Parameter and not vars(weight)]
        narrow = [weight for weight in weights if weight.dtype in _NARROW]
        return duplicate(self.model, {id(weight): torch.nn.Parameter(weight.data, weight.requires_grad) for weight in narrow})

    @staticmethod
    def converted(model: Model, dtype: str) -> Model:
        wanted = TORCH_DTYPES[dtype]
        return model._apply(lambda tensor: tensor.to(wanted) if tensor.is_floating_point() else tensor)

    def can_be_simple(self) -> bool:
        """Experts of transformers 5 multiply by groups; Torch has no float64 kernel for that, and they have a switch."""
        return any(config._experts_implementation != "eager" for config in _of_experts(self.model))

    def simplify(self, model: Model) -> None:
        for config in _of_experts(model):
            config._experts_implementation = "eager"

    def _named_layers(self, model: Model) -> list[tuple[str, Model]]:
        return list(model.named_modules())


_NARROW = (torch.float32, torch.float16, torch.bfloat16)


def _of_experts(model: torch.nn.Module) -> list[Any]:
    """The configurations of transformers' models, or of layers of theirs, that say how experts are computed."""
    configs = (getattr(layer, "config", None) for layer in model.modules())
    return [config for config in configs if hasattr(config, "_experts_implementation")]


class PaddleSide(ModelSide):
    """The port; natively or, with ``shim``, on Torch's kernels."""

    framework = "paddle"
    hooks = ("_forward_pre_hooks", "_forward_post_hooks")
    shim = True
    counted: Run | None = None  # of the last run under the shim
    defined: Mapping[str, Defined] = {}  # of the last run: ops that Paddle defines differently; replaced, never written
    _drawn: Set[str] = frozenset()  # ops that drew random numbers in it
    planned: Callable[[], OnTorch] = OnTorch  # makes the plan of a run that is not widened

    def __init__(self, model: Model, inputs: Inputs, loss: Callable[..., Any] | None, seed: int, *, backward: bool) -> None:
        super().__init__(model, inputs, loss, seed, backward=backward)
        self._of_complex: dict[str, bool] = {}  # see :class:`.plans.OnTorch`
        self.lender: tuple[ModelSide, WeightMapping] | None = None  # the side with equal weights, and which belong together
        self._lent: dict[
            int, list[tuple[Tensor, Tensor]]
        ] = {}  # by model: the lender's weights that serve as copies, and the parameters

    def _write(self, buffer: Tensor, value: Any) -> None:
        forget(buffer)
        buffer.set_value(value)

    def _run(self, model: Model, capturing: Capturing | None, *, wide: bool) -> RunOutcome:
        """One run; if its forward has written a weight, which the lender cannot know, once more with copies of its own."""
        outcome = super()._run(model, capturing, wide=wide)
        written = [(weight, parameter) for weight, parameter in self._lent.get(id(model), ()) if not _are_equal(weight, parameter)]
        if not written:
            return outcome
        self.lender = None
        self.forget_copies()
        for weight, parameter in written:  # back to what they were: they were equal
            self._write(parameter, np.ascontiguousarray(in_place(weight).T))
        return super()._run(model, capturing, wide=wide)

    def _borrow(self, model: Model, *, wide: bool) -> None:
        """Use the lender's weights in place of [out, in] copies, which would take memory and time."""
        if self.lender is None or not self.shim or id(model) in self._lent:
            return
        side, mapping = self.lender
        weights, parameters = side.parameters(wide=wide), self._state_of(model).parameters
        pairs: list[tuple[Tensor, Tensor]] = [
            (weights.get(pair.name("torch")), parameters.get(pair.name("paddle"))) for pair in mapping
        ]
        lent = [pair for pair in pairs if _is_matrix(*pair) and _are_equal(*pair)]
        for weight, parameter in lent:
            lend(parameter, weight.detach())
        self._lent[id(model)] = lent

    def _unwritten(self, model: Model) -> set[int]:
        return {*super()._unwritten(model), *(weight.data_ptr() for weight, _ in self._lent.get(id(model), ()))}

    def forget_wide(self) -> None:
        """The same; its borrowed weights go with it."""
        for _, parameter in self._lent.pop(id(self._wide), ()):
            forget(parameter)
        super().forget_wide()

    def train(self, recipe: Recipe, steps: int, seen: Seen, *, wide: bool = False, within: Within | None = None) -> None:
        """The same; trained weights have copies of their own."""
        lender, self.lender = self.lender, None
        self.forget_copies()
        try:
            with unscaling_float64() if wide else contextlib.nullcontext():
                super().train(recipe, steps, seen, wide=wide, within=within)
        finally:
            self.lender = lender

    def fill(self, parameter: Tensor, values: Array) -> None:
        self._write(parameter, paddle.to_tensor(values).astype(parameter.dtype))

    def _written_state(self, state: ModelState) -> dict[str, Tensor]:
        """Running statistics are parameters that want no gradient."""
        stopped = {name: parameter for name, parameter in state.parameters.items() if parameter.stop_gradient}
        return {name: tensor for name, tensor in {**super()._written_state(state), **stopped}.items() if tensor._is_initialized()}

    @contextlib.contextmanager
    def _mode(self, wide: bool = False, *, formed: bool = True) -> Iterator[None]:
        if not self.shim:
            with opened(Natively(), ops=self._drawn) if self._drawn else contextlib.nullcontext():
                yield
            return
        # With copies of weights both sides' calls and their backwards have one form. A run in a wider dtype whose backward is not
        # written down needs no such copies, which would be large: nobody looks at its last bits.
        layout = "copy" if formed else "view"
        plan = InWider(self.wider) if self._widens(wide) else self.planned()
        plan.capture, plan.layer, plan.until, plan.of_complex = self.capture, self.layer, ModelSide._pass.__code__, self._of_complex
        with opened(plan, layout=layout) as self.counted:
            yield
        self._drawn, self.defined = plan.drawn, plan.defined

    @contextlib.contextmanager
    def answering(self) -> Iterator[None]:
        """Within it single calls are answered as in a run in the wider dtype."""
        with default_dtype(self.wider), opened(Trying(self.wider), layout="view"):
            yield

    def forget_copies(self) -> None:
        """Give back the memory of the copies of weights; a run that needs one makes it anew."""
        self._lent.clear()
        for model in (self.model, self._wide):
            for parameter in () if model is None else self._state_of(model).parameters.values():
                forget(parameter)

    @property
    def remarks(self) -> list[str]:
        """The warnings of the last run under the shim."""
        return [] if self.counted is None else list(self.counted.warnings)

    def _trainable(self, parameter: Tensor) -> bool:
        return not parameter.stop_gradient

    def _unlike(self) -> bool:
        """Paddle's kernel does: its running variance is defined differently."""
        return self.counted is not None and any("batch_norm" in op for op in self.counted.native)

    def dtype(self) -> str:
        names = (str(parameter.dtype).rpartition(".")[2] for parameter in self._state_of(self.model).parameters.values())
        return next((name for name in names if "float" in name), self._inputs.dtype or "float32")

    def _labels(self, model: Model) -> dict[int, str]:
        content = self._state_of(model)
        named = [
            (name, tensor) for name, tensor in [*content.buffers.items(), *content.parameters.items()] if tensor._is_initialized()
        ]
        copies = ((name, transposed_of(tensor)) for name, tensor in named)  # made in an earlier run
        return {tensor.data_ptr(): name for name, tensor in [*named, *copies] if tensor is not None}

    def _go_back(self, outputs: list[Any], *, ones: bool) -> None:
        tracked = {place: value for place, value in enumerate(outputs) if not getattr(value, "stop_gradient", True)}
        # indices of topk and argsort are tracked in Paddle, too, and a gradient sent into these ends the process
        wanted = {place: value for place, value in tracked.items() if value.is_floating_point() or value.is_complex()}
        if not wanted:
            return
        starts = [None if ones else paddle.to_tensor(self._cotangent(at, t)).astype(t.dtype) for at, t in wanted.items()]
        self.back_from(list(wanted.values()), starts)

    def watch(
        self, mode: contextlib.AbstractContextManager[Any], behind: Callable[[list[tuple[str, Tensor]]], None] | None = None
    ) -> None:
        """A forward within a mode, and a backward; or ``behind``, which gets (path, tensor) of the outputs within the mode."""
        self._state_of(self.model).restore()
        self._keeping = False
        self._stack.clear()
        self._clear()
        arguments = self._arguments()
        try:
            restoring = self._state_of(self.model).attributes_restored()
            with restoring, self._layer_hooks(self.model, RunOutcome()), seeded(self.seed), mode:
                if behind is not None:
                    behind(leaves(self._called(self.model, arguments)))
                else:
                    self._pass(self.model, followed_arguments(arguments, lambda _, tensor: self._leaf(tensor))[0], RunOutcome())
        finally:
            self._clear()

    def _leaf(self, tensor: Tensor) -> Tensor | None:
        """A leaf that wants a gradient, for an input of floats; None for others."""
        if not paddle.is_floating_point(tensor):
            return None
        leaf = tensor.detach()
        leaf.stop_gradient = False
        return leaf

    def back_from(self, tensors: list[Tensor], starts: list[Tensor]) -> None:
        """A backward from tensors with their first gradients."""
        paddle.autograd.backward(*_once(tensors, starts))

    def _clear(self) -> None:
        for model in (self.model, self._wide):
            if model is not None:
                for parameter in self._state_of(model).parameters.values():
                    parameter.clear_gradient(False)

    @staticmethod
    def converted(model: Model, dtype: str) -> Model:
        layers = [model, *model.sublayers()]
        empty = [  # buffers without memory, as a recurrence's state of dropout: 2.6 looks for their place
            (layer._buffers, name, buffer)
            for layer in layers
            for name, buffer in layer._buffers.items()
            if buffer is not None and not buffer._is_initialized()
        ]
        for buffers, name, _ in empty:
            del buffers[name]
        for parameter in model.parameters():
            if parameter.dtype in _FLOATS and parameter.dtype != PADDLE_DTYPES[dtype] and parameter._is_initialized():
                # By Torch, whose memory it takes over: Paddle's own allocator takes several times as long.
                values = hand_over(to_torch(parameter.detach()).to(TORCH_DTYPES[dtype]))
                parameter.get_tensor()._share_data_with(values.get_tensor())
        model._to_impl(dtype=dtype, floating_only=True)  # ``to`` makes floats of indices and masks, too
        for buffers, name, buffer in empty:
            buffers[name] = buffer
        return model

    def _named_layers(self, model: Model) -> list[tuple[str, Model]]:
        return [("", model), *model.named_sublayers()]


_FLOATS = tuple(PADDLE_DTYPES[name] for name in ("float64", "float32", "float16", "bfloat16"))


def _is_matrix(weight: Tensor, parameter: Tensor) -> bool:
    """Whether these may be a Linear's weight, [out, in] and [in, out], in a processor's memory."""
    if weight is None or parameter is None or not weight.ndim == parameter.ndim == 2:
        return False
    return bool(weight.is_cpu and weight.is_contiguous() and parameter.place.is_cpu_place())


def _are_equal(weight: Tensor, parameter: Tensor) -> bool:
    """Whether [out, in] and [in, out] hold the same, bit for bit."""
    return same_bits(in_place(weight).T, in_place(parameter))


def _once(tensors: list[Tensor], starts: list[Tensor]) -> tuple[list[Any], list[Any]]:
    """Each tensor once, with the sum of its first gradients: Paddle refuses one twice, Torch adds up in this order."""
    sums: dict[int, tuple[Any, Any]] = {}
    for tensor, start in zip(tensors, starts):
        known = sums.get(id(tensor))
        sums[id(tensor)] = (tensor, start if known is None else known[1] + start)
    return [tensor for tensor, _ in sums.values()], [start for _, start in sums.values()]


# ---- The port on Paddle's own kernels, and both in a wider dtype.


Runner = Callable[[ModelSide], RunOutcome]


def error_text(error: BaseException) -> str:
    """An error, with the line of the user's program that raised it, if one did."""
    site, lacks = raised_at(error), dtype_without_kernel(error) if isinstance(error, Exception) else ""
    where = tr(", at {line}", line=at_line(site.file, site.line)) if site else ""
    what = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    if lacks:
        what = tr("of which this Paddle has none in {dtype}", dtype=lacks)
    return joined("", (what, where))


def is_of_original(error: BaseException) -> bool:
    """Whether the original has raised an error, and not the port."""
    owners = [frame.f_locals.get("self") for frame, _ in traceback.walk_tb(error.__traceback__)]
    return [owner.framework for owner in owners if isinstance(owner, ModelSide)][-1:] == ["torch"]


def not_running(error: BaseException) -> str:
    """An error of one of both models, with its side and line."""
    if is_of_original(error):
        return tr("the original does not run: {error}", error=error_text(error))
    return tr("the port does not run: {error}", error=error_text(error))


def natively(port: PaddleSide, within: Callable[[Runner], RunOutcome] | None = None) -> tuple[RunOutcome | None, str]:
    """A native run; where its backward fails the forward alone, and None where that fails, too.

    Args:
        port: it ran on Torch's kernels before.
        within: calls the run that it gets.

    Returns:
        The outcome, and a note on a failure ("" without one).
    """
    run = within or (lambda runner: runner(port))
    port.forget_copies()
    port.shim = False
    try:
        return run(ModelSide.run), ""
    except Exception as error:
        if out_of_memory(error):  # no kernel is the cause
            raise
        reason = failure_of_backward(error, port.run, ModelSide._pass.__code__)
    finally:
        port.shim = True
    outcome, why = forward_alone(port, run)
    if outcome is None:
        return None, why
    return outcome, (
        tr(
            "the port's backward fails on Paddle's own kernels, not on Torch's ({reason}): natively outputs alone are compared",
            reason=reason,
        )
    )


def forward_alone(port: PaddleSide, run: Callable[[Runner], RunOutcome] | None = None) -> tuple[RunOutcome | None, str]:
    """The same of a forward without a backward."""
    port.shim = False
    try:
        return (run or (lambda runner: runner(port)))(ModelSide.run_forward), ""
    except Exception as error:
        if out_of_memory(error):
            raise
        return None, tr(
            "the port fails on Paddle's own kernels, not on Torch's ({error}): natively nothing is compared",
            error=error_text(error),
        )
    finally:
        port.shim = True


def failure_of_backward(error: Exception, again: Callable[[], Any], until: CodeType) -> str:
    """An error of a native run, with the line whose backward fails: no frame of the program's is in an error of the engine's.

    Args:
        error: the error.
        again: makes the run once more.
        until: code of the function that calls the model.
    """
    watching, text = GoingBack(until), error_text(error)
    if raised_at(error) is not None:
        return text
    with contextlib.suppress(Exception), opened(watching):
        again()
    site = watching.last
    return text if site is None else tr("{reason}, at {line}", reason=text, line=at_line(site.file, site.line))


def in_wider(original: ModelSide, port: ModelSide, question: Callable[[], _Answer]) -> _Answer:
    """The answer to a question about runs of both in a wider dtype; :attr:`ModelSide.wider` then names it.

    Both run in float64, widened; where one does not run so, as the models are; then without kernels that have no float64, where the
    original has a switch for that (:meth:`ModelSide.simplify`). Models of 16 bits that run in none of these ways run in float32.

    Raises:
        NotWider: one runs in none of these ways; or memory ran out.
    """
    ways = [("float64", True, False), ("float64", False, False), ("float64", True, True)]
    ways += [("float32", True, False)] if original.dtype() in HALF_NAMES else []
    error: NotWider | None = None
    for dtype, widening, simple in ways:
        if simple and not original.can_be_simple():
            continue
        for side in (original, port):
            side.wider, side.widening, side.simple, side.not_wider = dtype, widening, simple, error
        try:
            return question()
        except OutOfMemory:
            raise
        except NotWider as why:
            error = error or why
        finally:
            for side in (original, port):
                side.widening = False
                side.forget_wide()
    assert error is not None
    raise error
