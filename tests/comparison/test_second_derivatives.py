"""Second derivatives of a call are judged as its gradients are, and counted where they cannot be."""

import gc

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
import torch
from noninterference import harmed

import padiff_shim
from padiff_shim.catalogue.defects import defects
from padiff_shim.comparison.compared_call import ComparedCall
from padiff_shim.frameworks.versions import IS_3
from padiff_shim.runlog.counts import SECOND_UNCHECKED, THIRD_UNCHECKED

pytestmark = pytest.mark.skipif(not IS_3, reason="Paddle 2.6 shows no node to a hook")


def tensor(*shape, seed=0, grad=True):
    leaf = paddle.to_tensor(np.random.default_rng(seed).standard_normal(shape).astype("float32"))
    leaf.stop_gradient = not grad
    return leaf


def penalty(function, *operands, ask=None):
    """A gradient penalty by the operands ``ask``; through the incoming gradient, too, which depends on the result."""
    y = function(*operands)
    grads = paddle.grad([(y * y).sum()], list(ask or operands), create_graph=True)
    sum((grad * grad).sum() for grad in grads).backward()


def seconds(run):
    return {
        (call.op, call.tensor): (str(call.verdict), str(call.side), call.hypothesis)
        for call in run.calls
        if "second:" in call.tensor
    }


def batch_norm(x, weight, bias):
    return F.batch_norm(x, paddle.zeros([3]), paddle.ones([3]), weight, bias, training=True)


# Function, shapes of its operands, and the names of what second derivatives are taken by.
RIGHT = {
    "matmul": (paddle.matmul, [(2, 3), (3, 4)], "x y grad"),
    "tanh": (paddle.tanh, [(5,)], "x grad"),
    "multiply": (paddle.multiply, [(5,), (5,)], "x y grad"),
    "conv2d": (F.conv2d, [(1, 2, 5, 5), (3, 2, 3, 3)], "x weight grad"),
    "conv3d": (F.conv3d, [(1, 2, 4, 4, 4), (3, 2, 3, 3, 3)], "x weight grad"),
    "linear": (F.linear, [(2, 3), (3, 4), (4,)], "x weight grad"),  # of two nodes
    "batch_norm": (batch_norm, [(6, 3), (3,), (3,)], "x scale grad"),  # writes its statistics
    "mse_loss": (F.mse_loss, [(4,), (4,)], "input label grad"),  # of several nodes
    "conv1d": (F.conv1d, [(1, 2, 5), (3, 2, 3)], "x weight grad"),
}


@pytest.mark.rows(9)
@pytest.mark.parametrize("carry", ["native", "torch"])
@pytest.mark.parametrize("name", RIGHT)
def test_right_ones_are_cleared(name, carry):
    function, shapes, names = RIGHT[name]
    operands = [tensor(*shape, seed=seed) for seed, shape in enumerate(shapes)]
    with padiff_shim.compare("torch", audit=1, carry=carry) as run:
        penalty(function, *operands)
    judged = {tensor: verdict for (op, tensor), verdict in seconds(run).items() if op == name}
    assert set(judged) == {f"second:{tensor}" for tensor in names.split()}, run.coverage()
    assert {verdict for verdict, *_ in judged.values()} <= {"EQUAL", "ROUNDING"}, judged
    assert not run.by_line()


@pytest.mark.parametrize("audit", [1, 16])
@pytest.mark.parametrize(("convolution", "shapes"), [(F.conv1d, [(1, 2, 5), (3, 2, 3)]), (F.conv2d, [(1, 2, 5, 5), (3, 2, 3, 3)])])
@pytest.mark.skipif("3.3.1" not in paddle.__version__, reason="a defect of this Paddle")
def test_a_lost_one_is_accused_and_named(convolution, shapes, audit):
    """Where the weight's gradient alone is asked for; with the gradient of x it is right."""
    x, weight = tensor(*shapes[0], grad=False), tensor(*shapes[1], seed=1)
    with padiff_shim.compare("torch", audit=audit) as run:
        penalty(convolution, x, weight, ask=[weight])
    name = convolution.__name__
    assert seconds(run)[name, "second:grad"] == ("SEMANTICS", "paddle", "no-second-derivative")
    assert run.by_line()[0].worst["op"] == name
    assert name in run.answer
    with padiff_shim.compare("torch", audit=audit) as run:
        penalty(convolution, tensor(*shapes[0]), weight)
    assert not run.by_line()


