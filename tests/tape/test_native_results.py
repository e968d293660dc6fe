"""Native calls in the middle of a graph whose results are not all there."""

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest

import padiff_shim
from padiff_shim.frameworks.versions import IS_3

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
        results = program()
    assert run.native["hsigmoid_loss"]
    for result, other in zip(results, expected):
        np.testing.assert_allclose(result, other, rtol=1e-5, atol=1e-6)


@pytest.mark.skipif(not IS_3, reason="the backward ends the process: docs/defects.md, gradient of R alone")
@pytest.mark.parametrize("computed", [False, True])
def test_a_gradient_that_paddle_refuses_is_refused_in_paddle_s_words(computed):
    def refused():
        x = paddle.ones([4, 3])
        x.stop_gradient = False
        r = paddle.linalg.qr(x * 2.0 if computed else x, mode="r")
        with pytest.raises(ValueError, match="mode='r'") as raised:
            r.sum().backward()
        return r.stop_gradient, r.is_leaf, str(raised.value).strip().splitlines()[-1]

    natively = refused()
    for mode in (padiff_shim.reference, padiff_shim.compare):
        with mode("torch"):
            assert refused() == natively
