"""Experts chosen by a router, in Torch."""

import torch
import torch.nn.functional as F
from torch import nn


class Expert(nn.Module):
    def __init__(self, d, inner):
        super().__init__()
        self.up, self.gate, self.down = nn.Linear(d, inner), nn.Linear(d, inner), nn.Linear(inner, d)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class MoE(nn.Module):
    def __init__(self, d=12, inner=16, experts=4, k=2):
        super().__init__()
        self.k = k
        self.norm = nn.LayerNorm(d)
        self.router = nn.Linear(d, experts, bias=False)
        self.experts = nn.ModuleList(Expert(d, inner) for _ in range(experts))

    def forward(self, x):
        flat = self.norm(x).reshape(-1, x.shape[-1])
        weights, chosen = torch.topk(F.softmax(self.router(flat), dim=-1), self.k, dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        out = torch.zeros_like(flat)
        for number, expert in enumerate(self.experts):
            rows, place = torch.where(chosen == number)
            if rows.numel():
                out.index_add_(0, rows, expert(flat[rows]) * weights[rows, place, None])
        return x + out.reshape(x.shape)
