"""Several results of one formula are measured by the same runs, each with the sums of its own steps."""

import numpy as np
import paddle
import pytest
import torch

import padiff_shim
from padiff_shim import testing
from padiff_shim.numerics import measured as measured_bounds
from padiff_shim.numerics.generic import fallback
from padiff_shim.numerics.measured import Formula, JointFormula, JointResult, Traces

ROWS, COLUMNS = 60, 5


def operands():
    random = np.random.default_rng(0)
    return [torch.from_numpy(random.standard_normal(shape, dtype=np.float32)) for shape in ((ROWS, COLUMNS), (COLUMNS,))]


class Counted:
    """The gradients of tanh(x + b): of one operand element by element, of the other summed over the rows."""

    def __init__(self):
        self.runs = []

    def __call__(self, x, b, *, chosen):
        self.runs.append(list(chosen))
        leaves = [x.detach().requires_grad_(), b.detach().requires_grad_()]
        with torch.enable_grad():
            out = torch.tanh(leaves[0] + leaves[1])
            return list(torch.autograd.grad(out, [leaves[index] for index in chosen], torch.ones_like(out)))


def parts(traces=None):
    formula, operands_ = Counted(), operands()
    shared = JointFormula(formula, operands_, [0, 1], sum(operand.numel() for operand in operands_), traces=traces)
    return formula, operands_, [JointResult(shared, index) for index in range(2)]


def measured(part, operands_):
    measure = Formula.of(part, operands_, torch.float32, 3)
    measure.probe(3)
    return measure


def test_the_formula_is_asked_twice_for_all_results():
    """For their values, and for its steps: of these all moved runs are made."""
    formula, operands_, kernels = parts()
    first, second = (measured(kernel, operands_) for kernel in kernels)
    assert formula.runs == [[0, 1], [0, 1]]
    assert (first.k, second.k) == (1, ROWS), "each has the sums of its own steps"


def test_in_later_calls_of_its_kind_once():
    traces = Traces()
    _, before, kernels = parts(traces)
    measured(kernels[0], before)
    formula, now, kernels = parts(traces)
    first, second = (measured(kernel, now) for kernel in kernels)
    assert formula.runs == [[0, 1]]
    assert (first.k, second.k) == (1, ROWS)


@pytest.mark.parametrize("index", [0, 1])
def test_the_bound_is_that_of_one_result(index, monkeypatch):
    _, operands_, kernels = parts()
    ours = measured(kernels[index], operands_)
    monkeypatch.setattr(measured_bounds, "LARGEST", 0)
    formula, operands_, kernels = parts()
    single = measured(kernels[index], operands_)
    assert [0, 1] not in formula.runs
    assert torch.equal(ours.value, single.value)
    assert ours.k == single.k
    ratio = ours._moved("step").mean() / single._moved("step").mean()
    assert 0.5 < ratio < 2


def test_other_operands_are_run_alone():
    formula, operands_, kernels = parts()
    measured(kernels[0], [operand.clone() for operand in operands_])
    assert [0, 1] not in formula.runs


def test_both_are_judged():
    formula, operands_, kernels = parts()
    exact = formula(*(operand.double() for operand in operands_), chosen=[0, 1])
    for kernel, value in zip(kernels, exact):
        right = value.float()
        wrong = right.clone()
        wrong.view(-1)[3] *= 1.001
        options = {"paddle_kernel": None, "operands": operands_, "rng": np.random.default_rng(0)}
        verdict = fallback(wrong, right, torch_kernel=kernel, **options)
        assert str(verdict.verdict) in ("WRONG", "LOCAL_WRONG")
        assert str(verdict.side) == "paddle"
        near = torch.nextafter(right, torch.full_like(right, 9.0))
        assert fallback(near, right, torch_kernel=kernel, **options).verdict == "ROUNDING"


def recurrent():
    paddle.seed(0)
    return paddle.nn.LSTM(4, 6), paddle.randn([2, 5, 4])


def test_gradients_of_a_recurrent_layer():
    layer, x = recurrent()
    with padiff_shim.compare("torch", audit=1) as run:
        layer(x)[0].square().sum().backward()
    calls = list(run.calls.filter(op="rnn", phase="backward"))
    assert len(calls) == 4
    assert {str(operand.verdict) for operand in calls} <= {"EQUAL", "ROUNDING"}


@pytest.mark.parametrize("side", ["paddle", "torch"])
def test_a_fault_in_one_of_them_is_found_there(side):
    layer, x = recurrent()
    with testing.planted("rnn", lambda grad, *_: grad * 1.01, side=side, gradients=True), padiff_shim.compare("torch") as run:
        layer(x)[0].square().sum().backward()
    calls = {(str(operand.verdict), str(operand.side)) for operand in run.calls.filter(op="rnn", phase="backward")}
    assert calls == {("WRONG", side)}
