"""A vision Transformer (Dosovitskiy et al., 2021): patches of handwritten digits by a convolution, a class token,
the framework's attention function."""

import paddle
import paddle.nn as pnn
import paddle.nn.functional as PF
import torch
import torch.nn as tnn
import torch.nn.functional as TF

from .handwriting import labelled
from .training import Recipe

D, HEADS, LAYERS, PATCH, SIZE = 32, 4, 2, 2, 8
PLACES = (SIZE // PATCH) ** 2 + 1
RECIPE = Recipe(rate=2e-3, schedule="warmup", decay=0.05)


class PaddleBlock(pnn.Layer):
    def __init__(self):
        super().__init__()
        self.norm1 = pnn.LayerNorm(D, epsilon=1e-6)
        self.qkv = pnn.Linear(D, 3 * D)
        self.out = pnn.Linear(D, D)
        self.norm2 = pnn.LayerNorm(D, epsilon=1e-6)
        self.up = pnn.Linear(D, 4 * D)
        self.down = pnn.Linear(4 * D, D)
        self.drop = pnn.Dropout(0.1)

    def forward(self, x):
        batch = x.shape[0]
        q, k, v = paddle.unbind(self.qkv(self.norm1(x)).reshape([batch, PLACES, 3, HEADS, D // HEADS]), axis=2)
        mixed = PF.scaled_dot_product_attention(q, k, v)  # [batch, places, heads, size]
        x = x + self.drop(self.out(mixed.reshape([batch, PLACES, D])))
        return x + self.drop(self.down(PF.gelu(self.up(self.norm2(x)))))


class PaddleVit(pnn.Layer):
    def __init__(self):
        super().__init__()
        self.patches = pnn.Conv2D(1, D, PATCH, PATCH)
        self.token = self.create_parameter([1, 1, D])
        self.places = self.create_parameter([1, PLACES, D])
        self.blocks = pnn.Sequential(*(PaddleBlock() for _ in range(LAYERS)))
        self.norm = pnn.LayerNorm(D, epsilon=1e-6)
        self.head = pnn.Linear(D, 10)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose([0, 2, 1])
        x = paddle.concat([self.token.expand([x.shape[0], -1, -1]), x], axis=1) + self.places
        return self.head(self.norm(self.blocks(x))[:, 0])


class TorchBlock(tnn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = tnn.LayerNorm(D, eps=1e-6)
        self.qkv = tnn.Linear(D, 3 * D)
        self.out = tnn.Linear(D, D)
        self.norm2 = tnn.LayerNorm(D, eps=1e-6)
        self.up = tnn.Linear(D, 4 * D)
        self.down = tnn.Linear(4 * D, D)
        self.drop = tnn.Dropout(0.1)

    def forward(self, x):
        batch = x.shape[0]
        q, k, v = torch.unbind(self.qkv(self.norm1(x)).reshape([batch, PLACES, 3, HEADS, D // HEADS]), dim=2)
        mixed = TF.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (q, k, v))).transpose(1, 2)
        x = x + self.drop(self.out(mixed.reshape([batch, PLACES, D])))
        return x + self.drop(self.down(TF.gelu(self.up(self.norm2(x)))))


class TorchVit(tnn.Module):
    def __init__(self):
        super().__init__()
        self.patches = tnn.Conv2d(1, D, PATCH, PATCH)
        self.token = tnn.Parameter(torch.zeros(1, 1, D))
        self.places = tnn.Parameter(torch.zeros(1, PLACES, D))
        self.blocks = tnn.Sequential(*(TorchBlock() for _ in range(LAYERS)))
        self.norm = tnn.LayerNorm(D, eps=1e-6)
        self.head = tnn.Linear(D, 10)

    def forward(self, x):
        x = self.patches(x).flatten(2).permute([0, 2, 1])
        x = torch.cat([self.token.expand([x.shape[0], -1, -1]), x], dim=1) + self.places
        return self.head(self.norm(self.blocks(x))[:, 0])


paddle_model, torch_model = PaddleVit, TorchVit


def batch(rng):
    images, labels = labelled(rng, 16)
    return {"images": images, "labels": labels}


def paddle_step(model, images, labels):
    logits = model(images)
    return [logits], PF.cross_entropy(logits, labels, label_smoothing=0.1)


def torch_step(model, images, labels):
    logits = model(images)
    return [logits], TF.cross_entropy(logits, labels, label_smoothing=0.1)
