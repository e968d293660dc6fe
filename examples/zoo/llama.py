"""A Llama decoder (Touvron et al., 2023): RMSNorm, rotary positions, SwiGLU, fewer keys than queries."""

import paddle
import paddle.nn as pnn
import paddle.nn.functional as PF
import torch
import torch.nn as tnn
import torch.nn.functional as TF

from .gpt import LENGTH, WORDS, batch as batch, paddle_step as paddle_step, torch_step as torch_step
from .training import Recipe

D, HEADS, KEYS, LAYERS, HIDDEN = 32, 4, 2, 2, 80
RECIPE = Recipe(rate=3e-3, schedule="cosine", decay=0.1)
SIZE = D // HEADS


class PaddleRMSNorm(pnn.Layer):
    def __init__(self, width=D):
        super().__init__()
        self.weight = self.create_parameter([width], default_initializer=pnn.initializer.Constant(1.0))

    def forward(self, x):
        return self.weight * (x * paddle.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


def paddle_rotated(x, cos, sin):
    left, right = paddle.chunk(x, 2, axis=-1)
    return x * cos + paddle.concat([-right, left], axis=-1) * sin


class PaddleBlock(pnn.Layer):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = PaddleRMSNorm(), PaddleRMSNorm()
        self.q_norm, self.k_norm = pnn.Identity(), pnn.Identity()  # norms in Qwen3
        self.q = pnn.Linear(D, D, bias_attr=False)
        self.k = pnn.Linear(D, KEYS * SIZE, bias_attr=False)
        self.v = pnn.Linear(D, KEYS * SIZE, bias_attr=False)
        self.out = pnn.Linear(D, D, bias_attr=False)
        self.gate = pnn.Linear(D, HIDDEN, bias_attr=False)
        self.up = pnn.Linear(D, HIDDEN, bias_attr=False)
        self.down = pnn.Linear(HIDDEN, D, bias_attr=False)

    def attend(self, x, cos, sin, mask):
        batch, length, _ = x.shape
        q = self.q(x).reshape([batch, length, HEADS, SIZE]).transpose([0, 2, 1, 3])
        k = self.k(x).reshape([batch, length, KEYS, SIZE]).transpose([0, 2, 1, 3])
        v = self.v(x).reshape([batch, length, KEYS, SIZE]).transpose([0, 2, 1, 3])
        q, k = paddle_rotated(self.q_norm(q), cos, sin), paddle_rotated(self.k_norm(k), cos, sin)
        k, v = (paddle.repeat_interleave(t, HEADS // KEYS, axis=1) for t in (k, v))
        scores = paddle.matmul(q, k, transpose_y=True) * SIZE**-0.5 + mask
        mixed = paddle.matmul(PF.softmax(scores, axis=-1), v)
        return self.out(mixed.transpose([0, 2, 1, 3]).reshape([batch, length, D]))

    def forward(self, x, cos, sin, mask):
        x = x + self.attend(self.norm1(x), cos, sin, mask)
        y = self.norm2(x)
        return x + self.down(PF.silu(self.gate(y)) * self.up(y))


class PaddleLlama(pnn.Layer):
    def __init__(self):
        super().__init__()
        self.words = pnn.Embedding(WORDS, D)
        self.blocks = pnn.LayerList([PaddleBlock() for _ in range(LAYERS)])
        self.norm = PaddleRMSNorm()
        self.head = pnn.Linear(D, WORDS, bias_attr=False)

    def forward(self, tokens):
        dtype = self.norm.weight.dtype
        turns = 1.0 / 10000 ** (paddle.arange(0, SIZE, 2).astype(dtype) / SIZE)
        angles = paddle.outer(paddle.arange(LENGTH).astype(dtype), turns)
        angles = paddle.concat([angles, angles], axis=-1)
        mask = paddle.triu(paddle.full([LENGTH, LENGTH], float("-inf"), dtype=dtype), diagonal=1)
        x = self.words(tokens)
        for block in self.blocks:
            x = block(x, paddle.cos(angles), paddle.sin(angles), mask)
        return self.head(self.norm(x))


class TorchRMSNorm(tnn.Module):
    def __init__(self, width=D):
        super().__init__()
        self.weight = tnn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


def torch_rotated(x, cos, sin):
    left, right = torch.chunk(x, 2, dim=-1)
    return x * cos + torch.cat([-right, left], dim=-1) * sin


class TorchBlock(tnn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = TorchRMSNorm(), TorchRMSNorm()
        self.q_norm, self.k_norm = tnn.Identity(), tnn.Identity()  # norms in Qwen3
        self.q = tnn.Linear(D, D, bias=False)
        self.k = tnn.Linear(D, KEYS * SIZE, bias=False)
        self.v = tnn.Linear(D, KEYS * SIZE, bias=False)
        self.out = tnn.Linear(D, D, bias=False)
        self.gate = tnn.Linear(D, HIDDEN, bias=False)
        self.up = tnn.Linear(D, HIDDEN, bias=False)
        self.down = tnn.Linear(HIDDEN, D, bias=False)

    def attend(self, x, cos, sin, mask):
        batch, length, _ = x.shape
        q = self.q(x).reshape([batch, length, HEADS, SIZE]).permute([0, 2, 1, 3])
        k = self.k(x).reshape([batch, length, KEYS, SIZE]).permute([0, 2, 1, 3])
        v = self.v(x).reshape([batch, length, KEYS, SIZE]).permute([0, 2, 1, 3])
        q, k = torch_rotated(self.q_norm(q), cos, sin), torch_rotated(self.k_norm(k), cos, sin)
        k, v = (torch.repeat_interleave(t, HEADS // KEYS, dim=1) for t in (k, v))
        scores = torch.matmul(q, k.mT) * SIZE**-0.5 + mask
        mixed = torch.matmul(TF.softmax(scores, dim=-1), v)
        return self.out(mixed.permute([0, 2, 1, 3]).reshape([batch, length, D]))

    def forward(self, x, cos, sin, mask):
        x = x + self.attend(self.norm1(x), cos, sin, mask)
        y = self.norm2(x)
        return x + self.down(TF.silu(self.gate(y)) * self.up(y))


class TorchLlama(tnn.Module):
    def __init__(self):
        super().__init__()
        self.words = tnn.Embedding(WORDS, D)
        self.blocks = tnn.ModuleList([TorchBlock() for _ in range(LAYERS)])
        self.norm = TorchRMSNorm()
        self.head = tnn.Linear(D, WORDS, bias=False)

    def forward(self, tokens):
        dtype = self.norm.weight.dtype
        turns = 1.0 / 10000 ** (torch.arange(0, SIZE, 2).to(dtype) / SIZE)
        angles = torch.outer(torch.arange(LENGTH).to(dtype), turns)
        angles = torch.cat([angles, angles], dim=-1)
        mask = torch.triu(torch.full([LENGTH, LENGTH], float("-inf"), dtype=dtype), diagonal=1)
        x = self.words(tokens)
        for block in self.blocks:
            x = block(x, torch.cos(angles), torch.sin(angles), mask)
        return self.head(self.norm(x))


paddle_model, torch_model = PaddleLlama, TorchLlama
