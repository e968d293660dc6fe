"""The steps of a mixture of experts in bfloat16: Torch's bits, forward and backward."""

import numpy as np
import paddle
import pytest
import torch
import torch.nn.functional as TF
from helpers import same

import padiff_shim

pytestmark = pytest.mark.bitexact
TOKENS, EXPERTS, WIDTH, CHOSEN = 7, 4, 8, 2


def leaves(*shape, seed=0):
    torchs = torch.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype("float32")).bfloat16()
    paddles = paddle.to_tensor(torchs.float().numpy()).astype("bfloat16")
    paddles.stop_gradient = False
    return paddles, torchs.requires_grad_()


def paddles_experts(x, router, weights):
    scores = paddle.nn.functional.softmax(paddle.matmul(x, router).astype("float32"), axis=-1)
    values, indices = paddle.topk(scores, CHOSEN, axis=-1)
    values = (values / values.sum(axis=-1, keepdim=True)).astype(x.dtype)
    mask = paddle.nn.functional.one_hot(indices, EXPERTS).transpose([2, 1, 0])
    total = paddle.zeros_like(x)
    for expert in range(EXPERTS):
        places, tokens = (axis.flatten() for axis in paddle.where(mask[expert] > 0))
        if not tokens.size:
            continue
        made = paddle.matmul(paddle.gather(x, tokens), weights[expert]) * values[tokens, places].unsqueeze(-1)
        total = paddle.index_add(total, tokens, 0, made)
    return total


def torchs_experts(x, router, weights):
    scores = torch.softmax((x @ router).float(), -1)
    values, indices = torch.topk(scores, CHOSEN, -1)
    values = (values / values.sum(-1, keepdim=True)).to(x.dtype)
    mask = TF.one_hot(indices, EXPERTS).permute(2, 1, 0)
    total = torch.zeros_like(x)
    for expert in range(EXPERTS):
        places, tokens = torch.where(mask[expert] > 0)
        if tokens.numel():
            made = torch.index_select(x, 0, tokens) @ weights[expert] * values[tokens, places].unsqueeze(-1)
            total = torch.index_add(total, 0, tokens, made)
    return total


def test_experts_with_their_gradients():
    pairs = [leaves(TOKENS, WIDTH), leaves(WIDTH, EXPERTS, seed=1), leaves(EXPERTS, WIDTH, WIDTH, seed=2)]
    with padiff_shim.reference("torch", definitions="torch") as run:
        mine = paddles_experts(*[mine for mine, _ in pairs])
        mine.astype("float32").square().sum().backward()
    other = torchs_experts(*[other for _, other in pairs])
    other.float().square().sum().backward()
    assert same(mine.detach(), other)
    assert all(same(mine.grad, other.grad) for mine, other in pairs)
    assert not run.native


def test_what_has_no_elements_is_passed_over():
    """Phi3 concatenates what it does not rotate, which is nothing where it rotates all."""
    x, side = leaves(2, 3)
    with padiff_shim.reference("torch") as run:
        mine = paddle.concat([x, x[:, 3:]], -1)
        mine.astype("float32").square().sum().backward()
    side.float().square().sum().backward()
    assert same(mine.detach(), side)
    assert same(x.grad, side.grad)
    assert not run.native


def test_a_bound_that_is_not_given_bounds_nothing():
    """Paddle fills it with float32's last number, which bfloat16 does not hold."""
    x, side = leaves(4, 5)
    with padiff_shim.reference("torch"):
        mine = paddle.clip(x, min=None, max=0.25)
        mine.astype("float32").square().sum().backward()
    expected = torch.clamp(side, max=0.25)
    expected.float().square().sum().backward()
    assert same(mine.detach(), expected)
    assert same(x.grad, side.grad)
