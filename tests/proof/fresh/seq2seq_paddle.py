"""A GRU encoder and a decoder with additive attention (Bahdanau et al., 2015), ported to Paddle."""

import paddle
import paddle.nn.functional as F
from paddle import nn


class Attention(nn.Layer):
    def __init__(self, d):
        super().__init__()
        self.query = nn.Linear(d, d, bias_attr=False)
        self.key = nn.Linear(2 * d, d)
        self.score = nn.Linear(d, 1, bias_attr=False)

    def forward(self, state, memory, mask):
        hidden = F.tanh(self.query(state)[:, None] + self.key(memory))
        energy = self.score(hidden)[:, :, 0]
        energy = energy + (1 - mask.astype(energy.dtype)) * -1e9
        weights = F.softmax(energy, axis=-1)
        context = paddle.matmul(weights.unsqueeze(1), memory).squeeze(1)
        return context, weights


class Seq2Seq(nn.Layer):
    def __init__(self, words=20, d=8):
        super().__init__()
        self.source, self.target = nn.Embedding(words, d, padding_idx=0), nn.Embedding(words, d)
        self.encoder = nn.GRU(d, d, direction="bidirect")
        self.bridge, self.attention = nn.Linear(2 * d, d), Attention(d)
        self.cell, self.out = nn.GRUCell(3 * d, d), nn.Linear(4 * d, words)

    def forward(self, source, target):
        mask = source != 0
        memory, last = self.encoder(self.source(source))
        state = F.tanh(self.bridge(paddle.concat([last[0], last[1]], axis=-1)))
        words = self.target(target)
        logits, maps = [], []
        for step in range(target.shape[1]):
            context, weights = self.attention(state, memory, mask)
            state, _ = self.cell(paddle.concat([words[:, step], context], axis=-1), state)
            logits.append(self.out(paddle.concat([state, context, words[:, step]], axis=-1)))
            maps.append(weights)
        return {"logits": paddle.stack(logits, axis=1), "attention": paddle.stack(maps, axis=1)}
