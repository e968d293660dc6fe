"""Latents that read an array by cross-attention again and again with one set of weights (Jaegle et al., 2021), in Torch."""

import math

import torch
import torch.nn.functional as F
from torch import nn


def fourier(n, bands, top):
    at = torch.linspace(-1.0, 1.0, n)
    scales = torch.linspace(1.0, top / 2, bands)
    angles = at[:, None] * scales[None] * math.pi
    return torch.cat([angles.sin(), angles.cos(), at[:, None]], dim=-1)


class Attention(nn.Module):
    def __init__(self, d, other, heads, size):
        super().__init__()
        self.heads, self.scale = heads, size**-0.5
        self.q, self.kv = nn.Linear(d, heads * size, bias=False), nn.Linear(other, 2 * heads * size, bias=False)
        self.out = nn.Linear(heads * size, d)

    def forward(self, x, context):
        q, (k, v) = self.q(x), self.kv(context).chunk(2, dim=-1)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in (q, k, v))
        weights = torch.einsum("bhid,bhjd->bhij", q, k).mul(self.scale).softmax(-1)
        return self.out(torch.einsum("bhij,bhjd->bhid", weights, v).transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(2 * d, d)

    def forward(self, x):
        x, gate = self.up(x).chunk(2, dim=-1)
        return self.down(x * F.gelu(gate))


class Perceiver(nn.Module):
    def __init__(self, channels=3, n=12, bands=3, latents=5, d=8, heads=2, depth=2):
        super().__init__()
        self.depth = depth
        self.register_buffer("places", fourier(n, bands, 10.0))
        self.latents = nn.Parameter(torch.randn(latents, d))
        whole = channels + 2 * bands + 1
        self.norm_context, self.norm_latents = nn.LayerNorm(whole), nn.LayerNorm(d)
        self.cross, self.cross_ff, self.norm_cross = Attention(d, whole, 1, 4), FeedForward(d), nn.LayerNorm(d)
        self.self_attention, self.self_ff = Attention(d, d, heads, 4), FeedForward(d)
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.head = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 4))

    def forward(self, data):
        b = data.shape[0]
        context = self.norm_context(torch.cat([data, self.places.expand(b, -1, -1)], dim=-1))
        x = self.latents.repeat(b, 1, 1)
        for _ in range(self.depth):
            x = self.cross(self.norm_latents(x), context) + x
            x = self.cross_ff(self.norm_cross(x)) + x
            h = self.norm1(x)
            x = self.self_attention(h, h) + x
            x = self.self_ff(self.norm2(x)) + x
        return self.head(x.mean(dim=1))
