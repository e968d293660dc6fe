"""Weights for a Paddle model and its Torch twin: drawn with numpy under Paddle's names, loaded into both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import paddle
import torch

Weights = dict[str, np.ndarray]
Draw = Callable[[str, tuple, np.random.Generator], np.ndarray]


def small_random(name: str, shape: tuple, rng: np.random.Generator) -> np.ndarray:
    """A parameter before training: matrices N(0, 0.02), LayerNorm gains 1, biases 0."""
    if len(shape) > 1:
        return rng.normal(0, 0.02, shape)
    return np.ones(shape) if name.endswith("weight") else np.zeros(shape)


def trained_like(name: str, shape: tuple, rng: np.random.Generator) -> np.ndarray:
    """A parameter such as training leaves it: large variance, heavy tails.

    Student-t with 3 degrees of freedom for matrices (standard deviation 2 / sqrt(fan-in)) and biases (0.1), lognormal gains.
    """
    if len(shape) == 1 and name.endswith("weight"):
        return rng.lognormal(0, 0.5, shape)
    # Tables are looked up along the first axis, so what a row feeds into a sum is the last one; a Linear is [in, out].
    fan_in = shape[-1] if "embedding" in name else shape[0]
    deviation = 2 / np.sqrt(fan_in) if len(shape) > 1 else 0.1
    return rng.standard_t(3, shape) / np.sqrt(3) * deviation


def draw_weights(model: paddle.nn.Layer, draw: Draw, seed: int) -> Weights:
    """One array for each parameter of a Paddle model."""
    rng = np.random.default_rng(seed)
    return {name: draw(name, tuple(parameter.shape), rng) for name, parameter in model.named_parameters()}


def load_paddle(model: paddle.nn.Layer, weights: Weights) -> None:
    """Set all parameters, in the model's own dtype."""
    for name, parameter in model.named_parameters():
        parameter.set_value(paddle.to_tensor(weights[name], dtype=parameter.dtype))


def load_torch(model: torch.nn.Module, weights: Weights) -> None:
    """Set all parameters; a Linear's weight is [out, in] in Torch."""
    turned = {f"{name}.weight" for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)}
    arrays = {name: array.T if name in turned else array for name, array in weights.items()}
    model.load_state_dict({name: torch.tensor(np.ascontiguousarray(array)) for name, array in arrays.items()})


@contextmanager
def default_dtype(dtype: str) -> Iterator[None]:
    """Create parameters of both frameworks in this dtype."""
    before = paddle.get_default_dtype(), torch.get_default_dtype()
    paddle.set_default_dtype(dtype)
    torch.set_default_dtype(getattr(torch, dtype))
    try:
        yield
    finally:
        paddle.set_default_dtype(before[0])
        torch.set_default_dtype(before[1])


def build_twins(
    in_paddle: Callable[[], paddle.nn.Layer], in_torch: Callable[[], torch.nn.Module], draw: Draw, dtype: str, seed: int
) -> tuple[Any, Any]:
    """A Paddle model and its Torch twin with the same weights, ready for evaluation."""
    with default_dtype(dtype):
        model, twin = in_paddle(), in_torch()
    weights = draw_weights(model, draw, seed)
    load_paddle(model, weights)
    load_torch(twin, weights)
    model.eval()
    twin.eval()
    return model, twin
