"""A tagger with a bidirectional LSTM of two layers over sequences of equal length."""

import paddle.nn as pnn
import paddle.nn.functional as PF
import torch.nn as tnn
import torch.nn.functional as TF

WORDS, TAGS, LENGTH = 97, 7, 12


class PaddleTagger(pnn.Layer):
    def __init__(self):
        super().__init__()
        self.words = pnn.Embedding(WORDS, 16)
        self.rnn = pnn.LSTM(16, 12, num_layers=2, direction="bidirect")
        self.head = pnn.Linear(24, TAGS)

    def forward(self, tokens):
        hidden, _ = self.rnn(self.words(tokens))
        return self.head(hidden)


class TorchTagger(tnn.Module):
    def __init__(self):
        super().__init__()
        self.words = tnn.Embedding(WORDS, 16)
        self.rnn = tnn.LSTM(16, 12, num_layers=2, bidirectional=True, batch_first=True)
        self.head = tnn.Linear(24, TAGS)

    def forward(self, tokens):
        hidden, _ = self.rnn(self.words(tokens))
        return self.head(hidden)


paddle_model, torch_model = PaddleTagger, TorchTagger


def batch(rng):
    return {"tokens": rng.integers(0, WORDS, (4, LENGTH)), "tags": rng.integers(0, TAGS, (4, LENGTH))}


def paddle_step(model, tokens, tags):
    logits = model(tokens)
    return [logits], PF.cross_entropy(logits.reshape([-1, TAGS]), tags.reshape([-1]))


def torch_step(model, tokens, tags):
    logits = model(tokens)
    return [logits], TF.cross_entropy(logits.reshape([-1, TAGS]), tags.reshape([-1]))
