"""Layers that both frameworks have, as pairs with equal meaning, and inputs for them: what weights have to be taken across."""

import numpy as np
import paddle
import paddle.nn as pnn
import torch
import torch.nn as tnn
from paddle.nn import utils as pu
from torch.nn import utils as tu


def normal(*shape):
    return lambda rng: rng.standard_normal(shape).astype("float32")


def indices(most, *shape):
    return lambda rng: rng.integers(0, most, shape)


class Both:
    """One pair: makers of the two layers, makers of their inputs, and which of several results counts."""

    def __init__(self, paddle_layer, torch_module, *inputs):
        self.paddle_layer, self.torch_module, self.inputs = paddle_layer, torch_module, inputs


def rnn(kind, **options):
    """A recurrent layer of both frameworks."""
    direction = "bidirect" if options.pop("bidirectional", False) else "forward"
    theirs = {"SimpleRNN": "RNN"}.get(kind, kind)
    own = {**options, "direction": direction}
    bias = own.pop("bias", True)
    if not bias:
        own |= {"bias_ih_attr": False, "bias_hh_attr": False}
    return Both(
        lambda: getattr(pnn, kind)(5, 6, **own),
        lambda: getattr(tnn, theirs)(5, 6, batch_first=True, bidirectional=direction == "bidirect", **options),
        normal(2, 4, 5),
    )


def attention(**options):
    return Both(
        lambda: pnn.MultiHeadAttention(8, 2, **options),
        lambda: tnn.MultiheadAttention(8, 2, batch_first=True, **options),
        normal(2, 3, 8),
        normal(2, 4, options.get("kdim", 8)),
        normal(2, 4, options.get("vdim", 8)),
    )


ENCODER = {"d_model": 8, "nhead": 2, "dim_feedforward": 16, "dropout": 0.0}

