"""Buffers that a port computes otherwise than its original, and buffers of zeros."""

from collections import OrderedDict

import numpy as np
import paddle
import pytest
import torch

from padiff_shim import ProofVerdict, prove, transfer_weights

W = 16
X = np.random.default_rng(0).standard_normal((2, 8, W)).astype("float32")


class _Masked(torch.nn.Module):
    def __init__(self, persistent=True):
        super().__init__()
        self.fc, self.norm = torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)
        self.register_buffer("mask", torch.tril(torch.ones(4, 4)), persistent=persistent)
        self.register_buffer("order", torch.tensor([1, 0, 2, 3]), persistent=persistent)

    def forward(self, x):
        return self.norm(self.fc(x))[:, self.order] @ self.mask + self.mask.sum(0)


class _MaskedPort(paddle.nn.Layer):
    def __init__(self, made, persistent=True, order=(1, 0, 2, 3)):
        super().__init__()
        self.fc, self.norm = paddle.nn.Linear(4, 4), paddle.nn.BatchNorm1D(4)
        self.register_buffer("mask", made(paddle.ones([4, 4])), persistable=persistent)  # the line
        self.register_buffer("order", paddle.to_tensor(order), persistable=persistent)  # of whole numbers

    def forward(self, x):
        return paddle.index_select(self.norm(self.fc(x)), self.order, axis=1) @ self.mask + self.mask.sum(0)


def _line(words, number=0):
    with open(__file__) as file:
        return [at for at, line in enumerate(file, 1) if words in line][number]


