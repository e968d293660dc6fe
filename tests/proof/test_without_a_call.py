"""What makes a port differ though no call of its shows it: settings of layers, ops that Paddle defines otherwise, idle weights."""

import numpy as np
import paddle
import pytest
import torch
from helpers import numbers, pair, thinned

from padiff_shim import ProofVerdict, prove
from padiff_shim.proof.findings import Cause

pytestmark = [pytest.mark.compat, pytest.mark.usefixtures("undone")]

LAYER = {"d_model": 8, "nhead": 2, "dim_feedforward": 12}
RECURRENT = {
    "LSTM": (paddle.nn.LSTM, torch.nn.LSTM),
    "GRU": (paddle.nn.GRU, torch.nn.GRU),
    "RNN": (paddle.nn.SimpleRNN, torch.nn.RNN),
}


def recurrent(kind, time_major, batch_first):
    """A recurrence between two products; ``x`` is square in batch and time, so that every program runs."""
    port = pair(lambda self, x: self.out(self.inner(self.into(x))[0]), lambda self, x: self.out(self.inner(self.into(x))[0]))
    for model, nn, words in zip(port, (paddle.nn, torch.nn), ({"time_major": time_major}, {"batch_first": batch_first})):
        model.into, model.out = nn.Linear(8, 8), nn.Linear(16, 4)
        which = RECURRENT[kind][0 if nn is paddle.nn else 1]
        model.inner = which(8, 8, **{"direction": "bidirect"} if nn is paddle.nn else {"bidirectional": True}, **words)
    return port


def only(proof):
    """The one mistake of a proof that is whole."""
    assert proof.verdict is ProofVerdict.CODE_DIFFERS, str(proof)
    assert len(proof.mistakes) == 1, str(proof)
    assert proof.complete, str(proof)
    return proof.mistakes[0]


@pytest.mark.parametrize("kind", thinned(RECURRENT, "LSTM", "RNN"))
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("square", [False, True])
def test_time_major_is_named(kind, batch_first, square):
    ours, theirs = recurrent(kind, batch_first, batch_first)
    mistake = only(prove(ours, theirs, numbers(5, 5 if square else 3, 8)))
    assert mistake.cause is Cause.ATTRIBUTE
    assert f"time_major={batch_first} against batch_first={batch_first}" in mistake.text
    assert f"write time_major={not batch_first}" in mistake.text
    assert mistake.paddle.layer == "inner"
    assert mistake.paddle.file == mistake.torch.file == __file__


@pytest.mark.parametrize("batch_first", [False, True])
def test_a_right_recurrence_is_proven(batch_first):
    assert prove(*recurrent("LSTM", not batch_first, batch_first), numbers(3, 5, 8))


def packed(kind, forward):
    """A recurrence over sequences of several lengths, in Torch packed; ``forward``: of the port."""

    def original(self, x, lengths):
        whole = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        return self.out(torch.nn.utils.rnn.pad_packed_sequence(self.inner(whole)[0], batch_first=True)[0])

    layer, module = pair(forward, original)
    layer.inner = RECURRENT[kind][0](8, 8, direction="bidirect")
    module.inner = RECURRENT[kind][1](8, 8, bidirectional=True, batch_first=True)
    layer.out, module.out = paddle.nn.Linear(16, 3), torch.nn.Linear(16, 3)
    return layer, module


LENGTHS = np.array([3, 5, 2])


@pytest.mark.parametrize("kind", thinned(RECURRENT, "GRU"))
def test_lengths_that_are_not_passed_are_named(kind):
    mistake = only(prove(*packed(kind, lambda self, x, lengths: self.out(self.inner(x)[0])), (numbers(3, 5, 8), LENGTHS)))
    assert mistake.cause is Cause.ATTRIBUTE
    assert "sequence_length=None against [3, 5, 2]" in mistake.text
    assert mistake.paddle.layer == "inner"
    assert (mistake.fix.text, mistake.fix.file, mistake.fix.line) == ("sequence_length=lengths", __file__, mistake.paddle.line)


