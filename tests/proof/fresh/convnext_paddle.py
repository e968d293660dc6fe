"""ConvNeXt blocks (Liu et al., 2022) with layer scale and stochastic depth, ported to Paddle."""

import paddle
import paddle.nn.functional as F
from paddle import nn


class ChannelNorm(nn.Layer):
    def __init__(self, d, epsilon=1e-6):
        super().__init__()
        self.weight = self.create_parameter([d], default_initializer=nn.initializer.Constant(1.0))
        self.bias = self.create_parameter([d], is_bias=True)
        self.epsilon = epsilon

    def forward(self, x):
        x = F.layer_norm(x.transpose([0, 2, 3, 1]), x.shape[1:2], self.weight, self.bias, self.epsilon)
        return x.transpose([0, 3, 1, 2])


def drop_path(x, rate, training):
    if rate == 0.0 or not training:
        return x
    keep = 1 - rate
    shape = [x.shape[0]] + [1] * (x.ndim - 1)
    mask = paddle.floor(paddle.rand(shape, dtype=x.dtype) + keep)
    return x / keep * mask


class Block(nn.Layer):
    def __init__(self, d, rate):
        super().__init__()
        self.dwconv = nn.Conv2D(d, d, 7, padding=3, groups=d)
        self.norm = nn.LayerNorm(d, epsilon=1e-6)
        self.pwconv1, self.pwconv2 = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
        self.gamma = self.create_parameter([d], default_initializer=nn.initializer.Constant(0.1))
        self.rate = rate

    def forward(self, x):
        y = self.dwconv(x)
        y = y.transpose([0, 2, 3, 1])
        y = self.pwconv2(F.gelu(self.pwconv1(self.norm(y))))
        y = self.gamma * y
        y = y.transpose([0, 3, 1, 2])
        return x + drop_path(y, self.rate, self.training)


class ConvNeXt(nn.Layer):
    def __init__(self, dims=(8, 12), depth=2, classes=5):
        super().__init__()
        rates = paddle.linspace(0, 0.4, depth * len(dims)).tolist()
        self.downsample, self.stages = nn.LayerList(), nn.LayerList()
        for stage, d in enumerate(dims):
            if stage:
                layers = [ChannelNorm(dims[stage - 1]), nn.Conv2D(dims[stage - 1], d, 2, stride=2)]
            else:
                layers = [nn.Conv2D(3, d, 4, stride=4), ChannelNorm(d)]
            self.downsample.append(nn.Sequential(*layers))
            self.stages.append(nn.Sequential(*(Block(d, rates[stage * depth + block]) for block in range(depth))))
        self.norm, self.head = nn.LayerNorm(dims[-1], epsilon=1e-6), nn.Linear(dims[-1], classes)

    def forward(self, x):
        for down, stage in zip(self.downsample, self.stages):
            x = stage(down(x))
        return self.head(self.norm(x.mean([-2, -1])))
