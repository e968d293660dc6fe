"""``random="torch"``: every draw is Torch's, bit for bit, in Torch's order; without it every draw is Paddle's."""

import itertools

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
import torch
from helpers import in_turn, needs, same, tried

import padiff_shim
from padiff_shim.errors import PadiffShimError, UnknownNameError
from padiff_shim.frameworks.versions import IS_3
from padiff_shim.table.reasons import DRAWN, RANDOM

pytestmark = [pytest.mark.compat, pytest.mark.bitexact]
FLOATS = ("float32", "float64")


def tensor(*shape, dtype="float32", grad=False):
    """Numbers in [0.1, 0.9)."""
    values = np.random.default_rng(1).uniform(0.1, 0.9, shape).astype(dtype)
    return paddle.to_tensor(values, stop_gradient=not grad)


def empty(*shape, dtype=torch.float32):
    return torch.empty(shape, dtype=dtype)


CREATED = {
    "randn": (lambda: paddle.randn([4, 5]), lambda: torch.randn(4, 5)),
    "randn, less than a vector": (lambda: paddle.randn([3]), lambda: torch.randn(3)),
    "randn of shape []": (lambda: paddle.randn([]), lambda: torch.randn([])),
    "randn of a shape with tensors": (lambda: paddle.randn([paddle.to_tensor(2), 30]), lambda: torch.randn(2, 30)),
    "randn of a shape that is a tensor": (lambda: paddle.randn(paddle.to_tensor([2, 30])), lambda: torch.randn(2, 30)),
    "randn of nothing": (lambda: paddle.randn([0, 3]), lambda: torch.randn(0, 3)),
    "randn float64": (lambda: paddle.randn([20], "float64"), lambda: torch.randn(20, dtype=torch.float64)),
    "randn bfloat16": (lambda: paddle.randn([20], "bfloat16"), lambda: torch.randn(20, dtype=torch.bfloat16)),
    "standard_normal": (lambda: paddle.standard_normal([2, 3]), lambda: torch.randn(2, 3)),
    "rand": (lambda: paddle.rand([4, 5]), lambda: torch.rand(4, 5)),
    "rand float64": (lambda: paddle.rand([7], "float64"), lambda: torch.rand(7, dtype=torch.float64)),
    "uniform": (lambda: paddle.uniform([3, 6], min=-2, max=5.0), lambda: empty(3, 6).uniform_(-2, 5)),
    "normal": (lambda: paddle.normal(1.5, 2.0, [3, 6]), lambda: torch.normal(1.5, 2.0, (3, 6))),
    "normal of tensors": (
        lambda: paddle.normal(tensor(4, 5), tensor(4, 5)),
        lambda: torch.normal(torch.tensor(tensor(4, 5).numpy()), torch.tensor(tensor(4, 5).numpy())),
    ),
    "randint": (lambda: paddle.randint(0, 10, [7]), lambda: torch.randint(0, 10, (7,))),
    "randint int32": (lambda: paddle.randint(-5, 5, [7], "int32"), lambda: torch.randint(-5, 5, (7,), dtype=torch.int32)),
    "randint of one limit": (lambda: paddle.randint(9, shape=[2, 2]), lambda: torch.randint(9, (2, 2))),
    "randint of many": (lambda: paddle.randint(0, 2**40, [7]), lambda: torch.randint(0, 2**40, (7,))),
    "randint_like": (lambda: paddle.randint_like(tensor(3, 4), 0, 9), lambda: torch.randint_like(empty(3, 4), 0, 9)),
    "randperm": (lambda: paddle.randperm(20), lambda: torch.randperm(20)),
    "randperm int32": (lambda: paddle.randperm(20, "int32"), lambda: torch.randperm(20, dtype=torch.int32)),
}


@pytest.mark.parametrize("name", CREATED)
def test_created_numbers_are_torch_s(name):
    """Twice, with draws of Torch's own between them."""
    ours, theirs = CREATED[name]
    with padiff_shim.reference("torch", random="torch", strict=True) as run:
        paddle.seed(7)
        drawn = [ours(), torch.rand(3), ours()]
    torch.manual_seed(7)
    expected = [theirs(), torch.rand(3), theirs()]
    assert all(same(result, other) for result, other in zip(drawn, expected))
    assert not run.native
    assert drawn[0].stop_gradient