@pytest.mark.rows(1)
@pytest.mark.parametrize("position", [(), (None,)])
def test_lengths_that_are_passed_are_no_mistake(position):
    def forward(self, x, lengths):
        states = self.inner(x, *position, lengths)[0] if position else self.inner(x, sequence_length=lengths)[0]
        return self.out(paddle.tanh(states))

    mistake = only(prove(*packed("GRU", forward), (numbers(3, 5, 8), LENGTHS)))
    assert "tanh" in mistake.text


@pytest.mark.slow
def test_the_state_of_another_layer():
    ours, theirs = pair(lambda self, x: self.out(self.inner(x)[1][0][0]), lambda self, x: self.out(self.inner(x)[1][0][-1]))
    ours.inner, theirs.inner = paddle.nn.LSTM(8, 8, num_layers=2), torch.nn.LSTM(8, 8, 2, batch_first=True)
    ours.out, theirs.out = paddle.nn.Linear(8, 3), torch.nn.Linear(8, 3)
    assert only(prove(ours, theirs, numbers(3, 5, 8))).write == "[1]"


def test_other_directions_and_layers_are_named():
    proof = prove(paddle.nn.LSTM(8, 8), torch.nn.LSTM(8, 8, 2, bidirectional=True), numbers(5, 3, 8))
    assert proof.verdict is ProofVerdict.NOT_COMPARABLE
    assert any("write direction='bidirect'" in note for note in proof.notes)
    assert any("write num_layers=2" in note for note in proof.notes)


def test_what_else_differs_is_found_behind_a_setting():
    ours, theirs = recurrent("GRU", False, False)
    type(ours).forward = lambda self, x: self.out(paddle.tanh(self.inner(self.into(x))[0]))
    proof = prove(ours, theirs, numbers(3, 5, 8))
    assert [mistake.cause for mistake in proof.mistakes] == [Cause.ATTRIBUTE, Cause.EXTRA], str(proof)
    assert "time_major" in proof.mistakes[0].text
    assert "tanh" in proof.mistakes[1].text


def test_an_attention_that_reads_time_first():
    ours, theirs = paddle.nn.MultiHeadAttention(8, 2), torch.nn.MultiheadAttention(8, 2)
    x = numbers(5, 7, 8)
    mistake = only(prove(ours, theirs, (x, x, x)))
    assert "batch_first=False" in mistake.text
    assert "x.transpose([1, 0, 2])" in mistake.text
    right = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    assert prove(ours, right, (x, x, x))  # it returns its weights, too, which the port does not


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ({}, "batch_first=False in Torch's TransformerEncoderLayer"),
        ({"batch_first": True, "norm_first": True}, "normalize_before=True"),
    ],
)
def test_settings_of_a_transformers_layer(words, text):
    ours = paddle.nn.TransformerEncoderLayer(**LAYER, dropout=0.0)
    theirs = torch.nn.TransformerEncoderLayer(**LAYER, dropout=0.0, **words)
    assert text in only(prove(ours, theirs, numbers(5, 7, 8))).text


@pytest.mark.rows(2)
@pytest.mark.parametrize("layers", [1, 2, pytest.param(6, marks=pytest.mark.slow)])
@pytest.mark.parametrize("scale", [1.0, 1.5])
def test_a_port_that_transposes_by_hand_is_not_accused_of_it(layers, scale):
    """Not even where something else is wrong, and what is exchanged might come nearer by chance."""

    def port(self, x):
        x = (self.first(x) * scale).transpose([1, 0, 2])
        for layer in self.inner:
            x = layer(x)
        return x.transpose([1, 0, 2])

    def original(self, x):
        x = self.first(x)
        for layer in self.inner:
            x = layer(x)
        return x

    ours, theirs = pair(port, original, first=("Linear", 8, 8))
    ours.inner = paddle.nn.LayerList([paddle.nn.TransformerEncoderLayer(**LAYER, dropout=0.0) for _ in range(layers)])
    theirs.inner = torch.nn.ModuleList([torch.nn.TransformerEncoderLayer(**LAYER, dropout=0.0) for _ in range(layers)])
    proof = prove(ours, theirs, numbers(5, 7, 8))
    assert bool(proof) is (scale == 1.0), str(proof)
    assert all("batch_first" not in mistake.text for mistake in proof.mistakes), str(proof)


