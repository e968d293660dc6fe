"""Buffers that a program fills part by part, each from the parts before: natively a strided part is kept as it was when read."""

import functools

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest

import padiff_shim

pytestmark = pytest.mark.compat
MODES = {
    "reference": functools.partial(padiff_shim.reference, "torch"),
    "compare": functools.partial(padiff_shim.compare, "torch", progress=False),
    "carry": functools.partial(padiff_shim.compare, "torch", carry="torch", progress=False),
}
VALUES = np.random.default_rng(0).uniform(0.5, 1.5, (4, 4)).astype("float32")


def vander(x):
    return paddle.vander(x[0], 4)


def vander_increasing(x):
    return paddle.vander(x[:, 1], 3, increasing=True)


def columns(x):
    buffer = paddle.zeros([4, 4])
    buffer[:, 0] = x[0]
    for t in range(1, 4):
        buffer[:, t] = buffer[:, t - 1] * buffer[:, t - 1] + x[t]
    return buffer


def rows(x):
    """A row lies contiguous: natively that is refused."""
    buffer = paddle.zeros([4, 4])
    buffer[0] = x[0]
    for t in range(1, 4):
        buffer[t] = buffer[t - 1] * x[t]
    return buffer


def in_its_own_columns(x):
    table = x * 1.0
    for t in range(1, 4):
        table[:, t] = table[:, t] * table[:, t - 1]
    return table


def running_products(x):
    table = x * 1.0
    table[:, 1:] = paddle.cumprod(table[:, 1:], dim=1)
    return table


def halves(x):
    """As rotary embeddings in place."""
    table = x * 1.0
    first, second = table[:, :2], table[:, 2:]
    turned = first * x[:, 2:] - second * x[:, :2]
    table[:, :2] = turned
    table[:, 2:] = second * second
    return table


def steps(x):
    table = x * 1.0
    table[:, ::2] = paddle.exp(table[:, 1::2]) * table[:, 1::2]
    table[:, 1::2] = paddle.tanh(table[:, ::2]) * table[:, ::2]
    return table


def transposed(x):
    table = x * 1.0
    turned = table.t()
    squared = turned * turned
    table[0] = 0.0
    return squared + table


def products(x):
    table = x * 1.0
    ours = table[:, 1:] @ table[:, :3]
    table[:, 0] = ours[:, 0]
    return ours + table.sum()


def norms(x):
    table = x * 1.0
    normed = F.layer_norm(table[:, :3], 3)
    table[:, :3] = normed
    return table * x


def added_to(x):
    table = x * 1.0
    part = table[:, 1:3]
    squared = part * part
    table[:, 1:3] += squared
    return table


def by_an_op_in_place(x):
    table = x * 1.0
    part = table[:, 1]
    squared = part * part
    table.scale_(2.0)
    return squared + table


def read_by_an_op_in_place(x):
    table, ours = x * 1.0, x[:, :2] * 2.0
    part = table[:, 1:3]
    ours.lerp_(part, part * 2.0)
    table[:, 1:3] = 0.0
    return ours + table[:, :2]


def filled(x):
    table = x * 1.0
    part = table[:, 1]
    squared = part * part
    paddle.assign(x * 3.0, output=table)
    return squared + table


def constants(x):
    """The buffer wants no gradient itself."""
    buffer = paddle.ones([4, 4])
    ours = x[:, 0] * buffer[:, 1]
    buffer[:, 1] = 5.0
    return ours + buffer[0]


def second_derivatives(x):
    table = x * 1.0
    cube = table[:, 1] * table[:, 1] * table[:, 1]
    table[:, 1] = 0.0
    (grad,) = paddle.grad((cube * cube).sum(), x, create_graph=True)
    return grad * grad


PROGRAMS = [
    vander, vander_increasing, columns, rows, in_its_own_columns, running_products, halves, steps, transposed, products, norms,
    added_to, by_an_op_in_place, read_by_an_op_in_place, filled, constants, second_derivatives,
]  # fmt: skip


def gradients(program):
    """Of a program: its result and gradient, or the kind of error that it ends with."""
    x = paddle.to_tensor(VALUES, stop_gradient=False)
    try:
        result = program(x)
        (result * result).sum().backward()
    except Exception as error:
        return type(error), str(error)
    return result.numpy(), x.grad.numpy()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_gradients_are_as_natively(program, mode):
    native = gradients(program)
    with MODES[mode]():
        ours = gradients(program)
    if isinstance(native[0], type):
        assert ours[0] is native[0], (native, ours)
        return
    exactly = mode == "compare"
    for our, other in zip(ours, native, strict=True):
        assert np.array_equal(our, other) if exactly else np.allclose(our, other, rtol=1e-4, atol=1e-5), (our, other)


def test_an_op_that_draws_is_not_asked_how_it_keeps_what_it_reads():
    """To ask would draw from Paddle's generator, from which the program draws nothing here."""
    with padiff_shim.reference("torch", random="torch") as run:
        paddle.seed(0)
        table = paddle.to_tensor(VALUES, stop_gradient=False) - 1.0
        F.rrelu(table[:, 1:3], 0.1, 0.9).sum().backward()
    assert run.substituted["rrelu"] == 1
    after = paddle.rand([4]).numpy()
    paddle.seed(0)
    assert np.array_equal(after, paddle.rand([4]).numpy())
