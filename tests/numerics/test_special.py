"""The oracle of special functions is held against mpmath; where Torch's own float64 is none, the package has its own formulas."""

import mpmath
import numpy as np
import pytest
import torch
from formulas import INNOCENT, gradient, judged

from padiff_shim.numerics import noise, steps
from padiff_shim.numerics.measured import Formula
from padiff_shim.verdicts import Side, Verdict

F32, F64 = torch.float32, torch.float64
ROOT = 1.4616321449683622  # of digamma
rng = np.random.default_rng(0)


def spread(low, high, count=60):
    return np.exp(rng.uniform(np.log(low), np.log(high), count))


def beside(place, count=40):
    return place + rng.uniform(-1, 1, count) * 10.0 ** rng.uniform(-10, -1, count)


NEAR = spread(0.05, 300, 80)
POSITIVE = np.concatenate([spread(1e-3, 1e3), beside(ROOT), beside(1.0), beside(2.0)])
REAL = np.concatenate([POSITIVE, rng.uniform(-6, 0, 60)])
INSIDE = np.concatenate([rng.uniform(-1, 1, 40), 10.0 ** rng.uniform(-20, -1, 40), 1 - 10.0 ** rng.uniform(-15, -1, 40)])
ANY = np.concatenate([rng.uniform(-30, 30, 60), 10.0 ** rng.uniform(-8, 0, 40)])
# By name: the formula, what it means, and its operands.
FUNCTIONS = {
    "digamma": (torch.digamma, mpmath.digamma, REAL),
    "trigamma": (lambda x: torch.polygamma(1, x), lambda x: mpmath.polygamma(1, x), REAL),
    "polygamma of 2": (lambda x: torch.polygamma(2, x), lambda x: mpmath.polygamma(2, x), POSITIVE),
    "polygamma of 5": (lambda x: torch.polygamma(5, x), lambda x: mpmath.polygamma(5, x), POSITIVE),
    "lgamma": (torch.lgamma, lambda x: mpmath.log(abs(mpmath.gamma(x))), REAL),
    "erfinv": (torch.erfinv, mpmath.erfinv, INSIDE),
    "erf": (torch.erf, mpmath.erf, ANY),
    "i0": (torch.special.i0, lambda x: mpmath.besseli(0, x), ANY),
    "i0e": (torch.special.i0e, lambda x: mpmath.exp(-abs(x)) * mpmath.besseli(0, x), ANY),
    "i1": (torch.special.i1, lambda x: mpmath.besseli(1, x), ANY),
    "i1e": (torch.special.i1e, lambda x: mpmath.exp(-abs(x)) * mpmath.besseli(1, x), ANY),
    "ndtri": (torch.special.ndtri, lambda x: mpmath.sqrt(2) * mpmath.erfinv(2 * x - 1), rng.uniform(0, 1, 60)),
    "multigammaln": (
        lambda x: torch.special.multigammaln(x, 3),
        lambda x: mpmath.log(mpmath.pi) * 1.5 + sum(mpmath.log(mpmath.gamma(x - mpmath.mpf(j) / 2)) for j in range(3)),
        rng.uniform(1.1, 20, 60),
    ),
    "gammainc": (
        torch.special.gammainc,
        lambda a, x: mpmath.gammainc(a, 0, x, regularized=True),
        NEAR,
        NEAR * np.exp(rng.uniform(-1.5, 1.5, 80)),
    ),
    "gammaincc": (
        torch.special.gammaincc,
        lambda a, x: mpmath.gammainc(a, x, mpmath.inf, regularized=True),
        NEAR,
        NEAR * np.exp(rng.uniform(-1.5, 1.5, 80)),
    ),
}


def exact(name, *operands):
    """What mpmath says, as float64 pairs: the value and what float64 leaves of it."""
    with mpmath.workdps(60):
        values = [FUNCTIONS[name][1](*map(mpmath.mpf, row)) for row in zip(*(operand.tolist() for operand in operands))]
        return [(float(value), float(value - float(value))) for value in values]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_oracle_is_right_in_float64(name):
    """Its own error is less than half of what the verdict allows a kernel."""
    kernel, _, *operands = FUNCTIONS[name]
    formula = Formula.of(kernel, [torch.from_numpy(operand) for operand in operands], F64, 1)
    formula.probe(24)
    value, rest = np.array(exact(name, *operands)).T
    error = np.abs((formula.value.numpy() - value) - rest)
    bound = formula.everywhere().bound(2.0)
    assert (error <= bound / 2).all(), (error / bound).max()
    # A bound that anything fits would prove nothing: it is that of a few roundings, away from the roots.
    assert np.median(bound / np.abs(value)) < 1e-13


