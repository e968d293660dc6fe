"""A small U-Net, in Torch."""

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, cin, cout, groups=4):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, 3, padding=1)
        self.norm = nn.GroupNorm(groups, cout)
        self.skip = nn.Conv2d(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, x):
        return F.silu(self.norm(self.conv(x))) + self.skip(x)


class UNet(nn.Module):
    def __init__(self, c=8):
        super().__init__()
        self.d1, self.d2 = Block(3, c), Block(c, 2 * c)
        self.mid = Block(2 * c, 2 * c)
        self.u1 = nn.ConvTranspose2d(2 * c, c, 4, stride=2, padding=1)
        self.b1 = Block(2 * c, c)
        self.out = nn.Conv2d(c, 3, 3, padding=1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.avg_pool2d(a, 3, stride=2, padding=1))
        m = self.mid(b)
        low = F.interpolate(F.max_pool2d(m, 2), scale_factor=2, mode="bilinear", align_corners=False)
        u = self.u1(m + low)
        h = self.b1(torch.cat([u, a], dim=1))
        return self.out(h)
