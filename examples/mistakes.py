"""Mistakes that are made in ports, planted into the Paddle halves of the zoo."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Planted(NamedTuple):
    """A mistake: ``old`` in the source of the Paddle half becomes ``new``, or ``change`` changes the layer itself.

    ``where`` is part of the line or of the layer's name that has to be named, ``cause`` the words of the cause.
    """

    name: str
    old: str
    new: str
    where: str
    cause: tuple[str, ...]
    change: Callable[[Any], None] | None = None


def _transpose(layer: Any) -> None:
    layer.weight.set_value(layer.weight.t())


def _scale(layer: Any) -> None:
    layer.weight.set_value(layer.weight * 1.001)


_HEADS = "t.reshape([batch, length, HEADS, D // HEADS]).transpose([0, 2, 1, 3])"
ATTRIBUTE, MISSING, EXTRA, OTHER = ("another attribute",), ("an op is missing",), ("an op too many",), ("another op",)
SWAPPED, CONSTANT, ORDER = ("operands swapped",), ("another constant",), ("another arrangement",)
PLACE, OPERAND, WEIGHTS = ("an op in another place",), ("another operand",), ("WEIGHTS_DIFFER",)

GPT = (
    Planted("epsilon 1e-12", "norm2 = pnn.LayerNorm(D)", "norm2 = pnn.LayerNorm(D, epsilon=1e-12)", "norm2", ATTRIBUTE),
    Planted("gelu by erf", "self.norm2(x)), approximate=True)", "self.norm2(x)))", "gelu", ATTRIBUTE),
    Planted("relu for gelu", "PF.gelu(self.up(self.norm2(x)), approximate=True)", "PF.relu(self.up(self.norm2(x)))", "relu", OTHER),
    Planted("no scale", " / (D // HEADS) ** 0.5 + mask", " + mask", "+ mask", MISSING),
    Planted("scale of the width", "/ (D // HEADS) ** 0.5", "/ D ** 0.5", "D ** 0.5", ATTRIBUTE),
    Planted("no residual", "x = x + self.drop(self.attend(", "x = self.drop(self.attend(", "attend", MISSING),
    Planted("norm behind", "self.attend(self.norm1(x), mask, cache)", "self.norm1(self.attend(x, mask, cache))", "norm1", PLACE),
    Planted("q and k", "q, k, v = paddle.split", "k, q, v = paddle.split", "paddle.matmul(q, k", SWAPPED),
    Planted("mask value", "-1e9", "-4.0", "paddle.triu", CONSTANT),
    Planted("mask diagonal", "diagonal=start + 1", "diagonal=start + 2", "paddle.triu", ATTRIBUTE),
    Planted("positions", "arange(start, start + length)", "arange(start + 1, start + 1 + length) % length", "places", CONSTANT),
    Planted("softmax axis", "PF.softmax(scores, axis=-1)", "PF.softmax(scores, axis=-2)", "softmax", ATTRIBUTE),
    Planted("no last norm", "paddle.matmul(self.norm(x), ", "paddle.matmul(x, ", "matmul", MISSING),
    Planted("scaled embedding", "self.words(tokens) +", "self.words(tokens) * D**0.5 +", "self.words(tokens)", EXTRA),
    Planted("heads split otherwise", _HEADS, "t.reshape([batch, HEADS, length, D // HEADS])", "t.reshape", ORDER),
    Planted("transposed weight", "", "", "blocks.1.out.weight", WEIGHTS, lambda m: _transpose(m.blocks[1].out)),
    Planted("weight not taken over", "", "", "blocks.0.down.weight", WEIGHTS, lambda m: _scale(m.blocks[0].down)),
)

BERT = (
    Planted("epsilon 1e-5", "norm1 = pnn.LayerNorm(width, epsilon=1e-12)", "norm1 = pnn.LayerNorm(width)", "norm1", ATTRIBUTE),
    Planted("gelu by tanh", "PF.gelu(self.up(x))", "PF.gelu(self.up(x), approximate=True)", "gelu", ATTRIBUTE),
    Planted("silu for gelu", "PF.gelu(self.up(x))", "PF.silu(self.up(x))", "silu", OTHER),
    Planted("no scale", " / (width // self.heads) ** 0.5 + mask", " + mask", "+ mask", MISSING),
    Planted("no mask", "** 0.5 + mask", "** 0.5", "softmax", MISSING),
    Planted("mask value", "* -1e4", "* -5.0", "mask", (*ATTRIBUTE, *CONSTANT)),
    Planted("mask the other way round", "(tokens != 0)", "(tokens == 0)", "mask", CONSTANT),
    Planted(
        "no residual", "self.norm1(x + self.drop(self.out(mixed)))", "self.norm1(self.drop(self.out(mixed)))", "norm1", MISSING
    ),
    Planted("norm in front", "self.norm2(x + self.drop(", "x + self.norm2(self.drop(", "norm2", PLACE),
    Planted("q and k", "for f in (self.q, self.k, self.v)", "for f in (self.k, self.q, self.v)", "matmul(q, k", SWAPPED),
    Planted("k and v", "for f in (self.q, self.k, self.v)", "for f in (self.q, self.v, self.k)", "matmul", (*SWAPPED, *OPERAND)),
    Planted("no kinds", " + self.kinds(kinds)", "", "kinds", MISSING),
    Planted("no tanh", "paddle.tanh(self.pooler(", "(self.pooler(", "head", MISSING),
    Planted("last token", "[:, 0]", "[:, -1]", "[:, -1]", ATTRIBUTE),
    Planted("softmax axis", "PF.softmax(scores, axis=-1)", "PF.softmax(scores, axis=1)", "softmax", ATTRIBUTE),
    Planted("transposed weight", "", "", "pooler.weight", WEIGHTS, lambda m: _transpose(m.pooler)),
)

STATS = (*ATTRIBUTE, *OTHER, *MISSING, *EXTRA)
RESNET = (
    Planted("epsilon 1e-3", "bn1 = pnn.BatchNorm2D(width)", "bn1 = pnn.BatchNorm2D(width, epsilon=1e-3)", "bn1", ATTRIBUTE),
    Planted(
        "running statistics", "bn2 = pnn.BatchNorm2D(width)", "bn2 = pnn.BatchNorm2D(width, use_global_stats=True)", "bn2", STATS
    ),
    Planted("momentum of Torch", "bn1 = pnn.BatchNorm2D(width)", "bn1 = pnn.BatchNorm2D(width, momentum=0.1)", "bn1", ATTRIBUTE),
    Planted("padding of the stem", "WIDTHS[0], 7, 2, 3,", "WIDTHS[0], 7, 2, 2,", "stem", ATTRIBUTE),
    Planted("average pool", "pnn.MaxPool2D(3, 2, 1)", "pnn.AvgPool2D(3, 2, 1)", "pool", OTHER),
    Planted("pool without padding", "pnn.MaxPool2D(3, 2, 1)", "pnn.MaxPool2D(3, 2, 0)", "pool", ATTRIBUTE),
    Planted("no relu in the block", "PF.relu(self.bn1(self.conv1(x)))", "self.bn1(self.conv1(x))", "conv2", MISSING),
    Planted("relu before the sum", "PF.relu(y + (x if", "(PF.relu(y) + (x if", "relu", (*PLACE, *MISSING, *EXTRA)),
    Planted("relu6", "return PF.relu(y", "return PF.relu6(y", "relu6", (*OTHER, *EXTRA)),
    Planted("leaky relu", "return PF.relu(y", "return PF.leaky_relu(y", "leaky_relu", (*OTHER, *ATTRIBUTE)),
    Planted("no residual", "y + (x if self.shortcut is None else self.shortcut(x))", "y", "relu", MISSING),
    Planted("no relu behind the stem", "PF.relu(self.bn(self.stem(x)))", "self.bn(self.stem(x))", "pool", MISSING),
    Planted("norm behind relu", "PF.relu(self.bn(self.stem(x)))", "self.bn(PF.relu(self.stem(x)))", "bn", PLACE),
    Planted("global maximum", "pnn.AdaptiveAvgPool2D(1)", "pnn.AdaptiveMaxPool2D(1)", "average", (*OTHER, *MISSING, *EXTRA)),
    Planted("dilation", "pnn.Conv2D(width, width, 3, 1, 1, bias", "pnn.Conv2D(width, width, 3, 1, 2, 2, bias", "conv2", ATTRIBUTE),
    Planted("input scaled", "self.bn(self.stem(x))", "self.bn(self.stem(x * 0.5))", "stem", EXTRA),
    Planted("statistics not taken over", "", "", "bn.", WEIGHTS, lambda m: m.bn._mean.set_value(m.bn._mean + 1.0)),
)

LSTM = (
    Planted("scaled embedding", "self.rnn(self.words(tokens),", "self.rnn(self.words(tokens) * 4.0,", "words", EXTRA),
    Planted(
        "recurrent weight not taken over",
        "",
        "",
        "rnn.weight_hh_l0",
        WEIGHTS,
        lambda m: m.rnn.weight_hh_l0.set_value(m.rnn.weight_hh_l0 * 1.001),
    ),
    Planted("tanh behind", "return self.head(hidden)", "return self.head(PF.tanh(hidden))", "head", EXTRA),
    Planted("softmax behind", "return self.head(hidden)", "return PF.softmax(self.head(hidden))", "softmax", EXTRA),
    Planted("log softmax behind", "return self.head(hidden)", "return PF.log_softmax(self.head(hidden))", "log_softmax", EXTRA),
    Planted("relu behind words", "self.rnn(self.words(tokens),", "self.rnn(PF.relu(self.words(tokens)),", "relu", EXTRA),
    Planted("residual too much", "return self.head(hidden)", "return self.head(hidden + hidden)", "head", EXTRA),
    Planted("shifted tokens", "self.words(tokens)", "self.words((tokens + 1) % WORDS)", "words", CONSTANT),
    Planted("reversed tokens", "self.words(tokens)", "self.words(tokens.flip(1))", "words", CONSTANT),
    Planted(
        "shifted states", "return self.head(hidden)", "return self.head(hidden.roll(1, 1))", "head", (*EXTRA, *ORDER, *OPERAND)
    ),
    Planted(
        "transposed weight", "", "", "head.weight", WEIGHTS, lambda m: m.head.weight.set_value(m.head.weight.t().reshape([24, 7]))
    ),
    Planted("bias not taken over", "", "", "head.bias", WEIGHTS, lambda m: m.head.bias.set_value(m.head.bias + 0.01)),
    Planted("one length too many", "sequence_length=lengths", "sequence_length=(lengths + 1).clip(max=LENGTH)", "rnn", CONSTANT),
    Planted(
        "no lengths", "sequence_length=lengths", "sequence_length=None", "rnn", (*CONSTANT, *OTHER, *MISSING, *ORDER, "other calls")
    ),
    Planted("sigmoid behind", "return self.head(hidden)", "return PF.sigmoid(self.head(hidden))", "sigmoid", EXTRA),
)