REDIRECTED = {
    "rand": (lambda out: paddle.rand([3, 4], out=out), lambda: torch.rand(3, 4)),
    "randn": (lambda out: paddle.randn([3, 4], out=out), lambda: torch.randn(3, 4)),
    "standard_normal": (lambda out: paddle.standard_normal([3, 4], out=out), lambda: torch.randn(3, 4)),
    "normal": (lambda out: paddle.normal(1.5, 2.0, [3, 4], out=out), lambda: torch.normal(1.5, 2.0, (3, 4))),
    "uniform": (lambda out: paddle.uniform([3, 4], min=-2, max=5.0, out=out), lambda: empty(3, 4).uniform_(-2, 5)),
    "randperm": (lambda out: paddle.randperm(12, out=out), lambda: torch.randperm(12)),
}


@pytest.mark.parametrize("name", tried(REDIRECTED, {name: f"{name} out" for name in REDIRECTED}))
def test_draws_into_a_tensor(name):
    ours, theirs = REDIRECTED[name]
    target = paddle.zeros([12], "int64") if name == "randperm" else paddle.zeros([3, 4])
    with padiff_shim.reference("torch", random="torch", strict=True) as run:
        paddle.seed(7)
        result = ours(target)
    torch.manual_seed(7)
    assert same(target, theirs())
    assert result.data_ptr() == target.data_ptr()
    assert not run.native


@needs("randn out")
def test_a_tensor_that_does_not_fit_is_paddle_s_to_fill():
    target = paddle.zeros([2, 4])
    with padiff_shim.reference("torch", random="torch") as run:
        paddle.seed(7)
        paddle.randn([3, 4], out=target)
        after = paddle.rand([3])
    torch.manual_seed(7)
    assert same(after, torch.rand(3))  # nothing was drawn for it from Torch's generator
    assert target.shape == [3, 4]
    assert run.native == {"gaussian": {"result redirected by out=": 1}}


def test_draws_of_whole_numbers_that_torch_has_not_are_counted():
    labels = paddle.to_tensor([1, 2, 3])
    with padiff_shim.reference("torch", random="torch", strict=True) as run:
        F.class_center_sample(labels, 20, 6)
    assert run.native == {"class_center_sample": {DRAWN.text: 1}}


@pytest.mark.parametrize("seed", [5, 2**40])
def test_a_seed_of_the_call_s_own(seed):
    with padiff_shim.reference("torch", random="torch"):
        torch.manual_seed(3)
        drawn = paddle.uniform([9], min=0.0, max=1.0, seed=seed)
        after = torch.rand(2)
    torch.manual_seed(3)
    assert torch.equal(after, torch.rand(2))
    assert same(drawn, torch.rand(9, generator=torch.Generator().manual_seed(seed)))


DROPPED = {
    "dropout": (lambda x: F.dropout(x, 0.3), lambda x: torch.dropout(x, 0.3, True)),
    "of nothing": (lambda x: F.dropout(x, 0.0), lambda x: torch.dropout(x, 0.0, True)),
    "of all": (lambda x: F.dropout(x, 1.0), lambda x: torch.dropout(x, 1.0, True)),
    "in evaluation": (lambda x: F.dropout(x, 0.3, training=False), lambda x: torch.dropout(x, 0.3, False)),
    "downscaled": (lambda x: F.dropout(x, 0.3, mode="downscale_in_infer"), lambda x: x * torch.empty_like(x).bernoulli_(0.7)),
    "downscaled in evaluation": (lambda x: F.dropout(x, 0.3, training=False, mode="downscale_in_infer"), lambda x: x * (1 - 0.3)),
    "of a tensor's probability": (lambda x: F.dropout(x, paddle.to_tensor(0.5)), lambda x: torch.dropout(x, 0.5, True)),
    "nn.Dropout": (lambda x: paddle.nn.Dropout(0.2)(x), lambda x: torch.nn.Dropout(0.2)(x)),
    "nn.Dropout in evaluation": (lambda x: _evaluated(paddle.nn.Dropout(0.2))(x), lambda x: torch.nn.Dropout(0.2).eval()(x)),
    "along the axes of channels": (lambda x: F.dropout(x, 0.4, axis=[0, 1]), lambda x: torch.feature_dropout(x, 0.4, True)),
    "dropout2d": (lambda x: F.dropout2d(x, 0.4), lambda x: torch.nn.functional.dropout2d(x, 0.4)),
    "nn.Dropout2D": (lambda x: paddle.nn.Dropout2D(0.4)(x), lambda x: torch.nn.Dropout2d(0.4)(x)),
    "of whole columns": (
        lambda x: F.dropout(x, 0.4, axis=3),
        lambda x: x * empty(1, 1, 1, x.shape[3], dtype=x.dtype).bernoulli_(0.6).div_(0.6),
    ),
    "of whole columns, downscaled": (
        lambda x: F.dropout(x, 0.4, axis=[3], mode="downscale_in_infer"),
        lambda x: x * empty(1, 1, 1, x.shape[3], dtype=x.dtype).bernoulli_(0.6),
    ),
}  # fmt: skip

