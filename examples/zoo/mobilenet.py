"""A small MobileNetV3 (Howard et al., 2019): depthwise convolutions, squeeze and excitation, hardswish."""

import paddle
import paddle.nn as pnn
import paddle.nn.functional as PF
import torch
import torch.nn as tnn
import torch.nn.functional as TF

from .resnet import batch as batch, paddle_step as paddle_step, torch_step as torch_step
from .training import Recipe

RECIPE = Recipe("RMSProp", rate=1e-3, schedule="cosine", decay=1e-5, clip=None)
# channels, expanded, width, kernel, stride, squeeze, hardswish
BLOCKS = (
    (8, 16, 8, 3, 1, True, False),
    (8, 24, 16, 3, 2, False, False),
    (16, 48, 24, 5, 2, True, True),
    (24, 72, 24, 5, 1, True, True),
)


class PaddleSqueeze(pnn.Layer):
    def __init__(self, channels):
        super().__init__()
        self.down = pnn.Conv2D(channels, channels // 4, 1)
        self.up = pnn.Conv2D(channels // 4, channels, 1)

    def forward(self, x):
        scale = PF.adaptive_avg_pool2d(x, 1)
        return x * PF.hardsigmoid(self.up(PF.relu(self.down(scale))))


class PaddleBlock(pnn.Layer):
    def __init__(self, channels, expanded, width, kernel, stride, squeeze, hardswish):
        super().__init__()
        self.expand = pnn.Conv2D(channels, expanded, 1, bias_attr=False)
        self.bn1 = pnn.BatchNorm2D(expanded)
        self.depthwise = pnn.Conv2D(expanded, expanded, kernel, stride, kernel // 2, groups=expanded, bias_attr=False)
        self.bn2 = pnn.BatchNorm2D(expanded)
        self.squeeze = PaddleSqueeze(expanded) if squeeze else None
        self.project = pnn.Conv2D(expanded, width, 1, bias_attr=False)
        self.bn3 = pnn.BatchNorm2D(width)
        self.act = pnn.Hardswish() if hardswish else pnn.ReLU()
        self.residual = stride == 1 and channels == width

    def forward(self, x):
        y = self.act(self.bn1(self.expand(x)))
        y = self.act(self.bn2(self.depthwise(y)))
        y = y if self.squeeze is None else self.squeeze(y)
        y = self.bn3(self.project(y))
        return x + y if self.residual else y


class PaddleMobileNet(pnn.Layer):
    def __init__(self):
        super().__init__()
        self.stem = pnn.Conv2D(3, 8, 3, 2, 1, bias_attr=False)
        self.bn = pnn.BatchNorm2D(8)
        self.blocks = pnn.Sequential(*(PaddleBlock(*block) for block in BLOCKS))
        self.last = pnn.Conv2D(24, 72, 1, bias_attr=False)
        self.bn_last = pnn.BatchNorm2D(72)
        self.hidden = pnn.Linear(72, 64)
        self.drop = pnn.Dropout(0.2)
        self.head = pnn.Linear(64, 10)

    def forward(self, x):
        x = self.blocks(PF.hardswish(self.bn(self.stem(x))))
        x = PF.hardswish(self.bn_last(self.last(x)))
        x = paddle.flatten(PF.adaptive_avg_pool2d(x, 1), 1)
        return self.head(self.drop(PF.hardswish(self.hidden(x))))


class TorchSqueeze(tnn.Module):
    def __init__(self, channels):
        super().__init__()
        self.down = tnn.Conv2d(channels, channels // 4, 1)
        self.up = tnn.Conv2d(channels // 4, channels, 1)

    def forward(self, x):
        scale = TF.adaptive_avg_pool2d(x, 1)
        return x * TF.hardsigmoid(self.up(TF.relu(self.down(scale))))


class TorchBlock(tnn.Module):
    def __init__(self, channels, expanded, width, kernel, stride, squeeze, hardswish):
        super().__init__()
        self.expand = tnn.Conv2d(channels, expanded, 1, bias=False)
        self.bn1 = tnn.BatchNorm2d(expanded)
        self.depthwise = tnn.Conv2d(expanded, expanded, kernel, stride, kernel // 2, groups=expanded, bias=False)
        self.bn2 = tnn.BatchNorm2d(expanded)
        self.squeeze = TorchSqueeze(expanded) if squeeze else None
        self.project = tnn.Conv2d(expanded, width, 1, bias=False)
        self.bn3 = tnn.BatchNorm2d(width)
        self.act = tnn.Hardswish() if hardswish else tnn.ReLU()
        self.residual = stride == 1 and channels == width

    def forward(self, x):
        y = self.act(self.bn1(self.expand(x)))
        y = self.act(self.bn2(self.depthwise(y)))
        y = y if self.squeeze is None else self.squeeze(y)
        y = self.bn3(self.project(y))
        return x + y if self.residual else y


class TorchMobileNet(tnn.Module):
    def __init__(self):
        super().__init__()
        self.stem = tnn.Conv2d(3, 8, 3, 2, 1, bias=False)
        self.bn = tnn.BatchNorm2d(8)
        self.blocks = tnn.Sequential(*(TorchBlock(*block) for block in BLOCKS))
        self.last = tnn.Conv2d(24, 72, 1, bias=False)
        self.bn_last = tnn.BatchNorm2d(72)
        self.hidden = tnn.Linear(72, 64)
        self.drop = tnn.Dropout(0.2)
        self.head = tnn.Linear(64, 10)

    def forward(self, x):
        x = self.blocks(TF.hardswish(self.bn(self.stem(x))))
        x = TF.hardswish(self.bn_last(self.last(x)))
        x = torch.flatten(TF.adaptive_avg_pool2d(x, 1), 1)
        return self.head(self.drop(TF.hardswish(self.hidden(x))))


paddle_model, torch_model = PaddleMobileNet, TorchMobileNet
