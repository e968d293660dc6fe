"""A GPT decoder (Radford et al., 2019): causal mask, gelu by tanh, the output layer tied to the embedding."""

import paddle
import paddle.nn as pnn
import paddle.nn.functional as PF
import torch
import torch.nn as tnn
import torch.nn.functional as TF

from .training import Recipe

WORDS, D, HEADS, LAYERS, LENGTH = 97, 32, 4, 2, 16
RECIPE = Recipe(rate=3e-3, schedule="warmup", decay=0.1)


class PaddleBlock(pnn.Layer):
    def __init__(self):
        super().__init__()
        self.norm1 = pnn.LayerNorm(D)
        self.qkv = pnn.Linear(D, 3 * D)
        self.out = pnn.Linear(D, D)
        self.norm2 = pnn.LayerNorm(D)
        self.up = pnn.Linear(D, 4 * D)
        self.down = pnn.Linear(4 * D, D)
        self.drop = pnn.Dropout(0.1)

    def attend(self, x, mask, cache):
        batch, length, _ = x.shape
        q, k, v = paddle.split(self.qkv(x), 3, axis=-1)
        q, k, v = (t.reshape([batch, length, HEADS, D // HEADS]).transpose([0, 2, 1, 3]) for t in (q, k, v))
        if cache is not None:
            if cache:
                k, v = paddle.concat([cache[0], k], axis=2), paddle.concat([cache[1], v], axis=2)
            cache[:] = k, v
        scores = paddle.matmul(q, k.transpose([0, 1, 3, 2])) / (D // HEADS) ** 0.5 + mask
        mixed = paddle.matmul(self.drop(PF.softmax(scores, axis=-1)), v)
        return self.out(mixed.transpose([0, 2, 1, 3]).reshape([batch, length, D]))

    def forward(self, x, mask, cache):
        x = x + self.drop(self.attend(self.norm1(x), mask, cache))
        return x + self.drop(self.down(PF.gelu(self.up(self.norm2(x)), approximate=True)))


class PaddleGpt(pnn.Layer):
    def __init__(self):
        super().__init__()
        self.words = pnn.Embedding(WORDS, D)
        self.places = pnn.Embedding(LENGTH, D)
        self.blocks = pnn.LayerList([PaddleBlock() for _ in range(LAYERS)])
        self.norm = pnn.LayerNorm(D)
        self.drop = pnn.Dropout(0.1)

    def forward(self, tokens, caches=None):
        length = tokens.shape[1]
        start = caches[0][0].shape[2] if caches and caches[0] else 0
        mask = paddle.triu(paddle.full([length, start + length], -1e9, dtype=self.norm.weight.dtype), diagonal=start + 1)
        x = self.drop(self.words(tokens) + self.places(paddle.arange(start, start + length)))
        for place, block in enumerate(self.blocks):
            x = block(x, mask, caches and caches[place])
        return paddle.matmul(self.norm(x), self.words.weight, transpose_y=True)


class TorchBlock(tnn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = tnn.LayerNorm(D)
        self.qkv = tnn.Linear(D, 3 * D)
        self.out = tnn.Linear(D, D)
        self.norm2 = tnn.LayerNorm(D)
        self.up = tnn.Linear(D, 4 * D)
        self.down = tnn.Linear(4 * D, D)
        self.drop = tnn.Dropout(0.1)

    def attend(self, x, mask, cache):
        batch, length, _ = x.shape
        q, k, v = torch.split(self.qkv(x), D, dim=-1)
        q, k, v = (t.reshape([batch, length, HEADS, D // HEADS]).permute([0, 2, 1, 3]) for t in (q, k, v))
        if cache is not None:
            if cache:
                k, v = torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)
            cache[:] = k, v
        scores = torch.matmul(q, k.permute([0, 1, 3, 2])) / (D // HEADS) ** 0.5 + mask
        mixed = torch.matmul(self.drop(TF.softmax(scores, dim=-1)), v)
        return self.out(mixed.permute([0, 2, 1, 3]).reshape([batch, length, D]))

    def forward(self, x, mask, cache):
        x = x + self.drop(self.attend(self.norm1(x), mask, cache))
        return x + self.drop(self.down(TF.gelu(self.up(self.norm2(x)), approximate="tanh")))


class TorchGpt(tnn.Module):
    def __init__(self):
        super().__init__()
        self.words = tnn.Embedding(WORDS, D)
        self.places = tnn.Embedding(LENGTH, D)
        self.blocks = tnn.ModuleList([TorchBlock() for _ in range(LAYERS)])
        self.norm = tnn.LayerNorm(D)
        self.drop = tnn.Dropout(0.1)

    def forward(self, tokens, caches=None):
        length = tokens.shape[1]
        start = caches[0][0].shape[2] if caches and caches[0] else 0
        mask = torch.triu(torch.full([length, start + length], -1e9, dtype=self.norm.weight.dtype), diagonal=start + 1)
        x = self.drop(self.words(tokens) + self.places(torch.arange(start, start + length)))
        for place, block in enumerate(self.blocks):
            x = block(x, mask, caches and caches[place])
        return torch.matmul(self.norm(x), self.words.weight.t())


paddle_model, torch_model = PaddleGpt, TorchGpt


def batch(rng):
    return {"tokens": rng.integers(0, WORDS, (4, LENGTH)), "following": rng.integers(0, WORDS, (4, LENGTH))}


def paddle_step(model, tokens, following):
    logits = model(tokens)
    return [logits], PF.cross_entropy(logits.reshape([-1, WORDS]), following.reshape([-1]))


def torch_step(model, tokens, following):
    logits = model(tokens)
    return [logits], TF.cross_entropy(logits.reshape([-1, WORDS]), following.reshape([-1]))


@paddle.no_grad()
def paddle_generate(model, tokens):
    """Go on to the longest length, each time with the likeliest token; keys and values are kept. All logits [batch, words]."""
    model.eval()
    caches, steps = [[] for _ in model.blocks], []
    tokens = paddle.to_tensor(tokens)
    for _ in range(LENGTH - tokens.shape[1]):
        steps.append(model(tokens, caches)[:, -1])
        tokens = paddle.argmax(steps[-1], axis=-1, keepdim=True)
    model.train()
    return [logits.numpy() for logits in steps]


@torch.no_grad()
def torch_generate(model, tokens):
    """Go on to the longest length, each time with the likeliest token; keys and values are kept. All logits [batch, words]."""
    model.eval()
    caches, steps = [[] for _ in model.blocks], []
    tokens = torch.from_numpy(tokens)
    for _ in range(LENGTH - tokens.shape[1]):
        steps.append(model(tokens, caches)[:, -1])
        tokens = torch.argmax(steps[-1], dim=-1, keepdim=True)
    model.train()
    return [logits.numpy() for logits in steps]
