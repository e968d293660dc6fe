"""Norms of vectors and tensors: gradients of gradients, and clipping by them."""

import numpy as np
import paddle
import pytest
import torch
from helpers import offers, same

import padiff_shim
from padiff_shim.frameworks.versions import IS_3
from padiff_shim.table.reasons import INDEPENDENT

pytestmark = [pytest.mark.bitexact, pytest.mark.compat]
VALUES = np.random.default_rng(3).standard_normal((6, 7)).astype("float32")


def penalty(framework, x, weight, norm):
    """A gradient penalty, and its gradients: those of a function of a norm of gradients."""
    critic = framework.tanh(framework.matmul(x, weight))
    grad = torch.autograd.grad if framework is torch else paddle.grad
    (slope,) = grad([critic.sum()], [x], create_graph=True)
    length = norm(slope)
    excess = length - 1.0
    return [slope, length, *grad([(excess * excess).mean()], [x, weight])]


def leaves():
    return [VALUES, VALUES.T.copy()]


@pytest.mark.parametrize("p", [2, 1, 3.0])
def test_a_norm_twice_differentiated_has_torch_s_bits(p):
    with padiff_shim.reference("torch") as run:
        ours = penalty(
            paddle, *[paddle.to_tensor(value, stop_gradient=False) for value in leaves()], lambda g: paddle.norm(g, p=p, axis=1)
        )
    theirs = penalty(torch, *[torch.from_numpy(value).requires_grad_() for value in leaves()], lambda g: torch.norm(g, p=p, dim=1))
    name = "vector_norm" if IS_3 else "p_norm"
    assert run.substituted[name] == 1
    assert name not in run.native
    assert all(same(tensor.detach(), other.detach()) for tensor, other in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("shape", [(4, 5), (7,)])
def test_of_no_length_there_is_no_gradient(shape):
    with padiff_shim.reference("torch"):
        x = paddle.zeros(shape)
        x.stop_gradient = False
        paddle.norm(x, p=2, axis=-1).sum().backward()
    assert not x.grad.numpy().any()


@pytest.mark.parametrize("limit", [0.5, 1e3])
@pytest.mark.parametrize(("clip", "op"), [("ClipGradByNorm", "clip_by_norm"), ("ClipGradByGlobalNorm", "squared_l2_norm")])
def test_clipping_the_gradients_of_a_network(clip, op, limit):
    """Where clipping as a whole is left out, its ops reach the table, and its values are Paddle's but for rounding."""

    def stepped():
        paddle.seed(0)
        layer = paddle.nn.Linear(6, 3)
        sgd = paddle.optimizer.SGD(1.0, parameters=layer.parameters(), grad_clip=getattr(paddle.nn, clip)(limit))
        layer(paddle.to_tensor(VALUES.T.copy())).square().sum().backward()
        sgd.step()
        return [tensor.numpy() for tensor in layer.parameters()]

    native = stepped()
    with padiff_shim.reference("torch", exclude="optimizers") as run:
        ours = stepped()
    assert run.substituted[op] == 2
    assert all(np.allclose(result, other, rtol=1e-4, atol=1e-5) for result, other in zip(ours, native, strict=True))


def test_clipping_has_no_gradient():
    with padiff_shim.reference("torch") as run:
        x = paddle.to_tensor(VALUES, stop_gradient=False)
        assert paddle._C_ops.clip_by_norm(x, 1.0).stop_gradient
    assert run.native == {"clip_by_norm": {INDEPENDENT.text: 1}}


@pytest.mark.parametrize("name", ["nansum", "nanmean"])
@pytest.mark.parametrize("axis", [None, 1])
def test_sums_without_nan(name, axis):
    x = np.array([[1.0, np.nan, 2.5], [np.nan, np.nan, 0.1]], "float32")
    ours, theirs = paddle.to_tensor(x, stop_gradient=False), torch.tensor(x, requires_grad=True)
    with padiff_shim.reference("torch", strict=True) as run:
        result = getattr(paddle, name)(ours, axis=axis)
        result.sum().backward()
    expected = getattr(torch, name)(theirs, dim=axis)
    expected.sum().backward()
    assert run.substituted[name] == 1
    assert same(result.detach(), expected.detach())
    assert same(ours.grad, theirs.grad)


@pytest.mark.parametrize("name", ["std", "var"])
def test_a_spread_is_unbiased_unless_told_otherwise(name):
    ours, theirs = getattr(paddle, name), getattr(torch, name)
    x, t = paddle.to_tensor(VALUES), torch.tensor(VALUES)
    pairs = [(lambda: ours(x), theirs(t)), (lambda: ours(x, 1, False), theirs(t, 1, correction=0))]
    if name == "var" and offers("var", "correction"):
        pairs.append((lambda: ours(x, axis=0, correction=2), theirs(t, 0, correction=2)))
    for function, expected in pairs:
        with padiff_shim.reference("torch", strict=True):
            assert same(function(), expected)


@pytest.mark.skipif(not IS_3, reason="2.6 has no pdist")
@pytest.mark.parametrize("p", [2.0, 1.0, 3.0])
def test_distances_within_a_set(p):
    x, t = paddle.to_tensor(VALUES, stop_gradient=False), torch.tensor(VALUES, requires_grad=True)
    with padiff_shim.reference("torch", strict=True) as run:
        result = paddle.pdist(x, p)
        result.sum().backward()
    expected = torch.pdist(t, p)
    expected.sum().backward()
    assert run.substituted["pdist"] == 1
    assert same(result.detach(), expected.detach())
    assert same(x.grad, t.grad)


def test_polar_coordinates():
    sizes, angles = np.abs(VALUES) + 0.5, VALUES.copy()
    with padiff_shim.reference("torch", strict=True) as run:
        result = paddle.polar(paddle.to_tensor(sizes), paddle.to_tensor(angles))
    assert run.substituted == {"polar": 1}
    assert same(result, torch.polar(torch.tensor(sizes), torch.tensor(angles)))
