"""CTRL in Paddle: a pre-LayerNorm decoder with fixed sinusoidal positions."""

from __future__ import annotations

import numpy as np
import paddle
import paddle.nn.functional as F
from paddle import nn

from .config import Ctrl

OUT_OF_SIGHT = -1e4  # added to the score of a token that must not be looked at


class Attention(nn.Layer):
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
        return x.reshape([batch, length, self.heads, self.head_size]).transpose([0, 2, 1, 3])

    def forward(self, x, future, padding):
        query, key, value = (self.split_heads(project(x)) for project in (self.query, self.key, self.value))
        scores = paddle.matmul(query, key, transpose_y=True) / np.sqrt(self.head_size)
        scores = scores + future * OUT_OF_SIGHT
        scores = scores + padding * OUT_OF_SIGHT
        context = paddle.matmul(F.softmax(scores, axis=-1), value)
        return self.output(context.transpose([0, 2, 1, 3]).reshape(x.shape))


class Layer(nn.Layer):
    """Attention and feed-forward part, each behind a LayerNorm and beside a residual."""

    def __init__(self, config: Ctrl):
        super().__init__()
        self.norm1 = nn.LayerNorm(config.width, epsilon=config.epsilon)
        self.attention = Attention(config)
        self.norm2 = nn.LayerNorm(config.width, epsilon=config.epsilon)
        self.linear1 = nn.Linear(config.width, config.feed_forward)
        self.linear2 = nn.Linear(config.feed_forward, config.width)

    def forward(self, x, future, padding):
        x = x + self.attention(self.norm1(x), future, padding)
        return x + self.linear2(F.relu(self.linear1(self.norm2(x))))


class CtrlPaddle(nn.Layer):
    """Token ids to hidden states, logits and the language model's loss, all of them noted.

    The position table comes from outside, as in the report: Torch's. Paddle's own is another formula, and other numbers.
    """

    def __init__(self, config: Ctrl, positions: np.ndarray):
        super().__init__()
        self.scale = np.sqrt(config.width)
        self.embedding = nn.Embedding(config.vocabulary, config.width)
        self.positions = paddle.to_tensor(positions)
        self.layers = nn.LayerList([Layer(config) for _ in range(config.layers)])
        self.norm = nn.LayerNorm(config.width, epsilon=config.epsilon)
        self.head = nn.Linear(config.width, config.vocabulary)

    def forward(self, ids, present, note):
        length = ids.shape[1]
        x = self.embedding(ids) * self.scale + self.positions[:length]
        future = paddle.triu(paddle.ones([length, length], dtype=x.dtype), diagonal=1)
        padding = (1 - present.astype(x.dtype)).unsqueeze(1).unsqueeze(1)
        note("hidden state 0", x)
        for number, layer in enumerate(self.layers, 1):
            x = layer(x, future, padding)
            if number < len(self.layers):
                note(f"hidden state {number}", x)
        x = note(f"hidden state {len(self.layers)}", self.norm(x))
        logits = note("logits", self.head(x))
        return note("loss", self.loss(logits, ids))

    def loss(self, logits, ids):
        """Cross entropy of the next tokens, spelled out: Paddle's own on a CPU is another function for unlikely tokens."""
        guesses, targets = logits[:, :-1], ids[:, 1:].unsqueeze(-1)
        chosen = paddle.take_along_axis(guesses, targets, axis=-1)
        return paddle.mean(paddle.logsumexp(guesses, axis=-1, keepdim=True) - chosen)
