"""CTRL in Torch: a pre-LayerNorm decoder with fixed sinusoidal positions."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from .config import Ctrl

OUT_OF_SIGHT = -1e4  # added to the score of a token that must not be looked at


def angle_defn(positions, features, width):
    """Angles of the position table, by the formula of CTRL's authors."""
    return positions * (1 / torch.pow(10000, (2 * (features // 2)) / width))


def positional_encoding(count: int, width: int, dtype) -> torch.Tensor:
    """The position table: sines in the first half of a row, cosines in the second."""
    angles = angle_defn(torch.arange(count, dtype=dtype).unsqueeze(1), torch.arange(width, dtype=dtype).unsqueeze(0), width)
    return torch.cat([torch.sin(angles[:, 0::2]), torch.cos(angles[:, 1::2])], dim=-1)


class Attention(nn.Module):
    """Multi-head attention to the tokens before."""

    def __init__(self, config: Ctrl):
        super().__init__()
        self.heads, self.head_size = config.heads, config.width // config.heads
        self.query = nn.Linear(config.width, config.width)
        self.key = nn.Linear(config.width, config.width)
        self.value = nn.Linear(config.width, config.width)
        self.output = nn.Linear(config.width, config.width)

    def split_heads(self, x):
        batch, length, _ = x.shape
        return x.reshape(batch, length, self.heads, self.head_size).permute(0, 2, 1, 3)

    def forward(self, x, future, padding):
        query, key, value = (self.split_heads(project(x)) for project in (self.query, self.key, self.value))
        scores = torch.matmul(query, key.transpose(-1, -2)) / np.sqrt(self.head_size)
        scores = scores + future * OUT_OF_SIGHT
        scores = scores + padding * OUT_OF_SIGHT
        context = torch.matmul(torch.softmax(scores, dim=-1), value)
        return self.output(context.permute(0, 2, 1, 3).reshape(x.shape))


class Layer(nn.Module):
    """Attention and feed-forward part, each behind a LayerNorm and beside a residual."""

    def __init__(self, config: Ctrl):
        super().__init__()
        self.norm1 = nn.LayerNorm(config.width, eps=config.epsilon)
        self.attention = Attention(config)
        self.norm2 = nn.LayerNorm(config.width, eps=config.epsilon)
        self.linear1 = nn.Linear(config.width, config.feed_forward)
        self.linear2 = nn.Linear(config.feed_forward, config.width)

    def forward(self, x, future, padding):
        x = x + self.attention(self.norm1(x), future, padding)
        return x + self.linear2(torch.relu(self.linear1(self.norm2(x))))


class CtrlTorch(nn.Module):
    """Token ids to hidden states, logits and the language model's loss, all of them noted."""

    def __init__(self, config: Ctrl):
        super().__init__()
        self.scale = np.sqrt(config.width)
        self.embedding = nn.Embedding(config.vocabulary, config.width)
        table = positional_encoding(config.positions, config.width, torch.get_default_dtype())
        self.register_buffer("positions", table, persistent=False)
        self.layers = nn.ModuleList([Layer(config) for _ in range(config.layers)])
        self.norm = nn.LayerNorm(config.width, eps=config.epsilon)
        self.head = nn.Linear(config.width, config.vocabulary)

    def forward(self, ids, present, note):
        length = ids.shape[1]
        x = self.embedding(ids) * self.scale + self.positions[:length]
        future = torch.triu(torch.ones(length, length, dtype=x.dtype), diagonal=1)
        padding = (1 - present.to(x.dtype)).unsqueeze(1).unsqueeze(1)
        note("hidden state 0", x)
        for number, layer in enumerate(self.layers, 1):
            x = layer(x, future, padding)
            if number < len(self.layers):
                note(f"hidden state {number}", x)
        x = note(f"hidden state {len(self.layers)}", self.norm(x))
        logits = note("logits", self.head(x))
        return note("loss", self.loss(logits, ids))

    def loss(self, logits, ids):
        """Cross entropy of the next tokens, spelled out."""
        guesses, targets = logits[:, :-1], ids[:, 1:].unsqueeze(-1)
        chosen = torch.take_along_dim(guesses, targets, dim=-1)
        return torch.mean(torch.logsumexp(guesses, dim=-1, keepdim=True) - chosen)
