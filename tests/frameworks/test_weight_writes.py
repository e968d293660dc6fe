"""However a Linear weight is written, forward and backward go on with what it holds: as natively."""

import json
from pathlib import Path

import forked
import numpy as np
import paddle
import paddle.nn.functional as F
import pytest

import padiff_shim
from padiff_shim.frameworks.memory import to_torch

pytestmark = pytest.mark.compat

ROOT = Path(__file__).resolve().parents[2]
SHAPE = [4, 3]
ONES = np.ones(SHAPE, "float32")


@pytest.mark.slow
def test_no_door_of_paddle_leaves_an_old_weight_behind():
    """In a process of its own: some doors of Paddle end the process when they are given wrong arguments."""
    done = forked.run([ROOT / "tests" / "weight_doors.py"], warm=True)
    assert done.returncode == 0, done.stderr[-3000:]
    printed = json.loads(done.stdout.strip().splitlines()[-1])
    assert len(printed) == 6
    for circumstances, (wrote, stale) in printed.items():
        assert len(wrote) > 120, circumstances  # the sweep reaches doors at all
        assert {"set_value", "DLPack alias", "paddle.tanh_", "initializer.Constant"} <= set(wrote), circumstances
        assert ("optimizer.SGD" in wrote) == ("constant" not in circumstances)
        assert not stale, circumstances


def step_of_sgd(weight):
    weight.grad = paddle.ones(SHAPE)
    paddle.optimizer.SGD(1.0, parameters=[weight]).step()


UNCOUNTED = {
    "set_value": lambda w: w.set_value(ONES),
    "copy_": lambda w: w.copy_(paddle.ones(SHAPE), True),
    "get_tensor": lambda w: w.get_tensor().set(ONES, paddle.CPUPlace()),
    "assign": lambda w: paddle.assign(ONES, w),
    "initializer": lambda w: paddle.nn.initializer.Constant(1.0)(w),
    "optimizer": step_of_sgd,
    "alias": lambda w: to_torch(w).fill_(2.0),
    "data": lambda w: setattr(w, "data", paddle.ones(SHAPE)),  # other memory: the graph keeps the old one
}
COUNTED = {"add_": lambda w: w.add_(paddle.ones([1])), "detached": lambda w: w.detach().scale_(2.0)}


def weight_and_input():
    paddle.seed(3)
    weight = paddle.create_parameter(SHAPE, "float32")
    x = paddle.rand([5, 4])
    x.stop_gradient = False
    return weight, x


def gradients(write, retain=False):
    """Gradients where ``write`` changes the weight between forward and backward; twice with the graph kept."""
    weight, x = weight_and_input()
    loss = (F.linear(x, weight) * paddle.arange(15.0).reshape([5, 3])).sum()
    if retain:
        loss.backward(retain_graph=True)
        weight.clear_gradient()
    with paddle.no_grad():
        write(weight)
    weight.clear_gradient()
    loss.backward()
    return x.grad.numpy(), None if weight.grad is None else weight.grad.numpy()  # 2.6: `data =` takes the graph away


@pytest.mark.parametrize("retain", [False, True], ids=["once", "twice"])
@pytest.mark.parametrize("write", UNCOUNTED)
def test_an_uncounted_write_before_the_backward_counts_as_natively(write, retain):
    native = gradients(UNCOUNTED[write], retain)
    with padiff_shim.reference("torch") as run:
        ours = gradients(UNCOUNTED[write], retain)
    assert run.backward["linear"] == 1 + retain
    for mine, theirs in zip(ours, native):
        assert (mine is None) == (theirs is None)
        assert mine is None or np.allclose(mine, theirs, rtol=1e-5)


@pytest.mark.parametrize("write", sorted(UNCOUNTED.keys() - {"data"}))  # 2.6 replays the call, and then it has other memory
def test_compare_reads_the_weight_that_paddles_backward_reads(write):
    with padiff_shim.compare("torch", progress=False) as run:
        gradients(UNCOUNTED[write])
    assert {"out", "grad:x"} <= {call.tensor for call in run.calls.filter(op="linear")}
    assert not run.calls.filter(verdict=["WRONG", "SEMANTICS"])


@pytest.mark.parametrize("write", COUNTED)
def test_a_counted_write_before_the_backward_raises_as_natively(write):
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        gradients(COUNTED[write])
    with padiff_shim.reference("torch"), pytest.raises(RuntimeError, match="modified by an inplace operation"):
        gradients(COUNTED[write])


def test_graphs_of_both_sides_of_a_write_read_the_new_weight():
    """As natively: both graphs hold the one weight."""

    def both():
        weight, x = weight_and_input()
        before = F.linear(x, weight).sum()
        weight.set_value(ONES)
        after = F.linear(x, weight).sum()
        before.backward()
        first = x.grad.numpy()
        x.clear_gradient()
        after.backward()
        return first, x.grad.numpy()

    native = both()
    with padiff_shim.reference("torch") as run:
        ours = both()
    assert np.array_equal(ours, np.full([2, 5, 4], 3.0))
    assert np.array_equal(native, ours)
    assert (run.layout_cost.copies, run.layout_cost.reused) == (2, 0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_copy_is_reused_until_a_byte_changes(dtype):
    weight = paddle.zeros(SHAPE).astype(dtype)
    values, x = to_torch(weight), paddle.ones([2, 4]).astype(dtype)
    changes = [lambda: values[3, 2].neg_(), lambda: values[0, 0].fill_(float("nan")), lambda: values.copy_(values.flip(0))]
    with padiff_shim.reference("torch") as run:
        for number, change in enumerate(changes, 1):
            for _ in range(3):
                F.linear(x, weight)
            assert (run.layout_cost.copies, run.layout_cost.reused) == (number, 2 * number)
            change()


def test_a_strided_weight_is_checked_too():
    wide = paddle.rand([4, 6])
    weight, x = wide[:, 1:4], paddle.rand([2, 4])
    with padiff_shim.reference("torch") as run:
        F.linear(x, weight)
        F.linear(x, weight)
        wide.set_value(paddle.ones([4, 6]))
        if not weight.is_contiguous():  # a view
            assert np.allclose(F.linear(x, weight).numpy(), x.numpy().sum(1, keepdims=True))
    assert run.layout_cost.reused == 1
