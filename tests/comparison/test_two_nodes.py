"""A Linear with bias is two nodes in Paddle and one in Torch: each node is judged by the gradient that comes to it."""

import numpy as np
import paddle
import pytest

import padiff_shim
from padiff_shim.frameworks.versions import NODE_HOOKS
from padiff_shim.verdicts import Verdict

pytestmark = pytest.mark.compat
F = paddle.nn.functional


def leaves(seed=0, wants=(True, True, True)):
    random = np.random.default_rng(seed)
    shapes = (6, 32), (32, 32), (32,)
    return [
        paddle.to_tensor(random.standard_normal(shape).astype("float32"), stop_gradient=not want)
        for shape, want in zip(shapes, wants, strict=True)
    ]


def once(x, weight, bias):
    F.linear(x, weight, bias).square().sum().backward()


def twice(x, weight, bias):
    """Two backwards through one graph, with other gradients."""
    out = F.linear(x, weight, bias)
    (out * 2.0).sum().backward(retain_graph=True)
    (out * out).sum().backward()


def apart(x, weight, bias):
    """Of the bias alone first, whose node runs then without the other one."""
    out = F.linear(x, weight, bias)
    paddle.grad(out.sum(), bias, retain_graph=True)
    paddle.grad((out * 3.0).sum(), [x, weight], retain_graph=True)
    (out * out).sum().backward()


def chained(x, weight, bias):
    out = F.linear(F.linear(x, weight, bias), weight, bias)
    paddle.grad((out * out).sum(), x, create_graph=True)[0].sum().backward()


def records(program, wants=(True, True, True), **options):
    with padiff_shim.compare("torch", progress=False, linear_layout="copy", **options) as run:
        for step in range(3):
            program(*leaves(step, wants))
    return [call.to_dict() for call in run.calls]


@pytest.mark.rows(8)
@pytest.mark.parametrize("options", [{}, {"carry": "torch"}, {"screening": True}], ids=str)
@pytest.mark.parametrize("wants", [(True, True, True), (False, True, True), (True, False, True), (True, True, False)], ids=str)
@pytest.mark.parametrize("program", [once, twice])
def test_all_gradients_that_are_wanted_are_judged(program, wants, options):
    calls = [record for record in records(program, wants, **options) if record["op"] == "linear"]
    gradients = {record["tensor"] for record in calls if record["phase"] == "backward"}
    assert gradients == {f"grad:{name}" for name, want in zip(("x", "weight", "bias"), wants, strict=True) if want}
    assert {record["verdict"] for record in calls} <= {"EQUAL", "ROUNDING"}


@pytest.mark.parametrize("program", [apart, chained])
def test_nodes_that_run_alone_are_judged_by_their_own_gradient(program):
    seen = [record for record in records(program) if NODE_HOOKS or "a node that cannot be hooked" not in record["reason"]]
    assert {record["verdict"] for record in seen} == {"EQUAL", "ROUNDING"}


@pytest.mark.parametrize("layout", ["copy", "view", "contiguous"])
def test_a_weight_that_is_written_between_the_nodes_is_not_paddles_fault(layout):
    """A hook of the bias may run before the product's node, which natively reads what the hook left in the weight."""

    def program():
        x, weight, bias = leaves()
        bias.register_hook(lambda grad: weight.set_value(np.full((32, 32), 0.5, "float32")))
        once(x, weight, bias)
        return [leaf.grad.numpy() for leaf in (x, weight, bias)]

    expected = program()
    with padiff_shim.compare("torch", linear_layout=layout, progress=False) as run:
        results = program()
    assert all(np.array_equal(*pair) for pair in zip(results, expected, strict=True))
    assert all(call.verdict.severity <= Verdict.UNVERIFIED.severity for call in run.calls)
