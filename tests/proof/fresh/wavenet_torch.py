"""Gated causal dilated convolutions with skips (van den Oord et al., 2016), in Torch."""

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, c, skip, dilation):
        super().__init__()
        self.dilation = dilation
        self.conv = nn.Conv1d(c, 2 * c, 2, dilation=dilation)
        self.condition = nn.Conv1d(4, 2 * c, 1, bias=False)
        self.res, self.skip = nn.Conv1d(c, c, 1), nn.Conv1d(c, skip, 1)

    def forward(self, x, condition):
        h = self.conv(F.pad(x, (self.dilation, 0))) + self.condition(condition)
        a, b = h.chunk(2, dim=1)
        h = torch.tanh(a) * torch.sigmoid(b)
        return x + self.res(h), self.skip(h)


class WaveNet(nn.Module):
    def __init__(self, levels=16, c=6, skip=10, dilations=(1, 2, 4)):
        super().__init__()
        self.levels = levels
        self.start = nn.Conv1d(levels, c, 1)
        self.blocks = nn.ModuleList([nn.ModuleList([Block(c, skip, d) for d in dilations]) for _ in range(2)])
        self.out1, self.out2 = nn.Conv1d(skip, skip, 1), nn.Conv1d(skip, levels, 1)

    def encode(self, wave):
        mu = self.levels - 1
        squeezed = torch.sign(wave) * torch.log1p(mu * wave.abs()) / torch.log1p(torch.tensor(float(mu), dtype=wave.dtype))
        return ((squeezed + 1) / 2 * mu + 0.5).long()

    def forward(self, wave, condition):
        symbols = self.encode(wave.clamp(-1, 1))
        x = self.start(F.one_hot(symbols, self.levels).to(condition.dtype).transpose(1, 2))
        skips = 0
        for stack in self.blocks:
            for block in stack:
                x, skip = block(x, condition)
                skips = skips + skip
        logits = self.out2(F.relu(self.out1(F.relu(skips))))
        return {"logits": logits, "loss": F.cross_entropy(logits[:, :, :-1], symbols[:, 1:])}
