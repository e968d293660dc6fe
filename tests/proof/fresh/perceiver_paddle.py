"""Latents that read an array by cross-attention again and again (Jaegle et al., 2021), ported to Paddle."""

import math

import paddle
import paddle.nn.functional as F
from paddle import nn


def fourier(n, bands, top):
    at = paddle.linspace(-1.0, 1.0, n).unsqueeze(-1)
    scales = paddle.linspace(1.0, top / 2, bands)
    angles = at * scales * math.pi
    return paddle.concat([paddle.sin(angles), paddle.cos(angles), at], axis=-1)


class Attention(nn.Layer):
    def __init__(self, d, other, heads, size):
        super().__init__()
        self.heads, self.size = heads, size
        self.q = nn.Linear(d, heads * size, bias_attr=False)
        self.kv = nn.Linear(other, 2 * heads * size, bias_attr=False)
        self.out = nn.Linear(heads * size, d)

    def forward(self, x, context):
        k, v = self.kv(context).chunk(2, axis=-1)
        q, k, v = (part.reshape([*part.shape[:2], self.heads, self.size]).transpose([0, 2, 1, 3]) for part in (self.q(x), k, v))
        scores = paddle.matmul(q, k.transpose([0, 1, 3, 2])) * self.size**-0.5
        mixed = paddle.matmul(F.softmax(scores, axis=-1), v)
        return self.out(mixed.transpose([0, 2, 1, 3]).flatten(2))


class FeedForward(nn.Layer):
    def __init__(self, d):
        super().__init__()
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(2 * d, d)

    def forward(self, x):
        x, gate = self.up(x).chunk(2, axis=-1)
        return self.down(x * F.gelu(gate))


class Perceiver(nn.Layer):
    def __init__(self, channels=3, n=12, bands=3, latents=5, d=8, heads=2, depth=2):
        super().__init__()
        self.depth = depth
        self.register_buffer("places", fourier(n, bands, 10.0))
        self.latents = self.create_parameter([latents, d], default_initializer=nn.initializer.Normal())
        whole = channels + 2 * bands + 1
        self.norm_context, self.norm_latents = nn.LayerNorm(whole), nn.LayerNorm(d)
        self.cross, self.cross_ff, self.norm_cross = Attention(d, whole, 1, 4), FeedForward(d), nn.LayerNorm(d)
        self.self_attention, self.self_ff = Attention(d, d, heads, 4), FeedForward(d)
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.head = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 4))

    def forward(self, data):
        b, n = data.shape[:2]
        context = self.norm_context(paddle.concat([data, self.places.unsqueeze(0).expand([b, n, -1])], axis=-1))
        x = paddle.tile(self.latents, [b, 1, 1])
        for _ in range(self.depth):
            x = x + self.cross(self.norm_latents(x), context)
            x = x + self.cross_ff(self.norm_cross(x))
            h = self.norm1(x)
            x = x + self.self_attention(h, h)
            x = x + self.self_ff(self.norm2(x))
        return self.head(paddle.mean(x, axis=1))
