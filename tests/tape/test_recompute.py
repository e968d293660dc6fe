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


def test_a_mode_around_the_replay_alone_is_refused():
    """Forward and replay keep other numbers of tensors: Paddle raises."""
    x = paddle.linspace(-1.0, 1.0, 12).reshape([3, 4])
    x.stop_gradient = False
    y = recompute(block, x * 1.5, use_reentrant=False)
    try:
        with padiff_shim.reference("torch"), pytest.raises(OSError):
            (y * y).sum().backward()
    finally:
        paddle.set_grad_enabled(True)  # an error in a hook of Paddle's leaves gradients switched off


# ---- A block runs as often as natively: what it changes beside its results moves as there.


class Counting(paddle.nn.Layer):
    """Counts its runs in a buffer and in an attribute, draws, and keeps running statistics."""

    def __init__(self, name, runs, normalise):
        super().__init__()
        self.name, self.runs, self.normalise, self.drawn = name, runs, normalise, []
        self.register_buffer("calls", paddle.zeros([1]))

    def forward(self, x):
        self.runs.append(self.name)
        self.drawn.append(paddle.rand([3]).numpy())
        with paddle.no_grad():
            self.calls.set_value(self.calls + 1)
        return paddle.tanh(self.normalise(paddle.nn.functional.dropout(x, 0.5)))


class Two(paddle.nn.Layer):
    """Two blocks that share a normalisation, so that the order in which they run again shows."""

    def __init__(self):
        super().__init__()
        paddle.seed(3)
        self.runs, self.normalise = [], paddle.nn.BatchNorm1D(4)
        self.first, self.second = (Counting(name, self.runs, self.normalise) for name in ("first", "second"))
        self.between = paddle.nn.Linear(4, 4)

    def forward(self, x):
        x = recompute(self.first, x, use_reentrant=False)
        return recompute(self.second, self.between(x) * 3.0 + 1.0, use_reentrant=False)


def twice(loss):
    loss.backward(retain_graph=True)
    loss.backward()


SOURCE = []
BACKWARDS = {
    "none": lambda loss: None,
    "one": lambda loss: loss.backward(),
    "twice": twice,
    "partial": lambda loss: paddle.grad(loss, [SOURCE[-1]]),
}


def states(mode, backward):
    model = Two()
    x = paddle.linspace(-1.0, 1.0, 24).reshape([6, 4])
    x.stop_gradient = False
    SOURCE.append(x)
    with mode:
        paddle.seed(11)
        loss = (model(x) ** 2).sum()
        follow = paddle.get_rng_state()
        backward(loss)
        after = paddle.rand([3]).numpy()
        paddle.set_rng_state(follow)
        assert np.array_equal(after, paddle.rand([3]).numpy())
    for block in (model.first, model.second):
        assert all(np.array_equal(drawn, block.drawn[0]) for drawn in block.drawn)
    return model.runs, {name: block.calls.item() for name, block in (("first", model.first), ("second", model.second))}


@pytest.mark.parametrize("backward", BACKWARDS)
def test_a_block_runs_as_often_and_in_the_order_that_it_does_natively(backward):
    assert states(padiff_shim.reference("torch"), BACKWARDS[backward]) == states(contextlib.nullcontext(), BACKWARDS[backward])


def ends(normalise, mode):
    """Without random numbers, which are others in the mode: two normalised blocks with one shared statistic."""
    model = paddle.nn.BatchNorm1D(4)
    x = paddle.linspace(-1.0, 1.0, 24).reshape([6, 4])
    x.stop_gradient = False
    with mode:
        y = recompute(model, normalise(x), use_reentrant=False)
        (recompute(model, y * 3.0 + 1.0, use_reentrant=False) ** 2).sum().backward()
    return model._mean.numpy(), model._variance.numpy(), x.grad.numpy()


@pytest.mark.parametrize("normalise", [paddle.tanh, paddle.exp])
def test_running_statistics_move_as_natively(normalise):
    for native, ran in zip(ends(normalise, contextlib.nullcontext()), ends(normalise, padiff_shim.reference("torch"))):
        np.testing.assert_allclose(ran, native, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("block_of", [paddle.tanh, paddle.sin, lambda x: x + 1.0, lambda x: x.exp_(), lambda x: x.t() * x.t()])
def test_a_block_that_keeps_nothing_runs_once(block_of):
    """Natively, too: nothing is asked of it in the backward."""

    def runs(mode):
        count = []

        def block(x):
            count.append(1)
            return block_of(x)

        x = paddle.ones([3, 3])
        x.stop_gradient = False
        with mode:
            for _ in range(3):  # the first calls of a kind take another way
                recompute(block, x * 1.0, use_reentrant=False).sum().backward()
        return len(count)

    assert runs(padiff_shim.reference("torch")) == runs(contextlib.nullcontext())


def test_a_backward_outside_of_the_mode_says_that_the_block_did_not_run_again():
    model, x = paddle.nn.BatchNorm1D(4), paddle.linspace(-1.0, 1.0, 24).reshape([6, 4])
    x.stop_gradient = False
    with padiff_shim.reference("torch") as run:
        y = recompute(model, x, use_reentrant=False)
    before, noted = model._mean.numpy(), len(run.warnings)
    y.sum().backward()
    assert np.array_equal(model._mean.numpy(), before)
    assert len(run.warnings) == noted + 1
