"""Reformer in Torch: local and LSH attention in two residual streams.

LSH layers look at the whole sequence, as the original does when it is no longer than one chunk; then nothing is hashed, and
what is left of them are shared queries and keys of unit length. Steps are numbered as in the report, 26 to a layer.
"""

from __future__ import annotations

import torch
from torch import nn

from .config import Reformer

MASKED, OWN = -1e9, -1e5  # the scores of a token that must not be looked at, and of oneself (if there is another)
STEPS_OF_LAYER = 26


def len_norm(x, epsilon=1e-6):
    """Vectors of root mean square 1."""
    variance = torch.mean(x**2, -1, keepdim=True)
    return x * torch.rsqrt(variance + epsilon)


def len_and_dim_norm(vectors, head_size):
    """Vectors of length 1."""
    vectors = len_norm(vectors)
    return vectors * torch.rsqrt(torch.tensor(head_size, dtype=vectors.dtype))


class Attention(nn.Module):
    """What both kinds share: queries and keys to weighted values."""

    def __init__(self, config: Reformer):
        super().__init__()
        self.heads, self.head_size, self.chunk = config.heads, config.head_size, config.chunk
        self.value = nn.Linear(config.width, config.heads * config.head_size, bias=False)

    def split_heads(self, x):
        batch, length, _ = x.shape
        return x.reshape(batch, length, self.heads, self.head_size).permute(0, 2, 1, 3)

    def merge_heads(self, x):
        return x.permute(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], self.heads * self.head_size)

    def indices(self, x):
        batch, length, _ = x.shape
        return torch.tile(torch.arange(length), [batch, self.heads, 1])

    def attend(self, query, key, value, query_indices, key_indices, note):
        scores = note(10, torch.matmul(query, key.transpose(-1, -2)))
        scores = self.mask(scores, query_indices.unsqueeze(-1), key_indices.unsqueeze(-2), note)
        logits = note(13, torch.logsumexp(scores, dim=-1, keepdim=True))
        weights = note(14, torch.exp(scores - logits))
        return note(15, torch.matmul(weights, value))

    def mask(self, scores, query_indices, key_indices, note):
        seen = note(11, query_indices >= key_indices)
        return note(12, torch.where(seen, scores, torch.tensor(MASKED, dtype=scores.dtype)))


class LocalAttention(Attention):
    """Each chunk of the sequence looks at itself and the chunk before."""

    def __init__(self, config: Reformer):
        super().__init__(config)
        self.query = nn.Linear(config.width, config.heads * config.head_size, bias=False)
        self.key = nn.Linear(config.width, config.heads * config.head_size, bias=False)

    def split_chunks(self, x):
        batch, heads, length, *rest = x.shape
        return x.reshape(batch, heads, length // self.chunk, self.chunk, *rest)

    def look_at_own(self, x):
        """Chunks side by side with the heads: Paddle's logsumexp takes no more than four axes."""
        return self.split_chunks(x).flatten(1, 2)

    def look_back(self, x):
        """The same with the chunk before in front of each; the mask hides the last chunk from the first."""
        chunks = self.split_chunks(x)
        before = torch.cat([chunks[:, :, -1:], chunks[:, :, :-1]], dim=2)
        return torch.cat([before, chunks], dim=3).flatten(1, 2)

    def forward(self, x, note):
        query, key, value = note(2, self.query(x)), note(3, self.key(x)), note(4, self.value(x))
        query, key = note(5, self.split_heads(query)), note(6, self.split_heads(key))
        value = note(7, self.split_heads(value))
        key = note(8, key / torch.sqrt(torch.tensor(self.head_size, dtype=key.dtype)))
        indices = note(9, self.indices(x))
        seen = self.look_back(key), self.look_back(value)
        context = self.attend(self.look_at_own(query), *seen, self.look_at_own(indices), self.look_back(indices), note)
        return note(16, self.merge_heads(context.reshape(query.shape)))


class LshAttention(Attention):
    """Queries are their own keys, and look at the whole sequence."""

    def __init__(self, config: Reformer):
        super().__init__(config)
        self.query_key = nn.Linear(config.width, config.heads * config.head_size, bias=False)

    def forward(self, x, note):
        query, value = note(2, self.query_key(x)), note(4, self.value(x))
        query, value = note(5, self.split_heads(query)), note(7, self.split_heads(value))
        key = note(8, len_and_dim_norm(query, self.head_size))
        indices = note(9, self.indices(x))
        return note(16, self.merge_heads(self.attend(query, key, value, indices, indices, note)))

    def mask(self, scores, query_indices, key_indices, note):
        scores = super().mask(scores, query_indices, key_indices, note)
        return torch.where(query_indices != key_indices, scores, torch.tensor(OWN, dtype=scores.dtype))


class Layer(nn.Module):
    """The two streams: attention adds to one, the feed-forward part to the other."""

    def __init__(self, config: Reformer, kind: str):
        super().__init__()
        width = config.heads * config.head_size
        self.norm1 = nn.LayerNorm(config.width, eps=config.epsilon)
        self.attention = {"local": LocalAttention, "lsh": LshAttention}[kind](config)
        self.dense = nn.Linear(width, config.width, bias=False)
        self.norm2 = nn.LayerNorm(config.width, eps=config.epsilon)
        self.linear1 = nn.Linear(config.width, config.feed_forward)
        self.linear2 = nn.Linear(config.feed_forward, config.width)

    def forward(self, previous, hidden, note):
        context = note(17, self.attention(note(1, self.norm1(note(0, hidden))), note))
        attended = note(18, self.dense(context))
        attended = note(20, note(19, previous) + attended)
        hidden = note(21, hidden)
        fed = note(22, self.norm2(attended))
        fed = note(23, torch.relu(self.linear1(fed)))
        return attended, note(25, hidden + note(24, self.linear2(fed)))


class ReformerTorch(nn.Module):
    """Token ids to the concatenated streams and logits; every step is noted, under its number where it has one."""

    def __init__(self, config: Reformer):
        super().__init__()
        rows, columns = self.axes = config.axes
        half = config.width // 2
        self.word_embedding = nn.Embedding(config.vocabulary, config.width)
        self.row_embedding = nn.Parameter(torch.zeros(rows, 1, half))
        self.column_embedding = nn.Parameter(torch.zeros(1, columns, half))
        self.layers = nn.ModuleList([Layer(config, kind) for kind in config.attention])
        self.norm = nn.LayerNorm(2 * config.width, eps=config.epsilon)
        self.head = nn.Linear(2 * config.width, config.vocabulary)

    def positions(self):
        halves = [table.expand(*self.axes, table.shape[-1]) for table in (self.row_embedding, self.column_embedding)]
        return torch.cat(halves, dim=-1).reshape(self.axes[0] * self.axes[1], -1)

    def forward(self, ids, note):
        hidden = previous = self.word_embedding(ids) + self.positions()
        for number, layer in enumerate(self.layers):
            first = number * STEPS_OF_LAYER
            previous, hidden = layer(previous, hidden, lambda step, x, first=first: note(first + step, x))
        x = note("final norm", self.norm(torch.cat([previous, hidden], dim=-1)))
        return note("logits", self.head(x))