def test_all_layers_of_an_encoder_are_one_mistake():
    def forward(self, x):
        for layer in self.inner:
            x = layer(x)
        return x

    ours, theirs = pair(forward, forward)
    ours.inner = paddle.nn.LayerList([paddle.nn.TransformerEncoderLayer(**LAYER, dropout=0.0) for _ in range(3)])
    theirs.inner = torch.nn.ModuleList([torch.nn.TransformerEncoderLayer(**LAYER, dropout=0.0) for _ in range(3)])
    mistake = only(prove(ours, theirs, numbers(5, 7, 8)))
    assert "batch_first=False" in mistake.text
    assert mistake.layers == ("inner.0", "inner.1", "inner.2")


def embedding(padding):
    def port(self, ids):
        words = paddle.nn.functional.embedding(ids, self.words.weight, padding_idx=0) if padding == "call" else self.words(ids)
        return self.head(words)

    ours, theirs = pair(port, lambda self, ids: self.head(self.words(ids)), head=("Linear", 8, 3))
    ours.words = paddle.nn.Embedding(12, 8, padding_idx=0 if padding == "layer" else None)
    theirs.words = torch.nn.Embedding(12, 8, padding_idx=0)
    torch.nn.init.normal_(theirs.words.weight)  # as a trained one holds something there
    return ours, theirs


@pytest.mark.parametrize("padding", ["layer", "call"])
def test_the_padding_of_an_embedding(padding):
    ours, theirs = embedding(padding)
    ids = np.array([[0, 3, 5], [7, 0, 1]])
    mistake = only(prove(ours, theirs, ids))
    assert "padding_idx=0" in mistake.text
    assert "zeros" in mistake.text
    assert (
        "self.head(words)" in mistake.paddle.source
        or "embedding(" in mistake.paddle.source
        or "self.words" in mistake.paddle.source
    )
    with torch.no_grad():
        theirs.words.weight[0] = 0.0
    assert prove(ours, theirs, ids)
    assert not prove(*embedding(padding), ids)


LAYERS = {
    "padding mode": (
        ("Conv2D", 4, 3, 3),
        {"padding": 1},
        {"padding": 1, "padding_mode": "reflect"},
        "padding_mode='reflect'",
    ),
    "circular": (
        ("Conv2D", 4, 3, 3),
        {"padding": 1},
        {"padding": 1, "padding_mode": "circular"},
        "padding_mode='circular'",
    ),
    "exclusive": (("AvgPool2D", 3, 2, 1), {}, {}, "exclusive=False"),
    "groups": (("GroupNorm", 2, 4), {}, {"num_groups": 4}, "num_groups=4"),
    "dropout": (("Dropout",), {"p": 0.1}, {"p": 0.2}, "p=0.2"),
}


@pytest.mark.parametrize("name", LAYERS)
def test_what_to_write_is_said_in_paddles_words(name):
    (kind, *numbers_), mine, yours, write = LAYERS[name]
    ours, theirs = pair(lambda self, x: self.inner(x), lambda self, x: self.inner(x))
    ours.inner = getattr(paddle.nn, kind)(*numbers_, **mine)
    theirs.inner = getattr(torch.nn, kind.replace("2D", "2d"))(
        *([4] if "num_groups" in yours else numbers_)[:1],
        *numbers_[1:],
        **{word: value for word, value in yours.items() if word != "num_groups"},
    )
    proof = prove(ours, theirs, numbers(2, 4, 6, 6))
    assert [mistake.fix.text for mistake in proof.mistakes] == [write], str(proof)


