"""A small DenseNet (Huang et al., 2017): every layer reads the results of all before it."""

import paddle
import paddle.nn as pnn
import paddle.nn.functional as PF
import torch
import torch.nn as tnn
import torch.nn.functional as TF

from .resnet import batch as batch, paddle_step as paddle_step, torch_step as torch_step
from .training import Recipe

GROWTH, LAYERS = 8, (3, 3)
RECIPE = Recipe("Nesterov", rate=0.02, schedule="cosine", decay=1e-4, clip=None)


class PaddleDense(pnn.Layer):
    def __init__(self, channels):
        super().__init__()
        self.bn1 = pnn.BatchNorm2D(channels)
        self.conv1 = pnn.Conv2D(channels, 4 * GROWTH, 1, bias_attr=False)
        self.bn2 = pnn.BatchNorm2D(4 * GROWTH)
        self.conv2 = pnn.Conv2D(4 * GROWTH, GROWTH, 3, padding=1, bias_attr=False)

    def forward(self, x):
        y = self.conv1(PF.relu(self.bn1(x)))
        y = self.conv2(PF.relu(self.bn2(y)))
        return paddle.concat([x, y], axis=1)


class PaddleTransition(pnn.Layer):
    def __init__(self, channels):
        super().__init__()
        self.bn = pnn.BatchNorm2D(channels)
        self.conv = pnn.Conv2D(channels, channels // 2, 1, bias_attr=False)
        self.pool = pnn.AvgPool2D(2, 2)

    def forward(self, x):
        return self.pool(self.conv(PF.relu(self.bn(x))))


class PaddleDenseNet(pnn.Layer):
    def __init__(self):
        super().__init__()
        channels, layers = 2 * GROWTH, []
        self.stem = pnn.Conv2D(3, channels, 7, 2, 3, bias_attr=False)
        self.bn = pnn.BatchNorm2D(channels)
        for count in LAYERS:
            for _ in range(count):
                layers.append(PaddleDense(channels))
                channels += GROWTH
            layers.append(PaddleTransition(channels))
            channels //= 2
        self.layers = pnn.Sequential(*layers)
        self.bn_last = pnn.BatchNorm2D(channels)
        self.head = pnn.Linear(channels, 10)

    def forward(self, x):
        x = PF.max_pool2d(PF.relu(self.bn(self.stem(x))), 3, 2, 1)
        x = PF.relu(self.bn_last(self.layers(x)))
        return self.head(paddle.flatten(PF.adaptive_avg_pool2d(x, 1), 1))


class TorchDense(tnn.Module):
    def __init__(self, channels):
        super().__init__()
        self.bn1 = tnn.BatchNorm2d(channels)
        self.conv1 = tnn.Conv2d(channels, 4 * GROWTH, 1, bias=False)
        self.bn2 = tnn.BatchNorm2d(4 * GROWTH)
        self.conv2 = tnn.Conv2d(4 * GROWTH, GROWTH, 3, padding=1, bias=False)

    def forward(self, x):
        y = self.conv1(TF.relu(self.bn1(x)))
        y = self.conv2(TF.relu(self.bn2(y)))
        return torch.cat([x, y], dim=1)


class TorchTransition(tnn.Module):
    def __init__(self, channels):
        super().__init__()
        self.bn = tnn.BatchNorm2d(channels)
        self.conv = tnn.Conv2d(channels, channels // 2, 1, bias=False)
        self.pool = tnn.AvgPool2d(2, 2)

    def forward(self, x):
        return self.pool(self.conv(TF.relu(self.bn(x))))


class TorchDenseNet(tnn.Module):
    def __init__(self):
        super().__init__()
        channels, layers = 2 * GROWTH, []
        self.stem = tnn.Conv2d(3, channels, 7, 2, 3, bias=False)
        self.bn = tnn.BatchNorm2d(channels)
        for count in LAYERS:
            for _ in range(count):
                layers.append(TorchDense(channels))
                channels += GROWTH
            layers.append(TorchTransition(channels))
            channels //= 2
        self.layers = tnn.Sequential(*layers)
        self.bn_last = tnn.BatchNorm2d(channels)
        self.head = tnn.Linear(channels, 10)

    def forward(self, x):
        x = TF.max_pool2d(TF.relu(self.bn(self.stem(x))), 3, 2, 1)
        x = TF.relu(self.bn_last(self.layers(x)))
        return self.head(torch.flatten(TF.adaptive_avg_pool2d(x, 1), 1))


paddle_model, torch_model = PaddleDenseNet, TorchDenseNet