if IS_3:  # 2.6 copies where 3.x makes a view
    DROPPED |= {
        "of transposed memory": (
            lambda x: F.dropout(x.transpose([0, 1, 3, 2]), 0.3),
            lambda x: torch.dropout(x.transpose(2, 3), 0.3, True),
        ),
        "of a part": (lambda x: F.dropout(x[:, ::2], 0.3), lambda x: torch.dropout(x[:, ::2], 0.3, True)),
    }


def _evaluated(layer):
    layer.eval()
    return layer


@pytest.mark.parametrize(("name", "grad", "dtype"), in_turn(itertools.product(DROPPED, (False, True)), FLOATS))
def test_what_dropout_drops_is_torch_s(name, grad, dtype):
    """Forward twice and backward, with draws of Torch's own between them."""
    ours, theirs = DROPPED[name]
    x = tensor(3, 4, 5, 6, dtype=dtype, grad=grad)
    leaf = torch.tensor(x.numpy(), requires_grad=grad)
    with padiff_shim.reference("torch", random="torch", strict=True) as run:
        paddle.seed(11)
        drawn = [ours(x), torch.rand(3), ours(x)]
        if grad:
            (drawn[0] * drawn[2]).sum().backward()
    torch.manual_seed(11)
    expected = [theirs(leaf), torch.rand(3), theirs(leaf)]
    assert all(same(result, other) for result, other in zip(drawn, expected))
    assert not run.native
    if grad:
        (expected[0] * expected[2]).sum().backward()
        assert same(x.grad, leaf.grad)


def test_without_the_option_every_draw_is_paddle_s():
    def program():
        paddle.seed(3)
        x = tensor(4, 5)
        layer = paddle.nn.Linear(5, 6)
        drawn = [paddle.randn([3]), paddle.randint(0, 9, [4]), F.dropout(x, 0.4), F.dropout(x, 0.4, axis=1), paddle.randperm(5)]
        return [tensor.numpy() for tensor in (*drawn, layer.weight, paddle.rand([2]))]

    native = program()
    before = torch.get_rng_state()
    with padiff_shim.reference("torch") as run:
        drawn = program()
    assert all(np.array_equal(result, other) for result, other in zip(drawn, native))
    assert torch.equal(before, torch.get_rng_state())
    assert run.native["dropout"] == {RANDOM.text: 1}
    assert {name: run.native[name] for name in ("gaussian", "randint", "randperm", "uniform")} == {
        "gaussian": {DRAWN.text: 1},
        "randint": {DRAWN.text: 1},
        "randperm": {DRAWN.text: 1},
        "uniform": {DRAWN.text: 3},
    }


def test_strict_mode_minds_dropout_and_not_new_numbers():
    with padiff_shim.reference("torch", strict=True):
        paddle.randn([3])
        with pytest.raises(PadiffShimError, match="dropout"):
            F.dropout(tensor(3), 0.5)


def test_paddle_s_generator_stays_where_it_is():
    paddle.seed(3)
    expected = paddle.rand([2]).numpy()
    paddle.seed(3)
    with padiff_shim.reference("torch", random="torch"):
        paddle.randn([3])
        x = tensor(2, 3, grad=True)
        F.dropout(x, 0.5).sum().backward()
        F.dropout(x, 0.5, axis=1)
    assert np.array_equal(paddle.rand([2]).numpy(), expected)


def test_a_bad_generator():
    with pytest.raises(UnknownNameError, match=r"random 'numpy'.*paddle, torch"):
        padiff_shim.reference("torch", random="numpy")
    with pytest.raises(PadiffShimError, match="random= belongs to reference"):
        padiff_shim.reference("torch", random="torch", compare=True)
