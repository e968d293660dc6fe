"""An optimizer's steps as a program of their own: what both programs' updates make of equal gradients."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import paddle
import torch

from ...torch_versions import without_modes
from ...trees import copied
from ...weights.mapping import Mapping as Weights
from ...weights.tree import LayerNode, WeightSide
from ...weights.values import prepared
from ..agreement import Array, RunOutcome
from ..programs import Inputs, ModelSide, PaddleSide, TorchSide
from ..updates import Recipe, unscaling_float64
from .origins import GRADIENT_OF

Gradients = Sequence[dict[str, Array]]  # of each step, by the weights' names


def step_layer(step: int) -> str:
    """What stands for the running layer's path in the calls of a step, from 1."""
    return f"step {step}"


def behind(step: int, name: str) -> str:
    """The name of the output that a weight behind a step is."""
    return f"{name} behind step {step}"


class UpdateSide(ModelSide):
    """A side whose runs are an optimizer's steps: it begins with the model's weights, and sets the gradients before each.

    Its outputs are the weights behind each step, by the original's names and in its layout.
    """

    recipe: Recipe
    steps: Gradients
    shapes: dict[str, Any]  # of the original's weights
    mapping: Weights
    _behind: list[dict[str, Array]]
    _names: dict[int, str]  # of tensors by address, for the capture of the run

    def _begin(self, parameter: Any, gradient: Array | None) -> None:
        """Give a parameter a gradient; None: it has none."""
        raise NotImplementedError

    def _called(self, model: Any, arguments: Any) -> Any:
        trainer = self.recipe.trainer(self.framework, model)
        parameters = self._parameters(model)
        self._behind = []
        before = dict(self._names)
        for step, gradients in enumerate(self.steps):
            self._stack[:] = [step_layer(step)]
            self._names.clear()
            self._names.update(before)
            for name, parameter in parameters.items():
                self._begin(parameter, gradients.get(name))
                if parameter.grad is not None:
                    self._names[parameter.grad.data_ptr()] = f"{GRADIENT_OF}{name} in {step_layer(step)}"
            trainer.make_step()
            self._behind.append({name: copied(parameter) for name, parameter in parameters.items()})
        return []

    def _run(self, model: Any, capturing: Any, *, wide: bool) -> RunOutcome:
        """The same; the model's weights then are what they were."""
        before = [(parameter, parameter.detach().clone()) for parameter in self._parameters(model).values()]
        self._names = {}

        def naming(names: dict[int, str], *arguments: Any) -> Any:
            self._names = names
            return capturing(names, *arguments)

        try:
            with unscaling_float64() if wide else contextlib.nullcontext():
                return super()._run(model, naming if capturing else None, wide=wide)
        finally:
            for parameter, value in before:
                self._write(parameter, value)

    def _note(self, model: Any, named: Any, outcome: RunOutcome) -> None:
        super()._note(model, named, outcome)
        places = {parameter.data_ptr() for parameter in self._parameters(model).values()}
        for value in outcome.capture.trace.values() if outcome.capture is not None else ():
            if value.tensor.data_ptr() in places:  # the weights get back what they held
                value.tensor = value.tensor.detach().clone()
        for step, weights in enumerate(self._behind):
            arrays = weights if self.framework == "torch" else _in_layout_of("torch", self.mapping, weights, self.shapes)
            outcome.outputs.update({behind(step, name): array for name, array in arrays.items()})

    def _unwritten(self, model: Any) -> set[int]:
        """An optimizer writes all weights."""
        return set()


class TorchUpdates(UpdateSide, TorchSide):
    """Those of the original."""

    def _begin(self, parameter: Any, gradient: Array | None) -> None:
        with without_modes():  # the capture meets it when the step reads it
            parameter.grad = None if gradient is None else torch.tensor(gradient, dtype=parameter.dtype)


class PaddleUpdates(UpdateSide, PaddleSide):
    """Those of the port, on Torch's kernels."""

    def _begin(self, parameter: Any, gradient: Array | None) -> None:
        parameter.clear_gradient(False)
        if gradient is not None:
            parameter.grad = paddle.to_tensor(gradient).astype(parameter.dtype)


def port_updates(port: PaddleSide, mapping: Weights, recipe: Recipe, original: Sequence[RunOutcome]) -> PaddleUpdates:
    """The port's updates from the gradients of the original's own training; ``original``: the steps of that."""
    shapes = {name: tuple(parameter.shape) for name, parameter in port.parameters().items()}
    side = PaddleUpdates(port.model, Inputs(lambda _: ()), None, 0, backward=False)
    side.mapping = replace(mapping, pairs=[pair for pair in mapping if pair.rule is None or pair.is_exact])
    side.recipe, side.shapes = recipe, {name: array.shape for name, array in original[0].weights.items()}
    side.steps = [_in_layout_of("paddle", side.mapping, outcome.gradients, shapes) for outcome in original]
    return side


def update_sides(
    original: TorchSide, port: PaddleSide, mapping: Weights, recipe: Recipe, steps: int
) -> tuple[TorchUpdates, PaddleUpdates]:
    """Both programs' updates from the gradients of the original's own training."""
    outcomes: list[RunOutcome] = []
    original.train(recipe, steps, outcomes.append)
    side = TorchUpdates(original.model, Inputs(lambda _: ()), None, 0, backward=False)
    side.recipe, side.steps = recipe, [outcome.gradients for outcome in outcomes]
    return side, port_updates(port, mapping, recipe, outcomes)


def _in_layout_of(framework: str, mapping: Weights, values: dict[str, Array], shapes: dict[str, Any]) -> dict[str, Array]:
    """Values of the other framework's weights in the layout of this one's; ``shapes``: of its weights, by name."""
    other = "paddle" if framework == "torch" else "torch"
    missing = {pair.name(framework) for pair in mapping if pair.name(other) not in values}
    pairs = [pair for pair in mapping if pair.name(framework) in shapes and pair.name(framework) not in missing]
    source = WeightSide(other, LayerNode(""), {name: torch.from_numpy(value) for name, value in values.items()})
    dtypes = {pair.name(framework): values[pair.name(other)].dtype for pair in pairs}
    target = WeightSide(
        framework, LayerNode(""), {name: torch.from_numpy(np.zeros(shapes[name], dtype)) for name, dtype in dtypes.items()}
    )
    writes = prepared(replace(mapping, src=other, pairs=pairs), source, target)
    made = {write.name: torch.as_tensor(write.value, dtype=write.target.dtype).expand_as(write.target) for write in writes}
    return {name: value.detach().numpy().copy() for name, value in made.items()}
