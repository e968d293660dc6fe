"""The a-priori bounds that NumPy makes for small tensors are those that Torch makes of any."""

import numpy as np
import pytest
import torch
from test_glance import DTYPES, calls, near, normal, of_call, quantity_of

from padiff_shim import numerics
from padiff_shim.catalogue.registry import ops
from padiff_shim.numerics import bounds, difference
from padiff_shim.verdicts import Verdict


def learnt_of(call):
    """What one call of a place teaches, if its bound says something."""
    _, _, arguments, grad, result = call
    bound = quantity_of(*call).harmless
    learnt = bound.among(of_call(arguments, grad), result) if isinstance(bound, bounds.Bound) else None
    return None if learnt is None or bound(result) is None else learnt


def arrays_of(arguments):
    return lambda place: bounds.array(arguments[place])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("scale", [1.0, 1e-12, 1e6])
def test_they_are_those_of_any_tensor(dtype, scale):
    """Of a call after the one that was learnt from, also where operands lie otherwise."""
    reasons = set()
    for first, second in zip(calls(dtype, 0), calls(dtype, 100), strict=True):
        learnt = learnt_of(first)
        if learnt is None:
            continue
        name, operand, arguments, grad, result = second
        assert learnt.small, (name, operand)
        own = [operand * scale if isinstance(operand, torch.Tensor) else operand for operand in of_call(arguments, grad)]
        turned = [
            operand.mT.contiguous().mT if isinstance(operand, torch.Tensor) and operand.ndim > 1 else operand for operand in own
        ]
        for tensors in (own, turned):
            limit = learnt.of(result, tensors)
            relative, bound, usual = learnt.near(result.numpy(), arrays_of(tensors))
            assert usual == limit.usual, (name, operand)
            if bound is None:
                assert relative == limit.relative > 0, (name, operand)
                continue
            reasons.add((name, operand))
            assert bound.dtype == bounds.array(result).dtype, (name, operand)
            np.testing.assert_allclose(bound, limit.whole().numpy(), rtol=1e-5, err_msg=f"{name} {operand}")
    forward = {(name, "") for name in ("matmul", "linear", "addmm", "softmax", "layer_norm", "gelu", "sum", "mean")}
    backward = {("linear", "x"), ("linear", "weight"), ("linear", "bias"), ("layer_norm", "scale"), ("layer_norm", "bias")}
    assert forward | backward | {("layer_norm", "x"), ("softmax", "x"), ("gelu", "x"), ("add", "y"), ("matmul", "y")} <= reasons


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_glance_by_them_gives_the_figures_of_any_glance(dtype):
    seen = 0
    for call in calls(dtype, 0):
        learnt, (*_, arguments, grad, result) = learnt_of(call), call
        if learnt is None:
            continue
        tensors = of_call(arguments, grad)
        with np.errstate(all="ignore"):
            for paddle in (near(result), near(result).mT.contiguous().mT if result.ndim > 1 else near(result, 2)):
                wanted = difference.quick_compare(paddle, result, learnt.of(result, tensors))
                quick = difference.quick_compare_small(paddle, result, learnt, arrays_of(tensors))
                assert (quick is None) == (wanted is None), call[:2]
                if quick is not None:
                    seen += 1
                    assert quick[0] == wanted[0], call[:2]
                    assert quick[1] == pytest.approx(wanted[1], rel=1e-5)
    assert seen > 20


def test_what_is_not_small_or_of_another_dtype_is_left_to_torch():
    def learnt(x, y):
        result = torch.matmul(x.to(torch.float32), y.to(torch.float32))
        bound = bounds.softmax_gradient(x, -1, y)
        return bound.among((x, y), result)

    x, y = normal(6, 40, dtype=torch.float32), normal(40, 6, seed=1, dtype=torch.float32)
    assert learnt(x, y).small
    assert not learnt(x.double(), y).small
    assert not learnt(x.bfloat16(), y).small
    assert not learnt(torch.ones(6, bounds.SMALL_READ // 6 + 1), torch.ones(bounds.SMALL_READ // 6 + 1, 6)).small
    assert not learnt(torch.ones(bounds.SMALL // 2 + 1, 1), torch.ones(1, 2)).small


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_tensors_without_axes_are_left_to_torch(dtype):
    """NumPy makes numbers of them, which take no values: what the bound says of such a call, the verdict has to say."""
    x, grad = normal(dtype=dtype), normal(seed=1, dtype=dtype)
    count = 0
    for name, arguments in (("gelu", (x, False)), ("gelu", (x, True)), ("add", (x, x + 1)), ("sum", (x, None, None, False))):
        for operand in ("", "x"):
            incoming = grad if operand else None
            result = (ops()[name].reference(*arguments) if not operand else x + 1).detach()
            quantity = quantity_of(name, operand, arguments, incoming, result)
            bound = quantity.harmless
            learnt = bound.among(of_call(arguments, incoming), result) if isinstance(bound, bounds.Bound) else None
            if learnt is None or learnt.of(result, of_call(arguments, incoming)) is None:
                continue
            count += 1
            moved = torch.nextafter(result, result + 1)
            if learnt.small:
                near_bound = learnt.near(bounds.array(result), arrays_of(of_call(arguments, incoming)))
                assert near_bound[0] > 0 or near_bound[1].shape == (1,)
                numerics.harmless_small(moved, result, learnt, arrays_of(of_call(arguments, incoming)))
            judged = numerics.harmless(moved, result, learnt, of_call(arguments, incoming))
            assert judged is None or judged.verdict is Verdict.ROUNDING
    assert count > 4


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), 0.0])
def test_odd_values_are_no_worse_for_them_than_for_any(odd):
    """NaN, infinities and zeros in operands and results: what the one bound explains the other does, and nothing else."""
    explained = 0
    for call in calls(torch.float32, 0):
        learnt, (*_, arguments, grad, result) = learnt_of(call), call
        if learnt is None:
            continue
        for place in range(3):
            spoiled = [operand.clone() if isinstance(operand, torch.Tensor) else operand for operand in of_call(arguments, grad)]
            for operand in [value for value in spoiled if isinstance(value, torch.Tensor)][place : place + 1]:
                operand.view(-1)[0] = odd
            wanted = numerics.harmless(near(result), result, learnt, spoiled)
            harmless = numerics.harmless_small(near(result), result, learnt, arrays_of(spoiled))
            if harmless is not None:
                explained += 1
                assert wanted is not None
                assert harmless.verdict is wanted.verdict is Verdict.ROUNDING
                assert harmless.stats == wanted.stats
    assert explained > 20
