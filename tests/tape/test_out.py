"""``out=``: Paddle writes a result into a tensor and gives it another node, without counting a write."""

import numpy as np
import paddle
import pytest
from helpers import needs

import padiff_shim

MODES = {"reference": padiff_shim.reference, "compare": padiff_shim.compare}
CALLS = {
    "of itself": lambda a, b: paddle.multiply(b, b, out=b),
    "of itself and another": lambda a, b: paddle.multiply(b, a, out=b),
    "of others": lambda a, b: paddle.multiply(a, a, out=b),
    "of two, read before": lambda a, b: (b * 3.0, paddle.add(a, a, out=b)),
}


def _program(call, mode=None, *, inside=True):
    """The gradients of an operand and of the leaf behind it."""
    x = paddle.to_tensor(np.array([0.1, 0.2, -0.3], "float32"), stop_gradient=False)

    def write():
        call(a, b)

    def end():
        last = paddle.exp(b).sum()
        part = paddle.grad([last], [a], retain_graph=True, allow_unused=True)[0]
        last.backward()
        (own,) = paddle.grad([b.sum()], [b])
        return part, own

    if mode is None:
        a = paddle.exp(x)
        b = a + a
        write()
        part, own = end()
    else:
        with mode("torch"):
            a = paddle.exp(x)
            b = a + a
            if inside:
                write()
                part, own = end()
        if not inside:
            write()
            part, own = end()
    return [b.numpy(), part.numpy(), own.numpy(), x.grad.numpy()]


@needs("paddle.add out")
@pytest.mark.parametrize("inside", [True, False], ids=["in the mode", "behind it"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("call", CALLS)
def test_the_gradient_is_that_of_what_was_written(call, mode, inside):
    expected = _program(CALLS[call])
    results = _program(CALLS[call], MODES[mode], inside=inside)
    for result, other in zip(results, expected):
        np.testing.assert_allclose(result, other, rtol=1e-6)
