"""An optimizer's steps as a program of their own: what both programs' updates make of equal gradients."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from ...runlog.optimizer_settings import Settings
from ...torch_versions import without_modes
from ...trees import copied
from ...weights.mapping import Mapping as Weights
from ..agreement import Array, RunOutcome
from ..programs import Inputs, ModelSide, PaddleSide, TorchSide
from ..training import in_layout_of
from ..updates import OptimizerCall, Recipe, same_in_paddle, unscaling_float64
from .origins import GRADIENT_OF

Gradients = Sequence[dict[str, Array]]  # of each step, by the weights' names


def step_layer(step: int) -> str:
    """What stands for the running layer's path in the calls of a step, from 1."""
    return f"step {step}"


class UpdateSide(ModelSide):
    """A side whose runs are an optimizer's steps: it begins with the model's weights, and sets the gradients before each.

    Its outputs are the weights behind each step, by the original's names and in its layout.
    """

    recipe: Recipe
    steps: Gradients
    shapes: dict[str, Any]  # of the original's weights
    mapping: Weights
    settings: list[Settings]  # of the original's optimizer, for each step and weight
    _behind: list[dict[str, Array]]
    _names: dict[int, str]  # of tensors by address, for the capture of the run

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
                self._begin(parameter, None, gradients.get(name))
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
            arrays = weights if self.framework == "torch" else in_layout_of("torch", self.mapping, weights, self.shapes)
            outcome.outputs.update({f"{name} behind step {step}": array for name, array in arrays.items()})

    def _unwritten(self, model: Any) -> set[int]:
        """An optimizer writes all weights."""
        return set()


class TorchUpdates(UpdateSide, TorchSide):
    """Those of the original."""

    def _begin(self, parameter: Any, weights: Array | None, gradient: Array | None) -> None:
        with without_modes():  # the capture meets it when the step reads it
            parameter.grad = None if gradient is None else torch.tensor(gradient, dtype=parameter.dtype)


class PaddleUpdates(UpdateSide, PaddleSide):
    """Those of the port, on Torch's kernels."""


def update_sides(
    original: TorchSide, port: PaddleSide, mapping: Weights, recipe: Recipe, steps: int
) -> tuple[TorchUpdates, PaddleUpdates]:
    """Both programs' updates from the gradients of the original's own training."""
    outcomes: list[RunOutcome] = []
    original.train(recipe, steps, outcomes.append)
    mapping = replace(mapping, pairs=[pair for pair in mapping if pair.rule is None or pair.is_exact])
    shapes = {
        side.framework: {name: tuple(parameter.shape) for name, parameter in side.parameters().items()} for side in (original, port)
    }
    gradients = [outcome.gradients for outcome in outcomes]
    ported = [in_layout_of("paddle", mapping, step, shapes["paddle"]) for step in gradients]
    nothing = Inputs(lambda _: ())
    sides = (
        TorchUpdates(original.model, nothing, None, 0, backward=False),
        PaddleUpdates(port.model, nothing, None, 0, backward=False),
    )
    for side, of_steps in zip(sides, (gradients, ported)):
        side.recipe, side.steps, side.mapping, side.shapes = recipe, of_steps, mapping, shapes["torch"]
        side.settings = [held for outcome in outcomes if outcome.update for held in outcome.update.settings.values()]
    return sides


def with_paddles_own(port: PaddleUpdates) -> OptimizerCall | None:
    """Exchange a port's optimizer for Paddle's own with the original's settings; None if it has none."""
    settings = port.settings[0] if port.settings and all(held == port.settings[0] for held in port.settings) else {}
    own = same_in_paddle(settings)
    if own is not None:
        port.recipe = replace(port.recipe, paddle=lambda model: own(model))
    return own
