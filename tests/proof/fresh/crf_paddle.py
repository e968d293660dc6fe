"""A tagger with the likelihood of a linear-chain CRF (Lafferty et al., 2001), ported to Paddle."""

import paddle
import paddle.nn.functional as F
from paddle import nn


class CRF(nn.Layer):
    def __init__(self, tags):
        super().__init__()
        self.tags = tags
        self.start, self.end = self.create_parameter([tags]), self.create_parameter([tags])
        self.transitions = self.create_parameter([tags, tags])

    def score(self, emissions, tags, mask):
        own = paddle.take_along_axis(emissions, tags.unsqueeze(-1), axis=2).squeeze(-1)
        pairs = tags[:, :-1] * self.tags + tags[:, 1:]
        moves = paddle.gather(self.transitions.flatten(), pairs.flatten()).reshape(pairs.shape)
        score = self.start[tags[:, 0]] + own[:, 0] + ((moves + own[:, 1:]) * mask[:, 1:]).sum(axis=1)
        last = (mask.sum(axis=1) - 1).astype("int64")
        return score + self.end[paddle.sum(tags * F.one_hot(last, tags.shape[1]).astype(tags.dtype), axis=1)]

    def partition(self, emissions, mask):
        alpha = self.start.unsqueeze(0) + emissions[:, 0]
        for step in range(1, emissions.shape[1]):
            scores = alpha.unsqueeze(-1) + self.transitions.unsqueeze(0) + emissions[:, step].unsqueeze(1)
            keep = mask[:, step].unsqueeze(-1)
            alpha = paddle.logsumexp(scores, axis=1) * keep + alpha * (1 - keep)
        return paddle.logsumexp(alpha + self.end, axis=-1)

    def forward(self, emissions, tags, mask):
        likelihood = self.score(emissions, tags, mask) - self.partition(emissions, mask)
        return -likelihood.sum() / mask.sum()


class Tagger(nn.Layer):
    def __init__(self, words=20, d=6, tags=4):
        super().__init__()
        self.embed, self.lstm = nn.Embedding(words, d), nn.LSTM(d, d, direction="bidirect")
        self.out, self.crf = nn.Linear(2 * d, tags), CRF(tags)

    def forward(self, words, tags, mask):
        emissions = self.out(self.lstm(self.embed(words))[0])
        return {"emissions": emissions, "loss": self.crf(emissions, tags, mask.astype(emissions.dtype))}
