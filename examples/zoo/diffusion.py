"""The U-Net of a diffusion model (Ho et al., 2020): embedded time steps in every block, attention in the middle."""

import math

import paddle
import paddle.nn as pnn
import paddle.nn.functional as PF
import torch
import torch.nn as tnn
import torch.nn.functional as TF

D, TIME, GROUPS, SIDE = 16, 32, 4, 8


class PaddleBlock(pnn.Layer):
    def __init__(self, channels, width):
        super().__init__()
        self.norm1, self.norm2 = pnn.GroupNorm(GROUPS, channels), pnn.GroupNorm(GROUPS, width)
        self.conv1, self.conv2 = pnn.Conv2D(channels, width, 3, padding=1), pnn.Conv2D(width, width, 3, padding=1)
        self.time = pnn.Linear(TIME, width)
        self.shortcut = pnn.Conv2D(channels, width, 1) if channels != width else None

    def forward(self, x, time):
        y = self.conv1(PF.silu(self.norm1(x))) + self.time(PF.silu(time)).unsqueeze(-1).unsqueeze(-1)
        return (x if self.shortcut is None else self.shortcut(x)) + self.conv2(PF.silu(self.norm2(y)))


class PaddleAttention(pnn.Layer):
    def __init__(self, width):
        super().__init__()
        self.norm = pnn.GroupNorm(GROUPS, width, epsilon=1e-6)
        self.qkv, self.out = pnn.Conv2D(width, 3 * width, 1), pnn.Conv2D(width, width, 1)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).flatten(2).chunk(3, axis=1)
        weights = PF.softmax(paddle.matmul(q, k, transpose_x=True) * x.shape[1] ** -0.5, axis=-1)
        return x + self.out(paddle.matmul(v, weights, transpose_y=True).reshape(x.shape))


class PaddleDiffusion(pnn.Layer):
    def __init__(self):
        super().__init__()
        self.time = pnn.Sequential(pnn.Linear(D, TIME), pnn.Silu(), pnn.Linear(TIME, TIME))
        self.stem, self.head = pnn.Conv2D(3, D, 3, padding=1), pnn.Conv2D(D, 3, 3, padding=1)
        self.down, self.narrow = PaddleBlock(D, D), pnn.Conv2D(D, 2 * D, 3, 2, 1)
        self.middle, self.attention = PaddleBlock(2 * D, 2 * D), PaddleAttention(2 * D)
        self.up = PaddleBlock(3 * D, D)

    def forward(self, x, steps):
        rates = paddle.exp(-math.log(10000.0) * paddle.arange(D // 2, dtype="float32") / (D // 2))
        angles = steps.astype("float32").unsqueeze(-1) * rates
        time = self.time(paddle.concat([paddle.cos(angles), paddle.sin(angles)], axis=-1))
        first = self.down(self.stem(x), time)
        x = self.attention(self.middle(self.narrow(first), time))
        x = PF.interpolate(x, scale_factor=2, mode="nearest")
        return self.head(self.up(paddle.concat([x, first], axis=1), time))


class TorchBlock(tnn.Module):
    def __init__(self, channels, width):
        super().__init__()
        self.norm1, self.norm2 = tnn.GroupNorm(GROUPS, channels), tnn.GroupNorm(GROUPS, width)
        self.conv1, self.conv2 = tnn.Conv2d(channels, width, 3, padding=1), tnn.Conv2d(width, width, 3, padding=1)
        self.time = tnn.Linear(TIME, width)
        self.shortcut = tnn.Conv2d(channels, width, 1) if channels != width else None

    def forward(self, x, time):
        y = self.conv1(TF.silu(self.norm1(x))) + self.time(TF.silu(time))[:, :, None, None]
        return (x if self.shortcut is None else self.shortcut(x)) + self.conv2(TF.silu(self.norm2(y)))


class TorchAttention(tnn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = tnn.GroupNorm(GROUPS, width, eps=1e-6)
        self.qkv, self.out = tnn.Conv2d(width, 3 * width, 1), tnn.Conv2d(width, width, 1)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).flatten(2).chunk(3, dim=1)
        weights = TF.softmax(torch.matmul(q.mT, k) * x.shape[1] ** -0.5, dim=-1)
        return x + self.out(torch.matmul(v, weights.mT).reshape(x.shape))


class TorchDiffusion(tnn.Module):
    def __init__(self):
        super().__init__()
        self.time = tnn.Sequential(tnn.Linear(D, TIME), tnn.SiLU(), tnn.Linear(TIME, TIME))
        self.stem, self.head = tnn.Conv2d(3, D, 3, padding=1), tnn.Conv2d(D, 3, 3, padding=1)
        self.down, self.narrow = TorchBlock(D, D), tnn.Conv2d(D, 2 * D, 3, 2, 1)
        self.middle, self.attention = TorchBlock(2 * D, 2 * D), TorchAttention(2 * D)
        self.up = TorchBlock(3 * D, D)

    def forward(self, x, steps):
        rates = torch.exp(-math.log(10000.0) * torch.arange(D // 2, dtype=torch.float32) / (D // 2))
        angles = steps.float().unsqueeze(-1) * rates
        time = self.time(torch.cat([torch.cos(angles), torch.sin(angles)], dim=-1))
        first = self.down(self.stem(x), time)
        x = self.attention(self.middle(self.narrow(first), time))
        x = TF.interpolate(x, scale_factor=2, mode="nearest")
        return self.head(self.up(torch.cat([x, first], dim=1), time))


paddle_model, torch_model = PaddleDiffusion, TorchDiffusion


def batch(rng):
    return {"images": rng.standard_normal((2, 3, SIDE, SIDE)), "steps": rng.integers(0, 1000, 2)}
