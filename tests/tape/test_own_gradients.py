"""What hooks answer is the tensor's own gradient: retained, asked for beside others, and where it goes no further (PyLayers)."""

import paddle
import pytest

import padiff_shim

pytestmark = pytest.mark.compat


class Twice(paddle.autograd.PyLayer):
    @staticmethod
    def forward(ctx, x):
        return x * 2.0

    @staticmethod
    def backward(ctx, grad):
        return grad * 2.0


MADE = {"an op": lambda x: x * 2.0, "a PyLayer": Twice.apply}


def retained(x, y):
    y.retain_grads()
    (y * 1.0).sum().backward()
    return [y.grad]


def retained_between(x, y):
    y.retain_grads()
    y.register_hook(lambda grad: grad * 3.0)
    (y * 1.0).sum().backward()
    return [y.grad]


def hooked_again(x, y):
    y.register_hook(lambda grad: grad * 3.0)
    y.retain_grads()
    (y * 1.0).sum().backward()
    return [y.grad]


def retained_where_one_is_asked_for(x, y):
    y.retain_grads()
    return [*paddle.grad([(y * 1.0).sum()], [x]), y.grad]


def two_backwards(x, y):
    y.retain_grads()
    (y * 1.0).sum().backward(retain_graph=True)
    first = y.grad.clone()
    ((y * 1.0).sum() + (y**2).sum()).backward()
    return [first, y.grad]


def second_order(x, y):
    first = paddle.grad([(y**2).sum()], [y, x], create_graph=True)
    return [*first, *paddle.grad([(first[0] ** 2).sum()], [x])]


PROGRAMS = {
    "backward": lambda x, y: (y * 1.0).sum().backward(),
    "backward from it": lambda x, y: y.backward(paddle.ones([2])),
    "retained": retained,
    "retained between hooks": retained_between,
    "retained behind two": hooked_again,
    "retained in a partial gradient": retained_where_one_is_asked_for,
    "two backwards": two_backwards,
    "asked for": lambda x, y: paddle.grad([(y * 1.0).sum()], [y]),
    "asked for through a view": lambda x, y: paddle.grad([y[0]], [y]),
    "asked for beside its operand": lambda x, y: paddle.grad([(y * 1.0).sum()], [y, x]),
    "asked for beside its operand, with a graph": lambda x, y: paddle.grad([(y**2).sum()], [x, y], create_graph=True),
    "its operand's": lambda x, y: paddle.grad([(y * 1.0).sum()], [x]),
    "by itself": lambda x, y: paddle.grad([y], [y]),
    "second order": second_order,
}


CASES = [
    (made, program)
    for made in MADE
    for program in PROGRAMS
    if (made, program) != ("a PyLayer", "two backwards")  # natively a second one through it ends the process
]


def run(made, program, answers):
    leaf = paddle.to_tensor([1.0, 2.0], stop_gradient=False)
    x = leaf * 1.0
    y, seen = MADE[made](x), []

    def hook(grad):
        seen.append(grad.tolist())
        return grad * 10.0 if answers else None

    y.register_hook(hook)
    results = PROGRAMS[program](x, y) or []
    return [None if tensor is None else tensor.tolist() for tensor in [*results, leaf.grad]], seen


@pytest.mark.parametrize("answers", [True, False])
@pytest.mark.parametrize(("made", "program"), CASES)
def test_own_gradients(made, program, answers):
    native = run(made, program, answers)
    with padiff_shim.reference("torch") as mode:
        assert run(made, program, answers) == native
    assert mode.substituted
