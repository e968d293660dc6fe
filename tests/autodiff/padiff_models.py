"""Pairs of models of the kinds that PaDiff's own tests compare: a residual block, branches, recurrent ones, attention..."""

import numpy as np
import paddle
import torch

ONES = {"paddle": paddle.nn, "torch": torch.nn}
BASE = {"paddle": paddle.nn.Layer, "torch": torch.nn.Module}


def both(make):
    """A pair (Paddle's, Torch's) of a class that ``make`` defines over a framework's base class and its ``nn``."""
    return make(BASE["paddle"], paddle.nn), make(BASE["torch"], torch.nn)


def residual(base, nn):
    class Residual(base):
        def __init__(self):
            super().__init__()
            self.inner, self.head, self.act = nn.Linear(12, 12), nn.Linear(12, 5), nn.ReLU()

        def forward(self, x):
            return self.head(self.act(self.inner(x)) + x)

    return Residual


def chain(base, nn):
    class Chain(base):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(*[nn.Linear(12, 12) for _ in range(10)])

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    return Chain


def branches(change=lambda output: output, order=(0, 1), relu=False, shared=False):
    """Two Linears on one input, called in an ``order``, the first twice if ``shared``; ``change``: of the second's output."""

    def make(base, nn):
        class Branches(base):
            def __init__(self):
                super().__init__()
                self.first, self.second = nn.Linear(12, 12), nn.Linear(12, 12)

            def forward(self, x):
                layers = {}
                for which in order:
                    layers[which] = (self.first, self.second)[which](x)
                    if which == 0 and shared:
                        layers[2] = self.first(x)
                second = change(layers[1])
                second = nn.functional.relu(second) if relu else second
                return layers[0] + second + (layers[2] if shared else 0)

        return Branches

    return make


def several(second=False):
    """A list of outputs of several shapes, of one input or two."""

    def make(base, nn):
        class Several(base):
            def __init__(self):
                super().__init__()
                self.a, self.b, self.c = nn.Linear(12, 3), nn.Linear(12, 4), nn.Linear(12, 6)

            def forward(self, x, **more):
                outputs = [self.a(x), self.b(x), self.c(x)]
                return [*outputs, self.a(more["y"])] if second else outputs

        return Several

    return make


def arithmetic(factor=2.0):
    """A Linear, a function and operators."""

    def make(base, nn):
        class Arithmetic(base):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(12, 12)

            def forward(self, x):
                x = nn.functional.relu(self.linear(x))
                x = x * factor
                return x + 1

        return Arithmetic

    return make


class PaddleLSTMs(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.embedder = paddle.nn.Embedding(3, 16)
        self.one, self.two = paddle.nn.LSTM(16, 8, 2, time_major=True), paddle.nn.LSTM(8, 4, 2, time_major=True)

    def forward(self, x):
        return self.two(self.one(self.embedder(x))[0])[0]


class TorchLSTMs(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedder = torch.nn.Embedding(3, 16)
        self.one, self.two = torch.nn.LSTM(16, 8, 2), torch.nn.LSTM(8, 4, 2)

    def forward(self, x):
        return self.two(self.one(self.embedder(x))[0])[0]


class PaddleAttention(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.attn = paddle.nn.MultiHeadAttention(16, 1)

    def forward(self, q, k, v):
        return self.attn(q, k, v)


class TorchAttention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.attn = torch.nn.MultiheadAttention(16, 1, batch_first=True)

    def forward(self, q, k, v):
        return self.attn(q, k, v)[0]


class PaddleConv(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.conv, self.bn = paddle.nn.Conv2D(3, 8, 3, padding=1), paddle.nn.BatchNorm2D(8)

    def forward(self, x):
        return self.bn(self.conv(x))


class TorchConv(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.bn = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8)

    def forward(self, x):
        return self.bn(self.conv(x))


class _Block(torch.nn.Module):
    def __init__(self, inside, outside, stride):
        super().__init__()
        self.conv1, self.bn1 = torch.nn.Conv2d(inside, outside, 3, stride, 1, bias=False), torch.nn.BatchNorm2d(outside)
        self.relu = torch.nn.ReLU(inplace=True)
        self.conv2, self.bn2 = torch.nn.Conv2d(outside, outside, 3, 1, 1, bias=False), torch.nn.BatchNorm2d(outside)
        self.downsample = None
        if stride != 1 or inside != outside:
            self.downsample = torch.nn.Sequential(
                torch.nn.Conv2d(inside, outside, 1, stride, bias=False), torch.nn.BatchNorm2d(outside)
            )

    def forward(self, x):
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(out + (x if self.downsample is None else self.downsample(x)))


class TorchResNet18(torch.nn.Module):
    """The network of He et al. 2015 with 18 layers, as ``paddle.vision.models.resnet18`` builds it."""

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = torch.nn.Conv2d(3, 64, 7, 2, 3, bias=False), torch.nn.BatchNorm2d(64)
        self.relu, self.maxpool = torch.nn.ReLU(inplace=True), torch.nn.MaxPool2d(3, 2, 1)
        sizes = ((64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2))
        for number, (inside, outside, stride) in enumerate(sizes, 1):
            blocks = torch.nn.Sequential(_Block(inside, outside, stride), _Block(outside, outside, 1))
            setattr(self, f"layer{number}", blocks)
        self.avgpool, self.fc = torch.nn.AdaptiveAvgPool2d((1, 1)), torch.nn.Linear(512, 1000)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


def pair(make):
    """Two new models of a class that ``make`` defines."""
    port, original = both(make)
    return port(), original()


def inputs(*names, shape=(6, 12), seed=0, first="paddle"):
    """The pair of dicts that a call takes; the same array under each name."""
    values = np.random.default_rng(seed).random(shape).astype("float32")
    ours, theirs = ({name: tensor(values) for name in names} for tensor in (paddle.to_tensor, torch.tensor))
    return (ours, theirs) if first == "paddle" else (theirs, ours)


def words(first="paddle"):
    """Whole numbers for an embedding."""
    values = np.ones((1, 9), "int64")
    pair_of_inputs = {"x": paddle.to_tensor(values)}, {"x": torch.tensor(values)}
    return pair_of_inputs if first == "paddle" else pair_of_inputs[::-1]
