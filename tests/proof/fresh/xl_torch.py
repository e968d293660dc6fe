"""Relative attention as in Transformer-XL (Dai et al., 2019), in Torch."""

import torch
from torch import nn


class RelAttention(nn.Module):
    def __init__(self, d=16, heads=4):
        super().__init__()
        self.heads, self.size = heads, d // heads
        self.qkv = nn.Linear(d, 3 * d, bias=False)
        self.r = nn.Linear(d, d, bias=False)
        self.u, self.v = nn.Parameter(torch.randn(heads, d // heads)), nn.Parameter(torch.randn(heads, d // heads))
        self.out, self.norm = nn.Linear(d, d, bias=False), nn.LayerNorm(d)

    def shift(self, x):
        b, h, q, k = x.shape
        x = torch.cat([x.new_zeros(b, h, q, 1), x], dim=-1)
        return x.view(b, h, k + 1, q)[:, :, 1:].reshape(b, h, q, k)

    def forward(self, x, memory):
        b, length, d = x.shape
        both = torch.cat([memory, x], dim=1)
        total = both.shape[1]
        q, k, v = self.qkv(both).view(b, total, 3, self.heads, self.size).permute(2, 0, 3, 1, 4)
        q = q[:, :, -length:]
        places = torch.arange(total - 1, -1, -1, dtype=x.dtype)
        inverse = 1 / 10000 ** (torch.arange(0, d, 2, dtype=x.dtype) / d)
        angles = places[:, None] * inverse[None, :]
        r = self.r(torch.cat([angles.sin(), angles.cos()], dim=-1)).view(total, self.heads, self.size).permute(1, 0, 2)
        content = torch.matmul(q + self.u[:, None], k.transpose(-1, -2))
        position = self.shift(torch.matmul(q + self.v[:, None], r.transpose(-1, -2)))
        scores = (content + position) * self.size**-0.5
        mask = torch.ones(length, total, dtype=torch.bool).triu(1 + total - length)
        weights = scores.masked_fill(mask, float("-inf")).softmax(-1)
        mixed = torch.matmul(weights, v).transpose(1, 2).reshape(b, length, d)
        return self.norm(x + self.out(mixed))
