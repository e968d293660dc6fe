"""Grouped bottlenecks with squeeze and excitation (Xie et al., 2017; Hu et al., 2018), in Torch."""

import torch
import torch.nn.functional as F
from torch import nn


class SE(nn.Module):
    def __init__(self, c, r=4):
        super().__init__()
        self.fc1, self.fc2 = nn.Conv2d(c, c // r, 1), nn.Conv2d(c // r, c, 1)

    def forward(self, x):
        return x * torch.sigmoid(self.fc2(F.relu(self.fc1(F.adaptive_avg_pool2d(x, 1)))))


class Bottleneck(nn.Module):
    def __init__(self, inner, c, out, stride, groups):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inner, c, 1, bias=False), nn.BatchNorm2d(c)
        self.conv2, self.bn2 = nn.Conv2d(c, c, 3, stride, 1, groups=groups, bias=False), nn.BatchNorm2d(c)
        self.conv3, self.bn3, self.se = nn.Conv2d(c, out, 1, bias=False), nn.BatchNorm2d(out), SE(out)
        self.down = None
        if stride != 1 or inner != out:
            self.down = nn.Sequential(nn.AvgPool2d(stride, stride, ceil_mode=True, count_include_pad=False),
                                      nn.Conv2d(inner, out, 1, bias=False), nn.BatchNorm2d(out))  # fmt: skip

    def forward(self, x):
        skip = x if self.down is None else self.down(x)
        x = F.relu(self.bn1(self.conv1(x)), inplace=True)
        x = F.relu(self.bn2(self.conv2(x)), inplace=True)
        x = self.se(self.bn3(self.conv3(x)))
        x += skip
        return F.relu(x)


class ResNeXt(nn.Module):
    def __init__(self, c=8, groups=4, classes=5):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, c, 3, 2, 1, bias=False), nn.BatchNorm2d(c), nn.ReLU(inplace=True))
        self.pool = nn.MaxPool2d(3, 2, 1)
        self.blocks = nn.Sequential(Bottleneck(c, c, 2 * c, 1, groups), Bottleneck(2 * c, c, 2 * c, 1, groups),
                                    Bottleneck(2 * c, 2 * c, 4 * c, 2, groups))  # fmt: skip
        self.fc = nn.Linear(4 * c, classes)

    def forward(self, x):
        x = self.blocks(self.pool(self.stem(x)))
        return self.fc(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))
