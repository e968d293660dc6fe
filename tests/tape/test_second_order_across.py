"""Gradients of gradients where a tensor of the mode was hooked, retained or written, and Paddle's own ops go on from it outside."""

import contextlib

import numpy as np
import paddle
import pytest

import padiff_shim

pytestmark = [pytest.mark.usefixtures("undone"), pytest.mark.compat]


def test_a_call_counts_once_in_each_backward_however_many_turns_run_through_it():
    x = paddle.to_tensor(np.array([0.3, 0.5, -0.2], "float32"), stop_gradient=False)
    with padiff_shim.reference("torch") as run:
        y = paddle.tanh(x)
        y.retain_grads()
    first = paddle.grad((y * y * y).sum(), x, create_graph=True)[0]
    assert run.backward == {"tanh": 1}
    (first * first).sum().backward()
    assert run.backward == {"tanh": 2}


def test_what_hangs_on_a_tensor_stays_when_its_node_is_exchanged():
    with padiff_shim.reference("torch"):
        x = paddle.ones([3])
        x.stop_gradient = False
        y = x * 2.0
        y.name, y.persistable = "weights of the user", True
        y.retain_grads()
        assert (y.name, y.persistable, y.stop_gradient, y.is_leaf) == ("weights of the user", True, False, False)
        y.sum().backward(retain_graph=True)
        before = y.grad.numpy()
        y.add_(paddle.ones([3]))
        assert (y.name, y.persistable) == ("weights of the user", True)
        np.testing.assert_array_equal(y.grad.numpy(), before)


def test_what_a_gradient_does_not_depend_on_gets_none_from_it():
    """As in Torch: the gradient of x * y by x is y. Paddle's own second derivative by x is zeros."""

    def step(mode):
        x, y = (paddle.to_tensor(np.array(numbers, "float32"), stop_gradient=False) for numbers in ([0.3, 0.5], [0.7, -0.2]))
        with mode:
            middle = paddle.exp(x)
            first = paddle.grad((middle * y).sum(), middle, create_graph=True)[0]
            first.sum().backward()
        return x.grad, y.grad

    zeros, native = step(contextlib.nullcontext())
    none, ours = step(padiff_shim.reference("torch"))
    assert none is None
    assert not zeros.numpy().any()
    np.testing.assert_array_equal(ours.numpy(), native.numpy())