def formula_value(kernel, operands):
    """What the verdict takes for right."""
    return noise.exact(kernel, [operand.double() for operand in operands])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_value_rounded_once_is_innocent(name):
    kernel, _, *operands = FUNCTIONS[name]
    narrow = [torch.from_numpy(operand).float() for operand in operands]
    narrow = [operand[(narrow[-1].abs() < 1) | (name != "erfinv")] for operand in narrow]  # float32 makes 1 of some of them
    right = torch.tensor([value for value, _ in exact(name, *narrow)]).float()
    assert judged(kernel, narrow, right, formula_value(kernel, narrow).float(), audit=True).verdict in INNOCENT


@pytest.mark.parametrize("dtype", [F32, F64])
def test_another_recurrence_near_the_root_is_rounding(dtype):
    """A kernel that comes from further out by more steps cancels more terms, and is as honest."""
    x = torch.from_numpy(np.concatenate([beside(ROOT, 200), rng.uniform(0.5, 2.5, 200)])).to(dtype)
    total, at = torch.zeros_like(x), x
    for _ in range(14):
        total, at = total - 1 / at, at + 1
    square, series = 1 / (at * at), torch.zeros_like(x)
    for share in (1 / 12, -691 / 32760, 1 / 132, -1 / 240, 1 / 252, -1 / 120, 1 / 12):  # the last ones are the first in the series
        series = square * (share + series)
    ours = total + (at.log() - 0.5 / at - series)
    judgement = judged(torch.digamma, [x], ours)
    assert judgement.verdict in INNOCENT, judgement


@pytest.mark.rows(6)
@pytest.mark.parametrize("dtype", [F32, F64])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_fault_is_found(name, dtype):
    """One element, 64 units of its bound off, and all of them by a thousandth: on either side."""
    kernel, _, *operands = FUNCTIONS[name]
    narrow = [torch.from_numpy(operand).to(dtype) for operand in operands]
    formula = Formula.of(kernel, narrow, dtype, 1)
    formula.probe(24)
    right, unit = formula.value.to(dtype), torch.from_numpy(formula.everywhere().bound(1.0))
    place = int((unit / formula.value.abs()).nan_to_num(torch.inf).argmin())
    single, every = right.clone(), right * 1.001
    single[place] += 64 * unit[place].to(dtype)
    for wrong in (single, every):
        for side, pair in ((Side.PADDLE, (wrong, right)), (Side.TORCH, (right, wrong))):
            judgement = judged(kernel, narrow, *pair)
            assert judgement.verdict.severity > Verdict.LOCAL_SUSPECT.severity, judgement
            assert judgement.side is side, judgement


def test_torchs_trigamma_is_named_as_the_wrong_one():
    x = torch.linspace(0.3, 4, 50, dtype=F64)
    kernel = lambda v: torch.special.polygamma(1, v)  # noqa: E731
    right = steps.polygamma(1, x)
    judgement = judged(kernel, [x], right, kernel(x))
    assert (judgement.verdict, judgement.side) == (Verdict.WRONG, Side.TORCH), judgement
    grad = torch.ones_like(x)
    derivative = gradient(torch.digamma, 0)
    assert judged(derivative, [x, grad], right, derivative(x, grad)).side is Side.TORCH


def test_edges_are_torchs():
    a, x = torch.tensor([0.0, 1.0, 0.0, 2.0, torch.nan, -1.0]), torch.tensor([1.0, 0.0, 0.0, torch.inf, 1.0, 1.0])
    for mended, kernel in ((steps.lower, torch.special.gammainc), (steps.upper, torch.special.gammaincc)):
        torch.testing.assert_close(mended(a.double(), x.double()), kernel(a.double(), x.double()), rtol=0, atol=0, equal_nan=True)
    poles = torch.tensor([0.0, -1.0, -2.0, torch.inf, torch.nan], dtype=F64)
    assert steps.polygamma(1, poles).tolist()[:4] == [torch.inf, torch.inf, torch.inf, 0.0]


@pytest.mark.parametrize("dtype", [F32, F64])
def test_steps_of_a_formula_are_mended_too(dtype):
    """The gradient of digamma, and of what is made of it, meets the same trigamma."""
    x = torch.linspace(0.3, 4, 20, dtype=dtype)
    value = noise.exact(gradient(lambda v: torch.digamma(v) ** 2, 0), [x.double(), torch.ones(20, dtype=F64)])
    right = 2 * torch.digamma(x.double()) * steps.polygamma(1, x.double())
    assert float((value - right).abs().max()) < 1e-12
