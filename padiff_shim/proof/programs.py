"""The two models as programs that run again and again: seeds, inputs, what a run gave, what layers return."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import numpy as np
import paddle
import torch

from ..errors import PadiffShimError
from ..frameworks.copies import duplicate
from ..trees import changed, copied, is_tensor
from .trace import Onlooker
from .updates import Recipe, StepUpdate, Trainer
from .values import Array, Inputs, as_array, in_place, leaves

# ---- What a run begins with: random generators of both frameworks, NumPy and Python, and the default dtype.


class _Keeping(threading.local):
    """Whether this thread puts all generators back later on."""

    active = False


_KEEPING = _Keeping()


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """All random generators are put back where they stood, whatever happens to them: for several runs once."""
    if _KEEPING.active:
        yield
        return
    states = paddle.get_rng_state(), np.random.get_state(), random.getstate(), torch.get_rng_state()
    _KEEPING.active = True
    try:
        yield
    finally:
        _KEEPING.active = False
        paddle.set_rng_state(states[0])
        np.random.set_state(states[1])
        random.setstate(states[2])
        torch.set_rng_state(states[3])


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """All random generators begin with ``seed``, and are put back where they stood."""
    with kept():
        paddle.seed(seed)
        _seed_torch(seed)
        np.random.seed(seed)
        random.seed(seed)
        yield


def _seed_torch(seed: int) -> None:
    """As ``torch.manual_seed``, which without any device writes down the whole stack for each kind of them, every time."""
    devices = getattr(torch, "accelerator", None)
    if devices is not None and devices.current_accelerator() is None:
        torch.default_generator.manual_seed(seed)
    else:
        torch.manual_seed(seed)


@contextlib.contextmanager
def default_dtype(name: str) -> Iterator[None]:
    """What a model makes without saying a dtype (a state of zeros) has this one: that of its copy in float64."""
    held = paddle.get_default_dtype(), torch.get_default_dtype()
    paddle.set_default_dtype(name)
    torch.set_default_dtype(getattr(torch, name))
    try:
        yield
    finally:
        paddle.set_default_dtype(held[0])
        torch.set_default_dtype(held[1])


# ---- Gradients of what is no parameter: of inputs, and of what layers return.

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def _given(arguments: Arguments) -> list[tuple[str, Any]]:
    """(name, value) of all arguments."""
    positional, keywords = arguments
    return [(f"input {key}", argument) for key, argument in (*enumerate(positional), *keywords.items())]


def named(arguments: Arguments) -> list[tuple[str, Any]]:
    """(name, tensor) of all arguments: ``"input 0"``, ``"input 0[1]"``, ``"input tokens"``, ``"input batch.tokens"``."""
    return [pair for name, argument in _given(arguments) for pair in leaves(argument, name)]


def inputs(arguments: Arguments, leaf: Callable[[str, Any], Any]) -> tuple[Arguments, dict[str, Any]]:
    """Arguments with gradients behind them, and their leaves by name, as :func:`named` gives them.

    The model is given a copy of each leaf, for it may write its inputs in place.

    Args:
        arguments: positional and keyword arguments.
        leaf: makes a leaf of (name, tensor), or None of one that has no gradient.
    """
    begun: dict[str, Any] = {}

    def wanting(name: str, argument: Any) -> Any:
        made = leaf(name, argument) if is_tensor(argument) else None
        if made is None:
            return argument
        begun[name] = made
        return made.clone()

    held = [changed(argument, wanting, name) for name, argument in _given(arguments)]
    count = len(arguments[0])
    return (tuple(held[:count]), dict(zip(arguments[1], held[count:]))), begun


def gradients(begun: dict[str, Any]) -> dict[str, Array]:
    """The gradients of leaves, by name; those that a backward reached."""
    return {name: copied(leaf.grad) for name, leaf in begun.items() if leaf.grad is not None}


def follow(tensor: Any, gradients: list[Array | None]) -> None:
    """Keep a place for the gradient of a tensor, which a backward fills if it gets there."""
    place = len(gradients)
    gradients.append(None)

    def keep(gradient: Any) -> None:
        gradients[place] = copied(gradient)

    wanted = not tensor.stop_gradient if hasattr(tensor, "stop_gradient") else tensor.requires_grad
    if wanted:
        tensor.register_hook(keep)


# ---- What one run of a model gave.


@dataclass
class RunOutcome:
    """What one run (or step) gave, as arrays: outputs and loss by path; outputs of layers, gradients and statistics by name.

    ``dtypes``: of the outputs, by path, for no array is of bfloat16. ``unlike``: statistics that were not kept, for Paddle's kernel
    wrote them, which defines them otherwise. Of a step of a training also the ``weights`` behind it, and what is told of its
    ``update``; of a side that follows gradients also those of layers' outputs (None where a call's has none) and of inputs.
    """

    outputs: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    dtypes: dict[str, str] = field(default_factory=dict)
    layers: dict[str, list[np.ndarray[Any, Any]]] = field(default_factory=dict)
    gradients: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    statistics: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    unlike: bool = False
    capture: Onlooker | None = None
    weights: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    update: StepUpdate | None = None
    of_layers: dict[str, list[np.ndarray[Any, Any] | None]] = field(default_factory=dict)
    of_inputs: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)


# ---- Looking on at the layers of a model: which one is running, and what each returns.


@contextlib.contextmanager
def listening(
    layers: list[tuple[str, Any]],
    places: tuple[str, str],
    stack: list[str],
    keeping: Callable[[], bool],
    outcome: RunOutcome,
    follows: bool,
) -> Iterator[None]:
    """Within it the path of the running layer is the last in ``stack``, and what layers return is kept.

    Args:
        layers: (path, layer) of a model of ours: hooks are put there without a handle for each.
        places: where a layer holds what is called before and after its forward.
        stack: paths of the layers that are running.
        keeping: whether results are wanted now.
        outcome: which gets them.
        follows: whether it gets their gradients, too.
    """
    names, hook = {id(layer): name for name, layer in layers}, object()

    def enter(layer: Any, _: Any) -> None:
        stack.append(names.get(id(layer), stack[-1] if stack else ""))  # a copy that a forward made runs in what made it

    def leave(layer: Any, _: Any, output: Any) -> None:
        if stack:
            stack.pop()
        name = names.get(id(layer))
        if name is None or not keeping():
            return
        first = output if is_tensor(output) else next((tensor for _, tensor in leaves(output)), None)
        if first is not None:
            outcome.layers.setdefault(name, []).append(copied(first))  # it may be written to later
            if follows:
                follow(first, outcome.of_layers.setdefault(name, []))

    held = [(getattr(layer, places[0]), getattr(layer, places[1])) for _, layer in layers]
    for before, after in held:
        before[hook], after[hook] = enter, leave
    try:
        yield
    finally:
        for before, after in held:
            before.pop(hook, None)
            after.pop(hook, None)


# ---- What a model holds: looked for once a run, for to go through all layers takes as long as some calls; and as it was.

Named = dict[str, Any]


class Holding:
    """The parameters and buffers of a model, by name.

    Args:
        model: whose.
        layers: all layers of the model, by their paths.
        written: which of all that is held a forward may write.
        write: gives a tensor values.
    """

    def __init__(
        self,
        model: Any,
        layers: Callable[[Any], list[tuple[str, Any]]],
        written: Callable[[Holding], Named],
        write: Callable[[Any, Any], None],
    ) -> None:
        self._model, self._layers, self._written, self._write = model, layers, written, write
        self._begun: list[tuple[str, Any, Any]] | None = None  # what a forward may write, and its values before the first run
        self._seen: list[Any] | None = None
        self.look()

    def look(self) -> None:
        """A forward may have exchanged what the model holds."""
        if self._seen is not None and self._content() == self._seen:
            return
        self.layers = self._layers(self._model)
        self.parameters: Named = dict(self._model.named_parameters())
        self.buffers: Named = dict(self._model.named_buffers())
        self._seen = self._content() if all(map(_usual, self.layers)) else None

    def _content(self) -> list[Any]:
        """Names and identities of all that is in the layers. What was seen is held, so that no identity is given out twice."""
        content: list[Any] = []
        for _, layer in self.layers:
            held = layer.__dict__
            for place in _PLACES["_modules" in held]:
                inside = held[place]
                content += inside
                content += map(id, inside.values())
        return content

    def written(self) -> Named:
        """What a forward may write, by name."""
        return self._written(self)

    def restore(self) -> None:
        """Running statistics and the like are what they were: each run begins alike."""
        self.look()
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
            self.look()


_PLACES = {True: ("_parameters", "_buffers", "_modules"), False: ("_parameters", "_buffers", "_sub_layers")}
_QUESTIONS = ("named_parameters", "named_buffers", "named_modules", "named_sublayers")


def _usual(named: tuple[str, Any]) -> bool:
    """Whether a layer holds things where its framework's layers do, and says so as they do."""
    layer = named[1]
    base = torch.nn.Module if isinstance(layer, torch.nn.Module) else paddle.nn.Layer
    held = layer.__dict__
    return all(isinstance(held.get(place), dict) for place in _PLACES[base is torch.nn.Module]) and all(
        getattr(type(layer), question, None) is getattr(base, question, None) for question in _QUESTIONS
    )


