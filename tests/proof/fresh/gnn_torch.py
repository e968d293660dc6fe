"""A graph convolution (Kipf and Welling, 2017) and a graph attention (Velickovic et al., 2018) by index_add, in Torch."""

import torch
import torch.nn.functional as F
from torch import nn


class GCN(nn.Module):
    def __init__(self, d, out):
        super().__init__()
        self.linear, self.bias = nn.Linear(d, out, bias=False), nn.Parameter(torch.randn(out) * 0.1)

    def forward(self, x, source, target):
        n = x.shape[0]
        loops = torch.arange(n)
        source, target = torch.cat([source, loops]), torch.cat([target, loops])
        degree = torch.zeros(n, dtype=x.dtype).index_add_(0, target, torch.ones(len(target), dtype=x.dtype))
        inverse = degree.pow(-0.5)
        norm = inverse[source] * inverse[target]
        messages = self.linear(x)[source] * norm[:, None]
        return torch.zeros(n, messages.shape[1], dtype=x.dtype).index_add_(0, target, messages) + self.bias


class GAT(nn.Module):
    def __init__(self, d, heads, size):
        super().__init__()
        self.heads, self.size = heads, size
        self.linear = nn.Linear(d, heads * size, bias=False)
        self.left, self.right = nn.Parameter(torch.randn(heads, size)), nn.Parameter(torch.randn(heads, size))

    def forward(self, x, source, target):
        h = self.linear(x).view(-1, self.heads, self.size)
        score = (h * self.left).sum(-1)[source] + (h * self.right).sum(-1)[target]
        score = F.leaky_relu(score, 0.2).exp()
        total = torch.zeros(x.shape[0], self.heads, dtype=x.dtype).index_add_(0, target, score)
        weight = score / (total[target] + 1e-16)
        out = torch.zeros_like(h).index_add_(0, target, h[source] * weight[:, :, None])
        return out.flatten(1)


class Net(nn.Module):
    def __init__(self, d=5, hidden=8, classes=3):
        super().__init__()
        self.one, self.two, self.head = GCN(d, hidden), GAT(hidden, 2, 4), nn.Linear(hidden, classes)

    def forward(self, x, edges):
        source, target = edges
        x = F.elu(self.two(F.relu(self.one(x, source, target)), source, target))
        return F.log_softmax(self.head(x), dim=-1)
