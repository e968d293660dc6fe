"""Top-2 routing with a capacity and a balancing loss (Lepikhin et al., 2021), in Torch."""

import torch
import torch.nn.functional as F
from torch import nn


class Experts(nn.Module):
    def __init__(self, d=8, inner=12, experts=4, capacity=4, k=2):
        super().__init__()
        self.experts, self.capacity, self.k = experts, capacity, k
        self.router = nn.Linear(d, experts, bias=False)
        self.w1, self.b1 = nn.Parameter(torch.randn(experts, d, inner) * 0.3), nn.Parameter(torch.randn(experts, 1, inner) * 0.1)
        self.w2, self.b2 = nn.Parameter(torch.randn(experts, inner, d) * 0.3), nn.Parameter(torch.randn(experts, 1, d) * 0.1)

    def forward(self, x):
        tokens = x.reshape(-1, x.shape[-1])
        gates = F.softmax(self.router(tokens), dim=-1)
        weights, chosen = gates.topk(self.k, dim=-1)
        weights = weights / (weights.sum(dim=-1, keepdim=True) + 1e-9)
        flat = chosen.t().reshape(-1)  # all first choices come before all second ones
        taken = F.one_hot(flat, self.experts)
        place = ((taken.cumsum(0) - 1) * taken).sum(-1)
        fitting = place < self.capacity
        token = torch.arange(tokens.shape[0]).repeat(self.k)[fitting]
        slot = (flat * self.capacity + place)[fitting]
        buffer = tokens.new_zeros(self.experts * self.capacity, tokens.shape[-1]).index_add(0, slot, tokens[token])
        hidden = F.relu(torch.bmm(buffer.view(self.experts, self.capacity, -1), self.w1) + self.b1)
        made = (torch.bmm(hidden, self.w2) + self.b2).reshape(self.experts * self.capacity, -1)
        scale = weights.t().reshape(-1)[fitting]
        out = torch.zeros_like(tokens).index_add(0, token, made[slot] * scale[:, None])
        share = F.one_hot(chosen[:, 0], self.experts).to(gates.dtype).mean(0)
        balance = self.experts * (share * gates.mean(0)).sum()
        return out.view_as(x), balance
