"""A gradient that does not depend on an operand of its op leads to no graph of it: a backward from there frees nothing."""

import numpy as np
import paddle
import pytest

import padiff_shim

pytestmark = pytest.mark.compat


def program():
    leaf = paddle.linspace(-1.0, 1.0, 12).reshape([3, 4]).detach()
    leaf.stop_gradient = False
    y = paddle.tanh(paddle.exp(leaf))
    (grad,) = paddle.grad([y.sum()], [y], create_graph=True, allow_unused=True)
    flags = grad.stop_gradient, grad.is_leaf
    grad.sum().backward()
    y.backward(paddle.ones_like(y))
    return flags, leaf.grad.numpy()


@pytest.mark.parametrize("options", [{}, {"ops": ["tanh"]}, {"ops": ["tanh", "exp"]}, {"exclude": ["sum"]}], ids=str)
def test_a_gradient_of_a_sum_does_not_free_what_was_summed(options):
    flags, grad = program()
    with padiff_shim.reference("torch", **options):
        results = program()
    assert results[0] == flags
    np.testing.assert_allclose(results[1], grad, rtol=1e-4)


def test_a_gradient_that_depends_on_its_operand_leads_to_it():
    def twice():
        leaf = paddle.linspace(-1.0, 1.0, 12).detach()
        leaf.stop_gradient = False
        y = paddle.tanh(leaf)
        (grad,) = paddle.grad([(y * y).sum()], [y], create_graph=True)
        (grad * grad).sum().backward()
        return leaf.grad.numpy()

    expected = twice()
    with padiff_shim.reference("torch", ops=["tanh"]):
        np.testing.assert_allclose(twice(), expected, rtol=1e-4)
