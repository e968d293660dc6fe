"""The gradient of a value that is set in several places is a sum: Torch's under the shim, bit for bit."""

import numpy as np
import paddle
import pytest
import torch
from helpers import in_turn

import padiff_shim

pytestmark = [pytest.mark.compat, pytest.mark.bitexact]

MASK = np.random.default_rng(3).random((4, 5, 6)) > 0.5
ROWS = np.array([[True, False, True, True, False]] * 4)
# index, shape of the value
SETS = {
    "rows of a slice": (np.s_[1:], (6,)),
    "all, with as many axes": (np.s_[:], (1, 5, 6)),
    "a column": (np.s_[..., 0], (5,)),
    "every other": (np.s_[:, ::2], (3, 1)),
    "one number": (np.s_[1, 2:4], ()),
    "rows at places": (np.array([0, 2, 3]), (6,)),
    "each at its place": (np.array([3, 0, 2]), (3, 5, 6)),
    "each at its place, beside a slice": (np.s_[:, np.array([4, 1]), 1:3], (4, 2, 2)),
    "a list": ([3, 0, 2], (3, 5, 6)),
    "two for one place": (np.array([1, 2, 2]), (3, 5, 6)),
    "places of two axes": ((np.array([0, 1, 2]), np.array([4, 4, 0])), (6,)),
    "behind a mask, one number": (MASK, ()),
    "behind a mask, one element": (MASK, (1,)),
    "rows behind a mask": (ROWS, (6,)),
}


def _torchs(index):
    return tuple(
        torch.tensor(value) if isinstance(value, np.ndarray) else value for value in (index if type(index) is tuple else (index,))
    )


def _paddles(index):
    results = tuple(
        paddle.to_tensor(value) if isinstance(value, np.ndarray) else value
        for value in (index if type(index) is tuple else (index,))
    )
    return results if type(index) is tuple else results[0]


def _values(shape, dtype):
    rng = np.random.default_rng(7)
    return [rng.standard_normal(value).astype(dtype) for value in ((4, 5, 6), shape, (4, 5, 6))]


def _twin(index, x, value, weights, wanted):
    x, value = torch.tensor(x, requires_grad=wanted), torch.tensor(value, requires_grad=True)
    written = x * 1.0
    written[_torchs(index)] = value * 3.0
    (written * written * torch.tensor(weights)).sum().backward()
    return [written.detach().numpy(), value.grad.numpy(), *([x.grad.numpy()] if wanted else [])]


@pytest.mark.parametrize("wanted", [True, False], ids=["x wants its gradient", "x wants none"])
@pytest.mark.parametrize(("name", "dtype"), in_turn(SETS, ("float32", "float16", "float64")))
def test_set_by_index(name, dtype, wanted):
    index, shape = SETS[name]
    x, value, weights = _values(shape, dtype)
    expected = _twin(index, x, value, weights, wanted)
    with padiff_shim.reference("torch"):
        mine, source = paddle.to_tensor(x, stop_gradient=not wanted), paddle.to_tensor(value, stop_gradient=False)
        written = mine * 1.0
        written[_paddles(index)] = source * 3.0
        (written * written * paddle.to_tensor(weights)).sum().backward()
    results = [written.numpy(), source.grad.numpy(), *([mine.grad.numpy()] if wanted else [])]
    for result, other in zip(results, expected):
        assert result.tobytes() == other.tobytes(), (result, other)


BACK = {
    "from the end": (np.s_[..., ::-1], lambda w, v: w.__setitem__(np.s_[...], v.expand(4, 5, 6).flip(-1)), (6,)),
    "one number": (np.s_[::-1, 1], lambda w, v: w.__setitem__(np.s_[:, 1], v.expand(4, 6).flip(0)), ()),
    "two axes": (
        np.s_[::-2, None, 3:0:-1],
        lambda w, v: w.__setitem__(np.s_[1::2, None, 1:4], v.expand(2, 1, 3, 6).flip(0, 2)),
        (3, 6),
    ),
}


@pytest.mark.parametrize("wanted", [True, False], ids=["x wants its gradient", "x wants none"])
@pytest.mark.parametrize("name", BACK)
def test_set_backwards(name, wanted):
    index, put, shape = BACK[name]
    x, value, weights = _values(shape, "float32")
    theirs, source = torch.tensor(x, requires_grad=wanted), torch.tensor(value, requires_grad=True)
    written = theirs * 1.0
    put(written, source * 3.0)
    (written * written * torch.tensor(weights)).sum().backward()
    with padiff_shim.reference("torch"):
        mine, ours = paddle.to_tensor(x, stop_gradient=not wanted), paddle.to_tensor(value, stop_gradient=False)
        set_ = mine * 1.0
        set_[index] = ours * 3.0
        (set_ * set_ * paddle.to_tensor(weights)).sum().backward()
    assert set_.numpy().tobytes() == written.detach().numpy().tobytes()
    assert ours.grad.numpy().tobytes() == source.grad.numpy().tobytes()
    if wanted:
        assert mine.grad.numpy().tobytes() == theirs.grad.numpy().tobytes()


