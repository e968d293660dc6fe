"""Shifted-window attention (Liu et al., 2021), ported to Paddle."""

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn


def windows(x, size):
    b, h, w, c = x.shape
    x = x.reshape([b, h // size, size, w // size, size, c])
    return x.transpose([0, 1, 3, 2, 4, 5]).reshape([-1, size * size, c])


class Block(nn.Layer):
    def __init__(self, d, heads, side, size, shift):
        super().__init__()
        self.heads, self.size, self.shift, self.scale = heads, size, shift, (d // heads) ** -0.5
        self.norm1, self.norm2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.fc1, self.fc2 = nn.Linear(d, 2 * d), nn.Linear(2 * d, d)
        self.table = self.create_parameter([(2 * size - 1) ** 2, heads])
        rows, columns = np.meshgrid(np.arange(size), np.arange(size), indexing="ij")
        rows, columns = rows.reshape(-1), columns.reshape(-1)
        index = (rows[:, None] - rows[None] + size - 1) * (2 * size - 1) + columns[:, None] - columns[None] + size - 1
        self.register_buffer("index", paddle.to_tensor(index))
        if shift:
            image, number = np.zeros((1, side, side, 1), "float32"), 0
            parts = (slice(0, -size), slice(-size, -shift), slice(-shift, None))
            for rows in parts:
                for columns in parts:
                    image[:, rows, columns] = number
                    number += 1
            areas = windows(paddle.to_tensor(image), size).squeeze(-1)
            mask = areas.unsqueeze(1) - areas.unsqueeze(2)
            self.register_buffer("mask", paddle.where(mask != 0, paddle.full_like(mask, -100.0), paddle.zeros_like(mask)))

    def forward(self, x):
        b, h, w, c = x.shape
        y = self.norm1(x)
        if self.shift:
            y = paddle.roll(y, shifts=(-self.shift, -self.shift), axis=(1, 2))
        y = windows(y, self.size)
        n = y.shape[1]
        q, k, v = self.qkv(y).reshape([-1, n, 3, self.heads, c // self.heads]).transpose([2, 0, 3, 1, 4]).unbind(0)
        scores = paddle.matmul(q * self.scale, k, transpose_y=True)
        bias = paddle.index_select(self.table, self.index.flatten(), axis=0).reshape([n, n, self.heads])
        scores = scores + bias.transpose([2, 0, 1]).unsqueeze(0)
        if self.shift:
            count = self.mask.shape[0]
            scores = scores.reshape([b, count, self.heads, n, n]) + self.mask.unsqueeze(1).unsqueeze(0)
            scores = scores.reshape([-1, self.heads, n, n])
        y = paddle.matmul(F.softmax(scores), v).transpose([0, 2, 1, 3]).reshape([-1, n, c])
        y = self.proj(y).reshape([b, h // self.size, w // self.size, self.size, self.size, c])
        y = y.transpose([0, 1, 3, 2, 4, 5]).reshape([b, h, w, c])
        if self.shift:
            y = paddle.roll(y, shifts=(self.shift, self.shift), axis=(1, 2))
        x = x + y
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class Swin(nn.Layer):
    def __init__(self, d=8, heads=2, side=8, size=4):
        super().__init__()
        self.patch = nn.Conv2D(3, d, 2, stride=2)
        self.blocks = nn.LayerList([Block(d, heads, side, size, 0), Block(d, heads, side, size, size // 2)])
        self.merge_norm, self.merge = nn.LayerNorm(4 * d), nn.Linear(4 * d, 2 * d, bias_attr=False)

    def forward(self, x):
        x = self.patch(x).transpose([0, 2, 3, 1])
        for block in self.blocks:
            x = block(x)
        parts = [x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]]
        return self.merge(self.merge_norm(paddle.concat(parts, axis=-1)))
