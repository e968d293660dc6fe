"""Views of what wants a gradient: over the program's memory as natively, with Torch's graph behind them."""

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
import torch
from helpers import same

import padiff_shim
from padiff_shim.tape.twins import taped

pytestmark = pytest.mark.usefixtures("undone")

BOTH = {  # a view as a Paddle program and as a Torch program make it
    "reshape": (lambda x: x.reshape([4, 6]), lambda x: x.reshape(4, 6)),
    "reshape keeps": (lambda x: x.reshape([0, -1]), lambda x: x.reshape(2, 12)),
    "transpose": (lambda x: x.transpose([2, 0, 1]), lambda x: x.permute(2, 0, 1)),
    "squeeze": (lambda x: x.unsqueeze(1).squeeze(1), lambda x: x.unsqueeze(1).squeeze(1)),
    "flatten": (lambda x: x.flatten(1), lambda x: x.flatten(1)),
    "index": (lambda x: x[1], lambda x: x[1]),
    "slices": (lambda x: x[:, 1:, ::2], lambda x: x[:, 1:, ::2]),
    "new axis": (lambda x: x[..., None, :], lambda x: x[..., None, :]),
    "slice op": (lambda x: paddle.slice(x, [1, 2], [1, -3], [3, 9]), lambda x: x[:, 1:3, -3:]),
    "unbind": (lambda x: paddle.unbind(x, 1)[1], lambda x: x.unbind(1)[1]),
    "diagonal": (lambda x: paddle.diagonal(x, 1, 1, 2), lambda x: x.diagonal(1, 1, 2)),
    "steps": (lambda x: paddle.strided_slice(x, [0, 2], [0, 1], [2, 4], [1, 2]), lambda x: x[:, :, 1:4:2]),
    "new axes": (lambda x: x.unsqueeze([0, 2]), lambda x: x.unsqueeze(0).unsqueeze(2)),
    "unfold": (lambda x: x.unfold(2, 2, 1), lambda x: x.unfold(2, 2, 1)),
    "view": (lambda x: x.view([3, 8]), lambda x: x.view(3, 8)),
}


def values(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


@pytest.mark.compat
@pytest.mark.bitexact
@pytest.mark.parametrize("of_leaf", [True, False], ids=["leaf", "result"])
@pytest.mark.parametrize("name", BOTH)
def test_views_are_on_both_sides(name, of_leaf):
    ours, theirs = BOTH[name]
    array = values(2, 3, 4)
    x = paddle.to_tensor(array, stop_gradient=False)
    t = torch.tensor(array, requires_grad=True)
    with padiff_shim.reference("torch") as run:
        base = x if of_leaf else F.gelu(x)
        view = ours(base)
        assert taped(view) is not None
        first, last = base.data_ptr(), base.data_ptr() + array.nbytes
        assert first <= view.data_ptr() < last
        assert (view.is_leaf, view.stop_gradient) == (False, False)
        ((F.softmax(view, -1) * view).sum() + base.sum() + (base * base).sum()).backward()
    twin = t if of_leaf else torch.nn.functional.gelu(t)
    side = theirs(twin)
    assert list(side.stride()) == list(view.strides)
    ((torch.softmax(side, -1) * side).sum() + twin.sum() + (twin * twin).sum()).backward()
    assert np.array_equal(x.grad.numpy(), t.grad.numpy())
    assert not [op for op, _ in run.native if op in ("reshape", "transpose", "slice", "unbind")]


@pytest.mark.bitexact
def test_a_leaf_that_many_views_use_is_added_up_in_torchs_order():
    array, weights = values(6, 8), [values(8, 6, seed=n) * 10.0**n for n in range(1, 6)]
    w = paddle.to_tensor(array, stop_gradient=False)
    t = torch.tensor(array, requires_grad=True)
    with padiff_shim.reference("torch"):
        views = [w.t(), w.t().reshape([8, 6]), w.transpose([1, 0]), w.reshape([6, 8]).t(), w[:].t()]
        paddle.add_n([(v * paddle.to_tensor(a)).sum() for v, a in zip(views, weights)]).backward()
    sides = [t.t(), t.t().reshape(8, 6), t.permute(1, 0), t.reshape(6, 8).t(), t[:].t()]
    total = sum((s * torch.tensor(a)).sum() for s, a in zip(sides, weights))
    total.backward()
    assert np.array_equal(w.grad.numpy(), t.grad.numpy())


def test_a_view_of_integers_that_say_they_want_gradients():
    numbers = paddle.arange(6).reshape([2, 3])
    numbers.stop_gradient = False
    with padiff_shim.reference("torch"):
        assert numbers[0].tolist() == [0, 1, 2]
        assert numbers.transpose([1, 0]).shape == [3, 2]


def test_of_an_axis_without_elements_there_are_no_views():
    nothing = paddle.zeros([0, 4])
    nothing.stop_gradient = False
    with padiff_shim.reference("torch"):
        assert paddle.unbind(nothing) == paddle.unbind(nothing * 1.0) == []


@pytest.mark.parametrize("made", [lambda w: w, lambda w: w * 1.0], ids=["leaf", "on the tape"])
@pytest.mark.parametrize("view", [lambda w: w.t(), lambda w: w[:2]], ids=["transposed", "rows"])
def test_data_exchanged_for_a_view_of_itself(made, view):
    """``tensor.data = tensor.data.t()`` leaves the memory and its version as they were: what is computed next reads the view."""
    values = np.random.default_rng(0).standard_normal((4, 4)).astype("float32")
    leaf = paddle.to_tensor(values, stop_gradient=False)
    with padiff_shim.reference("torch") as run:
        tensor = made(leaf)
        paddle.tanh(tensor)
        tensor.data = view(tensor.detach())
        ours = paddle.tanh(tensor)
    assert run.substituted["tanh"] == 2
    assert same(ours, torch.tanh(view(torch.tensor(values))))


def test_a_view_that_shows_elements_twice_has_the_whole_gradient():
    x = paddle.to_tensor([1.0, 2.0, 3.0, 4.0], stop_gradient=False)
    with padiff_shim.reference("torch"):
        view = paddle.as_strided(x * 1, [3, 2], [1, 1])
        (view * view).sum().backward()
    assert x.grad.numpy().tolist() == [2.0, 8.0, 12.0, 8.0]
