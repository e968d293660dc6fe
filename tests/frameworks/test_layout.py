"""The [out, in] copies of Linear weights: torch's bits, reused while valid, never stale, dropped with the weight."""

import gc

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
import torch
from helpers import in_turn

import padiff_shim
from padiff_shim.frameworks import weight_copies
from padiff_shim.frameworks.memory import to_torch

pytestmark = pytest.mark.bitexact

PADDLE_2 = paddle.__version__.startswith("2.")
SHAPES = [(1, 1, 1), (2, 3, 4), (5, 1, 9), (5, 9, 1), (7, 16, 5), (64, 64, 64), (33, 130, 17), (5, 768, 8)]


def twin_of(layer):
    """torch.nn.Linear with the same weights."""
    outputs, inputs = layer.weight.shape[1], layer.weight.shape[0]
    twin = torch.nn.Linear(inputs, outputs, bias=layer.bias is not None, dtype=to_torch(layer.weight).dtype)
    with torch.no_grad():
        twin.weight.copy_(to_torch(layer.weight).t())
        if layer.bias is not None:
            twin.bias.copy_(to_torch(layer.bias))
    return twin


def linear(inputs, outputs, dtype="float32", bias=True):
    layer = paddle.nn.Linear(inputs, outputs, bias_attr=None if bias else False)
    if bias:
        layer.bias.set_value(paddle.rand([outputs]))
    return layer.to(dtype=dtype)


def equal(mine, theirs):
    return torch.equal(to_torch(mine), theirs.detach())


@pytest.mark.compat
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no-bias"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_bit_is_torchs(dtype, bias):
    paddle.seed(3)
    for rows, inputs, outputs in SHAPES:
        for batch in ((rows,), (2, rows), (2, 3, rows)):
            layer = linear(inputs, outputs, dtype, bias)
            twin = twin_of(layer)
            x = paddle.rand([*batch, inputs], dtype=dtype) - 0.5
            seed = paddle.rand([*batch, outputs], dtype=dtype)
            x.stop_gradient = False
            tx = to_torch(x).detach().clone().requires_grad_()
            with padiff_shim.reference("torch", linear_layout="copy") as run:
                out = layer(x)
                out.backward(seed)
            expected = twin(tx)
            expected.backward(to_torch(seed).clone())
            assert equal(out, expected)
            assert equal(x.grad, tx.grad)
            assert torch.equal(to_torch(layer.weight.grad), twin.weight.grad.t())
            assert layer.weight.grad.is_contiguous()
            assert not bias or equal(layer.bias.grad, twin.bias.grad)
            turned = inputs > 1 < outputs  # a row or a column lies in memory as its transpose does
            assert (run.substituted, run.layout_cost.copies, run.layout_cost.views) == ({"linear": 1}, turned, not turned)
            assert run.layout_cost.bytes == turned * inputs * outputs * (4 if dtype == "float32" else 8)


@pytest.mark.compat
def test_one_copy_serves_all_calls():
    layer, x = linear(8, 4), paddle.rand([2, 8])
    with padiff_shim.reference("torch") as run:
        for _ in range(5):
            layer(x)
            F.linear(x, layer.weight)
    assert (run.layout_cost.copies, run.layout_cost.reused, run.layout_cost.views) == (1, 9, 0)
    assert run.layout_cost.seconds > 0
    assert run.to_dict()["layout_cost"]["copies"] == 1


@pytest.mark.compat
def test_views_make_no_copies():
    layer, x = linear(8, 4, "float64"), paddle.rand([2, 8], dtype="float64")
    x.stop_gradient = False
    before = set(weight_copies._copies)
    with padiff_shim.reference("torch", linear_layout="view") as run:
        out = layer(x)
        out.sum().backward()
    cost = run.layout_cost
    assert (cost.copies, cost.reused, cost.views, cost.bytes) == (0, 0, 1, 0)
    assert before.issuperset(weight_copies._copies)
    assert run.linear_layout == "view"
    twin = twin_of(layer)
    torch.testing.assert_close(to_torch(out), twin(to_torch(x)).detach())
    twin(to_torch(x)).sum().backward()
    torch.testing.assert_close(to_torch(layer.weight.grad), twin.weight.grad.t())


def optimizers():
    options = {"learning_rate": 0.1}
    names = ("SGD", "Momentum", "Adam", "AdamW", "Adamax", "Adagrad", "Adadelta", "RMSProp", "Lamb")
    names += ("NAdam", "RAdam", "ASGD", "Rprop")
    return {name: options for name in names if hasattr(paddle.optimizer, name)}


