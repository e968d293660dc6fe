"""Shifted-window attention (Liu et al., 2021), in Torch."""

import torch
import torch.nn.functional as F
from torch import nn


def windows(x, size):
    b, h, w, c = x.shape
    x = x.view(b, h // size, size, w // size, size, c)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, size * size, c)


class Block(nn.Module):
    def __init__(self, d, heads, side, size, shift):
        super().__init__()
        self.heads, self.size, self.shift, self.scale = heads, size, shift, (d // heads) ** -0.5
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.fc1, self.fc2 = nn.Linear(d, 2 * d), nn.Linear(2 * d, d)
        self.table = nn.Parameter(torch.randn((2 * size - 1) ** 2, heads) * 0.2)
        at = torch.stack(torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")).flatten(1)
        apart = (at[:, :, None] - at[:, None, :]).permute(1, 2, 0) + size - 1
        self.register_buffer("index", apart[:, :, 0] * (2 * size - 1) + apart[:, :, 1])
        if shift:
            image, number = torch.zeros(1, side, side, 1), 0
            parts = (slice(0, -size), slice(-size, -shift), slice(-shift, None))
            for rows in parts:
                for columns in parts:
                    image[:, rows, columns] = number
                    number += 1
            areas = windows(image, size).squeeze(-1)
            mask = areas.unsqueeze(1) - areas.unsqueeze(2)
            self.register_buffer("mask", mask.masked_fill(mask != 0, -100.0).masked_fill(mask == 0, 0.0))

    def forward(self, x):
        b, h, w, c = x.shape
        y = self.norm1(x)
        if self.shift:
            y = torch.roll(y, (-self.shift, -self.shift), (1, 2))
        y = windows(y, self.size)
        count, n, _ = y.shape
        q, k, v = self.qkv(y).reshape(count, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = (q * self.scale) @ k.transpose(-2, -1)
        scores = scores + self.table[self.index.view(-1)].view(n, n, -1).permute(2, 0, 1)
        if self.shift:
            scores = scores.view(b, -1, self.heads, n, n) + self.mask[:, None]
            scores = scores.view(-1, self.heads, n, n)
        y = self.proj((scores.softmax(-1) @ v).transpose(1, 2).reshape(count, n, c))
        y = y.view(b, h // self.size, w // self.size, self.size, self.size, c).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)
        if self.shift:
            y = torch.roll(y, (self.shift, self.shift), (1, 2))
        x = x + y
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class Swin(nn.Module):
    def __init__(self, d=8, heads=2, side=8, size=4):
        super().__init__()
        self.patch = nn.Conv2d(3, d, 2, stride=2)
        self.blocks = nn.ModuleList([Block(d, heads, side, size, 0), Block(d, heads, side, size, size // 2)])
        self.merge_norm, self.merge = nn.LayerNorm(4 * d), nn.Linear(4 * d, 2 * d, bias=False)

    def forward(self, x):
        x = self.patch(x).permute(0, 2, 3, 1)
        for block in self.blocks:
            x = block(x)
        x = torch.cat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], -1)
        return self.merge(self.merge_norm(x))
