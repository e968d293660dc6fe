"""Grouped-query attention with rotary positions in a sliding window (Jiang et al., 2023), in Torch."""

import torch
import torch.nn.functional as F
from torch import nn


class RMSNorm(nn.Module):
    def __init__(self, d, eps=1e-5):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(d) + 0.1 * torch.randn(d)), eps

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps))


def rotate_half(x):
    first, second = x.chunk(2, dim=-1)
    return torch.cat([-second, first], dim=-1)


class Attention(nn.Module):
    def __init__(self, d, heads, groups, window):
        super().__init__()
        self.heads, self.groups, self.size, self.window = heads, groups, d // heads, window
        self.q, self.o = nn.Linear(d, d, bias=False), nn.Linear(d, d, bias=False)
        self.k, self.v = (nn.Linear(d, groups * self.size, bias=False) for _ in range(2))
        self.register_buffer("inverse", 10000.0 ** (-torch.arange(0, self.size, 2).float() / self.size), persistent=False)

    def forward(self, x):
        b, n, _ = x.shape
        q = self.q(x).view(b, n, self.heads, self.size).transpose(1, 2)
        k = self.k(x).view(b, n, self.groups, self.size).transpose(1, 2)
        v = self.v(x).view(b, n, self.groups, self.size).transpose(1, 2)
        angles = torch.outer(torch.arange(n, dtype=self.inverse.dtype), self.inverse)
        angles = torch.cat([angles, angles], dim=-1)
        cos, sin = angles.cos(), angles.sin()
        q, k = q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin
        k = k.repeat_interleave(self.heads // self.groups, dim=1)
        v = v.repeat_interleave(self.heads // self.groups, dim=1)
        scores = torch.matmul(q, k.transpose(2, 3)) / self.size**0.5
        rows, columns = torch.arange(n)[:, None], torch.arange(n)[None, :]
        allowed = (columns <= rows) & (rows - columns < self.window)
        scores = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)
        mixed = torch.matmul(F.softmax(scores, dim=-1), v)
        return self.o(mixed.transpose(1, 2).reshape(b, n, -1))


class Decoder(nn.Module):
    def __init__(self, words=30, d=16, heads=4, groups=2, window=3, layers=2):
        super().__init__()
        self.embed = nn.Embedding(words, d)
        self.layers = nn.ModuleList(
            nn.ModuleDict({
                "norm1": RMSNorm(d), "attention": Attention(d, heads, groups, window), "norm2": RMSNorm(d),
                "gate": nn.Linear(d, 2 * d, bias=False), "up": nn.Linear(d, 2 * d, bias=False),
                "down": nn.Linear(2 * d, d, bias=False),
            }) for _ in range(layers)
        )  # fmt: skip
        self.norm, self.head = RMSNorm(d), nn.Linear(d, words, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = x + layer["attention"](layer["norm1"](x))
            h = layer["norm2"](x)
            x = x + layer["down"](F.silu(layer["gate"](h)) * layer["up"](h))
        return self.head(self.norm(x))
