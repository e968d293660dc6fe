"""Experts chosen by a router, ported to Paddle as somebody would who reads the original."""

import paddle
import paddle.nn.functional as F
from paddle import nn


class Expert(nn.Layer):
    def __init__(self, d, inner):
        super().__init__()
        self.up, self.gate, self.down = nn.Linear(d, inner), nn.Linear(d, inner), nn.Linear(inner, d)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class MoE(nn.Layer):
    def __init__(self, d=12, inner=16, experts=4, k=2):
        super().__init__()
        self.k = k
        self.norm = nn.LayerNorm(d)
        self.router = nn.Linear(d, experts, bias_attr=False)
        self.experts = nn.LayerList([Expert(d, inner) for _ in range(experts)])

    def forward(self, x):
        flat = self.norm(x).reshape([-1, x.shape[-1]])
        weights, chosen = paddle.topk(F.softmax(self.router(flat), axis=-1), self.k, axis=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        out = paddle.zeros_like(flat)
        for number, expert in enumerate(self.experts):
            rows, place = paddle.nonzero(chosen == number, as_tuple=True)
            rows, place = rows.flatten(), place.flatten()
            if rows.shape[0]:
                out = paddle.index_add(out, rows, 0, expert(flat[rows]) * weights[rows, place].unsqueeze(-1))
        return x + out.reshape(x.shape)
