"""What is written in place into a graph: every gradient arrives once and whole, as natively, also where Paddle's kernel writes."""

import numpy as np
import paddle
import pytest

import padiff_shim

pytestmark = pytest.mark.compat


def _places():
    return paddle.to_tensor([0])


def reversed_rows(x, y):
    x[::-1] = y


def reversed_columns(x, y):
    x[..., ::-1] = y


def view_backwards(x, y):
    x[::-1][...] = y * x


def row_through_a_view(x, y):
    row = x[0]
    row[...] = y[1]


def one_row_for_all(x, y):
    x[1:] = y[:1]


def number(x, y):
    x[0, 1] = 5.0


def mask(x, y):
    x[x > 3.0] = 0.0


def every_other(x, y):
    x[:, ::2] = y[:, ::2]


def at_places(x, y):
    x[_places()] = y[:1]


def zero_through_a_view(x, y):
    x[0].zero_()


def in_another_shape(x, y):
    x.reshape_([3, 2])


def scattered(x, y):
    x.scatter_(_places(), y[:1])


def put_along(x, y):
    x.put_along_axis_(paddle.to_tensor([[0, 0, 0]]), y[:1], 0)


def masked(x, y):
    x.masked_fill_(x > 3.0, 0.0)


def diagonal(x, y):
    x.fill_diagonal_(1.0)


def put(x, y):
    x.index_put_((_places(),), y[:1])


def assigned(x, y):
    paddle.assign(y, x)


def chosen(x, y):
    paddle.where_(x > 3.0, x, y)


WRITES = (
    reversed_rows, reversed_columns, view_backwards, row_through_a_view, one_row_for_all, number, mask, every_other, at_places,
    zero_through_a_view, in_another_shape, scattered, put_along, masked, diagonal, put, assigned, chosen,
)  # fmt: skip


def _seen(write, stopped):
    """What hooks see of two intermediate tensors and of a leaf, and the gradients of the leaves."""
    x = paddle.to_tensor(np.arange(1.0, 7.0, dtype="float32").reshape(2, 3), stop_gradient=False)
    y = paddle.to_tensor(np.arange(2.0, 8.0, dtype="float32").reshape(2, 3), stop_gradient=False)
    left, right = x * 2.0, y * 3.0
    seen = {"left": [], "right": [], "x": []}
    for name, tensor in (("left", left), ("right", right), ("x", x)):
        tensor.register_hook(lambda grad, name=name: seen[name].append(grad.numpy()))
    target = left * 1.0
    target.stop_gradient = stopped
    write(target, right)
    (target.reshape([6]) * left.reshape([6]) * right.reshape([6])).sum().backward()
    return {**seen, "gradients": [x.grad.numpy(), y.grad.numpy()]}


@pytest.mark.parametrize("stopped", [False, True])  # what was made before goes on behind a write that wants a gradient
@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.__name__)
def test_each_hook_sees_the_whole_gradient_once(write, stopped):
    expected = _seen(write, stopped)
    with padiff_shim.reference("torch"):
        results = _seen(write, stopped)
    for name, grads in expected.items():
        assert len(results[name]) == len(grads), name
        for grad, other in zip(results[name], grads):
            np.testing.assert_array_equal(grad, other, err_msg=name)


def test_what_is_written_into_a_tensor_that_wanted_no_gradient():
    def program():
        x = paddle.to_tensor([[1.0, 2.0], [3.0, 4.0]], stop_gradient=False)
        square = x * x
        table = paddle.zeros([2, 2])
        table[0] = square[1]
        table[1] = square[0] * 2.0
        seen = []
        square.register_hook(lambda grad: seen.append(grad.numpy()))
        (table * square).sum().backward()
        return [table.numpy(), x.grad.numpy(), *seen]

    expected = program()
    with padiff_shim.reference("torch"):
        results = program()
    assert len(results) == len(expected) == 3
    for result, other in zip(results, expected):
        np.testing.assert_array_equal(result, other)