def test_a_slope_alone_is_trained():
    """Paddle's backward of prelu ends the process where x wants no gradient (docs/defects.md)."""
    ours, theirs = pair(lambda self, x: self.inner(x), lambda self, x: self.inner(x))
    ours.inner, theirs.inner = paddle.nn.PReLU(), torch.nn.PReLU()
    assert prove(ours, theirs, numbers(2, 4))


def test_what_gives_the_originals_value_is_all_that_is_written():
    """With another offset as well the call is nearer to the line's products, and its value is wrong again."""
    ours, theirs = pair(
        lambda self, x: x * x * paddle.nn.functional.hardsigmoid(x, slope=0.2) + x,
        lambda self, x: x * x * torch.nn.functional.hardsigmoid(x) + x,
    )
    assert only(prove(ours, theirs, numbers(3, 4))).write == "slope=0.1666667"


def loss(function):
    return lambda self, x, y: function(self.first(x), y)


WEIGHT = [1.0, 2.0, 3.0]
LOSSES = {
    "weight": ({}, {"weight": torch.tensor(WEIGHT)}, "weight=paddle.to_tensor([1.0, 2.0, 3.0])"),
    "smoothing": ({}, {"label_smoothing": 0.1}, "label_smoothing=0.1"),
    "too much": ({"label_smoothing": 0.2}, {}, "label_smoothing=0"),
    "other": ({"label_smoothing": 0.2}, {"label_smoothing": 0.1}, "label_smoothing=0.1"),
    "ignored": ({"ignore_index": 0}, {"ignore_index": 1}, "ignore_index=1"),
    "reduction": ({"reduction": "sum"}, {}, "reduction='mean'"),
}


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_with_other_arguments(name):
    mine, yours, write = LOSSES[name]
    port = loss(lambda x, y: paddle.nn.functional.cross_entropy(x, y, **mine))
    original = loss(lambda x, y: torch.nn.functional.cross_entropy(x, y, **yours))
    mistake = only(prove(*pair(port, original, first=("Linear", 3, 3)), (numbers(6, 3), np.array([0, 2, 1, 1, 0, 2]))))
    assert mistake.write == write or write in mistake.text
    assert "cross_entropy" in mistake.paddle.source


def test_what_else_a_loss_is_given_otherwise_is_not_hidden():
    functional = paddle.nn.functional
    port = loss(lambda x, y: functional.cross_entropy(functional.gelu(x), y, label_smoothing=0.2, reduction="mean"))
    original = loss(
        lambda x, y: torch.nn.functional.cross_entropy(torch.relu(x), y, label_smoothing=0.1, reduction="sum"),
    )
    proof = prove(*pair(port, original, first=("Linear", 3, 3)), (numbers(6, 3), np.array([0, 2, 1, 1, 0, 2])))
    written = [mistake.write for mistake in proof.mistakes]
    assert "label_smoothing=0.1, reduction='sum'" in written, str(proof)
    assert any("nn.functional.relu(x), y" in text for text in written)
    assert any("gelu" in mistake.text for mistake in proof.mistakes)


def test_a_loss_that_is_called_otherwise():
    port = loss(lambda x, y: paddle.nn.functional.smooth_l1_loss(x, y, delta=0.5))
    original = loss(lambda x, y: torch.nn.functional.smooth_l1_loss(x, y, beta=0.5))
    mistake = only(prove(*pair(port, original, first=("Linear", 3, 3)), (numbers(6, 3), numbers(6, 3) * 2)))
    assert mistake.write == "is_huber=False"


def test_shares_are_weighed_otherwise():
    weight = [1.0, 2.0, 3.0]

    def port(self, x, y):
        functional = paddle.nn.functional
        soft = functional.label_smooth(functional.one_hot(y, 3), epsilon=0.1)
        return functional.cross_entropy(x, soft, weight=paddle.to_tensor(weight), soft_label=True)

    def original(self, x, y):
        return torch.nn.functional.cross_entropy(x, y, torch.tensor(weight), label_smoothing=0.1)

    proof = prove(*pair(port, original), (numbers(4, 3), np.array([0, 2, 1, 1])))
    assert len(proof.mistakes) == 1, str(proof)


