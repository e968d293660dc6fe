"""Relative attention as in Transformer-XL (Dai et al., 2019), ported to Paddle as somebody would who reads the original."""

import paddle
import paddle.nn.functional as F
from paddle import nn


class RelAttention(nn.Layer):
    def __init__(self, d=16, heads=4):
        super().__init__()
        self.heads, self.size = heads, d // heads
        self.qkv = nn.Linear(d, 3 * d, bias_attr=False)
        self.r = nn.Linear(d, d, bias_attr=False)
        self.u, self.v = self.create_parameter([heads, d // heads]), self.create_parameter([heads, d // heads])
        self.out, self.norm = nn.Linear(d, d, bias_attr=False), nn.LayerNorm(d)

    def shift(self, x):
        b, h, q, k = x.shape
        x = paddle.concat([paddle.zeros([b, h, q, 1], dtype=x.dtype), x], axis=-1)
        return x.reshape([b, h, k + 1, q])[:, :, 1:].reshape([b, h, q, k])

    def forward(self, x, memory):
        b, length, d = x.shape
        both = paddle.concat([memory, x], axis=1)
        total = both.shape[1]
        q, k, v = self.qkv(both).reshape([b, total, 3, self.heads, self.size]).transpose([2, 0, 3, 1, 4])
        q = q[:, :, -length:]
        places = paddle.arange(total - 1, -1, -1, dtype=x.dtype)
        inverse = 1 / 10000 ** (paddle.arange(0, d, 2, dtype=x.dtype) / d)
        angles = places.unsqueeze(1) * inverse.unsqueeze(0)
        r = (
            self.r(paddle.concat([angles.sin(), angles.cos()], axis=-1))
            .reshape([total, self.heads, self.size])
            .transpose([1, 0, 2])
        )
        content = paddle.matmul(q + self.u.unsqueeze(1), k.transpose([0, 1, 3, 2]))
        position = self.shift(paddle.matmul(q + self.v.unsqueeze(1), r.transpose([0, 2, 1])))
        scores = (content + position) * self.size**-0.5
        mask = paddle.triu(paddle.ones([length, total]), 1 + total - length).astype("bool")
        scores = paddle.where(mask, paddle.full_like(scores, float("-inf")), scores)
        weights = F.softmax(scores, axis=-1)
        mixed = paddle.matmul(weights, v).transpose([0, 2, 1, 3]).reshape([b, length, d])
        return self.norm(x + self.out(mixed))
