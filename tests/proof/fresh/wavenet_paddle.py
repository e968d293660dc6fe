"""Gated causal dilated convolutions with skips (van den Oord et al., 2016), ported to Paddle."""

import math

import paddle
import paddle.nn.functional as F
from paddle import nn


class Block(nn.Layer):
    def __init__(self, c, skip, dilation):
        super().__init__()
        self.dilation = dilation
        self.conv = nn.Conv1D(c, 2 * c, 2, dilation=dilation)
        self.condition = nn.Conv1D(4, 2 * c, 1, bias_attr=False)
        self.res, self.skip = nn.Conv1D(c, c, 1), nn.Conv1D(c, skip, 1)

    def forward(self, x, condition):
        h = self.conv(F.pad(x, [self.dilation, 0], data_format="NCL"))
        h = h + self.condition(condition)
        a, b = paddle.split(h, 2, axis=1)
        h = F.tanh(a) * F.sigmoid(b)
        return x + self.res(h), self.skip(h)


class WaveNet(nn.Layer):
    def __init__(self, levels=16, c=6, skip=10, dilations=(1, 2, 4)):
        super().__init__()
        self.levels = levels
        self.start = nn.Conv1D(levels, c, 1)
        self.blocks = nn.LayerList([nn.LayerList([Block(c, skip, d) for d in dilations]) for _ in range(2)])
        self.out1, self.out2 = nn.Conv1D(skip, skip, 1), nn.Conv1D(skip, levels, 1)

    def encode(self, wave):
        mu = self.levels - 1
        squeezed = paddle.sign(wave) * paddle.log1p(mu * paddle.abs(wave)) / math.log1p(mu)
        return ((squeezed + 1) / 2 * mu + 0.5).astype("int64")

    def forward(self, wave, condition):
        symbols = self.encode(paddle.clip(wave, -1, 1))
        x = self.start(F.one_hot(symbols, self.levels).transpose([0, 2, 1]).astype(condition.dtype))
        skips = []
        for stack in self.blocks:
            for block in stack:
                x, skip = block(x, condition)
                skips.append(skip)
        logits = self.out2(F.relu(self.out1(F.relu(sum(skips)))))
        loss = F.cross_entropy(logits[:, :, :-1].transpose([0, 2, 1]), symbols[:, 1:])
        return {"logits": logits, "loss": loss}
