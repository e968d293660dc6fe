"""Gradients of gradients where a tensor of the mode was hooked, retained or written, and Paddle's own ops go on from it outside."""

import contextlib

import numpy as np
import paddle
import pytest

import padiff_shim

pytestmark = [pytest.mark.usefixtures("undone"), pytest.mark.compat]

PREPARED = {
    "nothing": lambda y: y,
    "hook": lambda y: _then(y, y.register_hook(lambda grad: None)),
    "hook that changes": lambda y: _then(y, y.register_hook(lambda grad: grad * 2)),
    "retained": lambda y: _then(y, y.retain_grads()),
    "in place": lambda y: y.add_(paddle.ones([3])),
    "retained, in place": lambda y: _then(y, y.retain_grads(), y.multiply_(paddle.full([3], 2.0))),
    "in place twice": lambda y: y.add_(paddle.ones([3])).multiply_(paddle.full([3], 2.0)),
    "view, in place": lambda y: _then(y, y[1:].add_(paddle.ones([2]))),
    "view with a hook": lambda y: _hooked(y[1:]),
}


def _then(y, *_):
    return y


def _hooked(y):
    return _then(y, y.register_hook(lambda grad: None))


def twice(prepare, mode):
    """A gradient penalty over a value that was made inside of a mode: first gradient, second, and what is retained."""
    x = paddle.to_tensor(np.array([0.3, 0.5, -0.2], "float32"), stop_gradient=False)
    with mode:
        y = prepare(paddle.sin(x))
    first = paddle.grad((y * y * y).sum(), x, create_graph=True)[0]
    (first * first).sum().backward()
    return [first, x.grad, *([] if y.grad is None else [y.grad])]


@pytest.mark.parametrize("prepared", PREPARED)
def test_second_gradients_pass_through_what_was_exchanged(prepared):
    native = twice(PREPARED[prepared], contextlib.nullcontext())
    ours = twice(PREPARED[prepared], padiff_shim.reference("torch"))
    assert len(ours) == len(native)
    for mine, theirs in zip(ours, native):
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-5)


def test_a_retained_gradient_that_two_turns_bring():
    """Torch's tanh leads from its gradient to its result, and the ops outside lead there once more: the last turn stood alone."""

    def step(mode):
        x = paddle.to_tensor(np.array([0.3, 0.5, -0.2], "float32"), stop_gradient=False)
        with mode:
            y = paddle.tanh(x)
            y.retain_grads()
        first = paddle.grad((y * y * y).sum(), x, create_graph=True)[0]
        retained = y.grad
        (first * first).sum().backward()
        return retained, y.grad.numpy(), x.grad.numpy()

    native, ours = step(contextlib.nullcontext()), step(padiff_shim.reference("torch"))
    assert (native[0] is None) == (ours[0] is None)
    for mine, theirs in zip(ours[1:], native[1:]):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5)


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


@pytest.mark.parametrize("ops", [["tanh"], ["sin", "tanh"], ["sin", "sum", "tanh"], None], ids=str)
@pytest.mark.parametrize("written", [lambda y: y.tanh_(), lambda y: y.detach().fill_(0.5)], ids=["in place", "through an alias"])
def test_where_no_gradient_leads_on_nothing_is_walked(written, ops):
    """A sum's gradient does not depend on what was added up: what that was made of has no gradient, and may have been written."""

    def step():
        x = paddle.to_tensor(np.array([0.3, 0.5, -0.2], "float32"), stop_gradient=False)
        y = paddle.exp(paddle.sin(x))
        written(y)
        first = paddle.grad([y.sum()], [y], create_graph=True)[0]
        paddle.tanh(first).sum().backward()
        return x.grad

    assert step() is None
    with padiff_shim.reference("torch", ops=ops):
        assert step() is None


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
