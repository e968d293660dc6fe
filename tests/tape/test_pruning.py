"""What ``paddle.grad`` does not walk natively: ways that lead to none of its inputs."""

import contextlib

import numpy as np
import paddle
import pytest

import padiff_shim

pytestmark = pytest.mark.compat


def _program(mode, run, *, within):
    """Paddle's own ops, ops in a mode, and ``within`` it or behind it ops on their result; and how often a hook below is called."""
    below = paddle.to_tensor(np.linspace(-1.0, 1.0, 12, dtype="float32").reshape(3, 4), stop_gradient=False)
    scaled, shown = below * 2.0, []
    scaled.register_hook(lambda grad: shown.append(grad.shape))
    with contextlib.ExitStack() as stack:
        stack.enter_context(mode)
        asked = paddle.tanh(paddle.exp(scaled))
        if not within:
            stack.close()
        loss = (below * paddle.exp(asked)).sum()
        found = run(asked, loss, below)
    return [None if one is None else one.numpy() for one in found], len(shown)


def _of_what_was_freed(asked, loss, below):
    asked.backward(paddle.ones_like(asked))
    return paddle.grad([loss], [asked])


def _of_what_leads_on(asked, loss, below):
    return paddle.grad([loss], [asked, below])


def _of_the_leaf(asked, loss, below):
    return paddle.grad([loss], [below])


@pytest.mark.parametrize("within", [True, False])
@pytest.mark.parametrize("run", [_of_what_was_freed, _of_what_leads_on, _of_the_leaf])
def test_no_gradient_goes_where_paddle_prunes(run, within):
    """Nothing is shown to hooks there, and what an earlier backward has freed there is no error."""
    natively, shown = _program(contextlib.nullcontext(), run, within=within)
    found, here = _program(padiff_shim.reference("torch"), run, within=within)
    assert here == shown
    for one, other in zip(found, natively):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_no_second_derivative_is_asked_for_below_the_only_input():
    """An index with steps has none in Paddle, and in a graph behind a write it is Paddle's own."""

    def program(mode):
        leaf = paddle.to_tensor(np.linspace(-1.0, 1.0, 12, dtype="float32").reshape(3, 4), stop_gradient=False)
        with mode:
            written = paddle.exp(leaf)
            rows = written[::2]
            written[0] = 0.5
            asked = paddle.exp(rows)
            return paddle.grad([asked.sum()], [asked], create_graph=True)[0].numpy()

    np.testing.assert_array_equal(program(padiff_shim.reference("torch")), program(contextlib.nullcontext()))
