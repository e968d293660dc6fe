"""Mistakes behind which nothing follows, that hide as long as weights are as they are made, or in what Paddle moves by itself."""

import collections
import types

import numpy as np
import paddle
import pytest
import torch
from helpers import classes, pair

from padiff_shim import prove
from padiff_shim.proof.findings import Cause

INPUTS = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))


def heads(self, x):
    return {"left": torch.tanh(self.a(x)), "right": torch.sigmoid(self.b(x))}


def heads_port(self, x):
    return {"l": paddle.tanh(self.a(x)), "r": paddle.nn.functional.sigmoid(self.b(x))}


HeadsPort, Heads = classes(heads_port, heads, a=("Linear", 4, 4), b=("Linear", 4, 4))


class BareHeads(HeadsPort):
    def forward(self, x):
        return {"left": self.a(x), "right": self.b(x)}


def test_each_output_may_lack_its_last_call():
    proof = prove(BareHeads(), Heads(), INPUTS)
    assert {mistake.paddle.layer: mistake.torch.call for mistake in proof.mistakes} == {"a": "tanh", "b": "sigmoid"}, str(proof)
    assert {mistake.cause for mistake in proof.mistakes} == {Cause.MISSING}


def test_outputs_that_are_called_otherwise_are_compared_in_order_and_said_so():
    proof = prove(HeadsPort(), Heads(), INPUTS)
    assert proof
    assert any("left is l" in note and "right is r" in note for note in proof.notes)
    assert not any("left is" in note for note in prove(BareHeads(), Heads(), INPUTS).notes)


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


@pytest.mark.slow
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


def _between(self, x):
    return self.b(self.between(torch.tanh(self.a(x) * 2.0)))


def _between_port(self, x):
    return self.b(self.between(paddle.tanh(self.a(x) * self.factor)))  # the only mistake


_BetweenPort, _Between = classes(_between_port, _between, a=("Linear", 8, 8), b=("Linear", 8, 8))


def _halves(bytes_, concat):
    return concat([bytes_[:, 4:], bytes_[:, :4]], 1)