@pytest.mark.parametrize("write", ["add_", "multiply_", "subtract_"])
def test_an_op_in_place_on_a_stopped_tensor_goes_on_behind_what_it_was_made_of(write):
    def program():
        x = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
        y = paddle.to_tensor([3.0, 4.0], stop_gradient=False)
        square = x * x
        square.stop_gradient = True
        getattr(square, write)(y * 2.0)
        (square * 3.0).sum().backward()
        return [square.numpy(), x.grad.numpy(), y.grad.numpy(), np.array(square.stop_gradient)]

    expected = program()
    with padiff_shim.reference("torch"):
        results = program()
    for result, other in zip(results, expected, strict=True):
        np.testing.assert_array_equal(result, other)


def test_a_hook_of_before_a_write_through_a_view_sees_what_comes_from_after_it():
    def program():
        x = paddle.to_tensor([[1.0, 2.0], [3.0, 4.0]], stop_gradient=False)
        square = x * x
        seen = []
        before = square.sum()
        square.register_hook(lambda grad: seen.append(grad.numpy()))
        square[0].zero_()
        square.register_hook(lambda grad: seen.append(grad.numpy()))
        (before + (square * 3.0).sum()).backward()
        return [square.numpy(), x.grad.numpy(), *seen]

    expected = program()
    with padiff_shim.reference("torch"):
        results = program()
    assert len(results) == len(expected) == 4
    for result, other in zip(results, expected):
        np.testing.assert_array_equal(result, other)


def test_a_value_that_a_backward_reads_is_not_written_unseen():
    with padiff_shim.reference("torch"):
        x = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
        square = x * x
        product = square * square
        square[0] = 5.0
        with pytest.raises(RuntimeError, match="has been modified by an inplace operation"):
            product.sum().backward()
        leaf = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
        with pytest.raises(ValueError, match=r"(?i)leaf"):
            leaf[0] = (x * 1.0)[0]


@pytest.mark.parametrize(
    "write", [lambda t: t.add_(t), lambda t: t.scale_(2.0), lambda t: t.tanh_()], ids=["add_", "scale_", "tanh_"]
)
def test_a_partial_gradient_of_what_was_written_through_a_view(write):
    """Of the tensor's node, to which what was made before the write leads, too."""

    def program():
        x = paddle.to_tensor([[1.0, 2.0], [3.0, 4.0]], stop_gradient=False)
        whole = x * 3.0
        before, row = whole * 5.0, whole[0]
        write(row)
        return [paddle.grad([before.sum(), row.sum()], [whole])[0].numpy(), paddle.grad([before.sum()], [whole])[0].numpy()]

    expected = program()
    with padiff_shim.reference("torch"):
        results = program()
    np.testing.assert_allclose(results, expected, rtol=1e-6)


class Doubled(paddle.autograd.PyLayer):
    @staticmethod
    def forward(ctx, x):
        return x * 2.0

    @staticmethod
    def backward(ctx, grad):
        return grad * 2.0


def _retained_before_another_dtype(hooked=False):
    """The retained gradient of a float32 value that an in-place sum with a float64 one makes float64."""
    x = paddle.to_tensor(np.linspace(-1.0, 1.0, 6, dtype="float32"), stop_gradient=False)
    y = Doubled.apply(x)
    y.retain_grads()
    z = paddle.exp(y.astype("float64"))
    y.add_(z)
    if hooked:
        y.register_hook(lambda grad: grad * 2.0)
    (z * z).sum().backward()
    return y.dtype, y.grad, x.grad


@pytest.mark.parametrize("hooked", [False, True])
@pytest.mark.parametrize("mode", [padiff_shim.reference, padiff_shim.compare])
def test_a_retained_gradient_of_a_value_that_was_written_in_another_dtype(mode, hooked):
    dtype, *natively = _retained_before_another_dtype(hooked)
    with mode("torch"):
        result, *here = _retained_before_another_dtype(hooked)
    assert result == dtype == paddle.float64
    for actual, other in zip(here, natively):
        assert actual.dtype == other.dtype == paddle.float32
        np.testing.assert_allclose(actual.numpy(), other.numpy(), rtol=1e-6)
