import numpy as np
import paddle
import torch

from padiff_shim import prove
from questions import Question

QUESTION = Question(
    "PaddlePaddle/Paddle#45780",
    "Gradients cannot be aligned",
    "the first loss agrees, the second does not; from the fourth-last Linear on gradients part; weights and seeds are equal",
    "CODE_CORRECT",
    "If the port is right, all gradients are the original's bit for bit on the same kernels, as here: then there is no "
    "mistake to find.",
    ("CODE_CORRECT", "gradients identical bit for bit"),
)


def mlp(nn):
    layers = [layer for _ in range(7) for layer in (nn.Linear(64, 64), nn.LayerNorm(64), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(64, 10))


def ask():
    x, label = np.random.default_rng(0).standard_normal((32, 64)), np.arange(32) % 10
    losses = (
        lambda out: paddle.nn.functional.cross_entropy(out, paddle.to_tensor(label)),
        lambda out: torch.nn.functional.cross_entropy(out, torch.from_numpy(label)),
    )
    torch.manual_seed(0)
    return [prove(mlp(paddle.nn), mlp(torch.nn), x, loss=losses)]
