"""Results that want no gradient, made as bare tensors over Torch's memory: what may be asked of them natively."""

import paddle
import pytest

import padiff_shim
from padiff_shim.frameworks.versions import IS_3

pytestmark = pytest.mark.compat


@pytest.mark.parametrize("shape", [[2, 3], [0, 3]])
@pytest.mark.parametrize("made", ["result", "gradient", "under no_grad"])
def test_what_wants_no_gradient_can_be_asked_to_clear_it(made, shape):
    if made == "gradient" and 0 in shape and not IS_3:
        pytest.skip("2.6 has no gradients without elements")
    x = paddle.ones(shape)
    with padiff_shim.reference("torch"):
        x.stop_gradient = made == "result"
        if made == "gradient":
            (y,) = paddle.grad([paddle.exp(x).sum()], [x])
        else:
            with paddle.no_grad():
                y = paddle.exp(x)
        y.clear_grad()
    assert y.grad is None
