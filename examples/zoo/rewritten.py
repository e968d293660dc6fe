"""Right ports that are written otherwise than their originals: the same mathematics, in another order or by other calls."""

import math

import paddle
import paddle.nn as pnn
import paddle.nn.functional as PF
import torch
import torch.nn as tnn
import torch.nn.functional as TF

D, HEADS = 24, 4


class TorchAttention(tnn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (tnn.Linear(D, D) for _ in range(4))

    def forward(self, x):
        q, k, v = (f(x).unflatten(-1, (HEADS, D // HEADS)).transpose(1, 2) for f in (self.q, self.k, self.v))
        weights = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(D // HEADS), -1)
        return self.out((weights @ v).transpose(1, 2).flatten(2))


class FusedProjection(pnn.Layer):
    """One projection for queries, keys and values."""

    def __init__(self):
        super().__init__()
        self.qkv, self.out = pnn.Linear(D, 3 * D), pnn.Linear(D, D)

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = self.qkv(x).reshape([batch, length, 3, HEADS, D // HEADS]).transpose([2, 0, 3, 1, 4])
        weights = PF.softmax(paddle.matmul(q, k, transpose_y=True) / math.sqrt(D // HEADS))
        return self.out(paddle.matmul(weights, v).transpose([0, 2, 1, 3]).reshape([batch, length, D]))


class ScaledQueries(pnn.Layer):
    """The scale on the queries, and a multiplication for the division."""

    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (pnn.Linear(D, D) for _ in range(4))

    def forward(self, x):
        batch, length, _ = x.shape
        shape = [batch, length, HEADS, D // HEADS]
        q, k, v = (f(x).reshape(shape).transpose([0, 2, 1, 3]) for f in (self.q, self.k, self.v))
        weights = PF.softmax(paddle.matmul(q * (D // HEADS) ** -0.5, k, transpose_y=True))
        return self.out(paddle.matmul(weights, v).transpose([0, 2, 1, 3]).reshape([batch, length, D]))


class OneCall(ScaledQueries):
    """Paddle's attention in one call, which wants [batch, length, heads, size]."""

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = (f(x).reshape([batch, length, HEADS, D // HEADS]) for f in (self.q, self.k, self.v))
        return self.out(PF.scaled_dot_product_attention(q, k, v).reshape([batch, length, D]))


class TorchBlock(tnn.Module):
    def __init__(self, act):
        super().__init__()
        self.norm, self.up, self.down, self.act = tnn.LayerNorm(D), tnn.Linear(D, 2 * D), tnn.Linear(2 * D, D), act

    def forward(self, x):
        return x + self.down(self.act(self.up(self.norm(x))))


class PaddleBlock(pnn.Layer):
    def __init__(self, act):
        super().__init__()
        self.norm, self.up, self.down, self.act = pnn.LayerNorm(D), pnn.Linear(D, 2 * D), pnn.Linear(2 * D, D), act

    def forward(self, x):
        return self.down(self.act(self.up(self.norm(x)))) + x


class NormByHand(PaddleBlock):
    """Mean and variance written out."""

    def forward(self, x):
        centred = x - x.mean(-1, keepdim=True)
        scaled = centred / paddle.sqrt((centred * centred).mean(-1, keepdim=True) + 1e-5)
        return x + self.down(self.act(self.up(scaled * self.norm.weight + self.norm.bias)))


class LinearByHand(PaddleBlock):
    """Products and sums for the Linear layers."""

    def forward(self, x):
        up = paddle.matmul(self.norm(x), self.up.weight) + self.up.bias
        return x + (paddle.matmul(self.act(up), self.down.weight) + self.down.bias)


def gelu_by_erf(x):
    return x * 0.5 * (1.0 + paddle.erf(x / math.sqrt(2.0)))


def gelu_by_tanh(x):
    return 0.5 * x * (1.0 + paddle.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x)))


def silu_by_hand(x):
    return x * PF.sigmoid(x)


def softplus_by_hand(x):
    return PF.relu(x) + paddle.log1p(paddle.exp(-paddle.abs(x)))


class TorchRms(tnn.Module):
    def __init__(self):
        super().__init__()
        self.scale = tnn.Parameter(torch.ones(D))

    def forward(self, x):
        return self.scale * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class RmsByRoot(pnn.Layer):
    """A division by the root for the product with its inverse."""

    def __init__(self):
        super().__init__()
        self.scale = self.create_parameter([D], default_initializer=pnn.initializer.Constant(1.0))

    def forward(self, x):
        return x / paddle.sqrt(paddle.mean(paddle.square(x), axis=-1, keepdim=True) + 1e-6) * self.scale


class TorchConvolutions(tnn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = tnn.Conv2d(3, 8, 3, padding=1), tnn.BatchNorm2d(8), tnn.Linear(8, 5)

    def forward(self, x):
        return self.last(TF.adaptive_avg_pool2d(torch.relu(self.norm(self.first(x))), 1).flatten(1))


class MeanForPool(pnn.Layer):
    """Means over the axes for the pooling, a clamp for relu."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = pnn.Conv2D(3, 8, 3, padding=1), pnn.BatchNorm2D(8), pnn.Linear(8, 5)

    def forward(self, x):
        return self.last(paddle.clip(self.norm(self.first(x)), min=0.0).mean([2, 3]))


SEQUENCE, IMAGE = (2, 6, D), (2, 3, 8, 8)
PORTS = {
    "fused projection": (TorchAttention, FusedProjection, SEQUENCE),
    "scaled queries": (TorchAttention, ScaledQueries, SEQUENCE),
    "attention in one call": (TorchAttention, OneCall, SEQUENCE),
    "residual first": (lambda: TorchBlock(TF.gelu), lambda: PaddleBlock(PF.gelu), SEQUENCE),
    "norm by hand": (lambda: TorchBlock(TF.gelu), lambda: NormByHand(PF.gelu), SEQUENCE),
    "linear by hand": (lambda: TorchBlock(torch.tanh), lambda: LinearByHand(paddle.tanh), SEQUENCE),
    "gelu by erf": (lambda: TorchBlock(TF.gelu), lambda: PaddleBlock(gelu_by_erf), SEQUENCE),
    "gelu by tanh": (lambda: TorchBlock(tnn.GELU("tanh")), lambda: PaddleBlock(gelu_by_tanh), SEQUENCE),
    "silu by hand": (lambda: TorchBlock(TF.silu), lambda: PaddleBlock(silu_by_hand), SEQUENCE),
    "softplus by hand": (lambda: TorchBlock(TF.softplus), lambda: PaddleBlock(softplus_by_hand), SEQUENCE),
    "root mean square": (TorchRms, RmsByRoot, SEQUENCE),
    "mean for pooling": (TorchConvolutions, MeanForPool, IMAGE),
}
