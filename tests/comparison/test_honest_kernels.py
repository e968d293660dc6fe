"""Honest kernels are never accused: every op of the table in every dtype, on few elements and on awkward values.

The calls are those of ``benchmarks/faults/honest.py``, a seeded part of them here and all of them in the ``slow`` test. Both
frameworks' kernels and the formula in float64, rounded at the end, are honest. A verdict that gives a name, says WRONG or says
LOW_ACCURACY to any of them is a false alarm, but for the shipped known differences.
"""

import sys
from pathlib import Path

import honest_formulas
import numpy as np
import pytest
import torch
from helpers import EVERY

from padiff_shim import numerics
from padiff_shim.catalogue.registry import ops
from padiff_shim.numerics import difference, precision
from padiff_shim.verdicts import HARD, Side, Verdict

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from faults import honest

SOFT = {Verdict.EQUAL, Verdict.ROUNDING}


def judge(quantity, paddle, torch_, **options):
    return numerics.judge(quantity, paddle, torch_, rng=np.random.default_rng(1), **options)


def sweep(dtype, seed, share):
    """(how many calls and gradients were judged, the false alarms with their call)."""
    count, results = 0, []
    for size in honest.SIZES:
        for problem in honest.problems(dtype, size, np.random.default_rng([seed, size]), share):
            count += 1
            results += [
                f"{problem.label} [{pair}]: {j.verdict} {j.side} {j.hypothesis}; {j.reason}"
                for pair, j in honest.alarms(problem, seed)
            ]
    return count, results


@pytest.mark.bitexact
@pytest.mark.parametrize("dtype", honest.DTYPES)
def test_no_honest_kernel_is_accused(dtype):
    count, result = sweep(dtype, 11, 0.01)
    assert count > 150
    assert not result, "\n".join([f"{len(result)} of {count}", *result[:12]])


@pytest.mark.slow
@pytest.mark.parametrize("seed", [21, 22, 23])
@pytest.mark.parametrize("dtype", honest.DTYPES)
def test_no_honest_kernel_is_accused_in_many_calls(dtype, seed):
    count, result = sweep(dtype, seed, 0.3)
    assert count > 5000
    assert not result, "\n".join([f"{len(result)} of {count}", *result[:12]])


@pytest.mark.parametrize(("name", "pairs"), [("cov", 300), ("scaled_dot_product_attention", 60), ("log_softmax", 150)])
def test_no_known_fault_explains_rounding(name, pairs):
    """The covariance of few rows may round as the formula does that centres one factor alone, whose bound is larger."""
    pairs = pairs if EVERY else pairs // 6
    count, result = honest_formulas.swept(ops()[name], pairs)
    assert count >= pairs
    assert not result, "\n".join(result[:12])


@pytest.mark.slow
@pytest.mark.parametrize("op", honest_formulas.tried(), ids=lambda op: op.name)
def test_no_known_fault_explains_rounding_in_many_calls(op):
    """For ten seconds an op; ``python tests/comparison/honest_formulas.py 10000 60`` asks more."""
    count, result = honest_formulas.swept(op, 10_000, seconds=10)
    assert count > 50
    assert not result, "\n".join(result[:12])


def test_the_sweep_has_every_op_with_a_model():
    swept = {case.op for case in honest.cases(3)}
    modelled = {name for name, op in ops().items() if op.model is not None}
    assert swept - {"logsumexp"} == modelled - {"einsum"}  # its products are matmul's


def test_the_sweep_sees_a_fault():
    """A kernel that is off by a few units of its own bound is an alarm there: the sweep can fail."""
    rng = np.random.default_rng(5)
    case = next(case for case in honest.cases(64) if case.op == "tanh")
    problem = honest.problem(case, "normal", "float32", rng)
    wrong = honest.wide_kernel(problem) * (1 + 2.0**-16)
    assert honest.verdict_of(problem, wrong, honest.wide_kernel(problem), 0).verdict in honest.ALARMS


# --- a name needs an error that is not inside the bound, and enough outputs ---------------------------------------------


def test_the_sum_of_one_number_is_never_named():
    """Of thousands of sums to one number some agree by accident with what rounded operands would give."""
    rng = np.random.default_rng(0)
    model = ops()["sum"].model
    for _ in range(400):
        x = torch.from_numpy((rng.uniform(0.5, 1.5, 1000) * rng.uniform(0.1, 1, 1000)).astype(np.float32))
        exact = float(x.double().sum())
        # what the error of an honest order of summation may be, and further
        off = np.float32(exact * (1 + rng.normal() * 2.0**-20))
        verdict = judge(model.forward((x, None, None, False)), torch.tensor(off), x.sum())
        assert verdict.verdict not in HARD, verdict


