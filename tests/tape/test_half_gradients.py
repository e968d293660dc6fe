"""Gradients in 16 bits on a CPU, where Paddle has no kernels for them: sums, accumulation, second derivatives, islands."""

import paddle
import pytest
import torch
from helpers import leaves_in, same

import padiff_shim
from padiff_shim.frameworks.versions import IS_3

pytestmark = [pytest.mark.bitexact, pytest.mark.compat]
HALVES = ("bfloat16", "float16")


@pytest.mark.parametrize("dtype", HALVES)
def test_a_tensor_that_several_ops_use(dtype):
    x, theirs = leaves_in(dtype, 4, 4)

    def step(leaf, softmax, join):
        hidden = softmax(leaf @ leaf, -1)
        return (join([hidden * leaf, hidden - leaf]) * 3.0).sum()

    step(theirs, torch.softmax, torch.cat).backward()
    with padiff_shim.reference("torch") as run:
        step(x, paddle.nn.functional.softmax, paddle.concat).backward()
    assert run.native == {}
    assert same(x.grad, theirs.grad)


@pytest.mark.skipif(not IS_3, reason="Paddle 2.6 rounds the sum of two gradients in 16 bits otherwise")
@pytest.mark.parametrize("dtype", HALVES)
def test_gradients_accumulate(dtype):
    x, theirs = leaves_in(dtype, 4, 4)
    with padiff_shim.reference("torch"):
        for factor in (0.3, 1.7, -2.1):
            ((x * factor) @ x).sum().backward()
    for factor in (0.3, 1.7, -2.1):
        ((theirs * factor) @ theirs).sum().backward()
    assert same(x.grad, theirs.grad)


@pytest.mark.parametrize("dtype", HALVES)
def test_gradients_of_gradients(dtype):
    x, theirs = leaves_in(dtype, 3, 4)

    def penalty(leaf, grad, tanh):
        (first,) = grad((tanh(leaf) * leaf).sum(), [leaf], create_graph=True)
        return (first * first).sum()

    penalty(theirs, torch.autograd.grad, torch.tanh).backward()
    with padiff_shim.reference("torch") as run:
        penalty(x, paddle.grad, paddle.tanh).backward()
    assert run.native == {}
    assert x.grad.dtype == getattr(paddle, dtype)
    assert same(x.grad, theirs.grad)


class Twice(paddle.autograd.PyLayer):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2.0

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensor()
        return grad * 2.0 + paddle.zeros_like(x)


@pytest.mark.parametrize("dtype", HALVES)
def test_a_layer_of_ones_own(dtype):
    x, theirs = leaves_in(dtype, 3, 4)
    (torch.tanh(theirs * 2.0)).sum().backward()
    with padiff_shim.reference("torch"):
        paddle.tanh(Twice.apply(x)).sum().backward()
    assert same(x.grad, theirs.grad)


@pytest.mark.parametrize("dtype", HALVES)
def test_recompute(dtype):
    x, theirs = leaves_in(dtype, 3, 4)
    (torch.tanh(theirs @ theirs.t()) * 3.0).sum().backward()
    with padiff_shim.reference("torch"):
        hidden = paddle.distributed.fleet.utils.recompute(lambda leaf: paddle.tanh(leaf @ leaf.t()), x)
        (hidden * 3.0).sum().backward()
    assert same(x.grad, theirs.grad)


@pytest.mark.parametrize("dtype", HALVES)
def test_an_island_in_float32_hands_gradients_on(dtype):
    """``crop`` moves values and has no Torch formula: Paddle's kernel in float32, between two of Torch's."""
    x, theirs = leaves_in(dtype, 4, 4)
    (torch.sigmoid(theirs)[1:3, 1:3] * 3.0).sum().backward()
    with padiff_shim.reference("torch") as run:
        for _ in range(2):
            x.clear_gradient()
            (paddle.crop(paddle.nn.functional.sigmoid(x), [2, 2], [1, 1]) * 3.0).sum().backward()
    assert run.without_kernel["crop"] == {dtype: 2}
    assert same(x.grad, theirs.grad)