def normed(**words):
    ours, theirs = pair(lambda self, x: self.norm(self.conv(x)), lambda self, x: self.norm(self.conv(x)))
    ours.conv, theirs.conv = paddle.nn.Conv2D(3, 4, 1), torch.nn.Conv2d(3, 4, 1)
    ours.norm, theirs.norm = paddle.nn.InstanceNorm2D(4, **words), torch.nn.InstanceNorm2d(4)
    return ours, theirs


def test_weights_without_effect_need_no_partner():
    x = numbers(2, 3, 5, 5)
    proof = prove(*normed(), x)
    assert proof.verdict is ProofVerdict.CODE_CORRECT, str(proof)
    assert any("norm.scale [4], norm.bias [4]" in note and "weight_attr=False" in note for note in proof.notes)
    assert prove(*normed(weight_attr=False, bias_attr=False), x).notes == []
    ours, theirs = normed()
    ours.norm.scale.set_value(paddle.full([4], 1.5))
    assert prove(ours, theirs, x).verdict is ProofVerdict.NOT_COMPARABLE


def test_a_surplus_bias_of_a_linear_is_left_out_by_its_own_attribute():
    """``weight_attr=False``, which a LayerNorm takes, raises in a Linear: the note names what its constructor takes."""
    (note,) = prove(paddle.nn.Linear(4, 4), torch.nn.Linear(4, 4, bias=False), numbers(2, 4), phase="forward").notes
    assert "bias_attr=False" in note
    assert "weight_attr" not in note


@pytest.mark.parametrize("kind", ["LayerNorm", "BatchNorm1D"])
def test_weights_that_the_port_lacks_are_needed(kind):
    """Though they are ones and zeros in a fresh model."""
    ours, theirs = pair(lambda self, x: self.norm(x), lambda self, x: self.norm(x))
    ours.norm = getattr(paddle.nn, kind)(6, weight_attr=False, bias_attr=False)
    theirs.norm = getattr(torch.nn, kind.replace("1D", "1d"))(6)
    assert prove(ours, theirs, numbers(4, 6)).verdict is ProofVerdict.NOT_COMPARABLE


def test_a_bias_too_much_matters_to_a_training():
    ours, theirs = pair(lambda self, x: self.first(x), lambda self, x: self.first(x))
    ours.first, theirs.first = paddle.nn.Linear(6, 6), torch.nn.Linear(6, 6, bias=False)
    options = {"phase": "train", "optimizer": "SGD", "loss": lambda out: (out * out).mean()}
    assert prove(ours, theirs, numbers(4, 6)).verdict is ProofVerdict.CODE_CORRECT
    assert prove(ours, theirs, numbers(4, 6), **options).verdict is ProofVerdict.NOT_COMPARABLE


def test_one_table_under_two_names():
    def forward(self, ids):
        return self.a(ids) + self.b(ids)

    ours, theirs = pair(forward, forward)
    theirs.b = torch.nn.Embedding(10, 6)
    theirs.a = theirs.b
    ours.a = paddle.nn.Embedding(10, 6, padding_idx=0)
    ours.b = ours.a
    proof = prove(ours, theirs, np.array([[0, 1, 2]]))
    assert "padding_idx=0" in proof.mistakes[0].text


@pytest.mark.parametrize(("axis", "text"), [(0, "axis=0 against dim=2 (write axis=2)"), (1, "axis=1 against dim=2 (write axis=2)")])
def test_an_axis_that_a_call_adds(axis, text):
    def port(self, x):
        return self.first(paddle.stack([x, x * 2.0, x * 3.0, x + 1.0], axis=axis).reshape([4, 4, 4]).sum(1))

    def original(self, x):
        return self.first(torch.stack([x, x * 2.0, x * 3.0, x + 1.0], dim=2).reshape(4, 4, 4).sum(1))

    proof = prove(*pair(port, original, first=("Linear", 4, 4)), numbers(4, 4))
    assert any(text in mistake.text for mistake in proof.mistakes), str(proof)


