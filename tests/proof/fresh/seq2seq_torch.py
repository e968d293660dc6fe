"""A GRU encoder and a decoder with additive attention (Bahdanau et al., 2015), in Torch."""

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.query, self.key, self.score = nn.Linear(d, d, bias=False), nn.Linear(2 * d, d), nn.Linear(d, 1, bias=False)

    def forward(self, state, memory, mask):
        energy = self.score(torch.tanh(self.query(state).unsqueeze(1) + self.key(memory))).squeeze(-1)
        weights = torch.softmax(energy.masked_fill(~mask, -1e9), dim=-1)
        return torch.bmm(weights.unsqueeze(1), memory).squeeze(1), weights


class Seq2Seq(nn.Module):
    def __init__(self, words=20, d=8):
        super().__init__()
        self.source, self.target = nn.Embedding(words, d, padding_idx=0), nn.Embedding(words, d)
        self.encoder = nn.GRU(d, d, batch_first=True, bidirectional=True)
        self.bridge, self.attention = nn.Linear(2 * d, d), Attention(d)
        self.cell, self.out = nn.GRUCell(3 * d, d), nn.Linear(4 * d, words)

    def forward(self, source, target):
        mask = source != 0
        memory, last = self.encoder(self.source(source))
        state = torch.tanh(self.bridge(torch.cat([last[0], last[1]], dim=-1)))
        logits, maps = [], []
        for step in range(target.shape[1]):
            word = self.target(target[:, step])
            context, weights = self.attention(state, memory, mask)
            state = self.cell(torch.cat([word, context], dim=-1), state)
            logits.append(self.out(torch.cat([state, context, word], dim=-1)))
            maps.append(weights)
        return {"logits": torch.stack(logits, 1), "attention": torch.stack(maps, 1)}
