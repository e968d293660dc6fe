"""Results that nothing was made of, beside one that something was, and native calls whose results are not all there."""

import gc
import weakref

import numpy as np
import paddle
import pytest

import padiff_shim
from padiff_shim.frameworks.versions import IS_3

pytestmark = pytest.mark.compat


def _matrix():
    return paddle.to_tensor([[3.0, 1.0, 0.5], [1.0, -2.0, 0.25], [0.5, 0.25, 1.0]], stop_gradient=False)


def test_where_paddle_has_no_zeros_hooks_are_shown_nothing():
    def program():
        seen = []
        u, s, _ = paddle.linalg.svd(_matrix() * 1.0)
        u.register_hook(seen.append)
        s.sum().backward()
        return [grad is None or not grad.numpy().size for grad in seen]

    native = program()
    with padiff_shim.reference("torch"):
        assert program() == native == [True]


def test_an_answer_holds_nothing():
    class Answer:
        def __call__(self, grad):
            return grad + 1.0

    gc.disable()
    try:
        with padiff_shim.reference("torch"):
            answer, x = Answer(), _matrix()
            first, second, _ = paddle.unbind(x * 2.0)
            second.register_hook(answer)
            first.sum().backward()
            gone = weakref.ref(answer)
            del answer, first, second, _
            assert gone() is None
        np.testing.assert_array_equal(x.grad.numpy(), [[2.0] * 3, [2.0] * 3, [0.0] * 3])
    finally:
        gc.enable()


class _Two(paddle.autograd.PyLayer):
    @staticmethod
    def forward(ctx, x):
        return x * 2.0, x * 3.0

    @staticmethod
    def backward(ctx, first, second):
        return first * 2.0 + second * 3.0


def test_a_result_of_a_layer_that_nothing_was_made_of():
    """Its hooks are shown nothing, and it has no gradient."""

    def program():
        x = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
        seen = []
        used, unused = _Two.apply(x)
        unused.retain_grads()
        unused.register_hook(seen.append)
        paddle.exp(used).sum().backward()
        return x.grad.numpy(), unused.grad, seen

    native = program()
    with padiff_shim.reference("torch"):
        ours = program()
    np.testing.assert_allclose(ours[0], native[0], rtol=1e-6)
    for _, retained, seen in (native, ours):
        assert retained is None
        assert [value is None or not value._is_initialized() for value in seen] == [
            True
        ]  # Paddle 2.6 shows a tensor without memory


@pytest.mark.parametrize("made", [_Two.apply, lambda x: paddle.linalg.svd(x)[:2]], ids=["PyLayer", "svd"])
def test_an_error_in_a_hook_that_is_shown_nothing_is_one_of_paddles_engine(made):
    def refuse(grad):
        raise ValueError("mine")

    def program():
        first, second = made(_matrix() * 1.0)
        first.register_hook(refuse)
        with pytest.raises(OSError, match=r"\(External\) ValueError: mine"):
            second.sum().backward()

    program()
    with padiff_shim.reference("torch"):
        program()


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