BETWEEN = {  # Torch's, Paddle's
    "bytes": (lambda y: (y * 20).round().byte() / 255.0, lambda y: (y * 20).round().cast("uint8") / 255.0),
    "bytes, moved": (
        lambda y: _halves((y.abs() * 50).byte(), torch.cat).t().reshape(-1, 8) / 255.0,
        lambda y: _halves((y.abs() * 50).cast("uint8"), paddle.concat).transpose([1, 0]).reshape([-1, 8]) / 255.0,
    ),
    "bytes, as floats": (
        lambda y: (y.abs() * 50).byte().float() * 0.1,
        lambda y: (y.abs() * 50).cast("uint8").cast("float32") * 0.1,
    ),
    "whole numbers": (lambda y: ((y * 10).long() * 2 + 1).float(), lambda y: ((y * 10).astype("int64") * 2 + 1).astype("float32")),
    "floor": (lambda y: torch.div((y * 100).int(), 7, rounding_mode="floor") / 3.0, lambda y: (y * 100).astype("int32") // 7 / 3.0),
    "spectrum": (lambda y: torch.fft.fft(y).real, lambda y: paddle.fft.fft(y).real()),
    "shifted": (
        lambda y: torch.fft.fftshift(torch.fft.fft2(y)).real,
        lambda y: paddle.fft.fftshift(paddle.fft.fft2(y)).real(),
    ),
    "power": (
        lambda y: torch.fft.fft(y).real ** 2 + torch.fft.fft(y).imag ** 2,
        lambda y: paddle.fft.fft(y).real() ** 2 + paddle.fft.fft(y).imag() ** 2,
    ),
}


@pytest.mark.rows(1)
@pytest.mark.parametrize("between", BETWEEN)
def test_a_mistake_in_front_of_what_paddle_computes_by_itself(between):
    """Whole numbers and parts of complex ones are followed by what made them."""
    functions, x = BETWEEN[between], np.random.default_rng(0).standard_normal((4, 8)).astype("float32")
    torch.manual_seed(0)
    assert prove(_BetweenPort(between=functions[1], factor=2.0), _Between(between=functions[0]), x, phase="forward")
    proof = prove(_BetweenPort(between=functions[1], factor=1.5), _Between(between=functions[0]), x, phase="forward")
    assert [(mistake.cause.name, mistake.paddle.source) for mistake in proof.mistakes] == [
        ("ATTRIBUTE", "return self.b(self.between(paddle.tanh(self.a(x) * self.factor)))  # the only mistake")
    ]


# ---- Where the port's graph ends.


class _Gated(torch.nn.Module):
    def __init__(self, changed=lambda h: h):
        super().__init__()
        self.a, self.b, self.c, self.changed = *(torch.nn.Linear(8, 8) for _ in range(3)), changed

    def forward(self, x):
        h = self.changed(torch.tanh(self.a(x)))
        return self.c(h * torch.sigmoid(self.b(h)))


class _GatedPort(paddle.nn.Layer):
    def __init__(self, changed):
        super().__init__()
        self.a, self.b, self.c, self.changed = *(paddle.nn.Linear(8, 8) for _ in range(3)), changed

    def forward(self, x):
        h = self.changed(paddle.tanh(self.a(x)))
        return self.c(h * paddle.nn.functional.sigmoid(self.b(h)))


def _without_gradient(h):
    with paddle.no_grad():
        return h * 1.0


@paddle.no_grad()
def _decorated(h):
    return h * 1.0


def _stopped(h):
    h.stop_gradient = True
    return h


def _logged(h):
    float(h.detach().mean()), h.numpy().std()
    return h


ENDS = {
    "detach": lambda h: h.detach(),
    "half of it": lambda h: 0.5 * h + 0.5 * h.detach(),
    "no_grad": _without_gradient,
    "decorator": _decorated,
    "stop_gradient": _stopped,
    "to_tensor": lambda h: paddle.to_tensor(h),
    "numpy": lambda h: paddle.to_tensor(h.numpy()),
    "computed in numpy": lambda h: paddle.to_tensor(np.abs(h.numpy()) * np.sign(h.numpy())),
    "assign": lambda h: paddle.assign(h.numpy()),
}


@pytest.mark.parametrize("end", ENDS)
def test_the_end_of_a_graph_has_its_line(end):
    x = np.random.default_rng(1).standard_normal((5, 8)).astype("float32")
    proof = prove(_GatedPort(ENDS[end]), _Gated(), x)
    code = ENDS[end].__code__
    ends = [mistake for mistake in proof.mistakes if mistake.cause.name == "GRAPH_ENDS"]
    assert len(ends) == len(proof.mistakes) == 1, str(proof)
    first = code.co_firstlineno
    assert first <= ends[0].paddle.line <= first + 4 or end == "decorator"


class _Slowed(paddle.autograd.PyLayer):
    @staticmethod
    def forward(ctx, x):
        return x * 2.0

    @staticmethod
    def backward(ctx, grad):
        return grad * 3.0


def test_a_wrong_backward_of_a_pylayer_has_its_own_line():
    x = np.random.default_rng(1).standard_normal((5, 8)).astype("float32")
    (mistake,) = prove(_GatedPort(_Slowed.apply), _Gated(lambda h: h * 2.0), x).mistakes
    assert (mistake.paddle.source, mistake.fix) == ("return grad * 3.0", None)
    assert "other=3" in mistake.text


class _Shares(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.softmax(x, -1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        weighed = grad * y
        mean = weighed.sum(-1, keepdim=True)
        return weighed - mean * y


class _SharesPort(paddle.autograd.PyLayer):
    @staticmethod
    def forward(ctx, x):
        y = paddle.nn.functional.softmax(x, -1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensor()
        weighed = grad * y
        _ = weighed.sum(-1, keepdim=True)
        return weighed


def test_what_a_pylayers_backward_leaves_out_has_its_line():
    x = np.random.default_rng(1).standard_normal((5, 8)).astype("float32")
    (mistake,) = prove(_GatedPort(_SharesPort.apply), _Gated(_Shares.apply), x).mistakes
    assert mistake.paddle.source in ("return weighed", "_ = weighed.sum(-1, keepdim=True)"), mistake


class _Penalized(_Gated):
    def forward(self, x):
        x = x.detach().requires_grad_()
        y = torch.tanh(self.a(x))
        (slope,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        return y.mean() + (slope**2).sum()


class _PenalizedPort(_GatedPort):
    def forward(self, x):
        x = x.detach()
        x.stop_gradient = False
        y = paddle.tanh(self.a(x))
        (slope,) = paddle.grad(y.sum(), x, **self.changed)
        return y.mean() + (slope**2).sum()


def test_gradients_of_which_no_graph_is_made_end_it():
    x = np.random.default_rng(1).standard_normal((5, 8)).astype("float32")
    assert prove(_PenalizedPort({"create_graph": True}), _Penalized(), x)
    for settings in ({"retain_graph": True}, {"create_graph": False}):
        (mistake,) = prove(_PenalizedPort(settings), _Penalized(), x).mistakes
        assert (mistake.cause.name, mistake.write) == ("GRAPH_ENDS", "create_graph=True")
        assert mistake.paddle.source == "(slope,) = paddle.grad(y.sum(), x, **self.changed)"


def test_what_is_only_looked_at_ends_no_graph():
    assert prove(_GatedPort(_logged), _Gated(), np.ones((5, 8), "float32"))


def test_a_loss_in_numpy_ends_the_graph():
    x = np.random.default_rng(1).standard_normal((5, 8)).astype("float32")

    def loss(out):
        apart = np.abs(out.numpy() - 1.0)
        return paddle.to_tensor(apart.mean(), stop_gradient=False)

    proof = prove(_GatedPort(lambda h: h), _Gated(), x, loss=(loss, lambda out: (out - 1.0).abs().mean()))
    assert [(mistake.cause.name, mistake.paddle.source) for mistake in proof.mistakes] == [
        ("GRAPH_ENDS", "apart = np.abs(out.numpy() - 1.0)")
    ]


def test_the_backward_is_wrong_behind_an_end():
    proof = prove(_GatedPort(ENDS["half of it"]), _Gated(), np.random.default_rng(1).standard_normal((5, 8)).astype("float32"))
    assert {stage.name: stage.right for stage in proof.stages}["backward"] is False


def _without_torchs_gradient(h):
    with torch.no_grad():
        return h * 1.0


ENDS_OF_THE_ORIGINAL = {
    "detach": (lambda h: h.detach(), lambda h: h),
    "data": (lambda h: h.data, lambda h: h),
    "no_grad": (_without_torchs_gradient, lambda h: h * 1.0),
    "rounded": (lambda h: h + (torch.round(h) - h).detach(), lambda h: h + (paddle.round(h) - h)),
}


class _GatedByADetached(_Gated):
    def forward(self, x):
        h = torch.nn.functional.silu(self.a(x))
        return self.c(h) * torch.sigmoid(self.b(h.detach()))


class _GatedByHand(_GatedPort):
    def forward(self, x):
        h = self.a(x)
        h = h / (1 + paddle.exp(-h))
        return self.c(h) * paddle.nn.functional.sigmoid(self.b(h))


def test_a_forward_that_is_written_otherwise_is_not_accused_of_wrong_gradients():
    """One side's kernels round otherwise, so that the forward is not equal in bits."""
    x = np.random.default_rng(1).standard_normal((5, 8)).astype("float32")
    proof = prove(_GatedByHand(None), _GatedByADetached(), x)
    (mistake,) = proof.mistakes
    assert (mistake.cause.name, mistake.paddle.layer) == ("GRAPH_GOES_ON", "b"), str(proof)
    assert "self.b(h)" in mistake.paddle.source
    assert {stage.name: stage.right for stage in proof.stages}["forward"] is True
    assert {stage.name: stage.right for stage in proof.stages}["backward"] is False


@pytest.mark.rows(2)
@pytest.mark.parametrize("end", ENDS_OF_THE_ORIGINAL)
def test_a_graph_that_goes_on_behind_the_originals_end_has_its_line(end):
    original, port = ENDS_OF_THE_ORIGINAL[end]
    x = np.random.default_rng(1).standard_normal((5, 8)).astype("float32")
    proof = prove(_GatedPort(port), _Gated(original), x)
    (mistake,) = proof.mistakes
    assert (mistake.cause.name, proof.stages[-1].right) == ("GRAPH_GOES_ON", False)
    reader = _GatedPort.forward.__code__.co_firstlineno + 2
    assert mistake.paddle.line == (port.__code__.co_firstlineno if "+" in mistake.paddle.source else reader)


def test_a_weight_that_the_original_freezes_is_no_graph_that_goes_on():
    original = _Gated()
    original.a.requires_grad_(False)
    proof = prove(_GatedPort(lambda h: h), original, np.ones((5, 8), "float32"))
    assert [mistake.cause.name for mistake in proof.mistakes] == ["TRAINED"]
    assert "self.a.weight.stop_gradient = True" in proof.mistakes[0].write


class _Halves(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = torch.nn.LSTM(8, 5, batch_first=True, bidirectional=True)

    def forward(self, x):
        return self.rnn(x)[0]


class _HalvesPort(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.rnn = paddle.nn.LSTM(8, 5, direction="bidirect")

    def forward(self, x):
        y = self.rnn(x)[0]
        return paddle.concat([y[..., 5:], y[..., :5]], -1)


@pytest.mark.slow
def test_a_result_of_the_same_numbers_in_another_order_is_named_where_it_is_made():
    proof = prove(_HalvesPort(), _Halves(), np.random.default_rng(1).standard_normal((2, 4, 8)).astype("float32"))
    assert [(mistake.cause.name, mistake.paddle.line) for mistake in proof.mistakes] == [
        ("SWAPPED", _HalvesPort.forward.__code__.co_firstlineno + 2)
    ]


def _masked(self, x):
    return self.made(self.a(x))


def _masked_port(self, x):
    return self.made(self.a(x))


_MaskedPort, _Masked = classes(_masked_port, _masked, a=("Linear", 6, 6))


ROWS = np.arange(6) % 2 == 0
MASKS = {
    "triangle": (
        lambda s: (s + torch.triu(torch.full((6, 6), -1e9), 1)).softmax(-1),
        lambda s: paddle.nn.functional.softmax(s + paddle.tril(paddle.full([6, 6], -1e9), -1), -1),
        "OTHER_OP",
    ),
    "number": (
        lambda s: s.masked_fill(torch.tensor(ROWS), -torch.inf).softmax(-1),
        lambda s: paddle.nn.functional.softmax(s.masked_fill(paddle.to_tensor(ROWS), 0.0), -1),
        "ATTRIBUTE",
    ),
    "diagonal": (  # Paddle compares unseen
        lambda s: s.masked_fill(torch.ones(6, 6).triu(1).bool(), -1e9).softmax(-1),
        lambda s: paddle.nn.functional.softmax(s.masked_fill(paddle.ones([6, 6]).triu(0) == 1, -1e9), -1),
        "ATTRIBUTE",
    ),
    "lower": (
        lambda s: s.masked_fill(torch.ones(6, 6).triu(1).bool(), -1e9).softmax(-1),
        lambda s: paddle.nn.functional.softmax(paddle.where(paddle.ones([6, 6]).tril(1) > 0, s, paddle.full_like(s, -1e9)), -1),
        "CONSTANT",
    ),
}


@pytest.mark.parametrize("mask", MASKS)
def test_another_mask_is_named_where_it_is_made(mask):
    original, port, cause = MASKS[mask]
    proof = prove(
        _MaskedPort(made=port), _Masked(made=original), np.random.default_rng(1).standard_normal((6, 6)).astype("float32")
    )
    assert [(mistake.cause.name, mistake.paddle.line) for mistake in proof.mistakes] == [(cause, port.__code__.co_firstlineno)]


class Box:
    def __init__(self, value):
        self.value, self.around, self.name = value, self, "box"


class Slots:
    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value


def _yielded(h):
    yield h


WAYS_OUT = {
    "attributes": Box,
    "slots": Slots,
    "a namespace": lambda h: types.SimpleNamespace(inner=[Box(h)]),
    "a deque": lambda h: collections.deque([h]),
    "a set": lambda h: {"a": {h}},
    "views": lambda h: {"a": h}.values(),
    "a generator": _yielded,
    "an iterator": lambda h: (iter([h]), None),
    "a map": lambda h: map(torch.Tensor.tanh if isinstance(h, torch.Tensor) else paddle.tanh, [h]),
    "numbers": lambda h: float(h.sum()),
    "a list of numbers": lambda h: (h.detach(), h.tolist()),
    "NumPy": lambda h: h.detach().numpy(),
}


def _ending(way, factor=1):
    """A port and an original whose results leave in a way, the port's times a factor."""

    class Port(HeadsPort):
        def forward(self, x):
            return way(paddle.tanh(self.a(x)) * factor)

    class Original(Heads):
        def forward(self, x):
            return way(torch.tanh(self.a(x)) * 1)

    return Port(), Original()


@pytest.mark.rows(5)
@pytest.mark.parametrize("way", WAYS_OUT)
def test_outputs_are_compared_in_whatever_holds_them(way):
    assert str(prove(*_ending(WAYS_OUT[way]), INPUTS).verdict).startswith("CODE_CORRECT")
    assert str(prove(*_ending(WAYS_OUT[way], 2), INPUTS).verdict) == "CODE_DIFFERS"


@pytest.mark.parametrize("way", [lambda h: lambda: h, lambda h: (h, object()), lambda h: {h, h + 1}, lambda h: None])
def test_a_port_with_an_output_that_cannot_be_compared_is_not_called_right(way):
    proof = prove(*_ending(way), INPUTS)
    assert str(proof.verdict) == "NOT_COMPARABLE", str(proof)


@pytest.mark.parametrize("value", [3, True, "text", 2.5, 2**70, b"bytes"])
def test_numbers_and_texts_beside_a_tensor_are_compared(value):
    def verdict(other):
        return str(prove(*_ending(lambda h: (h, value if isinstance(h, torch.Tensor) else other)), INPUTS).verdict)

    assert verdict(value) == "CODE_CORRECT"
    assert verdict(type(value)()) == "CODE_DIFFERS"


def test_names_of_attributes_are_no_order():
    port, original = _ending(lambda h: types.SimpleNamespace(**{"a" if isinstance(h, torch.Tensor) else "b": h}))
    assert str(prove(port, original, INPUTS).verdict) == "NOT_COMPARABLE"


def test_a_loss_reads_what_a_generator_gave():
    port, original = _ending(_yielded, 2)
    assert not prove(port, original, INPUTS, loss=lambda outputs: outputs[0].mean())


@pytest.mark.parametrize("detached", ["one", "both", "none"])
def test_the_graph_ends_before_an_input(detached):
    class Port(HeadsPort):
        def forward(self, x):
            left = x if detached == "none" else x.detach()
            right = x.detach() if detached == "both" else x
            return self.a(left) + self.b(right)

    class Original(Heads):
        def forward(self, x):
            return self.a(x) + self.b(x)

    proof = prove(Port(), Original(), INPUTS)
    assert {mistake.cause for mistake in proof.mistakes} == ({Cause.GRAPH_ENDS} if detached != "none" else set()), str(proof)
    assert bool(proof) is (detached == "none")
    assert detached != "one" or "left = x" in proof.mistakes[0].paddle.source


def test_a_graph_that_the_original_begins_anew_may_begin_anew():
    class Port(HeadsPort):
        def forward(self, x):
            x = x.clone().detach()
            x.stop_gradient = False
            return paddle.grad(paddle.tanh(self.a(x)).sum(), x, create_graph=True)[0]

    class Original(Heads):
        def forward(self, x):
            x = x.clone().requires_grad_(True)
            return torch.autograd.grad(torch.tanh(self.a(x)).sum(), x, create_graph=True)[0]

    assert prove(Port(), Original(), INPUTS)


def _normed(framework, linear, norm):
    return framework.Sequential(linear(4, 4), norm(4), linear(4, 4))


@pytest.mark.parametrize("reentrant", [True, False])
def test_recompute_of_a_block_whose_inputs_want_no_gradient_ends_the_graph(reentrant):
    from paddle.distributed.fleet.utils import recompute  # as a program would

    class Original(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.block = _normed(torch.nn, torch.nn.Linear, torch.nn.LayerNorm)

        def forward(self, x):
            return torch.utils.checkpoint.checkpoint(self.block, x, use_reentrant=False)

    class Port(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.block = _normed(paddle.nn, paddle.nn.Linear, paddle.nn.LayerNorm)

        def forward(self, x):
            return recompute(self.block, x, use_reentrant=reentrant)

    proof = prove(Port(), Original(), INPUTS)
    causes = [(mistake.cause, mistake.write) for mistake in proof.mistakes]
    assert causes == ([(Cause.GRAPH_ENDS, "use_reentrant=False")] if reentrant else []), str(proof)


@pytest.mark.rows(1)
@pytest.mark.parametrize("again", ["the original", "the port"])
def test_statistics_that_are_written_once_more_in_a_backward_are_told_so(again):
    from paddle.distributed.fleet.utils import recompute  # as a program would

    class Original(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.block = torch.nn.Linear(4, 4), _normed(torch.nn, torch.nn.Linear, torch.nn.BatchNorm1d)

        def forward(self, x):
            x = self.first(x)
            return (
                torch.utils.checkpoint.checkpoint(self.block, x, use_reentrant=False) if again == "the original" else self.block(x)
            )

    class Port(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.first, self.block = paddle.nn.Linear(4, 4), _normed(paddle.nn, paddle.nn.Linear, paddle.nn.BatchNorm1D)

        def forward(self, x):
            x = self.first(x)
            return recompute(self.block, x) if again == "the port" else self.block(x)

    proof = prove(Port(), Original(), INPUTS)
    mistake = proof.mistakes[0]
    assert mistake.cause is (Cause.MISSING if again == "the original" else Cause.EXTRA), str(proof)
    assert "batch_norm" in mistake.text
    assert "gradient" not in mistake.text


def test_an_end_in_a_loop_is_one_finding():
    def original(self, x):
        h = x
        for _ in range(4):
            h = torch.tanh(x + self.a(h))
        return h

    def port(self, x):
        h = x
        for _ in range(4):
            h = paddle.tanh(x + self.a(h.detach()))
        return h

    (mistake,) = prove(*pair(port, original, a=("Linear", 4, 4)), INPUTS).mistakes
    assert (mistake.cause, mistake.paddle.line) == (Cause.GRAPH_ENDS, port.__code__.co_firstlineno + 3)