WRITES = {
    "set_value": lambda layer: layer.weight.set_value(np.full([8, 4], 0.5, "float32")),
    "set_value_tensor": lambda layer: layer.weight.set_value(paddle.full([8, 4], 0.25)),
    "set_state_dict": lambda layer: layer.set_state_dict({"weight": paddle.ones([8, 4]), "bias": paddle.zeros([4])}),
    "set_dict": lambda layer: layer.set_dict({"weight": np.full([8, 4], 3, "float32"), "bias": np.zeros(4, "float32")}),
    "copy_": lambda layer: layer.weight.copy_(paddle.full([8, 4], 2.0), True),
    "get_tensor": lambda layer: layer.weight.get_tensor().set(np.full([8, 4], 7, "float32"), paddle.CPUPlace()),
    "add_": lambda layer: layer.weight.add_(paddle.ones([1])),
    "scale_": lambda layer: layer.weight.scale_(3.0),
    "zero_": lambda layer: layer.weight.zero_(),
    "fill_": lambda layer: layer.weight.fill_(1.5),
    "uniform_": lambda layer: layer.weight.uniform_(),
    "normal_": lambda layer: layer.weight.normal_() if hasattr(layer.weight, "normal_") else layer.weight.zero_(),
    "clip_": lambda layer: layer.weight.clip_(-0.01, 0.01),
    "setitem": lambda layer: layer.weight.__setitem__(0, 9.0),
    "setitem_tensor": lambda layer: layer.weight.__setitem__((slice(0, 2), 1), paddle.to_tensor([4.0, 5.0])),
    "view": lambda layer: layer.weight.reshape([32]).add_(paddle.ones([1])),
    "view_transposed": lambda layer: layer.weight.t().scale_(2.0) if not PADDLE_2 else layer.weight.scale_(2.0),
    "view_slice": lambda layer: layer.weight[1].add_(paddle.ones([1])) if not PADDLE_2 else layer.weight.scale_(2.0),
    "detached": lambda layer: layer.weight.detach().add_(paddle.ones([1])),
    "detached_set_value": lambda layer: layer.weight.detach().set_value(paddle.full([8, 4], 0.75)),
    "detached_copy_": lambda layer: layer.weight.detach().copy_(paddle.full([8, 4], 0.75), True),
    "assign": lambda layer: paddle.assign(paddle.full([8, 4], 0.125), layer.weight),
    "assign_array": lambda layer: paddle.assign(np.full([8, 4], 0.375, "float32"), layer.weight),
    "data": lambda layer: setattr(layer.weight, "data", paddle.full([8, 4], 0.625)),
    "initializer_constant": lambda layer: paddle.nn.initializer.Constant(0.3)(layer.weight),
    "initializer_xavier": lambda layer: paddle.nn.initializer.XavierNormal()(layer.weight),
    "initializer_kaiming": lambda layer: paddle.nn.initializer.KaimingUniform()(layer.weight),
    "initializer_normal": lambda layer: paddle.nn.initializer.Normal()(layer.weight),
    "initializer_assign": lambda layer: paddle.nn.initializer.Assign(np.full([8, 4], 2, "float32"))(layer.weight),
    "share_buffer": lambda layer: paddle.full([8, 4], 0.9)._share_buffer_to(layer.weight),
    "new_parameter": lambda layer: setattr(layer, "weight", paddle.nn.Linear(8, 4).weight),
    "to_dtype": lambda layer: layer.to(dtype="float64"),
}


WHEN = [pytest.param(False, id="inside"), pytest.param(True, id="between openings")]


def check_refreshed(write, *, between=False):
    paddle.seed(5)
    layer, x = linear(8, 4), paddle.rand([3, 8])
    mode = padiff_shim.reference("torch")
    with mode:
        layer(x)
        first = layer.weight.numpy().copy()
        if not between:
            with paddle.no_grad():
                write(layer)
            x = x.astype(layer.weight.dtype)
            out = layer(x)
    if between:
        with paddle.no_grad():
            write(layer)
        x = x.astype(layer.weight.dtype)
        with mode:
            out = layer(x)
    assert not np.array_equal(first, layer.weight.numpy()) or layer.weight.dtype == paddle.float64
    assert equal(out, twin_of(layer)(to_torch(x)))


@pytest.mark.compat
@pytest.mark.parametrize(("write", "between"), in_turn(WRITES, WHEN))
def test_refreshed_after_a_write(write, between):
    check_refreshed(WRITES[write], between=between)


@pytest.mark.compat
@pytest.mark.parametrize(("name", "between"), in_turn(optimizers(), WHEN))
def test_refreshed_after_an_optimizer_step(name, between):
    def step(layer):
        options = dict(optimizers()[name])
        if name == "ASGD":
            options["batch_num"] = 1
        optimizer = getattr(paddle.optimizer, name)(parameters=layer.parameters(), **options)
        with paddle.enable_grad():
            (layer(paddle.ones([2, 8])) ** 2).sum().backward()
        optimizer.step()
        optimizer.clear_grad()

    check_refreshed(step, between=between)


@pytest.mark.compat
def test_copies_die_with_their_weights():
    gc.collect()
    before = len(weight_copies._copies)
    x = paddle.rand([3, 8])
    with padiff_shim.reference("torch"):
        layers = [linear(8, 4) for _ in range(10)]
        for layer in layers:
            layer(x)
        assert len(weight_copies._copies) == before + 10
        del layer
        layers.clear()
        gc.collect()
        assert len(weight_copies._copies) == before


@pytest.mark.compat
def test_copies_of_computed_weights_are_not_kept():
    before = len(weight_copies._copies)
    w, x = paddle.rand([8, 4]), paddle.rand([3, 8])
    w.stop_gradient = False
    with padiff_shim.reference("torch") as run:
        for _ in range(3):
            F.linear(x, w * 2.0).sum().backward()
    assert (run.layout_cost.copies, len(weight_copies._copies)) == (3, before)
    assert w.grad.shape == w.shape


@pytest.mark.compat
def test_a_tied_weight_has_one_copy_per_layout_use():
    embedding, x = paddle.nn.Embedding(8, 4), paddle.rand([3, 4])
    with padiff_shim.reference("torch") as run:
        first = F.linear(x, embedding.weight.t())
        second = paddle.matmul(x, embedding.weight, transpose_y=True)
    np.testing.assert_allclose(first.numpy(), second.numpy(), rtol=1e-6)
    assert run.substituted == {"linear": 1, "matmul": 1}
