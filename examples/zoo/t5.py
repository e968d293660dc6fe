"""A T5 encoder and decoder (Raffel et al., 2020): relative positions in buckets, no scale in the attention, RMS norm, ReLU."""

import paddle
import paddle.nn as pnn
import paddle.nn.functional as PF
import torch
import torch.nn as tnn
import torch.nn.functional as TF

from .llama import HEADS, D, PaddleRMSNorm, TorchRMSNorm
from .training import Recipe

WORDS, LENGTH, TARGET, BUCKETS, SIZE = 97, 12, 8, 8, 8
RECIPE = Recipe("Adam", rate=3e-3, schedule="cosine", decay=1e-4)


class PaddleAttention(pnn.Layer):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (pnn.Linear(D, D, bias_attr=False) for _ in range(4))

    def forward(self, x, memory, bias):
        q, k, v = self.q(x), self.k(memory), self.v(memory)
        q, k, v = (t.reshape([t.shape[0], t.shape[1], HEADS, SIZE]).transpose([0, 2, 1, 3]) for t in (q, k, v))
        weights = PF.softmax(paddle.matmul(q, k, transpose_y=True) + bias, axis=-1)
        return self.out(paddle.matmul(weights, v).transpose([0, 2, 1, 3]).reshape(x.shape))


class PaddleBlock(pnn.Layer):
    def __init__(self, decodes):
        super().__init__()
        self.norm1, self.attention = PaddleRMSNorm(), PaddleAttention()
        self.norm2, self.cross = (PaddleRMSNorm(), PaddleAttention()) if decodes else (None, None)
        self.norm3 = PaddleRMSNorm()
        self.up = pnn.Linear(D, 2 * D, bias_attr=False)
        self.down = pnn.Linear(2 * D, D, bias_attr=False)
        self.drop = pnn.Dropout(0.1)

    def forward(self, x, bias, memory=None):
        y = self.norm1(x)
        x = x + self.drop(self.attention(y, y, bias))
        if self.cross is not None:
            x = x + self.drop(self.cross(self.norm2(x), memory, 0.0))
        return x + self.drop(self.down(self.drop(PF.relu(self.up(self.norm3(x))))))


class PaddleT5(pnn.Layer):
    def __init__(self):
        super().__init__()
        self.words = pnn.Embedding(WORDS, D)
        self.near = pnn.Embedding(2 * BUCKETS, HEADS)
        self.before = pnn.Embedding(2 * BUCKETS, HEADS)
        self.encoder = pnn.LayerList([PaddleBlock(False) for _ in range(2)])
        self.decoder = pnn.LayerList([PaddleBlock(True) for _ in range(2)])
        self.norm, self.norm_out = PaddleRMSNorm(), PaddleRMSNorm()
        self.head = pnn.Linear(D, WORDS, bias_attr=False)

    def bias(self, table, length, causal):
        places = paddle.arange(length)
        apart = paddle.clip(places.unsqueeze(0) - places.unsqueeze(1), -BUCKETS, BUCKETS - 1) + BUCKETS
        bias = table(apart).transpose([2, 0, 1]).unsqueeze(0)
        if causal:
            bias = bias + paddle.triu(paddle.full([length, length], -1e9, dtype=bias.dtype), diagonal=1)
        return bias

    def forward(self, tokens, target):
        memory, bias = self.words(tokens), self.bias(self.near, LENGTH, causal=False)
        for block in self.encoder:
            memory = block(memory, bias)
        memory = self.norm(memory)
        x, bias = self.words(target), self.bias(self.before, TARGET, causal=True)
        for block in self.decoder:
            x = block(x, bias, memory)
        return self.head(self.norm_out(x))


class TorchAttention(tnn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (tnn.Linear(D, D, bias=False) for _ in range(4))

    def forward(self, x, memory, bias):
        q, k, v = self.q(x), self.k(memory), self.v(memory)
        q, k, v = (t.reshape([t.shape[0], t.shape[1], HEADS, SIZE]).permute([0, 2, 1, 3]) for t in (q, k, v))
        weights = TF.softmax(torch.matmul(q, k.mT) + bias, dim=-1)
        return self.out(torch.matmul(weights, v).permute([0, 2, 1, 3]).reshape(x.shape))


class TorchBlock(tnn.Module):
    def __init__(self, decodes):
        super().__init__()
        self.norm1, self.attention = TorchRMSNorm(), TorchAttention()
        self.norm2, self.cross = (TorchRMSNorm(), TorchAttention()) if decodes else (None, None)
        self.norm3 = TorchRMSNorm()
        self.up = tnn.Linear(D, 2 * D, bias=False)
        self.down = tnn.Linear(2 * D, D, bias=False)
        self.drop = tnn.Dropout(0.1)

    def forward(self, x, bias, memory=None):
        y = self.norm1(x)
        x = x + self.drop(self.attention(y, y, bias))
        if self.cross is not None:
            x = x + self.drop(self.cross(self.norm2(x), memory, 0.0))
        return x + self.drop(self.down(self.drop(TF.relu(self.up(self.norm3(x))))))


class TorchT5(tnn.Module):
    def __init__(self):
        super().__init__()
        self.words = tnn.Embedding(WORDS, D)
        self.near = tnn.Embedding(2 * BUCKETS, HEADS)
        self.before = tnn.Embedding(2 * BUCKETS, HEADS)
        self.encoder = tnn.ModuleList([TorchBlock(False) for _ in range(2)])
        self.decoder = tnn.ModuleList([TorchBlock(True) for _ in range(2)])
        self.norm, self.norm_out = TorchRMSNorm(), TorchRMSNorm()
        self.head = tnn.Linear(D, WORDS, bias=False)

    def bias(self, table, length, causal):
        places = torch.arange(length)
        apart = torch.clip(places[None] - places[:, None], -BUCKETS, BUCKETS - 1) + BUCKETS
        bias = table(apart).permute([2, 0, 1]).unsqueeze(0)
        if causal:
            bias = bias + torch.triu(torch.full([length, length], -1e9, dtype=bias.dtype), diagonal=1)
        return bias

    def forward(self, tokens, target):
        memory, bias = self.words(tokens), self.bias(self.near, LENGTH, causal=False)
        for block in self.encoder:
            memory = block(memory, bias)
        memory = self.norm(memory)
        x, bias = self.words(target), self.bias(self.before, TARGET, causal=True)
        for block in self.decoder:
            x = block(x, bias, memory)
        return self.head(self.norm_out(x))


paddle_model, torch_model = PaddleT5, TorchT5


def batch(rng):
    following = rng.integers(0, WORDS, (4, TARGET))
    following[2, 5:] = 0  # padding
    return {"tokens": rng.integers(0, WORDS, (4, LENGTH)), "target": rng.integers(0, WORDS, (4, TARGET)), "following": following}


def paddle_step(model, tokens, target, following):
    logits = model(tokens, target)
    return [logits], PF.cross_entropy(logits.reshape([-1, WORDS]), following.reshape([-1]), ignore_index=0)


def torch_step(model, tokens, target, following):
    logits = model(tokens, target)
    return [logits], TF.cross_entropy(logits.reshape([-1, WORDS]), following.reshape([-1]), ignore_index=0)
