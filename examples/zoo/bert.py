"""A BERT encoder (Devlin et al., 2019) with pooler and classifier: three embeddings, norm after the residual, padding mask."""

from typing import NamedTuple

import paddle
import paddle.nn as pnn
import paddle.nn.functional as PF
import torch
import torch.nn as tnn
import torch.nn.functional as TF

from .training import Recipe

RECIPE = Recipe(rate=1e-3, schedule="warmup", decay=0.01)


class Config(NamedTuple):
    """The sizes of an encoder, and the token whose embedding is not trained."""

    words: int = 97
    places: int = 16
    width: int = 32
    heads: int = 4
    layers: int = 2
    untrained: int | None = 0


class PaddleBlock(pnn.Layer):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (pnn.Linear(width, width) for _ in range(4))
        self.norm1 = pnn.LayerNorm(width, epsilon=1e-12)
        self.up = pnn.Linear(width, 4 * width)
        self.down = pnn.Linear(4 * width, width)
        self.norm2 = pnn.LayerNorm(width, epsilon=1e-12)
        self.drop = pnn.Dropout(0.1)

    def forward(self, x, mask):
        batch, length, width = x.shape
        shape = [batch, length, self.heads, width // self.heads]
        q, k, v = (f(x).reshape(shape).transpose([0, 2, 1, 3]) for f in (self.q, self.k, self.v))
        scores = paddle.matmul(q, k.transpose([0, 1, 3, 2])) / (width // self.heads) ** 0.5 + mask
        mixed = paddle.matmul(self.drop(PF.softmax(scores, axis=-1)), v).transpose([0, 2, 1, 3]).reshape([batch, length, width])
        x = self.norm1(x + self.drop(self.out(mixed)))
        return self.norm2(x + self.drop(self.down(PF.gelu(self.up(x)))))


class PaddleEncoder(pnn.Layer):
    """Tokens and their kinds [batch, length] to the hidden states of every depth; token 0 is padding."""

    def __init__(self, config):
        super().__init__()
        self.words = pnn.Embedding(config.words, config.width, padding_idx=config.untrained)
        self.places = pnn.Embedding(config.places, config.width)
        self.kinds = pnn.Embedding(2, config.width)
        self.norm = pnn.LayerNorm(config.width, epsilon=1e-12)
        self.drop = pnn.Dropout(0.1)
        self.blocks = pnn.LayerList([PaddleBlock(config.width, config.heads) for _ in range(config.layers)])

    def forward(self, tokens, kinds):
        mask = (1.0 - (tokens != 0).astype(self.norm.weight.dtype)).unsqueeze([1, 2]) * -1e4
        hidden = [self.drop(self.norm(self.words(tokens) + self.kinds(kinds) + self.places(paddle.arange(tokens.shape[1]))))]
        for block in self.blocks:
            hidden.append(block(hidden[-1], mask))
        return hidden


class PaddleBert(pnn.Layer):
    def __init__(self, config):
        super().__init__()
        self.encoder = PaddleEncoder(config)
        self.pooler = pnn.Linear(config.width, config.width)
        self.head = pnn.Linear(config.width, 2)

    def forward(self, tokens, kinds):
        x = self.encoder(tokens, kinds)[-1]
        return self.head(paddle.tanh(self.pooler(x[:, 0]))), x


class TorchBlock(tnn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (tnn.Linear(width, width) for _ in range(4))
        self.norm1 = tnn.LayerNorm(width, eps=1e-12)
        self.up = tnn.Linear(width, 4 * width)
        self.down = tnn.Linear(4 * width, width)
        self.norm2 = tnn.LayerNorm(width, eps=1e-12)
        self.drop = tnn.Dropout(0.1)

    def forward(self, x, mask):
        batch, length, width = x.shape
        shape = [batch, length, self.heads, width // self.heads]
        q, k, v = (f(x).reshape(shape).permute([0, 2, 1, 3]) for f in (self.q, self.k, self.v))
        scores = torch.matmul(q, k.permute([0, 1, 3, 2])) / (width // self.heads) ** 0.5 + mask
        mixed = torch.matmul(self.drop(TF.softmax(scores, dim=-1)), v).permute([0, 2, 1, 3]).reshape([batch, length, width])
        x = self.norm1(x + self.drop(self.out(mixed)))
        return self.norm2(x + self.drop(self.down(TF.gelu(self.up(x)))))


class TorchEncoder(tnn.Module):
    """Tokens and their kinds [batch, length] to the hidden states of every depth; token 0 is padding."""

    def __init__(self, config):
        super().__init__()
        self.words = tnn.Embedding(config.words, config.width, padding_idx=config.untrained)
        self.places = tnn.Embedding(config.places, config.width)
        self.kinds = tnn.Embedding(2, config.width)
        self.norm = tnn.LayerNorm(config.width, eps=1e-12)
        self.drop = tnn.Dropout(0.1)
        self.blocks = tnn.ModuleList([TorchBlock(config.width, config.heads) for _ in range(config.layers)])

    def forward(self, tokens, kinds):
        mask = (1.0 - (tokens != 0).to(self.norm.weight.dtype))[:, None, None] * -1e4
        hidden = [self.drop(self.norm(self.words(tokens) + self.kinds(kinds) + self.places(torch.arange(tokens.shape[1]))))]
        for block in self.blocks:
            hidden.append(block(hidden[-1], mask))
        return hidden


class TorchBert(tnn.Module):
    def __init__(self, config):
        super().__init__()
        self.encoder = TorchEncoder(config)
        self.pooler = tnn.Linear(config.width, config.width)
        self.head = tnn.Linear(config.width, 2)

    def forward(self, tokens, kinds):
        x = self.encoder(tokens, kinds)[-1]
        return self.head(torch.tanh(self.pooler(x[:, 0]))), x


SMALL = Config()


def paddle_model():
    return PaddleBert(SMALL)


def torch_model():
    return TorchBert(SMALL)


def batch(rng):
    tokens = rng.integers(1, SMALL.words, (4, SMALL.places))
    tokens[1, 10:], tokens[3, 5:] = 0, 0
    return {"tokens": tokens, "kinds": rng.integers(0, 2, tokens.shape), "labels": rng.integers(0, 2, 4)}


def paddle_step(model, tokens, kinds, labels):
    logits, hidden = model(tokens, kinds)
    return [logits, hidden], PF.cross_entropy(logits, labels)


def torch_step(model, tokens, kinds, labels):
    logits, hidden = model(tokens, kinds)
    return [logits, hidden], TF.cross_entropy(logits, labels)
