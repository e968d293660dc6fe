"""Ops with several results, with operands that they overwrite, and doors behind which there are many nodes."""

import functools

import numpy as np
import paddle
import paddle.nn.functional as F
import pytest
import torch
from helpers import same

import padiff_shim
from padiff_shim.dispatch.entry_point import EntryPoint
from padiff_shim.dispatch.frames import paused, top
from padiff_shim.frameworks.versions import NODE_HOOKS
from padiff_shim.table.op import Entry, Op
from padiff_shim.verdicts import HARD, Verdict

pytestmark = pytest.mark.compat


def door(original, reference, params, *, tensors=1, python=False, **more):
    """A door to an op that is in no table; what it calls inside is not seen a second time."""

    @functools.wraps(original)
    def hidden(*args, **kwargs):
        with paused():
            return original(*args, **kwargs)

    target = "paddle.an_op"
    op = Op("an_op", reference, params, (Entry(target, params),), tensors=tensors, promote="none", **more)
    made = EntryPoint(op, op.entries[0], hidden, python=python)

    def call(*args):
        frame = top()
        return hidden(*args) if frame is None else frame.plan.call(made, frame, made.bind(args, {}), args, {})

    return call


def randn(*shape, seed=0, grad=True):
    tensor = paddle.to_tensor(np.random.default_rng(seed).standard_normal(shape).astype("float32"))
    tensor.stop_gradient = not grad
    return tensor


def calls(run, **what):
    return [call for call in run.calls.filter(**what) if call.op == "an_op"]


def verdicts(run, **what):
    return {call.tensor: call.verdict for call in calls(run, **what)}


def topk(values=lambda part: part, places=lambda part: part):
    def reference(x, k, axis):
        result = torch.topk(x, k, axis)
        return values(result[0]), places(result[1])

    return door(lambda x, k, axis: paddle._C_ops.topk(x, k, axis, True, True), reference, "x k axis", integer=True)


def test_each_result_and_the_gradient_through_the_first_are_judged():
    op, x = topk(), randn(4, 9)
    with padiff_shim.compare("torch") as run:
        values, places = op(x, 1, 1)
        values.sum().backward()
    assert verdicts(run, phase="forward") == {"out": Verdict.EQUAL, "out[1]": Verdict.EQUAL}
    assert list(verdicts(run, phase="backward")) == ["grad:x"]
    assert not any(call.verdict in HARD for call in run.calls), run.calls
    assert run.coverage()["float_calls"] == 2, "a call with two results is one call"
    assert places.shape == [4, 1]


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_an_index_of_another_value_is_wrong(axis):
    x = randn(6, 6, grad=False)
    with padiff_shim.compare("torch") as run:
        topk(places=lambda positions: (positions + 1) % 6)(x, 1, axis)
    assert verdicts(run)["out[1]"] is Verdict.WRONG


def test_where_all_values_tie_any_index_is_right():
    x = paddle.ones([4, 5])
    with padiff_shim.compare("torch") as run:
        topk(places=lambda positions: (positions + 1) % 5)(x, 1, 1)
    (call,) = [call for call in calls(run) if call.tensor == "out[1]"]
    assert call.verdict is Verdict.TIE


def test_the_gradients_of_all_results_come_in_even_if_some_are_absent():
    op = door(paddle._C_ops.unbind, lambda x, axis: list(torch.unbind(x, axis)), "x axis")
    x = randn(3, 4)
    with padiff_shim.compare("torch") as run:
        values, _, other = op(x, 0)
        (values * 2 + other.square()).sum().backward()
    assert verdicts(run) == {"out": Verdict.EQUAL, "out[1]": Verdict.EQUAL, "out[2]": Verdict.EQUAL, "grad:x": Verdict.EQUAL}
    wrong = door(paddle._C_ops.unbind, lambda x, axis: list(torch.unbind(x * 2 - x.detach(), axis)), "x axis")
    x.clear_gradient()
    with padiff_shim.compare("torch") as run:
        values, _, other = wrong(x, 0)
        (values + other).sum().backward()
    assert verdicts(run)["grad:x"].severity > Verdict.UNVERIFIED.severity


def statistics(x, mean, variance, scale, bias, momentum):
    axes = (0, 2, 3)
    own, spread = x.detach().mean(axes), x.detach().var(axes, unbiased=False)
    out = torch.nn.functional.batch_norm(x, None, None, scale, bias, True, 0.1, 1e-5)
    return out, mean * momentum + own * (1 - momentum), variance * momentum + spread * (1 - momentum), own, None, None


def batch_norm(reference=statistics):
    def original(x, mean, variance, scale, bias, momentum):
        return paddle._C_ops.batch_norm(x, mean, variance, scale, bias, False, momentum, 1e-5, "NCHW", False, False)

    params = "x mean variance scale bias momentum"
    return door(original, reference, params, tensors=5, writes={1: "mean", 2: "variance"})