def test_draws_of_a_generator_that_is_put_back():
    def original(self, x):
        with torch.random.fork_rng():
            torch.rand(2)
            return self.second(torch.nn.functional.dropout(self.first(x), 0.5))

    def port(self, x):
        return self.second(paddle.nn.functional.dropout(self.first(x), 0.5))

    proof = prove(*pair(port, original, first=("Linear", 6, 6), second=("Linear", 6, 3)), numbers(4, 6))
    assert proof.verdict is ProofVerdict.CODE_CORRECT, str(proof)


def test_an_index_that_is_broadcast():
    def port(self, x, index):
        return paddle.put_along_axis(x, index, 9.0, 0)

    proof = prove(*pair(port, lambda self, x, index: torch.scatter(x, 0, index, 9.0)), (numbers(2, 3), np.array([[0]])))
    (mistake,) = proof.mistakes
    assert mistake.write == "broadcast=False"
    assert "broadcast=False" in only_text(proof)


def only_text(proof):
    assert len(proof.mistakes) == 1, str(proof)
    return proof.mistakes[0].text


def test_initial_weights_of_another_distribution():
    def forward(self, x):
        return self.second(self.first(x))

    ours, theirs = pair(forward, forward, first=("Linear", 64, 64), second=("Linear", 64, 3))
    notes = [note for note in prove(ours, theirs, numbers(4, 64)).notes if "KaimingUniform" in note]
    assert len(notes) == 1
    assert "first.weight" in notes[0]
    assert "KaimingUniform" in notes[0]
    for layer in (ours.first, ours.second):
        paddle.nn.initializer.KaimingUniform(negative_slope=5**0.5, nonlinearity="leaky_relu")(layer.weight)
    assert not [note for note in prove(ours, theirs, numbers(4, 64)).notes if "KaimingUniform" in note]
    with torch.no_grad():
        theirs.first.weight.mul_(3.0)  # trained: nothing is known of how it began
    assert not [note for note in prove(ours, theirs, numbers(4, 64)).notes if "KaimingUniform" in note]


def attended(scale, fused):
    """Attention step by step, and fused or by ``baddbmm`` in the original, which has no call for the scale."""

    def port(self, x):
        q, k = self.q(x), self.k(x)
        return paddle.nn.functional.softmax(paddle.matmul(q, k, transpose_y=True) * scale, axis=-1) @ x

    def original(self, x):
        q, k = self.q(x), self.k(x)
        if fused:
            return torch.nn.functional.scaled_dot_product_attention(q[:, None], k[:, None], x[:, None])[:, 0]
        return torch.baddbmm(torch.empty(2, 5, 5, dtype=x.dtype), q, k.mT, beta=0, alpha=8**-0.5).softmax(-1) @ x

    return prove(*pair(port, original, q=("Linear", 8, 8), k=("Linear", 8, 8)), numbers(2, 5, 8), phase="forward")


@pytest.mark.parametrize("fused", [False, True])
def test_the_scale_of_an_attention(fused):
    """What is written mends it: the number in place of the port's own."""
    mistake = only(attended(0.25, fused))
    assert attended(eval(mistake.write.removeprefix("* ")), fused)
    assert "softmax" in mistake.paddle.source


def test_the_value_of_an_attention_is_the_query_where_it_is_left_out():
    def port(self, x, y):
        return self.attention(x, y)

    def original(self, x, y):
        return self.attention(x, y, y)[0]

    ours, theirs = pair(port, original)
    ours.attention, theirs.attention = paddle.nn.MultiHeadAttention(8, 2), torch.nn.MultiheadAttention(8, 2, batch_first=True)
    assert only(prove(ours, theirs, (numbers(2, 5, 8), numbers(2, 5, 8, seed=1)))).write == "value=y"


