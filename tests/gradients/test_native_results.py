"""Native calls in the middle of a graph whose results are not all there."""

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest

import padiff_shim

pytestmark = pytest.mark.compat


def test_an_output_that_was_not_asked_for():
    """hsigmoid_loss returns a third tensor, which holds no memory on a default tree."""
    random = np.random.default_rng(0)
    values = [random.standard_normal(shape).astype("float32") for shape in ((6, 5), (4, 5), (4, 1))]

    def program():
        x, weight, bias = (paddle.to_tensor(value, stop_gradient=False) for value in values)
        loss = F.hsigmoid_loss(x * 2.0, paddle.to_tensor([0, 1, 2, 3, 4, 0]), 5, weight, bias)
        (loss * loss).sum().backward()
        return [loss.numpy(), x.grad.numpy(), weight.grad.numpy(), bias.grad.numpy()]

    expected = program()
    with padiff_shim.reference("torch") as run:
        found = program()
    assert run.native["hsigmoid_loss"]
    for one, other in zip(found, expected):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
