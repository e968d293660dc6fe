"""Paddle passes gradients through whole numbers, which Torch's graph cannot; under the shim they arrive as natively."""

import numpy as np
import paddle
import pytest

import padiff_shim
from tests.helpers import needs

pytestmark = pytest.mark.compat


def _gradients(program, *, taped):
    """What arrives at the leaf and, before that, at a hook on it."""
    leaf = paddle.to_tensor([1.5, -2.5, 3.2, 0.7], stop_gradient=False)
    seen = []
    leaf.register_hook(lambda grad: seen.append(grad.numpy()))
    out = program(leaf * 2.0 if taped else leaf)
    out.sum().backward()
    return [leaf.grad.numpy(), *seen]


def test_the_result_of_a_backward_that_begins_at_whole_numbers():
    leaf = paddle.to_tensor([1.5, -2.5], stop_gradient=False)
    with padiff_shim.reference("torch"):
        (leaf * 2.0).astype("int64").sum().backward()
    np.testing.assert_array_equal(leaf.grad.numpy(), [2.0, 2.0])


class Rounded(paddle.autograd.PyLayer):
    """The whole numbers below, with a slope of its own; beside it the operand doubled."""

    @staticmethod
    def forward(ctx, x):
        return x * 2.0, x.astype("int32")

    @staticmethod
    def backward(ctx, doubled, whole):
        return doubled * 2.0 + whole.astype("float32") * 7.0


class Routed(paddle.autograd.PyLayer):
    """Floats at places that are whole numbers with a gradient."""

    @staticmethod
    def forward(ctx, x, places):
        ctx.save_for_backward(places)
        return paddle.gather(x, places)

    @staticmethod
    def backward(ctx, grad):
        (places,) = ctx.saved_tensor()
        return paddle.scatter_nd(places.unsqueeze(-1), grad, [4]), paddle.ones_like(places)


def both_results(x):
    doubled, whole = Rounded.apply(x)
    return (doubled * whole.astype("float32")).sum()


def whole_result_alone(x):
    return Rounded.apply(x)[1].astype("float32")


def float_result_alone(x):
    return Rounded.apply(x)[0]


def whole_operand(x):
    return Routed.apply(x * 3.0, (x * 0.5).abs().astype("int64")) * x


@pytest.mark.parametrize("taped", [True, False], ids=["computed", "leaf"])
@pytest.mark.parametrize(
    "program", [both_results, whole_result_alone, float_result_alone, whole_operand], ids=lambda program: program.__name__
)
def test_a_layer_of_ones_own_with_whole_numbers(program, taped):
    expected = _gradients(program, taped=taped)
    with padiff_shim.reference("torch"):
        gradients = _gradients(program, taped=taped)
    assert len(gradients) == len(expected)
    for result, other in zip(gradients, expected):
        np.testing.assert_allclose(result, other, rtol=1e-6)


@pytest.mark.parametrize("substituted", [True, False], ids=["substituted", "native"])
@pytest.mark.parametrize("name", ["topk", "kthvalue", "mode", "cummax"])
def test_an_op_with_indices(name, substituted):
    """The indices want a gradient natively, which is zero; reached or not, the op's backward runs once."""
    needs(name)

    def program(x):
        square = (x * x).reshape([2, 2])
        arguments = [] if name == "mode" else [1]
        values, places = getattr(paddle, name)(square, *arguments)
        return values * places.astype("float32") + square[:, :1]

    expected = _gradients(program, taped=True)
    with padiff_shim.reference("torch", exclude=[] if substituted else [name]):
        gradients = _gradients(program, taped=True)
    for gradient, native in zip(gradients, expected):
        np.testing.assert_allclose(gradient, native, rtol=1e-6)


def test_a_backward_that_indices_begin():
    x = paddle.to_tensor([3.0, 1.0, 2.0], stop_gradient=False)
    with padiff_shim.reference("torch"):
        paddle.argsort(x).backward()
        (paddle.argsort(x).astype("float32") + x).sum().backward()
    assert x.grad.tolist() == [1.0] * 3
