"""A bound that was learnt says what the quantity's own says; nothing is harmless of what has to be looked at."""

import functools
import types

import numpy as np
import pytest
import torch

from padiff_shim.catalogue.registry import ops
from padiff_shim.numerics import difference
from padiff_shim.numerics.bounds import Bound, BoundFormula, Learnt, Limit

DTYPES = (torch.float32, torch.float64)


def normal(*shape, seed=0, dtype=torch.float64):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape)).to(dtype)


def near(result, seed=1):
    """Some elements moved by up to three units in the last place, others not at all."""
    steps = np.random.default_rng(seed).integers(-3, 4, result.shape)
    unit = torch.finfo(result.dtype).eps
    return result * (1 + unit * torch.from_numpy(steps).to(result.dtype))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_nothing_is_harmless_of_what_has_to_be_looked_at(dtype):
    """NaN and infinities on either side, differences beyond the limit, sums that cancel."""

    def harmless(paddle, torch_, limit):
        with np.errstate(all="ignore"):
            whole = difference.differ(paddle, torch_, relative=False, harmless=limit)
        return whole.finite and whole.beyond <= 1.0

    result = normal(6, 40, dtype=dtype) + 3.0
    generous = Limit.of(torch.full((240,), 1e-4, dtype=dtype))
    assert harmless(near(result), result, generous)
    for bad in (float("nan"), float("inf"), -float("inf")):
        spoiled = near(result)
        spoiled[3, 7] = bad
        for actual, other in ((spoiled, result), (result, spoiled), (spoiled, spoiled)):
            assert not harmless(actual, other, generous)
    moved = near(result)
    moved[5, 39] += 2e-4
    assert not harmless(moved, result, generous)
    cancelled = Limit.of(torch.full((240,), 1.0, dtype=dtype))  # more than a part of the result
    assert not harmless(near(result), result, cancelled)
    assert not harmless(near(result), result, Limit.of(torch.zeros(240, dtype=dtype)))  # 0 / 0


def calls(dtype, seed):
    """(name, operand or "", arguments, incoming gradient, one kernel's result): all that have an a-priori bound of their own."""
    x, grad = normal(6, 5, 40, seed=seed, dtype=dtype), normal(6, 5, 40, seed=seed + 1, dtype=dtype)
    weight, bias = normal(40, seed=seed + 2, dtype=dtype), normal(40, seed=seed + 3, dtype=dtype)
    square, rows = normal(40, 40, seed=seed + 4, dtype=dtype), normal(5, 40, seed=seed + 5, dtype=dtype)
    several = normal(6, 40, 5, seed=seed + 6, dtype=dtype)
    values = normal(6, 1, 40, seed=seed + 7, dtype=dtype)
    products = [
        ("matmul", (x, several, False, False)),
        ("matmul", (x.mT.contiguous(), several, True, False)),
        ("matmul", (rows, square, False, True)),
        ("matmul", (x, square, False, False)),
        ("matmul", (values, square, False, False)),
        ("linear", (x, square, bias, False)),
        ("linear", (x, square, None, False)),
        ("addmm", (bias, rows, square, 0.5, 3.0)),
    ]
    others = [
        ("softmax", (x, -1)),
        ("softmax", (x, 1)),
        ("layer_norm", (x, weight, bias, 1e-5, 2)),
        ("layer_norm", (x, None, None, 1e-5, 1)),
        ("gelu", (x, False)),
        ("gelu", (x, True)),
        ("sum", (x, [0, 1], None, False)),
        ("mean", (x, None, False)),
        ("add", (x, weight)),
        ("multiply", (x, weight)),
        ("exp", (x.clamp(max=10.0),)),
    ]
    for name, arguments in products + others:
        op = ops()[name]
        result = op.reference(*arguments)
        incoming = normal(*result.shape, seed=seed + 8, dtype=dtype)
        yield name, "", arguments, None, result
        for operand, value in zip(op.names, arguments, strict=False):
            if isinstance(value, torch.Tensor):
                yield name, operand, arguments, incoming, value + grad[0, 0, 0]


def quantity_of(name, operand, arguments, grad, result):
    model = ops()[name].model
    return model.gradient(operand, arguments, ops()[name].reference(*arguments), grad) if operand else model.forward(arguments)


def of_call(arguments, grad):
    return arguments if grad is None else (*arguments, grad)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_bound_that_was_learnt_is_that_of_the_other_call(dtype):
    learnt_of = []
    for first, second in zip(calls(dtype, 0), calls(dtype, 100), strict=True):
        (name, operand, arguments, grad, _), (*_, others, other_grad, result) = first, second
        bound = quantity_of(*first).harmless
        learnt = bound.among(of_call(arguments, grad)) if isinstance(bound, Bound) else None
        if learnt is None:
            continue
        learnt_bound, own = learnt.of(result, of_call(others, other_grad)), quantity_of(*second).harmless(result)
        assert (learnt_bound is None) == (own is None), (name, operand)
        if own is not None:
            learnt_of.append((name, operand))
            assert torch.equal(learnt_bound.whole(), own.whole()), (name, operand)
            assert (learnt_bound.usual, learnt_bound.relative) == (own.usual, own.relative)
    for name in ("matmul", "linear", "addmm", "softmax", "layer_norm", "gelu", "sum"):
        assert (name, "") in learnt_of
    assert {("linear", "x"), ("linear", "weight"), ("linear", "bias"), ("layer_norm", "scale"), ("layer_norm", "x")} <= {*learnt_of}


def test_what_was_learnt_holds_no_tensor_of_the_call():
    """It outlives the call; a tensor that it kept would be taken for the next call's."""

    def reached(values):
        assert not isinstance(values, torch.Tensor)
        if isinstance(values, functools.partial):
            inner = [values.func, values.args, *values.keywords.values()]
        elif isinstance(values, types.FunctionType):
            inner = [*(cell.cell_contents for cell in values.__closure__ or ()), *(values.__defaults__ or ())]
        elif isinstance(values, (Learnt, BoundFormula)):
            inner = [getattr(values, name) for kind in type(values).__mro__ for name in getattr(kind, "__slots__", ())]
        else:
            inner = list(values) if isinstance(values, (list, tuple)) else []
        for each in inner:
            reached(each)

    count = 0
    for call in calls(torch.float32, 0):
        bound = quantity_of(*call).harmless
        learnt = bound.among(of_call(call[2], call[3])) if isinstance(bound, Bound) else None
        if learnt is not None:
            count += 1
            reached(learnt)
    assert count > 25


def test_a_tensor_that_is_two_operands_teaches_nothing():
    """Which of them the bound reads cannot be told, and another call may have two."""
    x = normal(40, 40)
    bound = ops()["matmul"].model.forward((x, x, False, False)).harmless
    assert bound.among((x, x, False, False)) is None
    assert bound.among((x, x.clone(), False, False)) is not None
    assert bound.among((x.clone(), False, False)) is None