def test_what_an_op_overwrites_is_compared_with_the_values_before():
    def train(op):
        x, scale, bias = randn(4, 3, 5, 5), randn(3, seed=1), randn(3, seed=2)
        mean, variance = paddle.zeros([3]), paddle.ones([3])
        for _ in range(3):
            out = op(x, mean, variance, scale, bias, 0.9)[0]
            out.square().sum().backward()
        return [tensor.numpy() for tensor in (out, mean, variance, x.grad, scale.grad, bias.grad)]

    native = train(batch_norm())
    with padiff_shim.compare("torch") as run:
        compared = train(batch_norm())
    assert all(same(result, other) for result, other in zip(native, compared))
    assert set(verdicts(run)) == {"out", "out[1]", "out[2]", "out[3]", "grad:x", "grad:scale", "grad:bias"}
    assert not any(call.verdict in HARD for call in run.calls), [(call.tensor, call.reason) for call in run.calls]
    with padiff_shim.compare("torch") as run:
        train(batch_norm(lambda x, *rest: statistics(x, *rest[:-1], 1 - rest[-1])))
    assert {name for name, verdict in verdicts(run).items() if verdict.severity > 2} == {"out[1]", "out[2]"}


def convolution(x, weight, bias):
    return torch.nn.functional.conv2d(x, weight, bias)


@pytest.mark.parametrize("carry", ["native", "torch"])
def test_behind_a_function_there_may_be_many_nodes(carry):
    op = door(lambda x, weight, bias: F.conv2d(x, weight, bias), convolution, "x weight bias", tensors=3, python=True)

    def program():
        x, weight, bias = randn(2, 3, 6, 6), randn(4, 3, 3, 3, seed=1), randn(4, seed=2)
        (op(x, weight, bias).square().sum() + x.sum()).backward()
        return [leaf.grad.numpy() for leaf in (x, weight, bias)]

    native = program()
    with padiff_shim.compare("torch", carry=carry) as run:
        compared = program()
    judged = verdicts(run, phase="backward")
    assert set(judged) == {"grad:x", "grad:weight", "grad:bias"}
    assert all(call.stats for call in calls(run, phase="backward")), "both sides' gradients were held against each other"
    assert not any(verdict in HARD for verdict in judged.values())
    if carry == "native":
        assert all(same(result, other) for result, other in zip(native, compared))


def test_a_function_whose_last_node_has_as_many_gradients_as_operands_is_not_mistaken_for_it():
    op = door(lambda x: paddle.exp(x * 2), lambda x: torch.exp(x * 2), "x", python=True)
    x = randn(5)
    with padiff_shim.compare("torch") as run:
        op(x).sum().backward()
    (gradient,) = calls(run, phase="backward")
    assert gradient.verdict not in HARD
    assert gradient.stats["max_abs"] < 1e-4


@pytest.mark.skipif(not NODE_HOOKS, reason="this Paddle has no hooks on nodes")
def test_a_function_that_makes_one_node_is_hooked_and_not_made_again():
    made = []

    def original(x, weight):
        made.append(1)
        return F.conv2d(x, weight)

    op = door(original, lambda x, weight: convolution(x, weight, None), "x weight", tensors=2, python=True)
    x, weight = randn(2, 3, 6, 6), randn(4, 3, 3, 3, seed=1)
    with padiff_shim.compare("torch") as run:
        loss = (op(x, weight) * 2).sum()
        before = len(made)
    loss.backward()
    assert len(made) == before, "hooks need no mode and no second call"
    assert set(verdicts(run, phase="backward")) == {"grad:x", "grad:weight"}


def test_other_numbers_of_results_are_no_comparison():
    op = door(lambda x: x * 2, lambda x: (x * 2, x), "x", python=True)
    with padiff_shim.compare("torch") as run:
        op(randn(3))
    assert not len(run.calls)
    assert "Paddle gives 1 result, Torch's formula 2" in run.coverage()["unchecked"]


def test_results_that_nobody_reads_are_not_judged():
    """In evaluation BatchNorm's kernel leaves whatever lay in memory in the statistics that its backward would read."""
    layer = paddle.nn.BatchNorm1D(3)
    layer.eval()
    with padiff_shim.compare("torch", audit=1) as run:
        for seed in range(5):
            layer(randn(4, 3, 5, seed=seed))
    assert {call.tensor for call in run.calls} == {"out", "mean_out", "variance_out"}
    assert not run.by_line()


def test_ops_that_only_move_values_are_compared_or_left_out_by_name():
    with padiff_shim.compare("torch", audit=1) as run:
        paddle.concat([randn(3, 4), randn(3, 4, seed=1)]).sum().backward()
    assert {call.tensor for call in run.calls.filter(op="concat")} == {"out", "grad:x[0]", "grad:x[1]"}
    assert {call.verdict for call in run.calls.filter(op="concat")} == {Verdict.EQUAL}
    with padiff_shim.compare("torch", exact=False) as run:
        paddle.concat([randn(3, 4), randn(3, 4)])
    assert not run.calls.filter(op="concat")
    assert run.native == {"concat": {"not compared: exact=False": 1}}


def test_eigenvectors_of_another_sign_are_nobodys_fault():
    """Which sign a vector has, a kernel chooses; they are compared all the same."""
    x = randn(4, 4)
    with padiff_shim.compare("torch", audit=1) as run:
        paddle.linalg.eigh(x + x.t())
        paddle.linalg.svd(x)
    judged = {(call.op, call.tensor) for call in run.calls.filter(op=("eigh", "svd"))}
    assert judged == {("eigh", "values"), ("eigh", "vectors"), ("svd", "u"), ("svd", "s"), ("svd", "vh")}
    assert not run.by_line()
