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


ATTRIBUTE, MISSING, EXTRA, OTHER = ("another attribute",), ("an op is missing",), ("an op too many",), ("another op",)
SWAPPED, CONSTANT, PLACE, ORDER = ("operands swapped",), ("another constant",), ("an op in another place",), ("another arrangement",)

GPT = (
    Planted("epsilon 1e-12", "self.norm2 = pnn.LayerNorm(D)", "self.norm2 = pnn.LayerNorm(D, epsilon=1e-12)", "norm2", ATTRIBUTE),
    Planted("gelu by erf", "PF.gelu(self.up(self.norm2(x)), approximate=True)", "PF.gelu(self.up(self.norm2(x)))", "gelu", ATTRIBUTE),
    Planted("relu for gelu", "PF.gelu(self.up(self.norm2(x)), approximate=True)", "PF.relu(self.up(self.norm2(x)))", "relu", OTHER),
    Planted("no scale", " / (D // HEADS) ** 0.5 + mask", " + mask", "+ mask", MISSING),
    Planted("scale of the width", "/ (D // HEADS) ** 0.5", "/ D ** 0.5", "D ** 0.5", ATTRIBUTE),
    Planted("no residual", "x = x + self.attend(self.norm1(x), mask)", "x = self.attend(self.norm1(x), mask)", "attend", MISSING),
    Planted("norm behind", "x + self.attend(self.norm1(x), mask)", "x + self.norm1(self.attend(x, mask))", "norm1", PLACE),
    Planted("q and k", "q, k, v = paddle.split", "k, q, v = paddle.split", "paddle.matmul(q, k", SWAPPED),
    Planted("mask value", "-1e9", "-4.0", "paddle.triu", CONSTANT),
    Planted("mask diagonal", "diagonal=1", "diagonal=2", "paddle.triu", ATTRIBUTE),
    Planted("positions", "self.places(paddle.arange(length))", "self.places((paddle.arange(length) + 1) % length)", "places", CONSTANT),
    Planted("softmax axis", "PF.softmax(scores, axis=-1)", "PF.softmax(scores, axis=-2)", "softmax", ATTRIBUTE),
    Planted("no last norm", "paddle.matmul(self.norm(x), ", "paddle.matmul(x, ", "matmul", MISSING),
    Planted("scaled embedding", "x = self.words(tokens) +", "x = self.words(tokens) * D**0.5 +", "self.words(tokens)", EXTRA),
    Planted(
        "heads split otherwise",
        "t.reshape([batch, length, HEADS, D // HEADS]).transpose([0, 2, 1, 3])",
        "t.reshape([batch, HEADS, length, D // HEADS])",
        "paddle.matmul(q, k",
        ORDER,
    ),
    Planted("transposed weight", "", "", "blocks.1.out.weight", ("WEIGHTS_DIFFER",), lambda m: _transpose(m.blocks[1].out)),
    Planted("unsynchronised weight", "", "", "blocks.0.down.weight", ("WEIGHTS_DIFFER",), lambda m: _scale(m.blocks[0].down)),
)

BERT = (
    Planted("epsilon 1e-5", "self.norm1 = pnn.LayerNorm(D, epsilon=1e-12)", "self.norm1 = pnn.LayerNorm(D)", "norm1", ATTRIBUTE),
    Planted("gelu by tanh", "PF.gelu(self.up(x))", "PF.gelu(self.up(x), approximate=True)", "gelu", ATTRIBUTE),
    Planted("silu for gelu", "PF.gelu(self.up(x))", "PF.silu(self.up(x))", "silu", OTHER),
    Planted("no scale", " / (D // HEADS) ** 0.5 + mask", " + mask", "+ mask", MISSING),
    Planted("no mask", " / (D // HEADS) ** 0.5 + mask", " / (D // HEADS) ** 0.5", "softmax", MISSING),
    Planted("mask value", "* -1e4", "* -5.0", "mask", (*ATTRIBUTE, *CONSTANT)),
    Planted("mask the other way round", "(tokens != 0)", "(tokens == 0)", "mask", CONSTANT),
    Planted("no residual", "self.norm1(x + self.out(mixed))", "self.norm1(self.out(mixed))", "norm1", MISSING),
    Planted("norm in front", "self.norm2(x + self.down(PF.gelu(self.up(x))))", "x + self.norm2(self.down(PF.gelu(self.up(x))))", "norm2", PLACE),
    Planted("q and k", "for f in (self.q, self.k, self.v)", "for f in (self.k, self.q, self.v)", "paddle.matmul(q, k", SWAPPED),
    Planted("k and v", "for f in (self.q, self.k, self.v)", "for f in (self.q, self.v, self.k)", "matmul", (*SWAPPED, "another operand")),
    Planted("no kinds", " + self.kinds(kinds)", "", "kinds", MISSING),
    Planted("no tanh", "paddle.tanh(self.pooler(x[:, 0]))", "self.pooler(x[:, 0])", "head", MISSING),
    Planted("last token", "x[:, 0]", "x[:, -1]", "x[:, -1]", ATTRIBUTE),
    Planted("softmax axis", "PF.softmax(scores, axis=-1)", "PF.softmax(scores, axis=1)", "softmax", ATTRIBUTE),
    Planted("transposed weight", "", "", "pooler.weight", ("WEIGHTS_DIFFER",), lambda m: _transpose(m.pooler)),
    Planted("unsynchronised weight", "", "", "blocks.1.q.weight", ("WEIGHTS_DIFFER",), lambda m: _scale(m.blocks[1].q)),
)

