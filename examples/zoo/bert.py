"""A BERT encoder (Devlin et al., 2019) with pooler and classifier: three embeddings, norm after the residual, padding mask."""

import paddle
import paddle.nn as pnn
import paddle.nn.functional as PF
import torch
import torch.nn as tnn
import torch.nn.functional as TF

WORDS, D, HEADS, LAYERS, LENGTH = 97, 32, 4, 2, 16


class PaddleBlock(pnn.Layer):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (pnn.Linear(D, D) for _ in range(4))
        self.norm1 = pnn.LayerNorm(D, epsilon=1e-12)
        self.up = pnn.Linear(D, 4 * D)
        self.down = pnn.Linear(4 * D, D)
        self.norm2 = pnn.LayerNorm(D, epsilon=1e-12)

    def forward(self, x, mask):
        batch, length, _ = x.shape
        q, k, v = (f(x).reshape([batch, length, HEADS, D // HEADS]).transpose([0, 2, 1, 3]) for f in (self.q, self.k, self.v))
        scores = paddle.matmul(q, k.transpose([0, 1, 3, 2])) / (D // HEADS) ** 0.5 + mask
        mixed = paddle.matmul(PF.softmax(scores, axis=-1), v).transpose([0, 2, 1, 3]).reshape([batch, length, D])
        x = self.norm1(x + self.out(mixed))
        return self.norm2(x + self.down(PF.gelu(self.up(x))))


class PaddleBert(pnn.Layer):
    def __init__(self):
        super().__init__()
        self.words = pnn.Embedding(WORDS, D, padding_idx=0)
        self.places = pnn.Embedding(LENGTH, D)
        self.kinds = pnn.Embedding(2, D)
        self.norm = pnn.LayerNorm(D, epsilon=1e-12)
        self.blocks = pnn.LayerList([PaddleBlock() for _ in range(LAYERS)])
        self.pooler = pnn.Linear(D, D)
        self.head = pnn.Linear(D, 2)

    def forward(self, tokens, kinds):
        mask = (1.0 - (tokens != 0).astype(self.norm.weight.dtype)).unsqueeze([1, 2]) * -1e4
        x = self.norm(self.words(tokens) + self.places(paddle.arange(LENGTH)) + self.kinds(kinds))
        for block in self.blocks:
            x = block(x, mask)
        return self.head(paddle.tanh(self.pooler(x[:, 0]))), x


class TorchBlock(tnn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (tnn.Linear(D, D) for _ in range(4))
        self.norm1 = tnn.LayerNorm(D, eps=1e-12)
        self.up = tnn.Linear(D, 4 * D)
        self.down = tnn.Linear(4 * D, D)
        self.norm2 = tnn.LayerNorm(D, eps=1e-12)

    def forward(self, x, mask):
        batch, length, _ = x.shape
        q, k, v = (f(x).reshape([batch, length, HEADS, D // HEADS]).permute([0, 2, 1, 3]) for f in (self.q, self.k, self.v))
        scores = torch.matmul(q, k.permute([0, 1, 3, 2])) / (D // HEADS) ** 0.5 + mask
        mixed = torch.matmul(TF.softmax(scores, dim=-1), v).permute([0, 2, 1, 3]).reshape([batch, length, D])
        x = self.norm1(x + self.out(mixed))
        return self.norm2(x + self.down(TF.gelu(self.up(x))))


class TorchBert(tnn.Module):
    def __init__(self):
        super().__init__()
        self.words = tnn.Embedding(WORDS, D, padding_idx=0)
        self.places = tnn.Embedding(LENGTH, D)
        self.kinds = tnn.Embedding(2, D)
        self.norm = tnn.LayerNorm(D, eps=1e-12)
        self.blocks = tnn.ModuleList([TorchBlock() for _ in range(LAYERS)])
        self.pooler = tnn.Linear(D, D)
        self.head = tnn.Linear(D, 2)

    def forward(self, tokens, kinds):
        mask = (1.0 - (tokens != 0).to(self.norm.weight.dtype))[:, None, None] * -1e4
        x = self.norm(self.words(tokens) + self.places(torch.arange(LENGTH)) + self.kinds(kinds))
        for block in self.blocks:
            x = block(x, mask)
        return self.head(torch.tanh(self.pooler(x[:, 0]))), x


paddle_model, torch_model = PaddleBert, TorchBert


def batch(rng):
    tokens = rng.integers(1, WORDS, (4, LENGTH))
    tokens[1, 10:], tokens[3, 5:] = 0, 0
    return {"tokens": tokens, "kinds": rng.integers(0, 2, (4, LENGTH)), "labels": rng.integers(0, 2, 4)}


def paddle_step(model, tokens, kinds, labels):
    logits, hidden = model(tokens, kinds)
    return [logits, hidden], PF.cross_entropy(logits, labels)


def torch_step(model, tokens, kinds, labels):
    logits, hidden = model(tokens, kinds)
    return [logits, hidden], TF.cross_entropy(logits, labels)
