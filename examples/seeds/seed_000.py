"""Report 000, in float64: division by np.sqrt(80), sinusoidal positions, and a 48-layer CTRL."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import paddle
import torch

from .compare import Case
from .config import Ctrl
from .ctrl_paddle import CtrlPaddle
from .ctrl_torch import CtrlTorch, positional_encoding
from .weights import Draw, build_twins, small_random, trained_like

FORMULA = "the two formulas round differently: a difference of the programs, not of the kernels"


def division(shape: tuple = (10, 1024), seed: int = 0) -> Case:
    """Tensor by scalar, as reported, and the other operators in which Paddle may round the scalar to float32."""
    inputs, scale = np.random.default_rng(seed).normal(size=shape), np.sqrt(80)

    def compute(x, scale_tensor, magnitude, note):
        note("x / np.sqrt(80)", x / scale)
        note("x / to_tensor(np.sqrt(80))", x / scale_tensor)
        note("np.sqrt(80) / x", float(scale) / x)
        note("x + np.sqrt(80)", x + scale)
        note("x - np.sqrt(80)", x - scale)
        note("x * np.sqrt(80)", x * scale)
        note("abs(x) ** np.sqrt(80)", magnitude**scale)

    def in_paddle(steps):
        x = paddle.to_tensor(inputs)
        compute(x, paddle.to_tensor(scale, dtype="float64"), paddle.abs(x), steps.note)

    def in_torch(steps):
        x = torch.from_numpy(inputs)
        compute(x, torch.tensor(scale, dtype=torch.float64), torch.abs(x), steps.note)

    return Case(in_paddle, in_torch)


def positions(count: int = 512, width: int = 64, looked_up: int = 500) -> Case:
    """Paddle's formula for the position table, step by step in both frameworks; then the tables that the report compared."""

    def in_paddle(steps):
        position = paddle.arange(0, count, dtype="float64").unsqueeze(1)
        index = paddle.arange(0, width // 2, dtype="float64").unsqueeze(0)
        exponent = steps.note("-2 * indices / dim", -2 * index / width)
        rate = steps.note("10000.0 ** (...)", 10000.0**exponent)
        angle = steps.note("matmul(position_ids, ...)", paddle.matmul(position, rate))
        sine, cosine = steps.note("sin", paddle.sin(angle)), steps.note("cos", paddle.cos(angle))
        ids = paddle.arange(looked_up)
        steps.note("table of each framework", embed(ids, paddle.concat([sine, cosine], axis=-1)))
        copied = paddle.to_tensor(positional_encoding(count, width, torch.float64).numpy())
        steps.note("table copied from Torch", embed(ids, copied))

    def in_torch(steps):
        position = torch.arange(0, count, dtype=torch.float64).unsqueeze(1)
        index = torch.arange(0, width // 2, dtype=torch.float64).unsqueeze(0)
        exponent = steps.note("-2 * indices / dim", -2 * index / width)
        rate = steps.note("10000.0 ** (...)", 10000.0**exponent)
        angle = steps.note("matmul(position_ids, ...)", torch.matmul(position, rate))
        steps.note("sin", torch.sin(angle))
        steps.note("cos", torch.cos(angle))
        table = positional_encoding(count, width, torch.float64)
        steps.note("table of each framework", table[:looked_up])
        steps.note("table copied from Torch", table[:looked_up])

    aside = {"table of each framework": FORMULA}
    return Case(in_paddle, in_torch, aside)


def embed(ids, table):
    """Look up rows, as nn.Embedding does."""
    return paddle.nn.functional.embedding(ids, table)


def ctrl(draw: Draw, dtype: str, config: Ctrl, shape: tuple = (2, 64), seed: int = 0) -> Case:
    """A forward pass of CTRL over a batch, the last sequence of which is padded at its end."""
    table = positional_encoding(config.positions, config.width, getattr(torch, dtype)).numpy()
    model, twin = build_twins(lambda: CtrlPaddle(config, table), lambda: CtrlTorch(config), draw, dtype, seed)
    ids = np.random.default_rng(seed).integers(0, config.vocabulary, shape)
    present = np.ones(shape, dtype="int64")
    present[-1, -(shape[1] // 4) :] = 0

    def in_paddle(steps):
        with paddle.no_grad():
            model(paddle.to_tensor(ids), paddle.to_tensor(present), steps.note)

    def in_torch(steps):
        with torch.no_grad():
            twin(torch.from_numpy(ids), torch.from_numpy(present), steps.note)

    return Case(in_paddle, in_torch)


def ctrl_cases(seed: str, dtype: str, config: Ctrl) -> dict[str, Callable[[], Case]]:
    """The model with both kinds of weights."""
    draws = {"random": small_random, "trained-like": trained_like}
    return {f"{seed}: CTRL-{config.layers}, {name}, {dtype}": partial(ctrl, draw, dtype, config) for name, draw in draws.items()}


def cases(config: Ctrl | None = None) -> dict[str, Callable[[], Case]]:
    """All of this report by title, each built when called."""
    return {
        "000: division by np.sqrt(80), float64": division,
        "000: positional encoding, float64": positions,
        **ctrl_cases("000", "float64", config or Ctrl()),
    }
