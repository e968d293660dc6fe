"""A denoiser with timestep embeddings and adaptive group norm (Dhariwal and Nichol, 2021), ported to Paddle."""

import math

import paddle
import paddle.nn.functional as F
from paddle import nn


def embedding(steps, d):
    half = d // 2
    freqs = paddle.exp(paddle.arange(half, dtype="float32") * (-math.log(10000) / half))
    angles = steps.unsqueeze(-1).astype(freqs.dtype) * freqs.unsqueeze(0)
    return paddle.concat([paddle.cos(angles), paddle.sin(angles)], axis=-1)


class ResBlock(nn.Layer):
    def __init__(self, inner, out, time, groups=4):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(groups, inner), nn.Conv2D(inner, out, 3, padding=1)
        self.time = nn.Sequential(nn.Silu(), nn.Linear(time, 2 * out))
        self.norm2, self.conv2 = nn.GroupNorm(groups, out), nn.Conv2D(out, out, 3, padding=1)
        self.skip = nn.Conv2D(inner, out, 1) if inner != out else nn.Identity()

    def forward(self, x, time):
        h = self.conv1(F.silu(self.norm1(x)))
        scale, shift = paddle.chunk(self.time(time).unsqueeze([-1, -2]), 2, axis=1)
        h = self.norm2(h) * (scale + 1) + shift
        h = self.conv2(F.silu(h))
        return (self.skip(x) + h) * (1 / math.sqrt(2))


class Denoiser(nn.Layer):
    def __init__(self, c=8, time=16):
        super().__init__()
        self.c = c
        self.time = nn.Sequential(nn.Linear(c, time), nn.Silu(), nn.Linear(time, time))
        self.stem, self.out = nn.Conv2D(3, c, 3, padding=1), nn.Conv2D(c, 3, 3, padding=1)
        self.down1, self.pool = ResBlock(c, c, time), nn.Conv2D(c, c, 3, stride=2, padding=1)
        self.down2, self.middle = ResBlock(c, 2 * c, time), ResBlock(2 * c, 2 * c, time)
        self.up1, self.up2 = ResBlock(4 * c, c, time), ResBlock(2 * c, c, time)
        self.norm = nn.GroupNorm(4, c)

    def forward(self, x, steps):
        time = self.time(embedding(steps, self.c))
        hidden = [self.stem(x)]
        hidden.append(self.down1(hidden[-1], time))
        hidden.append(self.down2(self.pool(hidden[-1]), time))
        h = self.middle(hidden[-1], time)
        h = self.up1(paddle.concat([h, hidden.pop()], axis=1), time)
        h = F.interpolate(h, scale_factor=2, mode="nearest")
        h = self.up2(paddle.concat([h, hidden.pop()], axis=1), time)
        return self.out(F.silu(self.norm(h)))
