"""A small model and its training, for tests of compare mode."""

import numpy as np
import paddle
from paddle.nn import functional as F


def randn(*shape, grad=True, seed=0, dtype="float32"):
    values = np.random.default_rng(seed).standard_normal(shape).astype(dtype)
    return paddle.to_tensor(values, stop_gradient=not grad)


class Block(paddle.nn.Layer):
    """Two Linears, a LayerNorm and a residual."""

    def __init__(self, width=16):
        super().__init__()
        self.norm = paddle.nn.LayerNorm(width)
        self.up = paddle.nn.Linear(width, 2 * width)
        self.down = paddle.nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


def model(blocks=2):
    paddle.seed(1)
    return paddle.nn.Sequential(*[Block() for _ in range(blocks)])


def train(net, optimizer, steps=3):
    losses = []
    for _step in range(steps):
        x = paddle.rand([4, 16])
        loss = F.dropout(net(x), 0.2).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(loss)
    return losses