class _Projected(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("projection", torch.randn(4, 2))

    def forward(self, x):
        return x @ self.projection


class _ProjectedPort(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.register_buffer("projection", paddle.randn([4, 2]))

    def forward(self, x):
        return x @ self.projection


def test_a_buffer_that_both_draw_at_random_is_said_to_be_drawn():
    proof = prove(_ProjectedPort(), _Projected(), np.ones((3, 4), np.float32))
    assert proof.verdict is ProofVerdict.BUFFER_DIFFERS
    (mistake,) = proof.mistakes
    assert "drawn" in mistake.text
    assert mistake.paddle.line == _line("paddle.randn")
    assert prove(_ProjectedPort(), _Projected(), np.ones((3, 4), np.float32), weights="torch->paddle+buffers")


@pytest.mark.parametrize(("made", "wrong"), [(paddle.tril, False), (paddle.triu, True)], ids=["equal", "other mask"])
def test_a_buffer_that_the_port_makes_otherwise_is_a_finding(made, wrong):
    """Running statistics that begin apart are nobody's mistake."""
    original = _Masked()
    original.norm.running_mean += 1.0
    x = np.random.default_rng(0).standard_normal((3, 4)).astype("float32")
    proof = prove(_MaskedPort(made), original, x)
    assert bool(proof) is not wrong
    assert [(mistake.cause.name, mistake.layers, mistake.paddle.line) for mistake in proof.mistakes] == [
        ("BUFFER", ("",), _line("# the line"))
    ] * wrong
    assert proof.verdict is (ProofVerdict.BUFFER_DIFFERS if wrong else ProofVerdict.CODE_CORRECT)
    assert prove(_MaskedPort(made), original, x, weights="torch->paddle+buffers")


@pytest.mark.parametrize(
    ("made", "order", "words"),
    [
        (paddle.tril, (1, 0, 2, 3), ""),
        (paddle.triu, (1, 0, 2, 3), "# the line"),
        (lambda ones: 2 * paddle.tril(ones), (1, 0, 2, 3), "# the line"),  # no factor for its reader
        (paddle.tril, (1, 0, 3, 2), "# of whole numbers"),
    ],
)
def test_a_buffer_that_no_file_keeps(made, order, words):
    """Nobody copies it, so it is wrong where it is made."""
    x = np.random.default_rng(0).standard_normal((3, 4)).astype("float32")
    proof = prove(_MaskedPort(made, persistent=False, order=order), _Masked(persistent=False), x)
    wanted = [("BUFFER", _line(words))] if words else []
    assert [(mistake.cause.name, mistake.paddle.line) for mistake in proof.mistakes] == wanted, str(proof)
    assert not any(mistake.write for mistake in proof.mistakes)


class _Drawn(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)
        self.register_buffer("features", torch.randn(6, 4))

    def forward(self, x):
        return torch.tanh(self.fc(x) @ self.features.T).sum(-1)


class _DrawnPort(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.fc = paddle.nn.Linear(4, 4)
        self.register_buffer("features", paddle.randn([6, 4]))

    def forward(self, x):
        return paddle.tanh(paddle.matmul(self.fc(x), self.features, transpose_y=True)).max(-1)  # the op


def test_a_buffer_that_began_apart_does_not_hide_a_mistake():
    """With its own values the port has the one mistake that these are others."""
    proof = prove(_DrawnPort(), _Drawn(), np.random.default_rng(0).standard_normal((3, 4)).astype("float32"))
    assert (proof.verdict, proof.mistakes[0].paddle.line) == (ProofVerdict.CODE_DIFFERS, _line("# the op")), str(proof)


class _Positions(torch.nn.Module):
    def __init__(self, rows=32):
        super().__init__()
        angles = torch.arange(float(rows))[:, None] * torch.exp(torch.arange(0, W, 2.0) * -(np.log(1e4) / W))
        self.register_buffer("pe", torch.stack([angles.sin(), angles.cos()], -1).reshape(rows, W))
        self.up = torch.nn.Linear(W, W)

    def forward(self, x):
        return self.up(x + self.pe[: x.shape[1]])


class _PositionsPort(paddle.nn.Layer):
    def __init__(self, made="interleaved", rows=32):
        super().__init__()
        angles = paddle.arange(rows, dtype="float32")[:, None] * 10000.0 ** (-paddle.arange(0, W, 2, dtype="float32") / W)
        joined = paddle.concat([angles.sin(), angles.cos()], -1)
        table = joined if made == "concatenated" else paddle.stack([angles.sin(), angles.cos()], -1).reshape([rows, W])
        table[20:] = 7.0 if made == "unread" else table[20:]
        if made == "parameter":
            self.pe = self.create_parameter([rows, W], default_initializer=paddle.nn.initializer.Assign(joined))
            self.pe.stop_gradient = True
        else:
            self.register_buffer("pe", 2 * table if made == "scaled" else table)
        self.up, self.made = paddle.nn.Linear(W, W), made

    def forward(self, x):
        table = self.pe[: x.shape[1]]
        return self.up(x + (table / 2 if self.made == "scaled" else table))


@pytest.mark.parametrize(
    ("made", "verdict"),
    [
        ("interleaved", ProofVerdict.CODE_CORRECT),  # rounded otherwise
        ("concatenated", ProofVerdict.BUFFER_DIFFERS),
        ("parameter", ProofVerdict.BUFFER_DIFFERS),
        ("unread", ProofVerdict.CODE_CORRECT),  # what no output shows
        ("scaled", ProofVerdict.CODE_CORRECT),  # right with a table of its own
    ],
)
def test_a_table_of_positions(made, verdict):
    proof = prove(_PositionsPort(made), _Positions(), X)
    wanted = {verdict, ProofVerdict.CODE_CORRECT_WITHIN_ROUNDING} if bool(verdict) else {verdict}
    assert proof.verdict in wanted, str(proof)
    report = prove(_PositionsPort(made), _Positions(), X).report()
    assert bool(report) is bool(verdict)


def test_values_of_the_port_in_the_original():
    assert prove(_PositionsPort("concatenated"), _Positions(), X, weights="paddle->torch").verdict is ProofVerdict.BUFFER_DIFFERS


def test_a_transfer_does_not_hide_what_the_port_had_made():
    for made, verdict in (("concatenated", ProofVerdict.BUFFER_DIFFERS), ("interleaved", ProofVerdict.CODE_CORRECT)):
        port, original = _PositionsPort(made), _Positions()
        transfer_weights(original, port)
        assert prove(port, original, X, weights="as-is").verdict is verdict
        assert prove(port, original, X, weights="as-is+buffers").verdict is ProofVerdict.CODE_CORRECT


class _Router(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(8, W))
        self.register_buffer("bias", torch.zeros(8))

    def forward(self, x):
        scores = torch.sigmoid(torch.nn.functional.linear(x, self.weight))
        places = torch.topk(scores + self.bias, 2, dim=-1)[1]
        return scores.gather(-1, places)


class _RouterPort(paddle.nn.Layer):
    def __init__(self, right):
        super().__init__()
        self.weight, self.right = self.create_parameter([8, W]), right
        self.register_buffer("bias", paddle.zeros([8]))

    def forward(self, x):
        scores = paddle.nn.functional.sigmoid(paddle.matmul(x, self.weight, transpose_y=True))
        values, places = paddle.topk(scores + self.bias, 2, axis=-1)
        return paddle.take_along_axis(scores, places, -1) if self.right else values


@pytest.mark.parametrize("weights", ["torch->paddle", "paddle->torch", "random"])
@pytest.mark.parametrize("right", [True, False])
def test_zeros_are_no_evidence(right, weights):
    assert bool(prove(_RouterPort(right), _Router(), X, weights=weights)) is right


class _Biased(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(W, W)
        torch.nn.init.zeros_(self.fc.bias)

    def forward(self, x):
        return self.fc(x)


class _Unbiased(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.fc = paddle.nn.Linear(W, W)

    def forward(self, x):
        return paddle.matmul(x, self.fc.weight)


def test_zeros_without_a_gradient_are_none_either():
    assert not prove(_Unbiased(), _Biased(), X, phase="forward")
    assert prove(paddle.nn.Linear(W, W), torch.nn.Linear(W, W), X, phase="forward")


@pytest.mark.parametrize("right", [True, False])
def test_statistics_of_a_new_layer_do_not_hide_its_place(right):
    layers = [("norm", paddle.nn.BatchNorm1D(8)), ("act", paddle.nn.ReLU())]
    original = torch.nn.Sequential(OrderedDict(norm=torch.nn.BatchNorm1d(8), act=torch.nn.ReLU())).eval()
    port = paddle.nn.Sequential(*(layers if right else layers[::-1]))
    port.eval()
    assert bool(prove(port, original, X, phase="forward")) is right


class _Modulated(torch.nn.Module):
    """Begins as diffusion transformers do: both layers that close a branch hold zeros, so no gradient passes them."""

    def __init__(self):
        super().__init__()
        self.condition, self.inner, self.out = (torch.nn.Linear(W, width) for width in (2 * W, W, 3))
        for weight in (*self.condition.parameters(), *self.out.parameters()):
            torch.nn.init.zeros_(weight)

    def forward(self, x):
        shift, gate = self.condition(torch.nn.functional.silu(x)).chunk(2, -1)
        return self.out(x + gate * self.inner(x + shift))


class _ModulatedPort(paddle.nn.Layer):
    def __init__(self, right):
        super().__init__()
        zeros = paddle.nn.initializer.Constant(0.0)
        self.condition = paddle.nn.Linear(W, 2 * W, weight_attr=zeros, bias_attr=zeros)
        self.inner, self.out = paddle.nn.Linear(W, W), paddle.nn.Linear(W, 3, weight_attr=zeros, bias_attr=zeros)
        self.activation = paddle.nn.functional.silu if right else paddle.nn.functional.relu

    def forward(self, x):
        shift, gate = self.condition(self.activation(x)).chunk(2, -1)
        return self.out(x + gate * self.inner(x + shift))


@pytest.mark.parametrize("phase", ["forward", "both"])
@pytest.mark.parametrize("right", [True, False])
def test_zeros_behind_zeros_hide_gradients_too(right, phase):
    assert bool(prove(_ModulatedPort(right), _Modulated(), X, phase=phase)) is right


class _Faint(torch.nn.Module):
    """Begins as vision encoders of SAM do: with weights near zero, so that all attention is uniform."""

    def __init__(self):
        super().__init__()
        self.queries, self.keys = torch.nn.Linear(W, W), torch.nn.Linear(W, W)
        for weight in self.parameters():
            torch.nn.init.normal_(weight, std=1e-10)

    def forward(self, x):
        return x + torch.softmax(self.queries(x) @ self.keys(x).transpose(-1, -2), -1) @ x


class _FaintPort(paddle.nn.Layer):
    def __init__(self, axis):
        super().__init__()
        self.queries, self.keys, self.axis = paddle.nn.Linear(W, W), paddle.nn.Linear(W, W), axis

    def forward(self, x):
        scores = self.queries(x) @ self.keys(x).transpose([0, 2, 1])
        return x + paddle.nn.functional.softmax(scores, self.axis) @ x


@pytest.mark.parametrize("phase", ["forward", "both"])
@pytest.mark.parametrize("axis", [-1, -2])
def test_weights_near_zero_are_no_evidence(axis, phase):
    x = np.random.default_rng(0).standard_normal((2, 6, W)).astype("float32")
    assert bool(prove(_FaintPort(axis), _Faint(), x, phase=phase)) is (axis == -1)


@pytest.mark.parametrize("phase", ["both", "train"])
@pytest.mark.parametrize("wrong", [False, True])
def test_each_run_begins_without_what_forwards_leave_in_plain_attributes(phase, wrong):
    class Port(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.linear, self.count, self.seen, self.last = paddle.nn.Linear(4, 4), 0, [], None
            self.total = paddle.zeros([4])

        def forward(self, x):
            self.count += 1 + wrong
            self.seen.append(self.linear(x))
            self.total.add_(paddle.ones([4]))
            before, self.last = 0 if self.last is None else self.last, self.seen[0].detach()
            return self.seen[0] * self.count + self.total + before

    class Original(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.count, self.seen, self.last = torch.nn.Linear(4, 4), 0, [], None
            self.total = torch.zeros(4)

        def forward(self, x):
            self.count += 1
            self.seen.append(self.linear(x))
            self.total.add_(torch.ones(4))
            before, self.last = 0 if self.last is None else self.last, self.seen[0].detach()
            return self.seen[0] * self.count + self.total + before

    trained = {"optimizer": "SGD", "loss": lambda output: output.mean()} if phase == "train" else {}
    proof = prove(Port(), Original(), np.eye(4), phase=phase, **trained)
    assert bool(proof) is not wrong, str(proof)
    assert wrong or proof.differences["native"] < 1e-4


class _Remembering(torch.nn.Module):
    """Its second call reads what the first has left: in an attribute, or in buffers."""

    def __init__(self, where):
        super().__init__()
        self.linear, self.last, self.where = torch.nn.Linear(4, 4), None, where
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("calls", torch.zeros([], dtype=torch.int64))

    def forward(self, x):
        hidden = self.linear(x)
        if self.where == "attribute":
            hidden = hidden if self.last is None else hidden + self.last
            self.last = hidden.detach()
        elif self.where == "buffers":
            with torch.no_grad():
                self.mean.copy_(0.9 * self.mean + 0.1 * hidden.mean(0) if int(self.calls) else hidden.mean(0))
                self.calls += 1
            hidden = hidden - self.mean
        return hidden


class _RememberingPort(paddle.nn.Layer):
    def __init__(self, where, rate):
        super().__init__()
        self.linear, self.last, self.where, self.rate = paddle.nn.Linear(4, 4), None, where, rate
        self.register_buffer("mean", paddle.zeros([4]))
        self.register_buffer("calls", paddle.zeros([], dtype="int64"))

    def forward(self, x):
        hidden = self.linear(x)
        if self.where == "attribute":
            hidden = hidden if self.last is None else hidden + self.rate * self.last
            self.last = hidden.detach()
        elif self.where == "buffers":
            with paddle.no_grad():
                self.mean.set_value(0.9 * self.rate * self.mean + 0.1 * hidden.mean(0) if int(self.calls) else hidden.mean(0))
                self.calls += 1
            hidden = hidden - self.mean
        elif self.where == "once":
            assert self.last is None
            self.last = 1
        return hidden


@pytest.mark.parametrize("phase", ["forward", "both"])
@pytest.mark.parametrize("where", ["attribute", "buffers"])
@pytest.mark.parametrize("rate", [1.0, 0.5])
def test_a_second_call_is_compared_where_a_first_leaves_something_for_it(where, rate, phase):
    proof = prove(_RememberingPort(where, rate), _Remembering(where), np.eye(4), phase=phase)
    assert bool(proof) is (rate == 1.0), str(proof)
    assert rate == 1.0 or any("self.rate" in mistake.paddle.source for mistake in proof.mistakes), str(proof)


def test_what_the_port_has_forgotten_shows_in_a_second_call():
    assert prove(_RememberingPort("nowhere", 1.0), _Remembering("attribute"), np.eye(4)).mistakes


def test_a_port_whose_second_call_fails_is_not_called_right():
    proof = prove(_RememberingPort("once", 1.0), _Remembering("nowhere"), np.eye(4))
    assert proof.verdict is ProofVerdict.NOT_COMPARABLE
    assert "test_buffers.py" in proof.reason
