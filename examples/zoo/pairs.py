"""Both halves of a pair with equal weights, and one step of either, as arrays."""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

import numpy as np
import paddle
import torch

RENAMED = {"running_mean": "_mean", "running_var": "_variance"}  # BatchNorm's, Torch's names -> Paddle's


class Pair(NamedTuple):
    """A module of the zoo and its two models, whose weights are equal."""

    module: Any
    paddle: Any
    torch: Any
    turned: frozenset[str]  # weights that Torch holds as [out, in] and Paddle as [in, out]
    arrays: dict[str, np.ndarray]


class Result(NamedTuple):
    """What one step gives: outputs and loss, and the gradients of all parameters.

    Not the running statistics of BatchNorm: Paddle keeps the variance of the batch, Torch its unbiased estimate.
    """

    outputs: dict[str, np.ndarray]
    gradients: dict[str, np.ndarray]


def build(name: str, dtype: str, seed: int = 0, dropout: bool = False) -> Pair:
    """A pair of the zoo in a dtype, with random weights of Paddle's initializers; with or without its dropout."""
    module = importlib.import_module(f"{__package__}.{name}")
    paddle.seed(seed)
    rng = np.random.default_rng(seed)
    default = paddle.get_default_dtype()
    paddle.set_default_dtype(dtype)
    try:
        ours, theirs = module.paddle_model(), module.torch_model().to(getattr(torch, dtype))
    finally:
        paddle.set_default_dtype(default)
    if not dropout:
        for model in (ours, theirs):
            drop_nothing(model)
    turned = frozenset(f"{where}.weight" for where, layer in theirs.named_modules() if isinstance(layer, torch.nn.Linear))
    state = ours.state_dict()
    with torch.no_grad():
        for name, target in theirs.state_dict().items():
            if not name.endswith("num_batches_tracked"):
                source = torch.from_numpy(state[paddle_name(name)].numpy())
                target.copy_(source.t() if name in turned else source)
    return Pair(module, ours, theirs, turned, arrays_of(module, rng, dtype))


def arrays_of(module: Any, rng: np.random.Generator, dtype: str) -> dict[str, np.ndarray]:
    """A batch whose floats have the dtype."""
    return {key: array.astype(dtype) if array.dtype == np.float64 else array for key, array in module.batch(rng).items()}


def drop_nothing(model: Any) -> None:
    """Take dropout out of a model of either framework."""
    ours = isinstance(model, paddle.nn.Layer)
    nn, layers = (paddle.nn, model.sublayers(include_self=True)) if ours else (torch.nn, list(model.modules()))
    for layer in layers:
        for name, child in list(layer.named_children()):
            if type(child).__name__.startswith("Dropout"):
                setattr(layer, name, nn.Identity())
            elif isinstance(child, (paddle.nn.layer.rnn.RNNBase, torch.nn.RNNBase)):
                child.dropout = 0.0


def paddle_name(name: str) -> str:
    """Paddle's name of a weight or buffer."""
    front, dot, last = name.rpartition(".")
    return front + dot + RENAMED.get(last, last)


def paddle_step(pair: Pair) -> Result:
    """Forward and backward of the Paddle half."""
    outputs, loss = pair.module.paddle_step(pair.paddle, **{key: paddle.to_tensor(array) for key, array in pair.arrays.items()})
    loss.backward()
    gradients = {name: parameter.grad.numpy() for name, parameter in pair.paddle.named_parameters() if parameter.grad is not None}
    pair.paddle.clear_gradients()
    shown = {f"output {place}": output.detach().numpy() for place, output in enumerate(outputs)}
    return Result({**shown, "loss": loss.numpy()}, gradients)


def torch_step(pair: Pair) -> Result:
    """Forward and backward of the Torch half; names and layout are Paddle's."""
    outputs, loss = pair.module.torch_step(pair.torch, **{key: torch.from_numpy(array) for key, array in pair.arrays.items()})
    loss.backward()
    gradients = {}
    for name, parameter in pair.torch.named_parameters():
        if parameter.grad is not None:
            gradients[name] = (parameter.grad.t() if name in pair.turned else parameter.grad).numpy().copy()
    pair.torch.zero_grad()
    shown = {f"output {place}": output.detach().numpy() for place, output in enumerate(outputs)}
    return Result({**shown, "loss": loss.detach().numpy()}, gradients)
