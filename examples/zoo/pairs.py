"""Both halves of a pair with equal weights, and one step of either, as arrays."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import paddle
import torch

from .tensors import array_of, paddle_batch, torch_batch

RENAMED = {"running_mean": "_mean", "running_var": "_variance"}  # BatchNorm's, Torch's names -> Paddle's


def module_of(name: str, path: Path) -> Any:
    """The module of a file, imported under this name."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


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
    held = "float32" if dtype == "bfloat16" else dtype  # NumPy has none
    paddle.set_default_dtype(held)
    try:
        ours, theirs = module.paddle_model(), module.torch_model().to(getattr(torch, held))
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
    if held != dtype:
        ours._to_impl(dtype=dtype, floating_only=True)  # ``to`` makes floats of indices, too
        theirs.to(getattr(torch, dtype))
    return Pair(module, ours, theirs, turned, arrays_of(module, rng, dtype))


def arrays_of(module: Any, rng: np.random.Generator, dtype: str) -> dict[str, np.ndarray]:
    """A batch whose floats have the dtype."""
    held = "float32" if dtype == "bfloat16" else dtype  # NumPy has none
    return {key: array.astype(held) if array.dtype == np.float64 else array for key, array in module.batch(rng).items()}


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
    outputs, loss = pair.module.paddle_step(pair.paddle, **paddle_batch(pair.paddle, pair.arrays))
    loss.backward()
    named = pair.paddle.named_parameters()
    gradients = {name: array_of(parameter.grad) for name, parameter in named if parameter.grad is not None}
    pair.paddle.clear_gradients()
    shown = {f"output {place}": array_of(output.detach()) for place, output in enumerate(outputs)}
    return Result({**shown, "loss": array_of(loss)}, gradients)


def torch_step(pair: Pair) -> Result:
    """Forward and backward of the Torch half; names and layout are Paddle's."""
    outputs, loss = pair.module.torch_step(pair.torch, **torch_batch(pair.torch, pair.arrays))
    loss.backward()
    gradients = {}
    for name, parameter in pair.torch.named_parameters():
        if parameter.grad is not None:
            gradients[name] = array_of(parameter.grad.t() if name in pair.turned else parameter.grad).copy()
    pair.torch.zero_grad()
    shown = {f"output {place}": array_of(output) for place, output in enumerate(outputs)}
    return Result({**shown, "loss": array_of(loss)}, gradients)
