"""Top-2 routing with a capacity and a balancing loss (Lepikhin et al., 2021), ported to Paddle."""

import paddle
import paddle.nn.functional as F
from paddle import nn


class Experts(nn.Layer):
    def __init__(self, d=8, inner=12, experts=4, capacity=4, k=2):
        super().__init__()
        self.experts, self.capacity, self.k = experts, capacity, k
        self.router = nn.Linear(d, experts, bias_attr=False)
        self.w1, self.b1 = self.create_parameter([experts, d, inner]), self.create_parameter([experts, 1, inner], is_bias=True)
        self.w2, self.b2 = self.create_parameter([experts, inner, d]), self.create_parameter([experts, 1, d], is_bias=True)

    def forward(self, x):
        d = x.shape[-1]
        tokens = paddle.reshape(x, [-1, d])
        gates = F.softmax(self.router(tokens))
        weights, chosen = paddle.topk(gates, self.k, axis=-1)
        weights = weights / (weights.sum(axis=-1, keepdim=True) + 1e-9)
        flat = chosen.transpose([1, 0]).flatten()
        taken = F.one_hot(flat, self.experts).astype("int64")
        place = ((paddle.cumsum(taken, axis=0) - 1) * taken).sum(-1)
        fitting = paddle.nonzero(place < self.capacity).flatten()
        token = paddle.gather(paddle.tile(paddle.arange(tokens.shape[0]), [self.k]), fitting)
        slot = paddle.gather(flat * self.capacity + place, fitting)
        buffer = paddle.zeros([self.experts * self.capacity, d], dtype=x.dtype)
        buffer = paddle.scatter(buffer, slot, paddle.gather(tokens, token), overwrite=False)
        hidden = paddle.einsum("ecd,edh->ech", buffer.reshape([self.experts, self.capacity, d]), self.w1)
        made = paddle.einsum("ech,ehd->ecd", F.relu(hidden + self.b1), self.w2) + self.b2
        made = paddle.gather(made.reshape([-1, d]), slot)
        scale = paddle.gather(weights.transpose([1, 0]).flatten(), fitting)
        out = paddle.index_add(paddle.zeros_like(tokens), token, 0, made * scale.unsqueeze(-1))
        share = F.one_hot(chosen[:, 0], self.experts).mean(axis=0)
        balance = self.experts * paddle.sum(share * gates.mean(axis=0))
        return out.reshape(x.shape), balance
