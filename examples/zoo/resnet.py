"""ResNet-18 (He et al., 2016) at a quarter of its width, on small images, in training mode."""

import paddle
import paddle.nn as pnn
import paddle.nn.functional as PF
import torch
import torch.nn as tnn
import torch.nn.functional as TF

from .training import Recipe

WIDTHS, CLASSES = (16, 32, 64, 128), 10
RECIPE = Recipe("Momentum", rate=0.005, schedule="milestone", decay=5e-4, clip=None)


class PaddleBlock(pnn.Layer):
    def __init__(self, channels, width, stride):
        super().__init__()
        self.conv1 = pnn.Conv2D(channels, width, 3, stride, 1, bias_attr=False)
        self.bn1 = pnn.BatchNorm2D(width)
        self.conv2 = pnn.Conv2D(width, width, 3, 1, 1, bias_attr=False)
        self.bn2 = pnn.BatchNorm2D(width)
        self.shortcut = None
        if stride > 1 or channels != width:
            self.shortcut = pnn.Sequential(pnn.Conv2D(channels, width, 1, stride, bias_attr=False), pnn.BatchNorm2D(width))

    def forward(self, x):
        y = PF.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return PF.relu(y + (x if self.shortcut is None else self.shortcut(x)))


class PaddleResNet(pnn.Layer):
    def __init__(self):
        super().__init__()
        self.stem = pnn.Conv2D(3, WIDTHS[0], 7, 2, 3, bias_attr=False)
        self.bn = pnn.BatchNorm2D(WIDTHS[0])
        self.pool = pnn.MaxPool2D(3, 2, 1)
        blocks, channels = [], WIDTHS[0]
        for place, width in enumerate(WIDTHS):
            blocks += [PaddleBlock(channels, width, 2 if place else 1), PaddleBlock(width, width, 1)]
            channels = width
        self.blocks = pnn.Sequential(*blocks)
        self.average = pnn.AdaptiveAvgPool2D(1)
        self.head = pnn.Linear(channels, CLASSES)

    def forward(self, x):
        x = self.blocks(self.pool(PF.relu(self.bn(self.stem(x)))))
        return self.head(paddle.flatten(self.average(x), 1))


class TorchBlock(tnn.Module):
    def __init__(self, channels, width, stride):
        super().__init__()
        self.conv1 = tnn.Conv2d(channels, width, 3, stride, 1, bias=False)
        self.bn1 = tnn.BatchNorm2d(width)
        self.conv2 = tnn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = tnn.BatchNorm2d(width)
        self.shortcut = None
        if stride > 1 or channels != width:
            self.shortcut = tnn.Sequential(tnn.Conv2d(channels, width, 1, stride, bias=False), tnn.BatchNorm2d(width))

    def forward(self, x):
        y = TF.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return TF.relu(y + (x if self.shortcut is None else self.shortcut(x)))


class TorchResNet(tnn.Module):
    def __init__(self):
        super().__init__()
        self.stem = tnn.Conv2d(3, WIDTHS[0], 7, 2, 3, bias=False)
        self.bn = tnn.BatchNorm2d(WIDTHS[0])
        self.pool = tnn.MaxPool2d(3, 2, 1)
        blocks, channels = [], WIDTHS[0]
        for place, width in enumerate(WIDTHS):
            blocks += [TorchBlock(channels, width, 2 if place else 1), TorchBlock(width, width, 1)]
            channels = width
        self.blocks = tnn.Sequential(*blocks)
        self.average = tnn.AdaptiveAvgPool2d(1)
        self.head = tnn.Linear(channels, CLASSES)

    def forward(self, x):
        x = self.blocks(self.pool(TF.relu(self.bn(self.stem(x)))))
        return self.head(torch.flatten(self.average(x), 1))


paddle_model, torch_model = PaddleResNet, TorchResNet


def batch(rng):
    return {"images": rng.standard_normal((4, 3, 64, 64)), "labels": rng.integers(0, CLASSES, 4)}


def paddle_step(model, images, labels):
    logits = model(images)
    return [logits], PF.cross_entropy(logits, labels)


def torch_step(model, images, labels):
    logits = model(images)
    return [logits], TF.cross_entropy(logits, labels)
