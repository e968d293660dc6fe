"""A place's a-priori bound is learnt once: its records are those of a run that makes every quantity anew, also where the world
changes."""

import numpy as np
import paddle
import pytest
import torch

import padiff_shim
from padiff_shim.comparison import compared_call, judge
from padiff_shim.testing import planted
from padiff_shim.verdicts import Verdict

pytestmark = pytest.mark.compat
STEPS = 8


class Noise:
    """Some elements of Torch's result moved by a unit in the last place, in each call others; from ``begins`` on one by more."""

    def __init__(self, begins=None):
        self.random, self.begins, self.calls = np.random.default_rng(0), begins, 0

    def __call__(self, out, *values):
        self.calls += 1
        up = torch.from_numpy(np.asarray(self.random.random(tuple(out.shape)) < 0.3))
        result = torch.where(up, torch.nextafter(out, torch.full_like(out, torch.inf)), out)
        if self.begins is not None and self.calls > self.begins:
            result.view(-1)[0] += 1e-3 * out.abs().max()
        return result


def tensor(random, *shape, wants=True):
    result = paddle.to_tensor(random.standard_normal(shape).astype("float32"))
    result.stop_gradient = not wants
    return result


def network(random):
    """Products, a normalisation, a softmax and a GELU, on values of their own in every step."""
    x, weight, bias = tensor(random, 4, 6, 32), tensor(random, 32, 32), tensor(random, 32)
    scale = tensor(random, 32)
    h = paddle.nn.functional.gelu(paddle.nn.functional.linear(x, weight, bias))
    h = paddle.nn.functional.layer_norm(h, [32], scale, bias)
    return (paddle.nn.functional.softmax(paddle.matmul(h * 0.1, h, transpose_y=True), -1) @ h).square().mean()


def program(random, step):
    network(random).backward()


def twins(random, step):
    """One line whose operands are one tensor in the first steps, and two later on."""
    x = tensor(random, 16, 16)
    y = x if step < STEPS // 2 else tensor(random, 16, 16) * 1e3
    paddle.matmul(x, y).sum().backward()


def partly(random, step):
    """One line in which a parameter wants a gradient now and then, and in which the layout of the incoming gradient changes."""
    x, weight = tensor(random, 16, 16, wants=step % 3 != 1), tensor(random, 16, 16)
    out = paddle.matmul(x, weight)
    (out if step % 2 else out.t()).multiply(tensor(random, 16, 16, wants=False)).sum().backward()


def several(random, step):
    """An op of two results, of which one or both get a gradient."""
    x = tensor(random, 8, 32)
    values, _ = paddle.topk(x, 3)
    (values.sum() + paddle.logsumexp(x * (step + 1))).backward()


NOISY = ("matmul", "linear", "layer_norm", "softmax", "gelu")


def records(program, *, steps=STEPS, begins=None, **options):
    random = np.random.default_rng(1)
    # Of a shape that came often another layout of the weight is found out, once a process: not the question here.
    with padiff_shim.compare("torch", linear_layout="copy", progress=False, **options) as run:
        faults = [planted(name, Noise(begins), side="torch") for name in NOISY]
        for fault in faults:
            fault.__enter__()
        try:
            for step in range(steps):
                program(random, step)
        finally:
            for fault in reversed(faults):
                fault.__exit__(None, None, None)
    return [call.to_dict() for call in run.calls]


@pytest.mark.parametrize("options", [{}, {"screening": True}, {"defer": True}, {"audit": 0}, {"audit": 2}], ids=str)
@pytest.mark.parametrize("program", [program, twins, partly, several])
def test_records_are_those_of_quantities_made_anew(program, options, monkeypatch):
    calls = records(program, **options)
    monkeypatch.setattr(judge.Judge, "_harmless", lambda self, case, sides: None)
    assert calls == records(program, **options)
    assert any("needs no oracle" in record["reason"] for record in calls) or program is several


def test_a_place_that_was_learnt_makes_no_quantity(monkeypatch):
    """The last step asks for those of differences that no a-priori bound explains, and for no other."""
    made = []
    quantities = compared_call.Result.quantity, compared_call.Gradient.quantity
    for case, quantity in zip((compared_call.Result, compared_call.Gradient), quantities, strict=True):
        monkeypatch.setattr(case, "quantity", lambda self, quantity=quantity: made.append(self) or quantity(self))

    def counted(random, step):
        made.clear()
        network(random).backward()

    calls = records(counted, audit=0)
    last = calls[-len(calls) // STEPS :]
    explained = ["needs no oracle" in record["reason"] for record in last]
    assert sum(explained) > 5
    assert len(made) == sum(record["verdict"] != "EQUAL" and not why for record, why in zip(last, explained, strict=True))


def test_a_fault_that_begins_behind_what_was_learnt_is_found_at_once():
    """At its first call, in the forward and in gradients."""
    calls = records(program, begins=5)
    serious = [record for record in calls if Verdict(record["verdict"]).severity > Verdict.UNVERIFIED.severity]
    assert serious
    first = min(record["index"] for record in serious)
    learnt = [record["index"] for record in calls if "needs no oracle" in record["reason"]]
    assert len([index for index in learnt if index < first]) > 5
    fresh = records(program, begins=5, audit=1)
    assert first == min(r["index"] for r in fresh if Verdict(r["verdict"]).severity > Verdict.UNVERIFIED.severity)
