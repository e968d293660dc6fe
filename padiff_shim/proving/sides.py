"""The two models as programs that run again and again: with equal seeds, in a wider dtype, natively or on Torch's kernels."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import numpy as np
import torch

from ..errors import PadiffShimError
from ..frameworks.copies import duplicate
from ..trees import copied
from . import following
from .arrays import Array
from .capture import Onlooker
from .holding import Holding
from .listening import listening
from .outcome import Outcome
from .seeding import default_dtype, seeded
from .updates import Recipe, Trainer
from .values import Inputs, as_array, in_place, leaves

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


class Side:
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

    def run(self, capturing: Capturing | None = None) -> Outcome:
        """One forward and, if asked for, backward."""
        return self._run(self.model, capturing, wide=False)

    def run_forward(self, capturing: Capturing | None = None) -> Outcome:
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

    def run_wide(self, capturing: Capturing | None = None) -> Outcome:
        """The same of a copy of the model in the wider dtype.

        Raises:
            NotWider: with the model's own error.
        """
        try:
            return self._run(self.wide_model(), capturing, wide=True)
        except Exception as error:
            raise NotWider.of(self.framework, error, self.wider) from error

    def _run(self, model: Any, capturing: Capturing | None, *, wide: bool) -> Outcome:
        self._held(model).restore()
        if self._forms(wide, capturing):
            self._borrow(model, wide=wide)
        arguments = self._arguments(wide=wide)
        arguments, begun = following.inputs(arguments, lambda _, one: self._leaf(one)) if self.follows else (arguments, {})
        capture = None
        if capturing:
            capture = capturing({**self._labels(model), **self._input_labels(arguments)}, self.layer, Side._pass.__code__)
            capture.still = self._still(model)
        self.capture = capture
        outcome, self._keeping = Outcome(capture=capture), capture is None or not wide
        self._stack.clear()
        self._clear()
        with self._running(model, outcome, wide=wide, within=capture):
            named = self._pass(model, arguments)
        self.capture = None
        self._held(model).look()  # a forward may exchange what the model holds
        self._note(model, named, outcome)
        outcome.gradients = self._gradients(model, in_place) if self._backward else {}  # nobody writes them before they are dropped
        outcome.of_inputs = following.gradients(begun)
        self._clear()
        return outcome

    def _arguments(self, *, wide: bool = False, step: int = 0) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What the model is called with."""
        return self._inputs.of(self.framework, self.dtype(), wide=self.wider if wide else "", step=step, device=self._device())

    @contextlib.contextmanager
    def _running(
        self, model: Any, outcome: Outcome, *, wide: bool, within: contextlib.AbstractContextManager[Any] | None
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
        return sorted(named, key=lambda one: self.order.index(one[0]))

    def _note(self, model: Any, named: list[tuple[str, Any]], outcome: Outcome) -> None:
        outcome.outputs = {path: copied(tensor) for path, tensor in named}
        outcome.dtypes = {path: str(tensor.dtype).rpartition(".")[2] for path, tensor in named}
        outcome.unlike = self._unlike()
        if not outcome.unlike:
            outcome.statistics = {name: copied(tensor) for name, tensor in self._held(model).written().items()}

    def train(
        self,
        recipe: Recipe,
        steps: int,
        seen: Callable[[Outcome], None],
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
        sink, self._keeping = Outcome(), True
        self._clear()
        try:
            with self._running(model, sink, wide=wide, within=within):
                trainer = recipe.trainer(self.framework, model)
                for step in range(steps):
                    arguments = self._arguments(wide=wide, step=step)
                    self._stack.clear()
                    outcome = Outcome()
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

    def _update(self, model: Any, trainer: Trainer, outcome: Outcome) -> None:
        """The optimizer's step, and what is there behind it."""
        parameters = self._parameters(model)
        outcome.update = trainer.step(parameters, outcome.gradients)
        outcome.weights = {name: copied(parameter) for name, parameter in parameters.items()}
        outcome.update.left = [name for name, gradient in self._gradients(model, in_place).items() if gradient.any()]

    def step_alone(self, recipe: Recipe, given: list[tuple[dict[str, Any], dict[str, Any]]]) -> list[dict[str, Any]]:
        """The weights behind each step of the optimizer alone.

        Args:
            recipe: makes the optimizer.
            given: for each step the weights before it and the gradients that it gets, by name.
        """
        parameters, found = self._parameters(self.model), []
        held = [(parameter, parameter.detach().clone()) for parameter in parameters.values()]
        try:
            with seeded(self._seed), self._mode():
                trainer = recipe.trainer(self.framework, self.model)
                for weights, gradients in given:
                    for name, parameter in parameters.items():
                        self._begin(parameter, weights.get(name), gradients.get(name))
                    trainer.step(parameters, gradients)
                    found.append({name: copied(parameter) for name, parameter in parameters.items()})
        finally:
            self._clear()
            for parameter, value in held:
                self._write(parameter, value)
        return found

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

    def _listening(self, model: Any, outcome: Outcome) -> contextlib.AbstractContextManager[None]:
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
        return {tensor.data_ptr(): name for name, tensor in following.named(arguments)}

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
