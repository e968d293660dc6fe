"""A right port with other bits than its original: the example of docs/prove.md."""

import numpy as np
import paddle
import paddle.nn.functional as F
import torch


class Port(paddle.nn.Layer):
    """Attention and a gated layer, each behind a norm."""

    def __init__(self):
        super().__init__()
        self.weight = self.create_parameter([24])
        self.norm = paddle.nn.LayerNorm(24)
        self.q, self.k, self.v = (paddle.nn.Linear(24, 24) for _ in range(3))
        self.gate, self.up, self.down = paddle.nn.Linear(24, 48), paddle.nn.Linear(24, 48), paddle.nn.Linear(48, 24)

    def forward(self, x):
        y = x / paddle.sqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        scores = paddle.matmul(self.q(y) * 24**-0.5, self.k(y), transpose_y=True)
        x = x + paddle.matmul(F.softmax(scores, -1), self.v(y))
        y = self.norm(x)
        gate = self.gate(y)
        return x + self.down(gate * F.sigmoid(gate) * self.up(y))


class Original(torch.nn.Module):
    """The same in Torch."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(24))
        self.norm = torch.nn.LayerNorm(24)
        self.q, self.k, self.v = (torch.nn.Linear(24, 24) for _ in range(3))
        self.gate, self.up, self.down = torch.nn.Linear(24, 48), torch.nn.Linear(24, 48), torch.nn.Linear(48, 24)

    def forward(self, x):
        y = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        scores = torch.matmul(self.q(y), self.k(y).mT) * 24**-0.5
        x = x + torch.matmul(torch.softmax(scores, -1), self.v(y))
        y = self.norm(x)
        return x + self.down(torch.nn.functional.silu(self.gate(y)) * self.up(y))


def batch():
    """Two sentences of nine words."""
    return np.random.default_rng(0).standard_normal((2, 9, 24)).astype("float32")
