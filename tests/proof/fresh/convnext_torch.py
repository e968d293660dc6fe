"""ConvNeXt blocks (Liu et al., 2022) with layer scale and stochastic depth, in Torch."""

import torch
import torch.nn.functional as F
from torch import nn


class LayerNorm2d(nn.LayerNorm):
    def forward(self, x):
        return F.layer_norm(x.permute(0, 2, 3, 1), self.normalized_shape, self.weight, self.bias, self.eps).permute(0, 3, 1, 2)


def drop_path(x, rate, training):
    if rate == 0.0 or not training:
        return x
    keep = 1 - rate
    mask = torch.floor(keep + torch.rand((x.shape[0], 1, 1, 1), dtype=x.dtype))
    return x.div(keep) * mask


class Block(nn.Module):
    def __init__(self, d, rate):
        super().__init__()
        self.dwconv = nn.Conv2d(d, d, 7, padding=3, groups=d)
        self.norm = nn.LayerNorm(d, eps=1e-6)
        self.pwconv1, self.pwconv2 = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
        self.gamma = nn.Parameter(0.1 * torch.ones(d) + 0.01 * torch.randn(d))
        self.rate = rate

    def forward(self, x):
        skip = x
        x = self.dwconv(x).permute(0, 2, 3, 1)
        x = self.pwconv2(F.gelu(self.pwconv1(self.norm(x))))
        x = (self.gamma * x).permute(0, 3, 1, 2)
        return skip + drop_path(x, self.rate, self.training)


class ConvNeXt(nn.Module):
    def __init__(self, dims=(8, 12), depth=2, classes=5):
        super().__init__()
        rates = [rate.item() for rate in torch.linspace(0, 0.4, depth * len(dims))]
        self.downsample, self.stages = nn.ModuleList(), nn.ModuleList()
        for stage, d in enumerate(dims):
            if stage:
                layers = [LayerNorm2d(dims[stage - 1], eps=1e-6), nn.Conv2d(dims[stage - 1], d, 2, stride=2)]
            else:
                layers = [nn.Conv2d(3, d, 4, stride=4), LayerNorm2d(d, eps=1e-6)]
            self.downsample.append(nn.Sequential(*layers))
            self.stages.append(nn.Sequential(*(Block(d, rates[stage * depth + block]) for block in range(depth))))
        self.norm, self.head = nn.LayerNorm(dims[-1], eps=1e-6), nn.Linear(dims[-1], classes)

    def forward(self, x):
        for down, stage in zip(self.downsample, self.stages):
            x = stage(down(x))
        return self.head(self.norm(x.mean([-2, -1])))
