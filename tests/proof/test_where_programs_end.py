"""Mistakes behind which nothing follows, that hide as long as weights are as they are made, or in what Paddle moves by itself."""

import paddle
import torch

from padiff_shim import prove

INPUTS = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))


class Heads(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

    def forward(self, x):
        return {"left": torch.tanh(self.a(x)), "right": torch.sigmoid(self.b(x))}


class HeadsPort(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.a, self.b = paddle.nn.Linear(4, 4), paddle.nn.Linear(4, 4)

    def forward(self, x):
        return {"l": paddle.tanh(self.a(x)), "r": paddle.nn.functional.sigmoid(self.b(x))}


class BareHeads(HeadsPort):
    def forward(self, x):
        return {"left": self.a(x), "right": self.b(x)}


def test_each_output_may_lack_its_last_call():
    proof = prove(BareHeads(), Heads(), INPUTS)
    assert [str(mistake) for mistake in proof.mistakes] == [
        "an op is missing: tanh is missing",
        "an op is missing: sigmoid is missing",
    ], str(proof)
    assert [mistake.paddle.layer for mistake in proof.mistakes] == ["a", "b"]


def test_outputs_that_are_called_otherwise_are_compared_in_order_and_said_so():
    proof = prove(HeadsPort(), Heads(), INPUTS)
    assert proof
    assert "outputs are called otherwise by the port, and were compared in order: left is l, right is r" in proof.notes
    assert not any("called otherwise" in note for note in prove(BareHeads(), Heads(), INPUTS).notes)


class Scaled(torch.nn.Module):
    """With a layer scale (Touvron et al., 2021), which begins with ones here."""

    def __init__(self):
        super().__init__()
        self.a, self.scale = torch.nn.Linear(4, 4), torch.nn.Parameter(torch.ones(4))

    def forward(self, x):
        return (x + self.scale * self.a(x)).tanh()


class ScaledPort(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.a = paddle.nn.Linear(4, 4)
        self.scale = self.create_parameter([4], default_initializer=paddle.nn.initializer.Constant(1.0))

    def forward(self, x):
        return (self.scale * (x + self.a(x))).tanh()


def test_a_weight_of_ones_in_another_place_is_located():
    proof = prove(ScaledPort(), Scaled(), INPUTS, phase="both")
    (mistake,) = proof.mistakes
    assert "self.scale * (x" in mistake.paddle.source, str(proof)
    assert "mul" in str(mistake), str(proof)


class Table(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(4, 4)
        self.register_buffer("table", torch.arange(32.0).reshape(8, 4))

    def forward(self, x):
        return self.a(x) * self.table[:3].cos()


class TablePort(paddle.nn.Layer):
    begin = 0

    def __init__(self):
        super().__init__()
        self.a = paddle.nn.Linear(4, 4)
        self.register_buffer("table", paddle.arange(32.0).reshape([8, 4]))

    def forward(self, x):
        return self.a(x) * self.table[self.begin : self.begin + 3].cos()


def test_rows_that_paddle_takes_out_of_a_buffer_are_followed():
    assert prove(TablePort(), Table(), INPUTS)
    port = TablePort()
    port.begin = 1
    (mistake,) = prove(port, Table(), INPUTS).mistakes
    assert str(mistake) == "another attribute: end=4 against 3, start=1 against 0"
    assert "self.begin" in mistake.paddle.source
