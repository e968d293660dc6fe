"""The kinds of layers that both frameworks have, and how each of them lays out its weights."""

from __future__ import annotations

import weakref
from typing import Any

from .layouts import AS_IS, FLAT, TRANSPOSED
from .tree import Shape

_TORCH = {
    "Linear": "linear", "Bilinear": "bilinear", "Embedding": "embedding", "EmbeddingBag": "embedding",
    "_ConvTransposeNd": "transposed convolution", "_ConvNd": "convolution", "_BatchNorm": "batch norm",
    "_InstanceNorm": "norm", "LayerNorm": "norm", "GroupNorm": "norm", "RMSNorm": "norm", "PReLU": "prelu",
    "LSTM": "lstm", "GRU": "gru", "RNN": "rnn", "LSTMCell": "lstm", "GRUCell": "gru", "RNNCell": "rnn",
    "MultiheadAttention": "attention", "Sequential": "sequence",
    "ModuleList": "list", "ModuleDict": "list", "ParameterList": "list", "ParameterDict": "list",
}  # fmt: skip
_PADDLE = {
    "Linear": "linear", "ColumnParallelLinear": "linear", "RowParallelLinear": "linear", "FusedLinear": "linear",
    "Bilinear": "bilinear", "Embedding": "embedding", "VocabParallelEmbedding": "embedding",
    "Conv1D": "convolution", "Conv2D": "convolution", "Conv3D": "convolution",
    "Conv1DTranspose": "transposed convolution", "Conv2DTranspose": "transposed convolution",
    "Conv3DTranspose": "transposed convolution",
    "BatchNorm": "batch norm", "_BatchNormBase": "batch norm", "_InstanceNormBase": "norm", "LayerNorm": "norm",
    "GroupNorm": "norm", "RMSNorm": "norm", "PReLU": "prelu",
    "LSTM": "lstm", "GRU": "gru", "SimpleRNN": "rnn", "LSTMCell": "lstm", "GRUCell": "gru", "SimpleRNNCell": "rnn",
    "RNN": "wrapped cell", "BiRNN": "wrapped cell",
    "MultiHeadAttention": "attention", "MultiheadAttention": "attention", "Sequential": "sequence",
    "LayerList": "list", "LayerDict": "list", "ParameterList": "list", "ParameterDict": "list",
}  # fmt: skip
KINDS = {"torch": _TORCH, "paddle": _PADDLE}

# Both frameworks stack the gates of these in one order (LSTM: i f g o; GRU: r z n), and their biases apart.
RECURRENT = ("lstm", "gru", "rnn")
# Roles that hold the matrix of a layer, also where weight_norm or spectral_norm has taken it apart.
MATRICES = ("weight", "direction", "original")


def kind_of(layer: Any, framework: str) -> str:
    """What a layer computes; "" if neither its class nor one of its bases is the framework's own."""
    kind = type(layer)
    known = _KNOWN[framework].get(kind)
    if known is None:
        known = _KNOWN[framework][kind] = _kind_of_class(kind, framework)
    if known or framework != "torch" or kind.__name__ != "Conv1D":
        return known
    return "linear" if getattr(getattr(layer, "weight", None), "ndim", 0) == 2 else ""  # that of transformers' GPT-2


_KNOWN: dict[str, weakref.WeakKeyDictionary[type, str]] = {framework: weakref.WeakKeyDictionary() for framework in KINDS}


def _kind_of_class(kind: type, framework: str) -> str:
    for base in kind.__mro__:
        if base.__module__.partition(".")[0] == framework and base.__name__ in KINDS[framework]:
            return KINDS[framework][base.__name__]
    return ""


def holds_in_out(layer: Any, framework: str) -> bool:
    """Whether a linear layer holds its weight as [in, out]: Paddle's do, and of Torch's the ``Conv1D`` of transformers."""
    if framework == "torch":
        return type(layer).__name__ == "Conv1D"
    if type(layer).__module__.startswith("paddle.compat"):
        return False
    return not getattr(layer, "transpose_weight", False)


def layout_of(kind: str, role: str, shape: Shape, in_out: bool) -> str:
    """How a layer of that kind holds the weight of that role."""
    if kind == "linear" and role in MATRICES and in_out:
        return TRANSPOSED
    # LayerNorm([2, 4]) is [8] in Paddle, Bilinear's bias [1, n], the magnitude of weight_norm [n, 1] in Torch.
    flat = kind in ("norm", "prelu") or role.startswith("magnitude") or (kind, role) == ("bilinear", "bias")
    return FLAT if flat and len(shape) != 1 else AS_IS
