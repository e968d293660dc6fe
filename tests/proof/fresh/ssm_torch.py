"""A selective scan as in Mamba (Gu and Dao, 2023), in Torch."""

import torch
import torch.nn.functional as F
from torch import nn


class Mamba(nn.Module):
    def __init__(self, d=12, inner=16, n=4, rank=3):
        super().__init__()
        self.inner, self.n, self.rank = inner, n, rank
        self.norm = nn.LayerNorm(d)
        self.in_proj = nn.Linear(d, 2 * inner, bias=False)
        self.conv = nn.Conv1d(inner, inner, 4, groups=inner, padding=3)
        self.x_proj = nn.Linear(inner, rank + 2 * n, bias=False)
        self.dt_proj = nn.Linear(rank, inner)
        self.A_log = nn.Parameter(torch.log(torch.arange(1, n + 1).float().repeat(inner, 1)))
        self.D = nn.Parameter(torch.rand(inner) + 0.5)
        self.out_proj = nn.Linear(inner, d, bias=False)

    def forward(self, u):
        length = u.shape[1]
        x, z = self.in_proj(self.norm(u)).chunk(2, dim=-1)
        x = F.silu(self.conv(x.transpose(1, 2))[..., :length].transpose(1, 2))
        dt, B, C = self.x_proj(x).split([self.rank, self.n, self.n], dim=-1)
        dt = F.softplus(self.dt_proj(dt))
        A = -torch.exp(self.A_log)
        dA = torch.exp(dt.unsqueeze(-1) * A)
        dBx = dt.unsqueeze(-1) * B.unsqueeze(2) * x.unsqueeze(-1)
        h = torch.zeros(u.shape[0], self.inner, self.n, dtype=u.dtype)
        ys = []
        for t in range(length):
            h = dA[:, t] * h + dBx[:, t]
            ys.append((h * C[:, t].unsqueeze(1)).sum(-1))
        y = torch.stack(ys, dim=1) + x * self.D
        return u + self.out_proj(y * F.silu(z))
