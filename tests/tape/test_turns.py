"""Where Torch's graph is walked in several turns of one backward, and which tensors are one and the same."""

import contextlib

import numpy as np
import paddle
import pytest
from helpers import in_child

import padiff_shim
from padiff_shim.tape.twins import taped

pytestmark = pytest.mark.usefixtures("undone")


def leaf(*shape):
    return paddle.to_tensor(np.random.RandomState(0).randn(*shape).astype("float32"), stop_gradient=False)


@pytest.mark.compat
@pytest.mark.parametrize("op", ["tanh", "exp"])
def test_an_island_that_two_turns_reach(op):
    """The second turn comes from a node that was made outside of the mode and uses the island's result, too."""

    def step(inside):
        x = leaf(3)
        with inside():
            island = getattr(paddle, op)(x * 2.0)
        outside = paddle.sin(island)
        with inside():
            (island * 3.0 + outside * 1.0).sum().backward()
        return x.grad.numpy()

    native = step(paddle.enable_grad)
    ours = step(lambda: padiff_shim.reference("torch", exclude=op))
    np.testing.assert_allclose(ours, native, rtol=1e-5)


@pytest.mark.compat
def test_a_second_backward_through_an_island_raises_as_natively():
    x = leaf(3)
    with padiff_shim.reference("torch", exclude="exp"):
        y = paddle.exp(x * 2.0)
        z = (y * 3.0).sum()
        z.backward()
        with pytest.raises(SystemError, match="retain_graph"):
            z.backward()


def test_a_pooling_s_operand_is_the_tensor_itself():
    """`F.adaptive_avg_pool2d` begins with `x._use_gpudnn(False)`: another Python object over the same tensor."""
    x = leaf(1, 2, 4, 4)
    with padiff_shim.reference("torch"):
        y = x * 2.0
        other = y._use_gpudnn(False)
        assert taped(other).twin is taped(y).twin
        pooled = paddle.nn.functional.adaptive_avg_pool2d(y, 1)
        assert taped(pooled) is not None
        pooled.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.full((1, 2, 4, 4), 2 / 16), rtol=1e-6)


class _Asking(paddle.autograd.PyLayer):
    """The gradient of x * x, which its backward asks for."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        with paddle.enable_grad():
            x = ctx.saved_tensor()[0].detach()
            x.stop_gradient = False
            return paddle.grad([x * x], [x], [grad])[0]


@pytest.mark.compat
@pytest.mark.parametrize("leaf", [False, True])
def test_a_gradient_may_be_asked_for_within_another(leaf):
    """Natively the process ends: docs/defects.md."""
    with padiff_shim.reference("torch"):
        x = paddle.to_tensor([1.0, -3.0], stop_gradient=False)
        middle = x if leaf else paddle.tanh(x)
        (gradient,) = paddle.grad([(_Asking.apply(middle) * 3.0).sum()], [x])
        slope = 1.0 if leaf else 1.0 - middle * middle
        assert (gradient - 6.0 * middle * slope).abs().max().item() < 1e-6


SHARED = """
import contextlib

class Exp(paddle.autograd.PyLayer):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return paddle.exp(x)

    @staticmethod
    def backward(ctx, grad):
        return grad * paddle.exp(ctx.saved_tensor()[0])

def gradient(mode, together):
    x = paddle.to_tensor([0.5, 1.0], stop_gradient=False)
    shared = Exp.apply(x)
    with mode:
        inside = paddle.tanh(shared)
    losses = [(shared * 3.0).sum(), (inside * 2.0).sum()]
    if together:
        (losses[0] + losses[1]).backward()
    else:
        paddle.autograd.backward(losses)
    return x.grad.numpy()
"""


@pytest.mark.compat
def test_a_pylayer_outside_that_two_losses_reach():
    """From inside of the mode and from outside: in two turns Paddle's engine came there twice, and ended the process."""
    done = in_child(
        SHARED
        + """
expected = gradient(contextlib.nullcontext(), False)
found = gradient(padiff_shim.reference("torch"), False)
assert abs(found - expected).max() < 1e-5, (found, expected)
print("equal")
"""
    )
    assert done.stdout.strip() == "equal", done.stderr[-2000:]


@pytest.mark.compat
def test_a_pylayer_outside_that_one_loss_reaches_both_ways_is_refused():
    done = in_child(
        SHARED
        + """
try:
    gradient(padiff_shim.reference("torch"), True)
except RuntimeError as error:
    print(str(error)[:23])
"""
    )
    assert done.stdout.strip() == "a backward comes twice,", done.stderr[-2000:]


@pytest.mark.compat
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_a_gradient_that_both_engines_have_a_part_of(dtype):
    leaf = paddle.to_tensor([1.0, 2.0], dtype, stop_gradient=False)
    with padiff_shim.reference("torch"):
        squared = leaf * leaf
    (grad,) = paddle.grad([(squared * leaf).sum()], [leaf])
    assert grad.astype("float32").tolist() == [3.0, 12.0]


def test_a_hook_on_a_view_sees_each_turn_apart():
    """Natively the whole gradient once, of what was made of the view in the mode and outside."""

    def asked(mode):
        x, seen = paddle.to_tensor([[1.0, 2.0], [3.0, 4.0]], stop_gradient=False), []
        with mode:
            view = (x * 1.0)[0]
        after = paddle.exp(view)
        view.register_hook(lambda grad: seen.append(grad.tolist()) or grad * 2.0)
        return paddle.grad([after.sum() + (view * 3.0).sum()], [view])[0].tolist(), seen

    native, (whole,) = asked(contextlib.nullcontext())
    ours, parts = asked(padiff_shim.reference("torch"))
    assert ours == native
    assert [sum(part) for part in zip(*parts)] == whole
