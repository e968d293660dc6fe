"""How gradients come from Torch's engine to Paddle's leaves: without Python inside of the engine, and without a second copy."""

from __future__ import annotations

import sys

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
import torch

import padiff_shim
from padiff_shim.frameworks.versions import VERSION
from padiff_shim.tape import backward, twins

pytestmark = [pytest.mark.compat, pytest.mark.usefixtures("undone")]


_ENGINE = type(torch.autograd.Variable._execution_engine)


def leaf(*shape, seed=0):
    values = np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)
    return paddle.to_tensor(values, stop_gradient=False)


def small_model(x, w, b, scale):
    hidden = F.linear(x, w, b)
    hidden = paddle.tanh(hidden) + hidden * scale
    return paddle.matmul(hidden, w).sum()


def python_calls(function):
    """The Python functions that ran inside of ``function``, and of Torch's engine in it, as lists of code objects."""
    inside, engine, depth = [], [], 0

    def seen(frame, event, argument):
        nonlocal depth
        if event == "call":
            inside.append(frame.f_code)
            if depth:
                engine.append(frame.f_code)
        elif event.startswith("c_") and isinstance(getattr(argument, "__self__", None), _ENGINE):
            depth += 1 if event == "c_call" else -1

    sys.setprofile(seen)
    try:
        function()
    finally:
        sys.setprofile(None)
    return inside, engine


def test_a_backward_runs_no_python_but_the_delivery_once_a_leaf():
    operands = leaf(4, 8), leaf(8, 8, seed=1), leaf(8, seed=2), leaf(8, seed=3)
    with padiff_shim.reference("torch") as run:
        small_model(*operands).backward()  # what is learnt once
        loss = small_model(*operands)
        inside, engine = python_calls(loss.backward)
    assert not run.native
    assert not engine
    # w is delivered twice: as a matrix, and as the Linear weight that lies transposed
    assert inside.count(twins._exchanged.__code__) == 5
    assert inside.count(backward.Session.arrived.__code__) == 0


def test_a_longer_backward_makes_no_more_python_calls_than_its_leaves_ask_for():
    x = leaf(4, 4)

    def calls(ops):
        with padiff_shim.reference("torch"):
            for _ in range(2):
                y = x
                for _ in range(ops):
                    y = paddle.tanh(y)
                inside, _ = python_calls(y.sum().backward)
        x.clear_gradient()
        return len([code for code in inside if "padiff_shim" in code.co_filename and code.co_name != "check"])

    assert calls(3) == calls(30)  # beside the check of versions before the engine starts


def test_a_leaf_takes_over_the_memory_of_its_gradient():
    x, made = leaf(16, 16), []
    original = twins.deliver

    def noted(side, grad, roots, grads):
        made.append(grad.data_ptr())
        original(side, grad, roots, grads)

    with pytest.MonkeyPatch.context() as patch, padiff_shim.reference("torch"):
        patch.setattr(backward, "deliver", noted)
        (x * x).sum().backward()
    assert made == [x.grad.data_ptr()]
    assert x.grad.is_contiguous()


def test_no_two_gradients_share_memory():
    x, y, b = leaf(4, 4), leaf(4, 4, seed=1), leaf(4, seed=2)
    seed = paddle.ones([4, 4])
    with padiff_shim.reference("torch"):
        z = x + y + b
        z.backward(seed, retain_graph=True)
        places = {tensor.grad.data_ptr() for tensor in (x, y, b)} | {seed.data_ptr()}
        assert len(places) == 4
        z.backward(seed)  # accumulates into what is there
    for tensor, expected in ((x, 2.0), (y, 2.0), (b, 8.0)):
        assert (tensor.grad.numpy() == expected).all()
    assert (seed.numpy() == 1.0).all()


def test_gradients_that_are_views_of_one_another_are_told_apart():
    x, y, w = leaf(4, 4), leaf(16, seed=1), leaf(2, 8, seed=2)
    with padiff_shim.reference("torch"):
        z = x + y.reshape([4, 4]) + w.reshape([4, 4])
        z.backward(paddle.full([4, 4], 3.0), retain_graph=True)
        z.backward(paddle.full([4, 4], 1.0))
    assert len({tensor.grad.data_ptr() for tensor in (x, y, w)}) == 3
    for tensor in (x, y, w):
        assert (tensor.grad.numpy() == 4.0).all()
        assert tensor.grad.shape == tensor.shape


def test_a_bias_takes_over_the_memory_of_its_gradient(monkeypatch):
    """Which is a view of what torch's sum over the rows has left."""
    made, run = [], backward.run_engine

    def noted(*args, **kwargs):
        results = run(*args, **kwargs)
        made.extend(grad.data_ptr() for grad in results)
        return results

    monkeypatch.setattr(backward, "run_engine", noted)
    layer = paddle.nn.Linear(16, 8)
    with padiff_shim.reference("torch"):
        layer(paddle.rand([4, 16])).sum().backward()
    assert layer.bias.grad.data_ptr() in made


def hooked():
    x, seen = leaf(4, 4), []
    y = x * 3.0
    y.register_hook(lambda grad: seen.append(grad))
    x.register_hook(lambda grad: seen.append(grad))
    for _ in range(3):
        (y * 1.0).sum().backward(retain_graph=True)
    return [grad.numpy() for grad in [*seen, x.grad]]


def test_what_hooks_have_kept_changes_as_natively_when_gradients_are_accumulated():
    native = hooked()
    with padiff_shim.reference("torch"):
        ours = hooked()
    assert all((result == other).all() for result, other in zip(native, ours, strict=True))


@pytest.mark.skipif(VERSION < (3, 1), reason="Paddle refuses products without elements, or leaves their results unwritten")
def test_gradients_without_elements():
    """Of leaves, of what Paddle's own nodes made of them, and by paddle.grad."""
    x, first, second = leaf(3, 8), leaf(8, 0), leaf(0, 5)

    def loss(first, second):
        return F.linear(F.linear(F.relu(x), first), second).sum() + x.sum()

    with padiff_shim.reference("torch"):
        loss(first, second).backward()
        gradients = paddle.grad(loss(first, second), [x, first, second])
        loss(first * 1.0, second * 1.0).backward()
    assert [tensor.shape for tensor in gradients] == [[3, 8], [8, 0], [0, 5]]
    assert [leaf.grad.shape for leaf in (x, first, second)] == [[3, 8], [8, 0], [0, 5]]
    assert (x.grad.numpy() == 2).all()


@pytest.mark.skipif(VERSION < (3, 1), reason="Paddle has no such layer, or leaves products without elements unwritten")
def test_an_adaptive_softmax_with_a_tail_of_no_features():
    paddle.seed(0)
    layer = paddle.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 15], div_value=4.0)
    x, label = leaf(6, 8), paddle.to_tensor([0, 3, 6, 9, 16, 19])
    weights = [layer.head_weight, *(weight for tail in layer.tail_weights for weight in tail)]

    def gradients():
        loss = layer(x, label)[1]
        loss.backward()
        return [loss.item(), x.grad.numpy(), *(weight.grad.numpy() for weight in weights)]

    native = gradients()
    for source in (x, *weights):
        source.clear_grad()
    with padiff_shim.reference("torch") as run:
        ours = gradients()
    for mine, theirs in zip(ours, native):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)
    assert run.substituted["linear"] > 0
