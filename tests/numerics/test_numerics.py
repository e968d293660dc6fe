"""The parts of the verdict: formats, oracles, bounds, samples and names, each against something independent."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from padiff_shim import numerics
from padiff_shim.catalogue.registry import ops
from padiff_shim.numerics import difference, precision
from padiff_shim.verdicts import Side, Verdict

F32, F64 = torch.float32, torch.float64


def generator(seed=0):
    return np.random.default_rng(seed)


def normal(*shape, dtype=F32, seed=0):
    return torch.from_numpy(generator(seed).standard_normal(shape)).to(dtype)


def quantity(op, *values):
    return ops()[op].model.forward(values)


def judge(quantity, paddle, torch_, **options):
    return numerics.judge(quantity, paddle, torch_, rng=generator(1), **options)


def through(x, dtype):
    return x.to(dtype).to(x.dtype)


# --- formats and oracles ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "dtype"), [("bf16", torch.bfloat16), ("fp16", torch.float16), ("float32", F32)])
def test_emulated_rounding_is_torchs(name, dtype):
    exponents = generator().uniform(-45, 45, 4000)
    x = generator(1).standard_normal(4000) * 2.0**exponents
    x = np.concatenate([x, [0.0, -0.0, np.inf, -np.inf, 65519.0, 65520.0, 2.0**-25, 2.0**-24 * 1.5, 3.4e38, 2.0**-140]])
    x = x.astype(np.float32).astype(np.float64) if name != "float32" else x
    assert np.array_equal(
        precision.rounded(x, name), torch.from_numpy(x).to(F32 if name != "float32" else F64).to(dtype).double().numpy()
    )


def test_tf32_keeps_ten_bits():
    x = np.array([1 + 2.0**-10, 1 + 2.0**-11, 1 + 3 * 2.0**-11, -(1 + 2.0**-11 + 2.0**-20)])
    assert precision.rounded(x, "tf32").tolist() == [1 + 2.0**-10, 1.0, 1 + 2.0**-9, -(1 + 2.0**-10)]
    assert precision.rounded(x, "tf32", truncate=True).tolist() == [1 + 2.0**-10, 1.0, 1 + 2.0**-10, -1.0]


@given(st.lists(st.tuples(st.floats(-8, 8, width=32), st.floats(-8, 8, width=32)), min_size=1, max_size=40))
def test_inner_product_against_fractions(pairs):
    """The oracle is right to float64, and sequential float32 arithmetic stays inside the any-order bound."""
    x, y = (torch.tensor(v, dtype=F32) for v in zip(*pairs))
    dot = quantity("dot", x, y)
    staged = dot.stage(())
    result = dot.solve(staged)
    exact = sum(Fraction(float(a)) * Fraction(float(b)) for a, b in zip(x, y))
    size = sum(abs(Fraction(float(a)) * Fraction(float(b))) for a, b in zip(x, y))
    assert abs(Fraction(float(result.value[0])) - exact) <= size * Fraction(2) ** -45
    total = np.float32(0)
    for a, b in zip(x.numpy(), y.numpy()):
        total = np.float32(total + np.float32(a * b))
    assert abs(Fraction(float(total)) - exact) <= Fraction(float(result.bound(len(pairs) + 2.0)[0]))


def test_confidence_grows_slowly():
    assert precision.confidence(1_000_000) == pytest.approx(7.53, abs=0.01)
    assert precision.gamma(1000.0, 2.0**-24) >= 1000 * 2.0**-24


# --- statistics and samples -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (7,), (40, 50), (70000,), (3, 300, 200)])
def test_statistics_of_the_whole_tensor(shape):
    t = normal(*shape)
    p = t + 1e-3 * normal(*shape, seed=1) * (normal(*shape, seed=2) > 0)
    stats = difference.differ(p, t).stats
    d = (p - t).abs().double()
    assert stats["count"] == t.numel()
    assert stats["different"] == int((p != t).sum())
    assert stats["max_abs"] == pytest.approx(float(d.max()), rel=1e-6)
    assert stats["mean_abs"] == pytest.approx(float(d.mean()), rel=1e-4)
    assert stats["rel_fro"] == pytest.approx(float(d.norm() / t.double().norm()), rel=1e-4)
    assert stats["tolerance"]["rtol"] == pytest.approx(float((d / t.double().abs()).max()), rel=1e-5)


def test_statistics_on_a_device_are_the_same():
    """The passes for an accelerator, run on the CPU."""
    t = normal(40, 50)
    p = t + 1e-3 * normal(40, 50, seed=1)
    t[3, 4] = p[3, 4] = 0.0
    for spoil in (0.0, math.nan):
        p[0, 0] += spoil
        host, device = difference.differ(p, t), difference._on_device(p, t, "float32")
        assert device.finite == host.finite == (spoil == 0.0)
        assert device.stats.pop("tolerance") == pytest.approx(host.stats.pop("tolerance"), rel=1e-6)
        assert device.stats == pytest.approx(host.stats, rel=1e-5)


@pytest.mark.parametrize("shape", [(300, 40, 50), (500, 700)])
@pytest.mark.parametrize("seed", range(4))
def test_one_corrupted_element_is_found_anywhere(shape, seed):
    x, w = normal(*shape, seed=seed), normal(64, shape[-1], seed=seed + 1)
    out = torch.nn.functional.linear(x, w)
    place = tuple(int(i) for i in generator(seed).integers(0, out.shape))
    wrong = out.clone()
    wrong[place] += 1.0
    verdict = judge(quantity("linear", x, w, None, False), wrong, out)
    assert (verdict.verdict, verdict.side) == (Verdict.LOCAL_WRONG, Side.PADDLE)
    assert verdict.stats["first_bad"] == list(place)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_one_corrupted_element_of_a_row_function(axis):
    x = normal(30, 40, 50)
    out = torch.softmax(x, axis)
    wrong = out.clone()
    wrong[11, 22, 33] *= 1.01
    verdict = judge(quantity("softmax", x, axis), out, wrong)
    assert (verdict.verdict, verdict.side) == (Verdict.LOCAL_WRONG, Side.TORCH)
    assert verdict.stats["first_bad"] == [11, 22, 33]


# --- verdicts ---------------------------------------------------------------------------------------------------------


def test_equal_is_not_right():
    """Two kernels that are wrong in the same way: only the audit sees it."""
    x, w = normal(20, 64), normal(30, 64, seed=1)
    wrong = torch.nn.functional.linear(x, w) * 1.5
    linear = quantity("linear", x, w, None, False)
    assert judge(linear, wrong, wrong.clone()).verdict is Verdict.EQUAL
    audited = judge(linear, wrong, wrong.clone(), audit=True)
    assert (audited.verdict, audited.side) == (Verdict.WRONG, Side.BOTH)
    right = torch.nn.functional.linear(x, w)
    assert judge(linear, right, right.clone(), audit=True).verdict is Verdict.EQUAL


def _tf32(x):
    return torch.from_numpy(precision.rounded(x.double().numpy(), "tf32")).to(x.dtype)


@pytest.mark.parametrize("side", ["paddle", "torch"])
@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("tf32-inputs", lambda x, w, b: torch.nn.functional.linear(_tf32(x), _tf32(w), b)),
        (
            "bf16-inputs-and-parameters",
            lambda x, w, b: torch.nn.functional.linear(*(through(v, torch.bfloat16) for v in (x, w, b))),
        ),
        ("bf16-output", lambda x, w, b: through(torch.nn.functional.linear(x, w, b), torch.bfloat16)),
        ("no-bias", lambda x, w, b: torch.nn.functional.linear(x, w)),
        ("bias-twice", lambda x, w, b: torch.nn.functional.linear(x, w, 2 * b)),
        ("weight-transposed", lambda x, w, b: torch.nn.functional.linear(x, w.t(), b)),
        ("last-element-dropped", lambda x, w, b: torch.nn.functional.linear(x[:, :-1], w[:, :-1], b)),
        ("tf32-inputs+no-bias", lambda x, w, b: torch.nn.functional.linear(_tf32(x), _tf32(w))),
    ],
)
def test_causes_are_named(name, fault, side):
    x, w, b = normal(200, 96), normal(96, 96, seed=1), normal(96, seed=2)
    out = torch.nn.functional.linear(x, w, b)
    wrong = fault(x, w, b)
    verdict = judge(quantity("linear", x, w, b, False), *((wrong, out) if side == "paddle" else (out, wrong)))
    names = {verdict.hypothesis, *verdict.alternatives, *("+".join(reversed((verdict.hypothesis or "").split("+"))),)}
    assert name in names, verdict
    assert verdict.side == side
    kind = Verdict.PRECISION_MODE if "-inputs" in name or "-output" in name else Verdict.SEMANTICS
    assert verdict.verdict is (Verdict.SEMANTICS if "+" in name else kind)


def test_a_fault_that_nobody_listed_gets_no_name():
    x, w = normal(200, 96), normal(80, 96, seed=1)
    out = torch.nn.functional.linear(x, w)
    verdict = judge(quantity("linear", x, w, None, False), out.roll(1, 0), out)
    assert (verdict.verdict, verdict.side, verdict.hypothesis) == (Verdict.WRONG, Side.PADDLE, None)


def test_bad_conditioning_is_said():
    x = torch.tensor([[1e8, 1.0, -1e8, 1.0]] * 40)
    out = x.sum(1)
    verdict = judge(quantity("sum", x, 1, None, False), out + 1.0, out)
    assert "ill_conditioned" in verdict.modifiers
    assert verdict.verdict is Verdict.ROUNDING


def test_statistics_name_the_bound_beside_the_error():
    x, w = normal(64, 128), normal(70, 128, seed=1)
    out = torch.nn.functional.linear(x, w)
    stats = judge(quantity("linear", x, w, None, False), (x.double() @ w.double().t()).float(), out).stats
    assert 0 < stats["error"] < stats["bound"]
    assert (stats["k"], stats["oracle"]) == (128, "float64")
    assert stats["lambda"] == pytest.approx(math.sqrt(2 * math.log(2e6 * out.numel())))
    assert stats["paddle"]["rho_max"] <= 1.0  # rounded once from float64
    assert stats["torch"]["rho_max"] >= stats["torch"]["rho_rms"] > 0


def test_random_state_is_left_alone():
    torch.manual_seed(3)
    np.random.seed(3)
    before = torch.get_rng_state(), np.random.get_state()[1].copy()
    x = normal(300, 96)
    judge(quantity("softmax", x, 1), torch.softmax(x.double(), 1).float() * 1.001, torch.softmax(x, 1))
    assert torch.equal(before[0], torch.get_rng_state())
    assert np.array_equal(before[1], np.random.get_state()[1])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_sixteen_bit_results(dtype):
    x, w = normal(64, 128, dtype=dtype), normal(70, 128, dtype=dtype, seed=1)
    out = torch.nn.functional.linear(x, w)
    exact = (x.double() @ w.double().t()).to(dtype)
    linear = quantity("linear", x, w, None, False)
    assert judge(linear, exact, out).verdict in (Verdict.ROUNDING, Verdict.EQUAL)
    assert judge(linear, exact * 1.1, out).verdict is Verdict.WRONG


@pytest.mark.parametrize("shape", [(6, 32), (1, 32), (6, 1), (1, 1), (1,), (), (2, 1, 32), (1, 6, 1)], ids=str)
def test_a_bias_of_several_axes_broadcasts_from_the_right(shape):
    """Paddle adds whatever bias fits: neither its result nor its gradient is wrong, and a fault in either is found."""
    random = np.random.default_rng(0)
    x, w = (torch.from_numpy(random.standard_normal(size).astype(np.float32)) for size in ((2, 6, 24), (32, 24)))
    bias, grad = (torch.from_numpy(random.standard_normal(size).astype(np.float32)) for size in (shape, (2, 6, 32)))
    arguments = (x, w, bias, False)
    out = torch.nn.functional.linear(x, w) + bias
    wide = (torch.nn.functional.linear(x.double(), w.double()) + bias.double()).float()
    forward = ops()["linear"].model.forward(arguments)
    backward = ops()["linear"].model.gradient("bias", arguments, out, grad)
    exact = grad.double().sum_to_size(shape).float()
    for quantity, exact_, other in ((forward, wide, out), (backward, exact, grad.sum_to_size(shape))):
        assert judge(quantity, exact_, other, audit=True).verdict.severity <= Verdict.ROUNDING.severity
        wrong = exact_.clone()
        wrong.view(-1)[-1] += exact_.abs().max() * 0.01
        assert judge(quantity, wrong, other).verdict.severity > Verdict.LOW_ACCURACY.severity


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, F32, F64], ids=str)
def test_a_small_tensor_is_judged_without_a_warning(dtype):
    """All places of a small result are looked at, by positions that are kept for the next one."""
    x, w = normal(5, 24, dtype=dtype), normal(7, 24, dtype=dtype, seed=1)
    right = torch.nn.functional.linear(x.double(), w.double()).to(dtype)
    for _ in range(2):
        assert judge(quantity("linear", x, w, None, False), right, right.clone(), audit=True).verdict is Verdict.EQUAL
        assert judge(quantity("linear", x, w, None, False), right * 2, right).verdict.severity > Verdict.LOW_ACCURACY.severity
