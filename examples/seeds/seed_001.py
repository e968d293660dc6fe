"""Report 001, in float32: matmul and nn.Linear at small and large variance, and the five functions that cured the model."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import paddle
import torch

from .compare import Case
from .reformer_paddle import len_and_dim_norm as paddle_len_and_dim_norm
from .reformer_torch import len_and_dim_norm as torch_len_and_dim_norm
from .weights import trained_like


def example_1(rows: int = 32, width: int = 768, seed: int = 1) -> Case:
    """The Linear of a trained model, as matmul and bias and as a layer."""
    rng = np.random.default_rng(seed)
    weight, bias = (
        trained_like("weight", (width, width), rng).astype("float32"),
        trained_like("bias", (width,), rng).astype("float32"),
    )
    inputs = rng.standard_t(3, (rows, width)).astype("float32")

    def in_paddle(steps):
        layer = paddle.nn.Linear(width, width)
        layer.weight.set_value(weight)
        layer.bias.set_value(bias)
        x = paddle.to_tensor(inputs)
        steps.note("matmul(x, weight) + bias", paddle.matmul(x, layer.weight) + layer.bias)
        steps.note("nn.Linear", layer(x))

    def in_torch(steps):
        layer = torch.nn.Linear(width, width)
        layer.load_state_dict({"weight": torch.tensor(np.ascontiguousarray(weight.T)), "bias": torch.from_numpy(bias)})
        x = torch.from_numpy(inputs)
        # The weight in Paddle's memory layout: BLAS may sum in another order where the layout differs.
        steps.note("matmul(x, weight) + bias", torch.matmul(x, layer.weight.t().contiguous()) + layer.bias)
        steps.note("nn.Linear", layer(x))

    return Case(in_paddle, in_torch)


def example_2_and_3(deviation: float, rows: int = 32, width: int = 768, seed: int = 2) -> Case:
    """matmul with transpose_y, everything drawn from N(0, deviation)."""
    rng = np.random.default_rng(seed)
    shapes = ((width, width), (width,), (rows, width))
    weight, bias, inputs = (rng.normal(0, deviation, shape).astype("float32") for shape in shapes)

    def in_paddle(steps):
        product = paddle.matmul(paddle.to_tensor(inputs), paddle.to_tensor(weight), transpose_y=True)
        steps.note("matmul(x, weight, transpose_y=True) + bias", product + paddle.to_tensor(bias))

    def in_torch(steps):
        # t() is what transpose_y means; a transposed copy, as in the report, is another memory layout.
        product = torch.matmul(torch.from_numpy(inputs), torch.from_numpy(weight).t())
        steps.note("matmul(x, weight, transpose_y=True) + bias", product + torch.from_numpy(bias))

    return Case(in_paddle, in_torch)


def torchlayernorm(x, weight, bias):
    """Layer normalization spelled out, in Torch."""
    u = x.mean(-1, keepdim=True)
    s = (x - u).pow(2).mean(-1, keepdim=True)
    return weight * ((x - u) / torch.sqrt(s + 1e-12)) + bias


def paddlelayernorm(x, weight, bias):
    """The same in Paddle."""
    u = x.mean(-1, keepdim=True)
    s = (x - u).pow(2).mean(-1, keepdim=True)
    return weight * ((x - u) / paddle.sqrt(s + 1e-12)) + bias


def five_functions(seed: int = 3) -> Case:
    """Each function with which the report replaced an op of Paddle's, beside the op itself."""
    rng = np.random.default_rng(seed)
    x, weight, bias = (rng.standard_t(3, shape).astype("float32") for shape in ((32, 768), (768,), (768,)))
    dense = trained_like("weight", (768, 768), rng).astype("float32")
    vectors = rng.standard_t(3, (2, 8, 32, 64)).astype("float32")
    scores = 10 * rng.standard_t(3, (2, 8, 32, 100)).astype("float32")

    def in_paddle(steps):
        row, gain, shift, matrix, heads, dots = map(paddle.to_tensor, (x, weight, bias, dense, vectors, scores))
        steps.note("torchlayernorm", paddlelayernorm(row, gain, shift))
        steps.note("torchlayernorm, as nn.LayerNorm", paddle.nn.functional.layer_norm(row, [768], gain, shift, 1e-12))
        steps.note("torchdense, with bias", paddle.matmul(row, matrix) + shift)
        steps.note("torchdense, without", paddle.matmul(row, matrix))
        steps.note("_len_and_dim_norm", paddle_len_and_dim_norm(heads, 64))
        steps.note("torchlogsumexp", paddle.logsumexp(dots, axis=-1, keepdim=True))
        steps.note("torchsum, axis -1", paddle.sum(row, axis=-1))
        steps.note("torchsum, axis 0", paddle.sum(row, axis=0))
        steps.note("torchsum, all", paddle.sum(row))

    def in_torch(steps):
        row, gain, shift, matrix, heads, dots = map(torch.from_numpy, (x, weight, bias, dense, vectors, scores))
        steps.note("torchlayernorm", torchlayernorm(row, gain, shift))
        steps.note("torchlayernorm, as nn.LayerNorm", torch.nn.functional.layer_norm(row, [768], gain, shift, 1e-12))
        steps.note("torchdense, with bias", torch.matmul(row, matrix) + shift)
        steps.note("torchdense, without", torch.matmul(row, matrix))
        steps.note("_len_and_dim_norm", torch_len_and_dim_norm(heads, 64))
        steps.note("torchlogsumexp", torch.logsumexp(dots, dim=-1, keepdim=True))
        steps.note("torchsum, axis -1", torch.sum(row, dim=-1))
        steps.note("torchsum, axis 0", torch.sum(row, dim=0))
        steps.note("torchsum, all", torch.sum(row))

    return Case(in_paddle, in_torch)


def cases() -> dict[str, Callable[[], Case]]:
    """All of this report by title, each built when called."""
    return {
        "001: example 1, trained-like": example_1,
        "001: example 2, N(0, 0.02)": partial(example_2_and_3, 0.02),
        "001: example 3, N(0, 1)": partial(example_2_and_3, 1),
        "001: the five functions": five_functions,
    }
