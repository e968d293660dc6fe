"""What leaves the range on the way to a number that the dtype has not: nobody is accused, and poles are no such thing."""

import math

import numpy as np
import pytest
import torch
from formulas import judged

from padiff_shim import numerics
from padiff_shim.catalogue.registry import ops
from padiff_shim.verdicts import Side, Verdict

INF, NAN = math.inf, math.nan


def products(dtype):
    """Two matrices of large numbers, and their product: every element is beyond the range."""
    top = {torch.float32: 1e30, torch.float64: 1e300}[dtype]
    x, y = torch.full((3, 40), top, dtype=dtype), torch.full((40, 5), top, dtype=dtype)
    return x, y, torch.full((3, 5), INF, dtype=dtype)


def by_model(x, y, ours, theirs):
    values = (x, y, False, False)
    return numerics.judge(ops()["matmul"].model.forward(values), ours, theirs, rng=np.random.default_rng(1))


def by_formula(x, y, ours, theirs):
    return judged(torch.mm, [x, y], ours, theirs)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("judge", [by_model, by_formula])
def test_what_is_met_on_the_way_accuses_nobody(judge, dtype):
    x, y, right = products(dtype)
    for met in (NAN, -INF):
        verdict = judge(x, y, right.clone().fill_(met), right)
        assert verdict.verdict in (Verdict.UNVERIFIED, Verdict.EQUAL), verdict  # EQUAL: what no rounding settles is left out
        assert verdict.side is Side.NONE
        assert verdict.verdict is Verdict.EQUAL or "beyond the range" in verdict.reason


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_a_number_there_is_wrong(dtype):
    x, y, right = products(dtype)
    ours = right.clone()
    ours[1, 2] = 1.0
    result = by_model(x, y, ours, right)
    assert (result.verdict, result.side) == (Verdict.NONFINITE, Side.PADDLE), result


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_a_pole_is_a_value(dtype):
    x = torch.tensor([0.0, 1.0, 2.0], dtype=dtype)
    verdict = judged(torch.log, [x], torch.tensor([NAN, *torch.log(x[1:])], dtype=dtype), torch.log(x))
    assert (verdict.verdict, verdict.side) == (Verdict.NONFINITE, Side.PADDLE), verdict


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_an_infinite_operand_is_no_excuse(dtype):
    x, y, right = products(dtype)
    x[0, 0] = INF
    result = by_formula(x, y, right.clone().fill_(NAN), right)
    assert (result.verdict, result.side) == (Verdict.NONFINITE, Side.PADDLE), result


def test_places_of_an_interpolation_are_rounded():
    """A neighbour that exact places give nothing gets a part of about the roundoff of the place."""
    x = torch.zeros(1, 1, 64)
    x[..., 40] = 1e30
    kernel = lambda t: torch.nn.functional.interpolate(t, scale_factor=3.0, mode="linear", align_corners=True)  # noqa: E731
    theirs, ours = kernel(x), kernel(x)
    beside = int(ours.abs().argmax()) + 4
    ours[..., beside] += 1e30 * 2.0**-20
    assert judged(kernel, [x], ours, theirs).verdict in (Verdict.EQUAL, Verdict.ROUNDING)
    ours[..., beside] += 1e30 * 2.0**-8
    assert judged(kernel, [x], ours, theirs).verdict not in (Verdict.EQUAL, Verdict.ROUNDING)
