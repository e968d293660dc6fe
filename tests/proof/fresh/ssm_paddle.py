"""A selective scan as in Mamba (Gu and Dao, 2023), ported to Paddle as somebody would who reads the original."""

import paddle
import paddle.nn.functional as F
from paddle import nn


class Mamba(nn.Layer):
    def __init__(self, d=12, inner=16, n=4, rank=3):
        super().__init__()
        self.inner, self.n, self.rank = inner, n, rank
        self.norm = nn.LayerNorm(d)
        self.in_proj = nn.Linear(d, 2 * inner, bias_attr=False)
        self.conv = nn.Conv1D(inner, inner, 4, groups=inner, padding=3)
        self.x_proj = nn.Linear(inner, rank + 2 * n, bias_attr=False)
        self.dt_proj = nn.Linear(rank, inner)
        self.A_log = self.create_parameter([inner, n])
        self.D = self.create_parameter([inner])
        self.out_proj = nn.Linear(inner, d, bias_attr=False)

    def forward(self, u):
        length = u.shape[1]
        x, z = paddle.chunk(self.in_proj(self.norm(u)), 2, axis=-1)
        x = F.silu(self.conv(x.transpose([0, 2, 1]))[..., :length].transpose([0, 2, 1]))
        dt, B, C = paddle.split(self.x_proj(x), [self.rank, self.n, self.n], axis=-1)
        dt = F.softplus(self.dt_proj(dt))
        A = -paddle.exp(self.A_log)
        dA = paddle.exp(dt.unsqueeze(-1) * A)
        dBx = dt.unsqueeze(-1) * B.unsqueeze(2) * x.unsqueeze(-1)
        h = paddle.zeros([u.shape[0], self.inner, self.n], dtype=u.dtype)
        ys = []
        for t in range(length):
            h = dA[:, t] * h + dBx[:, t]
            ys.append((h * C[:, t].unsqueeze(1)).sum(-1))
        y = paddle.stack(ys, axis=1) + x * self.D
        return u + self.out_proj(y * F.silu(z))
