"""A tagger with the likelihood of a linear-chain CRF (Lafferty et al., 2001), in Torch."""

import torch
from torch import nn


class CRF(nn.Module):
    def __init__(self, tags):
        super().__init__()
        self.start, self.end = nn.Parameter(torch.randn(tags) * 0.5), nn.Parameter(torch.randn(tags) * 0.5)
        self.transitions = nn.Parameter(torch.randn(tags, tags) * 0.5)

    def score(self, emissions, tags, mask):
        rows = torch.arange(tags.shape[0])
        score = self.start[tags[:, 0]] + emissions[rows, 0, tags[:, 0]]
        for step in range(1, tags.shape[1]):
            here = self.transitions[tags[:, step - 1], tags[:, step]] + emissions[rows, step, tags[:, step]]
            score = score + here * mask[:, step]
        last = mask.long().sum(1) - 1
        return score + self.end[tags[rows, last]]

    def partition(self, emissions, mask):
        alpha = self.start + emissions[:, 0]
        for step in range(1, emissions.shape[1]):
            following = torch.logsumexp(alpha.unsqueeze(2) + self.transitions + emissions[:, step].unsqueeze(1), dim=1)
            alpha = torch.where(mask[:, step].unsqueeze(1).bool(), following, alpha)
        return torch.logsumexp(alpha + self.end, dim=1)

    def forward(self, emissions, tags, mask):
        return (self.partition(emissions, mask) - self.score(emissions, tags, mask)).sum() / mask.sum()


class Tagger(nn.Module):
    def __init__(self, words=20, d=6, tags=4):
        super().__init__()
        self.embed, self.lstm = nn.Embedding(words, d), nn.LSTM(d, d, batch_first=True, bidirectional=True)
        self.out, self.crf = nn.Linear(2 * d, tags), CRF(tags)

    def forward(self, words, tags, mask):
        emissions = self.out(self.lstm(self.embed(words))[0])
        return {"emissions": emissions, "loss": self.crf(emissions, tags, mask.to(emissions.dtype))}
