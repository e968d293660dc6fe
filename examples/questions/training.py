"""A small port that is trained: what the questions about optimizers have in common."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import torch

import padiff_shim


def mlp(nn: Any) -> Any:
    return nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4))


def trained(paddle_optimizer: Any, torch_optimizer: Any) -> padiff_shim.Proof:
    """Whether ten steps of a right port are the original's; the optimizers are functions of the model."""
    torch.manual_seed(0)
    x, label = np.random.default_rng(0).standard_normal((8, 16)), np.arange(8) % 4
    losses = (
        lambda out: paddle.nn.functional.cross_entropy(out, paddle.to_tensor(label)),
        lambda out: torch.nn.functional.cross_entropy(out, torch.from_numpy(label)),
    )
    both = paddle_optimizer, torch_optimizer
    return padiff_shim.prove(mlp(paddle.nn), mlp(torch.nn), x, loss=losses, phase="train", optimizer=both, steps=10)