@pytest.mark.skipif(not hasattr(paddle._C_ops, "masked_fill_"), reason="this Paddle has no such op: it writes what where() gives")
@pytest.mark.parametrize("wanted", [True, False], ids=["x wants its gradient", "x wants none"])
def test_filled_in_place(wanted):
    x, value, weights = _values((), "float32")
    expected = _twin(MASK, x, value, weights, wanted)
    with padiff_shim.reference("torch"):
        mine, source = paddle.to_tensor(x, stop_gradient=not wanted), paddle.to_tensor(value, stop_gradient=False)
        written = mine * 1.0
        assert written.masked_fill_(paddle.to_tensor(MASK), source * 3.0) is written
        (written * written * paddle.to_tensor(weights)).sum().backward()
    results = [written.numpy(), source.grad.numpy(), *([mine.grad.numpy()] if wanted else [])]
    for result, other in zip(results, expected):
        assert result.tobytes() == other.tobytes(), (result, other)


def test_an_index_that_is_written_afterwards_is_refused():
    with padiff_shim.reference("torch"):
        x, value = paddle.zeros([4, 3]), paddle.ones([3])
        value.stop_gradient = False
        places = paddle.to_tensor([0, 1])
        x[places] = value * 2.0
        places.add_(paddle.to_tensor([1, 1]))
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            x.sum().backward()


@pytest.mark.parametrize("shape", [(4,), (2, 3)], ids=str)
@pytest.mark.parametrize("index", [np.s_[:], np.s_[...], np.s_[0:2], np.s_[1], np.s_[::-1]], ids=str)
@pytest.mark.parametrize("source", [(1, 1), (1, 1, 1)], ids=str)
def test_values_of_more_axes_are_taken_where_paddle_takes_them(shape, index, source):
    def set_():
        x, value = paddle.zeros(shape), paddle.ones(source)
        value.stop_gradient = False
        try:
            x[index] = value
        except ValueError as error:
            return type(error), x.tolist(), x.inplace_version
        x.sum().backward()
        return x.tolist(), value.grad.tolist()

    natively = set_()
    with padiff_shim.reference("torch"):
        assert set_() == natively


@pytest.mark.skipif(not hasattr(paddle.Tensor, "strides"), reason="this Paddle has no views with strides")
@pytest.mark.parametrize("wanted", [True, False], ids=["x wants its gradient", "x wants none"])
@pytest.mark.parametrize("view", ["reversed", "elements twice"])
@pytest.mark.parametrize("way", ["by index", "behind a mask"])
def test_memory_that_torch_cannot_write_is_written(way, view, wanted):
    def set_():
        x = paddle.arange(4.0)
        x.stop_gradient = not wanted
        below = x * 1.0
        above = below[::-1] if view == "reversed" else paddle.as_strided(below, [2, 4], [0, 1])
        value = paddle.to_tensor(5.0, stop_gradient=False)
        if way == "by index":
            above[..., 1:3] = value * 1.0
        else:
            paddle.masked_fill_(above, above > 2.0, value * 1.0)
        return below.tolist(), above.tolist()

    natively = set_()
    with padiff_shim.reference("torch"):
        assert set_() == natively


GAPS = {  # view of a tensor of shape [4, 6], an index, shape of the value
    "columns": (np.s_[:, 2:4], np.array([3, 0]), (2, 2)),
    "every other row": (np.s_[::2], np.array([1, 0]), (2, 6)),
    "every other column": (np.s_[:, ::2], np.s_[:, [2, 0]], (4, 2)),
    "two axes": (np.s_[:, 2:5], (np.array([3, 0, 1]), np.array([2, 2, 0])), (3,)),
    "a number": (np.s_[1:, 1:], [0, 2], None),
}


@pytest.mark.parametrize("wants", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("case", GAPS)
def test_elements_of_a_view_with_gaps_are_set_within_its_memory(case, wants):
    """Paddle's kernel writes outside of it, and the process ends (docs/defects.md): no native call to compare with."""
    shown, index, shape = GAPS[case]
    rng = np.random.default_rng(0)
    start = rng.standard_normal((4, 6)).astype("float32")
    value = None if shape is None else rng.standard_normal(shape).astype("float32")

    def run(lib, tensor, places):
        base, other = tensor(start), None if value is None else tensor(value)
        for leaf, wanting in zip((base, other), wants):
            if wanting and leaf is not None and lib is paddle:
                leaf.stop_gradient = False
            elif wanting and leaf is not None:
                leaf.requires_grad = True
        view = (base * 2.0)[shown]
        for _ in range(20):
            view[places] = 0.25 if other is None else other * 3.0
        if any(wants[: 2 if other is not None else 1]):
            (view * view).sum().backward()
        return view, base.grad, None if other is None else other.grad

    with padiff_shim.reference("torch"):
        ours = run(paddle, paddle.to_tensor, _paddles(index))
    theirs = run(torch, torch.tensor, _torchs(index))
    for result, expected in zip(ours, theirs):
        assert (result is None) == (expected is None)
        assert result is None or np.array_equal(result.numpy(), expected.detach().numpy())


def test_what_a_view_with_gaps_shows_is_set_and_counted_once():
    base = paddle.arange(24, dtype="float32").reshape([4, 6])
    with padiff_shim.reference("torch"):
        view = base[:, 2:4]
        before = view.inplace_version
        view[paddle.to_tensor([3, 0])] = paddle.to_tensor([[-1.0, -2.0], [-3.0, -4.0]])
        assert view.inplace_version == before + 1
    expected = np.arange(24.0).reshape(4, 6)
    expected[[3, 0], 2:4] = [[-1.0, -2.0], [-3.0, -4.0]]
    assert np.array_equal(base.numpy(), expected)
