"""Gradients in 16 bits on a CPU, where Paddle has no kernels for them: sums, accumulation, second derivatives, islands."""

import paddle
import pytest
import torch
from helpers import leaves_in, same
from paddle.distributed.fleet.utils import recompute

import padiff_shim
from padiff_shim.frameworks.versions import IS_3

pytestmark = [pytest.mark.bitexact, pytest.mark.compat]
HALVES = ("bfloat16", "float16")


class Twice(paddle.autograd.PyLayer):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2.0

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensor()
        return grad * 2.0 + paddle.zeros_like(x)


def joined(x, softmax, join):
    hidden = softmax(x @ x, -1)
    return (join([hidden * x, hidden - x]) * 3.0).sum()


def penalty(x, grad, tanh):
    (first,) = grad((tanh(x) * x).sum(), [x], create_graph=True)
    return (first * first).sum()


PROGRAMS = {
    "a tensor that several ops use": (
        lambda x: joined(x, paddle.nn.functional.softmax, paddle.concat),
        lambda x: joined(x, torch.softmax, torch.cat),
    ),
    "a gradient of a gradient": (
        lambda x: penalty(x, paddle.grad, paddle.tanh),
        lambda x: penalty(x, torch.autograd.grad, torch.tanh),
    ),
    "a layer of one's own": (lambda x: paddle.tanh(Twice.apply(x)).sum(), lambda x: torch.tanh(x * 2.0).sum()),
    "a block that is recomputed": (
        lambda x: (recompute(lambda leaf: paddle.tanh(leaf @ leaf.t()), x) * 3.0).sum(),
        lambda x: (torch.tanh(x @ x.t()) * 3.0).sum(),
    ),
    # ``crop`` moves values and has no Torch formula: Paddle's kernel in float32, between two of Torch's.
    "an island in float32": (
        lambda x: (paddle.crop(paddle.nn.functional.sigmoid(x), [2, 2], [1, 1]) * 3.0).sum(),
        lambda x: (torch.sigmoid(x)[1:3, 1:3] * 3.0).sum(),
    ),
}


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_are_torchs(name, dtype):
    ported, original = PROGRAMS[name]
    x, theirs = leaves_in(dtype, 4, 4)
    original(theirs).backward()
    with padiff_shim.reference("torch") as run:
        for _ in range(2):
            x.clear_gradient()
            ported(x).backward()
    assert x.grad.dtype == getattr(paddle, dtype)
    assert same(x.grad, theirs.grad)
    assert run.native == {}
    assert run.without_kernel.get("crop") == ({dtype: 2} if name == "an island in float32" else None)


@pytest.mark.skipif(not IS_3, reason="Paddle 2.6 rounds the sum of two gradients in 16 bits otherwise")
@pytest.mark.parametrize("dtype", HALVES)
def test_gradients_accumulate(dtype):
    x, theirs = leaves_in(dtype, 4, 4)
    for leaf, mode in ((x, padiff_shim.reference("torch")), (theirs, torch.enable_grad())):
        with mode:
            for factor in (0.3, 1.7, -2.1):
                ((leaf * factor) @ leaf).sum().backward()
    assert same(x.grad, theirs.grad)
