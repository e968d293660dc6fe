"""Recompute without reentry, with a mode open around a part of the step only: as natively, or an error."""

import contextlib

import numpy as np
import paddle
import pytest
from paddle.distributed.fleet.utils import recompute

import padiff_shim
from padiff_shim.frameworks.versions import IS_3

pytestmark = pytest.mark.skipif(not IS_3, reason="2.6 has no recompute without reentry")


def block(x):
    return paddle.sin(paddle.tanh(x) * 1.5) * paddle.cos(x * x) + paddle.nn.functional.softmax(x)


def step(forward, backward, use_reentrant):
    x = paddle.linspace(-1.0, 1.0, 12).reshape([3, 4])
    x.stop_gradient = False
    try:
        with forward:
            y = recompute(block, x * 1.5, use_reentrant=use_reentrant)
        with backward:
            (y * y).sum().backward()
    finally:
        paddle.set_grad_enabled(True)  # an error in a hook of Paddle's leaves gradients switched off
    return x.grad.numpy()


WHERE = {"neither": (False, False), "forward": (True, False), "backward": (False, True), "both": (True, True)}


def under(where, use_reentrant):
    return step(*(padiff_shim.reference("torch") if wanted else contextlib.nullcontext() for wanted in WHERE[where]), use_reentrant)


@pytest.mark.parametrize(
    ("where", "use_reentrant"),
    [("forward", False), ("both", False), ("forward", True), ("backward", True), ("both", True)],
)
def test_gradients_are_as_natively(where, use_reentrant):
    np.testing.assert_allclose(under(where, use_reentrant), under("neither", use_reentrant), rtol=1e-4, atol=1e-5)


def test_a_mode_around_the_replay_alone_is_refused():
    """Forward and replay keep other numbers of tensors: Paddle raises."""
    with pytest.raises(OSError):
        under("backward", use_reentrant=False)