def test_a_dropout_that_does_not_know_of_evaluation():
    ours, theirs = pair(
        lambda self, x: self.first(paddle.nn.functional.dropout(x * 1.5, 0.5)),
        lambda self, x: self.first(self.drop(x * 1.5)),
        first=("Linear", 6, 3),
    )
    theirs.drop = torch.nn.Dropout(0.5)
    ours.eval()
    assert only(prove(ours, theirs.eval(), numbers(4, 6))).write == "training=self.training"


Q = np.array([0.29, 0.5, 0.7], "float32")  # 100 times the first is 29 in float32, and less in float64; so is 10 times the last


@pytest.mark.rows(3)
@pytest.mark.parametrize("outputs", ["floats", "whole numbers"])
@pytest.mark.parametrize(
    ("right", "wrong", "original"),
    [
        (lambda q: q * 100 >= 29, lambda q: q * 100 > 29, lambda q: q * 100 >= 29),
        (lambda q: (q * 100 < 29).logical_not(), lambda q: (q * 100 <= 29).logical_not(), lambda q: q * 100 >= 29),
        (lambda q: q * 10 < q[2] * 10, lambda q: q * 10 <= q[2] * 10, lambda q: q * 10 < q[2] * 10),
        (lambda q: q * 100 != 29, lambda q: q * 100 == 30, lambda q: q * 100 != 29),
        (lambda q: paddle.floor(q * 100), lambda q: paddle.ceil(q * 100) - 1, lambda q: torch.floor(q * 100)),
        (lambda q: (q * 100).astype("int64"), lambda q: paddle.ceil(q * 100) - 1, lambda q: (q * 100).long()),
        (lambda q: (q * 100) // 29, lambda q: paddle.ceil(q * 100 / 29) - 1, lambda q: (q * 100) // 29),
        (lambda q: paddle.round(q * 50), lambda q: paddle.floor(q * 50 + 0.5), lambda q: torch.round(q * 50)),
        (lambda q: paddle.floor(q / 0.01), None, lambda q: torch.floor(q * 100)),  # a tie: both read other numbers
        (lambda q: paddle.trunc(q * 10 * 10), None, lambda q: torch.trunc(q * 100)),
    ],
)
def test_a_boundary_that_float64_does_not_meet(right, wrong, original, outputs):
    """What both read bit for bit decides; where it differs by rounding, several answers are right."""

    def made(self, x, q, answer, kind):
        rows, answers = self.first(x), answer(q)
        return rows * answers.astype("float32") if kind == "floats" else (rows, answers.astype("int64"))

    def run(answer):
        return prove(
            *pair(
                lambda self, x, q: made(self, x, q, answer, outputs),
                lambda self, x, q: (
                    self.first(x) * original(q).float() if outputs == "floats" else (self.first(x), original(q).long())
                ),
                first=("Linear", 4, 3),
            ),
            (numbers(2, 4), Q),
        )

    assert run(right), str(run(right))
    if wrong is not None:
        assert run(wrong).verdict is ProofVerdict.CODE_DIFFERS, str(run(wrong))


@pytest.mark.parametrize(
    ("right", "wrong", "original"),
    [
        (lambda h: h.argsort(-1), lambda h: h.argsort(-1, descending=True), lambda h: h.argsort(-1)),
        (lambda h: paddle.topk(h, 2)[1], lambda h: paddle.topk(h, 2, largest=False)[1], lambda h: h.topk(2)[1]),
        (lambda h: h.argmax(-1), lambda h: h.argmin(-1), lambda h: h.argmax(-1)),
        (lambda h: paddle.kthvalue(h, 2)[1], lambda h: paddle.kthvalue(h, 3)[1], lambda h: h.kthvalue(2)[1]),
        (
            lambda h: paddle.bincount(h.argmax(-1), minlength=6),
            lambda h: paddle.bincount(h.argmin(-1), minlength=6),
            lambda h: torch.bincount(h.argmax(-1), minlength=6),
        ),
        (
            lambda h: paddle.nn.functional.one_hot(h.argmax(-1), 6),
            lambda h: paddle.nn.functional.one_hot(h.argmin(-1), 6),
            lambda h: torch.nn.functional.one_hot(h.argmax(-1), 6).float(),
        ),
    ],
)
def test_indices_as_the_only_output(right, wrong, original):
    """They have no gradient, whatever Paddle says of them; and a mistake in them has its line."""

    def run(answer):
        return prove(
            *pair(lambda self, x: answer(self.first(x)), lambda self, x: original(self.first(x)), first=("Linear", 4, 6)),
            numbers(3, 4),
        )

    assert run(right).verdict is ProofVerdict.CODE_CORRECT, str(run(right))
    (mistake,) = run(wrong).mistakes
    assert mistake.cause in (Cause.ATTRIBUTE, Cause.OTHER_OP)
    assert mistake.paddle is not None


@pytest.mark.rows(1)
@pytest.mark.parametrize("steps", [0, 1])
@pytest.mark.parametrize("slip", ["", "dropout", "batch norm"])
def test_models_in_training_mode_are_looked_at_in_evaluation(slip, steps):
    ours, theirs = pair(
        lambda self, x: paddle.nn.functional.dropout(self.norm(self.first(x)), 0.5, training=slip == "dropout" or self.training),
        lambda self, x: torch.nn.functional.dropout(self.norm(self.first(x)), 0.5, training=self.training),
        first=("Linear", 4, 3),
    )
    ours.norm, theirs.norm = paddle.nn.BatchNorm1D(3), torch.nn.BatchNorm1d(3, track_running_stats=slip != "batch norm")
    words = {"phase": "train", "optimizer": "SGD", "loss": lambda out: (out * out).mean()} if steps else {}
    proof = prove(ours, theirs, numbers(5, 4), **words)
    assert bool(proof) is not bool(slip), str(proof)
    assert ours.training
    assert theirs.training
    if slip:
        mistake = only(proof)
        assert mistake.cause is Cause.ATTRIBUTE
        assert mistake.write.startswith("training=")


def test_an_original_that_does_not_run_in_evaluation():
    """That nobody looked at it is in the headline."""

    def original(self, x):
        if not self.training:
            raise RuntimeError("no targets")
        return self.first(x)

    proof = prove(*pair(lambda self, x: self.first(x), original, first=("Linear", 4, 3)), numbers(5, 4))
    assert proof
    assert "training" in proof.headline
    assert any("no targets" in note for note in proof.notes)


@pytest.mark.rows(1)
@pytest.mark.parametrize("low", [-1e9, -1e30])
@pytest.mark.parametrize("filled", ["original", "port"])
@pytest.mark.parametrize("seen", [False, True])
def test_a_row_that_is_masked_wholly(seen, filled, low):
    """In float32 such a number swallows a score that is added to it; a gradient goes back through an addition alone."""
    masked, counted = np.zeros((2, 3, 3), bool), np.ones((2, 3, 1), "float32")
    masked[0, 1], counted[0, 1] = True, float(seen)

    def original(self, x, m, counted):
        h = self.first(x)
        scores = (h @ h.mT).masked_fill(m, low) if filled == "original" else h @ h.mT + m * low
        return (scores.softmax(-1) @ h) * counted + torch.tanh(h)

    def port(self, x, m, counted):
        h = self.first(x)
        scores = paddle.matmul(h, h, transpose_y=True)
        scores = scores.masked_fill(m, low) if filled == "port" else scores + m.astype(h.dtype) * low
        return paddle.tanh(h) + paddle.nn.functional.softmax(scores, -1) @ h * counted

    proof = prove(*pair(port, original, first=("Linear", 4, 4)), (numbers(2, 3, 4), masked, counted))
    assert bool(proof) is not seen, str(proof)
    stages = {stage.name: stage.right for stage in proof.stages}
    assert stages["forward"]
    assert stages["backward"] is not seen