# ---- The two models as programs that run again and again: with equal seeds, in a wider dtype, natively or on Torch's
# kernels.

# Makes a capture from labels, what tells the running layer's path, and the code that calls the model.
Capturing = Callable[[dict[int, str], Callable[[], str], CodeType], Onlooker]


class NotWider(PadiffShimError):
    """A model that runs, but not in a wider dtype."""

    @classmethod
    def of(cls, framework: str, error: Exception, dtype: str = "float64") -> NotWider:
        """With the model's own error, or what to do where memory ran out."""
        text = f"{type(error).__name__}: {str(error)[:300]}"
        if not out_of_memory(error):
            return cls(f"{framework} in {dtype}: {text}")
        remedy = "such runs take twice as much; prove fewer layers, or smaller inputs"
        return OutOfMemory(f"{framework} in {dtype}: memory ran out ({remedy}): {text}")


class OutOfMemory(NotWider):
    """A model for which there is not enough memory in a wider dtype."""


def out_of_memory(error: BaseException) -> bool:
    """Whether an error of Python, NumPy, Paddle or Torch says that no memory is left."""
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or "can't allocate memory" in str(error)


class ModelSide:
    """A model of one framework and what it is called with."""

    framework: str
    hooks: tuple[str, str]  # where a layer holds what is called before and after its forward
    follows = False  # the gradients of what layers return, and of inputs

    def __init__(self, model: Any, inputs: Inputs, loss: Callable[..., Any] | None, seed: int, *, backward: bool) -> None:
        self.model, self._inputs, self._loss, self._seed, self._backward = model, inputs, loss, seed, backward
        self.starts: dict[Any, np.ndarray[Any, Any]] = {}  # what backwards begin with
        self.order: list[str] = []  # paths of the other side's outputs: a backward begins alike at what has one name
        self.begins: list[str] | None = None  # the outputs with which a backward begins; None: all
        self._stack: list[str] = []
        self._keeping = True  # what layers return
        self._wide: Any = None
        self.wider = "float64"  # of the runs that tell rounding from mistakes, see :mod:`.widening`
        self.widening = False  # whether what says a narrower dtype says that one in them
        self.simple = False  # whether the original goes without kernels that have no float64, see :meth:`simplify`
        self.not_wider: NotWider | None = None  # why it is not float64 without further ado
        self.when_widened: Callable[[Any], None] | None = None  # what else has to be done to a new copy in the wider dtype
        self._holdings: dict[int, Holding] = {}  # by model
        self.capture: Onlooker | None = None  # of the run that goes on
        # Around each run, see :mod:`.draws`.
        self.drawing: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext

    def run(self, capturing: Capturing | None = None) -> RunOutcome:
        """One forward and, if asked for, backward."""
        return self._run(self.model, capturing, wide=False)

    def run_forward(self, capturing: Capturing | None = None) -> RunOutcome:
        """The same without the backward."""
        with self.forward_alone():
            return self.run(capturing)

    @contextlib.contextmanager
    def forward_alone(self) -> Iterator[None]:
        """Within it no run has a backward."""
        held, self._backward = self._backward, False
        try:
            yield
        finally:
            self._backward = held

    def run_wide(self, capturing: Capturing | None = None) -> RunOutcome:
        """The same of a copy of the model in the wider dtype.

        Raises:
            NotWider: with the model's own error.
        """
        try:
            return self._run(self.wide_model(), capturing, wide=True)
        except Exception as error:
            raise NotWider.of(self.framework, error, self.wider) from error

    def _run(self, model: Any, capturing: Capturing | None, *, wide: bool) -> RunOutcome:
        self._held(model).restore()
        if self._forms(wide, capturing):
            self._borrow(model, wide=wide)
        arguments = self._arguments(wide=wide)
        arguments, begun = inputs(arguments, lambda _, tensor: self._leaf(tensor)) if self.follows else (arguments, {})
        capture = None
        if capturing:
            capture = capturing({**self._labels(model), **self._input_labels(arguments)}, self.layer, ModelSide._pass.__code__)
            capture.still = self._still(model)
        self.capture = capture
        outcome, self._keeping = RunOutcome(capture=capture), capture is None or not wide
        self._stack.clear()
        self._clear()
        with self._running(model, outcome, wide=wide, within=capture):
            named = self._pass(model, arguments)
        self.capture = None
        self._held(model).look()  # a forward may exchange what the model holds
        self._note(model, named, outcome)
        outcome.gradients = self._gradients(model, in_place) if self._backward else {}  # nobody writes them before they are dropped
        outcome.of_inputs = gradients(begun)
        self._clear()
        return outcome

    def _arguments(self, *, wide: bool = False, step: int = 0) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What the model is called with."""
        return self._inputs.of(self.framework, self.dtype(), wide=self.wider if wide else "", step=step, device=self._device())

    @contextlib.contextmanager
    def _running(
        self, model: Any, outcome: RunOutcome, *, wide: bool, within: contextlib.AbstractContextManager[Any] | None
    ) -> Iterator[None]:
        """What a run happens in: layers that are listened to, equal seeds, the dtype of the copy, kernels, aligned draws."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._listening(model, outcome))
            stack.enter_context(seeded(self._seed))
            if wide:
                stack.enter_context(default_dtype(self.wider))
            stack.enter_context(self._mode(wide, formed=self._forms(wide, within)))
            stack.enter_context(self.drawing())
            if within is not None:
                stack.enter_context(within)
            yield

    def layer(self) -> str:
        """The path of the layer that is running."""
        return self._stack[-1] if self._stack else ""

    def _pass(self, model: Any, arguments: Any, *, training: bool = False) -> list[tuple[str, Any]]:
        """A forward and, if asked for, a backward; (path, tensor) of all that it returns."""
        positional, keywords = arguments
        result = model(*positional, **keywords)
        if self._loss is not None:
            result = {"output": result, "loss": self._loss(result)}
        named = self._ordered(leaves(result))
        if self._backward:
            losses = [tensor for path, tensor in named if path == "loss" and (training or self._loss is not None)]
            by_path = dict(named)
            began = [tensor for _, tensor in named] if self.begins is None else [by_path[path] for path in self.begins]
            self._go_back(losses or began, ones=bool(losses))
        return named

    def _ordered(self, named: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
        """Outputs in the other side's order, if they have its names."""
        if {path for path, _ in named} != set(self.order):
            return named
        return sorted(named, key=lambda pair: self.order.index(pair[0]))

    def _note(self, model: Any, named: list[tuple[str, Any]], outcome: RunOutcome) -> None:
        outcome.outputs = {path: copied(tensor) for path, tensor in named}
        outcome.dtypes = {path: str(tensor.dtype).rpartition(".")[2] for path, tensor in named}
        outcome.unlike = self._unlike()
        if not outcome.unlike:
            outcome.statistics = {name: copied(tensor) for name, tensor in self._held(model).written().items()}

    def train(
        self,
        recipe: Recipe,
        steps: int,
        seen: Callable[[RunOutcome], None],
        *,
        wide: bool = False,
        within: contextlib.AbstractContextManager[Any] | None = None,
    ) -> None:
        """Train for some steps, telling what each gave; then the model is what it was.

        Args:
            recipe: makes the optimizer.
            steps: how many.
            seen: called with the outcome of each step.
            wide: of a copy of the model in the wider dtype.
            within: entered around the training.

        Raises:
            NotWider: ``wide``, and it does not run so; with the model's own error.
        """
        model = self.wide_model() if wide else self.model
        self._held(model).restore()
        held = [(parameter, parameter.detach().clone()) for parameter in self._parameters(model).values()]
        sink, self._keeping = RunOutcome(), True
        self._clear()
        try:
            with self._running(model, sink, wide=wide, within=within):
                trainer = recipe.trainer(self.framework, model)
                for step in range(steps):
                    arguments = self._arguments(wide=wide, step=step)
                    self._stack.clear()
                    outcome = RunOutcome()
                    named = self._pass(model, arguments, training=True)
                    self._held(model).look()
                    self._note(model, named, outcome)
                    outcome.gradients = self._gradients(model, copied) if self._backward else {}
                    outcome.layers, sink.layers = sink.layers, {}
                    self._keeping = False
                    self._update(model, trainer, outcome)
                    seen(outcome)
        except Exception as error:
            if wide:
                raise NotWider.of(self.framework, error, self.wider) from error
            raise
        finally:
            self._clear()
            for parameter, value in held:
                self._write(parameter, value)

    def _update(self, model: Any, trainer: Trainer, outcome: RunOutcome) -> None:
        """The optimizer's step, and what is there behind it."""
        parameters = self._parameters(model)
        outcome.update = trainer.step(parameters, outcome.gradients)
        outcome.weights = {name: copied(parameter) for name, parameter in parameters.items()}
        outcome.update.left = [name for name, gradient in self._gradients(model, in_place).items() if gradient.any()]

    def step_alone(self, recipe: Recipe, steps: list[tuple[dict[str, Any], dict[str, Any]]]) -> list[dict[str, Any]]:
        """The weights behind each step of the optimizer alone.

        Args:
            recipe: makes the optimizer.
            given: for each step the weights before it and the gradients that it gets, by name.
        """
        parameters, weights_after = self._parameters(self.model), []
        held = [(parameter, parameter.detach().clone()) for parameter in parameters.values()]
        try:
            with seeded(self._seed), self._mode():
                trainer = recipe.trainer(self.framework, self.model)
                for weights, gradients in steps:
                    for name, parameter in parameters.items():
                        self._begin(parameter, weights.get(name), gradients.get(name))
                    trainer.step(parameters, gradients)
                    weights_after.append({name: copied(parameter) for name, parameter in parameters.items()})
        finally:
            self._clear()
            for parameter, value in held:
                self._write(parameter, value)
        return weights_after

    def wide_model(self) -> Any:
        """The copy of the model in the wider dtype."""
        if self._wide is None:
            self._held(self.model).restore()
            self._wide = self.converted(self._shallow(), self.wider)
            if self.simple:
                self.simplify(self._wide)
            if self.when_widened is not None:
                self.when_widened(self._wide)
        return self._wide

    def _shallow(self) -> Any:
        """A copy of the model that is about to be converted: what conversion makes anew need not be copied before."""
        return duplicate(self.model)

    def can_be_simple(self) -> bool:
        """Whether the model has a switch that does without kernels which have no float64."""
        return False

    def simplify(self, model: Any) -> None:
        """Turn that switch in a copy."""

    def forget_wide(self) -> None:
        """The next run in the wider dtype begins with a new copy."""
        self._holdings.pop(id(self._wide), None)
        self._wide = None

    def rewind(self) -> None:
        """The model is what it was before its runs, and may be given other values, with which each further run begins."""
        self._held(self.model).restore()
        self._holdings.clear()

    def _held(self, model: Any) -> Holding:
        """What a model held when it was last gone through."""
        if id(model) not in self._holdings:
            self._holdings[id(model)] = Holding(model, self._named_layers, self._state, self._write)
        return self._holdings[id(model)]

    def _forms(self, wide: bool, within: Any) -> bool:
        """Whether a run's calls and backward shall be of the other side's form: a wide one's only if they are written down."""
        return not wide or (self._backward and within is not None)

    def _borrow(self, model: Any, *, wide: bool) -> None:
        """Take what the other model's memory has already, in place of a copy."""

    def _still(self, model: Any) -> set[int]:
        """Addresses of memory that nobody writes within a run."""
        return {parameter.data_ptr() for parameter in self._parameters(model).values()}

    def parameters(self, *, wide: bool = False) -> dict[str, Any]:
        """Those of the model, or of its copy in the wider dtype, by name."""
        return self._held(self.wide_model() if wide else self.model).parameters

    @property
    def layers(self) -> dict[str, Any]:
        """The model's layers by their paths."""
        return dict(self._named_layers(self.model))

    def trained(self) -> set[str]:
        """The names of the parameters that an optimizer may write."""
        return set(self._parameters(self.model))

    def _parameters(self, model: Any) -> dict[str, Any]:
        """What an optimizer may write, by name."""
        return {name: parameter for name, parameter in self._held(model).parameters.items() if self._trainable(parameter)}

    def _leaf(self, tensor: Any) -> Any:
        """A leaf that wants a gradient, for an input of floats; None for others."""
        raise NotImplementedError

    def _trainable(self, parameter: Any) -> bool:
        raise NotImplementedError

    def _begin(self, parameter: Any, weights: Any, gradient: Any) -> None:
        """Give a parameter values (None: it keeps its own) and a gradient (None: none)."""
        raise NotImplementedError

    def _clear(self) -> None:
        """No parameter has a gradient."""
        raise NotImplementedError

    def _unlike(self) -> bool:
        """Whether running statistics were written by a kernel that defines them otherwise."""
        return False

    def _listening(self, model: Any, outcome: RunOutcome) -> contextlib.AbstractContextManager[None]:
        """Keep the path of the running layer, and what each layer returns."""
        return listening(self._held(model).layers, self.hooks, self._stack, lambda: self._keeping, outcome, self.follows)

    def _mode(self, wide: bool = False, *, formed: bool = True) -> contextlib.AbstractContextManager[Any]:
        """What a run happens in. ``formed``: calls and backwards of both sides shall be of one form."""
        return contextlib.nullcontext()

    def _widens(self, wide: bool) -> bool:
        """Whether what says a narrower dtype says the wider one now; in a model of that dtype it means what it says."""
        return wide and self.widening and self.dtype() != self.wider

    def _cotangent(self, place: int, tensor: Any) -> np.ndarray[Any, Any]:
        """What a backward without a loss begins with: the same numbers on both sides."""
        shape, dtype = tuple(tensor.shape), as_array(tensor).dtype
        key = place, shape, dtype.name
        if key not in self.starts:
            self.starts[key] = np.random.default_rng([self._seed, place]).standard_normal(shape).astype(dtype)
        return self.starts[key].copy()

    def fill(self, parameter: Any, values: np.ndarray[Any, Any]) -> None:
        """Give a parameter of the model the values of an array."""
        raise NotImplementedError

    def _write(self, buffer: Any, value: Any) -> None:
        raise NotImplementedError

    def _state(self, held: Holding) -> dict[str, Any]:
        """What a forward may write, by name."""
        return dict(held.buffers)

    def dtype(self) -> str:
        """That of the parameters, the first of which tells."""
        raise NotImplementedError

    def _device(self) -> str:
        """Where inputs of the Torch model lie; Paddle's lie where ``paddle.set_device`` says."""
        return "cpu"

    def _labels(self, model: Any) -> dict[int, str]:
        raise NotImplementedError

    def _input_labels(self, arguments: Any) -> dict[int, str]:
        return {tensor.data_ptr(): name for name, tensor in named(arguments)}

    def _go_back(self, tensors: list[Any], *, ones: bool) -> None:
        """A backward from tensors, which begins with ones or with the same random numbers on both sides."""
        raise NotImplementedError

    def _gradients(self, model: Any, array: Callable[[Any], Array]) -> dict[str, Array]:
        """Those of the parameters that have one; ``array`` makes an array of each."""
        raise NotImplementedError

    @staticmethod
    def converted(model: Any, dtype: str) -> Any:
        """The model itself, with parameters and buffers of floats in another dtype."""
        raise NotImplementedError

    def _named_layers(self, model: Any) -> list[tuple[str, Any]]:
        raise NotImplementedError

    def _hooks(self, layer: Any, enter: Callable[..., None], leave: Callable[..., None]) -> list[Any]:
        raise NotImplementedError
