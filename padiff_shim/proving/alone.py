"""The port's optimizer by itself: with the original's weights and gradients at each step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from ..weights.mapping import Mapping
from ..weights.tree import Node, Side
from ..weights.values import prepared
from . import outcomes
from .arrays import Array
from .outcome import Outcome
from .paddle_side import PaddleSide
from .updates import Recipe


def weights_alone(ours: PaddleSide, mapping: Mapping, recipe: Recipe, original: list[Outcome]) -> list[tuple[int, str]]:
    """(step, how the weights behind it differ) of the steps in which they do."""
    mapping = replace(mapping, pairs=[pair for pair in mapping if pair.rule is None or pair.is_exact])
    shapes = {name: tuple(parameter.shape) for name, parameter in ours.model.named_parameters()}
    begun = {name: parameter.numpy() for name, parameter in ours.model.named_parameters()}
    begins = []
    for step, outcome in enumerate(original):
        before = laid_out(mapping, original[step - 1].weights, shapes) if step else begun
        begins.append((before, laid_out(mapping, outcome.gradients, shapes)))
    differing = []
    for step, (weights, theirs) in enumerate(zip(ours.step_alone(recipe, begins), original)):
        text = outcomes.differ("", outcomes.weights(mapping, theirs, Outcome(weights=weights)))
        if text:
            differing.append((step, text))
    return differing


def laid_out(mapping: Mapping, values: dict[str, Array], shapes: dict[str, Any]) -> dict[str, Array]:
    """Values of the original's weights as the port's are laid out; those that the original has none for are left out."""
    missing = {pair.paddle for pair in mapping if pair.torch not in values}
    pairs = [pair for pair in mapping if pair.paddle in shapes and pair.paddle not in missing]
    source = Side("torch", Node(""), {name: torch.from_numpy(value) for name, value in values.items()})
    dtypes = {pair.paddle: values[pair.torch].dtype for pair in pairs}
    target = Side("paddle", Node(""), {name: torch.from_numpy(np.zeros(shapes[name], dtype)) for name, dtype in dtypes.items()})
    writes = prepared(replace(mapping, src="torch", pairs=pairs), source, target)
    return {write.name: _array(write.value, write.target) for write in writes}


def _array(value: Any, target: torch.Tensor) -> Array:
    made = torch.full_like(target, value) if isinstance(value, float) else value
    return made.detach().numpy().copy()