LAYERS = {
    "linear": Both(lambda: pnn.Linear(5, 3), lambda: tnn.Linear(5, 3), normal(4, 5)),
    "square linear": Both(lambda: pnn.Linear(5, 5), lambda: tnn.Linear(5, 5), normal(4, 5)),
    "linear without bias": Both(lambda: pnn.Linear(5, 5, bias_attr=False), lambda: tnn.Linear(5, 5, bias=False), normal(4, 5)),
    "bilinear": Both(lambda: pnn.Bilinear(3, 4, 5), lambda: tnn.Bilinear(3, 4, 5), normal(6, 3), normal(6, 4)),
    "embedding": Both(lambda: pnn.Embedding(7, 7), lambda: tnn.Embedding(7, 7), indices(7, 4, 2)),
    "conv1d": Both(lambda: pnn.Conv1D(4, 6, 3, groups=2), lambda: tnn.Conv1d(4, 6, 3, groups=2), normal(2, 4, 8)),
    "conv2d": Both(lambda: pnn.Conv2D(3, 3, 3), lambda: tnn.Conv2d(3, 3, 3), normal(2, 3, 8, 8)),
    "conv3d": Both(lambda: pnn.Conv3D(2, 3, 2), lambda: tnn.Conv3d(2, 3, 2), normal(1, 2, 4, 4, 4)),
    "conv2d transposed": Both(
        lambda: pnn.Conv2DTranspose(4, 4, 3, groups=2), lambda: tnn.ConvTranspose2d(4, 4, 3, groups=2), normal(2, 4, 5, 5)
    ),
    "batch norm": Both(lambda: pnn.BatchNorm2D(4), lambda: tnn.BatchNorm2d(4), normal(3, 4, 2, 2)),
    "layer norm": Both(lambda: pnn.LayerNorm([2, 4]), lambda: tnn.LayerNorm([2, 4]), normal(3, 2, 4)),
    "group norm": Both(lambda: pnn.GroupNorm(2, 4), lambda: tnn.GroupNorm(2, 4), normal(3, 4, 5)),
    "instance norm": Both(lambda: pnn.InstanceNorm2D(4), lambda: tnn.InstanceNorm2d(4, affine=True), normal(2, 4, 3, 3)),
    "prelu": Both(lambda: pnn.PReLU(4), lambda: tnn.PReLU(4), normal(2, 4, 3)),
    "attention": attention(),
    "attention of other widths": attention(kdim=4, vdim=6),
    "encoder": Both(
        lambda: pnn.TransformerEncoder(pnn.TransformerEncoderLayer(**ENCODER), 2),
        lambda: tnn.TransformerEncoder(tnn.TransformerEncoderLayer(**ENCODER, batch_first=True), 2, enable_nested_tensor=False),
        normal(2, 3, 8),
    ),
    "decoder": Both(
        lambda: pnn.TransformerDecoder(pnn.TransformerDecoderLayer(**ENCODER), 2, pnn.LayerNorm(8)),
        lambda: tnn.TransformerDecoder(tnn.TransformerDecoderLayer(**ENCODER, batch_first=True), 2, tnn.LayerNorm(8)),
        normal(2, 3, 8),
        normal(2, 4, 8),
    ),
    "transformer": Both(
        lambda: pnn.Transformer(8, 2, 1, 1, 16, 0.0),
        lambda: tnn.Transformer(8, 2, 1, 1, 16, 0.0, batch_first=True),
        normal(2, 3, 8),
        normal(2, 4, 8),
    ),
    "lstm": rnn("LSTM"),
    "lstm of two layers and ways": rnn("LSTM", num_layers=2, bidirectional=True),
    "lstm without bias": rnn("LSTM", bias=False),
    "gru": rnn("GRU", num_layers=2),
    "gru of two ways": rnn("GRU", bidirectional=True),
    "simple rnn": rnn("SimpleRNN", bidirectional=True),
    "lstm cell": Both(lambda: pnn.LSTMCell(5, 6), lambda: tnn.LSTMCell(5, 6), normal(3, 5)),
    "gru cell": Both(lambda: pnn.GRUCell(5, 6), lambda: tnn.GRUCell(5, 6), normal(3, 5)),
    "cell in a loop": Both(lambda: pnn.RNN(pnn.GRUCell(5, 6)), lambda: tnn.GRU(5, 6, batch_first=True), normal(2, 4, 5)),
    "cells both ways": Both(
        lambda: pnn.BiRNN(pnn.LSTMCell(5, 6), pnn.LSTMCell(5, 6)),
        lambda: tnn.LSTM(5, 6, batch_first=True, bidirectional=True),
        normal(2, 4, 5),
    ),
    "weight norm": Both(
        lambda: pu.weight_norm(pnn.Linear(4, 4), dim=1), lambda: tu.parametrizations.weight_norm(tnn.Linear(4, 4)), normal(3, 4)
    ),
    "weight norm by hooks": Both(
        lambda: pu.weight_norm(pnn.Conv2D(3, 5, 3)), lambda: _hooked(tu.weight_norm, tnn.Conv2d(3, 5, 3)), normal(2, 3, 5, 5)
    ),
    "weight norm of everything": Both(
        lambda: pu.weight_norm(pnn.Linear(4, 4), dim=None),
        lambda: _hooked(tu.weight_norm, tnn.Linear(4, 4), dim=None),
        normal(3, 4),
    ),
    "spectral norm": Both(
        lambda: pu.spectral_norm(pnn.Linear(4, 4)), lambda: tu.parametrizations.spectral_norm(tnn.Linear(4, 4)), normal(3, 4)
    ),
    "spectral norm by hooks": Both(
        lambda: pu.spectral_norm(pnn.Conv2D(3, 5, 3)), lambda: tu.spectral_norm(tnn.Conv2d(3, 5, 3)), normal(2, 3, 5, 5)
    ),
}  # fmt: skip


def _hooked(norm, module, **options):
    """The older form, which Torch deprecates and programs still use."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return norm(module, **options)


def scrambled(module, seed=0):
    """Every weight and floating buffer of a Torch module at random, positive where it is a variance."""
    rng = np.random.default_rng(seed)
    with torch.no_grad():
        for name, tensor in module.state_dict().items():
            if tensor.is_floating_point():
                values = torch.from_numpy(np.asarray(rng.standard_normal(tuple(tensor.shape)))).to(tensor.dtype)
                tensor.copy_(values.abs() + 0.5 if name.endswith(("running_var", "weight_g", "original0")) else values)
        for layer in module.modules():
            if isinstance(layer, tnn.Embedding) and layer.padding_idx is not None:
                layer.weight[layer.padding_idx] = 0  # Paddle reads this row as zeros, whatever it holds
    return module


def scrambled_paddle(layer, seed=0):
    """The same for a Paddle layer."""
    rng = np.random.default_rng(seed)
    for name, tensor in layer.state_dict().items():
        if "float" in str(tensor.dtype):
            values = rng.standard_normal(tuple(tensor.shape))
            values = np.abs(values) + 0.5 if name.endswith(("_variance", "weight_g")) else values
            tensor.set_value(paddle.to_tensor(np.asarray(values), dtype=str(tensor.dtype).rpartition(".")[2]))
    for each in layer.sublayers(include_self=True):
        if isinstance(each, pnn.Embedding) and each._padding_idx not in (None, -1):
            values = each.weight.numpy()
            values[each._padding_idx] = 0
            each.weight.set_value(values)
    return layer


def first(result):
    """The first tensor of a result."""
    return first(result[0]) if isinstance(result, (tuple, list)) else result
