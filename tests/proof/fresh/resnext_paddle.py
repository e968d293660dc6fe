"""Grouped bottlenecks with squeeze and excitation (Xie et al., 2017; Hu et al., 2018), ported to Paddle."""

import paddle.nn.functional as F
from paddle import nn


class SE(nn.Layer):
    def __init__(self, c, r=4):
        super().__init__()
        self.fc1, self.fc2 = nn.Conv2D(c, c // r, 1), nn.Conv2D(c // r, c, 1)

    def forward(self, x):
        scale = x.mean(axis=[2, 3], keepdim=True)
        scale = self.fc2(F.relu(self.fc1(scale)))
        return x * F.sigmoid(scale)


class Bottleneck(nn.Layer):
    def __init__(self, inner, c, out, stride, groups):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2D(inner, c, 1, bias_attr=False), nn.BatchNorm2D(c)
        self.conv2, self.bn2 = nn.Conv2D(c, c, 3, stride, 1, groups=groups, bias_attr=False), nn.BatchNorm2D(c)
        self.conv3, self.bn3, self.se = nn.Conv2D(c, out, 1, bias_attr=False), nn.BatchNorm2D(out), SE(out)
        self.down = None
        if stride != 1 or inner != out:
            self.down = nn.Sequential(
                nn.AvgPool2D(stride, stride, ceil_mode=True), nn.Conv2D(inner, out, 1, bias_attr=False), nn.BatchNorm2D(out)
            )

    def forward(self, x):
        skip = x if self.down is None else self.down(x)
        x = F.relu_(self.bn1(self.conv1(x)))
        x = F.relu_(self.bn2(self.conv2(x)))
        x = self.se(self.bn3(self.conv3(x)))
        return F.relu(x.add_(skip))


class ResNeXt(nn.Layer):
    def __init__(self, c=8, groups=4, classes=5):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2D(3, c, 3, 2, 1, bias_attr=False), nn.BatchNorm2D(c), nn.ReLU())
        self.pool = nn.MaxPool2D(3, 2, 1)
        self.blocks = nn.Sequential(
            Bottleneck(c, c, 2 * c, 1, groups),
            Bottleneck(2 * c, c, 2 * c, 1, groups),
            Bottleneck(2 * c, 2 * c, 4 * c, 2, groups),
        )
        self.fc = nn.Linear(4 * c, classes)

    def forward(self, x):
        x = self.blocks(self.pool(self.stem(x)))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))
