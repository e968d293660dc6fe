"""A tagger with a bidirectional LSTM of two layers over sequences of several lengths, dropout between the layers."""

import paddle.nn as pnn
import paddle.nn.functional as PF
import torch.nn as tnn
import torch.nn.functional as TF
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from .training import Recipe

WORDS, TAGS, LENGTH, PADDING = 97, 7, 12, 0
RECIPE = Recipe("SGD", rate=0.5, schedule="halving", decay=1e-4)


class PaddleTagger(pnn.Layer):
    def __init__(self):
        super().__init__()
        self.words = pnn.Embedding(WORDS, 16)
        self.rnn = pnn.LSTM(16, 12, num_layers=2, direction="bidirect", dropout=0.1)
        self.head = pnn.Linear(24, TAGS)

    def forward(self, tokens, lengths):
        hidden, _ = self.rnn(self.words(tokens), sequence_length=lengths)
        return self.head(hidden)


class TorchTagger(tnn.Module):
    def __init__(self):
        super().__init__()
        self.words = tnn.Embedding(WORDS, 16)
        self.rnn = tnn.LSTM(16, 12, num_layers=2, bidirectional=True, batch_first=True, dropout=0.1)
        self.head = tnn.Linear(24, TAGS)

    def forward(self, tokens, lengths):
        packed = pack_padded_sequence(self.words(tokens), lengths, batch_first=True, enforce_sorted=False)
        hidden, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True, total_length=LENGTH)
        return self.head(hidden)


paddle_model, torch_model = PaddleTagger, TorchTagger


def batch(rng):
    lengths = rng.integers(LENGTH // 2, LENGTH + 1, 4)
    tags = rng.integers(1, TAGS, (4, LENGTH))
    for row, length in zip(tags, lengths):
        row[length:] = PADDING
    return {"tokens": rng.integers(0, WORDS, (4, LENGTH)), "lengths": lengths, "tags": tags}


def paddle_step(model, tokens, lengths, tags):
    logits = model(tokens, lengths)
    return [logits], PF.cross_entropy(logits.reshape([-1, TAGS]), tags.reshape([-1]), ignore_index=PADDING)


def torch_step(model, tokens, lengths, tags):
    logits = model(tokens, lengths)
    return [logits], TF.cross_entropy(logits.reshape([-1, TAGS]), tags.reshape([-1]), ignore_index=PADDING)
