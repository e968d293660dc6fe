"""Whether both programs agree is asked before what they call: a right port that is written otherwise is accused of nothing."""

import dataclasses

import numpy as np
import paddle
import pytest
import torch
from helpers import numbers, pair, thinned

from padiff_shim import ProofVerdict, prove
from padiff_shim.proof.agreement import RoundingBound, bound_from
from padiff_shim.proof.findings import Cause
from padiff_shim.proof.trace import WithTables

pytestmark = [pytest.mark.compat, pytest.mark.usefixtures("undone")]

PLACES, WIDTH = 12, 8
LOW = torch.finfo(torch.float32).min


def angles(module, base=1e4):
    """Angles of rotary positions, in float32."""
    places, steps = (module.arange(0, stop, step, dtype=module.float32) for stop, step in ((PLACES, 1), (WIDTH, 2)))
    return places.reshape([PLACES, 1]) * (1.0 / base ** (steps / WIDTH)).reshape([1, WIDTH // 2])


def waves(module, angle):
    joined = module.concat([angle, angle], -1) if module is paddle else module.cat([angle, angle], -1)
    return joined.cos()


def attention(module, x, scores, low):
    """Softmax of scores, masked if ``low`` is a number."""
    if low is not None:
        scores = scores + module.triu(module.full([PLACES, PLACES], low, dtype=scores.dtype), 1)
    softmax = paddle.nn.functional.softmax if module is paddle else torch.softmax
    return softmax(scores, -1) @ x


MASKS = {"no mask": None, "-1e4": -1e4, "the smallest float": LOW}
TABLES = {  # where a table is born, its base in the port, and the mask
    f"{born}-{base}-{mask}": (born, base, low)
    for born in ("port", "original", "both")
    for base in (1e4, 1.0001e4)
    for mask, low in MASKS.items()
}
ALWAYS = (
    "port-10000.0-no mask", "port-10001.0--1e4", "original-10000.0-the smallest float", "original-10001.0-no mask",
    "both-10000.0--1e4", "both-10001.0-the smallest float",
)  # fmt: skip


@pytest.mark.rows(2)
@pytest.mark.parametrize("name", thinned(TABLES, *ALWAYS))
def test_tables_that_are_made_at_construction(name):
    born, base, low = TABLES[name]

    def original(self, x):
        table = self.table if born != "port" else waves(torch, angles(torch))
        return attention(torch, x, (self.q(x) * table.to(x.dtype)) @ x.transpose(1, 2) / WIDTH**0.5, low)

    def port(self, x):
        table = self.table if born != "original" else waves(paddle, angles(paddle, base))
        return attention(paddle, x, (self.q(x) * table.astype(x.dtype)) / WIDTH**0.5 @ x.transpose([0, 2, 1]), low)

    ours, theirs = pair(port, original, q=("Linear", WIDTH, WIDTH))
    ours.table, theirs.table = waves(paddle, angles(paddle, base)), waves(torch, angles(torch))
    proof = prove(ours, theirs, numbers(2, PLACES, WIDTH))
    assert bool(proof) is (base == 1e4), str(proof)
    if not proof:
        assert proof.mistakes, "and the table is named"
        assert proof.differences["float64"] > 1e-6


@pytest.mark.rows(1)
@pytest.mark.parametrize("base", [1e4, 1.0001e4])
@pytest.mark.parametrize("born", ["port", "original", "both"])
def test_tables_that_are_made_at_construction_in_a_training(born, base):
    def original(self, x):
        return self.q(x + (self.table if born != "port" else waves(torch, angles(torch))).to(x.dtype))

    def port(self, x):
        return self.q(x + (self.table if born != "original" else waves(paddle, angles(paddle, base))).astype(x.dtype))

    ours, theirs = pair(port, original, q=("Linear", WIDTH, WIDTH))
    ours.table, theirs.table = waves(paddle, angles(paddle, base)), waves(torch, angles(torch))
    optimizer = (
        lambda parameters: paddle.optimizer.SGD(0.1, parameters=parameters.parameters()),
        lambda module: torch.optim.SGD(module.parameters(), 0.1),
    )
    x = numbers(2, PLACES, WIDTH)
    proof = prove(ours, theirs, x, phase="train", steps=3, optimizer=optimizer, loss=lambda result: (result**2).mean())
    assert bool(proof) is (base == 1e4), str(proof)


class Looked(torch.nn.Module):
    """Positions as a parameter that is not trained, as transformers' RoFormer has them."""

    def __init__(self):
        super().__init__()
        self.q, self.positions = torch.nn.Linear(WIDTH, WIDTH), torch.nn.Embedding(2 * PLACES, WIDTH)
        steps = np.arange(0, WIDTH, 2) / WIDTH
        angle = np.arange(2 * PLACES)[:, None] * (1.0 / np.power(1e4, steps))[None, :]
        table = np.concatenate([np.sin(angle), np.cos(angle)], 1)
        self.positions.weight = torch.nn.Parameter(torch.tensor(table, dtype=torch.float32), requires_grad=False)

    def forward(self, x):
        sin, cos = self.positions(torch.arange(PLACES)).chunk(2, -1)
        left, right = self.q(x).chunk(2, -1)
        return torch.cat([left * cos - right * sin, left * sin + right * cos], -1)


class Sliced(paddle.nn.Layer):
    """The same as buffers, made in float32 and cut to length, as paddlenlp's."""

    def __init__(self, base=1e4):
        super().__init__()
        self.q = paddle.nn.Linear(WIDTH, WIDTH)
        steps = paddle.arange(0, WIDTH, 2, dtype="float32") / WIDTH
        angle = paddle.arange(2 * PLACES, dtype="float32").unsqueeze(1) * (1.0 / base**steps).unsqueeze(0)
        self.register_buffer("sin", angle.sin(), persistable=False)
        self.register_buffer("cos", angle.cos(), persistable=False)

    def forward(self, x):
        sin, cos = self.sin[:PLACES], self.cos[:PLACES]
        left, right = self.q(x).chunk(2, -1)
        return paddle.concat([left * cos - right * sin, left * sin + right * cos], -1)


def test_a_table_may_be_a_parameter_that_is_not_trained():
    x = np.random.default_rng(0).standard_normal((2, PLACES, WIDTH))
    proof = prove(Sliced(), Looked(), x)
    assert proof, str(proof)
    assert not proof.mistakes
    assert not prove(Sliced(base=1.01e4), Looked(), x)


FREQUENCIES = 1.0 / 1e4 ** (np.arange(0, WIDTH, 2) / WIDTH)
TURNS = np.exp(1j * np.outer(np.arange(PLACES), FREQUENCIES))


def turned(self, x):
    pairs = torch.view_as_complex(self.q(x).reshape(2, PLACES, WIDTH // 2, 2))
    return torch.view_as_real(pairs * self.turns).flatten(2)


def turned_by_parts(self, x, factor):
    left, right = self.q(x).reshape([2, PLACES, WIDTH // 2, 2]).unbind(-1)
    cos, sin = paddle.to_tensor(TURNS.real * factor, x.dtype), paddle.to_tensor(TURNS.imag, x.dtype)
    return paddle.stack([left * cos - right * sin, left * sin + right * cos], -1).flatten(2)


ONE_SIDE = {  # the original with a number that was made in float32, and the port with another formula, right by a factor of 1
    "divided": (lambda self, x: self.q(x / self.number), lambda self, x, factor: self.q(x * (factor / 0.229))),
    "a root": (
        lambda self, x: torch.softmax(self.q(x) / torch.sqrt(self.width), -1),
        lambda self, x, factor: paddle.nn.functional.softmax(self.q(x) * factor * 7.9**-0.5, -1),
    ),
    "turned": (turned, turned_by_parts),
}


@pytest.mark.parametrize("name", ONE_SIDE)
@pytest.mark.parametrize("factor", [1.0, 1.00001])
def test_a_number_in_float32_on_one_side_alone(name, factor):
    original, port = ONE_SIDE[name]
    ours, theirs = pair(lambda self, x: port(self, x, factor), original, q=("Linear", WIDTH, WIDTH))
    theirs.number, theirs.width = torch.tensor(0.229), torch.tensor([7.9])
    theirs.turns = torch.tensor(TURNS, dtype=torch.complex64)
    proof = prove(ours, theirs, numbers(2, PLACES, WIDTH))
    assert bool(proof) is (factor == 1.0), str(proof)


def test_a_table_that_is_expanded_holds_each_number_once():
    table = torch.tensor([1.0, 2.0])
    with WithTables([(table.expand(3, 2).clone(), torch.tensor([[3.0, 5.0]] * 3))]):
        assert torch.equal(table.expand(3, 2) * 1.0, torch.tensor([[3.0, 5.0]] * 3))
    assert table.tolist() == [1.0, 2.0]


def test_a_table_is_the_port_s_own_again_behind_a_proof():
    def original(self, x):
        return self.q(x) * waves(torch, angles(torch)).to(x.dtype)

    def port(self, x):
        return self.q(x) * self.table

    ours, theirs = pair(port, original, q=("Linear", WIDTH, WIDTH))
    ours.table = (
        paddle.nextafter(waves(paddle, angles(paddle)), paddle.ones([PLACES, WIDTH]))
        if hasattr(paddle, "nextafter")
        else (waves(paddle, angles(paddle)) * (1 - 2**-23))
    )
    before = ours.table.numpy().copy()
    assert prove(ours, theirs, numbers(2, PLACES, WIDTH))
    assert (ours.table.numpy() == before).all()


@pytest.mark.parametrize("wrong", [False, True])
def test_a_mask_that_is_written_otherwise_is_no_mistake(wrong):
    def original(self, x):
        h = self.norm(x)
        low = torch.zeros(PLACES, dtype=x.dtype).masked_fill(torch.arange(PLACES) > 7, torch.finfo(x.dtype).min)
        return torch.softmax(self.q(h) @ self.k(h).transpose(1, 2) + low, -1) @ h

    def port(self, x):
        h = self.norm(x) * 1.1 if wrong else self.norm(x)
        low = (paddle.arange(PLACES) > 7).astype(x.dtype) * -1e4
        return paddle.nn.functional.softmax(self.q(h) @ self.k(h).transpose([0, 2, 1]) + low, -1) @ h

    layers = {"norm": ("LayerNorm", 16), "q": ("Linear", 16, 16), "k": ("Linear", 16, 16)}
    proof = prove(*pair(port, original, **layers), numbers(2, PLACES, 16), phase="forward")
    assert bool(proof) is not wrong
    assert [(mistake.cause, "mul(other=1.1)" in mistake.text) for mistake in proof.mistakes] == [(Cause.EXTRA, True)] * wrong


@pytest.mark.parametrize("phase", ["both", pytest.param("train", marks=pytest.mark.slow)])
@pytest.mark.parametrize("rate", [0.1, 0.2])
@pytest.mark.parametrize("more", ["original", "port"])
def test_draws_without_effect(more, rate, phase):
    def original(self, x):
        for layer in (self.a, self.b):
            if more == "original" and torch.rand([]) < 0.0:
                continue
            x = x + torch.nn.functional.dropout(layer(x), 0.1, self.training)
        return x

    def port(self, x):
        for layer in (self.a, self.b):
            if more == "port" and paddle.rand([1]) < 0.0:
                continue
            x = x + paddle.nn.functional.dropout(layer(x), rate, training=self.training)
        return x

    options = {"phase": "train", "optimizer": "SGD", "steps": 2, "loss": lambda out: out.sum()} if phase == "train" else {}
    proof = prove(*pair(port, original, a=("Linear", 16, 16), b=("Linear", 16, 16)), numbers(4, 16), **options)
    assert proof.verdict is (ProofVerdict.CODE_CORRECT if rate == 0.1 else ProofVerdict.CODE_DIFFERS), str(proof)


@pytest.mark.parametrize("side", ["original", "port"])
def test_sixteen_bits_on_one_side(side):
    def original(self, x):
        h = self.a(x).bfloat16() if side == "original" else self.a(x)
        return self.b((h * h).to(x.dtype))

    def port(self, x):
        h = self.a(x).astype("bfloat16") if side == "port" else self.a(x)
        return self.b((h * h).astype(x.dtype))

    proof = prove(*pair(port, original, a=("Linear", 16, 32), b=("Linear", 32, 4)), numbers(8, 16))
    assert not proof
    (mistake,) = proof.mistakes
    assert mistake.cause is Cause.DTYPE
    assert "bfloat16" in mistake.text


def test_a_mask_of_infinities_is_no_overflow():
    """One side makes it of Torch's kernels, the other one natively; and both round in another order."""

    def original(self, x):
        mask = torch.triu(torch.full([PLACES, PLACES], -torch.inf), 1)
        return attention(torch, x, (self.a(x) * 3.0 + 0.1) @ x.transpose(1, 2) / 7.0 + mask, None)

    def port(self, x):
        mask = paddle.triu(paddle.full([PLACES, PLACES], float("-inf")), 1)
        return attention(paddle, x, (self.a(x) * 3.0 / 7.0 + 0.1 / 7.0) @ x.transpose([0, 2, 1]) + mask, None)

    proof = prove(*pair(port, original, a=("Linear", WIDTH, WIDTH)), numbers(2, PLACES, WIDTH))
    assert proof.verdict is ProofVerdict.CODE_CORRECT_WITHIN_ROUNDING, str(proof)


def test_an_infinity_without_effect_is_no_overflow():
    """A mask of the smallest number is added twice on one side: that is -inf in float32, and the softmax is the same."""

    def original(self, x):
        mask = torch.triu(torch.full([PLACES, PLACES], LOW), 1)
        return attention(torch, x, (self.a(x) * 3.0 + 0.1) @ x.transpose(1, 2) / 7.0 + mask + mask, None)

    def port(self, x):
        mask = paddle.triu(paddle.full([PLACES, PLACES], LOW), 1)
        return attention(paddle, x, (self.a(x) * 3.0 / 7.0 + 0.1 / 7.0) @ x.transpose([0, 2, 1]) + mask, None)

    proof = prove(*pair(port, original, a=("Linear", WIDTH, WIDTH)), numbers(2, PLACES, WIDTH))
    assert proof.verdict is ProofVerdict.CODE_CORRECT_WITHIN_ROUNDING, str(proof)


def test_an_overflow_on_one_side():
    def original(self, x):
        return torch.log_softmax(self.a(x) * 100, -1)

    def port(self, x):
        return paddle.log(paddle.nn.functional.softmax(self.a(x) * 100, -1))

    proof = prove(*pair(port, original, a=("Linear", 16, 16)), numbers(4, 16), phase="forward")
    assert not proof
    assert (proof.mistakes[0].cause, "log" in proof.mistakes[0].text) == (Cause.OVERFLOW, True)
    assert not next(stage for stage in proof.stages if stage.name == "forward").right


@dataclasses.dataclass
class Output:
    logits: object
    hidden: tuple = ()


OUTPUTS = {
    "a dict without the hidden states": lambda logits, x, h: {"logits": logits},
    "a dataclass": lambda logits, x, h: Output(logits, (x, h)),
    "one of two": lambda logits, x, h: (logits,),
    "the logits alone": lambda logits, x, h: logits,
    "one more": lambda logits, x, h: {"cache": h * 2, "logits": logits, "hidden": (x, h)},
    "all in order": lambda logits, x, h: (logits, x, h),
}


@pytest.mark.rows(5)
@pytest.mark.parametrize("wrong", [False, True])
@pytest.mark.parametrize("name", OUTPUTS)
def test_outputs_of_one_side_alone_are_listed(name, wrong):
    def original(self, x):
        h = self.a(x)
        return {"logits": self.b(h), "hidden": (x, h)}

    def port(self, x):
        h = self.a(x)
        return OUTPUTS[name](self.b(h) * (1.01 if wrong else 1.0), x, h)

    proof = prove(*pair(port, original, a=("Linear", 4, 4), b=("Linear", 4, 2)), numbers(3, 4))
    assert bool(proof) is not wrong, str(proof)
    alone = {"a dataclass", "all in order"}.isdisjoint({name})
    assert any("were not compared" in note for note in proof.notes) is alone


@pytest.mark.parametrize("filling", [-1e4, -1e9, float(torch.finfo(torch.float64).min), -np.inf])
def test_what_fills_masked_places_allows_others_nothing(filling):
    values = torch.tensor([0.5, -3.0, filling, filling, 0.0], dtype=torch.float64)
    allowed = bound_from(values, values * (1 + 2**-53))
    assert allowed.usual < 1e-11
    assert not allowed.holds(values, values + torch.tensor([1e-9, 0, 0, 0, 0], dtype=torch.float64)).all()
    assert RoundingBound(0.0).holds(values, values).all()


@pytest.mark.rows(1)
@pytest.mark.parametrize("phase", ["forward", "both"])
def test_a_mask_of_which_true_means_the_opposite(phase):
    class Original(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = torch.nn.MultiheadAttention(16, 2, batch_first=True)

        def forward(self, x):
            return self.attention(x, x, x, attn_mask=torch.triu(torch.ones(5, 5), 1).bool())[0]

    class Port(paddle.nn.Layer):
        def __init__(self, turned):
            super().__init__()
            self.attention, self.turned = paddle.nn.MultiHeadAttention(16, 2), turned

        def forward(self, x):
            mask = paddle.triu(paddle.ones([5, 5]), 1).astype("bool")
            return self.attention(x, x, x, attn_mask=mask if self.turned else paddle.logical_not(mask))

    original = Original()
    assert prove(Port(False), original, numbers(2, 5, 16), phase=phase)
    proof = prove(Port(True), original, numbers(2, 5, 16), phase=phase)
    (mistake,) = proof.mistakes
    assert "logical_not" in mistake.text


@pytest.mark.parametrize("tied", ["original", "port"])
def test_weights_that_are_tied_on_one_side(tied):
    def original(self, a, b):
        return self.dec(b) @ self.up(self.enc(a)).transpose(1, 2)

    def port(self, a, b):
        return self.dec(b) @ self.up(self.enc(a)).transpose([0, 2, 1])

    layers = {"enc": ("Embedding", 20, 8), "dec": ("Embedding", 20, 8), "up": ("Linear", 8, 8)}
    ours, theirs = pair(port, original, **layers)
    if tied == "original":
        theirs.dec.weight = theirs.enc.weight
    else:
        ours.dec.weight = ours.enc.weight
        theirs.dec.weight.data.copy_(theirs.enc.weight.data)
    rows = np.random.default_rng(0).integers(0, 20, (2, 6))
    proof = prove(ours, theirs, {"a": rows, "b": rows[:, :4]})
    assert proof.mistakes[0].cause is Cause.TIED, str(proof)
    assert ("self.dec.weight = self.enc.weight" in proof.answer) is (tied == "original")
    assert len(proof.mistakes) == 1


@pytest.mark.parametrize("tied", ["original", "port"])
def test_a_layer_that_is_another_s_on_one_side_is_one_finding(tied):
    """Both weights of it; a port's one tensor cannot hold the original's two values."""
    forward = lambda self, x: self.b(self.a(x))  # noqa: E731 - for both
    ours, theirs = pair(forward, forward, a=("Linear", 4, 4), b=("Linear", 4, 4))
    side = ours if tied == "port" else theirs
    side.b = side.a
    proof = prove(ours, theirs, np.random.default_rng(0).standard_normal((3, 4)))
    (mistake,) = proof.mistakes
    assert (proof.verdict.name, mistake.cause) == ("CODE_DIFFERS", Cause.TIED), str(proof)
    assert ("self.b = self.a" in proof.answer) is (tied == "original")


def test_a_head_that_is_tied_lies_turned_in_paddle():
    forward = lambda self, x: self.head(self.enc(x))  # noqa: E731 - for both
    ours, theirs = pair(forward, forward, enc=("Embedding", 20, 8), head=("Linear", 8, 20))
    theirs.head.weight = theirs.enc.weight
    proof = prove(ours, theirs, np.random.default_rng(0).integers(0, 20, (2, 6)))
    (mistake,) = proof.mistakes
    assert (mistake.cause, "paddle.matmul(x, self.enc.weight, transpose_y=True)" in mistake.text) == (Cause.TIED, True)


class Larger(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Parameter(torch.ones(32)), torch.nn.Parameter(torch.ones(32))

    def forward(self, x):
        a, b = x * self.first, x * self.second
        return torch.where(a > b, a, b).sum()


class PortedLarger(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        ones = paddle.nn.initializer.Constant(1.0)
        self.first, self.second = (self.create_parameter([32], default_initializer=ones) for _ in range(2))

    def forward(self, x):
        return paddle.maximum(x * self.first, x * self.second).sum()


def test_another_choice_at_a_tie_is_no_rounding():
    """A maximum shares the gradient of equal elements, a choice gives it to one."""
    proof = prove(PortedLarger(), Larger(), np.linspace(1.0, 2.0, 32, dtype="float32"), loss=lambda out: out)
    assert proof.verdict == "CODE_CORRECT_WITHIN_ROUNDING", str(proof)
