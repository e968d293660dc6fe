"""A denoiser with timestep embeddings and adaptive group norm (Dhariwal and Nichol, 2021), in Torch."""

import math

import torch
import torch.nn.functional as F
from torch import nn


def embedding(steps, d):
    half = d // 2
    freqs = torch.exp(-math.log(10000) * torch.arange(half, dtype=torch.float32) / half)
    angles = steps[:, None].to(freqs.dtype) * freqs[None]
    return torch.cat([torch.cos(angles), torch.sin(angles)], dim=-1)


class ResBlock(nn.Module):
    def __init__(self, inner, out, time, groups=4):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(groups, inner), nn.Conv2d(inner, out, 3, padding=1)
        self.time = nn.Sequential(nn.SiLU(), nn.Linear(time, 2 * out))
        self.norm2, self.conv2 = nn.GroupNorm(groups, out), nn.Conv2d(out, out, 3, padding=1)
        self.skip = nn.Conv2d(inner, out, 1) if inner != out else nn.Identity()

    def forward(self, x, time):
        h = self.conv1(F.silu(self.norm1(x)))
        scale, shift = self.time(time)[:, :, None, None].chunk(2, dim=1)
        h = self.norm2(h) * (1 + scale) + shift
        return (self.skip(x) + self.conv2(F.silu(h))) / math.sqrt(2)


class Denoiser(nn.Module):
    def __init__(self, c=8, time=16):
        super().__init__()
        self.c = c
        self.time = nn.Sequential(nn.Linear(c, time), nn.SiLU(), nn.Linear(time, time))
        self.stem, self.out = nn.Conv2d(3, c, 3, padding=1), nn.Conv2d(c, 3, 3, padding=1)
        self.down1, self.pool = ResBlock(c, c, time), nn.Conv2d(c, c, 3, stride=2, padding=1)
        self.down2, self.middle = ResBlock(c, 2 * c, time), ResBlock(2 * c, 2 * c, time)
        self.up1, self.up2 = ResBlock(4 * c, c, time), ResBlock(2 * c, c, time)
        self.norm = nn.GroupNorm(4, c)

    def forward(self, x, steps):
        time = self.time(embedding(steps, self.c))
        x = self.stem(x)
        first = self.down1(x, time)
        two = self.down2(self.pool(first), time)
        h = self.middle(two, time)
        h = self.up1(torch.cat([h, two], dim=1), time)
        h = F.interpolate(h, scale_factor=2, mode="nearest")
        h = self.up2(torch.cat([h, first], dim=1), time)
        return self.out(F.silu(self.norm(h)))