@pytest.mark.skipif("3.3.1" not in paddle.__version__, reason="defects of this Paddle")
@pytest.mark.parametrize(
    "name", ["conv1d and conv2d lose second derivatives of the weight alone", "pad puts its value into the second derivative"]
)
def test_programs_of_defects_are_accused(name):
    """Also by paddle.grad, whose engine does not come to a node that leads nowhere."""
    for title, program in defects()[name].programs():
        with padiff_shim.compare("torch") as run, pytest.raises(AssertionError):
            exec(compile(program, title, "exec"), {"__name__": "__main__"})
        assert [(finding.worst["tensor"], finding.worst["side"]) for finding in run.by_line()] == [("second:grad", "paddle")], title


def test_what_is_not_judged_is_counted():
    """Nodes over lists take no hook; of a third derivative nothing is seen."""
    x, y = tensor(3), tensor(3, seed=1)
    with padiff_shim.compare("torch") as run:
        penalty(lambda *operands: paddle.concat(list(operands)), x, y)
    assert run.coverage()["unchecked_ops"] == {"concat": {SECOND_UNCHECKED: 1}}
    assert "second derivative" in run.answer
    with padiff_shim.compare("torch") as run:
        (first,) = paddle.grad([paddle.tanh(x).sum()], [x], create_graph=True)
        (second,) = paddle.grad([first.sum()], [x], create_graph=True)
        second.sum().backward()
    assert THIRD_UNCHECKED in run.coverage()["unchecked"]
    assert not run.by_line()


@pytest.mark.parametrize("name", RIGHT)
def test_the_program_keeps_its_bits(name):
    function, shapes, _ = RIGHT[name]
    operands = [tensor(*shape, seed=seed) for seed, shape in enumerate(shapes)]

    def program():
        for operand in operands:
            operand.clear_gradient()
        penalty(function, *operands)
        return [operand.grad for operand in operands]

    assert not harmed(program)[0]


def test_nothing_is_held_when_the_program_has_let_go():
    weight = tensor(3, 2, 3, 3, seed=1)

    def step():
        with padiff_shim.compare("torch"):
            penalty(F.conv2d, tensor(1, 2, 5, 5), weight)
        weight.clear_gradient()

    def held():
        gc.collect()
        return sum(type(thing) is ComparedCall for thing in gc.get_objects())

    step()
    before = held()
    for _ in range(3):
        step()
    assert held() <= before


class Penalty(paddle.nn.Layer):
    """A penalty on the gradient of a convolution's weight alone."""

    def __init__(self):
        super().__init__()
        self.conv = paddle.nn.Conv2D(4, 6, 3, padding=1)

    def forward(self, x):
        (grad,) = paddle.grad(self.conv(x).square().sum(), self.conv.weight, create_graph=True)
        return (grad**2).sum()


class TorchPenalty(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(4, 6, 3, padding=1)

    def forward(self, x):
        (grad,) = torch.autograd.grad(self.conv(x).square().sum(), self.conv.weight, create_graph=True)
        return (grad**2).sum()


@pytest.mark.skipif("3.3.1" not in paddle.__version__, reason="a defect of this Paddle")
def test_a_proof_names_what_is_wrong_natively():
    """And no difference of the kernels, of which nobody is wrong."""
    x = np.random.default_rng(0).standard_normal((1, 4, 6, 6)).astype("float32")
    proof = padiff_shim.prove(Penalty(), TorchPenalty(), x)
    assert str(proof.verdict) == "CODE_CORRECT"
    assert proof.reason.endswith(": conv2d")
