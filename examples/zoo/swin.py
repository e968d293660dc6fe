"""A stage of Swin (Liu et al., 2021): attention in windows, shifted by half a window in every other block, and merged patches."""

import paddle
import paddle.nn as pnn
import paddle.nn.functional as PF
import torch
import torch.nn as tnn
import torch.nn.functional as TF

SIDE, WINDOW, D, HEADS, CLASSES = 8, 4, 16, 2, 10


def pairs_of_places():
    """The row of the table of biases for each two places of a window."""
    places = torch.stack(torch.meshgrid(torch.arange(WINDOW), torch.arange(WINDOW), indexing="ij")).flatten(1)
    apart = places[:, :, None] - places[:, None] + WINDOW - 1
    return (apart[0] * (2 * WINDOW - 1) + apart[1]).flatten()


def mask_of_shift(shift):
    """-100 between places that only the shift brought into one window [windows, places, places]."""
    area = torch.zeros(SIDE, SIDE)
    parts = (slice(0, -WINDOW), slice(-WINDOW, -shift), slice(-shift, None))
    for number, (rows, columns) in enumerate((rows, columns) for rows in parts for columns in parts):
        area[rows, columns] = number
    cut = area.reshape(SIDE // WINDOW, WINDOW, SIDE // WINDOW, WINDOW).transpose(1, 2).reshape(-1, WINDOW**2)
    return (cut[:, None] != cut[:, :, None]) * -100.0


class PaddleBlock(pnn.Layer):
    def __init__(self, shift):
        super().__init__()
        self.shift = shift
        self.norm1, self.norm2 = pnn.LayerNorm(D), pnn.LayerNorm(D)
        self.qkv, self.out = pnn.Linear(D, 3 * D), pnn.Linear(D, D)
        self.up, self.down = pnn.Linear(D, 4 * D), pnn.Linear(4 * D, D)
        self.biases = self.create_parameter([(2 * WINDOW - 1) ** 2, HEADS], default_initializer=pnn.initializer.Normal(std=0.02))
        self.register_buffer("index", paddle.to_tensor(pairs_of_places().numpy()))
        self.register_buffer("mask", paddle.to_tensor(mask_of_shift(shift).numpy()) if shift else None)

    def attend(self, x):
        batch = x.shape[0]
        x = paddle.roll(x, [-self.shift, -self.shift], [1, 2]) if self.shift else x
        x = x.reshape([batch, SIDE // WINDOW, WINDOW, SIDE // WINDOW, WINDOW, D]).transpose([0, 1, 3, 2, 4, 5])
        qkv = self.qkv(x.reshape([-1, WINDOW**2, D])).reshape([-1, WINDOW**2, 3, HEADS, D // HEADS])
        q, k, v = qkv.transpose([2, 0, 3, 1, 4]).unbind(0)
        scores = paddle.matmul(q * (D // HEADS) ** -0.5, k.transpose([0, 1, 3, 2]))
        scores = scores + self.biases[self.index].reshape([WINDOW**2, WINDOW**2, HEADS]).transpose([2, 0, 1]).unsqueeze(0)
        if self.shift:
            scores = scores.reshape([batch, -1, HEADS, WINDOW**2, WINDOW**2]) + self.mask.unsqueeze(1).unsqueeze(0)
            scores = scores.reshape([-1, HEADS, WINDOW**2, WINDOW**2])
        x = self.out(paddle.matmul(PF.softmax(scores, axis=-1), v).transpose([0, 2, 1, 3]).reshape([-1, WINDOW**2, D]))
        x = x.reshape([batch, SIDE // WINDOW, SIDE // WINDOW, WINDOW, WINDOW, D]).transpose([0, 1, 3, 2, 4, 5])
        x = x.reshape([batch, SIDE, SIDE, D])
        return paddle.roll(x, [self.shift, self.shift], [1, 2]) if self.shift else x

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.down(PF.gelu(self.up(self.norm2(x))))


class PaddleSwin(pnn.Layer):
    def __init__(self):
        super().__init__()
        self.patches = pnn.Conv2D(3, D, 4, 4)
        self.blocks = pnn.Sequential(PaddleBlock(0), PaddleBlock(WINDOW // 2))
        self.norm, self.merge = pnn.LayerNorm(4 * D), pnn.Linear(4 * D, 2 * D, bias_attr=False)
        self.head = pnn.Linear(2 * D, CLASSES)

    def forward(self, x):
        x = self.blocks(self.patches(x).transpose([0, 2, 3, 1]))
        x = paddle.concat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], axis=-1)
        return self.head(self.merge(self.norm(x)).mean([1, 2]))


class TorchBlock(tnn.Module):
    def __init__(self, shift):
        super().__init__()
        self.shift = shift
        self.norm1, self.norm2 = tnn.LayerNorm(D), tnn.LayerNorm(D)
        self.qkv, self.out = tnn.Linear(D, 3 * D), tnn.Linear(D, D)
        self.up, self.down = tnn.Linear(D, 4 * D), tnn.Linear(4 * D, D)
        self.biases = tnn.Parameter(0.02 * torch.randn((2 * WINDOW - 1) ** 2, HEADS))
        self.register_buffer("index", pairs_of_places())
        self.register_buffer("mask", mask_of_shift(shift) if shift else None)

    def attend(self, x):
        batch = x.shape[0]
        x = torch.roll(x, [-self.shift, -self.shift], [1, 2]) if self.shift else x
        x = x.reshape(batch, SIDE // WINDOW, WINDOW, SIDE // WINDOW, WINDOW, D).permute(0, 1, 3, 2, 4, 5)
        qkv = self.qkv(x.reshape(-1, WINDOW**2, D)).reshape(-1, WINDOW**2, 3, HEADS, D // HEADS)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        scores = torch.matmul(q * (D // HEADS) ** -0.5, k.transpose(2, 3))
        scores = scores + self.biases[self.index].reshape(WINDOW**2, WINDOW**2, HEADS).permute(2, 0, 1).unsqueeze(0)
        if self.shift:
            scores = scores.reshape(batch, -1, HEADS, WINDOW**2, WINDOW**2) + self.mask.unsqueeze(1).unsqueeze(0)
            scores = scores.reshape(-1, HEADS, WINDOW**2, WINDOW**2)
        x = self.out(torch.matmul(TF.softmax(scores, dim=-1), v).transpose(1, 2).reshape(-1, WINDOW**2, D))
        x = x.reshape(batch, SIDE // WINDOW, SIDE // WINDOW, WINDOW, WINDOW, D).permute(0, 1, 3, 2, 4, 5)
        x = x.reshape(batch, SIDE, SIDE, D)
        return torch.roll(x, [self.shift, self.shift], [1, 2]) if self.shift else x

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.down(TF.gelu(self.up(self.norm2(x))))


class TorchSwin(tnn.Module):
    def __init__(self):
        super().__init__()
        self.patches = tnn.Conv2d(3, D, 4, 4)
        self.blocks = tnn.Sequential(TorchBlock(0), TorchBlock(WINDOW // 2))
        self.norm, self.merge = tnn.LayerNorm(4 * D), tnn.Linear(4 * D, 2 * D, bias=False)
        self.head = tnn.Linear(2 * D, CLASSES)

    def forward(self, x):
        x = self.blocks(self.patches(x).permute(0, 2, 3, 1))
        x = torch.cat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 1::2]], dim=-1)
        return self.head(self.merge(self.norm(x)).mean([1, 2]))


paddle_model, torch_model = PaddleSwin, TorchSwin


def batch(rng):
    return {"images": rng.standard_normal((2, 3, 4 * SIDE, 4 * SIDE)), "labels": rng.integers(0, CLASSES, 2)}