RESNET = (
    Planted("epsilon 1e-3", "self.bn1 = pnn.BatchNorm2D(width)", "self.bn1 = pnn.BatchNorm2D(width, epsilon=1e-3)", "bn1", ATTRIBUTE),
    Planted("stride in the other convolution", "3, stride, 1, bias_attr=False)", "3, 1, 1, bias_attr=False)", "conv1", ATTRIBUTE),
    Planted("padding of the stem", "pnn.Conv2D(3, WIDTHS[0], 7, 2, 3,", "pnn.Conv2D(3, WIDTHS[0], 7, 2, 2,", "stem", ATTRIBUTE),
    Planted("average pool", "pnn.MaxPool2D(3, 2, 1)", "pnn.AvgPool2D(3, 2, 1)", "pool", OTHER),
    Planted("pool without padding", "pnn.MaxPool2D(3, 2, 1)", "pnn.MaxPool2D(3, 2, 0)", "pool", ATTRIBUTE),
    Planted("no relu in the block", "y = PF.relu(self.bn1(self.conv1(x)))", "y = self.bn1(self.conv1(x))", "conv2", MISSING),
    Planted("relu in front of the sum", "PF.relu(y + (x if", "(PF.relu(y) + (x if", "relu", (*PLACE, *MISSING, *EXTRA)),
    Planted("relu6", "return PF.relu(y", "return PF.relu6(y", "relu6", OTHER),
    Planted("leaky relu", "return PF.relu(y", "return PF.leaky_relu(y", "leaky_relu", OTHER),
    Planted("no shortcut", "x if self.shortcut is None else self.shortcut(x)", "x[:, : 1] * 0", "relu", (*MISSING, *OTHER, *EXTRA, "another operand")),
    Planted("no relu behind the stem", "PF.relu(self.bn(self.stem(x)))", "self.bn(self.stem(x))", "pool", MISSING),
    Planted("norm behind relu", "PF.relu(self.bn(self.stem(x)))", "self.bn(PF.relu(self.stem(x)))", "bn", PLACE),
    Planted("global maximum", "pnn.AdaptiveAvgPool2D(1)", "pnn.AdaptiveMaxPool2D(1)", "average", OTHER),
    Planted("dilation", "pnn.Conv2D(width, width, 3, 1, 1, bias_attr", "pnn.Conv2D(width, width, 3, 1, 2, 2, bias_attr", "conv2", ATTRIBUTE),
    Planted("input scaled", "self.pool(PF.relu(self.bn(self.stem(x))))", "self.pool(PF.relu(self.bn(self.stem(x / 255.0))))", "stem", EXTRA),
    Planted("unsynchronised weight", "", "", "blocks.2.conv1.weight", ("WEIGHTS_DIFFER",), lambda m: _scale(m.blocks[2].conv1)),
    Planted("statistics not taken over", "", "", "bn._mean", ("WEIGHTS_DIFFER",), lambda m: m.bn._mean.set_value(m.bn._mean + 1.0)),
)

LSTM = (
    Planted("one direction read twice", "hidden, _ = self.rnn(self.words(tokens))", "hidden, _ = self.rnn(self.words(tokens)); hidden = hidden[:, :, :12].concat(hidden[:, :, :12], -1) if False else __import__('paddle').concat([hidden[:, :, :12]] * 2, -1)", "concat", (*EXTRA, "another operand", *MISSING, *PLACE)),
    Planted("reversed tokens", "self.rnn(self.words(tokens))", "self.rnn(self.words(tokens.flip(1)))", "words", CONSTANT),
    Planted("scaled embedding", "self.rnn(self.words(tokens))", "self.rnn(self.words(tokens) * 4.0)", "words", EXTRA),
    Planted("tanh behind", "return self.head(hidden)", "return self.head(PF.tanh(hidden))", "head", EXTRA),
    Planted("softmax behind", "return self.head(hidden)", "return PF.softmax(self.head(hidden))", "softmax", EXTRA),
    Planted("log softmax behind", "return self.head(hidden)", "return PF.log_softmax(self.head(hidden))", "log_softmax", EXTRA),
    Planted("relu behind the embedding", "self.rnn(self.words(tokens))", "self.rnn(PF.relu(self.words(tokens)))", "relu", EXTRA),
    Planted("residual too much", "return self.head(hidden)", "return self.head(hidden + hidden)", "head", EXTRA),
    Planted("normalised embedding", "self.rnn(self.words(tokens))", "self.rnn(PF.normalize(self.words(tokens), axis=-1))", "normalize", (*EXTRA,)),
    Planted("shifted tokens", "self.words(tokens)", "self.words((tokens + 1) % WORDS)", "words", CONSTANT),
    Planted("shifted hidden states", "return self.head(hidden)", "return self.head(hidden.roll(1, 1))", "roll", (*EXTRA,)),
    Planted("final state alone", "return self.head(hidden)", "return self.head(hidden[:, -1:].expand_as(hidden))", "hidden[:, -1:]", (*EXTRA,)),
    Planted("time and batch", "pnn.LSTM(16, 12, num_layers=2, direction=\"bidirect\")", "pnn.LSTM(16, 12, num_layers=2, direction=\"bidirect\", time_major=True)", "rnn", (*ORDER, *ATTRIBUTE, "other calls")),
    Planted("transposed weight", "", "", "head.weight", ("WEIGHTS_DIFFER",), lambda m: m.head.weight.set_value(m.head.weight.t().reshape([24, 7]))),
    Planted("unsynchronised weight", "", "", "rnn", ("WEIGHTS_DIFFER",), lambda m: m.rnn.weight_hh_l0.set_value(m.rnn.weight_hh_l0 * 1.001)),
)
