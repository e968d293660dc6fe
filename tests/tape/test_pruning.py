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
        target = paddle.tanh(paddle.exp(scaled))
        if not within:
            stack.close()
        loss = (below * paddle.exp(target)).sum()
        results = run(target, loss, below)
    return [None if tensor is None else tensor.numpy() for tensor in results], len(shown)


def _of_what_was_freed(target, loss, below):
    target.backward(paddle.ones_like(target))
    return paddle.grad([loss], [target])


def _of_what_leads_on(target, loss, below):
    return paddle.grad([loss], [target, below])


def _of_the_leaf(target, loss, below):
    return paddle.grad([loss], [below])


@pytest.mark.parametrize("within", [True, False])
@pytest.mark.parametrize("run", [_of_what_was_freed, _of_what_leads_on, _of_the_leaf])
def test_no_gradient_goes_where_paddle_prunes(run, within):
    """Nothing is shown to hooks there, and what an earlier backward has freed there is no error."""
    natively, shown = _program(contextlib.nullcontext(), run, within=within)
    results, here = _program(padiff_shim.reference("torch"), run, within=within)
    assert here == shown
    for result, other in zip(results, natively):
        np.testing.assert_allclose(result, other, rtol=1e-5)


def test_no_second_derivative_is_asked_for_below_the_only_input():
    """An index with steps has none in Paddle, and in a graph behind a write it is Paddle's own."""

    def program(mode):
        leaf = paddle.to_tensor(np.linspace(-1.0, 1.0, 12, dtype="float32").reshape(3, 4), stop_gradient=False)
        with mode:
            written = paddle.exp(leaf)
            rows = written[::2]
            written[0] = 0.5
            target = paddle.exp(rows)
            return paddle.grad([target.sum()], [target], create_graph=True)[0].numpy()

    np.testing.assert_array_equal(program(padiff_shim.reference("torch")), program(contextlib.nullcontext()))
