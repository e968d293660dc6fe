"""Grouped-query attention with rotary positions in a sliding window (Jiang et al., 2023), ported to Paddle."""

import paddle
import paddle.nn.functional as F
from paddle import nn


class RMSNorm(nn.Layer):
    def __init__(self, d, epsilon=1e-5):
        super().__init__()
        self.weight = self.create_parameter([d], default_initializer=nn.initializer.Constant(1.0))
        self.epsilon = epsilon

    def forward(self, x):
        return x * paddle.rsqrt(paddle.mean(x * x, axis=-1, keepdim=True) + self.epsilon) * self.weight


def rotate_half(x):
    half = x.shape[-1] // 2
    return paddle.concat([-x[..., half:], x[..., :half]], axis=-1)


class Attention(nn.Layer):
    def __init__(self, d, heads, groups, window):
        super().__init__()
        self.heads, self.groups, self.size, self.window = heads, groups, d // heads, window
        self.q, self.o = nn.Linear(d, d, bias_attr=False), nn.Linear(d, d, bias_attr=False)
        self.k, self.v = (nn.Linear(d, groups * self.size, bias_attr=False) for _ in range(2))
        inverse = 1.0 / 10000.0 ** (paddle.arange(0, self.size, 2).astype("float32") / self.size)
        self.register_buffer("inverse", inverse, persistable=False)

    def forward(self, x):
        b, n, d = x.shape
        q = self.q(x).reshape([b, n, self.heads, self.size])
        k = self.k(x).reshape([b, n, self.groups, self.size])
        v = self.v(x).reshape([b, n, self.groups, self.size])
        angles = paddle.einsum("i,j->ij", paddle.arange(n).astype(self.inverse.dtype), self.inverse)
        angles = paddle.concat([angles, angles], axis=-1).unsqueeze(1)
        cos, sin = paddle.cos(angles), paddle.sin(angles)
        q = q * cos + rotate_half(q) * sin
        k = k * cos + rotate_half(k) * sin
        q = q.reshape([b, n, self.groups, self.heads // self.groups, self.size])
        scores = paddle.einsum("bqgrd,bkgd->bgrqk", q, k) * self.size**-0.5
        places = paddle.arange(n)
        apart = places.unsqueeze(1) - places.unsqueeze(0)
        allowed = paddle.logical_and(apart >= 0, apart < self.window)
        scores = scores + paddle.where(allowed, paddle.zeros([n, n]), paddle.full([n, n], -1e30))
        mixed = paddle.einsum("bgrqk,bkgd->bqgrd", F.softmax(scores, axis=-1), v)
        return self.o(mixed.reshape([b, n, d]))


class Decoder(nn.Layer):
    def __init__(self, words=30, d=16, heads=4, groups=2, window=3, layers=2):
        super().__init__()
        self.embed = nn.Embedding(words, d)
        self.layers = nn.LayerList()
        for _ in range(layers):
            layer = nn.LayerDict()
            layer["norm1"], layer["attention"] = RMSNorm(d), Attention(d, heads, groups, window)
            layer["norm2"], layer["gate"] = RMSNorm(d), nn.Linear(d, 2 * d, bias_attr=False)
            layer["up"], layer["down"] = nn.Linear(d, 2 * d, bias_attr=False), nn.Linear(2 * d, d, bias_attr=False)
            self.layers.append(layer)
        self.norm = RMSNorm(d)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = x + layer["attention"](layer["norm1"](x))
            h = layer["norm2"](x)
            x = x + layer["down"](F.silu(layer["gate"](h)) * layer["up"](h))
        return paddle.matmul(self.norm(x), self.embed.weight, transpose_y=True)