@pytest.mark.parametrize("count", [1, 3, 16, 256])
def test_saturated_tanh_is_rounding(count):
    """Kernels give 1 from somewhere near 8 on, which is within what any kernel of tanh may be off."""
    rng = np.random.default_rng(0)
    for _ in range(100):
        x = torch.from_numpy(rng.uniform(7, 9.2, count).astype(np.float32))
        early = torch.where(x > 8.0, torch.ones(()), torch.tanh(x))
        verdict = judge(ops()["tanh"].model.forward((x,)), early, torch.tanh(x.double()).float())
        assert verdict.verdict in SOFT, verdict


@pytest.mark.parametrize("exponents", [(0, 0), (-3, 2)])
def test_a_quotient_by_newton_is_rounding(exponents):
    """Vector units divide by a reciprocal and a Newton step: the farther neighbour of some quotients that lie near the middle."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        x = (rng.standard_normal((33, 300)) * 10 ** rng.uniform(*exponents)).astype(np.float32)
        y = np.abs(x) + np.float32(1)
        exact = x.astype(np.float64) / y
        near = x / y
        other = np.where(exact > near, np.nextafter(near, np.float32(np.inf)), np.nextafter(near, np.float32(-np.inf)))
        newton = np.where(np.abs(other - exact) < 0.56 * np.spacing(np.abs(near)), other, near)
        assert (newton != near).any()
        operands = torch.from_numpy(x), torch.from_numpy(y)
        verdict = judge(ops()["divide"].model.forward(operands), torch.from_numpy(newton), torch.from_numpy(near))
        assert verdict.verdict in SOFT, verdict


def test_inputs_in_tf32_are_named_from_a_few_outputs_on():
    """The same fault with one output, where an order of summation explains it, and with many."""
    rng = np.random.default_rng(2)

    def found(rows):
        x = torch.from_numpy(rng.uniform(0.5, 1.5, (rows, 1000)).astype(np.float32))
        narrow = torch.from_numpy(precision.rounded(x.double().numpy(), "tf32"))
        return judge(ops()["sum"].model.forward((x, 1, None, False)), narrow.sum(1).float(), x.double().sum(1).float())

    assert found(1).hypothesis is None
    many = found(64)
    assert (many.verdict, many.side, many.hypothesis) == (Verdict.PRECISION_MODE, Side.PADDLE, "tf32-inputs")


def test_few_digits_after_cancellation_are_no_narrow_format():
    """Differences of numbers near 1 have few digits in any format."""
    grid = torch.from_numpy(np.random.default_rng(0).integers(1, 900, 64) * 2.0**-23).float()
    x = torch.stack([1 + grid, -torch.ones(64), torch.full((64,), 0.6 * 2.0**-23)], 1)
    verdict = judge(ops()["sum"].model.forward((x, 1, None, False)), x[:, 0] + x[:, 1], x.double().sum(1).float())
    assert verdict.verdict in SOFT, verdict


def test_far_inside_the_bound_nobody_is_inaccurate():
    """A sequential sum of numbers of both signs beside a far better one: both are at thousandths of the bound."""
    rng = np.random.default_rng(0)
    grad = torch.from_numpy(rng.standard_normal((40000, 24)).astype(np.float32))
    x, y = torch.zeros(40000, 24), torch.zeros(24)
    one_by_one = torch.from_numpy(np.cumsum(grad.numpy(), 0)[-1])
    verdict = judge(ops()["add"].model.gradient("y", (x, y), None, grad), one_by_one, grad.double().sum(0).float(), audit=True)
    assert verdict.stats["paddle"]["prob"] < 0.02
    assert verdict.verdict is Verdict.ROUNDING, verdict


def test_equal_rows_are_one_observation():
    """Outputs that are copies of one another say no more than one of them."""
    x = torch.full((64, 200), 0.1)
    one_by_one = torch.from_numpy(np.cumsum(x.numpy(), 1)[:, -1].copy())
    verdict = judge(ops()["sum"].model.forward((x, 1, None, False)), one_by_one, x.double().sum(1).float())
    assert verdict.verdict is Verdict.ROUNDING, verdict


# --- 16 bits: every step may be rounded ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_steps_of_a_formula_in_sixteen_bits(dtype):
    rng = np.random.default_rng(3)
    x, y, grad = (torch.from_numpy(rng.uniform(1, 2, (11, 17))).to(dtype) for _ in range(3))
    number = torch.tensor(-2.3).to(dtype)
    steps = {
        "scale": (ops()["scale"].model.forward((x, -2.3, 0.9, True)), x * number + torch.tensor(0.9).to(dtype)),
        "number": (ops()["scale"].model.forward((x, 0.1, 0.0, True)), x * torch.tensor(0.1).to(dtype)),
        "pow x": (ops()["pow"].model.gradient("x", (x, y), None, grad), grad * (y * x.pow(y - 1))),
        "pow y": (ops()["pow"].model.gradient("y", (x, y), None, grad), grad * (x.pow(y) * x.log())),
        "tanh": (ops()["tanh"].model.gradient("x", (x,), None, grad), grad * (1 - x.tanh() * x.tanh())),
    }
    for name, (quantity, result) in steps.items():
        exact = torch.from_numpy(quantity.solve(quantity.stage(tuple(np.indices((11, 17)).reshape(2, -1)))).value)
        exact = exact.reshape(11, 17).to(dtype)
        assert judge(quantity, result, exact, audit=True).verdict in SOFT, name
        wrong = judge(quantity, result * torch.tensor(1.25).to(dtype), exact)
        assert wrong.verdict is Verdict.WRONG, name


# --- names and numbers of any size ----------------------------------------------------------------------------------------


def test_a_number_is_called_by_its_own_name():
    rng = np.random.default_rng(4)
    added, x, y, grad = (torch.from_numpy(rng.standard_normal((6, 6))) for _ in range(4))
    values = (added, x, y, 0.1, 1.0)
    single = float(np.float32(0.1))
    for incoming in (grad, torch.ones(6, 6, dtype=torch.float64)):
        quantity = ops()["addmm"].model.gradient("input", values, None, incoming)
        verdict = judge(quantity, incoming * single, incoming * 0.1)
        assert (verdict.verdict, verdict.side, verdict.hypothesis) == (Verdict.PRECISION_MODE, Side.PADDLE, "beta->float32")


@pytest.mark.skipif(not precision.WIDE, reason="long double is a double here")
@pytest.mark.parametrize("mask", [-70.0, -300.0, -400.0, -700.0, -1e4, -np.inf])
def test_a_clip_is_named_however_far_the_mask(mask):
    """The displacement in rounding units may be beyond the square root of the largest number."""
    x = torch.tensor([[0.3, -0.2, mask], [0.1, 1.2, mask], [2.0, -1.0, 0.5]], dtype=torch.float64)
    shifted = (x - x.amax(1, keepdim=True)).clamp(min=-64.0).exp()
    verdict = judge(ops()["softmax"].model.forward((x, 1)), shifted / shifted.sum(1, keepdim=True), torch.softmax(x, 1))
    assert (verdict.verdict, verdict.side, verdict.hypothesis) == (Verdict.SEMANTICS, Side.PADDLE, "clip=-64")


@pytest.mark.parametrize(("dtype", "sizes"), [(torch.float64, (1e200, 1e-200, 1e-310)), (torch.float32, (1e30, 1e-30, 1e-42))])
def test_statistics_of_any_size(dtype, sizes):
    rng = np.random.default_rng(6)
    base = torch.from_numpy(rng.uniform(1, 2, 3000))
    off = base * (1 + 1e-2 * torch.from_numpy(rng.standard_normal(3000)))
    for size in sizes:
        t, p = (base * size).to(dtype), (off * size).to(dtype)
        with np.errstate(all="ignore"):
            both = difference.differ(p, t), difference._on_device(p, t, str(dtype).removeprefix("torch."))
        for verdict in both:
            assert verdict.stats["rel_fro"] == pytest.approx(1e-2, rel=0.2)
            assert verdict.stats["mean_abs"] == pytest.approx(1.2e-2 * size, rel=0.2)
        t[0] = p[0] = np.inf
        with np.errstate(all="ignore"):
            verdict = difference.differ(p, t)
        assert not verdict.finite
        assert verdict.stats["rel_fro"] == pytest.approx(1e-2, rel=0.2)


def test_norms_of_any_size():
    for dtype in (np.float64, np.longdouble):
        for size in (1.0, 1e200, 1e-200, 5e-324):
            assert float(precision.norm(np.full(4, size, dtype)) / size) == pytest.approx(2.0)
    assert precision.norm(np.zeros(3)) == 0
    assert np.isinf(precision.norm(np.array([1.0, np.inf])))


def test_squares_beyond_the_range_of_a_kernel_promise_nothing():
    """A layer norm of numbers near the square root of the largest one is 0 in both frameworks."""
    x = 3e19 * torch.from_numpy(np.random.default_rng(7).standard_normal((4, 8))).float()
    verdict = judge(
        ops()["layer_norm"].model.forward((x, None, None, 1e-5, 1)), torch.zeros(4, 8), torch.zeros(4, 8) + 1e-30, audit=True
    )
    assert verdict.verdict is Verdict.ROUNDING
    assert "ill_conditioned" in verdict.modifiers
