"""A decoder that goes over segments with a memory of the last ones, which no gradient enters (Dai et al., 2019), in Torch."""

import torch
import torch.nn.functional as F
from torch import nn


class Layer(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.query, self.both = nn.Linear(d, d, bias=False), nn.Linear(d, 2 * d, bias=False)
        self.out, self.norm1, self.norm2 = nn.Linear(d, d, bias=False), nn.LayerNorm(d), nn.LayerNorm(d)
        self.up, self.down = nn.Linear(d, 2 * d), nn.Linear(2 * d, d)
        self.slope = nn.Parameter(torch.tensor([2.0 ** -(head + 1) for head in range(heads)]))

    def forward(self, x, memory):
        b, n, d = x.shape
        seen = torch.cat([memory, x], dim=1)
        total = seen.shape[1]
        q = self.query(x).view(b, n, self.heads, -1).transpose(1, 2)
        k, v = self.both(seen).view(b, total, 2, self.heads, -1).permute(2, 0, 3, 1, 4)
        back = torch.arange(total)[None, :] - torch.arange(total - n, total)[:, None]
        scores = q @ k.transpose(-1, -2) * (d // self.heads) ** -0.5
        scores = scores + self.slope[:, None, None] * back.clamp(max=0)
        scores = scores.masked_fill(back > 0, float("-inf"))
        x = self.norm1(x + self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d)))
        return self.norm2(x + self.down(F.relu(self.up(x))))


class Memory(nn.Module):
    def __init__(self, words=15, d=8, heads=2, layers=2, length=3):
        super().__init__()
        self.length = length
        self.embed, self.scale = nn.Embedding(words, d), d**0.5
        self.layers = nn.ModuleList(Layer(d, heads) for _ in range(layers))
        self.bias = nn.Parameter(torch.randn(words) * 0.1)

    def forward(self, ids):
        memories = [self.embed.weight.new_zeros(ids.shape[0], 0, self.embed.weight.shape[1]) for _ in self.layers]
        logits = []
        for part in ids.split(4, dim=1):
            x = self.embed(part) * self.scale
            for place, layer in enumerate(self.layers):
                seen = memories[place]
                memories[place] = torch.cat([seen, x], dim=1)[:, -self.length :].detach()
                x = layer(x, seen)
            logits.append(F.linear(x, self.embed.weight, self.bias))
        return {"logits": torch.cat(logits, dim=1), "memories": memories}
